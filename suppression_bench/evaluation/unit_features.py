"""Features of length 1: what is refused, and their similarities in tiles."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from generators.dataset import UserError

BLOCK = 1000
LENGTH_TOLERANCE = 1e-3  # far above float32's rounding, far below what forgetting to normalise does


def require_unit(features: Tensor, block_size: int = BLOCK) -> None:
    """Refuse what no cosine similarity can be read from.

    Raises:
        UserError: another shape than (N, D), another type than float32 or float64, NaN or Infinity, rows whose length
            is not 1, or a block size below 1.
    """
    if block_size < 1:
        raise UserError(f"block_size must be at least 1, got {block_size}")
    if features.ndim != 2 or 0 in features.shape or features.dtype not in (torch.float32, torch.float64):
        raise UserError(
            f"features must be a filled (N, D) float32 or float64 matrix, got {tuple(features.shape)} {features.dtype}"
        )
    lengths = torch.cat([block.norm(dim=1) for block in features.split(block_size)])
    if not bool(torch.isfinite(lengths).all()):
        raise UserError("features must be finite, got NaN or Infinity; look for a diverged encoder")
    furthest = (lengths - 1).abs().argmax()
    if (lengths[furthest] - 1).abs() > LENGTH_TOLERANCE:
        raise UserError(
            f"features must be normalised, row {int(furthest)} has length {lengths[furthest]:.4g}; "
            "divide each row by its length first"
        )


def tiles(first: Tensor, second: Tensor, start: int, block_size: int, begin: int = 0) -> Iterator[tuple[int, Tensor]]:
    """Similarities of the rows from `start` with all rows of `second` from `begin`: (column, up to (block, block))."""
    rows = first[start : start + block_size]
    for column in range(begin, len(second), block_size):
        yield column, rows @ second[column : column + block_size].T


def checked_labels(labels: np.ndarray | Tensor, count: int) -> Tensor:
    """(N,) int64 classes on the CPU.

    Raises:
        UserError: another shape or kind.
    """
    found = torch.as_tensor(labels).cpu()
    if found.shape != (count,) or found.dtype != torch.int64:
        raise UserError(f"labels must be {count} int64 classes, one a sample, got {tuple(found.shape)} {found.dtype}")
    return found


def require_pair(first: Tensor, second: Tensor, block_size: int) -> None:
    """Refuse two views of the same samples that no pair can be read from.

    Raises:
        UserError: what `require_unit` refuses, or two different shapes or types.
    """
    require_unit(first, block_size)
    require_unit(second, block_size)
    if first.shape != second.shape or first.dtype != second.dtype:
        raise UserError(
            f"the two views must be alike, got {tuple(first.shape)} {first.dtype} and {tuple(second.shape)} {second.dtype}"
        )
