"""NT-Xent: the normalised, temperature-scaled cross entropy of SimCLR."""

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from suppression_bench.loss import declares


@declares(normalises=True)
def nt_xent(z1: Tensor, z2: Tensor, *, temperature: float = 0.1, pairs: Literal["all", "cross"] = "all") -> Tensor:
    """Cross entropy of finding each view's partner among the other samples' views, mean over the 2N anchors.

    Reference: Chen, Kornblith, Norouzi & Hinton (ICML 2020), eq. 1. With `pairs="all"` an anchor has the 2N - 2
    views of the other samples as negatives; with `cross`, as in the notebook of Chen, Luo & Li (2021), only the
    N - 1 of the other view. The notebook adds up the two directions: that is twice this mean.

    Arguments:
        z1, z2: (N, d) projections of the two views of the same N samples, any length.
        temperature: divides the cosine similarities, above 0.
        pairs: which pairs are negatives.

    Returns:
        The scalar loss in nats, float32 at least.

    >>> z = torch.ones(4, 2)
    >>> round(nt_xent(z, z, pairs="cross").item(), 6) == round(torch.tensor(4.0).log().item(), 6)
    True
    """
    z1, z2 = F.normalize(_wide(z1), dim=1), F.normalize(_wide(z2), dim=1)
    count = len(z1)
    target = torch.arange(count, device=z1.device)
    with torch.autocast(z1.device.type, enabled=False):
        if pairs == "cross":
            logits = z1 @ z2.T / temperature
            return (F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target)) / 2
        both = torch.cat([z1, z2])
        logits = both @ both.T / temperature
        logits = logits.masked_fill(torch.eye(2 * count, dtype=torch.bool, device=z1.device), float("-inf"))
        return F.cross_entropy(logits, torch.cat([target + count, target]))


def _wide(z: Tensor) -> Tensor:
    return z.float() if z.dtype in (torch.float16, torch.bfloat16) else z
