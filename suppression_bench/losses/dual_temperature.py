"""Dual temperature: one temperature within an anchor's negatives, another one between anchors."""

import torch
from torch import Tensor

from suppression_bench.loss import Pairs, declares, excess, require_above_zero, similarities, weighted_entropy


@declares(normalises=True, negatives=True)
def dual_temperature(
    z1: Tensor,
    z2: Tensor,
    *,
    temperature: float = 0.1,
    anchor_temperature: float = 1.0,
    pairs: Pairs = "all",
    negatives: Tensor | None = None,
) -> Tensor:
    """NT-Xent whose anchors are weighted anew: by how hard they are at another temperature than the loss's own.

    Reference: Zhang, Zhang, Pham, Niu, Qiao, Yoo & Kweon (CVPR 2022), the loss of SimCo: the cross entropy at `temperature` times
    the constant W(anchor_temperature) / W(temperature), W = 1 - P the negatives' share; no gradient passes through the
    weight. With equal temperatures it is NT-Xent.

    Arguments:
        z1, z2: (N, d) projections of the two views of the same N samples, any length.
        temperature: tau_alpha, weighs the negatives of one anchor, above 0.
        anchor_temperature: tau_beta, weighs the anchors, above 0 (the authors: ten times the other).
        pairs: which pairs are negatives: `all`, 2N - 2 an anchor; `cross`, N - 1; `given`, only `negatives`.
        negatives: (M, d) more of them for every anchor (a queue, a memory bank).

    Returns:
        The scalar loss, float32 at least.

    >>> z = torch.ones(4, 2)
    >>> round(dual_temperature(z, z).item(), 6) == round(torch.tensor(7.0).log().item(), 6)
    True
    """
    require_above_zero(temperature=temperature, anchor_temperature=anchor_temperature)
    positive, negative = similarities(z1, z2, pairs, negatives)
    share = torch.sigmoid(excess(positive, negative, anchor_temperature)).detach()
    return (share * weighted_entropy(excess(positive, negative, temperature))).mean()
