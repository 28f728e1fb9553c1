"""One number for suppression: retention, suppression index, half-suppression point, score by the worst feature."""

import math
from collections.abc import Callable, Sequence

import numpy as np

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


def interval(count: int, statistic: Callable[[np.ndarray], float | None], draws: int = 1000) -> tuple | None:
    """A percentile bootstrap interval over seeds (Efron, 1979), 95 %, from the project's own streams.

    Arguments:
        count: number of seeds.
        statistic: of positions of seeds, with repetitions, to a number; None or infinite ones stay at their end.
        draws: how many resamples.

    Returns:
        (low, high), or None with fewer than two seeds or where the statistic is undefined in a resample.

    >>> interval(3, lambda seeds: float(seeds.mean()))
    (0.0, 2.0)
    """
    if count < 2:
        return None
    words = random_words(stream_key("suppression", 1, "bootstrap", 0), 0, count=draws * count)
    found = [statistic(seeds) for seeds in below(words, count).reshape(draws, count)]
    if None in found:
        return None
    ordered, tail = sorted(found), (1 - LEVEL) / 2
    return ordered[math.floor(tail * (draws - 1))], ordered[math.ceil((1 - tail) * (draws - 1))]
