"""The shard format, written and read in one place: plain USTAR files of one .png and one .json per sample.

Integrity is the file digest (SHA-256 of a shard's bytes). Identity is the content digest (SHA-256 over id, shape,
raw pixels and all labels): it does not depend on PNG encoders, shard sizes or workers.
"""

import hashlib
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np

from generators import png, strict_json
from generators.dataset import Feature, Sample, UserError

BLOCK = 512
END = bytes(2 * BLOCK)
PADDING = [bytes(size) for size in range(BLOCK)]
TOGETHER = 400_000  # bytes of pixels that are decoded at once: what a core's cache holds
RECORD = 20 * BLOCK  # tar files are padded to whole records of 20 blocks


# The fields of a member's header that never change: mode 0444 and owner 0; time 0; a regular file in USTAR format.
OWNER, TIME = b"0000444\0" + b"0000000\0" * 2, b"\0" + b"%011o\0" % 0
REST = b"0" + bytes(100) + b"ustar\x0000" + bytes(64) + bytes(16 + 167)
HEADER_SUM = sum(OWNER) + sum(TIME) + sum(REST) + 8 * ord(" ")  # the checksum counts itself as spaces


@dataclass
class ShardResult:
    """What writing one shard yields: the manifest's entry, each sample's digest and the labels' counts."""

    name: str
    bytes: int = 0
    sha256: str = ""
    count: int = 0
    digests: bytes = b""
    class_counts: dict[str, list[int]] = field(default_factory=dict)

    def entry(self) -> dict:
        content = hashlib.sha256(self.digests).hexdigest()
        return {
            "name": self.name,
            "bytes": self.bytes,
            "sha256": self.sha256,
            "count": self.count,
            "content_digest": content,
        }


def member_name(index: int, ending: str) -> str:
    return f"{index:08d}.{ending}"


def member_header(name: str, size: int) -> bytes:
    """The 512-byte USTAR header of a regular file of mode 0444, owner 0, time 0.

    >>> len(member_header("00000000.png", 5))
    512
    """
    named, sized = name.encode(), b"%011o" % size
    checksum = HEADER_SUM + sum(named) + sum(sized)
    return b"".join((named.ljust(100, b"\0"), OWNER, sized, TIME, b"%06o\0 " % checksum, REST))


def content_digest(index: int, picture: np.ndarray, text: bytes) -> bytes:
    """SHA-256 of one sample: "[id,[H,W,C]]", a zero byte, the raw pixels, the JSON text (all labels and factors)."""
    height, width, channels = picture.shape
    digest = hashlib.sha256(b"[%d,[%d,%d,%d]]\0" % (index, height, width, channels))
    digest.update(np.ascontiguousarray(picture))
    digest.update(text)
    return digest.digest()


def record_text(sample: Sample) -> bytes:
    """The .json member of a sample."""
    return strict_json.dumps({"id": sample.index, "labels": sample.labels, "factors": sample.factors}).encode()


def write_shard(path: Path, samples: Iterable[Sample], features: dict[str, Feature]) -> ShardResult:
    """Write one shard so that its final name never shows a partial file.

    A unique temporary name in the same folder, then flush, fsync, read back, rename, fsync of the folder.

    Raises:
        UserError: what was read back is not what was written.
    """
    result = ShardResult(path.name, class_counts={name: [0] * f.classes for name, f in features.items()})
    partial = path.with_name(f"{path.name}.{os.getpid()}-{time.monotonic_ns()}.tmp")
    digests, file_digest = [], hashlib.sha256()
    try:
        with open(partial, "xb") as file:

            def put(data: bytes) -> None:
                file.write(data)
                file_digest.update(data)
                result.bytes += len(data)

            for sample in samples:
                text = record_text(sample)
                put(members(sample.index, png.encode(sample.picture), text))
                digests.append(content_digest(sample.index, sample.picture, text))
                count_labels(result.class_counts, sample.labels, f"{path}: sample", sample.index)
            put(END + bytes(-(result.bytes + len(END)) % RECORD))
            file.flush()
            os.fsync(file.fileno())
        result.sha256, result.count, result.digests = file_digest.hexdigest(), len(digests), b"".join(digests)
        if hash_file(partial) != result.sha256:
            raise UserError(f"{path}: the disk did not return what was written; check the disk", exit_code=4)
        partial.replace(path)
        sync_folder(path.parent)
    finally:
        partial.unlink(missing_ok=True)
    return result


def members(index: int, picture: bytes, record: bytes) -> bytes:
    """A sample's two files with their headers, each filled up to whole blocks."""
    return b"".join(
        (
            member_header(f"{index:08d}.png", len(picture)), picture, PADDING[-len(picture) % BLOCK],
            member_header(f"{index:08d}.json", len(record)), record, PADDING[-len(record) % BLOCK],
        )
    )  # fmt: skip


def count_labels(class_counts: dict[str, list[int]], labels: dict, what: str, index: int) -> None:
    """Add a sample's labels to the counts of each feature's classes, in place.

    Raises:
        UserError: a label that is no class.
    """
    for name, counts in class_counts.items():
        value = labels.get(name)
        for one in value if isinstance(value, list) else [] if value is None else [value]:
            if type(one) is not int or not 0 <= one < len(counts):
                raise UserError(f"{what} {index}: the label {name} is {one!r}, its classes are 0..{len(counts) - 1}")
            counts[one] += 1


def sync_folder(folder: Path) -> None:
    """Make a rename in the folder outlast a power failure."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def hash_file(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@lru_cache(maxsize=65536)
def _hash_once(path: Path, size: int, mtime: int, inode: int) -> str:
    return hash_file(path)


def check_shard(folder: Path, entry: dict) -> None:
    """A shard is valid only if its size and SHA-256 equal the manifest's: most damage reads without an error.

    Raises:
        UserError: missing, truncated or changed shard, with the remedy.
    """
    path = folder / entry["name"]
    remedy = "run the same `bench generate` again, which makes it anew, or restore it from a copy"
    try:
        stat = path.stat()
    except FileNotFoundError:
        raise UserError(f"{path}: the shard is missing; {remedy}") from None
    if stat.st_size != entry["bytes"]:
        raise UserError(f"{path}: the shard has {stat.st_size} bytes, the manifest says {entry['bytes']}; {remedy}")
    found = _hash_once(path, stat.st_size, stat.st_mtime_ns, stat.st_ino)
    if found != entry["sha256"]:
        raise UserError(f"{path}: SHA-256 is {found[:12]}..., the manifest says {entry['sha256'][:12]}...; {remedy}")


def read_shard(path: Path, shape: tuple[int, int, int], count: int) -> Iterator[tuple[np.ndarray, dict, bytes]]:
    """Pictures, records and content digests of a shard, in order.

    Raises:
        UserError: anything else than a whole shard of `count` samples.
    """
    data = memoryview(path.read_bytes())
    places = list(index_shard(path, data, count))
    together = max(1, TOGETHER // (shape[0] * shape[1] * shape[2]))
    for start in range(0, count, together):
        some = places[start : start + together]
        names = [f"{path}: {member_name(place.index, 'png')}" for place in some]
        pictures = png.decode_many([bytes(data[place.picture]) for place in some], shape, names.__getitem__)
        for place, picture in zip(some, pictures, strict=True):
            record, text = read_record(path, data, place)
            yield picture, record, content_digest(place.index, picture, text)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a sample stands in its shard: byte ranges of its picture and of its record."""

    index: int
    picture: slice
    record: slice


def index_shard(path: Path, data: memoryview, count: int) -> Iterator[Place]:
    """The places of a shard's samples, in order.

    The reader is strict: each member's header must be the very bytes that the writer makes, so links, sparse
    files, long names and foreign members are refused before anything is decoded.

    Arguments:
        path: for the errors.
        data: the shard's bytes (a memory map will do: only headers are read).
        count: the samples it must hold.

    Raises:
        UserError: anything else than a whole shard of `count` samples.
    """
    place = 0

    def member(ending: str) -> tuple[int, slice]:
        nonlocal place
        header = bytes(data[place : place + BLOCK])
        try:  # whatever int() takes besides plain digits, the comparison refuses
            index, size = int(header[:8]), int(header[124:135], 8)
            good = 0 <= index and 0 <= size and header == member_header(member_name(index, ending), size)
        except ValueError:
            good = False
        if not good:
            raise UserError(
                f"{path}: byte {place} is no header of a .{ending} sample file; the shard is damaged or foreign"
            )
        start, place = place + BLOCK, place + BLOCK + -(-size // BLOCK) * BLOCK
        if place > len(data):
            name = member_name(index, ending)
            raise UserError(f"{path}: {name} ends beyond the end of the shard; the shard is truncated")
        return index, slice(start, start + size)

    for _ in range(count):
        index, picture = member("png")
        same, record = member("json")
        if same != index:
            raise UserError(
                f"{path}: {member_name(index, 'png')} is followed by {member_name(same, 'json')}; the shard is damaged"
            )
        yield Place(index, picture, record)
    if len(data) - place < len(END) or any(data[place:]):
        raise UserError(f"{path}: more than {count} samples or a damaged end; the shard is not the manifest's")


def read_record(path: Path, data: memoryview, place: Place) -> tuple[dict, bytes]:
    """A sample's record and its text; the picture is not touched.

    Raises:
        UserError: a record that is not this sample's.
    """
    what, text = f"{path}: {member_name(place.index, 'json')}", bytes(data[place.record])
    record = strict_json.loads(text, what)
    if (
        not isinstance(record, dict)
        or set(record) != {"id", "labels", "factors"}
        or record["id"] != place.index
        or not isinstance(record["labels"], dict)
    ):
        raise UserError(
            f"{what}: the picture's and the record's ids differ or fields are missing; the shard is damaged"
        )
    return record, text


def read_sample(
    path: Path, data: memoryview, place: Place, shape: tuple[int, int, int]
) -> tuple[np.ndarray, dict, bytes]:
    """A sample's picture, record and the record's text.

    Raises:
        UserError: a damaged picture or record.
    """
    record, text = read_record(path, data, place)
    return png.decode(bytes(data[place.picture]), shape, f"{path}: {member_name(place.index, 'png')}"), record, text
