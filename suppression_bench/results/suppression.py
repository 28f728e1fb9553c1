"""Numbers of suppression: retention, suppression index, half-suppression point and score, with intervals over seeds.

Above their definitions on plain numbers, below `Curves`: one method's accuracies in a study, and what follows from them.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import pandas
from scipy.special import stdtrit

from generators.randomness import below, random_words, stream_key
from suppression_bench.results import frame as frames

SHARE = (0.0, 1.0)  # where suppression index and score lie
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
    values = _defined(retentions)
    return 1 - sum(map(kept, values)) / len(values) if values else None


def _defined(values: Sequence[float | None]) -> list[float]:
    # The values, or none of them where one is undefined.
    defined = [value for value in values if value is not None]
    return defined if len(defined) == len(values) else []


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
    previous = None
    for strength, value in zip(strengths, retentions, strict=True):
        if value is None:
            return None
        if value <= 0.5:
            if previous is None:
                return float(strength)
            start, high = previous
            return start + (strength - start) * (high - 0.5) / (high - value)
        previous = strength, value
    return math.inf if previous else None


def worst(retentions: Sequence[float | None]) -> float | None:
    """The retention, cut to [0, 1], of the feature that kept least at one strength; None where one is undefined.

    >>> worst([0.9, 0.2])
    0.2
    """
    values = _defined(retentions)
    return min(map(kept, values)) if values else None


def score(by_strength: Sequence[Sequence[float | None]]) -> float | None:
    """The mean over the strengths of the worst feature's retention: throwing a competitor away gains nothing.

    Arguments:
        by_strength: for each strength the retentions of all features.

    >>> score([[1.0, 0.8], [0.0, 1.0]])
    0.4
    """
    worsts = _defined([worst(features) for features in by_strength])
    return sum(worsts) / len(worsts) if worsts else None


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
    resampled = [statistic(seeds) for seeds in positions]
    estimate = statistic(np.arange(count))
    if estimate is None or None in resampled:
        return None
    values = np.array(resampled)
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


# ---- a method's curves ----


@dataclass(frozen=True, kw_only=True)
class Curves:
    """One method's accuracies by one probe of the encoder.

    values: [feature][strength][seed] -> accuracy.
    chance: of each feature.
    supervised: as `values`, of the ceiling; {} where there is no supervised encoder, or more than one.
    groups: the features that are groups of constant channels, such as the bits.
    below: (feature, strength) whose mean lies below the untrained encoders'.
    floors: (feature, strength) -> how many untrained encoders there are.
    """

    values: dict[str, dict]
    chance: dict[str, float]
    supervised: dict[str, dict]
    groups: frozenset[str]
    below: frozenset[tuple] = frozenset()
    floors: dict[tuple, int] = field(default_factory=dict)

    def strengths(self, feature: str | None = None) -> list:
        """All strengths (of a feature) but 0, where the competitor is absent and retention is 1 by definition."""
        chosen = self.values.values() if feature is None else [self.values[feature]]
        strengths = {strength for by_strength in chosen for strength in by_strength}
        return sorted((strength for strength in strengths if strength != 0), key=frames.strength_order)

    def seeds(self) -> list[int]:
        return sorted(
            {seed for by_strength in self.values.values() for seeds in by_strength.values() for seed in seeds}
        )

    def mean(self, feature: str, strength: Any, seeds: list[int] | None = None) -> float | None:
        """Mean accuracy over seeds, with repetitions where `seeds` has them; None where there is no value."""
        by_seed = self.values.get(feature, {}).get(strength, {})
        values = [by_seed[seed] for seed in (by_seed if seeds is None else seeds) if seed in by_seed]
        return sum(values) / len(values) if values else None

    def ceiling(self, feature: str, strength: Any, seeds: list[int] | None = None) -> float | None:
        """What the probe reaches where nothing competes.

        A group's, of constant channels: 1. Another feature's: this method's accuracy where the competitor is absent
        (strength 0); where the grid has no such strength, the supervised encoder's at the same strength, resampled
        together with the method where it has the same seeds, and taken as it is where it has others.
        """
        if feature in self.groups:
            return 1.0
        if 0 in self.values[feature]:
            return self.mean(feature, 0, seeds)
        by_seed = self.supervised.get(feature, {}).get(strength, {})
        chosen = list(by_seed) if seeds is None or sorted(by_seed) != self.seeds() else seeds
        return sum(by_seed[seed] for seed in chosen) / len(chosen) if by_seed else None

    def source(self, feature: str) -> str:
        """Where the ceiling comes from, for the table."""
        if feature in self.groups:
            return "1"
        if 0 in self.values[feature]:
            return "own"
        return "supervised" if feature in self.supervised else "none"

    def retention(self, feature: str, strength: Any, seeds: list[int] | None = None) -> float | None:
        accuracy, ceiling = self.mean(feature, strength, seeds), self.ceiling(feature, strength, seeds)
        if accuracy is None or ceiling is None:
            return None
        return retention(accuracy, self.chance[feature], ceiling)

    def retentions(self, feature: str, seeds: list[int] | None = None) -> list[float | None]:
        """One for each strength at which the feature is probed."""
        return [self.retention(feature, strength, seeds) for strength in self.strengths(feature)]

    def index(self, feature: str, seeds: list[int] | None = None) -> float | None:
        return suppression_index(self.retentions(feature, seeds))

    def half(self, feature: str) -> float | None:
        """The half point; None where the strengths are no rising numbers or a retention on the way is undefined."""
        line = self._line(feature, 1.0, self.retentions(feature))
        return half_point(*line) if line else None

    def half_interval(self, feature: str) -> tuple | None:
        """From where the lower ends of the retentions' intervals first fall to one half to where the upper ends do."""
        intervals = [self.retention_interval(feature, strength) for strength in self.strengths(feature)]
        line = self._line(feature, (1.0, 1.0), intervals)
        return half_point_interval(*line) if line else None

    def _line(self, feature: str, first: Any, values: list) -> tuple[list, list] | None:
        # Strengths as rising numbers and a value for each; at strength 0 `first`, where there is such a cell.
        strengths = _defined([number_of(strength) for strength in self.strengths(feature)])
        if len(strengths) != len(values) or strengths != sorted(set(strengths)):
            return None
        from_zero = 0 in self.values[feature] and feature not in self.groups
        return ([0, *strengths], [first, *values]) if from_zero else (strengths, values)

    def score(self, seeds: list[int] | None = None) -> float | None:
        return score(
            [
                [
                    self.retention(feature, strength, seeds)
                    for feature in self.values
                    if strength in self.values[feature]
                ]
                for strength in self.strengths()
            ]
        )

    def retention_interval(self, feature: str, strength: Any) -> tuple | None:
        return self._interval(lambda seeds: self.retention(feature, strength, seeds))

    def index_interval(self, feature: str) -> tuple | None:
        return self._interval(lambda seeds: self.index(feature, seeds), SHARE)

    def score_interval(self) -> tuple | None:
        return self._interval(self.score, SHARE)

    def _interval(self, statistic: Callable, limits: tuple[float, float] = (-math.inf, math.inf)) -> tuple | None:
        # Over seeds, where every strength has the same ones and there are at least two.
        if len({tuple(sorted(seeds)) for by_strength in self.values.values() for seeds in by_strength.values()}) > 1:
            return None
        seeds = np.array(self.seeds())
        return interval(len(seeds), lambda positions: statistic(seeds[positions].tolist()), limits)


def number_of(strength: Any) -> float | None:
    """A strength as a number, None where it is none; of "20+50" the last size, as the first is the same at every strength.

    >>> number_of("20+50"), number_of(8), number_of("max")
    (50.0, 8.0, None)
    """
    try:
        return float(str(strength).rpartition("+")[2])
    except ValueError:
        return None


def curves(frame: pandas.DataFrame) -> dict[tuple, Curves]:
    """(dataset, pictures, variant, strength's name, title, encoder, probe) -> the method's accuracies by the encoder.

    Arguments:
        frame: of `Study.long`.
    """
    rows = frames.pooled(frame)
    rows = rows[(rows["layer"] == "encoder") & (rows["strength_name"] != "")].copy()
    groups = frozenset(rows["group"]) - {""}
    rows["title"] = [frames.title(*names) for names in zip(rows["method"], rows["setting"], strict=True)]
    setting = [*frames.TOPIC, "encoder", "probe"]
    keys = [*setting, "method", "title", "feature", "strength", "seed"]
    means = rows.groupby(keys, dropna=False, sort=False)[["accuracy", "chance"]].mean().reset_index()
    below, by_title = _below(frame), {}
    for key, part in means.groupby(setting, dropna=False, sort=False):
        *topic, encoder, probe = key
        supervised = part[part["method"] == frames.CEILING]
        # Two supervised encoders: no ceiling is chosen.
        ceiling = _nested(supervised) if supervised["title"].nunique() == 1 else {}
        floors = part[part["method"] == frames.FLOOR].groupby(["feature", "strength"], sort=False).size().to_dict()
        for title, rows_of_title in part.groupby("title", sort=False):
            chance = rows_of_title.groupby("feature")["chance"].first().to_dict()
            key = (*topic, title, encoder, probe)
            # A supervised encoder as its own ceiling would always have kept all.
            above = {} if rows_of_title["method"].iloc[0] == frames.CEILING else ceiling
            by_title[key] = Curves(
                values=_nested(rows_of_title),
                chance=chance,
                supervised=above,
                groups=groups,
                below=frozenset(below.get(key, ())),
                floors=floors,
            )
    return by_title


def _below(frame: pandas.DataFrame) -> dict[tuple, set]:
    # What the tables mark, by the same rule.
    marked: dict[tuple, set] = {}
    summary = frames.summarise(frame)
    for row in summary[summary["below"] & (summary["layer"] == "encoder")].itertuples():
        topic = [getattr(row, name) for name in frames.TOPIC]
        key = (*topic, frames.title(row.method, row.setting), row.encoder, row.probe)
        marked.setdefault(key, set()).add((row.feature, row.strength))
    return marked


def _nested(part: pandas.DataFrame) -> dict[str, dict]:
    values: dict[str, dict] = {}
    for row in part.itertuples():
        values.setdefault(row.feature, {}).setdefault(row.strength, {})[row.seed] = row.accuracy
    return values
