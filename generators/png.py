"""PNG: a small fast writer (grey or RGB, 8 bit, no filter) and a checked reader."""

import io
import struct
import zlib

import numpy as np

from generators.dataset import UserError

SIGNATURE = b"\x89PNG\r\n\x1a\n"
COLOUR = {1: 0, 3: 2}  # channels -> PNG colour type


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(body, zlib.crc32(kind)))


def _header(height: int, width: int, channels: int) -> bytes:
    return struct.pack(">IIBBBBB", width, height, 8, COLOUR[channels], 0, 0, 0)


def encode(picture: np.ndarray) -> bytes:
    """PNG bytes of a (H, W, 1) or (H, W, 3) uint8 picture at zlib's level 1, about 4 times Pillow's speed.

    >>> encode(np.zeros((2, 2, 1), dtype=np.uint8))[:8] == SIGNATURE
    True
    """
    height, width, channels = picture.shape
    lines = np.zeros((height, 1 + width * channels), dtype=np.uint8)  # a leading 0 on each line: no filter
    lines[:, 1:] = picture.reshape(height, -1)
    body = _chunk(b"IHDR", _header(height, width, channels)) + _chunk(b"IDAT", zlib.compress(lines.tobytes(), 1))
    return SIGNATURE + body + _chunk(b"IEND", b"")


def decode(data: bytes, shape: tuple[int, int, int], what: str) -> np.ndarray:
    """The (H, W, C) uint8 picture of PNG bytes whose header must say `shape` before anything is decoded.

    Raises:
        UserError: no PNG, another shape, or damaged data.

    >>> decode(encode(np.full((2, 3, 1), 7, dtype=np.uint8)), (2, 3, 1), "example").sum()
    np.uint64(42)
    """
    from PIL import Image

    if data[:33] != SIGNATURE + _chunk(b"IHDR", _header(*shape)):
        raise UserError(f"{what}: not an 8-bit PNG of {shape[1]}x{shape[0]} pixels and {shape[2]} channels")
    try:
        with Image.open(io.BytesIO(data), formats=["PNG"]) as image:
            if image.size != (shape[1], shape[0]) or image.mode != {1: "L", 3: "RGB"}[shape[2]]:
                raise ValueError("a second header contradicts the first")
            return np.asarray(image, dtype=np.uint8).reshape(shape)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise UserError(f"{what}: damaged PNG ({error})") from None
