"""One number for suppression: retention, suppression index, half-suppression point, score by the worst feature."""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from scipy.special import stdtrit

from generators.randomness import below, random_words, stream_key

CLEARS = 0.05  # how far a ceiling must lie above chance before shares of that distance mean anything
LEVEL = 0.95


def retention(accuracy: float, chance: float, ceiling: float) -> float | None:
    """Share of what could be kept of a feature that was kept: 1 at the ceiling, 0 at chance; it may lie outside.

    Arguments:
        accuracy: of the feature's probe, in [0, 1].
        chance: of guessing.
        ceiling: what the probe reaches where nothing competes.

    Returns:
        (accuracy - chance) / (ceiling - chance), or None where the ceiling does not clear chance by .05.

    >>> retention(0.75, chance=0.5, ceiling=1.0)
    0.5
    """
    room = ceiling - chance
    return (accuracy - chance) / room if room >= CLEARS else None


def kept(retention: float) -> float:
    """A retention cut to [0, 1]."""
    return min(1.0, max(0.0, retention))


def suppression_index(retentions: Sequence[float | None]) -> float | None:
    """One minus the mean over the strengths of the retention, each cut to [0, 1]: 0 nothing lost, 1 all lost.

    None where any of them is undefined, or there is none.

    >>> suppression_index([1.2, 0.5, -0.1])
    0.5
    """
    if not retentions or None in retentions:
        return None
    return 1 - sum(map(kept, retentions)) / len(retentions)


def half_point(strengths: Sequence[float], retentions: Sequence[float | None]) -> float | None:
    """The strength where the retention first falls to one half, between two strengths on the straight line.

    Arguments:
        strengths: rising.
        retentions: one for each; the line begins at the first of them.

    Returns:
        The strength; infinity where it never falls so far; None where a retention on the way there is undefined.

    >>> half_point([0, 4, 8], [1.0, 0.9, 0.1])
    6.0
    """
    before = None
    for strength, value in zip(strengths, retentions, strict=True):
        if value is None:
            return None
        if value <= 0.5:
            if before is None:
                return float(strength)
            place, high = before
            return place + (strength - place) * (high - 0.5) / (high - value)
        before = strength, value
    return math.inf if before else None


def worst(retentions: Sequence[float | None]) -> float | None:
    """The retention, cut to [0, 1], of the feature that kept least at one strength; None where one is undefined.

    >>> worst([0.9, 0.2])
    0.2
    """
    return min(map(kept, retentions)) if retentions and None not in retentions else None


def score(by_strength: Sequence[Sequence[float | None]]) -> float | None:
    """The mean over the strengths of the worst feature's retention: throwing a competitor away gains nothing.

    Arguments:
        by_strength: for each strength the retentions of all features.

    >>> score([[1.0, 0.8], [0.0, 1.0]])
    0.4
    """
    found = [worst(features) for features in by_strength]
    return sum(found) / len(found) if found and None not in found else None


@lru_cache(maxsize=32)
def resamples(count: int, draws: int = 1000) -> tuple[np.ndarray, np.ndarray]:
    """The different resamples of `count` seeds among `draws` drawn ones, from the project's own streams.

    Arguments:
        count: number of seeds.
        draws: how many resamples are drawn.

    Returns:
        Positions of seeds, rising in each row (different ones, count), and how often each was drawn (different ones,).

    >>> positions, times = resamples(2)
    >>> positions.tolist(), int(times.sum())
    ([[0, 0], [0, 1], [1, 1]], 1000)
    """
    words = random_words(stream_key("suppression", 1, "bootstrap", 0), 0, count=draws * count)
    drawn = np.sort(below(words, count).reshape(draws, count), axis=1)
    # A mean knows no order, and few seeds have few different resamples: 10 of three, 126 of five.
    positions, times = np.unique(drawn, axis=0, return_counts=True)
    positions.flags.writeable = times.flags.writeable = False
    return positions, times


def interval(
    count: int,
    statistic: Callable[[np.ndarray], float | None],
    limits: tuple[float, float] = (-math.inf, math.inf),
    draws: int = 1000,
) -> tuple[float, float] | None:
    """A 95 % interval over few seeds: the estimate +- Student's t times the bootstrap standard error.

    The standard error is that of the resamples times sqrt(n / (n - 1)), which makes the interval of a mean Student's own.
    A percentile interval would be far too narrow: with three seeds it lies within the smallest and the largest of them.
    Reference: Hesterberg, "What Teachers Should Know About the Bootstrap" (The American Statistician, 2015), sections 4-5.

    Arguments:
        count: number of seeds, n.
        statistic: of positions of seeds, with repetitions and in any order, to a number.
        limits: the range of the statistic, to which the interval is cut.
        draws: how many resamples.

    Returns:
        (low, high), or None with fewer than two seeds or where the statistic is undefined in a resample.

    >>> low, high = interval(3, lambda seeds: float(seeds.mean()), limits=(0, math.inf))
    >>> low, round(high, 1)
    (0.0, 3.5)
    """
    if count < 2:
        return None
    positions, times = resamples(count, draws)
    found = [statistic(seeds) for seeds in positions]
    estimate = statistic(np.arange(count))
    if estimate is None or None in found:
        return None
    values = np.array(found)
    variance = np.average((values - np.average(values, weights=times)) ** 2, weights=times)
    reach = float(stdtrit(count - 1, (1 + LEVEL) / 2) * np.sqrt(variance * count / (count - 1)))
    low, high = limits
    return max(float(low), float(estimate) - reach), min(float(high), float(estimate) + reach)


def half_point_interval(strengths: Sequence[float], intervals: Sequence[tuple | None]) -> tuple[float, float] | None:
    """An interval of the half point: from where the retentions' lower ends first fall to one half to where the upper ends do.

    These are the strengths whose retention may be one half. A standard error would not do: the half point may be infinite.

    Arguments:
        strengths: rising.
        intervals: of the retentions, one for each.

    Returns:
        (low, high), each a strength or infinity, or None where a retention on the way there has no interval.

    >>> half_point_interval([0, 4, 8], [(1, 1), (0.5, 0.8), (0.1, 0.7)])
    (4.0, inf)
    """
    low = half_point(strengths, [None if ends is None else ends[0] for ends in intervals])
    high = half_point(strengths, [None if ends is None else ends[1] for ends in intervals])
    return None if low is None or high is None else (low, high)
