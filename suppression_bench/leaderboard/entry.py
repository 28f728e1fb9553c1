"""The numbers of one entry: accuracies from its records, a score per seed, the mean with its interval, or why there is none."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from generators.dataset import UserError
from suppression_bench.evaluation import suppression
from suppression_bench.leaderboard.submission import Submission
from suppression_bench.leaderboard.tracks import Track
from suppression_bench.results import record as records
from suppression_bench.results.curves import SHARE, Curves
from suppression_bench.results.frame import BITS, strength_value

PROBE, LAYER = "lbfgs", "encoder"  # whose accuracies count, on every track
UNTRAINED, SUPERVISED = "untrained", "supervised"


@dataclass(frozen=True)
class Entry:
    """A submission and its numbers.

    curves: accuracies by feature, strength and seed, with the ceilings.
    seeds: in the order of `scores`.
    scores: one for each seed, () where one of them is undefined.
    score, interval: their mean and its 95 % interval (None with one seed).
    accuracy: mean over seeds, strengths above 0 and features, or None.
    reason: why there is no score, "" where there is one.
    below: (feature, strength) at which the mean accuracy lies below the untrained encoders'.
    ranks: the best and the worst rank that the comparisons leave open; None outside the ranking.
    alike: slugs of the ranked entries that it cannot be told from.
    """

    submission: Submission
    curves: Curves
    seeds: tuple[int, ...]
    scores: tuple[float, ...]
    score: float | None
    interval: tuple[float, float] | None
    accuracy: float | None
    reason: str
    below: tuple[tuple, ...] = ()
    ranks: tuple[int, int] | None = None
    alike: tuple[str, ...] = field(default=())


def is_reference(submission: Submission, method: str) -> bool:
    """Whether it is the package's own `untrained` or `supervised`: no file of a submission can pass for them."""
    own = all(one["spec"]["method"]["name"] == method for one in submission.records)
    return bool(submission.records) and own and submission.method_file is None and submission.loss_file is None


def place(record: dict) -> tuple:
    """A record's (strength, seed); a list of sizes is one text, as in the tables.

    >>> place({"spec": {"strength": {"key": "sizes", "value": [20, 80]}, "seed": 3}})
    ('20+80', 3)
    """
    return strength_value((record["spec"]["strength"] or {"value": None})["value"]), record["spec"]["seed"]


def accuracies(submission: Submission) -> tuple[dict[str, dict], dict[str, float]]:
    """Of PROBE on the encoder's output: [feature][strength][seed] -> accuracy, and each feature's chance.

    The bits are one feature, the mean over their probes, as in every table.

    Arguments:
        submission: as loaded.

    Raises:
        UserError: two records for one strength and seed.
    """
    single: dict[tuple, list[float]] = {}
    chance, seen = {}, set()
    for record in submission.records:
        strength, seed = place(record)
        if (strength, seed) in seen:
            raise UserError(
                f"{submission.folder}: strength {strength}, seed {seed}: two records; an entry has one for each"
            )
        seen.add((strength, seed))
        for one in record["probes"]:
            if (one["probe"], one["layer"]) == (PROBE, LAYER):
                feature = BITS if records.is_bit(one["feature"]) else one["feature"]
                single.setdefault((feature, strength, seed), []).append(records.accuracy(one))
                chance[feature] = one["chance"]
    values: dict[str, dict] = {}
    for (feature, strength, seed), shares in single.items():
        values.setdefault(feature, {}).setdefault(strength, {})[seed] = sum(shares) / len(shares)
    return values, chance


def make(submission: Submission, track: Track, supervised: dict, floor: dict) -> Entry:
    """An entry with its scores.

    Arguments:
        submission: as loaded.
        track: what it competes in.
        supervised: [feature][strength][seed] of the track's supervised encoder, the ceiling where there is no strength 0.
        floor: [feature][strength][seed] of its untrained encoder.

    Raises:
        UserError: two records for one strength and seed.
    """
    values, chance = accuracies(submission)
    curves = Curves(values, chance, supervised, set(), {})
    seeds = tuple(sorted({place(record)[1] for record in submission.records}))
    lost = _lost(submission.records, track, seeds)
    reason = lost or _ceilings(curves, seeds)
    scores = () if reason else tuple(curves.score([seed]) for seed in seeds)
    return Entry(
        submission, curves, seeds, scores, float(np.mean(scores)) if scores else None, _interval(scores),
        None if lost else _accuracy(curves), reason, _below(curves, [strength_value(one) for one in track.grid], floor),
    )  # fmt: skip


def _interval(scores: tuple[float, ...]) -> tuple[float, float] | None:
    values = np.array(scores)
    return suppression.interval(len(scores), lambda seeds: float(values[seeds].mean()), SHARE)


def _accuracy(curves: Curves) -> float | None:
    # Each strength counts once, and each feature at it: a strength with more features is not worth more.
    means = [
        np.mean([curves.mean(feature, strength) for feature, own in curves.values.items() if strength in own])
        for strength in curves.strengths()
    ]
    return float(np.mean(means)) if means else None


def _below(curves: Curves, grid: Sequence, floor: dict) -> tuple[tuple, ...]:
    # By the tables' rule: in their tenth of a percent, less is not visible.
    return tuple(
        (feature, strength)
        for feature in sorted(curves.values, key=lambda name: (name == BITS, name))
        for strength in grid
        if strength in curves.values[feature]
        and (seeds := floor.get(feature, {}).get(strength))
        and round(curves.mean(feature, strength), 3) < round(sum(seeds.values()) / len(seeds), 3)
    )


def _lost(found: Sequence[dict], track: Track, seeds: Sequence[int]) -> str:
    """Which cells have no numbers: a score over the others would profit from the loss."""
    by_place = {place(record): record for record in found}
    if not by_place:
        return "no record"
    wanted = {strength_value(strength): track.features(strength) for strength in track.grid}
    faults = [
        f"strength {strength}, seed {seed}: none of the track's"
        for strength, seed in by_place
        if strength not in wanted
    ]
    for strength, features in wanted.items():
        for seed in seeds:
            fault = _fault(by_place.get((strength, seed)), features)
            faults += [f"strength {strength}, seed {seed}: {fault}"] if fault else []
    more = f" and {len(faults) - 3} more" if len(faults) > 3 else ""
    return "; ".join(faults[:3]) + more


def _fault(record: dict | None, features: Sequence[str]) -> str:
    if record is None:
        return "no record"
    if record["run"]["status"] != "ok":
        return record["run"]["status"].replace("_", " ")
    probed = {one["feature"] for one in record["probes"] if (one["probe"], one["layer"]) == (PROBE, LAYER)}
    # What is not probed could not be the worst, and what is too many could move the mean.
    if absent := [name for name in features if name not in probed]:
        return f"no {PROBE} probe of {', '.join(absent)}"
    if more := sorted(probed - set(features)):
        return f"a probe of {', '.join(more)}, which the track does not have"
    return ""


def _ceilings(curves: Curves, seeds: Sequence[int]) -> str:
    if not curves.strengths():
        return "no strength above 0"
    for feature in sorted(curves.values):
        for strength in (place for place in curves.strengths() if place in curves.values[feature]):
            if curves.ceiling(feature, strength) is None:
                return f"{feature} at strength {strength}: no ceiling, as the track has no supervised entry there"
            low = [seed for seed in seeds if curves.retention(feature, strength, [seed]) is None]
            if low:
                named = ", ".join(map(str, low))
                return (
                    f"{feature} at strength {strength}: the ceiling clears chance by less than {suppression.CLEARS} "
                    f"(seed {named})"
                )
    return ""
