"""How normalised features lie on the sphere as a whole: every metric in blocks, never all pairs at once."""

import math

import numpy as np
import torch
from torch import Tensor

from generators.dataset import UserError
from suppression_bench.evaluation.unit_features import BLOCK, checked_labels, require_pair, require_unit, tiles

HIGHEST_T = 20.0  # exp(-4 t) is still a normal float32 number


def alignment(first: Tensor, second: Tensor, *, alpha: float = 2.0, block_size: int = BLOCK) -> float:
    """Mean distance of the two views of a sample, to the power `alpha`.

    Reference: Wang & Isola (ICML 2020), eq. 4.

    Arguments:
        first, second: (N, D) normalised features of the two views of the same N samples.
        alpha: the power, above 0.
        block_size: samples at a time; the value does not depend on it.

    Returns:
        The mean; 0 where the views coincide, 4 where they are opposite and alpha is 2.

    Raises:
        UserError: features that are not finite, not normalised, or of different shapes; an alpha that is not above 0.

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
        features: (N, D) normalised.
        t: sharpness of the potential exp(-t |x - y|^2), above 0 and at most 20.
        block_size: the most rows and columns of similarities at a time.

    Returns:
        0 where all features coincide, about 4 (t = 2) where they are uniform in many dimensions; None for N = 1.

    Raises:
        UserError: features that are not finite or not normalised, or a t out of range.

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


def tolerance(features: Tensor, labels: np.ndarray | Tensor, *, block_size: int = BLOCK) -> float | None:
    """Mean similarity of two different samples of the same class.

    Reference: Wang & Liu (CVPR 2021), eq. 11, read as a *conditional* mean: the literal one, over all pairs, cannot
    give the paper's .61 with ten classes. All pairs count alike, so larger classes weigh more.

    Arguments:
        features: (N, D) normalised.
        labels: (N,) int64 classes of one feature.
        block_size: samples at a time.

    Returns:
        The mean, from -1 to 1; None where no class has two samples.

    Raises:
        UserError: features that are not finite or not normalised, or labels of another shape or kind.

    >>> tolerance(torch.eye(3)[[0, 0, 1]], torch.tensor([4, 4, 4]))  # similarities 1, 0 and 0
    0.3333333333333333
    """
    same, pairs, _, _ = _pair_sums(features, labels, block_size)
    return same / pairs if pairs else None


def semantic_sensitivity(features: Tensor, labels: np.ndarray | Tensor, *, block_size: int = BLOCK) -> float | None:
    """How much more alike two samples of the same class are than two of different classes.

    S = E[x.y | same class, x != y] - E[x.y | different classes].

    Reference: the semantic sensitivity of Huang et al. (ICML 2023), eq. 7. **Choice**: the paper was not at hand, this
    is our reading of its name and of the size of its values (.27 to .33 on CIFAR-10), so compare with them with care.

    Arguments:
        features: (N, D) normalised.
        labels: (N,) int64 classes of one feature.
        block_size: samples at a time.

    Returns:
        The difference, from -2 to 2; None where there is no pair of either kind.

    Raises:
        UserError: features that are not finite or not normalised, or labels of another shape or kind.

    >>> semantic_sensitivity(torch.eye(2)[[0, 0, 1, 1]], torch.tensor([0, 0, 1, 1]))
    1.0
    """
    same, pairs, other, other_pairs = _pair_sums(features, labels, block_size)
    return same / pairs - other / other_pairs if pairs and other_pairs else None


def effective_rank(features: Tensor, *, block_size: int = BLOCK) -> float:
    """How many directions the features use: exp of the entropy of their singular values, normalised to sum 1.

    Reference: Roy & Vetterli (EUSIPCO 2007), definition 1; of the matrix as it is, not centred.

    Arguments:
        features: (N, D) normalised.
        block_size: samples at a time.

    Returns:
        From 1 (all on a line) to min(N, D) (all directions alike).

    Raises:
        UserError: features that are not finite or not normalised.

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


def _pair_sums(features: Tensor, labels: np.ndarray | Tensor, block_size: int) -> tuple[float, int, float, int]:
    # Sums of x.y over ordered pairs of the same class and of different ones, and how many pairs: by the classes' sums,
    # sum over x != y of x.y = |sum of x|^2 - sum of |x|^2, so that no pair is ever formed. On the host, in double
    # precision: there the order of the sums is fixed, and the difference loses nothing.
    require_unit(features, block_size)
    count = len(features)
    _, classes, sizes = torch.unique(checked_labels(labels, count), return_inverse=True, return_counts=True)
    sums, own = torch.zeros(len(sizes), features.shape[1], dtype=torch.float64), 0.0
    for start in range(0, count, block_size):
        block = features[start : start + block_size].cpu().double()
        sums.index_add_(0, classes[start : start + block_size], block)
        own += block.square().sum().item()
    within, everything = sums.square().sum().item(), sums.sum(0).square().sum().item()
    alike = int(sizes.square().sum())
    return within - own, alike - count, everything - within, count * count - alike
