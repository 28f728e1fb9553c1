"""The contract of a loss: a pure function of two views' projections, and what it declares about itself."""

from collections.abc import Callable


def declares(
    *, normalises: bool, negatives: bool = False, needs_labels: bool = False, symmetric: bool = True
) -> Callable:
    """Mark a loss function with what the harness must know of it.

    A loss is `name(z1, z2, *, <options>) -> scalar`, z1 and z2 the (N, d) projections of the two views; it may also
    take `negatives` (M, d), `labels` (N,) or `generator`, which are no options but are passed in.

    Arguments:
        normalises: whether it scales its inputs to length 1 itself.
        negatives: whether it takes extra negatives (a queue, a memory bank).
        needs_labels: whether it reads labels.
        symmetric: whether swapping the views leaves the value unchanged.

    >>> @declares(normalises=True)
    ... def example(z1, z2, *, temperature: float = 0.1): ...
    >>> example.symmetric
    True
    """

    def mark(function):
        function.normalises, function.negatives = normalises, negatives
        function.needs_labels, function.symmetric = needs_labels, symmetric
        return function

    return mark


# Arguments of a loss that the harness passes in; everything else behind `*` is an option.
PASSED_IN = ("negatives", "labels", "generator")
