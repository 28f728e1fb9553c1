"""Ranks: a score per seed from an entry's records, and the order of a track's entries with the ranks left open."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from generators.dataset import UserError
from suppression_bench.cell import Strength
from suppression_bench.leaderboard.entry import Submission, newer_versions
from suppression_bench.leaderboard.tracks import BITS, LAYER, PROBE, Track
from suppression_bench.results import significance, suppression
from suppression_bench.results.frame import strength_value
from suppression_bench.results.record import Record
from suppression_bench.results.suppression import SHARE, Curves

UNTRAINED, SUPERVISED = "untrained", "supervised"
Accuracies = dict[str, dict[Any, dict[int, float]]]  # [feature][strength][seed]


@dataclass(frozen=True)
class Standing:
    """A submission's numbers and where it stands.

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
    alike: tuple[str, ...] = ()

    @property
    def slug(self) -> str:
        return self.submission.slug


@dataclass(frozen=True)
class Board:
    """One track.

    grid: all its strengths, as keys of accuracies.
    ranked: entries with a score, trained without labels, the best first.
    undefined: such entries without a score, by slug; each says why.
    ceilings: entries that were shown labels, the best first; no ranks.
    floors: untrained encoders; no ranks.
    superseded: (slug, slug of the newer entry) of what is not shown.
    floor: the untrained encoder's accuracies; floor_score: its score, or None.
    """

    track: Track
    grid: tuple
    ranked: tuple[Standing, ...]
    undefined: tuple[Standing, ...]
    ceilings: tuple[Standing, ...]
    floors: tuple[Standing, ...]
    superseded: tuple[tuple[str, str], ...]
    floor: Accuracies
    floor_score: float | None


def board(track: Track, submissions: Sequence[Submission]) -> Board:
    """The order of one track.

    The score of an entry is the mean over its seeds of: mean over the strengths above 0 of the worst feature's retention,
    cut to [0, 1]. Mean accuracy decides between equal scores, the slug between equal accuracies.

    Arguments:
        track: what it is about; submissions of other tracks are left out.
        submissions: of any track.

    Raises:
        UserError: an impossible `supersedes`, or two records for one strength and seed.
    """
    competing = [submission for submission in submissions if submission.entry.track == track.name]
    every = sorted((submission.entry for submission in submissions), key=lambda entry: entry.slug)
    newer, faults = newer_versions(every)
    if faults:
        raise UserError("\n".join(faults))
    hidden = {old: new for old, new in newer.items() if old in {submission.slug for submission in competing}}
    shown = [submission for submission in competing if submission.slug not in hidden]
    ceiling, floor_entry = (_reference(shown, method) for method in (SUPERVISED, UNTRAINED))
    supervised, floor = (accuracies(entry)[0] if entry else {} for entry in (ceiling, floor_entry))
    standings = [standing(submission, track, supervised, floor) for submission in shown]
    floors = [entry for entry in standings if is_reference(entry.submission, UNTRAINED)]
    trained = [entry for entry in standings if entry not in floors]
    judged = [entry for entry in trained if not entry.submission.entry.label_use]
    return Board(
        track=track,
        grid=tuple(map(strength_value, track.grid)),
        ranked=_with_ranks(_ordered(entry for entry in judged if not entry.reason)),
        undefined=tuple(_ordered(entry for entry in judged if entry.reason)),
        ceilings=tuple(_ordered(entry for entry in trained if entry.submission.entry.label_use)),
        floors=tuple(_ordered(floors)),
        superseded=tuple(sorted(hidden.items())),
        floor=floor,
        floor_score=next((entry.score for entry in floors if entry.submission is floor_entry), None),
    )


def _reference(shown: Sequence[Submission], method: str) -> Submission | None:
    # One of them, or the reference would move with every further one: the best checked, then the one with most cells.
    candidates = [submission for submission in shown if is_reference(submission, method)]
    return min(candidates, key=lambda entry: (-entry.level, -len(entry.records), entry.slug), default=None)


def is_reference(submission: Submission, method: str) -> bool:
    """Whether it is the package's own `untrained` or `supervised`: no file of a submission can pass for them."""
    entry = submission.entry
    return bool(submission.records) and entry.setting.method.name == method and not entry.own_files


def _ordered(standings: Iterable[Standing]) -> list[Standing]:
    def key(entry: Standing) -> tuple:
        # Equal scores may come from unlike sums, whose last bits differ: those must not decide.
        score, accuracy = (-1.0 if value is None else round(value, 12) for value in (entry.score, entry.accuracy))
        return (-score, -accuracy, entry.slug)

    return sorted(standings, key=key)


def _with_ranks(ordered: list[Standing]) -> tuple[Standing, ...]:
    """Each entry with the ranks that it may have.

    Every pair is tested by Welch's test, all tests of the track together by Holm's procedure at 5 %. An entry may have any
    rank from 1 + the number of entries that are better for certain to the number of all - those that are worse for certain.
    Reference: Mogstad, Romano, Shaikh & Wilhelm, "Inference for Ranks" (Review of Economic Studies, 2024).
    """
    count = len(ordered)
    pairs = [(first, second) for first in range(count) for second in range(first + 1, count)]
    p_values = {pair: significance.welch(*(ordered[position].scores for position in pair)) for pair in pairs}
    tested = [(pair, p) for pair, p in p_values.items() if p is not None]
    sure = significance.holm([p for _, p in tested])
    apart = {pair for (pair, _), is_sure in zip(tested, sure, strict=True) if is_sure}
    ranked = []
    for position, entry in enumerate(ordered):
        better = sum((before, position) in apart for before in range(position))
        worse = sum((position, behind) in apart for behind in range(position + 1, count))
        alike = tuple(
            rival.slug
            for rank, rival in enumerate(ordered)
            if rank != position and (min(position, rank), max(position, rank)) not in apart
        )
        ranked.append(replace(entry, ranks=(1 + better, count - worse), alike=alike))
    return tuple(ranked)


# ---- the numbers of one entry ----


def _key(record: Record) -> tuple[Any, int]:
    strength: Strength | None = record.spec.strength
    return strength_value(strength.value if strength else None), record.spec.seed


def accuracies(submission: Submission) -> tuple[Accuracies, dict[str, float]]:
    """Of PROBE on the encoder's output: [feature][strength][seed] -> accuracy, and each feature's chance.

    A group of features, as the bits, is one feature, the mean over its probes, as in every table.

    Raises:
        UserError: two records for one strength and seed.
    """
    single: dict[tuple, list[float]] = {}
    chance, seen = {}, set()
    for record in submission.records:
        strength, seed = _key(record)
        if (strength, seed) in seen:
            raise UserError(
                f"{submission.folder}: strength {strength}, seed {seed}: two records; an entry has one for each"
            )
        seen.add((strength, seed))
        for probe in record.probes:
            if (probe.probe, probe.layer) == (PROBE, LAYER):
                feature = record.group_of(probe.feature)
                single.setdefault((feature, strength, seed), []).append(probe.accuracy)
                chance[feature] = probe.chance
    values: Accuracies = {}
    for (feature, strength, seed), shares in single.items():
        values.setdefault(feature, {}).setdefault(strength, {})[seed] = sum(shares) / len(shares)
    return values, chance


def standing(submission: Submission, track: Track, supervised: Accuracies, floor: Accuracies) -> Standing:
    """An entry with its scores, still without ranks.

    Arguments:
        submission: as loaded.
        track: what it competes in.
        supervised: of the track's supervised encoder, the ceiling where there is no strength 0.
        floor: of its untrained encoder.

    Raises:
        UserError: two records for one strength and seed.
    """
    values, chance = accuracies(submission)
    curves = Curves(values=values, chance=chance, supervised=supervised, groups=frozenset({BITS}))
    seeds = tuple(sorted({record.spec.seed for record in submission.records}))
    lost = _lost(submission.records, track, seeds)
    reason = lost or _ceilings(curves, seeds)
    scores = () if reason else tuple(score for seed in seeds if (score := curves.score([seed])) is not None)
    return Standing(
        submission=submission,
        curves=curves,
        seeds=seeds,
        scores=scores,
        score=float(np.mean(scores)) if scores else None,
        interval=mean_interval(scores),
        accuracy=None if lost else _accuracy(curves),
        reason=reason,
        below=_below(curves, [strength_value(value) for value in track.grid], floor),
    )


def mean_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """The 95 % interval of a mean over seeds, None with one seed."""
    array = np.array(values)
    return suppression.interval(len(values), lambda positions: float(array[positions].mean()), SHARE)


def features_in_order(*groups: Iterable[str]) -> list[str]:
    """Features by name, the bits last."""
    return sorted({feature for features in groups for feature in features}, key=lambda name: (name == BITS, name))


def _accuracy(curves: Curves) -> float | None:
    # Each strength counts once, and each feature at it: a strength with more features is not worth more.
    means = [
        np.mean([mean for feature in curves.values if (mean := curves.mean(feature, strength)) is not None])
        for strength in curves.strengths()
    ]
    return float(np.mean(means)) if means else None


def _below(curves: Curves, grid: Sequence, floor: Accuracies) -> tuple[tuple, ...]:
    # By the tables' rule: in their tenth of a percent, less is not visible.
    return tuple(
        (feature, strength)
        for feature in features_in_order(curves.values)
        for strength in grid
        if (mean := curves.mean(feature, strength)) is not None
        and (seeds := floor.get(feature, {}).get(strength))
        and round(mean, 3) < round(sum(seeds.values()) / len(seeds), 3)
    )


def _lost(records: Sequence[Record], track: Track, seeds: Sequence[int]) -> str:
    """Which cells have no numbers: a score over the others would profit from the loss."""
    by_key = {_key(record): record for record in records}
    if not by_key:
        return "no record"
    expected = {strength_value(strength): track.features(strength) for strength in track.grid}
    faults = [
        f"strength {strength}, seed {seed}: none of the track's"
        for strength, seed in by_key
        if strength not in expected
    ]
    for strength, features in expected.items():
        for seed in seeds:
            fault = _fault(by_key.get((strength, seed)), features)
            faults += [f"strength {strength}, seed {seed}: {fault}"] if fault else []
    return "; ".join(faults[:3]) + (f" and {len(faults) - 3} more" if len(faults) > 3 else "")


def _fault(record: Record | None, features: Sequence[str]) -> str:
    if record is None:
        return "no record"
    if not record.is_ok:
        return record.run.status.replace("_", " ")
    probed = {probe.feature for probe in record.probes if (probe.probe, probe.layer) == (PROBE, LAYER)}
    # What is not probed could not be the worst, and what is too many could move the mean.
    if absent := [name for name in features if name not in probed]:
        return f"no {PROBE} probe of {', '.join(absent)}"
    if more := sorted(probed - set(features)):
        return f"a probe of {', '.join(more)}, which the track does not have"
    return ""


def _ceilings(curves: Curves, seeds: Sequence[int]) -> str:
    """Why a ceiling cannot be used, "" where all can."""
    if not curves.strengths():
        return "no strength above 0"
    for feature in sorted(curves.values):
        for strength in (strength for strength in curves.strengths() if strength in curves.values[feature]):
            if curves.ceiling(feature, strength) is None:
                return f"{feature} at strength {strength}: no ceiling, as the track has no supervised entry there"
            low = [seed for seed in seeds if curves.retention(feature, strength, [seed]) is None]
            if low:
                return (
                    f"{feature} at strength {strength}: the ceiling clears chance by less than {suppression.CLEARS} "
                    f"(seed {', '.join(map(str, low))})"
                )
    return ""
