"""A track's entries in order: by score, with the ranks that the seeds leave open; ceilings and floor apart."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from generators.dataset import UserError
from suppression_bench.leaderboard import entry as entries
from suppression_bench.leaderboard.entry import SUPERVISED, UNTRAINED, Entry
from suppression_bench.leaderboard.submission import Submission
from suppression_bench.leaderboard.tracks import Track
from suppression_bench.results import significance
from suppression_bench.results.frame import strength_value


@dataclass(frozen=True)
class Board:
    """One track.

    track: what it is about.
    grid: all its strengths, as keys of accuracies.
    ranked: entries with a score, trained without labels, the best first.
    undefined: such entries without a score, by slug; each says why.
    ceilings: entries that were shown labels, the best first; no ranks.
    floors: untrained encoders; no ranks.
    superseded: (slug, slug of the newer entry) of what is not shown.
    floor: the untrained encoder's accuracies, [feature][strength][seed]; floor_score: its score, or None.
    tests: how many pairs of ranked entries were tested.
    """

    track: Track
    grid: tuple
    ranked: tuple[Entry, ...]
    undefined: tuple[Entry, ...]
    ceilings: tuple[Entry, ...]
    floors: tuple[Entry, ...]
    superseded: tuple[tuple[str, str], ...]
    floor: dict
    floor_score: float | None
    tests: int


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
    own = [one for one in submissions if one.track == track.name]
    hidden = superseded(own, submissions)
    shown = [one for one in own if one.slug not in hidden]
    references = [_reference(shown, method) for method in (SUPERVISED, UNTRAINED)]
    supervised, floor = (entries.accuracies(one)[0] if one else {} for one in references)
    made = [entries.make(one, track, supervised, floor) for one in shown]
    floor_score = next((one.score for one in made if one.submission is references[1]), None)
    floors = [one for one in made if entries.is_reference(one.submission, UNTRAINED)]
    trained = [one for one in made if one not in floors]
    judged = [one for one in trained if not one.submission.label_use]
    ranked, tests = _with_ranks(_ordered([one for one in judged if not one.reason]))
    return Board(
        track, tuple(map(strength_value, track.grid)), ranked, tuple(_ordered([one for one in judged if one.reason])),
        tuple(_ordered([one for one in trained if one.submission.label_use])), tuple(_ordered(floors)),
        tuple(sorted(hidden.items())), floor, floor_score, tests,
    )  # fmt: skip


def superseded(own: Sequence[Submission], all_of_them: Sequence[Submission] = ()) -> dict[str, str]:
    """Slug of each entry that a newer one replaces -> slug of that one.

    Arguments:
        own: submissions of one track.
        all_of_them: also those of the other tracks, to name the fault.

    Raises:
        UserError: an entry that replaces itself, an unknown one, one of another track, one that another entry replaces
            already, or entries that replace each other.
    """
    tracks = {one.slug: one.track for one in (*all_of_them, *own)}
    found: dict[str, str] = {}
    faults = []
    for one in sorted((one for one in own if one.supersedes is not None), key=lambda one: one.slug):
        start, old = f"{one.folder}: supersedes {one.supersedes!r}", one.supersedes
        if old == one.slug:
            faults.append(f"{start}, which is the entry itself")
        elif old not in tracks:
            faults.append(f"{start}, and there is no such entry")
        elif tracks[old] != one.track:
            faults.append(f"{start}, which is an entry of the track {tracks[old]!r}, not {one.track!r}")
        elif old in found:
            faults.append(f"{start}, which {found[old]!r} supersedes already; supersede the newest one")
        else:
            found[old] = one.slug
    faults += [
        f"{slug!r} and the entries after it supersede each other in a circle; one of them must stand"
        for slug in sorted(found)
        if _ends_in_itself(slug, found)
    ]
    if faults:
        raise UserError("\n".join(faults))
    return found


def _ends_in_itself(slug: str, found: dict[str, str]) -> bool:
    place = found[slug]
    for _ in found:
        if place == slug:
            return True
        place = found.get(place)
        if place is None:
            return False
    return False


def _reference(shown: Sequence[Submission], method: str) -> Submission | None:
    # One of them, or the reference would move with every further one: the best checked, then the one with most records.
    known = [one for one in shown if entries.is_reference(one, method)]
    known.sort(key=lambda one: (-one.level, -len(one.records), one.slug))
    return known[0] if known else None


def _ordered(found: Sequence[Entry]) -> list[Entry]:
    def key(one: Entry) -> tuple:
        # Equal scores may come from unlike sums, whose last bits differ: those must not decide.
        first, second = (-1.0 if value is None else round(value, 12) for value in (one.score, one.accuracy))
        return (-first, -second, one.submission.slug)

    return sorted(found, key=key)


def _with_ranks(ordered: list[Entry]) -> tuple[tuple[Entry, ...], int]:
    """Each entry with the ranks that it may have, and the number of tests.

    Every pair is tested by Welch's test, all tests of the track together by Holm's procedure at 5 %. An entry may have any
    rank from 1 + the number of entries that are better for certain to the number of all - those that are worse for certain.
    Reference: Mogstad, Romano, Shaikh & Wilhelm, "Inference for Ranks" (Review of Economic Studies, 2024).
    """
    pairs = [(first, second) for first in range(len(ordered)) for second in range(first + 1, len(ordered))]
    tested = [
        (pair, p) for pair in pairs if (p := significance.welch(*(ordered[one].scores for one in pair))) is not None
    ]
    apart = {pair for (pair, _), sure in zip(tested, significance.holm([p for _, p in tested]), strict=True) if sure}
    found = []
    for place, one in enumerate(ordered):
        better = sum((other, place) in apart for other in range(place))
        worse = sum((place, other) in apart for other in range(place + 1, len(ordered)))
        alike = tuple(
            other.submission.slug
            for position, other in enumerate(ordered)
            if position != place and (min(place, position), max(place, position)) not in apart
        )
        found.append(replace(one, ranks=(1 + better, len(ordered) - worse), alike=alike))
    return tuple(found), len(tested)
