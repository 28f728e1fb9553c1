"""The shard format, written and read in one place: plain USTAR files of one .png and one .json per sample.

Integrity is the file digest (SHA-256 of a shard's bytes). Identity is the content digest (SHA-256 over id, shape,
raw pixels and all labels): it does not depend on PNG encoders, shard sizes or workers.
"""

import hashlib
import io
import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
from PIL import Image

from generators.dataset import Feature, Sample, UserError
from generators.files import dumps_json, loads_json, write_atomic

Shape = tuple[int, int, int]  # of an image: height, width, channels


# One image: PNG

SIGNATURE = b"\x89PNG\r\n\x1a\n"
COLOUR = {1: (0, "L"), 3: (2, "RGB")}  # channels -> PNG colour type, Pillow's mode
UP = 2  # PNG's filter of a line: the difference to the line above


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(body, zlib.crc32(kind)))


IMAGE_END = _chunk(b"IEND", b"")


@lru_cache(maxsize=64)
def png_head(height: int, width: int, channels: int) -> bytes:
    """The first 33 bytes of an 8-bit PNG of a shape: signature and header."""
    return SIGNATURE + _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, COLOUR[channels][0], 0, 0, 0))


def encode_png(image: np.ndarray) -> bytes:
    """PNG bytes of a (H, W, 1) or (H, W, 3) uint8 image: the filter "up" on every line, zlib's level 1.

    Of the one-pass settings that one is the smallest and nearly the fastest, on digits and on photographs. (isal is twice
    as fast again, but now and then gives other bytes for the same image, and a restart must end with the same ones.)

    >>> encode_png(np.zeros((2, 2, 1), dtype=np.uint8))[:8] == SIGNATURE
    True
    """
    height, width, channels = image.shape
    rows = image.reshape(height, width * channels)
    lines = np.empty((height, 1 + width * channels), dtype=np.uint8)
    lines[:, 0] = UP
    lines[0, 1:] = rows[0]
    np.subtract(rows[1:], rows[:-1], out=lines[1:, 1:])  # wraps around, as the format wants it
    return png_head(height, width, channels) + _chunk(b"IDAT", zlib.compress(lines.data, 1)) + IMAGE_END


def decode_png(data: bytes, shape: Shape, what: str) -> np.ndarray:
    """The (H, W, C) uint8 image of PNG bytes, read by Pillow; the header must say `shape` before anything is decoded.

    Raises:
        UserError: no PNG, another shape, or damaged data.

    >>> decode_png(encode_png(np.full((2, 3, 1), 7, dtype=np.uint8)), (2, 3, 1), "example").sum()
    np.uint64(42)
    """
    height, width, channels = shape
    if data[:33] != png_head(*shape):
        raise UserError(f"{what}: not an 8-bit PNG of {width}x{height} pixels and {channels} channels")
    try:
        with Image.open(io.BytesIO(data), formats=["PNG"]) as image:
            if image.size != (width, height) or image.mode != COLOUR[channels][1]:
                raise ValueError("a second header contradicts the first")
            return np.array(image, dtype=np.uint8).reshape(shape)
    except Exception as error:  # on malformed chunks Pillow raises whatever its parsers meet, IndexError too
        raise UserError(f"{what}: damaged PNG ({error})") from None


# One sample: two members of a tar file

BLOCK = 512
END = bytes(2 * BLOCK)
PADDING = [bytes(size) for size in range(BLOCK)]
RECORD = 20 * BLOCK  # tar files are padded to whole records of 20 blocks

# The fields of a member's header that never change: mode 0444 and owner 0; time 0; a regular file in USTAR format.
# Written here because `tarfile` takes 40 microseconds for a sample's two headers and this 2.5 (and 31 to 4.5 to read
# them back); tests compare every byte with `tarfile`'s.
OWNER, TIME = b"0000444\0" + b"0000000\0" * 2, b"\0" + b"%011o\0" % 0
REST = b"0" + bytes(100) + b"ustar\x0000" + bytes(64) + bytes(16 + 167)
HEADER_SUM = sum(OWNER) + sum(TIME) + sum(REST) + 8 * ord(" ")  # the checksum counts itself as spaces


def member_header(name: str, size: int) -> bytes:
    """The 512-byte USTAR header of a regular file of mode 0444, owner 0, time 0.

    >>> len(member_header("00000000.png", 5))
    512
    """
    name_field, size_field = name.encode(), b"%011o" % size
    checksum = HEADER_SUM + sum(name_field) + sum(size_field)
    return b"".join((name_field.ljust(100, b"\0"), OWNER, size_field, TIME, b"%06o\0 " % checksum, REST))


def member_name(index: int, ending: str) -> str:
    return f"{index:08d}.{ending}"


def members(index: int, image: bytes, record: bytes) -> bytes:
    """A sample's two files with their headers, each filled up to whole blocks."""
    parts = []
    for ending, body in (("png", image), ("json", record)):
        parts += [member_header(member_name(index, ending), len(body)), body, PADDING[-len(body) % BLOCK]]
    return b"".join(parts)


def record_text(sample: Sample) -> bytes:
    """The .json member of a sample."""
    return dumps_json({"id": sample.index, "labels": sample.labels, "factors": sample.factors}).encode()


def content_digest(index: int, image: np.ndarray, text: bytes) -> bytes:
    """SHA-256 of one sample: "[id,[H,W,C]]", a zero byte, the raw pixels, the JSON text (all labels and factors)."""
    height, width, channels = image.shape
    digest = hashlib.sha256(b"[%d,[%d,%d,%d]]\0" % (index, height, width, channels))
    digest.update(np.ascontiguousarray(image).data)
    digest.update(text)
    return digest.digest()


# One shard


Natural = Annotated[int, msgspec.Meta(ge=0)]


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A part of a manifest."""


class ShardEntry(Entry, frozen=True, kw_only=True):
    """A shard as a manifest lists it."""

    name: str
    bytes: Natural
    sha256: str
    count: Natural
    content_digest: str


@dataclass
class ShardResult:
    """A shard as it was written or read back: its file, each sample's digest (32 bytes each) and the labels' counts."""

    name: str
    size: int
    sha256: str
    count: int
    digests: bytes
    class_counts: dict[str, list[int]]

    @property
    def entry(self) -> ShardEntry:
        """The shard as the manifest lists it."""
        content = hashlib.sha256(self.digests).hexdigest()
        return ShardEntry(name=self.name, bytes=self.size, sha256=self.sha256, count=self.count, content_digest=content)


def write_shard(path: Path, samples: Iterable[Sample], features: dict[str, Feature]) -> ShardResult:
    """Write one shard; its final name never shows a partial file.

    Raises:
        UserError: a sample whose label is no class of its feature.
    """
    digests, file_digest, size = [], hashlib.sha256(), 0
    class_counts = {name: [0] * feature.classes for name, feature in features.items()}
    with write_atomic(path) as file:
        for sample in samples:
            text = record_text(sample)
            data = members(sample.index, encode_png(sample.image), text)
            file.write(data)
            file_digest.update(data)
            size += len(data)
            digests.append(content_digest(sample.index, sample.image, text))
            count_labels(class_counts, sample.labels, f"{path}: sample {sample.index}")
        data = END + bytes(-(size + len(END)) % RECORD)
        file.write(data)
        file_digest.update(data)
    size += len(data)
    return ShardResult(path.name, size, file_digest.hexdigest(), len(digests), b"".join(digests), class_counts)


def read_back(path: Path, shape: Shape, classes: dict[str, int], first: int, count: int) -> ShardResult:
    """What `write_shard` yielded for a shard that lies on the disk, from its samples.

    Arguments:
        path: the shard.
        shape: of its images.
        classes: number of classes of each feature.
        first: the index of its first sample.
        count: how many samples it must hold.

    Raises:
        UserError: anything else than a whole shard of these samples.
    """
    digests, class_counts = [], {name: [0] * number for name, number in classes.items()}
    for index, (_, record, digest) in enumerate(read_shard(path, shape, count), start=first):
        if record["id"] != index:
            raise UserError(f"{path}: sample {record['id']} stands out of order")
        digests.append(digest)
        count_labels(class_counts, record["labels"], f"{path}: sample {index}")
    return ShardResult(path.name, path.stat().st_size, hash_file(path), count, b"".join(digests), class_counts)


def count_labels(class_counts: dict[str, list[int]], labels: dict, what: str) -> None:
    """Add a sample's labels to the counts of each feature's classes, in place.

    Raises:
        UserError: a label that is no class.
    """
    for name, counts in class_counts.items():
        value = labels.get(name)
        for label in value if isinstance(value, list) else [] if value is None else [value]:
            if type(label) is not int or not 0 <= label < len(counts):
                raise UserError(f"{what}: the label {name} is {label!r}, its classes are 0..{len(counts) - 1}")
            counts[label] += 1


def hash_file(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_shard(folder: Path, entry: ShardEntry) -> None:
    """A shard is valid only if its size and SHA-256 equal the manifest's: most damage reads without an error.

    Raises:
        UserError: missing, truncated or changed shard, with the remedy.
    """
    path = folder / entry.name
    remedy = "run the same `bench generate` again, which makes it anew, or restore it from a copy"
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        raise UserError(f"{path}: the shard is missing; {remedy}") from None
    if size != entry.bytes:
        raise UserError(f"{path}: the shard has {size} bytes, the manifest says {entry.bytes}; {remedy}")
    sha256 = hash_file(path)
    if sha256 != entry.sha256:
        raise UserError(f"{path}: SHA-256 is {sha256[:12]}..., the manifest says {entry.sha256[:12]}...; {remedy}")


@dataclass(frozen=True, slots=True)
class Span:
    """Where a sample stands in its shard: byte ranges of its image and of its record."""

    index: int
    image: slice
    record: slice


def read_shard(path: Path, shape: Shape, count: int) -> Iterator[tuple[np.ndarray, dict, bytes]]:
    """Images, records and content digests of a shard, in order.

    Raises:
        UserError: anything else than a whole shard of `count` samples.
    """
    data = memoryview(path.read_bytes())
    for span in list(index_shard(path, data, count)):
        image, record, text = read_sample(path, data, span, shape)
        yield image, record, content_digest(span.index, image, text)


def index_shard(path: Path, data: memoryview, count: int) -> Iterator[Span]:
    """The spans of a shard's samples, in order.

    The reader is strict: each member's header must be the very bytes that the writer makes, so links, sparse
    files, long names and foreign members are refused before anything is decoded.

    Arguments:
        path: for the errors.
        data: the shard's bytes (a memory map will do: only headers are read).
        count: the samples it must hold.

    Raises:
        UserError: anything else than a whole shard of `count` samples.
    """
    position = 0

    def member(ending: str) -> tuple[int, slice]:
        nonlocal position
        header = bytes(data[position : position + BLOCK])
        try:  # whatever int() takes besides plain digits, the comparison refuses
            index, size = int(header[:8]), int(header[124:135], 8)
            if index < 0 or size < 0 or header != member_header(member_name(index, ending), size):
                raise ValueError
        except ValueError:
            raise UserError(
                f"{path}: byte {position} is no header of a .{ending} sample file; the shard is damaged or foreign"
            ) from None
        name, body = member_name(index, ending), slice(position + BLOCK, position + BLOCK + size)
        position = body.stop + -size % BLOCK
        if position > len(data):
            raise UserError(f"{path}: {name} ends beyond the end of the shard; the shard is truncated")
        if bytes(data[body.stop : position]) != PADDING[-size % BLOCK]:
            raise UserError(f"{path}: {name} is not followed by zeros; the shard is damaged")
        return index, body

    for _ in range(count):
        index, image = member("png")
        record_index, record = member("json")
        if record_index != index:
            names = member_name(index, "png"), member_name(record_index, "json")
            raise UserError(f"{path}: {names[0]} is followed by {names[1]}; the shard is damaged")
        yield Span(index, image, record)
    if len(data) - position < len(END) or any(data[position:]):
        raise UserError(f"{path}: more than {count} samples or a damaged end; the shard is not the manifest's")


def read_record(path: Path, data: memoryview, span: Span) -> tuple[dict, bytes]:
    """A sample's record and its text; the image is not touched.

    Raises:
        UserError: a record that is not this sample's.
    """
    what, text = f"{path}: {member_name(span.index, 'json')}", bytes(data[span.record])
    record = loads_json(text, what)
    if (
        not isinstance(record, dict)
        or set(record) != {"id", "labels", "factors"}
        or record["id"] != span.index
        or not isinstance(record["labels"], dict)
    ):
        raise UserError(f"{what}: the image's and the record's ids differ or fields are missing; the shard is damaged")
    return record, text


def read_sample(path: Path, data: memoryview, span: Span, shape: Shape) -> tuple[np.ndarray, dict, bytes]:
    """A sample's image, record and the record's text.

    Raises:
        UserError: a damaged image or record.
    """
    record, text = read_record(path, data, span)
    image = decode_png(bytes(data[span.image]), shape, f"{path}: {member_name(span.index, 'png')}")
    return image, record, text
