"""The pixel cache: shards decoded once to one file of uint8 pixels and one of labels, with digests of their own.

One folder per split, named by its content digest, with two files that appear by rename:

- `pixels.u8`: all images in a row, (N, H, W, C); behind them a JSON list of [samples, SHA-256], one entry per block;
- `labels.json`: one line with the SHA-256 of the rest, then name -> list of labels in the samples' order.

Every digest covers the content digest too, so a file of another split is as wrong as a flipped bit. A file that is not
what its digests say is decoded anew from the shards, whose own digests the manifest has.
"""

import hashlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from generators import executor, shards
from generators.dataset import UserError
from generators.manifest import Manifest
from generators.sources import data_root

Value = TypeVar("Value")

PIXELS, LABELS = "pixels.u8", "labels.json"
BLOCK = 2**26  # bytes of pixels that are compared with one digest, at most
SECONDS_PER_SAMPLE, SECONDS_PER_BYTE = 3e-5, 1.5e-8  # that decoding takes, roughly
SECONDS_PER_WORKER = 1.0  # of decoding that each further process must have: its start costs a third of one
DAMAGED = (OSError, ValueError, KeyError, TypeError)  # what reading a missing or damaged file of the cache may raise


class DecodedSplit:
    """A split's labels and images from the cache, decoded anew where a file is missing or damaged.

    images: (N, H, W, C) uint8, mapped: pages are shared by all who read, and a write would stay in this process.
    labels: name -> list of N labels, None where a sample has none; their file is read only where they are asked for.

    Arguments:
        folder: of the dataset.
        manifest: its manifest.
        name: of the split.

    Raises:
        UserError: a damaged shard, or a disk that does not return what was written.
    """

    def __init__(self, folder: Path, manifest: Manifest, name: str):
        self.folder, self.manifest, self.name = folder, manifest, name
        self.cache, self.content = cache_folder(manifest, name), manifest.splits[name].content_digest
        self._pixels = self._read(self._open_pixels)
        self.images = self._pixels.images

    @cached_property
    def labels(self) -> dict[str, list]:
        """Name -> list of labels."""
        return self._read(lambda: _read_labels(self.cache / LABELS, self.content))

    def check(self, rows: slice | ArrayLike) -> None:
        """Compare the blocks that hold some rows with their digests before the first use; mend damaged ones in memory."""
        for block in self._pixels.damaged(rows):
            self.images[block] = self._read(lambda block=block: self._open_pixels(block).images[block])

    def _open_pixels(self, rows: slice = slice(0)) -> "_PixelFile":
        pixels = _PixelFile(self.cache / PIXELS, self.content, _shape(self.manifest, self.name))
        # The blocks of a large file are checked when they are read: its opening need not read all of it.
        if pixels.damaged(slice(None) if pixels.images.nbytes <= BLOCK else rows):
            raise ValueError("the pixels are not what their digests say")
        return pixels

    def _read(self, read: Callable[[], Value]) -> Value:
        try:
            return read()
        except DAMAGED:
            decode(self.folder, self.manifest, [self.name])
        try:
            return read()
        except DAMAGED as error:
            message = f"{self.cache}: the disk does not return what was written there ({error}); check the disk"
            raise UserError(message, exit_code=4) from None


class _PixelFile:
    """The mapped images of a split and which of their blocks have not been checked yet."""

    def __init__(self, path: Path, content: str, shape: tuple[int, ...]):
        with open(path, "rb") as file:
            file.seek(int(np.prod(shape)))
            blocks = json.loads(file.read())
        self.content, self.digests = content, [digest for _, digest in blocks]
        self.bounds = np.cumsum([0, *(count for count, _ in blocks)])
        if self.bounds[-1] != shape[0]:
            raise ValueError("the blocks are not those of this split")
        self.unchecked = set(range(len(blocks)))
        self.images = np.memmap(path, np.uint8, "c", shape=shape)

    def damaged(self, rows: slice | ArrayLike) -> list[slice]:
        """The blocks of these rows whose pixels are not what their digest says; each block is read once."""
        if not self.unchecked:
            return []
        numbers = np.arange(len(self.images))[rows] if isinstance(rows, slice) else np.unique(np.asarray(rows))
        blocks = self.unchecked & set((np.searchsorted(self.bounds, numbers, side="right") - 1).tolist())
        self.unchecked -= blocks
        bounds = [(block, int(self.bounds[block]), int(self.bounds[block + 1])) for block in sorted(blocks)]
        return [
            slice(start, end)
            for block, start, end in bounds
            if _digest(self.content, self.images[start:end]) != self.digests[block]
        ]


def cache_folder(manifest: Manifest, split: str) -> Path:
    """Where a split is kept: below the data root, by its content."""
    return data_root() / "decoded" / manifest.splits[split].content_digest


def is_decoded(manifest: Manifest, split: str) -> bool:
    """Whether a split has a cache of the right size; whether its bytes are right is seen when they are read."""
    cache, size = cache_folder(manifest, split), int(np.prod(_shape(manifest, split)))
    return (cache / LABELS).is_file() and (cache / PIXELS).is_file() and (cache / PIXELS).stat().st_size > size


def decode(folder: Path, manifest: Manifest, splits: list[str], workers: int = 1) -> None:
    """Decode splits into the cache, each shard by whoever is free; the bytes are the same for any number of workers.

    Each file is written under a temporary name and appears by rename, so a kill leaves nothing that is taken for whole.

    Arguments:
        folder: of the dataset.
        manifest: its manifest.
        splits: names of splits.
        workers: processes at most; few pixels are decoded in this one.

    Raises:
        UserError: a damaged shard, or samples that are not the manifest's.
    """
    image_bytes = int(np.prod(manifest.image_shape))
    partials: dict[str, Path] = {}
    parts: list[_Part] = []
    try:
        for split in splits:
            described, first = manifest.splits[split], 0
            cache = cache_folder(manifest, split)
            cache.mkdir(parents=True, exist_ok=True)
            partials[split] = _temporary(cache / PIXELS)
            partials[split].touch(exist_ok=False)
            for shard in described.shards:
                content = described.content_digest
                parts.append(_Part(folder, shard, manifest.image_shape, split, content, partials[split], first))
                first += shard.count
        seconds = sum(part.shard.count for part in parts) * (SECONDS_PER_SAMPLE + SECONDS_PER_BYTE * image_bytes)
        decoded: dict[int, _Decoded] = {}
        for outcome in executor.run(_decode_part, parts, min(workers, 1 + int(seconds / SECONDS_PER_WORKER))):
            if outcome.error is not None:
                raise outcome.error
            decoded[outcome.position] = outcome.value
        for split in splits:
            results = [decoded[position] for position, part in enumerate(parts) if part.split == split]
            _finish(folder, manifest, split, partials[split], results)
    finally:
        for path in partials.values():
            path.unlink(missing_ok=True)


@dataclass(frozen=True)
class _Part:
    """A shard and where its images go: behind the `first` images of the split's file."""

    folder: Path
    shard: shards.ShardEntry
    shape: tuple[int, int, int]
    split: str
    content: str
    path: Path
    first: int


@dataclass
class _Decoded:
    """What decoding a shard yields besides its pixels: labels and digest of each sample, [samples, digest] of each block."""

    labels: list[dict]
    digests: list[bytes]
    blocks: list[tuple[int, str]]


def _decode_part(part: _Part, note: Callable) -> _Decoded:
    shards.check_shard(part.folder, part.shard)
    image_bytes = int(np.prod(part.shape))
    decoded, block, together = _Decoded([], [], []), bytearray(), max(1, BLOCK // image_bytes)
    with open(part.path, "r+b") as file:  # written in a row: a fresh memory map faults at each page
        file.seek(part.first * image_bytes)
        samples = shards.read_shard(part.folder / part.shard.name, part.shape, part.shard.count)
        for position, (image, record, digest) in enumerate(samples, 1):
            block += image.tobytes()
            decoded.labels.append(record["labels"])
            decoded.digests.append(digest)
            if position % together == 0 or position == part.shard.count:
                file.write(block)
                decoded.blocks.append((len(block) // image_bytes, _digest(part.content, block)))
                block.clear()
    return decoded


def _finish(folder: Path, manifest: Manifest, split: str, partial: Path, results: list[_Decoded]) -> None:
    # All parts together: are they the manifest's samples? Then both files get their names.
    content = manifest.splits[split].content_digest
    if hashlib.sha256(b"".join(digest for part in results for digest in part.digests)).hexdigest() != content:
        raise UserError(f"{folder}: the samples of split {split} are not those of the manifest; run `bench verify`")
    cache = cache_folder(manifest, split)
    with open(partial, "ab") as file:
        file.write(json.dumps([block for part in results for block in part.blocks]).encode())
    partial.replace(cache / PIXELS)
    rows = [labels for part in results for labels in part.labels]
    columns = {name: [labels.get(name) for labels in rows] for name in sorted({name for row in rows for name in row})}
    body, text = json.dumps(columns).encode(), _temporary(cache / LABELS)
    try:
        text.write_bytes(_digest(content, body).encode() + b"\n" + body)
        text.replace(cache / LABELS)
    finally:
        text.unlink(missing_ok=True)


def _read_labels(path: Path, content: str) -> dict[str, list]:
    digest, _, body = path.read_bytes().partition(b"\n")
    if digest != _digest(content, body).encode():
        raise ValueError("the labels are not what their digest says")
    return json.loads(body)


def _digest(content: str, body) -> str:
    # SHA-256 over a content digest and bytes.
    digest = hashlib.sha256(content.encode())
    digest.update(body)
    return digest.hexdigest()


def _shape(manifest: Manifest, split: str) -> tuple[int, ...]:
    return manifest.splits[split].count, *manifest.image_shape


def _temporary(path: Path) -> Path:
    return path.with_name(f"{path.name}.{os.getpid()}-{time.monotonic_ns()}.tmp")
