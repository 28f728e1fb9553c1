"""Is a retrained cell what the claim lets one expect? Prediction intervals for new seeds, and a verdict over all cells."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from suppression_bench.leaderboard.submission import strength_text
from suppression_bench.regression.statistics import LEAST, binomial_variance
from suppression_bench.results import record as records

LEVEL = 0.99
BITS = "bits"
PROBE, LAYER = "lbfgs", "encoder"  # the probe that every track has, on what every method has


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

    >>> found = interval([0.5, 0.6, 0.7], n=10_000)  # 0.6 +- 9.925 * 0.1 * sqrt(4 / 3)
    >>> round(interval([0.5, 0.51, 0.52], n=10_000).high - 0.51, 4)
    0.1146
    >>> found.low, found.high
    (0.0, 1.0)
    """
    seeds, mean = len(values), float(np.mean(values))
    variance = max(float(np.var(values, ddof=1)), binomial_variance(mean, n))
    half = float(stats.t.isf((1 - level) / 2, seeds - 1)) * math.sqrt(variance * (1 + 1 / seeds))
    half = max(half, LEAST)
    return Interval(mean, max(0.0, mean - half), min(1.0, mean + half))


def right(probes: list[dict]) -> dict[str, tuple[int, int]]:
    """Feature -> (right answers, test decisions) by the probe that all tracks have; the bits are one feature."""
    found: dict[str, tuple[int, int]] = {}
    for probe in probes:
        if (probe["probe"], probe["layer"]) == (PROBE, LAYER):
            feature = BITS if records.is_bit(probe["feature"]) else probe["feature"]
            correct, n = found.get(feature, (0, 0))
            found[feature] = correct + sum(row[i] for i, row in enumerate(probe["confusion"])), n + probe["n"]
    return found


def judge(claimed: list[dict], retrained: dict[tuple[str, int], list[dict]], fresh: set[int]) -> list[dict]:
    """Every retrained number beside its claim, as the finding's `cells`.

    Arguments:
        claimed: the submission's records.
        retrained: (strength, seed) -> probes of a retrained cell.
        fresh: the seeds that the submission does not have.
    """
    claims: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for record in claimed:
        for feature, counts in right(record["probes"]).items():
            claims.setdefault((strength_text(record), feature), []).append(counts)
    rows = [
        (strength, seed, feature, correct, n)
        for (strength, seed), probes in sorted(retrained.items())
        for feature, (correct, n) in sorted(right(probes).items())
    ]
    found = []
    for strength, seed, feature, correct, n in rows:
        own = claims[strength, feature]
        values = [part / whole for part, whole in own]
        expected, widest = interval(values, n), interval(values, n, 1 - (1 - LEVEL) / len(rows))
        found.append(
            {
                "strength": strength, "seed": seed, "fresh": seed in fresh, "feature": feature, "correct": correct, "n": n,
                "claimed": [part for part, _ in own], "mean": expected.mean, "low": expected.low, "high": expected.high,
                "inside": expected.holds(correct / n), "far": not widest.holds(correct / n),
            }
        )  # fmt: skip
    return found


def allowed(cells: int) -> int:
    """How many of the cells may lie outside their 99 % intervals by chance: more happens in at most 1 % of honest reruns.

    >>> allowed(1), allowed(30), allowed(100)
    (0, 2, 4)
    """
    return int(stats.binom.isf(1 - LEVEL, cells, 1 - LEVEL))


def passed(cells: list[dict], failed: list[str]) -> bool:
    """Whether the claim holds: no failed cell, no more outside than chance explains, and none far outside.

    Far is outside the interval in which all cells lie together with 99 %, so one gross miss is never excused.

    Arguments:
        cells: from `judge`.
        failed: what became of cells without a number.
    """
    outside = sum(not cell["inside"] for cell in cells)
    return bool(cells) and not failed and outside <= allowed(len(cells)) and not any(cell["far"] for cell in cells)
