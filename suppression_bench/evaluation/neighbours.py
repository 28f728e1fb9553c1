"""Nearest neighbours by cosine similarity: what they are of, and which feature they agree on."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from generators.dataset import UserError
from suppression_bench.evaluation.unit_features import BLOCK, checked_labels, require_unit, tiles

STEPS = 2**22  # similarities nearer than 1 / STEPS are equal: float32's rounding decides no order
PLACES = 2**32  # more than there are samples


@dataclass(frozen=True)
class Preference:
    """Shares of the neighbours that agree with a sample on feature A and on feature B."""

    first: float
    second: float

    @property
    def difference(self) -> float:
        """First minus second: above 0 where the neighbours agree rather on A."""
        return self.first - self.second


def nearest(queries: Tensor, references: Tensor | None = None, *, k: int = 200, block_size: int = BLOCK) -> Tensor:
    """The `k` most similar references of each query, the most similar first.

    Equal similarities (to 2^-22, about float32's rounding): the earlier reference first.

    Arguments:
        queries: (N, D) normalised.
        references: (M, D) normalised; without them the queries themselves, no sample being its own neighbour.
        k: how many; all references where there are fewer.
        block_size: the most rows and columns of similarities at a time.

    Returns:
        (N, min(k, M)) int64 row numbers of the references, (N, min(k, N - 1)) without them.

    Raises:
        UserError: features that are not finite, not normalised or of different widths; k below 1; one sample alone.

    >>> nearest(torch.eye(2), torch.tensor([[0.6, 0.8], [0.8, 0.6]]), k=1).tolist()
    [[1], [0]]
    """
    require_unit(queries, block_size)
    alone = references is None
    references = queries if alone else references
    require_unit(references, block_size)
    if queries.shape[1] != references.shape[1] or queries.dtype != references.dtype:
        raise UserError(
            f"queries and references must be alike, got width {queries.shape[1]} {queries.dtype} "
            f"and {references.shape[1]} {references.dtype}"
        )
    k = min(k, len(references) - alone)
    if k < 1:
        raise UserError("neighbours: k must be at least 1, and a sample needs another one")
    found = []
    for start in range(0, len(queries), block_size):
        best = torch.empty(len(queries[start : start + block_size]), 0, dtype=torch.int64, device=queries.device)
        for column, similarities in tiles(queries, references, start, block_size):
            # One integer for similarity and place: the order is total, so topk's choice among equals does not matter.
            keys = (similarities * STEPS).round_().long().mul_(PLACES)
            keys -= torch.arange(column, column + keys.shape[1], device=keys.device)
            if alone and column == start:
                keys.fill_diagonal_(torch.iinfo(torch.int64).min)
            best = torch.cat([best, keys], 1)
            best = best.topk(min(k, best.shape[1])).values
        found.append(-best % PLACES)
    return torch.cat(found)


def vote(neighbours: Tensor, labels: np.ndarray | Tensor, *, block_size: int = BLOCK) -> Tensor:
    """The class that most neighbours have; among equals the one whose nearest member is nearest.

    Arguments:
        neighbours: (N, k) row numbers of the labelled samples, the nearest first.
        labels: (M,) int64 classes from 0 of the labelled samples.
        block_size: rows at a time.

    Returns:
        (N,) int64 classes, on the CPU.

    Raises:
        UserError: labels of another shape or kind, or below 0.

    >>> vote(torch.tensor([[2, 0, 1, 3]]), torch.tensor([0, 0, 1, 1])).tolist()  # two each, the nearest is a 1
    [1]
    """
    labels = checked_labels(labels, len(labels))
    if bool((labels < 0).any()):
        raise UserError(f"labels must be classes from 0, got {int(labels.min())}")
    width, classes = neighbours.shape[1], int(labels.max()) + 1
    winners = []
    for block in neighbours.cpu().split(block_size):
        found = labels[block]
        counts = torch.zeros(len(block), classes, dtype=torch.int64).scatter_add_(1, found, torch.ones_like(found))
        places = torch.arange(width).expand_as(found)
        first = torch.full_like(counts, width).scatter_reduce_(1, found, places, "amin")
        winners.append((counts * (width + 1) - first).argmax(1))  # no two classes share a first place
    return torch.cat(winners)


def knn_accuracy(
    train: Tensor,
    train_labels: np.ndarray | Tensor,
    test: Tensor,
    test_labels: np.ndarray | Tensor,
    *,
    k: int = 200,
    block_size: int = BLOCK,
) -> float:
    """Share of test samples whose class is the majority's among their `k` nearest train samples.

    Reference: Wu, Xiong, Yu & Lin (CVPR 2018), section 3.4, with plain instead of weighted votes. Ties: see `vote`;
    equal similarities: see `nearest`. For several features, call `nearest` once and `vote` for each.

    Arguments:
        train, test: (M, D) and (N, D) normalised.
        train_labels, test_labels: (M,) and (N,) int64 classes from 0 of one feature.
        k: neighbours; all train samples where there are fewer.
        block_size: the most rows and columns of similarities at a time.

    Returns:
        The accuracy, from 0 to 1.

    Raises:
        UserError: features that are not finite, not normalised or of different widths, labels of another shape or
            kind, or k below 1.

    >>> knn_accuracy(torch.eye(2), torch.tensor([0, 1]), torch.eye(2), torch.tensor([0, 0]), k=1)
    0.5
    """
    train_labels, test_labels = checked_labels(train_labels, len(train)), checked_labels(test_labels, len(test))
    predicted = vote(nearest(test, train, k=k, block_size=block_size), train_labels, block_size=block_size)
    return int((predicted == test_labels).sum()) / len(test)


def agreement(neighbours: Tensor, labels: np.ndarray | Tensor, *, block_size: int = BLOCK) -> float:
    """Share of the neighbours that have their sample's class, over all samples.

    Arguments:
        neighbours: (N, k) row numbers among the same N samples.
        labels: (N,) int64 classes of one feature.
        block_size: rows at a time.

    Returns:
        The share, from 0 to 1.

    Raises:
        UserError: labels of another shape or kind.

    >>> agreement(torch.tensor([[1], [0], [1]]), torch.tensor([0, 0, 1]))
    0.6666666666666666
    """
    labels = checked_labels(labels, len(neighbours))
    blocks = zip(neighbours.cpu().split(block_size), labels.split(block_size), strict=True)
    return sum(int((labels[block] == own[:, None]).sum()) for block, own in blocks) / neighbours.numel()


def neighbour_preference(
    features: Tensor,
    first_labels: np.ndarray | Tensor,
    second_labels: np.ndarray | Tensor,
    *,
    k: int = 10,
    block_size: int = BLOCK,
) -> Preference:
    """Which of two features a sample's nearest neighbours agree on, without training anything.

    Reference: this suite's own; the two shares are `agreement` of the `k` nearest other samples. A feature of few
    classes agrees more often by chance: compare with the shares of an untrained encoder.

    Arguments:
        features: (N, D) normalised.
        first_labels, second_labels: (N,) int64 classes of feature A and of feature B.
        k: neighbours; all others where there are fewer.
        block_size: the most rows and columns of similarities at a time.

    Returns:
        The share that agrees on A, on B, and A minus B.

    Raises:
        UserError: features that are not finite or not normalised, labels of another shape or kind, k below 1, N = 1.

    >>> neighbour_preference(torch.eye(2)[[0, 0, 1, 1]], torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1, 0, 1]), k=1)
    Preference(first=1.0, second=0.0)
    """
    pair = [checked_labels(labels, len(features)) for labels in (first_labels, second_labels)]
    neighbours = nearest(features, k=k, block_size=block_size)
    return Preference(*(agreement(neighbours, labels, block_size=block_size) for labels in pair))
