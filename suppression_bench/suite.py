"""A suite is a plain file: YAML in, cells (grid x methods x seeds) out, all faults of the file collected."""

import itertools
from dataclasses import dataclass, field
from pathlib import Path

from generators import options
from generators.dataset import UserError
from suppression_bench.spec import Cell, Origin, flat, make_cells, read_yaml, show

SUITES = Path(__file__).parent / "suites"
SUITE_KEYS = {
    "version": int,
    "title": str,
    "data": dict,
    "strength": str,
    "recipe": str,
    "set": dict,
    "seeds": list,
    "cells": list,
}
CELL_KEYS = {"method": str, "grid": dict, "set": dict, "seeds": list}


@dataclass
class Request:
    """What the command line adds to a suite: --set, --only, --seeds, and a data folder in place of the suite's."""

    set: dict = field(default_factory=dict)
    only: dict[str, list] = field(default_factory=dict)
    seeds: int | None = None


def cells_of_suite(name: str, request: Request) -> list[Cell]:
    """The cells of a suite, checked.

    Raises:
        UserError: every fault of the file and of the command line's settings at once.
    """
    suite, short = read_yaml(SUITES, name)
    what = f"suite {short}"
    faults = _key_faults(suite, SUITE_KEYS, ("version", "data", "recipe", "cells"), what)
    cells = suite.get("cells") if isinstance(suite.get("cells"), list) else []
    for position, cell in enumerate(cells):
        faults += _key_faults(cell, CELL_KEYS, ("method",), f"{what}, cell {position + 1}")
    found, usable = [], _usable(suite, SUITE_KEYS)
    for position, cell in enumerate(cells if {"data", "recipe"} <= usable.keys() else []):
        if isinstance(cell, dict) and isinstance(cell.get("method"), str):
            here = f"{what}, cell {position + 1}"
            made, more = _cells(usable, short, _usable(cell, CELL_KEYS), here, request)
            found += made
            faults += more
    if not cells and isinstance(suite.get("cells"), list):
        faults.append(f"{what}: cells is empty")
    if faults:
        raise UserError("\n".join(dict.fromkeys(faults)))
    return select(list({cell.identity: cell for cell in found}.values()), request.only)


def _usable(mapping: dict, keys: dict) -> dict:
    # What is well-formed, so that one wrong entry does not hide the faults of the others.
    good = {key: value for key, value in mapping.items() if key in keys and isinstance(value, keys[key])}
    if not _whole_numbers(good.get("seeds", [])):
        del good["seeds"]
    return good


def _whole_numbers(values: list) -> bool:
    return all(type(value) is int and value >= 0 for value in values)


def _key_faults(mapping, keys: dict, required: tuple, what: str) -> list[str]:
    if not isinstance(mapping, dict):
        return [f"{what}: expected names and values, got {mapping!r}"]
    faults = [f"{what}: unknown key {key!r}, {options.did_you_mean(key, keys)}" for key in mapping if key not in keys]
    faults += [f"{what}: the key {key!r} is missing" for key in required if key not in mapping]
    words = {int: "an integer", str: "a text", dict: "names and values", list: "a list"}
    for key, kind in keys.items():
        if key in mapping and (not isinstance(mapping[key], kind) or isinstance(mapping[key], bool)):
            faults.append(f"{what}: {key} must be {words[kind]}, got {mapping[key]!r}")
    seeds = mapping.get("seeds")
    if isinstance(seeds, list) and not (seeds and _whole_numbers(seeds)):
        faults.append(f"{what}: seeds must be a list of integers from 0, got {seeds!r}")
    return faults


def _cells(suite, short, cell, what, request) -> tuple[list[Cell], list[str]]:
    grid = {key: values if isinstance(values, list) else [values] for key, values in cell.get("grid", {}).items()}
    seeds = cell.get("seeds") or (list(range(request.seeds)) if request.seeds else suite.get("seeds") or [0])
    found, faults = [], [f"{what}: the grid of {key} is empty" for key, values in grid.items() if not values]

    def origin(chosen: dict) -> Origin:
        named = {"name": short, "version": suite.get("version")}
        return Origin(what, named, suite.get("strength"), (*chosen, *request.set))

    for point in itertools.product(*grid.values()):
        chosen = dict(zip(grid, point, strict=True))
        layers = [
            (what, {f"data.{key}": value for key, value in suite["data"].items()}),
            (what, suite.get("set") or {}),
            (what, cell.get("set") or {}),
            (what, chosen),
            ("--set", request.set),
        ]
        try:
            made, more = make_cells(cell["method"], suite["recipe"], layers, seeds, origin(chosen))
        except UserError as error:
            made, more = [], [str(error) if str(error).startswith(("--set", what)) else f"{what}: {error}"]
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
