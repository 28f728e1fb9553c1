"""The curvature of logistic regressions, averaged over classes: the matrix from which the probe's L-BFGS begins."""

import torch
from torch import Tensor

from suppression_bench.evaluation.objective import Objective

# Samples the curvature is estimated from (four a feature if that is more): it only steers, the minimum is that of all.
ROWS = 2048
FIRST = 16  # iteration before which none is made: strong L2 ends earlier without
LARGEST = 2**25  # entries of all problems' matrices


def is_due(iteration: int) -> bool:
    """Whether the matrices are made anew before an iteration: for problems that are not easy, and ever more rarely.

    >>> [i for i in range(150) if is_due(i)]
    [16, 32, 64, 128]
    """
    return iteration >= FIRST and iteration & (iteration - 1) == 0


def inverse(objective: Objective, weights: Tensor) -> Tensor | None:
    """One matrix a problem: the inverse of X^T diag(v) X / n + l2 I, v the mean over classes of p (1 - p).

    For two classes this is, up to a factor, Newton's matrix; for more it leaves the coupling of classes to L-BFGS.
    The bias, which is not penalised, is a last column of ones. Any positive definite matrix leads to the same minimum.

    Arguments:
        objective: the problems and their features (N, D); evenly spaced rows are read, `ROWS` or 4 D.
        weights: (D + 1, K) where the curvature is taken.

    Returns:
        (P, D + 1, D + 1), or None where that would be too large or the features outnumber the samples.
    """
    count, width = objective.features.shape
    if width >= count or objective.count * (width + 1) ** 2 > LARGEST:
        return None
    rows = slice(None, None, -(-count // max(ROWS, 4 * width)))
    design = torch.nn.functional.pad(objective.features[rows], (0, 1), value=1.0)
    spread = torch.cat([(shares * (1 - shares)).mean(2) for shares in objective.shares(rows, weights)], dim=1)
    bends = torch.stack([design.T @ (design * column[:, None]) for column in spread.T.contiguous()]) / len(design)
    # Rounding must not make the matrix indefinite: its size is that of the largest eigenvalue, at most the trace.
    diagonal = bends.diagonal(dim1=1, dim2=2)
    floor = 8 * torch.finfo(bends.dtype).eps * diagonal.sum(1) + torch.finfo(bends.dtype).tiny
    diagonal += floor[:, None]
    diagonal[:, :-1] += objective.l2[:, None]
    factor = torch.linalg.cholesky(bends.double())
    return torch.cholesky_inverse(factor).to(weights.dtype)
