"""DCLW: DCL whose positives are weighted, the hard ones more."""

import torch
from torch import Tensor

from suppression_bench.loss import Pairs, declares, require_above_zero, similarities


@declares(normalises=True, negatives=True)
def dclw(
    z1: Tensor,
    z2: Tensor,
    *,
    temperature: float = 0.1,
    sigma: float = 0.5,
    pairs: Pairs = "all",
    negatives: Tensor | None = None,
) -> Tensor:
    """DCL with every positive's similarity weighted by 2 - exp(s_ii / sigma) / mean over the batch of exp(s_jj / sigma).

    Reference: Yeh, Hong, Hsu, Liu, Chen & LeCun (ECCV 2022), the loss L_DCW with its negative von Mises-Fisher weight:
    its mean is 1, and far positives weigh more. The gradient passes through the weight, as in the authors' code.

    Arguments:
        z1, z2: (N, d) projections of the two views of the same N samples, any length.
        temperature: divides the cosine similarities, above 0.
        sigma: divides the similarities in the weight, above 0.
        pairs: which pairs are negatives: `all`, 2N - 2 an anchor; `cross`, N - 1; `given`, only `negatives`.
        negatives: (M, d) more of them for every anchor (a queue, a memory bank).

    Returns:
        The scalar loss, float32 at least; it may be below 0.

    >>> z = torch.ones(4, 2)
    >>> round(dclw(z, z).item(), 6) == round(torch.tensor(6.0).log().item(), 6)
    True
    """
    require_above_zero(temperature=temperature, sigma=sigma)
    positive, negative = similarities(z1, z2, pairs, negatives)
    # Every positive occurs twice, once for each view's anchor: the softmax over 2N of them times 2N is the ratio.
    weight = 2 - len(positive) * torch.softmax(positive / sigma, dim=0)
    return (torch.logsumexp(negative / temperature, dim=1) - weight * positive / temperature).mean()
