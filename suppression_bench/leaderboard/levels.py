"""What maintainers found out about a submission: files beside the submissions, never inside one."""

import json
import os
import re
from pathlib import Path

from generators import strict_json
from generators.dataset import UserError

CHECKS, RERUNS = "checks", "reruns"  # folders beside `submissions`
SCHEMA = 1
LARGEST = 1_000_000
DIGEST = re.compile(r"[0-9a-f]{64}")

REPORTED, RESCORED, REPROBED, RETRAINED = range(4)  # V0 to V3
NAMES = ("V0 reported", "V1 rescored", "V2 re-probed", "V3 retrained")

# `submission` is the digest of the folder that was judged: an edited one falls back to V0.
CHECK_KEYS = {"schema": int, "slug": str, "submission": str, "level": int}
RERUN_KEYS = {
    "schema": int, "slug": str, "submission": str, "track": str, "nonce": str, "submitted_seeds": list,
    "fresh_seeds": list, "code": dict, "environment": dict, "cells": list, "failed": list, "allowed": int, "passed": bool,
}  # fmt: skip
RERUN_CELL_KEYS = {
    "strength": str, "seed": int, "fresh": bool, "feature": str, "correct": int, "n": int, "claimed": list,
    "mean": (int, float), "low": (int, float), "high": (int, float), "inside": bool, "far": bool,
}  # fmt: skip


def check_file(root: Path, slug: str) -> Path:
    """Where the last check of a submission is noted: `leaderboard/checks/SLUG.json`."""
    return root.parent / CHECKS / f"{slug}.json"


def rerun_file(root: Path, slug: str) -> Path:
    """Where a rerun of a submission is noted: `leaderboard/reruns/SLUG.json`."""
    return root.parent / RERUNS / f"{slug}.json"


def level(root: Path, slug: str, digest: str) -> int:
    """The level that a submission has reached: 0 to 3.

    Arguments:
        root: the folder of all submissions.
        slug: names the submission.
        digest: of its folder; what was found of another one does not count.

    Raises:
        UserError: a damaged file.
    """
    reached = REPORTED
    if (found := read_check(root, slug)) and found["submission"] == digest:
        reached = found["level"]
    if (found := read_rerun(root, slug)) and found["submission"] == digest and found["passed"]:
        reached = RETRAINED
    return reached


def read_check(root: Path, slug: str) -> dict | None:
    """What `bench leaderboard check --keep` noted, or None.

    Raises:
        UserError: a damaged file.
    """
    found = _read(check_file(root, slug), CHECK_KEYS)
    if found and not REPORTED <= found["level"] <= REPROBED:
        raise UserError(f"{check_file(root, slug)}: level {found['level']} is none of 0, 1, 2")
    return found


def read_rerun(root: Path, slug: str) -> dict | None:
    """What `bench leaderboard rerun` noted, or None.

    Raises:
        UserError: a damaged file.
    """
    path = rerun_file(root, slug)
    found = _read(path, RERUN_KEYS)
    for cell in found["cells"] if found else []:
        if faults := strict_json.faults(cell, RERUN_CELL_KEYS, "a cell"):
            raise UserError(f"{path}: {'; '.join(faults[:3])}; restore the file")
    if found and found["passed"] != _holds(found):
        raise UserError(f"{path}: passed does not follow from its cells; restore the file")
    return found


def _holds(found: dict) -> bool:
    # As `verdict.passed` says it; here without scipy, since the page reads these files.
    outside, far = (
        sum(cell[key] is value for cell in found["cells"]) for key, value in (("inside", False), ("far", True))
    )
    return bool(found["cells"]) and not found["failed"] and outside <= found["allowed"] and not far


def write(path: Path, found: dict) -> Path:
    """Write a finding, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    partial.write_text(json.dumps(found, indent=1, sort_keys=True, allow_nan=False) + "\n", encoding="ascii")
    partial.replace(path)
    return path


def _read(path: Path, keys: dict) -> dict | None:
    if not path.is_file():
        return None
    if path.stat().st_size > LARGEST:
        raise UserError(f"{path}: over {LARGEST} bytes; restore the file")
    found = strict_json.loads(path.read_bytes(), str(path), floats=True)
    faults = strict_json.faults(found, keys, "it")
    if not faults and (found["schema"], found["slug"]) != (SCHEMA, path.stem):
        faults.append(f"schema and slug must be {SCHEMA} and {path.stem!r}")
    if not faults and not DIGEST.fullmatch(found["submission"]):
        faults.append("submission is no SHA-256")
    if faults:
        raise UserError(f"{path}: {'; '.join(faults[:3])}; restore the file")
    return found
