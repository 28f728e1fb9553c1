"""Pure integer image functions: the same bytes on every machine."""

from functools import lru_cache

import numpy as np


def _triangle(size_in: int, size_out: int) -> np.ndarray:
    # Integer triangle-filter weights (size_out, size_in): |distance| in units of 1 / (2 max(size_in, size_out)),
    # wide enough to average when shrinking, without their common divisor.
    reach = 2 * max(size_in, size_out)
    source = (2 * np.arange(size_in) + 1) * size_out
    target = (2 * np.arange(size_out) + 1) * size_in
    weights = np.maximum(0, reach - np.abs(source[None, :] - target[:, None]))
    return weights // np.gcd.reduce(weights, axis=None)


@lru_cache(maxsize=32)
def _kernel(height_in: int, width_in: int, height: int, width: int) -> tuple[np.ndarray, ...]:
    # Weights of rows and columns, half of each target pixel's total weight, and the whole, as floating-point numbers:
    # sums of integers that the mantissa holds are exact in any order, so the fast matrix product stays bit-exact.
    rows, columns = _triangle(height_in, height), _triangle(width_in, width)
    whole = np.outer(rows.sum(1), columns.sum(1))
    # Rounding needs the quotient too: one that is not whole lies at least 1 / (2 weight) below the next integer.
    kind = np.float32 if whole.max() < 2**14 else np.float64
    return rows.astype(kind), np.ascontiguousarray(columns.T, dtype=kind), (whole / 2).astype(kind), whole.astype(kind)


def resize(image: np.ndarray, height: int, width: int) -> np.ndarray:
    """Resize a grey image with a triangle filter in exact integer arithmetic, rounding halves up.

    The project's own kernel, since library resizers change between versions. It interpolates bilinearly when
    enlarging and averages over the triangle of the shrinking ratio when shrinking.

    Arguments:
        image: (H, W) uint8, at most 1024 pixels a side.
        height, width: the new size in pixels, at most 1024.

    Returns:
        (height, width) uint8.

    >>> resize(np.array([[0, 255]], dtype=np.uint8), 1, 4).tolist()
    [[0, 64, 191, 255]]
    """
    rows, columns, half, whole = _kernel(*image.shape, height, width)
    total = rows @ image.astype(rows.dtype) @ columns
    total += half  # floor((2 total + weight) / (2 weight))
    total /= whole
    return total.astype(np.uint8)


def lay_over(canvas: np.ndarray, patch: np.ndarray, top: int, left: int) -> None:
    """Lay a grey patch over a canvas of any number of channels in place, the brighter pixel winning.

    >>> canvas = np.array([[[9, 1, 5]]], dtype=np.uint8)
    >>> lay_over(canvas, np.array([[5]], dtype=np.uint8), 0, 0)
    >>> canvas.tolist()
    [[[9, 5, 5]]]
    """
    region = _region(canvas, patch, top, left)
    np.maximum(region, patch if canvas.ndim == 2 else patch[:, :, None], out=region)


def add(canvas: np.ndarray, patch: np.ndarray, top: int, left: int) -> None:
    """Add a grey patch to a canvas of any number of channels in place, saturating at 255 (uint8 must never wrap around).

    >>> canvas = np.full((1, 2), 200, dtype=np.uint8)
    >>> add(canvas, np.array([[100]], dtype=np.uint8), 0, 1)
    >>> canvas.tolist()
    [[200, 255]]
    """
    region = _region(canvas, patch, top, left)
    region += np.minimum(patch if canvas.ndim == 2 else patch[:, :, None], ~region)  # ~x is 255 - x, the room left


def _region(canvas: np.ndarray, patch: np.ndarray, top: int, left: int) -> np.ndarray:
    region = canvas[top : top + patch.shape[0], left : left + patch.shape[1]]
    if min(top, left) < 0 or region.shape[:2] != patch.shape:
        raise ValueError(f"a patch of {patch.shape} at ({top}, {left}) leaves the canvas of {canvas.shape}")
    return region
