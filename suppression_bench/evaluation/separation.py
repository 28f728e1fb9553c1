"""How normalised features lie around one anchor: its positive, its nearest negatives, and what pushes them away."""

import math

import torch
from torch import Tensor

from generators.dataset import UserError
from suppression_bench.evaluation.unit_features import BLOCK, require_pair, tiles


def local_separation(
    first: Tensor, second: Tensor, *, ranks: int = 10, block_size: int = BLOCK
) -> tuple[float, list[float]]:
    """Mean similarity of the positive pairs, and of each anchor's most similar negatives, rank by rank.

    Reference: Wang & Liu (CVPR 2021), Fig. 8. An anchor's negatives are the second views of the other samples.

    Arguments:
        first, second: (N, D) normalised features of the anchors and of their second views.
        ranks: how many of the largest negative similarities; N - 1 where there are fewer.
        block_size: the most rows and columns of similarities at a time.

    Returns:
        The positives' mean and the negatives' means, the most similar first.

    Raises:
        UserError: features that are not finite, not normalised, or of different shapes; ranks below 1.

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
        first, second: (N, D) normalised features of the anchors and of their second views.
        temperature: of the loss, at least .001.
        bins: parts of [-1, 1]; part b starts at -1 + 2 b / bins.
        block_size: the most rows and columns of similarities at a time.

    Returns:
        The mean ratio in each part, None in a part without a pair.

    Raises:
        UserError: features that are not finite, not normalised, or of different shapes; a temperature or a number of
            bins out of range.

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
            places = ((similarities + 1) * (bins / 2)).long().clamp(0, bins - 1)
            if column == start:
                negatives = ~torch.eye(*similarities.shape, dtype=torch.bool, device=first.device)
                ratios, places = ratios[negatives], places[negatives]
            # On the host, where the order of the sum is fixed.
            ratios, places = ratios.flatten().double().cpu(), places.flatten().cpu()
            sums += torch.bincount(places, weights=ratios, minlength=bins)
            counts += torch.bincount(places, minlength=bins)
    return [total / n if n else None for total, n in zip(sums.tolist(), counts.tolist(), strict=True)]
