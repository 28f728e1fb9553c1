"""Hard contrastive loss: NT-Xent with the hardest negatives of each anchor only."""

from torch import Tensor
from torch.nn import functional as F

from suppression_bench.loss import Pairs, declares, excess, hardest, require_above_zero, similarities


@declares(normalises=True, negatives=True)
def hard(
    z1: Tensor,
    z2: Tensor,
    *,
    temperature: float = 0.1,
    alpha: float = 0.1,
    top_k: int | None = None,
    pairs: Pairs = "all",
    negatives: Tensor | None = None,
) -> Tensor:
    """Cross entropy of finding each view's partner among its most similar negatives, mean over the 2N anchors.

    Reference: Wang & Liu, Understanding the Behaviour of Contrastive Loss (CVPR 2021), eq. 9. With `alpha=1` it is
    NT-Xent.

    Arguments:
        z1, z2: (N, d) projections of the two views of the same N samples, any length.
        temperature: divides the cosine similarities, above 0.
        alpha: the fraction of an anchor's negatives that is kept, rounded, at least one; above 0, at most 1.
        top_k: this many of them instead (all where there are fewer).
        pairs: which pairs are negatives: `all`, 2N - 2 an anchor; `cross`, N - 1; `given`, only `negatives`.
        negatives: (M, d) more of them for every anchor (a queue, a memory bank).

    Returns:
        The scalar loss in nats, float32 at least.

    >>> import torch
    >>> z = torch.ones(4, 2)
    >>> round(hard(z, z, top_k=2).item(), 6) == round(torch.tensor(3.0).log().item(), 6)
    True
    """
    require_above_zero(temperature=temperature)
    positive, negative = similarities(z1, z2, pairs, negatives)
    return F.softplus(excess(positive, hardest(negative, alpha, top_k), temperature)).mean()
