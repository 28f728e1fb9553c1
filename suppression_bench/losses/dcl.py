"""DCL: decoupled contrastive learning, NT-Xent without the positive in the denominator."""

from torch import Tensor

from suppression_bench.loss import Pairs, declares, excess, require_above_zero, similarities


@declares(normalises=True, negatives=True)
def dcl(
    z1: Tensor, z2: Tensor, *, temperature: float = 0.1, pairs: Pairs = "all", negatives: Tensor | None = None
) -> Tensor:
    """Log-sum-exp of an anchor's negatives less the similarity of its positive, mean over the 2N anchors.

    Reference: Yeh, Hong, Hsu, Liu, Chen & LeCun (ECCV 2022), the loss L_DC: NT-Xent whose denominator lacks the positive.
    The paper adds up the two views' means: that is twice this.

    The loss is the mean over i of -s_ii / tau + log sum over k of exp(s_ik / tau).

    Arguments:
        z1, z2: (N, d) projections of the two views of the same N samples, any length.
        temperature: divides the cosine similarities, above 0.
        pairs: which pairs are negatives: `all`, 2N - 2 an anchor; `cross`, N - 1; `given`, only `negatives`.
        negatives: (M, d) more of them for every anchor (a queue, a memory bank).

    Returns:
        The scalar loss, float32 at least; it may be below 0.

    >>> import torch
    >>> z = torch.ones(4, 2)
    >>> round(dcl(z, z).item(), 6) == round(torch.tensor(6.0).log().item(), 6)
    True
    """
    require_above_zero(temperature=temperature)
    return excess(*similarities(z1, z2, pairs, negatives), temperature).mean()
