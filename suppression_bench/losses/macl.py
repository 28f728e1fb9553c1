"""MACL: contrastive learning whose temperature follows the alignment that the model has reached."""

from typing import Literal

from torch import Tensor

from suppression_bench.loss import (
    Pairs,
    declares,
    excess,
    require,
    require_above_zero,
    similarities,
    weighted_entropy,
)


@declares(normalises=True, negatives=True)
def macl(
    z1: Tensor,
    z2: Tensor,
    *,
    temperature: float = 0.1,
    form: Literal["a", "b", "w"] = "a",
    alpha: float = 2.0,
    beta: float = 0.5,
    pairs: Pairs = "all",
    negatives: Tensor | None = None,
) -> Tensor:
    """NT-Xent at a temperature that rises with the batch's alignment, each anchor divided by its negatives' share.

    Reference: Huang, Hu, Wang, Zhang, Peng, Yin & Lu, Model-Aware Contrastive Learning (ICML 2023). With A the batch's
    mean similarity of positives: form a has tau = temperature * alpha^A, form b tau = temperature * (1 + beta A), and
    both weigh anchor i with 1 / W_i, W_i = 1 - P_ii; form w (their Table 4: MACL-c) has a's temperature and the weight
    (2 - s_ii) / W_i. No gradient passes through tau and the weights.

    Arguments:
        z1, z2: (N, d) projections of the two views of the same N samples, any length.
        temperature: tau_0, the temperature without alignment, above 0.
        form: how the temperature follows the alignment and how anchors weigh.
        alpha: base of the forms a and w, above 0; 1 leaves the temperature as it is.
        beta: slope of the form b, above -1 and below 1; 0 leaves the temperature as it is.
        pairs: which pairs are negatives: `all`, 2N - 2 an anchor; `cross`, N - 1; `given`, only `negatives`.
        negatives: (M, d) more of them for every anchor (a queue, a memory bank).

    Returns:
        The scalar loss, float32 at least.

    >>> import torch
    >>> z = torch.ones(4, 2)  # seven candidates, six of them negatives
    >>> round(macl(z, z).item(), 4) == round(7 / 6 * torch.tensor(7.0).log().item(), 4)
    True
    """
    require_above_zero(temperature=temperature, alpha=alpha)
    require(-1 < beta < 1, f"the loss's option beta must be above -1 and below 1, got {beta}")
    require(form in ("a", "b", "w"), f"the loss's option form must be a, b or w, got {form!r}")
    positive, negative = similarities(z1, z2, pairs, negatives)
    alignment = positive.detach().mean()
    tau = temperature * (1 + beta * alignment if form == "b" else alpha**alignment)
    entropy = weighted_entropy(excess(positive, negative, tau))
    return ((2 - positive.detach()) * entropy if form == "w" else entropy).mean()
