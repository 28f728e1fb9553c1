"""The journal of an unfinished build: one line per whole shard, so that a restart keeps what is valid."""

import base64
import os
import time
from pathlib import Path

from generators import shards, strict_json
from generators.dataset import UserError
from generators.manifest import JOURNAL
from generators.shards import ShardResult

NAME = JOURNAL
STALE_SECONDS = 24 * 3600


def valid(folder: Path, entry: dict) -> bool:
    """Whether the shard on disk has the entry's size and SHA-256."""
    path = folder / entry["name"]
    return path.is_file() and path.stat().st_size == entry["bytes"] and shards.hash_file(path) == entry["sha256"]


def append(folder: Path, result: ShardResult) -> None:
    """Add a line for a shard that stands under its final name."""
    fields = {**vars(result), "digests": base64.b64encode(result.digests).decode()}
    _write(folder, strict_json.dumps(fields))


def _write(folder: Path, line: str) -> None:
    with open(folder / NAME, "a", encoding="ascii") as file:
        file.write(line + "\n")
        file.flush()
        os.fsync(file.fileno())


def resume(folder: Path, head: str, wanted: set[str]) -> dict[str, ShardResult]:
    """The shards that the journal vouches for and whose bytes agree; every other shard and left-over is removed.

    Arguments:
        folder: where the dataset grows.
        head: the journal's first line, which says what is being built.
        wanted: the names of the shards that belong to it.

    Raises:
        UserError: the journal belongs to another dataset or shard size.
    """
    lines = (folder / NAME).read_text().split("\n") if (folder / NAME).exists() else []
    whole, cut = lines[:-1], bool(lines and lines[-1])  # a last line without its newline was cut off by a kill
    if whole and head not in whole:  # two builders that start at once may leave it behind a shard's line
        raise UserError(
            f"{folder} holds the unfinished build of another dataset or shard size; choose another --out or delete the folder"
        )
    kept = {}
    for line in whole:
        try:
            fields = strict_json.loads(line, str(folder / NAME))
            result = ShardResult(**{**fields, "digests": base64.b64decode(fields["digests"])})
            if result.name in wanted and valid(folder, result.entry()):
                kept[result.name] = result
        except (UserError, KeyError, TypeError, ValueError):
            cut = cut or line != head  # an unreadable line vouches for nothing
    for path in folder.iterdir():
        if (path.name.endswith(".tmp") and abandoned(path)) or (path.suffix == ".tar" and path.name not in kept):
            path.unlink(missing_ok=True)
    if not whole or cut:
        (folder / NAME).unlink(missing_ok=True)
        _write(folder, head)
        for result in kept.values():
            append(folder, result)
    return kept


def recover(folder: Path, manifest: dict, head: str, broken: list[str]) -> None:
    """A journal for a finished folder with damaged shards: the others' digests are read back from their samples."""
    (folder / NAME).unlink(missing_ok=True)
    _write(folder, head)
    features = list(manifest["features"])
    for split in manifest["splits"].values():
        for entry in (entry for entry in split["shards"] if entry["name"] not in broken):
            counts = {name: [0] * manifest["features"][name]["classes"] for name in features}
            digests = []
            for _, record, digest in shards.read_shard(
                folder / entry["name"], tuple(manifest["picture_shape"]), entry["count"]
            ):
                shards.count_labels(counts, record["labels"], f"{folder / entry['name']}: sample", record["id"])
                digests.append(digest)
            append(
                folder,
                ShardResult(entry["name"], entry["bytes"], entry["sha256"], entry["count"], b"".join(digests), counts),
            )


def abandoned(path: Path) -> bool:
    """Whether a temporary file is nobody's any more, by the process id in its name."""
    # Another live process may be writing beside us; its file is left alone.
    owner = path.name.split(".")[-2].partition("-")[0]
    try:
        os.kill(int(owner), 0)
    except (ProcessLookupError, ValueError):
        return True
    except OverflowError:
        return True
    except PermissionError:
        pass
    try:
        return time.time() - path.stat().st_mtime > STALE_SECONDS
    except FileNotFoundError:  # its owner has just renamed it
        return False
