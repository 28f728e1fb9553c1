"""The baseline of `bench check`: one strict JSON file with the numbers of at least ten seeds of every cell."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from generators import strict_json
from generators.dataset import UserError
from suppression_bench.results import observed as places
from suppression_bench.results.observed import Observed, Place, Seen

SCHEMA = 1
LEAST = 10  # seeds
LARGEST = 8_000_000
MOST_FAULTS = 10  # of a damaged file, printed

KEYS = {"schema": int, "suite": (dict, type(None)), "environment": dict, "cells": list}
SUITE_KEYS = {"name": str, "version": int}
NAMES = ("dataset", "method", "setting", "encoder", "recipe", "strength_name", "strength")
PLACE = ("settings", "probe", "layer", "feature")
CELL_KEYS = {**dict.fromkeys((*NAMES, *PLACE, "digest"), str), "n": int, "seeds": list, "correct": list}
DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Baseline:
    """A suite's name and version (or None), where the numbers were made (informative), and the numbers by place."""

    suite: dict | None
    environment: dict[str, list[str]]
    places: dict[Place, Seen]

    def seeds(self) -> set[int]:
        """Every seed that some cell has."""
        return {seed for seen in self.places.values() for seed in seen.correct}


def make(observed: Observed) -> Baseline:
    """The baseline of finished runs.

    Raises:
        UserError: every cell that failed, diverged or is missing, and every one with fewer than ten seeds, at once.
    """
    faults = list(observed.faults)
    if not observed.places:
        faults.append("there is no cell with a number")
    short = {}
    for place, seen in sorted(observed.places.items()):
        if len(seen.correct) < LEAST:
            have = f"{len(seen.correct)} of {LEAST} seeds"
            short.setdefault((place.settings, have), []).append(places.describe(place, seen.names))
    faults += [f"{names[0]}: {have}" for (_, have), names in short.items()]
    if faults:
        text = "\n".join(dict.fromkeys(faults))
        raise UserError(
            f"{text}\nno baseline is written: run these cells (`bench check SUITE --record --seeds {LEAST}` runs them)"
        )
    suite = observed.suites[0] if len(observed.suites) == 1 else None
    return Baseline(suite, observed.environment, dict(sorted(observed.places.items())))


def write(baseline: Baseline, path: Path) -> None:
    """Write a baseline whole or not at all, one cell a line, so that a change of it can be read.

    Raises:
        UserError: it breaks its own schema (a fault of this program).
    """
    cells = [
        {
            **{key: getattr(place, key) for key in PLACE}, **seen.names, "digest": seen.digest, "n": seen.n,
            "seeds": sorted(seen.correct), "correct": [seen.correct[seed] for seed in sorted(seen.correct)],
        }
        for place, seen in baseline.places.items()
    ]  # fmt: skip
    head = {"schema": SCHEMA, "suite": baseline.suite, "environment": baseline.environment}
    _check({**head, "cells": cells}, str(path))
    lines = ",\n".join(strict_json.dumps(cell) for cell in cells)
    text = strict_json.dumps(head)[:-1] + ',"cells":[\n' + lines + "\n]}\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    with open(partial, "w", encoding="ascii") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def read(path: Path) -> Baseline:
    """A baseline, strictly read.

    Raises:
        UserError: no such file, too large, no strict JSON, unknown, missing or repeated keys, cells or seeds, or numbers
            that contradict each other.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such baseline; make one with `bench check RUNS --record --out {path}`")
    if path.stat().st_size > LARGEST:
        raise UserError(f"{path}: over {LARGEST} bytes is no baseline")
    content = strict_json.loads(path.read_bytes(), str(path), floats=True)
    _check(content, str(path))
    found = {}
    for cell in content["cells"]:
        seen = Seen({name: cell[name] for name in NAMES}, cell["digest"], cell["n"])
        seen.correct.update(zip(cell["seeds"], cell["correct"], strict=True))
        found[Place(*(cell[key] for key in PLACE))] = seen
    return Baseline(content["suite"], content["environment"], found)


def _check(content, what: str) -> None:
    faults = strict_json.faults(content, KEYS, "the baseline")
    if not faults and content["schema"] != SCHEMA:
        faults.append(f"schema {content['schema']} is not {SCHEMA}")
    if not faults:
        if content["suite"] is not None:
            faults += strict_json.faults(content["suite"], SUITE_KEYS, "suite")
        for key, values in content["environment"].items():
            if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
                faults.append(f"environment: {key} must be a list of texts")
        if not content["cells"]:
            faults.append("it has no cell")
        for position, cell in enumerate(content["cells"], 1):
            faults += strict_json.faults(cell, CELL_KEYS, f"cell {position}") or _cell_faults(cell, f"cell {position}")
        if not faults:
            own = [tuple(cell[key] for key in PLACE) for cell in content["cells"]]
            faults += [
                f"cell {own.index(place) + 1} stands twice" for place in dict.fromkeys(own) if own.count(place) > 1
            ]
    if faults:
        more = f"; and {len(faults) - MOST_FAULTS} more" if len(faults) > MOST_FAULTS else ""
        raise UserError(
            f"{what}: not a valid baseline ({'; '.join(faults[:MOST_FAULTS])}{more}); restore the file or record it anew"
        )


def _cell_faults(cell: dict, what: str) -> list[str]:
    faults = [f"{what}: {key} is no SHA-256" for key in ("settings", "digest") if not DIGEST.fullmatch(cell[key])]
    seeds, correct = cell["seeds"], cell["correct"]
    if any(type(value) is not int or value < 0 for value in [*seeds, *correct]):
        return [*faults, f"{what}: seeds and correct must hold integers from 0"]
    if len(set(seeds)) < len(seeds):
        faults.append(f"{what}: a seed stands twice")
    if len(seeds) != len(correct):
        faults.append(f"{what}: {len(seeds)} seeds but {len(correct)} values")
    if len(seeds) < LEAST:
        faults.append(f"{what}: {len(seeds)} seeds, a baseline has at least {LEAST}")
    if cell["n"] < 1 or any(value > cell["n"] for value in correct):
        faults.append(f"{what}: n must be at least 1, and no value above it")
    return faults
