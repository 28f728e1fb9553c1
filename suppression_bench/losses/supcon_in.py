"""SupCon, the mean over positives inside of the logarithm."""

import torch
from torch import Tensor

from suppression_bench.loss import declares, require_above_zero, same_class, supervised_logits


@declares(normalises=True, needs_labels=True)
def supcon_in(z1: Tensor, z2: Tensor, *, temperature: float = 0.1, labels: Tensor | None = None) -> Tensor:
    """Minus the log of the mean probability of the views of the anchor's class among all other views, mean over anchors.

    Reference: Khosla et al., Supervised Contrastive Learning (NeurIPS 2020), eq. 3; the mean over the 2N anchors
    instead of the sum, without the factor temperature / base_temperature of their code.

    Arguments:
        z1, z2: (N, d) projections of the two views of the same N samples, any length.
        temperature: divides the cosine similarities, above 0.
        labels: (N,) the samples' classes.

    Returns:
        The scalar loss in nats, float32 at least.

    >>> z = torch.ones(4, 2)
    >>> round(supcon_in(z, z, labels=torch.tensor([0, 0, 1, 1])).item(), 6) == round(torch.tensor(7.0).log().item(), 6)
    True
    """
    require_above_zero(temperature=temperature)
    same = same_class(labels)
    logits = supervised_logits(z1, z2, temperature)
    positive = torch.logsumexp(logits.masked_fill(~same, float("-inf")), dim=1)
    count = same.sum(dim=1) - 1  # itself is of its class, but no positive
    return (torch.logsumexp(logits, dim=1) - positive + count.to(logits.dtype).log()).mean()
