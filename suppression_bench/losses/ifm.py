"""IFM: implicit feature modification, NT-Xent and the same against an adversary in feature space."""

from torch import Tensor
from torch.nn import functional as F

from suppression_bench.loss import Pairs, declares, excess, require, require_above_zero, similarities


@declares(normalises=True, negatives=True)
def ifm(
    z1: Tensor,
    z2: Tensor,
    *,
    temperature: float = 0.1,
    epsilon: float = 0.1,
    pairs: Pairs = "all",
    negatives: Tensor | None = None,
) -> Tensor:
    """Mean of NT-Xent and of NT-Xent with positives less similar, negatives more similar by `epsilon`.

    Reference: Robinson, Sun, Yu, Batmanghelich, Jegelka & Sra, Can contrastive learning avoid shortcut solutions?
    (NeurIPS 2021), section 4: the closed form of the worst change of the features by `epsilon`. With `epsilon=0`
    it is NT-Xent.

    Arguments:
        z1, z2: (N, d) projections of the two views of the same N samples, any length.
        temperature: divides the cosine similarities, above 0.
        epsilon: the adversary's budget, in units of the cosine similarity, 0 or more (paper: .05, .1, .2).
        pairs: which pairs are negatives: `all`, 2N - 2 an anchor; `cross`, N - 1; `given`, only `negatives`.
        negatives: (M, d) more of them for every anchor (a queue, a memory bank).

    Returns:
        The scalar loss in nats, float32 at least.

    >>> import torch
    >>> z = torch.ones(4, 2)
    >>> round(ifm(z, z, epsilon=0.0).item(), 6) == round(torch.tensor(7.0).log().item(), 6)
    True
    """
    require_above_zero(temperature=temperature)
    require(epsilon >= 0, f"the loss's option epsilon must be 0 or more, got {epsilon}")
    positive, negative = similarities(z1, z2, pairs, negatives)
    plain = F.softplus(excess(positive, negative, temperature))
    attacked = F.softplus(excess(positive - epsilon, negative + epsilon, temperature))
    return (plain + attacked).mean() / 2
