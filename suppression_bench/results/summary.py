"""Summary numbers of suppression from records: a row per method and feature, with intervals over seeds."""

import math
from dataclasses import dataclass

import numpy as np
import pandas

from suppression_bench.evaluation import suppression
from suppression_bench.results import record as records
from suppression_bench.results.frame import BITS, GROUP
from suppression_bench.results.pivot import row_order, strength_order
from suppression_bench.results.tables import require_probe


@dataclass(frozen=True)
class Curves:
    """One method's accuracies: values[feature][strength] is {seed: accuracy}; ceilings as a function of both."""

    values: dict[str, dict]
    chance: dict[str, float]
    supervised: dict[str, dict]  # the ceiling's values, {} where there is no supervised encoder or more than one

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
        absent (strength 0); where the grid has no such strength, the supervised encoder's at the same strength.
        """
        if feature == BITS:
            return 1.0
        if 0 in self.values[feature]:
            return self.mean(feature, 0, seeds)
        own = self.supervised.get(feature, {}).get(strength, {})
        return sum(own.values()) / len(own) if own else None

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
        places = [s for s in self.strengths() if s in self.values[feature]]
        numbers = [_number(strength) for strength in places]
        if None in numbers or numbers != sorted(set(numbers)):
            return None
        start = [(0, 1.0)] if 0 in self.values[feature] and feature != BITS else []
        pairs = start + list(zip(numbers, self.retentions(feature), strict=True))
        return suppression.half_point([place for place, _ in pairs], [value for _, value in pairs])

    def score(self, seeds: list[int] | None = None) -> float | None:
        features = {s: [f for f in self.values if s in self.values[f]] for s in self.strengths()}
        return suppression.score([[self.retention(f, s, seeds) for f in own] for s, own in features.items()])

    def interval(self, statistic) -> tuple | None:
        """Over seeds, where every strength has the same ones and there are at least two."""
        if len({tuple(sorted(seeds)) for by_strength in self.values.values() for seeds in by_strength.values()}) > 1:
            return None
        names = np.array(self.seeds())
        return suppression.interval(len(names), lambda places: statistic(names[places].tolist()))


def _number(strength) -> float | None:
    # The last size of "20+50": the first is the same at every strength.
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
    found = {}
    for where, part in means.groupby(place, dropna=False, sort=False):
        supervised = part[part["method"] == "supervised"]
        # Two of them are two ceilings: which of them counts is not for this program to say.
        ceiling = _nested(supervised) if supervised["title"].nunique() == 1 else {}
        for title, own in part.groupby("title", sort=False):
            chance = own.groupby("feature")["chance"].first().to_dict()
            found[(*where[:4], title, *where[4:])] = Curves(_nested(own), chance, ceiling)
    return found


def _nested(part: pandas.DataFrame) -> dict[str, dict]:
    found: dict[str, dict] = {}
    for row in part.itertuples():
        found.setdefault(row.feature, {}).setdefault(row.strength, {})[row.seed] = row.accuracy
    return found


def pivot(frame: pandas.DataFrame) -> list[tuple[str, pandas.DataFrame]]:
    """One table per dataset: rows by method, probe and feature; retention by strength, index, half point and score."""
    groups: dict[tuple, list] = {}
    for (*group, title, _, probe), own in curves(frame).items():
        if own.strengths():
            groups.setdefault(tuple(group), []).append((title, probe, own))
    tables = []
    for (dataset, pictures, variant, name), entries in groups.items():
        strengths = sorted({s for _, _, own in entries for s in own.strengths()}, key=strength_order)
        rows = []
        for title, probe, own in sorted(entries, key=lambda entry: row_order((entry[0], entry[1], ""))):
            for position, feature in enumerate(sorted(own.values, key=lambda f: (f == BITS, f))):
                rows.append(_row(title, probe, feature, own, strengths, with_score=position == 0))
        over = f" over {pictures}" * bool(pictures) + f" ({variant})" * bool(variant)
        tables.append((f"{dataset}{over}: what is kept, by {name}", pandas.DataFrame(rows)))
    return tables


def _row(title, probe, feature, own: Curves, strengths, with_score: bool) -> dict:
    kept = {
        f"R @{strength}": _shown(own.retention(feature, strength)) if strength in own.values[feature] else ""
        for strength in strengths
    }
    counts = [len(seeds) for seeds in own.values[feature].values()]
    index = own.index(feature)
    interval = own.interval(lambda seeds: own.index(feature, seeds)) if index is not None else None
    best = own.score() if with_score else None
    between = own.interval(own.score) if best is not None else None
    return {
        "method": title, "probe": probe, "feature": feature, "ceiling": own.source(feature), **kept,
        "SI": _shown(index, interval), "s50": _half(own, feature),
        "score": _shown(best, between) if with_score else "", "n": _count(counts),
    }  # fmt: skip


def _shown(value: float | None, interval: tuple | None = None) -> str:
    if value is None:
        return "undefined"
    return f"{value:.2f}" + (f" [{interval[0]:.2f}, {interval[1]:.2f}]" if interval else "")


def _half(own: Curves, feature: str) -> str:
    value, places = own.half(feature), [s for s in own.strengths() if s in own.values[feature]]
    if value is None:
        return "undefined"
    if math.isinf(value):
        return f"> {places[-1]}"
    # A curve that begins at its first strength may have fallen anywhere before it.
    return f"<= {places[0]}" if value == _number(places[0]) and own.source(feature) != "own" else f"{value:.1f}"


def _count(counts: list[int]) -> str:
    return str(counts[0]) if len(set(counts)) == 1 else f"{min(counts)}-{max(counts)}"


def render(frame: pandas.DataFrame, probe: str = "all") -> str:
    """The tables as markdown, with what the columns mean.

    Raises:
        UserError: a probe that no cell has.
    """
    if probe != "all":
        require_probe(frame, probe)
        frame = frame[(frame["probe"] == probe) | frame["accuracy"].isna()]
    found = pivot(frame)
    texts = [f"**{heading}**\n\n{table.to_markdown(index=False, disable_numparse=True)}\n" for heading, table in found]
    left_out = "".join(f"{line}\n" for line in absent(frame))
    return ("\n".join(texts) + "\n" + LEGEND if texts else NOTHING) + left_out


def absent(frame: pandas.DataFrame) -> list[str]:
    """A line for every cell that has no numbers: failed, diverged or missing, by name."""
    return [
        f"- Not in these numbers: {row.method} {row.setting or ''} {row.strength_name}={row.strength} seed={row.seed}, "
        f"{row.status}."
        for row in frame[frame["accuracy"].isna()].itertuples()
    ]


NOTHING = "Nothing to summarise: no cell has numbers at a strength of a competitor above 0.\n"
LEGEND = """\
- R: retention, (accuracy - chance) / (ceiling - chance). The ceiling is 1 for the constant bits; for another feature its own
  accuracy without competitor (strength 0), or where no such cell is there, the supervised encoder's at the same strength.
- SI: suppression index, 1 - mean over the strengths above 0 of R cut to [0, 1]. s50: where R first falls to one half.
  score: mean over those strengths of the worst feature's R. Only rows with values at the same strengths can be compared.
- In brackets: 95 % bootstrap interval over n seeds; there is none where a strength has one seed, or not the same as the others.
- undefined: no ceiling (or two supervised encoders that differ), or one that clears chance by less than .05.
"""
