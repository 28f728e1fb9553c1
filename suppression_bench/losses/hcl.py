"""HCL: contrastive learning with negatives reweighted by how hard they are, and debiased."""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from suppression_bench.loss import Pairs, declares, require, require_above_zero, similarities


@declares(normalises=True, negatives=True)
def hcl(
    z1: Tensor,
    z2: Tensor,
    *,
    temperature: float = 0.1,
    beta: float = 1.0,
    tau_plus: float = 0.1,
    pairs: Pairs = "all",
    negatives: Tensor | None = None,
) -> Tensor:
    """NT-Xent whose negatives weigh exp(beta s / tau), less the share of them that are positives unawares.

    Reference: Robinson, Chuang, Sra & Jegelka, Contrastive Learning with Hard Negative Samples (ICLR 2021), with the
    estimator of the authors' code. With K negatives, p = s_ii / tau and n_k = s_ik / tau: -log e^p / (e^p + G), where
    G = max((R - tau_plus K e^p) / (1 - tau_plus), K e^(-1 / tau)), R = K * sum of e^((1 + beta) n_k) / sum of
    e^(beta n_k). With beta and tau_plus 0 it is NT-Xent.

    Arguments:
        z1, z2: (N, d) projections of the two views of the same N samples, any length.
        temperature: divides the cosine similarities, above 0.
        beta: concentration on the hard negatives, 0 or more.
        tau_plus: the probability that a negative is of the anchor's class, from 0 to below 1.
        pairs: which pairs are negatives: `all`, 2N - 2 an anchor; `cross`, N - 1; `given`, only `negatives`.
        negatives: (M, d) more of them for every anchor (a queue, a memory bank).

    Returns:
        The scalar loss in nats, float32 at least.

    >>> z = torch.ones(4, 2)
    >>> round(hcl(z, z).item(), 6) == round(torch.tensor(7.0).log().item(), 6)
    True
    """
    require_above_zero(temperature=temperature)
    require(beta >= 0, f"the loss's option beta must be 0 or more, got {beta}")
    require(0 <= tau_plus < 1, f"the loss's option tau_plus must be at least 0 and below 1, got {tau_plus}")
    positive, negative = (s / temperature for s in similarities(z1, z2, pairs, negatives))
    log_count = math.log(negative.shape[1])
    harder = torch.logsumexp((1 + beta) * negative, dim=1) - torch.logsumexp(beta * negative, dim=1) + log_count
    floor = log_count - 1 / temperature
    if tau_plus == 0:
        return F.softplus(harder.clamp(min=floor) - positive).mean()
    # In logarithms, R - tau_plus K e^p is R (1 - e^gap); where the gap is not below 0 the floor holds.
    gap = positive + math.log(tau_plus) + log_count - harder
    below = gap < -1e-6
    debiased = harder + torch.log(-torch.expm1(torch.where(below, gap, -1.0))) - math.log(1 - tau_plus)
    debiased = torch.where(below, debiased, floor).clamp(min=floor)
    return F.softplus(debiased - positive).mean()
