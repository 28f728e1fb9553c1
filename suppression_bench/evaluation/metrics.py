"""Metrics of frozen features on the unit sphere: as a whole, around one anchor, and of the nearest neighbours.

Features are (N, D) float32 or float64 with rows of length 1; labels are (N,) int64 classes of one feature. Everything
goes in blocks of `block_size` rows (and columns) of similarities, never all pairs at once; no value depends on it.
All functions raise a UserError where features are not finite or not normalised, shapes or types do not fit, or an
option is out of its range.
"""

import math
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from generators.dataset import UserError

BLOCK = 1000
LENGTH_TOLERANCE = 1e-3  # far above float32's rounding, far below what forgetting to normalise does
HIGHEST_T = 20.0  # exp(-4 t) is still a normal float32 number
GRID = 2**22  # similarities nearer than 1 / GRID are equal: float32's rounding decides no order
INDICES = 2**32  # more than there are samples

# --- the sphere as a whole -------------------------------------------------------------------------------------------


def alignment(first: Tensor, second: Tensor, *, alpha: float = 2.0, block_size: int = BLOCK) -> float:
    """Mean distance of the two views of a sample, to the power `alpha`.

    Reference: Wang & Isola (ICML 2020), eq. 4.

    Arguments:
        first, second: (N, D) features of the two views of the same N samples.
        alpha: the power, above 0.

    Returns:
        The mean; 0 where the views coincide, 4 where they are opposite and alpha is 2.

    >>> alignment(torch.eye(2), torch.eye(2).flip(0))
    2.0
    """
    require_pair(first, second, block_size)
    if not 0 < alpha < math.inf:
        raise UserError(f"alignment: alpha must be a number above 0, got {alpha}")
    total = 0.0
    for start in range(0, len(first), block_size):
        block = slice(start, start + block_size)
        squares = (first[block].double() - second[block].double()).square().sum(1)
        total += (squares ** (alpha / 2)).sum().item()
    return total / len(first)


def uniformity(features: Tensor, *, t: float = 2.0, block_size: int = BLOCK) -> float | None:
    """How evenly the features fill the sphere: -log of the mean Gaussian potential of all pairs of samples.

    Reference: Wang & Isola (ICML 2020), eq. 5, with its sign turned as in Wang & Liu (CVPR 2021), whose values near
    3.9 only fit t = 2. Pairs of a sample with itself are left out, as in Wang & Isola's code.

    Arguments:
        features: (N, D).
        t: sharpness of the potential exp(-t |x - y|^2), above 0 and at most 20.

    Returns:
        0 where all features coincide, about 4 (t = 2) where they are uniform in many dimensions; None for N = 1.

    >>> round(uniformity(torch.tensor([[1.0, 0.0], [-1.0, 0.0]])), 6)  # one pair at distance 2
    8.0
    """
    require_unit(features, block_size)
    if not 0 < t <= HIGHEST_T:
        raise UserError(f"uniformity: t must lie above 0 and be at most {HIGHEST_T:g}, got {t}")
    count, total = len(features), 0.0
    if count == 1:
        return None
    for start in range(0, count, block_size):
        for column, similarities in tiles(features, features, start, block_size, begin=start):
            potential = torch.exp(2 * t * (similarities - 1))  # |x - y|^2 = 2 - 2 x.y
            if column == start:
                potential = potential.triu(1)
            total += potential.sum(dtype=torch.float64).item()
    return math.log(count * (count - 1) / 2) - math.log(total)


def effective_rank(features: Tensor, *, block_size: int = BLOCK) -> float:
    """How many directions the features use: exp of the entropy of their singular values, normalised to sum 1.

    Reference: Roy & Vetterli (EUSIPCO 2007), definition 1; of the matrix as it is, not centred.

    Returns:
        From 1 (all on a line) to min(N, D) (all directions alike).

    >>> round(effective_rank(torch.eye(3)), 6), round(effective_rank(torch.ones(5, 1)), 6)
    (3.0, 1.0)
    """
    require_unit(features, block_size)
    width = features.shape[1]
    gram = torch.zeros(width, width, dtype=torch.float64, device=features.device)
    for start in range(0, len(features), block_size):
        block = features[start : start + block_size].double()
        gram += block.T @ block
    squares = torch.linalg.eigvalsh(gram)
    # Below this the eigenvalues are rounding: without the cut, their square roots would add up to a rank of their own.
    squares = squares[squares > squares[-1] * width * torch.finfo(torch.float64).eps]
    shares = squares.sqrt() / squares.sqrt().sum()
    return math.exp(-(shares * shares.log()).sum().item())


def tolerance(features: Tensor, labels: np.ndarray | Tensor, *, block_size: int = BLOCK) -> float | None:
    """Mean similarity of two different samples of the same class; None where no class has two samples.

    Reference: Wang & Liu (CVPR 2021), eq. 11, read as a *conditional* mean: the literal one, over all pairs, cannot
    give the paper's .61 with ten classes. All pairs count alike, so larger classes weigh more.

    >>> tolerance(torch.eye(3)[[0, 0, 1]], torch.tensor([4, 4, 4]))  # similarities 1, 0 and 0
    0.3333333333333333
    """
    same, same_pairs, _, _ = _pair_sums(features, labels, block_size)
    return same / same_pairs if same_pairs else None


def semantic_sensitivity(features: Tensor, labels: np.ndarray | Tensor, *, block_size: int = BLOCK) -> float | None:
    """How much more alike two samples of the same class are than two of different classes.

    S = E[x.y | same class, x != y] - E[x.y | different classes], from -2 to 2; None without a pair of either kind.

    Reference: the semantic sensitivity of Huang et al. (ICML 2023), eq. 7. **Choice**: the paper was not at hand, this
    is our reading of its name and of the size of its values (.27 to .33 on CIFAR-10), so compare with them with care.

    >>> semantic_sensitivity(torch.eye(2)[[0, 0, 1, 1]], torch.tensor([0, 0, 1, 1]))
    1.0
    """
    same, same_pairs, different, different_pairs = _pair_sums(features, labels, block_size)
    return same / same_pairs - different / different_pairs if same_pairs and different_pairs else None


def _pair_sums(features: Tensor, labels: np.ndarray | Tensor, block_size: int) -> tuple[float, int, float, int]:
    # Sums of x.y over ordered pairs of the same class and of different ones, and how many pairs: by the classes' sums,
    # sum over x != y of x.y = |sum of x|^2 - sum of |x|^2, so that no pair is ever formed. On the host, in double
    # precision: there the order of the sums is fixed, and the difference loses nothing.
    require_unit(features, block_size)
    count = len(features)
    _, classes, sizes = torch.unique(checked_labels(labels, count), return_inverse=True, return_counts=True)
    sums, squares = torch.zeros(len(sizes), features.shape[1], dtype=torch.float64), 0.0
    for start in range(0, count, block_size):
        block = features[start : start + block_size].cpu().double()
        sums.index_add_(0, classes[start : start + block_size], block)
        squares += block.square().sum().item()
    within, everything = sums.square().sum().item(), sums.sum(0).square().sum().item()
    same_pairs = int(sizes.square().sum())
    return within - squares, same_pairs - count, everything - within, count * count - same_pairs


# --- around one anchor: its negatives are the second views of the other samples --------------------------------------


def local_separation(
    first: Tensor, second: Tensor, *, ranks: int = 10, block_size: int = BLOCK
) -> tuple[float, list[float]]:
    """Mean similarity of the positive pairs, and of each anchor's most similar negatives, rank by rank.

    Reference: Wang & Liu (CVPR 2021), Fig. 8.

    Arguments:
        first, second: (N, D) features of the anchors and of their second views.
        ranks: how many of the largest negative similarities; N - 1 where there are fewer.

    Returns:
        The positives' mean and the negatives' means, the most similar first.

    >>> local_separation(torch.eye(3), torch.eye(3))
    (1.0, [0.0, 0.0])
    """
    require_pair(first, second, block_size)
    if ranks < 1:
        raise UserError(f"local separation: ranks must be at least 1, got {ranks}")
    count = len(first)
    ranks = min(ranks, count - 1)
    positive, sums = 0.0, torch.zeros(ranks, dtype=torch.float64, device=first.device)
    for start in range(0, count, block_size):
        block = slice(start, start + block_size)
        positive += (first[block] * second[block]).sum(dtype=torch.float64).item()
        best = first.new_empty(len(first[block]), 0)
        for column, similarities in tiles(first, second, start, block_size):
            if column == start:
                similarities.fill_diagonal_(-math.inf)
            best = torch.cat([best, similarities], 1)
            best = best.topk(min(ranks, best.shape[1])).values
        sums += best.sum(0, dtype=torch.float64)
    return positive / count, (sums / count).tolist()


def gradient_ratio_curve(
    first: Tensor, second: Tensor, *, temperature: float = 0.1, bins: int = 20, block_size: int = BLOCK
) -> list[float | None]:
    """How strongly the contrastive loss pushes a negative away, relative to its positive, by the negative's similarity.

    Reference: Wang & Liu (CVPR 2021), eq. 5: r(s_ij) = exp(s_ij / t) / sum over k != i of exp(s_ik / t); an anchor's
    ratios sum to 1. Here the mean of r over all pairs whose similarity falls into each of `bins` equal parts of [-1, 1].

    Arguments:
        first, second: (N, D) features of the anchors and of their second views.
        temperature: of the loss, at least .001.
        bins: number of parts.

    Returns:
        The mean ratio in each part, None in a part without a pair.

    >>> gradient_ratio_curve(torch.eye(3), torch.eye(3), bins=3)  # two negatives each, at similarity 0
    [None, 0.5, None]
    """
    require_pair(first, second, block_size)
    if not 1e-3 <= temperature < math.inf or bins < 1:
        raise UserError(
            f"gradient ratio: temperature must be at least .001 and bins at least 1, got {temperature} and {bins}"
        )
    sums, counts = torch.zeros(bins, dtype=torch.float64), torch.zeros(bins, dtype=torch.int64)
    for start in range(0, len(first), block_size):
        # The largest similarity so far and the sum relative to it: sharp temperatures neither overflow nor vanish.
        highest = first.new_full((min(block_size, len(first) - start), 1), -1.0)
        total = torch.zeros_like(highest)
        for column, similarities in tiles(first, second, start, block_size):
            if column == start:
                similarities.fill_diagonal_(-math.inf)
            higher = torch.maximum(highest, similarities.amax(1, keepdim=True))
            total *= torch.exp((highest - higher) / temperature)
            total += torch.exp((similarities - higher) / temperature).sum(1, keepdim=True)
            highest = higher
        for column, similarities in tiles(first, second, start, block_size):
            ratios = torch.exp((similarities - highest) / temperature) / total
            parts = ((similarities + 1) * (bins / 2)).long().clamp(0, bins - 1)
            if column == start:
                negatives = ~torch.eye(*similarities.shape, dtype=torch.bool, device=first.device)
                ratios, parts = ratios[negatives], parts[negatives]
            # On the host, where the order of the sum is fixed.
            ratios, parts = ratios.flatten().double().cpu(), parts.flatten().cpu()
            sums += torch.bincount(parts, weights=ratios, minlength=bins)
            counts += torch.bincount(parts, minlength=bins)
    return [total / n if n else None for total, n in zip(sums.tolist(), counts.tolist(), strict=True)]


# --- nearest neighbours by cosine similarity -------------------------------------------------------------------------


def nearest(queries: Tensor, references: Tensor | None = None, *, k: int = 200, block_size: int = BLOCK) -> Tensor:
    """The `k` most similar references of each query, the most similar first.

    Equal similarities (to 2^-22, about float32's rounding): the earlier reference first.

    Arguments:
        queries: (N, D).
        references: (M, D); without them the queries themselves, no sample being its own neighbour.
        k: how many; all references where there are fewer.

    Returns:
        (N, min(k, M)) int64 row numbers of the references, (N, min(k, N - 1)) without them.

    >>> nearest(torch.eye(2), torch.tensor([[0.6, 0.8], [0.8, 0.6]]), k=1).tolist()
    [[1], [0]]
    """
    require_unit(queries, block_size)
    itself = references is None
    references = queries if references is None else references
    require_unit(references, block_size)
    if queries.shape[1] != references.shape[1] or queries.dtype != references.dtype:
        raise UserError(
            f"queries and references must be alike, got width {queries.shape[1]} {queries.dtype} "
            f"and {references.shape[1]} {references.dtype}"
        )
    k = min(k, len(references) - itself)
    if k < 1:
        raise UserError("neighbours: k must be at least 1, and a sample needs another one")
    rows = []
    for start in range(0, len(queries), block_size):
        best = torch.empty(len(queries[start : start + block_size]), 0, dtype=torch.int64, device=queries.device)
        for column, similarities in tiles(queries, references, start, block_size):
            # One integer for similarity and index: the order is total, so topk's choice among equals does not matter.
            keys = (similarities * GRID).round_().long().mul_(INDICES)
            keys -= torch.arange(column, column + keys.shape[1], device=keys.device)
            if itself and column == start:
                keys.fill_diagonal_(torch.iinfo(torch.int64).min)
            best = torch.cat([best, keys], 1)
            best = best.topk(min(k, best.shape[1])).values
        rows.append(-best % INDICES)
    return torch.cat(rows)


def vote(neighbours: Tensor, labels: np.ndarray | Tensor, *, block_size: int = BLOCK) -> Tensor:
    """The class that most neighbours have; among equals the one whose nearest member is nearest.

    Reference: Wu, Xiong, Yu & Lin (CVPR 2018), section 3.4, with plain instead of weighted votes.

    Arguments:
        neighbours: (N, k) row numbers of the labelled samples, the nearest first.
        labels: (M,) int64 classes from 0 of the labelled samples.

    Returns:
        (N,) int64 classes, on the CPU.

    >>> vote(torch.tensor([[2, 0, 1, 3]]), torch.tensor([0, 0, 1, 1])).tolist()  # two each, the nearest is a 1
    [1]
    """
    labels = checked_labels(labels, len(labels))
    if bool((labels < 0).any()):
        raise UserError(f"labels must be classes from 0, got {int(labels.min())}")
    width, classes = neighbours.shape[1], int(labels.max()) + 1
    winners = []
    for block in neighbours.cpu().split(block_size):
        votes = labels[block]
        counts = torch.zeros(len(block), classes, dtype=torch.int64).scatter_add_(1, votes, torch.ones_like(votes))
        ranks = torch.arange(width).expand_as(votes)
        first = torch.full_like(counts, width).scatter_reduce_(1, votes, ranks, "amin")
        winners.append((counts * (width + 1) - first).argmax(1))  # no two classes share a first rank
    return torch.cat(winners)


def agreement(neighbours: Tensor, labels: np.ndarray | Tensor, *, block_size: int = BLOCK) -> float:
    """Share of the neighbours that have their sample's class, over all samples.

    A feature of few classes agrees more often by chance: compare with the share of an untrained encoder.

    Arguments:
        neighbours: (N, k) row numbers among the same N samples.
        labels: (N,) int64 classes of one feature.

    >>> agreement(torch.tensor([[1], [0], [1]]), torch.tensor([0, 0, 1]))
    0.6666666666666666
    """
    labels = checked_labels(labels, len(neighbours))
    blocks = zip(neighbours.cpu().split(block_size), labels.split(block_size), strict=True)
    return sum(int((labels[block] == truth[:, None]).sum()) for block, truth in blocks) / neighbours.numel()


# --- features of length 1 --------------------------------------------------------------------------------------------


def normalised(features: Tensor) -> Tensor | None:
    """Each row divided by its length, or None where that cannot be: a row of zeros, NaN or Infinity.

    >>> normalised(torch.tensor([[3e30, 4e30]])), normalised(torch.zeros(1, 2))
    (tensor([[0.6000, 0.8000]]), None)
    """
    largest = features.abs().amax(1, keepdim=True)  # the square of a large number has no float32
    if not bool(torch.isfinite(largest).all()) or not bool((largest > 0).all()):
        return None
    return torch.nn.functional.normalize(features / largest, dim=1)


def require_unit(features: Tensor, block_size: int = BLOCK) -> None:
    """Refuse what no cosine similarity can be read from.

    Raises:
        UserError: another shape than (N, D), another type than float32 or float64, NaN or Infinity, rows whose length
            is not 1, or a block size below 1.
    """
    if block_size < 1:
        raise UserError(f"block_size must be at least 1, got {block_size}")
    if features.ndim != 2 or 0 in features.shape or features.dtype not in (torch.float32, torch.float64):
        raise UserError(
            f"features must be a filled (N, D) float32 or float64 matrix, got {tuple(features.shape)} {features.dtype}"
        )
    lengths = torch.cat([block.norm(dim=1) for block in features.split(block_size)])
    if not bool(torch.isfinite(lengths).all()):
        raise UserError("features must be finite, got NaN or Infinity; look for a diverged encoder")
    furthest = (lengths - 1).abs().argmax()
    if (lengths[furthest] - 1).abs() > LENGTH_TOLERANCE:
        raise UserError(
            f"features must be normalised, row {int(furthest)} has length {lengths[furthest]:.4g}; "
            "divide each row by its length first"
        )


def require_pair(first: Tensor, second: Tensor, block_size: int) -> None:
    """Refuse two views of the same samples that no pair can be read from.

    Raises:
        UserError: what `require_unit` refuses, or two different shapes or types.
    """
    require_unit(first, block_size)
    require_unit(second, block_size)
    if first.shape != second.shape or first.dtype != second.dtype:
        raise UserError(
            f"the two views must be alike, got {tuple(first.shape)} {first.dtype} and {tuple(second.shape)} {second.dtype}"
        )


def checked_labels(labels: np.ndarray | Tensor, count: int) -> Tensor:
    """(N,) int64 classes on the CPU.

    Raises:
        UserError: another shape or kind.
    """
    classes = torch.as_tensor(labels).cpu()
    if classes.shape != (count,) or classes.dtype != torch.int64:
        raise UserError(
            f"labels must be {count} int64 classes, one a sample, got {tuple(classes.shape)} {classes.dtype}"
        )
    return classes


def tiles(first: Tensor, second: Tensor, start: int, block_size: int, begin: int = 0) -> Iterator[tuple[int, Tensor]]:
    """Similarities of the rows from `start` with all rows of `second` from `begin`: (column, up to (block, block))."""
    rows = first[start : start + block_size]
    for column in range(begin, len(second), block_size):
        yield column, rows @ second[column : column + block_size].T
