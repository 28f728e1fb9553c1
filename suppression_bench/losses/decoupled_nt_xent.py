"""Decoupled NT-Xent: alignment plus a weighted log-sum-exp over all pairs."""

import torch
from torch import Tensor

from suppression_bench.loss import declares, normalised, products, require, require_above_zero


@declares(normalises=True, negatives=True)
def decoupled_nt_xent(
    z1: Tensor, z2: Tensor, *, temperature: float = 1.0, weight: float = 0.1, negatives: Tensor | None = None
) -> Tensor:
    """Alignment of the two views plus `weight` times the mean log-sum-exp of every view's similarities, itself included.

    Reference: Chen, Luo & Li (NeurIPS 2021), eq. 2 with the distribution term `logsumexp` of their notebook, which
    subtracts the constant log d besides; defaults of their appendix A.1. Not to be confused with `dcl`.

    The loss is mean over n and d of (z1 - z2)^2 / 2 + weight * mean over i of log sum over k of exp(z_i.z_k / tau).

    Arguments:
        z1, z2: (N, d) projections of the two views of the same N samples, any length.
        temperature: divides the cosine similarities, above 0.
        weight: the lambda of the paper, factor of the log-sum-exp, 0 or more.
        negatives: (M, d) more terms in every sum (a queue, a memory bank).

    Returns:
        The scalar loss, float32 at least.

    >>> z = torch.ones(4, 2)
    >>> round(decoupled_nt_xent(z, z, weight=1.0).item(), 4)  # 1 + log 8
    3.0794
    """
    require_above_zero(temperature=temperature)
    require(weight >= 0, f"the loss's option weight must be 0 or more, got {weight}")
    z1, z2 = normalised(z1), normalised(z2)
    both = torch.cat([z1, z2])
    candidates = both if negatives is None else torch.cat([both, normalised(negatives)])
    spread = torch.logsumexp(products(both, candidates) / temperature, dim=1).mean()
    return (z1 - z2).square().mean() / 2 + weight * spread
