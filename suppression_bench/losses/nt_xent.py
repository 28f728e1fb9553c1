"""NT-Xent: the normalised, temperature-scaled cross entropy of SimCLR."""

import torch
from torch import Tensor
from torch.nn import functional as F

from suppression_bench.loss import Pairs, declares, normalised, products, require_above_zero, require_pairs


@declares(normalises=True, negatives=True)
def nt_xent(
    z1: Tensor, z2: Tensor, *, temperature: float = 0.1, pairs: Pairs = "all", negatives: Tensor | None = None
) -> Tensor:
    """Cross entropy of finding each view's partner among the other samples' views, mean over the 2N anchors.

    Reference: Chen, Kornblith, Norouzi & Hinton (ICML 2020), eq. 1. With `pairs="all"` an anchor has the 2N - 2
    views of the other samples as negatives; with `cross`, as in the notebook of Chen, Luo & Li (2021), only the
    N - 1 of the other view. The notebook adds up the two directions: that is twice this mean. With `given` the N of z1
    alone are anchors and `negatives` the only negatives: He, Fan, Wu, Xie & Girshick (CVPR 2020), eq. 1.

    Arguments:
        z1, z2: (N, d) projections of the two views of the same N samples, any length.
        temperature: divides the cosine similarities, above 0.
        pairs: which pairs are negatives: `all`, 2N - 2 an anchor; `cross`, N - 1; `given`, only `negatives`.
        negatives: (M, d) more of them for every anchor (a queue, a memory bank).

    Returns:
        The scalar loss in nats, float32 at least.

    >>> z = torch.ones(4, 2)
    >>> round(nt_xent(z, z, pairs="cross").item(), 6) == round(torch.tensor(4.0).log().item(), 6)
    True
    """
    require_above_zero(temperature=temperature)
    require_pairs(pairs, negatives)
    # In the words of loss.py this is softplus(excess(*similarities(...))).mean(), equal in double precision. Written as
    # cross entropies of whole rows its last bits in float32 are others: those of every SimCLR cell on record.
    z1, z2 = normalised(z1), normalised(z2)
    count = len(z1)
    target = torch.arange(count, device=z1.device)

    def with_queue(logits: Tensor, anchors: Tensor) -> Tensor:
        if negatives is None:
            return logits
        return torch.cat([logits, products(anchors, normalised(negatives)) / temperature], dim=1)

    if pairs == "cross":
        logits = products(z1, z2) / temperature
        first, second = with_queue(logits, z1), with_queue(logits.T, z2)
        return (F.cross_entropy(first, target) + F.cross_entropy(second, target)) / 2
    if pairs == "given":
        logits = with_queue((z1 * z2).sum(1, keepdim=True) / temperature, z1)
        return F.cross_entropy(logits, torch.zeros_like(target))
    both = torch.cat([z1, z2])
    logits = products(both, both) / temperature
    logits = logits.masked_fill(torch.eye(2 * count, dtype=torch.bool, device=z1.device), float("-inf"))
    return F.cross_entropy(with_queue(logits, both), torch.cat([target + count, target]))
