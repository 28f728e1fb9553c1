"""FlatNCE: the contrastive loss whose value is constant and whose gradient keeps its size in small batches."""

import torch
from torch import Tensor

from suppression_bench.loss import Pairs, declares, excess, require_above_zero, similarities


@declares(normalises=True, negatives=True)
def flat_nce(
    z1: Tensor, z2: Tensor, *, temperature: float = 0.1, pairs: Pairs = "all", negatives: Tensor | None = None
) -> Tensor:
    """Sum of exp((s_ik - s_ii) / tau) over an anchor's negatives divided by itself without gradient, mean over anchors.

    Reference: Chen, Gan, Li, Guo, Chen, Gao, Chung, Xu, Zeng, Lu, Li, Carin & Tao (2021, arXiv 2107.01152). The value
    is always 1: it shows no progress; the gradient is that of `dcl`.

    Arguments:
        z1, z2: (N, d) projections of the two views of the same N samples, any length.
        temperature: divides the cosine similarities, above 0.
        pairs: which pairs are negatives: `all`, 2N - 2 an anchor; `cross`, N - 1; `given`, only `negatives`.
        negatives: (M, d) more of them for every anchor (a queue, a memory bank).

    Returns:
        The scalar loss, float32 at least.

    >>> flat_nce(torch.eye(3), torch.eye(3)).item()
    1.0
    """
    require_above_zero(temperature=temperature)
    odds = excess(*similarities(z1, z2, pairs, negatives), temperature)
    return torch.exp(odds - odds.detach()).mean()
