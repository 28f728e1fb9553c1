"""SupCon, the sum over positives outside of the logarithm."""

import torch
from torch import Tensor

from suppression_bench.loss import declares, require_above_zero, same_class, supervised_logits


@declares(normalises=True, needs_labels=True)
def supcon_out(z1: Tensor, z2: Tensor, *, temperature: float = 0.1, labels: Tensor | None = None) -> Tensor:
    """Cross entropy of finding each view of the anchor's class among all other views, mean over positives and anchors.

    Reference: Khosla et al., Supervised Contrastive Learning (NeurIPS 2020), eq. 2; the mean over the 2N anchors
    instead of the sum, without the factor temperature / base_temperature of their code.

    Arguments:
        z1, z2: (N, d) projections of the two views of the same N samples, any length.
        temperature: divides the cosine similarities, above 0.
        labels: (N,) the samples' classes.

    Returns:
        The scalar loss in nats, float32 at least.

    >>> z = torch.ones(4, 2)
    >>> round(supcon_out(z, z, labels=torch.tensor([0, 0, 1, 1])).item(), 6) == round(torch.tensor(7.0).log().item(), 6)
    True
    """
    require_above_zero(temperature=temperature)
    same = same_class(labels)
    logits = supervised_logits(z1, z2, temperature)
    itself = torch.eye(len(logits), dtype=torch.bool, device=logits.device)
    positive = same & ~itself
    mean = logits.masked_fill(~positive, 0.0).sum(dim=1) / positive.sum(dim=1)
    return (torch.logsumexp(logits, dim=1) - mean).mean()
