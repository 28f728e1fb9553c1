"""PNG: a small fast writer (grey or RGB, 8 bit) and a checked reader."""

import io
import struct
import zlib
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from generators.dataset import UserError

SIGNATURE = b"\x89PNG\r\n\x1a\n"
COLOUR = {1: 0, 3: 2}  # channels -> PNG colour type
UP = 2  # PNG's filter of a line: the difference to the line above


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(body, zlib.crc32(kind)))


END = _chunk(b"IEND", b"")


@lru_cache(maxsize=64)
def _header(height: int, width: int, channels: int) -> bytes:
    return struct.pack(">IIBBBBB", width, height, 8, COLOUR[channels], 0, 0, 0)


def encode(picture: np.ndarray) -> bytes:
    """PNG bytes of a (H, W, 1) or (H, W, 3) uint8 picture: the filter "up" on every line, zlib's level 1.

    Of the one-pass settings that one is the smallest and nearly the fastest, on digits and on photographs. (isal is twice
    as fast again, but now and then gives other bytes for the same picture, and a restart must end with the same ones.)

    >>> encode(np.zeros((2, 2, 1), dtype=np.uint8))[:8] == SIGNATURE
    True
    """
    height, width, channels = picture.shape
    rows = picture.reshape(height, width * channels)
    lines = np.empty((height, 1 + width * channels), dtype=np.uint8)
    lines[:, 0] = UP
    lines[0, 1:] = rows[0]
    np.subtract(rows[1:], rows[:-1], out=lines[1:, 1:])  # wraps around, as the format wants it
    body = _chunk(b"IHDR", _header(height, width, channels)) + _chunk(b"IDAT", zlib.compress(lines, 1))
    return SIGNATURE + body + END


def decode(data: bytes, shape: tuple[int, int, int], what: str) -> np.ndarray:
    """The (H, W, C) uint8 picture of PNG bytes whose header must say `shape` before anything is decoded.

    What `encode` wrote is read directly, any other PNG by Pillow.

    Raises:
        UserError: no PNG, another shape, or damaged data.

    >>> decode(encode(np.full((2, 3, 1), 7, dtype=np.uint8)), (2, 3, 1), "example").sum()
    np.uint64(42)
    """
    return decode_many([data], shape, lambda _: what)[0]


def decode_many(datas: list[bytes], shape: tuple[int, int, int], what: Callable[[int], str]) -> np.ndarray:
    """`decode` of several pictures at once, (N, H, W, C) uint8: their lines are summed up together, in half the time.

    Arguments:
        datas: the PNG files.
        shape: of every picture.
        what: the name of the file at a position, for errors.

    Raises:
        UserError: no PNG, another shape, or damaged data.
    """
    head = SIGNATURE + _chunk(b"IHDR", _header(*shape))
    lines, others = [], {}
    for position, data in enumerate(datas):
        if data[:33] != head:
            raise UserError(
                f"{what(position)}: not an 8-bit PNG of {shape[1]}x{shape[0]} pixels and {shape[2]} channels"
            )
        own = _inflate_own(data, shape)
        if own is None:
            others[position] = _decode_any(data, shape, what(position))
        else:
            lines.append(own)
    summed = _sum_up(b"".join(lines), shape)
    if not others:
        return summed
    pictures = np.empty((len(datas), *shape), dtype=np.uint8)
    pictures[[position for position in range(len(datas)) if position not in others]] = summed
    for position, picture in others.items():
        pictures[position] = picture
    return pictures


def _inflate_own(data: bytes, shape: tuple[int, int, int]) -> bytes | None:
    # The lines of a picture with one whole IDAT of the right size and the filter "up" throughout; else None.
    height, line = shape[0], 1 + shape[1] * shape[2]
    length = int.from_bytes(data[33:37], "big")
    if len(data) != 33 + 12 + length + len(END) or data[-len(END) :] != END or data[37:41] != b"IDAT":
        return None
    if zlib.crc32(data[37 : 41 + length]) != int.from_bytes(data[41 + length : 45 + length], "big"):
        return None
    unpack = zlib.decompressobj()
    try:
        raw = unpack.decompress(data[41 : 41 + length], height * line + 1)  # a bomb is cut off
    except zlib.error:
        return None
    if len(raw) != height * line or not unpack.eof or unpack.unused_data or raw[::line] != bytes([UP]) * height:
        return None
    return raw


def _sum_up(raw: bytes, shape: tuple[int, int, int]) -> np.ndarray:
    # Running sums down the columns of all pictures, by doubling: fewer passes than lines.
    height, line = shape[0], 1 + shape[1] * shape[2]
    lines = np.frombuffer(raw, dtype=np.uint8).reshape(-1, height, line)
    picture, step = lines[:, :, 1:].copy(), 1
    spare = np.empty_like(picture)
    while step < height:
        spare[:, :step] = picture[:, :step]
        np.add(picture[:, step:], picture[:, :-step], out=spare[:, step:])
        picture, spare, step = spare, picture, 2 * step
    return picture.reshape(-1, *shape)


def _check(data: bytes, shape: tuple[int, int, int]) -> None:
    # What Pillow leaves out: the checksums of pixel data, and that they are neither cut off nor too many.
    place, kind, packed = len(SIGNATURE), b"", []
    while place < len(data) and kind != b"IEND":
        length, kind = int.from_bytes(data[place : place + 4], "big"), data[place + 4 : place + 8]
        body, end = data[place + 8 : place + 8 + length], place + 12 + length
        if zlib.crc32(body, zlib.crc32(kind)) != int.from_bytes(data[end - 4 : end], "big"):
            raise ValueError(f"the checksum of the chunk at byte {place} is wrong")
        if kind == b"IDAT":
            packed.append(body)
        place = end
    unpack, size = zlib.decompressobj(), shape[0] * (1 + shape[1] * shape[2])
    if len(unpack.decompress(b"".join(packed), size + 1)) != size or not unpack.eof:
        raise ValueError(f"its pixel data are not {size} bytes")


def _decode_any(data: bytes, shape: tuple[int, int, int], what: str) -> np.ndarray:
    from PIL import Image

    try:
        _check(data, shape)
        with Image.open(io.BytesIO(data), formats=["PNG"]) as image:
            if image.size != (shape[1], shape[0]) or image.mode != {1: "L", 3: "RGB"}[shape[2]]:
                raise ValueError("a second header contradicts the first")
            return np.array(image, dtype=np.uint8).reshape(shape)
    except Exception as error:  # on malformed chunks Pillow raises whatever its parsers meet, IndexError too
        raise UserError(f"{what}: damaged PNG ({error})") from None
