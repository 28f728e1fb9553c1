"""The contract of a loss: a pure function of two views' projections, and what it declares about itself."""

from collections.abc import Callable
from typing import Literal, Protocol, get_args

import torch
from torch import Tensor
from torch.nn import functional as F

from generators.dataset import UserError

# Which of the other samples' views are an anchor's negatives: both views; only the one that the anchor is not of; or
# none, but for those that are handed in, and then the first view alone is an anchor (a query against a queue).
Pairs = Literal["all", "cross", "given"]

# Of methods that draw their input again: whether a constant channel counts as one variable or at every pixel, and how
# far a drawing is from the input.
Planes = Literal["once", "every-pixel"]
Likelihood = Literal["bernoulli", "squared-error"]


class Loss(Protocol):
    """A loss: `name(z1, z2, *, <options>) -> scalar`, z1 and z2 the (N, d) projections of the two views.

    It may also take `negatives` (M, d), `labels` (N,) or `generator`, which are no options but are passed in. What it
    declares of itself are its attributes, set by `declares`.
    """

    normalises: bool
    negatives: bool
    needs_labels: bool
    symmetric: bool
    version: int

    def __call__(self, z1: Tensor, z2: Tensor, **options) -> Tensor: ...


# Arguments of a loss that the harness passes in; everything else behind `*` is an option.
PASSED_IN = ("negatives", "labels", "generator")


def declares(
    *, normalises: bool, negatives: bool = False, needs_labels: bool = False, symmetric: bool = True, version: int = 1
) -> Callable[[Callable], Callable]:
    """Mark a loss function with what the harness must know of it.

    Arguments:
        normalises: whether it scales its inputs itself (at its default options): their length then changes nothing.
        negatives: whether it takes extra negatives (a queue, a memory bank).
        needs_labels: whether it reads labels.
        symmetric: whether swapping the views leaves the value unchanged.
        version: rises when a change moves its numbers: records of one version are compared with each other.

    >>> @declares(normalises=True)
    ... def example(z1, z2, *, temperature: float = 0.1): ...
    >>> example.symmetric
    True
    """

    def mark(function: Callable) -> Callable:
        declared = {"normalises": normalises, "negatives": negatives, "needs_labels": needs_labels}
        vars(function).update(declared, symmetric=symmetric, version=version)
        return function

    return mark


def require(holds: bool, sentence: str) -> None:
    """Refuse a wrong value of an option.

    Raises:
        UserError: with the sentence, unless it holds.
    """
    if not holds:
        raise UserError(sentence)


def require_pairs(pairs: str, negatives: Tensor | None) -> None:
    """Refuse an unknown kind of pairs, and `given` without negatives.

    Raises:
        UserError: saying which are allowed.
    """
    require(pairs in get_args(Pairs), f"the loss's option pairs must be all, cross or given, got {pairs!r}")
    sentence = "the loss's option pairs=given takes its negatives from a queue: use it with moco, or say all or cross"
    require(pairs != "given" or (negatives is not None and len(negatives) > 0), sentence)


def require_above_zero(**options: float) -> None:
    """Refuse options that are zero, below, or no number.

    Raises:
        UserError: naming the option and its value.

    >>> require_above_zero(temperature=0.1)
    """
    for name, value in options.items():
        require(value > 0, f"the loss's option {name} must be above 0, got {value}")


def wide(z: Tensor) -> Tensor:
    """Half precision becomes float32: similarities divided by a small temperature need its digits."""
    return z.float() if z.dtype in (torch.float16, torch.bfloat16) else z


def normalised(z: Tensor) -> Tensor:
    """Rows of length 1, float32 at least."""
    return F.normalize(wide(z), dim=1)


def products(a: Tensor, b: Tensor) -> Tensor:
    """Scalar products of all rows of a (N, d) with all rows of b (M, d), out of autocast's reach: (N, M)."""
    with torch.autocast(a.device.type, enabled=False):
        return a @ b.T


def without_diagonal(square: Tensor) -> Tensor:
    """A (N, N) matrix without its diagonal: (N, N - 1).

    >>> without_diagonal(torch.arange(9).view(3, 3)).tolist()
    [[1, 2], [3, 5], [6, 7]]
    """
    count = len(square)
    # After the first element, every N + 1 elements end with one of the diagonal: a view instead of a boolean index.
    return square.flatten()[1:].view(count - 1, count + 1)[:, :-1].reshape(count, count - 1)


def similarities(z1: Tensor, z2: Tensor, pairs: Pairs, negatives: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Cosine similarities of every anchor with its positive and its negatives.

    The A anchors are the N of z1 and then the N of z2, or (`given`) those of z1 alone.

    Arguments:
        z1, z2: (N, d) projections of the two views, any length.
        pairs: `all`: the 2N - 2 views of the other samples are negatives; `cross`: the N - 1 of the other view;
            `given`: `negatives` alone.
        negatives: (M, d) more of them, the same for every anchor.

    Returns:
        The positive (A,) and the negatives (A, K), neither with an anchor's similarity to itself.

    Raises:
        UserError: unknown pairs, or no negative at all.
    """
    require_pairs(pairs, negatives)
    queue = None if negatives is None or not len(negatives) else normalised(negatives)
    require(len(z1) > 1 or queue is not None, "a batch of one sample holds no negatives: give two samples or more")
    z1, z2 = normalised(z1), normalised(z2)
    if pairs == "given" and queue is not None:
        return (z1 * z2).sum(1), products(z1, queue)
    across = products(z1, z2)
    columns = [torch.cat([without_diagonal(across), without_diagonal(across.T)])]
    if pairs == "all":
        columns.append(torch.cat([without_diagonal(products(z, z)) for z in (z1, z2)]))
    if queue is not None:
        columns.append(products(torch.cat([z1, z2]), queue))
    return across.diagonal().repeat(2), torch.cat(columns, dim=1)


def excess(positive: Tensor, negative: Tensor, temperature: float | Tensor) -> Tensor:
    """Log of the negatives' sum over the positive's term, (A,): softplus of it is the cross entropy, sigmoid is 1 - P.

    Arguments:
        positive: (A,) similarities.
        negative: (A, K) similarities.
        temperature: divides both.
    """
    return torch.logsumexp(negative / temperature, dim=1) - positive / temperature


def weighted_entropy(odds: Tensor) -> Tensor:
    """Cross entropy softplus(odds) times the constant 1 / W, W = 1 - P = sigmoid(odds) without gradient, (A,).

    Computed as what it is, 1 / W overflows where the positive wins by far. But the entropy's derivative is W, so the
    product's is 1, and its value tends to 1: both are finite.
    """
    # Below -60 the value is 1 to the last digit.
    bounded = odds.detach().clamp(min=-60)
    return F.softplus(bounded) / torch.sigmoid(bounded) + (odds - odds.detach())


def hardest(negative: Tensor, alpha: float, top_k: int | None) -> Tensor:
    """The largest similarities of every row.

    Arguments:
        negative: (A, K) similarities.
        alpha: the fraction that is kept, rounded, at least one.
        top_k: this many instead (all where there are fewer).

    Returns:
        (A, number kept).

    Raises:
        UserError: a fraction outside of (0, 1], or fewer than one.

    >>> hardest(torch.tensor([[0.1, 0.4, 0.2, 0.3]]), 0.5, None).shape
    torch.Size([1, 2])
    """
    require(0 < alpha <= 1, f"the loss's option alpha must be above 0 and at most 1, got {alpha}")
    require(top_k is None or top_k >= 1, f"the loss's option top_k must be none, or 1 or more, got {top_k}")
    count = negative.shape[1]
    kept = max(1, round(alpha * count)) if top_k is None else min(top_k, count)
    return negative if kept == count else negative.topk(kept, dim=1, sorted=False).values


def same_class(labels: Tensor | None) -> Tensor:
    """Which of the 2N views, first those of z1, then of z2, share a label: (2N, 2N), true on the diagonal.

    Raises:
        UserError: no labels, or not one integer a sample.
    """
    if labels is None:
        raise UserError("this loss needs the samples' labels: use it with a method that reads labels")
    require(labels.ndim == 1, f"this loss needs one label a sample, got labels of shape {tuple(labels.shape)}")
    both = labels.repeat(2)
    return both[:, None] == both[None, :]


def supervised_logits(z1: Tensor, z2: Tensor, temperature: float) -> Tensor:
    """Cosine similarities of all 2N views divided by the temperature, -inf for a view with itself: (2N, 2N)."""
    both = torch.cat([normalised(z1), normalised(z2)])
    itself = torch.eye(len(both), dtype=torch.bool, device=both.device)
    return (products(both, both) / temperature).masked_fill(itself, float("-inf"))


def reconstruction_error(
    drawn: Tensor,
    view: Tensor,
    image_channels: int,
    *,
    planes: Planes,
    likelihood: Likelihood,
) -> Tensor:
    """How far each drawing is from its input, (B,): summed over pixels and channels.

    Reference: bernoulli is -log p(x | z) in nats as in Kingma & Welling (ICLR 2014), appendix C.1.

    Arguments:
        drawn: (B, C, H, W) output of the decoder: logits for bernoulli.
        view: (B, C, H, W) in [0, 1], the constant channels last.
        image_channels: how many of the C are no constant channels.
        planes: whether a constant channel counts as one variable (weight 1 / (H W)) or as H W of them.
        likelihood: bernoulli, or the squared difference.
    """
    drawn, view = drawn.float(), view.float()
    if likelihood == "bernoulli":
        error = F.binary_cross_entropy_with_logits(drawn, view, reduction="none")
    else:
        error = (drawn - view).square()
    error = error.sum((2, 3))  # per sample and channel
    image, constant = error[:, :image_channels].sum(1), error[:, image_channels:].sum(1)
    return image + (constant / (view.shape[2] * view.shape[3]) if planes == "once" else constant)
