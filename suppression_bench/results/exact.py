"""References of `bench check --tier a`: what small deterministic cells give, bit for bit, on each kind of machine."""

import hashlib
import os
import platform
import re
from dataclasses import dataclass, field
from pathlib import Path

from generators import strict_json
from generators.dataset import UserError
from suppression_bench.results import observed as places

SCHEMA = 1
LARGEST = 4_000_000
MOST_FAULTS = 10
MACHINE = ("torch", "platform", "cpu_capability", "processor")
KEYS = {"schema": int, "suite": (dict, type(None)), "cells": list}
SUITE_KEYS = {"name": str, "version": int}
CELL_KEYS = {"settings": str, "seed": int, "title": str, "digest": str, "references": list}
REFERENCE_KEYS = {**dict.fromkeys((*MACHINE, "weights"), str), "matrices": dict}
DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Result:
    """What one cell gave on one machine.

    machine: torch's version, the platform, the instructions that torch uses, and the processor (the libraries below torch
        choose their kernels by it themselves, so equal instructions do not promise equal bits).
    weights: SHA-256 of the encoder's file.
    matrices: "probe layer feature" -> confusion matrix.
    """

    machine: tuple[str, str, str, str]
    weights: str
    matrices: dict[str, list[list[int]]]


@dataclass
class Exact:
    """A cell, by (hash of its settings, seed): its title, its data's digest, and its results by machine."""

    title: str
    digest: str
    results: list[Result] = field(default_factory=list)


def outcome(record: dict, weights: Path) -> tuple[tuple[str, int], Exact]:
    """A record, and the file of its encoder's weights, as a cell with one result.

    Raises:
        UserError: the cell failed or diverged.
    """
    spec, run = record["spec"], record["run"]
    if run["status"] != "ok":
        raise UserError(f"{places.title(spec)}: {run['status']} ({run['error']}); a check needs all its cells")
    matrices = {f"{p['probe']} {p['layer']} {p['feature']}": p["confusion"] for p in record["probes"]}
    environment = {**record["environment"], "processor": processor()}
    machine = tuple(environment[key] for key in MACHINE)
    digest = hashlib.sha256(weights.read_bytes()).hexdigest()
    key = places.settings_digest(spec), spec["seed"]
    return key, Exact(places.title(spec), spec["data"]["digest"], [Result(machine, digest, matrices)])


def processor() -> str:
    """The processor's name, as the system gives it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:  # not Linux
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor()


def joined(old: dict, new: dict) -> dict:
    """References of which one machine's are made anew; those of other machines stay where the cell is the same."""
    found = {}
    for key, cell in new.items():
        mine = {result.machine for result in cell.results}
        before = old[key].results if key in old and old[key].digest == cell.digest else []
        kept = [result for result in before if result.machine not in mine]
        found[key] = Exact(cell.title, cell.digest, sorted(kept + cell.results, key=lambda result: result.machine))
    return found


def write(cells: dict, suite: dict | None, path: Path) -> None:
    """Write the references whole or not at all, one cell a line.

    Raises:
        UserError: they break their own schema (a fault of this program).
    """
    made = [
        {
            "settings": settings, "seed": seed, "title": cell.title, "digest": cell.digest,
            "references": [
                {**dict(zip(MACHINE, r.machine, strict=True)), "weights": r.weights, "matrices": r.matrices} for r in cell.results
            ],
        }
        for (settings, seed), cell in cells.items()
    ]  # fmt: skip
    _check({"schema": SCHEMA, "suite": suite, "cells": made}, str(path))
    lines = ",\n".join(strict_json.dumps(cell) for cell in made)
    text = strict_json.dumps({"schema": SCHEMA, "suite": suite})[:-1] + ',"cells":[\n' + lines + "\n]}\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    partial.write_text(text, encoding="ascii")
    partial.replace(path)


def read(path: Path) -> dict:
    """References by (hash of settings, seed), strictly read.

    Raises:
        UserError: no such file, too large, no strict JSON, or anything but the schema.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such file; make it with `bench check SUITE --tier a --record --out {path}`")
    if path.stat().st_size > LARGEST:
        raise UserError(f"{path}: over {LARGEST} bytes is no file of references")
    content = strict_json.loads(path.read_bytes(), str(path))
    _check(content, str(path))
    return {
        (cell["settings"], cell["seed"]): Exact(
            cell["title"],
            cell["digest"],
            [Result(tuple(r[key] for key in MACHINE), r["weights"], r["matrices"]) for r in cell["references"]],
        )
        for cell in content["cells"]
    }


def _check(content, what: str) -> None:
    faults = strict_json.faults(content, KEYS, "the file")
    if not faults and content["schema"] != SCHEMA:
        faults.append(f"schema {content['schema']} is not {SCHEMA}")
    if not faults:
        if content["suite"] is not None:
            faults += strict_json.faults(content["suite"], SUITE_KEYS, "suite")
        for position, cell in enumerate(content["cells"], 1):
            faults += strict_json.faults(cell, CELL_KEYS, f"cell {position}") or _cell_faults(cell, f"cell {position}")
        if not content["cells"]:
            faults.append("it has no cell")
        if not faults and len({(c["settings"], c["seed"]) for c in content["cells"]}) < len(content["cells"]):
            faults.append("a cell stands twice")
    if faults:
        raise UserError(
            f"{what}: not valid references ({'; '.join(faults[:MOST_FAULTS])}); restore the file or record it anew"
        )


def _cell_faults(cell: dict, what: str) -> list[str]:
    faults = [f"{what}: {key} is no SHA-256" for key in ("settings", "digest") if not DIGEST.fullmatch(cell[key])]
    if not cell["references"]:
        faults.append(f"{what}: no reference")
    for reference in cell["references"]:
        own = strict_json.faults(reference, REFERENCE_KEYS, f"{what}: a reference")
        if not own and not DIGEST.fullmatch(reference["weights"]):
            own.append(f"{what}: weights is no SHA-256")
        if not own and not (reference["matrices"] and all(map(_is_matrix, reference["matrices"].values()))):
            own.append(f"{what}: matrices must hold square matrices of counts")
        faults += own
    if not faults and len({tuple(r[key] for key in MACHINE) for r in cell["references"]}) < len(cell["references"]):
        faults.append(f"{what}: a machine stands twice")
    return faults


def _is_matrix(rows) -> bool:
    square = isinstance(rows, list) and rows and all(isinstance(row, list) and len(row) == len(rows) for row in rows)
    return (
        bool(square)
        and all(type(count) is int and count >= 0 for row in rows for count in row)
        and sum(map(sum, rows)) > 0
    )
