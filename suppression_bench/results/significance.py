"""Whether the best method of a column is ahead of the second by more than its seeds' spread."""

import statistics
from collections.abc import Sequence

from scipy import stats

LEVEL = 0.05
ROUNDING = 1e-9  # means over bits that are equal but for float rounding have no spread


def welch(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Two-sided p of equal means by Welch's t-test (1947), variances unequal.

    None where it is undefined: fewer than two values on a side, or no spread on either (two or three seeds that agree
    to the last digit are no evidence of a deviation of zero).

    >>> round(welch([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]), 4)
    0.0213
    >>> welch([1.0], [4.0, 5.0, 6.0]) is None
    True
    """
    if len(first) < 2 or len(second) < 2 or max(_width(first), _width(second)) < ROUNDING:
        return None
    sides = [(statistics.mean(values), statistics.stdev(values), len(values)) for values in (first, second)]
    return float(stats.ttest_ind_from_stats(*sides[0], *sides[1], equal_var=False).pvalue)


def _width(values: Sequence[float]) -> float:
    return max(values) - min(values)


def holm(values: Sequence[float], level: float = LEVEL) -> list[bool]:
    """Which of several tests stay significant when all of them are counted (Holm, 1979).

    >>> holm([0.01, 0.04, 0.03])
    [True, False, False]
    """
    order = sorted(range(len(values)), key=lambda position: values[position])
    kept = [False] * len(values)
    for rank, position in enumerate(order):
        if values[position] > level / (len(values) - rank):
            break
        kept[position] = True
    return kept
