"""Hard simple contrastive loss: the simple loss with the hardest negatives of each anchor only."""

from torch import Tensor

from suppression_bench.loss import Pairs, declares, hardest, require, similarities


@declares(normalises=True, negatives=True)
def hard_simple(
    z1: Tensor,
    z2: Tensor,
    *,
    weight: float | None = None,
    alpha: float = 0.1,
    top_k: int | None = None,
    pairs: Pairs = "all",
    negatives: Tensor | None = None,
) -> Tensor:
    """Similarities of an anchor's hardest negatives times `weight` less that of its positive, mean over the 2N anchors.

    Reference: Wang & Liu, Understanding the Behaviour of Contrastive Loss (CVPR 2021), eq. 3 with the negatives of
    eq. 9. The default lambda is one over the number of negatives kept, as the simple loss has it over all of them.

    Arguments:
        z1, z2: (N, d) projections of the two views of the same N samples, any length.
        weight: the lambda of the paper, 0 or more.
        alpha: the fraction of an anchor's negatives that is kept, rounded, at least one; above 0, at most 1.
        top_k: this many of them instead (all where there are fewer).
        pairs: which pairs are negatives: `all`, 2N - 2 an anchor; `cross`, N - 1; `given`, only `negatives`.
        negatives: (M, d) more of them for every anchor (a queue, a memory bank).

    Returns:
        The scalar loss, float32 at least; it may be below 0.

    >>> import torch
    >>> z = torch.eye(4)
    >>> hard_simple(z, z).item()
    -1.0
    """
    require(weight is None or weight >= 0, f"the loss's option weight must be none, or 0 or more, got {weight}")
    positive, negative = similarities(z1, z2, pairs, negatives)
    kept = hardest(negative, alpha, top_k)
    factor = 1 / kept.shape[1] if weight is None else weight
    return (factor * kept.sum(dim=1) - positive).mean()
