"""Pure integer picture functions: the same bytes on every machine."""

from functools import lru_cache

import numpy as np


@lru_cache(maxsize=256)
def _triangle(size_in: int, size_out: int) -> np.ndarray:
    # Integer triangle-filter weights (size_out, size_in): |distance| in units of 1 / (2 max(size_in, size_out)),
    # wide enough to average when shrinking. Stored as doubles because sums of such integers below 2^53 are exact
    # in any order, so the fast matrix product stays bit-exact.
    reach = 2 * max(size_in, size_out)
    source = (2 * np.arange(size_in) + 1) * size_out
    target = (2 * np.arange(size_out) + 1) * size_in
    return np.maximum(0, reach - np.abs(source[None, :] - target[:, None])).astype(np.float64)


def resize(picture: np.ndarray, height: int, width: int) -> np.ndarray:
    """Resize a grey picture with a triangle filter in exact integer arithmetic, rounding halves up.

    The project's own kernel, since library resizers change between versions. It interpolates bilinearly when
    enlarging and averages over the triangle of the shrinking ratio when shrinking.

    Arguments:
        picture: (H, W) uint8, at most 1024 pixels a side.
        height, width: the new size in pixels, at most 1024.

    Returns:
        (height, width) uint8.

    >>> resize(np.array([[0, 255]], dtype=np.uint8), 1, 4).tolist()
    [[0, 64, 191, 255]]
    """
    rows, columns = _triangle(picture.shape[0], height), _triangle(picture.shape[1], width)
    total = (rows @ picture.astype(np.float64) @ columns.T).astype(np.int64)
    weight = np.outer(rows.sum(1), columns.sum(1)).astype(np.int64)
    return ((2 * total + weight) // (2 * weight)).astype(np.uint8)


def add(canvas: np.ndarray, patch: np.ndarray, top: int, left: int) -> None:
    """Add a grey patch to a grey canvas in place, saturating at 255 (uint8 must never wrap around).

    >>> canvas = np.full((1, 2), 200, dtype=np.uint8)
    >>> add(canvas, np.array([[100]], dtype=np.uint8), 0, 1)
    >>> canvas.tolist()
    [[200, 255]]
    """
    region = canvas[top : top + patch.shape[0], left : left + patch.shape[1]]
    if region.shape != patch.shape:
        raise ValueError(f"a patch of {patch.shape} at ({top}, {left}) leaves the canvas of {canvas.shape}")
    room = 255 - region
    region += np.minimum(patch, room)
