"""Barlow Twins: the cross-correlation of the two views' dimensions is to be the identity."""

from torch import Tensor
from torch.nn import functional as F

from suppression_bench.loss import declares, products, require, wide, without_diagonal


@declares(normalises=True)
def barlow_twins(z1: Tensor, z2: Tensor, *, weight: float = 0.005) -> Tensor:
    """Squared distance of the diagonal of the views' cross-correlation to 1, plus `weight` times its other squares.

    Reference: Zbontar, Jing, Misra, LeCun & Deny (ICML 2021), eq. 1 and 2: each dimension is standardised over the
    batch (biased variance + 1e-5, as their batch norm does), C = z1' z2 / N, sum (1 - C_ii)^2 + lambda sum C_ij^2.

    Arguments:
        z1, z2: (N, d) projections of the two views of the same N samples, N at least 2.
        weight: the lambda of the paper, 0 or more.

    Returns:
        The scalar loss, float32 at least.

    >>> import torch
    >>> z = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    >>> round(barlow_twins(z, z).item(), 6), round(barlow_twins(z, -z).item(), 3)
    (0.0, 8.0)
    """
    require(weight >= 0, f"the loss's option weight must be 0 or more, got {weight}")
    require(len(z1) > 1, "a batch of one sample has no correlation: give two samples or more")
    first, second = (F.batch_norm(wide(z), None, None, training=True, eps=1e-5) for z in (z1, z2))
    correlation = products(first.T, second.T) / len(z1)
    kept, redundant = (1 - correlation.diagonal()).square().sum(), without_diagonal(correlation).square().sum()
    return kept + weight * redundant
