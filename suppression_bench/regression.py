"""`bench check`, tier B: which numbers of a baseline have moved, judged in two stages on seeds that it has not seen."""

from dataclasses import dataclass, replace

from suppression_bench.evaluation.comparison import CONFIRM, FIRST, SECOND, SUSPECT, Comparison, compare, tolerance
from suppression_bench.results import observed as places
from suppression_bench.results.baseline import Baseline
from suppression_bench.results.observed import Observed, Place, Seen
from suppression_bench.results.significance import holm

OK, LOWER, HIGHER, UNDECIDED = "ok", "lower", "higher", "undecided"


@dataclass(frozen=True)
class Verdict:
    """What the check says of one place.

    verdict: ok, lower (a regression), higher (for the better or not, the baseline is outdated), undecided (more seeds).
    first, second: the stages that could be run, else None.
    used: the fresh seeds behind them.
    wanted: how many more seeds it needs.
    """

    place: Place
    baseline: Seen
    verdict: str
    first: Comparison | None = None
    second: Comparison | None = None
    used: tuple[int, ...] = ()
    wanted: int = 0

    @property
    def deciding(self) -> Comparison | None:
        """The comparison of the last stage that was run."""
        return self.second or self.first

    @property
    def seeds_wanted(self) -> list[int]:
        """The seeds to run, above all that are known."""
        start = max([*self.baseline.correct, *self.used]) + 1
        return list(range(start, start + self.wanted))


@dataclass(frozen=True)
class Report:
    """All verdicts, all faults (any of them forbids a pass), and how many suspects shared the second stage's level."""

    verdicts: list[Verdict]
    faults: list[str]
    suspects: int = 0

    @property
    def exit_code(self) -> int:
        """0 ok, 1 a number has moved, 2 bad data, 3 more seeds are needed."""
        found = {verdict.verdict for verdict in self.verdicts}
        if self.faults or not found:
            return 2
        return 1 if found & {LOWER, HIGHER} else 3 if UNDECIDED in found else 0

    def wanted(self) -> int:
        """How many more seeds would decide every place."""
        return max((verdict.wanted for verdict in self.verdicts), default=0)


def judge(baseline: Baseline, observed: Observed) -> Report:
    """The verdict on every place of a baseline.

    Stage 1: the first three fresh seeds of every place, p < .05 makes a suspect. Stage 2: the other fresh seeds (at least
    seven) of the suspects alone, Holm's correction at .01 over them. A place fails where both stages point the same way
    and the second one's difference is at least .02 and half the baseline's SD.

    Arguments:
        baseline: of `results.baseline`.
        observed: the fresh seeds; seeds that the baseline has are left out, they are no new evidence.
    """
    faults = list(observed.faults) + _faults(baseline, observed)
    verdicts = [
        _first_stage(place, seen, observed.places[place])
        for place, seen in baseline.places.items()
        if place in observed.places and _same_data(seen, observed.places[place])
    ]
    suspects = [at for at, verdict in enumerate(verdicts) if _is_suspect(verdict)]
    second = {at: _second_stage(verdicts[at], observed.places[verdicts[at].place]) for at in suspects}
    # A suspect without its second stage counts too: its p could still be small.
    confirmed = holm([second[at].p if second[at] else 1.0 for at in suspects], CONFIRM)
    for at, sure in zip(suspects, confirmed, strict=True):
        verdicts[at] = _final(verdicts[at], second[at], observed.places[verdicts[at].place], sure)
    return Report(verdicts, list(dict.fromkeys(faults)), len(suspects))


def _faults(baseline: Baseline, observed: Observed) -> list[str]:
    faults, sources = [], set()
    for place, seen in baseline.places.items():
        name = places.describe(place, seen.names)
        found = observed.places.get(place)
        if found is None:
            faults.append(f"{name}: missing, the baseline has it")
        elif found.digest != seen.digest:
            faults.append(f"{name}: other data, digest {found.digest[:12]} where the baseline has {seen.digest[:12]}")
        elif found.n != seen.n:
            faults.append(f"{name}: {found.n} test decisions where the baseline has {seen.n}")
        if found is not None:
            sources |= {found.sources[seed] for seed in _fresh(seen, found) if seed in found.sources}
    for place, found in observed.places.items():
        if place not in baseline.places:
            faults.append(f"{places.describe(place, found.names)}: extra, the baseline does not have it")
    if len(sources) > 1:
        faults.append(
            f"the fresh seeds were run by {len(sources)} different versions of the program: check one at a time"
        )
    return faults


def _same_data(seen: Seen, found: Seen) -> bool:
    return found.digest == seen.digest and found.n == seen.n


def _fresh(seen: Seen, found: Seen) -> list[int]:
    return sorted(found.correct.keys() - seen.correct.keys())


def _compare(seen: Seen, found: Seen, seeds: list[int]) -> Comparison:
    return compare(seen.shares(sorted(seen.correct)), found.shares(seeds), seen.n)


def _first_stage(place: Place, seen: Seen, found: Seen) -> Verdict:
    seeds = _fresh(seen, found)[:FIRST]
    if len(seeds) < FIRST:
        return Verdict(place, seen, UNDECIDED, used=tuple(seeds), wanted=FIRST - len(seeds))
    return Verdict(place, seen, OK, _compare(seen, found, seeds), used=tuple(seeds))


def _is_suspect(verdict: Verdict) -> bool:
    return verdict.first is not None and verdict.first.p < SUSPECT


def _second_stage(verdict: Verdict, found: Seen) -> Comparison | None:
    # Draws of its own: the first stage's were picked for being far off.
    seeds = _fresh(verdict.baseline, found)[FIRST:]
    return _compare(verdict.baseline, found, seeds) if len(seeds) >= SECOND else None


def _final(verdict: Verdict, second: Comparison | None, found: Seen, confirmed: bool) -> Verdict:
    fresh = _fresh(verdict.baseline, found)
    if second is None:
        return replace(verdict, verdict=UNDECIDED, used=tuple(fresh), wanted=FIRST + SECOND - len(fresh))
    same_way = verdict.first.difference * second.difference > 0
    large = abs(second.difference) >= tolerance(verdict.baseline.shares(sorted(verdict.baseline.correct)))
    moved = confirmed and same_way and large
    outcome = (LOWER if second.difference < 0 else HIGHER) if moved else OK
    return replace(verdict, verdict=outcome, second=second, used=tuple(fresh))
