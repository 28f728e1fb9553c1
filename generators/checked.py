"""Are a dataset folder's shards the manifest's? Hashed once, then remembered until a file changes."""

import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path

from generators import shards, strict_json
from generators.dataset import UserError

SCHEMA = 1
KEYS = {"schema": int, "folder": str, "shards": list}
STAMP_KEYS = {"name": str, "size": int, "mtime_ns": int, "inode": int, "sha256": str}


def check_folder(folder: str | Path, manifest: dict, progress: Callable[[int, int], None] | None = None) -> None:
    """Check the size and SHA-256 of every shard of every split, and that no foreign `*.tar` lies beside them.

    What was found good is remembered under the data root: a shard is hashed again only after its size, modification
    time or inode has changed, or the manifest asks for another SHA-256. (A file edited in place whose modification
    time was then set back is not noticed; `bench verify` hashes everything.)

    Arguments:
        folder: a dataset folder.
        manifest: its manifest, from `manifest.read`.
        progress: called with (samples done, samples in all).

    Raises:
        UserError: all faults at once, each with its shard and the remedy.
    """
    folder = Path(folder)
    listed = [entry for split in manifest["splits"].values() for entry in split["shards"]]
    before = _recall(folder)
    good, faults = [], extra_shards(folder, manifest)
    total, done = sum(entry["count"] for entry in listed), 0
    for entry in listed:
        # Taken before the bytes are read: a shard that changes meanwhile is not remembered under its new stamp.
        stamp = _stamp(folder, entry)
        try:
            if stamp is None or stamp not in before:
                shards.check_shard(folder, entry)
        except UserError as error:
            faults.append(str(error))
        else:
            good += [stamp] if stamp else []
        done += entry["count"]
        if progress:
            progress(done, total)
    if set(good) != before:
        _remember(folder, good)
    if faults:
        raise UserError("\n".join(faults))


def extra_shards(folder: Path, manifest: dict) -> list[str]:
    """A sentence for each `*.tar` file of the folder that the manifest does not list."""
    listed = {entry["name"] for split in manifest["splits"].values() for entry in split["shards"]}
    extra = sorted({path.name for path in folder.glob("*.tar")} - listed)
    return [
        f"{folder / name}: the manifest does not list this shard; remove the file, or give it back the name it had"
        for name in extra
    ]


def memo_path(folder: Path) -> Path:
    """Where is remembered what was checked: one file per folder, by the digest of its absolute path."""
    from generators.sources import data_root  # here and not above: it brings the network libraries

    return data_root() / "checked" / f"{hashlib.sha256(os.fsencode(Path(folder).absolute())).hexdigest()}.json"


def _stamp(folder: Path, entry: dict) -> tuple | None:
    # In the order of STAMP_KEYS; None where there is nothing to stamp: `check_shard` says what is wrong.
    try:
        stat = (folder / entry["name"]).stat()
    except FileNotFoundError:
        return None
    if stat.st_size != entry["bytes"]:
        return None
    return entry["name"], stat.st_size, stat.st_mtime_ns, stat.st_ino, entry["sha256"]


def _recall(folder: Path) -> set[tuple]:
    path = memo_path(folder)
    try:
        memo = strict_json.loads(path.read_bytes(), str(path))
    except (OSError, UserError):  # no memo, or a damaged one: it vouches for nothing
        return set()
    faults = strict_json.faults(memo, KEYS, "the memo")
    if faults or memo["schema"] != SCHEMA or memo["folder"] != _name(folder):
        return set()
    if any(strict_json.faults(row, STAMP_KEYS, "a shard") for row in memo["shards"]):
        return set()
    return {tuple(row[key] for key in STAMP_KEYS) for row in memo["shards"]}


def _remember(folder: Path, stamps: list[tuple]) -> None:
    rows = [dict(zip(STAMP_KEYS, stamp, strict=True)) for stamp in stamps]
    text = strict_json.dumps({"schema": SCHEMA, "folder": _name(folder), "shards": rows}) + "\n"
    path = memo_path(folder)
    partial = path.with_name(f"{path.name}.{os.getpid()}-{time.monotonic_ns()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            partial.write_text(text, encoding="ascii")
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError:
        # The memo only saves time. On a read-only or full disk the shards are good all the same, and the next
        # opening hashes them again; no fsync either, for a memo lost with the power is a memo made anew.
        return


def _name(folder: Path) -> str:
    # As texts go into JSON: a path's undecodable bytes included.
    return os.fsencode(Path(folder).absolute()).decode("ascii", "backslashreplace")
