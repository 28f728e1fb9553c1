"""The decoded cache: a split's pictures as one uint8 file and its labels, made once, each shard by whoever is free."""

import hashlib
import json
import os
import time
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from generators import executor, shards
from generators.dataset import UserError
from generators.sources import data_root

SAMPLE, PIXELS = 3e-5, 1.5e-8  # seconds that decoding takes per sample and per byte of pixels, roughly
WORTH = 1.0  # seconds of decoding that each further worker process must have: its start costs a third of one
BLOCK = 2**22


@dataclass(frozen=True)
class Part:
    """One shard's place in a split's file: `offset` bytes from its beginning."""

    folder: Path
    entry: dict
    shape: tuple[int, int, int]
    path: Path
    offset: int


def cache_folder(described: dict) -> Path:
    """Where a split is kept: below the data root, by its content."""
    return data_root() / "decoded" / described["content_digest"]


def is_there(described: dict, shape: tuple[int, int, int]) -> bool:
    """Whether a split has a cache of the right size; whether its bytes are right is for `read` to say."""
    cache, size = cache_folder(described), described["count"] * int(np.prod(shape))
    try:
        return (cache / "labels.json").is_file() and (cache / "pictures.npy").stat().st_size > size
    except FileNotFoundError:
        return False


def read(described: dict) -> dict[str, list] | None:
    """The labels of a whole cache, or None.

    The pictures are summed rather than flushed to the disk when written: that is faster, and notices what a power
    failure, a full disk or an editor did to them since.
    """
    cache = cache_folder(described)
    try:
        found = json.loads((cache / "labels.json").read_text())
        with open(cache / "pictures.npy", "rb") as file:
            np.lib.format.read_magic(file)
            np.lib.format.read_array_header_1_0(file)
            checksum = 0
            while block := file.read(BLOCK):
                checksum = zlib.crc32(block, checksum)
        return found["labels"] if found["pictures_crc32"] == checksum else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def pictures(described: dict) -> np.ndarray:
    """(N, H, W, C) uint8, mapped: pages are shared by all who read, and a write would stay in this process."""
    return np.load(cache_folder(described) / "pictures.npy", mmap_mode="c", allow_pickle=False)


def decode(folder: Path, manifest: dict, splits: list[str], workers: int = 1) -> None:
    """Decode splits into the cache; the bytes are the same for any number of workers.

    Written under temporary names and renamed; labels.json last, its presence says that the cache is whole.

    Arguments:
        folder: of the dataset.
        manifest: its manifest.
        splits: names of splits.
        workers: processes at most; few pixels are decoded in this one.

    Raises:
        UserError: a damaged shard, or samples that are not the manifest's.
    """
    shape, partials, parts, owners = tuple(manifest["picture_shape"]), {}, [], []
    try:
        for split in splits:
            described = manifest["splits"][split]
            partials[split], offset = _begin(described, shape)
            for entry in described["shards"]:
                parts.append(Part(folder, entry, shape, partials[split], offset))
                owners.append(split)
                offset += entry["count"] * int(np.prod(shape))
        count = sum(part.entry["count"] for part in parts)
        worth = 1 + int(count * (SAMPLE + PIXELS * int(np.prod(shape))) / WORTH)
        found: list = [None] * len(parts)
        for outcome in executor.run(_decode_part, parts, min(workers, worth)):
            if outcome.error is not None:
                raise outcome.error
            found[outcome.position] = outcome.value
        for split in splits:
            mine = [(part, result) for part, result, owner in zip(parts, found, owners, strict=True) if owner == split]
            _finish(folder, split, manifest["splits"][split], partials[split], mine)
    finally:
        for path in partials.values():
            path.unlink(missing_ok=True)


def _temporary(cache: Path, name: str) -> Path:
    return cache / f"{name}.{os.getpid()}-{time.monotonic_ns()}.tmp"


def _begin(described: dict, shape: tuple[int, int, int]) -> tuple[Path, int]:
    # The file with its header and where its pixels begin.
    cache = cache_folder(described)
    cache.mkdir(parents=True, exist_ok=True)
    partial = _temporary(cache, "pictures")
    with open(partial, "xb") as file:
        head = {"descr": "|u1", "fortran_order": False, "shape": (described["count"], *shape)}
        np.lib.format.write_array_header_1_0(file, head)
        return partial, file.tell()


def _decode_part(part: Part, note) -> tuple[list[dict], bytes, int]:
    # One shard into its place: its rows of labels, its samples' digests and the sum of its pixels.
    shards.check_shard(part.folder, part.entry)
    rows, digests, checksum = [], [], 0
    with open(part.path, "r+b", buffering=2**20) as file:  # written in a row: a fresh memory map faults at each page
        file.seek(part.offset)
        path = part.folder / part.entry["name"]
        for picture, record, digest in shards.read_shard(path, part.shape, part.entry["count"]):
            file.write(picture)
            checksum = zlib.crc32(picture, checksum)
            rows.append(record["labels"])
            digests.append(digest)
    return rows, b"".join(digests), checksum


def _finish(folder: Path, split: str, described: dict, partial: Path, found: list) -> None:
    # All parts together: are they the manifest's samples, and does the disk return what each worker wrote?
    content = hashlib.sha256(b"".join(digests for _, (_, digests, _) in found)).hexdigest()
    if content != described["content_digest"]:
        raise UserError(f"{folder}: the samples of split {split} are not those of the manifest; run `bench verify`")
    total = 0
    with open(partial, "rb") as file:
        for part, (_, _, checksum) in found:
            file.seek(part.offset)
            left, own = part.entry["count"] * int(np.prod(part.shape)), 0
            while left and (block := file.read(min(BLOCK, left))):
                own, total, left = zlib.crc32(block, own), zlib.crc32(block, total), left - len(block)
            if own != checksum or left:
                raise UserError(f"{partial}: the disk did not return what was written; check the disk", exit_code=4)
    cache = cache_folder(described)
    partial.replace(cache / "pictures.npy")
    rows = [row for _, (labels, _, _) in found for row in labels]
    columns = {name: [row.get(name) for row in rows] for name in sorted({key for row in rows for key in row})}
    text = _temporary(cache, "labels")
    try:
        text.write_text(json.dumps({"pictures_crc32": total, "labels": columns}))
        text.replace(cache / "labels.json")
    finally:
        text.unlink(missing_ok=True)
