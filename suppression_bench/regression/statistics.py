"""Two groups of seeds compared: has a number moved by more than its seeds' spread, and which shift would be seen?"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import optimize, stats

from generators.dataset import UserError

FIRST, SECOND = 3, 7  # fresh seeds of the two stages
SUSPECT, CONFIRM = 0.05, 0.01  # their levels; the second is Holm's, over the suspects
LEAST, SHARE = 0.02, 0.5  # a difference below both .02 and half an SD is no news
POWER = 0.9
GAP = 0.1  # groups of seeds nearer than this are no groups
FAR = 30.0  # a noncentrality from which on every test is certain
Shares = Sequence[float] | np.ndarray  # accuracies from 0 to 1


@dataclass(frozen=True)
class Comparison:
    """Fresh seeds against a baseline's.

    count, mean, deviation: of the fresh seeds (SD with ddof 1).
    difference: fresh mean minus baseline mean; low, high: its 95 % interval from the pooled deviation.
    p: two-sided, by the test `test` (t or fisher).
    """

    count: int
    mean: float
    deviation: float
    difference: float
    low: float
    high: float
    p: float
    test: str


def compare(baseline: Shares, fresh: Shares, n: int) -> Comparison:
    """Student's t-test with pooled variance (floored), or Fisher's exact test where the baseline's seeds form two groups.

    Arguments:
        baseline: accuracies of its seeds, at least two.
        fresh: accuracies of other seeds, at least two.
        n: test decisions behind each accuracy.

    Raises:
        UserError: fewer values, or one that is no share of n (NaN, below 0, above 1).

    >>> comparison = compare([0.5, 0.6, 0.7], [0.8, 0.9, 1.0], n=1000)
    >>> round(comparison.difference, 3), round(comparison.p, 4), comparison.test
    (0.3, 0.0213, 't')
    """
    before, after = _shares(baseline), _shares(fresh)
    difference = float(after.mean() - before.mean())
    freedom = len(before) + len(after) - 2
    error = pooled_deviation(before, after, n) * math.sqrt(1 / len(before) + 1 / len(after))
    edge = two_groups(before)
    if edge is not None:
        p = fisher(int((before < edge).sum()), len(before), int((after < edge).sum()), len(after))
    else:
        p = 2 * float(stats.t.sf(abs(difference) / error, freedom)) if error > 0 else 1.0
    half = float(stats.t.isf(0.025, freedom)) * error
    return Comparison(
        count=len(after),
        mean=float(after.mean()),
        deviation=float(after.std(ddof=1)),
        difference=difference,
        low=difference - half,
        high=difference + half,
        p=p,
        test="t" if edge is None else "fisher",
    )


def pooled_deviation(before: np.ndarray, after: np.ndarray, n: int) -> float:
    """The SD that both groups share, never below the binomial noise of n decisions.

    A few seeds may agree by chance; without the floor such a cell would alarm at every step of 1 / n.
    """
    freedom = len(before) + len(after) - 2
    pooled = (before.var(ddof=1) * (len(before) - 1) + after.var(ddof=1) * (len(after) - 1)) / freedom
    return math.sqrt(max(float(pooled), binomial_variance(float(np.concatenate([before, after]).mean()), n)))


def binomial_variance(share: float, n: int) -> float:
    """Variance of the share of n decisions that are right.

    >>> binomial_variance(0.5, 100)
    0.0025
    """
    return share * (1 - share) / n


def tolerance(baseline: Shares) -> float:
    """The smallest difference of means that counts: .02, or half the baseline's SD where that is more.

    >>> tolerance([0.5, 0.5]), round(tolerance([0.4, 0.5, 0.6]), 6)
    (0.02, 0.05)
    """
    return max(LEAST, SHARE * float(_shares(baseline).std(ddof=1)))


def two_groups(values: Shares) -> float | None:
    """The middle of the gap between two groups of seeds, or None where they form one.

    Two groups: at least two seeds in each, and a gap of at least .1 that is wider than both groups together (kept or
    suppressed, as the seed falls). A t-test takes the distance of the groups for noise.

    >>> two_groups([0.1, 0.12, 0.9, 0.92]), two_groups([0.1, 0.9, 0.92, 0.91])
    (0.51, None)
    """
    ordered = np.sort(_shares(values))
    below = int(np.argmax(np.diff(ordered)))  # the last seed of the lower group
    gap = ordered[below + 1] - ordered[below]
    widths = (ordered[below] - ordered[0]) + (ordered[-1] - ordered[below + 1])
    if min(below + 1, len(ordered) - below - 1) < 2 or gap < GAP or gap <= widths:
        return None
    return float(ordered[below] + gap / 2)


def fisher(low: int, count: int, fresh_low: int, fresh_count: int) -> float:
    """Two-sided p of equal shares of suppressed seeds (Fisher's exact test, 1922).

    >>> round(fisher(2, 10, 3, 3), 4)  # 10 of the 286 ways to choose three of thirteen
    0.035
    """
    result: Any = stats.fisher_exact([[low, count - low], [fresh_low, fresh_count - fresh_low]])
    return float(result.pvalue)


def smallest_change(baseline: Shares, n: int, confirm: float = CONFIRM) -> float | None:
    """The smallest shift of the mean that both stages would have caught with power .9, or None where there is none.

    Arguments:
        baseline: accuracies of its seeds.
        n: test decisions behind each.
        confirm: level of the second stage.

    >>> values = [0.6, 0.62, 0.64, 0.66, 0.68, 0.7, 0.72, 0.74, 0.76, 0.78]
    >>> bool(2 < smallest_change(values, n=10_000) / np.std(values, ddof=1) < 3)
    True
    """
    before = _shares(baseline)
    edge = two_groups(before)
    if edge is not None:
        return _smallest_share(before, edge, confirm)
    most = max(float(before.mean()), 1 - float(before.mean()))
    if _power(most, before, n, confirm) < POWER:
        return None
    root: Any = optimize.brentq(lambda shift: _power(shift, before, n, confirm) - POWER, 1e-9, most, xtol=1e-5)
    return float(root)


def _power(shift: float, before: np.ndarray, n: int, confirm: float) -> float:
    """Of both stages against a shift of the mean, towards the middle, where the binomial noise is larger."""
    power, mean = 1.0, float(before.mean())
    for count, level, least in ((FIRST, SUSPECT, 0.0), (SECOND, confirm, tolerance(before))):
        freedom = len(before) + count - 2
        moved = shift * count / (len(before) + count)
        centre = max(mean - moved, 0.0) if mean >= 0.5 else min(mean + moved, 1.0)
        deviation = math.sqrt(max(float(before.var(ddof=1)), binomial_variance(centre, n)))
        error = deviation * math.sqrt(1 / len(before) + 1 / count)
        # Both must hold, significant and large enough; they nearly always do together. Beyond FAR the series has no digits.
        significant = stats.nct.sf(stats.t.isf(level / 2, freedom), freedom, min(shift / error, FAR))
        large = stats.norm.sf((least - shift) / error)
        power *= float(min(significant, large))
    return power


def _smallest_share(before: np.ndarray, edge: float, confirm: float) -> float | None:
    # Every share of suppressed seeds in steps of .02, by the exact binomial chance of each outcome of both stages.
    low = int((before < edge).sum())
    distance = float(before[before >= edge].mean() - before[before < edge].mean())
    alarms = [
        (count, np.array([fisher(low, len(before), fresh_low, count) < level for fresh_low in range(count + 1)]))
        for count, level in ((FIRST, SUSPECT), (SECOND, confirm))
    ]
    detectable = []
    for share in np.linspace(0, 1, 51):
        chances = [stats.binom.pmf(np.arange(count + 1), count, share)[alarm].sum() for count, alarm in alarms]
        change = abs(share - low / len(before)) * distance
        if chances[0] * chances[1] >= POWER and change >= tolerance(before):
            detectable.append(float(change))
    return min(detectable, default=None)


def _shares(values: Shares) -> np.ndarray:
    shares = np.asarray(values, dtype=np.float64)
    if shares.ndim != 1 or len(shares) < 2 or not ((shares >= 0) & (shares <= 1)).all():
        raise UserError(f"a comparison needs at least two accuracies from 0 to 1 on each side, got {list(values)}")
    return shares
