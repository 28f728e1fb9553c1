"""A suite is a plain file: YAML in, cells (grid x methods x seeds) out, all faults of the file collected."""

import itertools
from dataclasses import dataclass, field
from pathlib import Path

from generators import options
from generators.dataset import UserError
from suppression_bench import tiers
from suppression_bench.spec import Cell, Origin, flat, make_cells, read_yaml, show
from suppression_bench.tiers import Variant

SUITES = Path(__file__).parent / "suites"


@dataclass
class Request:
    """What the command line adds to a suite: --set, --only, --seeds, --tier."""

    set: dict = field(default_factory=dict)
    only: dict[str, list] = field(default_factory=dict)
    seeds: int | None = None
    tier: str | None = None


def cells_of_suite(name: str, request: Request) -> list[Cell]:
    """The cells of a suite's tier, checked; the other tiers are checked too, as they stand in the file.

    Raises:
        UserError: every fault of the file and of the command line's settings at once.
    """
    suite, short = read_yaml(SUITES, name)
    what = f"suite {short}"
    found, faults = tiers.variants(suite, what)
    chosen, more = tiers.choose(suite, request.tier, what)
    faults += more
    cells: list[Cell] = []
    for variant in found:
        wanted = variant.tier == chosen
        made, more = cells_of_tier(variant, short, request if wanted else Request())
        cells += made if wanted else []
        faults += more
    if faults:
        raise UserError("\n".join(dict.fromkeys(faults)))
    return select(list({cell.identity: cell for cell in cells}.values()), request.only)


def folder_name(name: str, tier: str | None) -> str:
    """What a suite's run is called: its name, and its tier behind it where that is not the default one.

    >>> folder_name("quick", None)
    'quick'
    """
    suite, short = read_yaml(SUITES, name)
    return short if tier is None or tier == suite.get("tier") else f"{short}-{tier}"


def cells_of_tier(variant: Variant, short: str, request: Request) -> tuple[list[Cell], list[str]]:
    """The cells of one tier, --only not yet applied, and every fault.

    Arguments:
        variant: the tier.
        short: the suite's name, which goes into each cell.
        request: what the command line adds.
    """
    found, faults = [], []
    for position, cell in enumerate(variant.content.get("cells", [])):
        number = f"cell {position + 1}"
        faults += tiers.key_faults(cell, tiers.CELL_KEYS, ("method",), f"{variant.cells_in}, {number}")
        whole = {"data", "recipe"} <= variant.content.keys()
        if whole and isinstance(cell, dict) and isinstance(cell.get("method"), str):
            made, more = _cells(variant, short, tiers.usable(cell, tiers.CELL_KEYS), number, request)
            found += made
            faults += more
    return found, faults


def _cells(variant: Variant, short, cell, number, request) -> tuple[list[Cell], list[str]]:
    what, own = f"{variant.what}, {number}", f"{variant.cells_in}, {number}"
    # A cell on other data than the suite's names them whole: options of two datasets would not go together.
    suite = {**variant.content, **{key: cell[key] for key in ("data", "strength", "recipe") if key in cell}}
    grid = {key: values if isinstance(values, list) else [values] for key, values in cell.get("grid", {}).items()}
    seeds = cell.get("seeds") or (list(range(request.seeds)) if request.seeds else suite.get("seeds") or [0])
    found, faults = [], [f"{own}: the grid of {key} is empty" for key, values in grid.items() if not values]

    def origin(chosen: dict) -> Origin:
        named = {"name": short, "version": suite.get("version")}
        return Origin(what, named, suite.get("strength"), (*chosen, *request.set))

    for point in itertools.product(*grid.values()):
        chosen = dict(zip(grid, point, strict=True))
        layers = [
            (what, {f"data.{key}": value for key, value in suite["data"].items()}),
            *((f"{place}, {number}", settings) for place, settings in variant.sets),
            (own, cell.get("set") or {}),
            (own, chosen),
            ("--set", request.set),
        ]
        try:
            made, more = make_cells(cell["method"], suite["recipe"], layers, seeds, origin(chosen))
        except UserError as error:
            made, more = [], [str(error) if str(error).startswith(("--set", own)) else f"{what}: {error}"]
        found += made
        faults += more
    return found, faults


def select(cells: list[Cell], only: dict[str, list]) -> list[Cell]:
    """The cells that have, for every key of --only, one of its values; a cell without the key is dropped.

    Raises:
        UserError: a key that no cell has, or nothing left.
    """
    for key, values in only.items():
        having = [(cell, found) for cell in cells for found in [_value(cell, key)] if found is not None]
        if not having:
            names = sorted(
                {name.partition(".")[2] for cell in cells for name in flat(cell.spec)} | {"method", "bits", "seed"}
            )
            raise UserError(f"--only {key}: no cell has it, {options.did_you_mean(key, names)}")
        kept = [cell for cell, found in having if any(_same(found, value) for value in values)]
        if not kept:
            there = ", ".join(dict.fromkeys(show(found) for _, found in having))
            raise UserError(f"--only {key}={','.join(map(str, values))}: no cell left; {key} is one of {there}")
        cells = kept
    return cells


def _value(cell: Cell, key: str):
    key = key.replace("-", "_")
    if key in ("method", "loss", "encoder"):
        return cell.spec[key]["name"] if cell.spec[key] else None
    values = {**flat(cell.spec), "seed": cell.spec["seed"]}
    if cell.dataset:
        values.update({f"data.{name}": value for name, value in cell.dataset[1].items()})
    if key in values:
        return values[key]
    return next((value for name, value in values.items() if name.partition(".")[2] == key), None)


def _same(found, value) -> bool:
    if isinstance(found, (int, float)) and not isinstance(found, bool):
        try:
            return float(found) == float(value)
        except (TypeError, ValueError):
            return False
    return show(found).replace("-", "_") == str(value).replace("-", "_")
