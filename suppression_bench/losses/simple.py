"""Simple contrastive loss: similarities without exponentials, every negative weighs the same."""

from torch import Tensor

from suppression_bench.loss import Pairs, declares, require, similarities


@declares(normalises=True, negatives=True)
def simple(
    z1: Tensor, z2: Tensor, *, weight: float | None = None, pairs: Pairs = "all", negatives: Tensor | None = None
) -> Tensor:
    """Similarities of an anchor's negatives times `weight` less that of its positive, mean over the 2N anchors.

    Reference: Wang & Liu, Understanding the Behaviour of Contrastive Loss (CVPR 2021), eq. 3: -s_ii + lambda * sum
    over k of s_ik; by default the lambda of eq. 7, one over the number of an anchor's negatives: it is then NT-Xent's
    limit (times the temperature) at high temperatures. It has no temperature.

    Arguments:
        z1, z2: (N, d) projections of the two views of the same N samples, any length.
        weight: the lambda of the paper, 0 or more.
        pairs: which pairs are negatives: `all`, 2N - 2 an anchor; `cross`, N - 1; `given`, only `negatives`.
        negatives: (M, d) more of them for every anchor (a queue, a memory bank).

    Returns:
        The scalar loss, float32 at least; it may be below 0.

    >>> import torch
    >>> z = torch.eye(4)
    >>> simple(z, z).item()
    -1.0
    """
    require(weight is None or weight >= 0, f"the loss's option weight must be none, or 0 or more, got {weight}")
    positive, negative = similarities(z1, z2, pairs, negatives)
    factor = 1 / negative.shape[1] if weight is None else weight
    return (factor * negative.sum(dim=1) - positive).mean()
