"""A suite: a YAML file of methods, grids and seeds on one dataset, in tiers, with --set, --only, --seeds and --tier over it."""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from generators.catalog import did_you_mean
from generators.dataset import UserError
from suppression_bench.cell import SuiteName, value_text
from suppression_bench.config import Faults, Layer, LocatedCell, Origin, compose, read_yaml

SUITES = Path(__file__).parent / "suites"


@dataclass(frozen=True)
class Request:
    """What the command line adds to a suite: --set, --only, --seeds, --tier."""

    set: dict[str, Any] = field(default_factory=dict)
    only: dict[str, list] = field(default_factory=dict)
    seeds: int | None = None
    tier: str | None = None


def cells_of_suite(name: str, request: Request) -> list[LocatedCell]:
    """The cells of a suite's tier; the other tiers are checked too, as they stand in the file.

    Raises:
        UserError: every fault of the file and of the command line's settings at once.
    """
    suite, short = read_yaml(SUITES, name)
    faults = Faults()
    chosen = chosen_tier(suite, request.tier, f"suite {short}", faults)
    cells: list[LocatedCell] = []
    for tier in tiers_of(suite, f"suite {short}", faults):
        if tier.name == chosen:
            cells = cells_of_tier(tier, short, request, faults)
        else:
            cells_of_tier(tier, short, Request(), faults)
    faults.raise_if_any()
    return select(list({located.cell.id: located for located in cells}.values()), request.only)


def suite_folder(name: str, tier: str | None) -> str:
    """What a suite's run is called: its name, and its tier behind it where that is not the default one.

    >>> suite_folder("quick", None)
    'quick'
    """
    suite, short = read_yaml(SUITES, name)
    return short if tier is None or tier == suite.get("tier") else f"{short}-{tier}"


class CellKeys(msgspec.Struct):
    """The keys of a cell of a suite; one on other data than the suite's names data, strength and recipe itself."""

    method: str
    grid: dict = {}
    set: dict = {}
    seeds: list = []
    data: dict = {}
    strength: str = ""
    recipe: str = ""


class TierKeys(msgspec.Struct):
    """The keys of a tier of a suite."""

    title: str = ""
    data: dict = {}
    recipe: str = ""
    set: dict = {}
    seeds: list = []
    cells: list = []


class SuiteKeys(TierKeys, kw_only=True):
    """The keys of a suite."""

    version: int
    strength: str = ""
    tier: str = ""
    tiers: dict = {}


REQUIRED = ("data", "recipe", "cells")  # of every tier, from the tier itself or from the common part
TYPE_WORDS = {int: "an integer", str: "a text", dict: "names and values", list: "a list"}


def well_formed(mapping: Any, keys: type[msgspec.Struct], what: str, faults: Faults) -> dict:
    """The entries of a mapping that fit their keys' types; unknown, missing and wrong ones become faults."""
    if not isinstance(mapping, dict):
        faults.append(f"{what}: expected names and values, got {mapping!r}")
        return {}
    fields = {entry.name: entry for entry in msgspec.structs.fields(keys)}
    faults += [f"{what}: unknown key {key!r}, {did_you_mean(key, fields)}" for key in mapping.keys() - fields]
    faults += [
        f"{what}: the key {name!r} is missing" for name, f in fields.items() if f.required and name not in mapping
    ]
    good = {}
    for name, value in mapping.items():
        if name not in fields:
            continue
        if not isinstance(value, fields[name].type) or isinstance(value, bool):
            faults.append(f"{what}: {name} must be {TYPE_WORDS[fields[name].type]}, got {value!r}")
        elif name == "seeds" and not (value and all(type(seed) is int and seed >= 0 for seed in value)):
            faults.append(f"{what}: seeds must be a list of integers from 0, got {value!r}")
        else:
            good[name] = value
    return good


@dataclass(frozen=True)
class Tier:
    """A suite as one of its tiers has it, well-formed entries only.

    name: "" for a suite without tiers.
    what: names it in errors.
    content: the suite's keys; `data` is the common part's with the tier's over it, the others the tier's where it has
        them.
    sets: the settings of the common part and of the tier.
    cells_in: where `cells` stand, for errors.
    """

    name: str
    what: str
    content: dict[str, Any]
    sets: list[Layer]
    cells_in: str


def tiers_of(suite: dict, what: str, faults: Faults) -> list[Tier]:
    """Every tier of a suite, or the suite itself where it has none."""
    common = well_formed(suite, SuiteKeys, what, faults)
    tiers, default = common.pop("tiers", {}), common.pop("tier", None)
    if not tiers:
        if suite.get("tiers") == {}:
            faults.append(f"{what}: tiers is empty")
        elif default is not None and "tiers" not in suite:
            faults.append(f"{what}: tier names {default!r}, but the suite has no tiers")
        _require(suite, {}, what, faults)
        return [_merge_tier(common, {}, "", what, what)]
    if default is None and "tier" not in suite:
        faults.append(f"{what}: the key 'tier' is missing: it names the default one of the tiers")
    elif default is not None and default not in tiers:
        hint = did_you_mean(default, map(str, tiers))
        faults.append(f"{what}: unknown default tier {default!r}, {hint}")
    merged = []
    for name, content in tiers.items():
        tier_what = f"{what}, tier {name}"
        part = well_formed(content, TierKeys, tier_what, faults)
        if isinstance(content, dict):
            _require(suite, content, tier_what, faults)
            merged.append(_merge_tier(common, part, str(name), tier_what, what))
    return merged


def _merge_tier(common: dict, part: dict, name: str, what: str, suite_what: str) -> Tier:
    content = {**common, **part}
    if "data" in common and "data" in part:
        content["data"] = {**common["data"], **part["data"]}
    sets = [(where, settings["set"]) for where, settings in ((suite_what, common), (what, part)) if "set" in settings]
    return Tier(name, what, content, sets, what if "cells" in part else suite_what)


def _require(suite: dict, part: dict, what: str, faults: Faults) -> None:
    faults += [f"{what}: the key {key!r} is missing" for key in REQUIRED if key not in suite and key not in part]
    if part.get("cells", suite.get("cells")) == []:
        faults.append(f"{what}: cells is empty")


def chosen_tier(suite: dict, tier: str | None, what: str, faults: Faults) -> str:
    """The name of the tier to run: that of the command line, or the file's default; "" for a suite without tiers."""
    tiers = suite.get("tiers")
    names = [str(name) for name in tiers] if isinstance(tiers, dict) else []
    if tier is None:
        return str(suite.get("tier", "")) if names else ""
    if not names:
        faults.append(f"{what} has no tiers: leave --tier {tier} out")
        return ""
    if tier not in names:
        faults.append(f"{what}: unknown tier {tier!r}, {did_you_mean(tier, names)}")
    return tier


def cells_of_tier(tier: Tier, suite_name: str, request: Request, faults: Faults) -> list[LocatedCell]:
    """The cells of one tier, --only not yet applied."""
    cells = []
    for position, entry in enumerate(tier.content.get("cells", []), 1):
        where = f"{tier.cells_in}, cell {position}"
        part = well_formed(entry, CellKeys, where, faults)
        if "method" in part and {"data", "recipe"} <= tier.content.keys():
            cells += _cells_of_entry(tier, suite_name, part, position, request, faults)
    return cells


def _cells_of_entry(
    tier: Tier, suite_name: str, part: dict, position: int, request: Request, faults: Faults
) -> list[LocatedCell]:
    what, where = f"{tier.what}, cell {position}", f"{tier.cells_in}, cell {position}"
    # A cell on other data than the suite's names them whole: options of two datasets would not go together.
    suite = {**tier.content, **{key: part[key] for key in ("data", "strength", "recipe") if key in part}}
    grid = {key: values if isinstance(values, list) else [values] for key, values in part.get("grid", {}).items()}
    faults += [f"{where}: the grid of {key} is empty" for key, values in grid.items() if not values]
    seeds = part.get("seeds") or (list(range(request.seeds)) if request.seeds else suite.get("seeds") or [0])
    name = SuiteName(name=suite_name, version=suite.get("version", 0))
    cells = []
    for values in itertools.product(*grid.values()):
        point = dict(zip(grid, values, strict=True))
        layers = [
            (what, {f"data.{key}": value for key, value in suite["data"].items()}),
            *((f"{place}, cell {position}", settings) for place, settings in tier.sets),
            (where, part.get("set") or {}),
            (where, point),
            ("--set", request.set),
        ]
        origin = Origin(what, name, suite.get("strength"), (*point, *request.set))
        try:
            cells += compose(part["method"], suite["recipe"], layers, seeds, origin, faults)
        except UserError as error:
            faults.append(str(error) if str(error).startswith(("--set", where)) else f"{what}: {error}")
    return cells


# ---- --only ----


def select(cells: list[LocatedCell], only: dict[str, list]) -> list[LocatedCell]:
    """The cells that have, for every key of --only, one of its values; a cell without the key is dropped.

    Raises:
        UserError: a key that no cell has, or no cell left.
    """
    for key, values in only.items():
        having = [(cell, value) for cell in cells if (value := _value_of(cell, key)) is not None]
        if not having:
            names = {name.partition(".")[2] for cell in cells for name in cell.cell.settings()}
            names |= {"method", "loss", "encoder", "seed"}
            raise UserError(f"--only {key}: no cell has it, {did_you_mean(key, names)}")
        kept = [cell for cell, value in having if any(_is_same(value, choice) for choice in values)]
        if not kept:
            present = ", ".join(dict.fromkeys(value_text(value) for _, value in having))
            raise UserError(f"--only {key}={','.join(map(str, values))}: no cell left; {key} is one of {present}")
        cells = kept
    return cells


def _value_of(located: LocatedCell, key: str) -> Any:
    key, cell = key.replace("-", "_"), located.cell
    if key in ("method", "loss", "encoder"):
        plugin = getattr(cell, key)
        return plugin.name if plugin else None
    values = {**cell.settings(), "seed": cell.seed}
    if located.dataset:
        values |= {f"data.{name}": value for name, value in located.dataset[1].items()}
    if key in values:
        return values[key]
    return next((value for name, value in values.items() if name.partition(".")[2] == key), None)


def _is_same(value: Any, choice: Any) -> bool:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            return float(value) == float(choice)
        except (TypeError, ValueError):
            return False
    return value_text(value).replace("-", "_") == str(choice).replace("-", "_")


def settings_of(cells: Iterable[LocatedCell]) -> list[LocatedCell]:
    """One cell for each setting, whatever its seed."""
    by_setting = {}
    for located in cells:
        by_setting.setdefault((msgspec.structs.replace(located.cell, seed=0).id), located)
    return list(by_setting.values())
