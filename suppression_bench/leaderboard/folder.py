"""A submission's folder before anything in it is read: only plain files of allowed names and sizes, as its form lists them."""

import hashlib
import os
import re
import stat
from pathlib import Path

from suppression_bench.leaderboard.submission import (
    ENCODERS,
    FORM,
    LARGEST_FORM,
    LOSS,
    METHOD,
    PREDICTIONS,
    RECIPE,
    RECORDS,
)

CELL = re.compile(r"[a-z_]{1,40}=[0-9+]{1,40}-seed=(0|[1-9][0-9]{0,8})")  # the name of a cell's files
ENDINGS = {RECORDS: ".json", PREDICTIONS: ".safetensors", ENCODERS: ".safetensors"}
LARGEST = {
    FORM: LARGEST_FORM, RECIPE: 100_000, METHOD: 100_000, LOSS: 100_000, RECORDS: 1_000_000, PREDICTIONS: 8_000_000,
    ENCODERS: 60_000_000,
}  # fmt: skip
MOST_FILES = 3000
LARGEST_ALL = 2_000_000_000
MOST_NAMED = 10  # files that an error names


def faults(folder: Path) -> list[str]:
    """What is wrong with the files of a folder, by name, kind and size; none is opened.

    >>> faults(Path("no/such/folder"))
    ['it is no folder']
    """
    folder = Path(folder)
    if folder.is_symlink() or not folder.is_dir():
        return ["it is no folder"]
    found, total = [], 0
    for count, (name, entry) in enumerate(_walk(folder), 1):
        if count > MOST_FILES:
            return [*found[:MOST_NAMED], f"it holds more than {MOST_FILES} files"]
        kind = entry.stat(follow_symlinks=False)
        total += kind.st_size
        what = name.partition("/")[0]
        if entry.is_symlink():
            found.append(f"{name!a} is a link; only plain files are allowed")
        elif not stat.S_ISREG(kind.st_mode):
            found.append(f"{name!a} is no plain file")
        elif not is_allowed(name):
            found.append(f"{name!a} is no file of a submission")
        elif kind.st_size > LARGEST[what]:
            found.append(f"{name} has {kind.st_size} bytes, at most {LARGEST[what]} are allowed")
    found += [f"{name} is missing" for name in (FORM, RECIPE) if not (folder / name).is_file()]
    if total > LARGEST_ALL:
        found.append(f"its files have {total} bytes together, at most {LARGEST_ALL} are allowed")
    more = [f"and {len(found) - MOST_NAMED} more such files"] if len(found) > MOST_NAMED else []
    return found[:MOST_NAMED] + more


def _walk(folder: Path, above: str = ""):
    # os.scandir and not rglob: a link to a folder is shown as a link and never entered.
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda one: one.name):
            name = above + entry.name
            if entry.is_dir(follow_symlinks=False) and name in ENDINGS:
                yield from _walk(Path(entry.path), f"{name}/")
            else:
                yield name, entry


def is_allowed(name: str) -> bool:
    """Whether a relative name may stand in a submission.

    >>> is_allowed("records/bits=4-seed=0.json"), is_allowed("records/x.pkl"), is_allowed("setup.py")
    (True, False, False)
    """
    part, slash, rest = name.partition("/")
    if not slash:
        return name in (FORM, RECIPE, METHOD, LOSS)
    return part in ENDINGS and rest.endswith(ENDINGS[part]) and bool(CELL.fullmatch(rest.removesuffix(ENDINGS[part])))


def listed(folder: Path) -> dict[str, dict]:
    """Relative name -> size and SHA-256 of every file but the form, which lists them."""
    found = {}
    for name, _ in _walk(folder):
        if name != FORM:
            content = (folder / name).read_bytes()
            found[name] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    return found


def digest_faults(folder: Path, form: dict) -> list[str]:
    """Where the files are not those that the form lists."""
    there, said = listed(folder), form["files"]
    found = [f"{name} is not listed in {FORM}" for name in there if name not in said]
    found += [f"{name[:100]!a} is listed in {FORM} and missing" for name in said if name not in there]
    found += [
        f"{name} is not the file that {FORM} lists (SHA-256 {there[name]['sha256'][:12]}, listed {said[name]['sha256'][:12]!a})"
        for name in there
        if name in said and there[name] != said[name]
    ]
    return found[:MOST_NAMED] + ([f"and {len(found) - MOST_NAMED} more such files"] if len(found) > MOST_NAMED else [])
