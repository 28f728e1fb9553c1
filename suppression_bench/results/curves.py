"""One method's accuracies against the competitor's strength, and the summary numbers that follow, with their intervals."""

import math
from dataclasses import dataclass

import numpy as np
import pandas

from suppression_bench.evaluation import suppression
from suppression_bench.results import record as records
from suppression_bench.results.frame import BITS, GROUP, summarise
from suppression_bench.results.pivot import strength_order

SHARE = (0.0, 1.0)  # where suppression index and score lie


@dataclass(frozen=True)
class Curves:
    """One method's accuracies: values[feature][strength] is {seed: accuracy}; ceilings as a function of both."""

    values: dict[str, dict]
    chance: dict[str, float]
    supervised: dict[str, dict]  # the ceiling's values, {} where there is no supervised encoder or more than one
    below: set[tuple]  # (feature, strength) whose mean lies below the untrained encoders'
    floors: dict[tuple, int]  # (feature, strength) -> how many untrained encoders there are

    def strengths(self) -> list:
        """The grid: all strengths but 0, where the competitor is absent and retention is 1 by definition."""
        found = {strength for by_strength in self.values.values() for strength in by_strength}
        return sorted((s for s in found if s != 0), key=strength_order)

    def seeds(self) -> list[int]:
        found = {seed for by_strength in self.values.values() for seeds in by_strength.values() for seed in seeds}
        return sorted(found)

    def mean(self, feature: str, strength, seeds: list[int] | None = None) -> float | None:
        """Mean accuracy over seeds, with repetitions where `seeds` has them; None where there is no value."""
        own = self.values.get(feature, {}).get(strength, {})
        found = [own[seed] for seed in (own if seeds is None else seeds) if seed in own]
        return sum(found) / len(found) if found else None

    def ceiling(self, feature: str, strength, seeds: list[int] | None = None) -> float | None:
        """What the probe reaches where nothing competes.

        The competitor's own, the constant bits': 1. Another feature's: this method's accuracy where the competitor is
        absent (strength 0); where the grid has no such strength, the supervised encoder's at the same strength, resampled
        together with the method where it has the same seeds, and taken as it is where it has others.
        """
        if feature == BITS:
            return 1.0
        if 0 in self.values[feature]:
            return self.mean(feature, 0, seeds)
        own = self.supervised.get(feature, {}).get(strength, {})
        chosen = list(own) if seeds is None or sorted(own) != self.seeds() else seeds
        return sum(own[seed] for seed in chosen) / len(chosen) if own else None

    def source(self, feature: str) -> str:
        """Where the ceiling comes from, for the table."""
        if feature == BITS:
            return "1"
        if 0 in self.values[feature]:
            return "own"
        return "supervised" if feature in self.supervised else "none"

    def retention(self, feature: str, strength, seeds: list[int] | None = None) -> float | None:
        accuracy, ceiling = self.mean(feature, strength, seeds), self.ceiling(feature, strength, seeds)
        if accuracy is None or ceiling is None:
            return None
        return suppression.retention(accuracy, self.chance[feature], ceiling)

    def retentions(self, feature: str, seeds: list[int] | None = None) -> list[float | None]:
        """One for each strength at which the feature is probed."""
        own = self.values[feature]
        return [self.retention(feature, strength, seeds) for strength in self.strengths() if strength in own]

    def index(self, feature: str, seeds: list[int] | None = None) -> float | None:
        return suppression.suppression_index(self.retentions(feature, seeds))

    def half(self, feature: str) -> float | None:
        """The half point; None where the strengths are no rising numbers or a retention on the way is undefined."""
        found = self._line(feature, 1.0, self.retentions(feature))
        return suppression.half_point(*found) if found else None

    def half_interval(self, feature: str) -> tuple | None:
        """From where the lower ends of the retentions' intervals first fall to one half to where the upper ends do."""
        places = [s for s in self.strengths() if s in self.values[feature]]
        found = self._line(feature, (1.0, 1.0), [self.retention_interval(feature, place) for place in places])
        return suppression.half_point_interval(*found) if found else None

    def _line(self, feature: str, first, values: list) -> tuple[list, list] | None:
        # Strengths as rising numbers and a value for each; at strength 0 `first`, where there is such a cell.
        numbers = [number_of(s) for s in self.strengths() if s in self.values[feature]]
        if None in numbers or numbers != sorted(set(numbers)):
            return None
        starts = 0 in self.values[feature] and feature != BITS
        return ([0, *numbers], [first, *values]) if starts else (numbers, values)

    def score(self, seeds: list[int] | None = None) -> float | None:
        features = {s: [f for f in self.values if s in self.values[f]] for s in self.strengths()}
        return suppression.score([[self.retention(f, s, seeds) for f in own] for s, own in features.items()])

    def retention_interval(self, feature: str, strength) -> tuple | None:
        return self._interval(lambda seeds: self.retention(feature, strength, seeds))

    def index_interval(self, feature: str) -> tuple | None:
        return self._interval(lambda seeds: self.index(feature, seeds), SHARE)

    def score_interval(self) -> tuple | None:
        return self._interval(self.score, SHARE)

    def _interval(self, statistic, limits: tuple[float, float] = (-math.inf, math.inf)) -> tuple | None:
        # Over seeds, where every strength has the same ones and there are at least two.
        if len({tuple(sorted(seeds)) for by_strength in self.values.values() for seeds in by_strength.values()}) > 1:
            return None
        names = np.array(self.seeds())
        return suppression.interval(len(names), lambda places: statistic(names[places].tolist()), limits)


def number_of(strength) -> float | None:
    """A strength as a number, None where it is none; of "20+50" the last size, as the first is the same at every strength.

    >>> number_of("20+50"), number_of(8), number_of("max")
    (50.0, 8.0, None)
    """
    try:
        return float(str(strength).rpartition("+")[2])
    except ValueError:
        return None


def curves(frame: pandas.DataFrame) -> dict[tuple, Curves]:
    """(dataset, pictures, variant, strength's name, title, encoder, probe) -> the method's accuracies by the encoder."""
    good = frame[frame["accuracy"].notna() & (frame["layer"] == "encoder") & (frame["strength_name"] != "")].copy()
    good["feature"] = good["feature"].map(lambda name: BITS if records.is_bit(name) else name)
    good["title"] = (good["method"] + " " + good["setting"].fillna("")).str.strip()
    place = [*GROUP, "encoder", "probe"]
    keys = [*place, "method", "title", "feature", "strength", "seed"]
    means = good.groupby(keys, dropna=False, sort=False)[["accuracy", "chance"]].mean().reset_index()
    below, found = _below(frame), {}
    for where, part in means.groupby(place, dropna=False, sort=False):
        supervised = part[part["method"] == "supervised"]
        # Two of them are two ceilings: which of them counts is not for this program to say.
        ceiling = _nested(supervised) if supervised["title"].nunique() == 1 else {}
        floors = part[part["method"] == "untrained"].groupby(["feature", "strength"], sort=False).size().to_dict()
        for title, own in part.groupby("title", sort=False):
            chance = own.groupby("feature")["chance"].first().to_dict()
            key = (*where[:4], title, *where[4:])
            # Measured against itself it would always have kept all.
            above = {} if own["method"].iloc[0] == "supervised" else ceiling
            found[key] = Curves(_nested(own), chance, above, below.get(key, set()), floors)
    return found


def _below(frame: pandas.DataFrame) -> dict[tuple, set]:
    # What the tables mark, by the same rule.
    found: dict[tuple, set] = {}
    means = summarise(frame)
    for row in means[means["below"] & (means["layer"] == "encoder")].itertuples():
        key = (*(getattr(row, name) for name in GROUP), f"{row.method} {row.setting}".strip(), row.encoder, row.probe)
        found.setdefault(key, set()).add((row.feature, row.strength))
    return found


def _nested(part: pandas.DataFrame) -> dict[str, dict]:
    found: dict[str, dict] = {}
    for row in part.itertuples():
        found.setdefault(row.feature, {}).setdefault(row.strength, {})[row.seed] = row.accuracy
    return found
