"""The verdict on a rerun: is a retrained number what the claim lets one expect? Prediction intervals for new seeds."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from suppression_bench.cell import strength_text
from suppression_bench.leaderboard.entry import RerunCell
from suppression_bench.leaderboard.tracks import LAYER, PROBE
from suppression_bench.regression.statistics import LEAST, binomial_variance
from suppression_bench.results.record import Probe, Record

LEVEL = 0.99


@dataclass(frozen=True)
class Interval:
    """Where one more seed is expected: the claim's mean, and an interval of accuracies around it."""

    mean: float
    low: float
    high: float

    def holds(self, value: float) -> bool:
        """Whether a value lies inside, the ends and rounding included."""
        return self.low - 1e-9 <= value <= self.high + 1e-9


def interval(values: Sequence[float], n: int, level: float = LEVEL) -> Interval:
    """The prediction interval of one more seed: mean +- t * sd * sqrt(1 + 1 / seeds), t with seeds - 1 degrees of freedom.

    Reference: Student's t prediction interval (Geisser, 1993, Predictive Inference); the variance is never below the
    binomial noise of n decisions, as in `bench check`: a few seeds may agree by chance. A difference of .02 is never news
    either: where all claimed seeds are perfect, there is no noise left to see.

    Arguments:
        values: the claimed seeds' accuracies, at least two.
        n: test decisions behind each.
        level: the chance that an honest new seed lies inside.

    >>> wide = interval([0.5, 0.6, 0.7], n=10_000)  # 0.6 +- 9.925 * 0.1 * sqrt(4 / 3)
    >>> wide.low, wide.high
    (0.0, 1.0)
    >>> round(interval([0.5, 0.51, 0.52], n=10_000).high - 0.51, 4)
    0.1146
    """
    seeds, mean = len(values), float(np.mean(values))
    variance = max(float(np.var(values, ddof=1)), binomial_variance(mean, n))
    half = float(stats.t.isf((1 - level) / 2, seeds - 1)) * math.sqrt(variance * (1 + 1 / seeds))
    half = max(half, LEAST)
    return Interval(mean, max(0.0, mean - half), min(1.0, mean + half))


def right(probes: Sequence[Probe], group_of: Callable[[str], str]) -> dict[str, tuple[int, int]]:
    """Feature -> (right answers, test decisions) by the probe that all tracks have; a group is one feature."""
    counts: dict[str, tuple[int, int]] = {}
    for probe in probes:
        if (probe.probe, probe.layer) == (PROBE, LAYER):
            feature = group_of(probe.feature)
            correct, n = counts.get(feature, (0, 0))
            counts[feature] = correct + probe.correct, n + probe.n
    return counts


def compare(
    claimed: Sequence[Record], retrained: dict[tuple[str, int], list[Probe]], fresh: set[int]
) -> list[RerunCell]:
    """Every retrained number beside its claim.

    Arguments:
        claimed: the entry's records.
        retrained: (strength, seed) -> probes of a retrained cell.
        fresh: the seeds that the entry does not have.
    """
    claims: dict[tuple[str, str], list[tuple[int, int]]] = {}
    groups = {}
    for record in claimed:
        strength = strength_text(record.spec.strength)
        groups[strength] = record.group_of
        for feature, counts in right(record.probes, record.group_of).items():
            claims.setdefault((strength, feature), []).append(counts)
    rows = [
        (strength, seed, feature, correct, n)
        for (strength, seed), probes in sorted(retrained.items())
        for feature, (correct, n) in sorted(right(probes, groups[strength]).items())
    ]
    cells = []
    for strength, seed, feature, correct, n in rows:
        counts = claims[strength, feature]
        values = [part / whole for part, whole in counts]
        expected, widest = interval(values, n), interval(values, n, 1 - (1 - LEVEL) / len(rows))
        cells.append(
            RerunCell(
                strength=strength,
                seed=seed,
                fresh=seed in fresh,
                feature=feature,
                correct=correct,
                n=n,
                claimed=[part for part, _ in counts],
                mean=expected.mean,
                low=expected.low,
                high=expected.high,
                inside=expected.holds(correct / n),
                far=not widest.holds(correct / n),
            )
        )
    return cells


def allowed(cells: int) -> int:
    """How many of the cells may lie outside their 99 % intervals by chance: more happens in at most 1 % of honest reruns.

    >>> allowed(1), allowed(30), allowed(100)
    (0, 2, 4)
    """
    return int(stats.binom.isf(1 - LEVEL, cells, 1 - LEVEL))
