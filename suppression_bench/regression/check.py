"""`bench check`, tier b: which numbers of a baseline have moved, judged in two stages on seeds that it has not seen."""

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, stdev
from xml.etree import ElementTree

import msgspec

from generators import executor
from generators.dataset import UserError
from generators.describe import table
from suppression_bench import suite as suites
from suppression_bench.cell import settings_key
from suppression_bench.regression.baseline import (
    Baseline,
    Measured,
    Measurements,
    Number,
    describe,
    measure,
    seeds_text,
)
from suppression_bench.regression.statistics import (
    CONFIRM,
    FIRST,
    POWER,
    SECOND,
    SUSPECT,
    Comparison,
    compare,
    smallest_change,
    tolerance,
)
from suppression_bench.results import provenance
from suppression_bench.results.record import Record
from suppression_bench.results.significance import holm
from suppression_bench.run import Prepared, device_of, prepare, run_cells

OK, LOWER, HIGHER, UNDECIDED = "ok", "lower", "higher", "undecided"


# ---- verdicts ----


@dataclass(frozen=True)
class Verdict:
    """What the check says of one number.

    baseline: its values there.
    outcome: ok, lower (a regression), higher (for the better or not, the baseline is outdated), undecided (more seeds).
    first, second: the stages that could be run, else None.
    seeds: the fresh ones behind them.
    missing: how many more seeds it needs.
    """

    number: Number
    baseline: Measured
    outcome: str
    first: Comparison | None = None
    second: Comparison | None = None
    seeds: tuple[int, ...] = ()
    missing: int = 0

    @property
    def deciding(self) -> Comparison | None:
        """The comparison of the last stage that was run."""
        return self.second or self.first

    @property
    def missing_seeds(self) -> list[int]:
        """The seeds to run, above all that have been."""
        start = max([*self.baseline.correct, *self.seeds]) + 1
        return list(range(start, start + self.missing))

    @property
    def name(self) -> str:
        """The number's name, the same in every report."""
        return f"{self.baseline.names.dataset}: {describe(self.number, self.baseline.names)}"


@dataclass(frozen=True)
class Report:
    """All verdicts, all faults (any of them forbids a pass), and how many suspects shared the second stage's level."""

    verdicts: list[Verdict]
    faults: list[str]
    suspects: int = 0

    @property
    def exit_code(self) -> int:
        """0 ok, 1 a number has moved, 2 bad data, 3 more seeds are needed."""
        outcomes = {verdict.outcome for verdict in self.verdicts}
        if self.faults or not outcomes:
            return 2
        return 1 if outcomes & {LOWER, HIGHER} else 3 if UNDECIDED in outcomes else 0

    @property
    def missing(self) -> int:
        """How many more seeds would decide every number."""
        return max((verdict.missing for verdict in self.verdicts), default=0)


def judge(baseline: Baseline, fresh: Measurements) -> Report:
    """The verdict on every number of a baseline.

    Stage 1: the first three fresh seeds of every number, p < .05 makes a suspect. Stage 2: the other fresh seeds (at
    least seven) of the suspects alone, Holm's correction at .01 over them. A number fails where both stages point the
    same way and the second one's difference is at least .02 and half the baseline's SD.

    Arguments:
        baseline: what to compare with.
        fresh: seeds that the baseline has are left out, they are no new evidence.
    """
    verdicts = [
        _first_stage(number, before, after)
        for number, before in baseline.numbers.items()
        if (after := fresh.numbers.get(number)) and _same_data(before, after)
    ]
    suspects = [at for at, verdict in enumerate(verdicts) if verdict.first and verdict.first.p < SUSPECT]
    second = {at: _second_stage(verdicts[at].baseline, fresh.numbers[verdicts[at].number]) for at in suspects}
    # A suspect without its second stage counts too: its p could still be small.
    confirmed = holm([comparison.p if comparison else 1.0 for comparison in second.values()], CONFIRM)
    for (at, comparison), sure in zip(second.items(), confirmed, strict=True):
        seeds = _fresh_seeds(verdicts[at].baseline, fresh.numbers[verdicts[at].number])
        verdicts[at] = _final(replace(verdicts[at], second=comparison, seeds=tuple(seeds)), sure)
    faults = [*fresh.faults, *_faults(baseline, fresh)]
    return Report(verdicts, list(dict.fromkeys(faults)), len(suspects))


def _faults(baseline: Baseline, fresh: Measurements) -> list[str]:
    faults, sources = [], set()
    for number, before in baseline.numbers.items():
        title, after = describe(number, before.names), fresh.numbers.get(number)
        if after is None:
            faults.append(f"{title}: missing, the baseline has it")
            continue
        if after.digest != before.digest:
            faults.append(
                f"{title}: other data, digest {after.digest[:12]} where the baseline has {before.digest[:12]}"
            )
        elif after.n != before.n:
            faults.append(f"{title}: {after.n} test decisions where the baseline has {before.n}")
        sources |= {after.sources[seed] for seed in _fresh_seeds(before, after) if seed in after.sources}
    for number, after in fresh.numbers.items():
        if number not in baseline.numbers:
            faults.append(f"{describe(number, after.names)}: extra, the baseline does not have it")
    if len(sources) > 1:
        faults.append(
            f"the fresh seeds were run by {len(sources)} different versions of the program: check one at a time"
        )
    return faults


def _same_data(before: Measured, after: Measured) -> bool:
    return after.digest == before.digest and after.n == before.n


def _fresh_seeds(before: Measured, after: Measured) -> list[int]:
    return sorted(after.correct.keys() - before.correct.keys())


def _first_stage(number: Number, before: Measured, after: Measured) -> Verdict:
    seeds = _fresh_seeds(before, after)[:FIRST]
    if len(seeds) < FIRST:
        return Verdict(number, before, UNDECIDED, seeds=tuple(seeds), missing=FIRST - len(seeds))
    comparison = compare(before.shares(), after.shares(seeds), before.n)
    return Verdict(number, before, OK, comparison, seeds=tuple(seeds))


def _second_stage(before: Measured, after: Measured) -> Comparison | None:
    # Draws of its own: the first stage's were picked for being far off.
    seeds = _fresh_seeds(before, after)[FIRST:]
    return compare(before.shares(), after.shares(seeds), before.n) if len(seeds) >= SECOND else None


def _final(suspect: Verdict, confirmed: bool) -> Verdict:
    first, second = suspect.first, suspect.second
    if first is None or second is None:
        return replace(suspect, outcome=UNDECIDED, missing=FIRST + SECOND - len(suspect.seeds))
    same_way = first.difference * second.difference > 0
    large = abs(second.difference) >= tolerance(suspect.baseline.shares())
    moved = confirmed and same_way and large
    return replace(suspect, outcome=(LOWER if second.difference < 0 else HIGHER) if moved else OK)


# ---- the report ----

HEAD = ["cell", "feature", "probe", "seeds", "baseline", "now", "difference", "95 %", "p", "smallest change", "verdict"]
WORDS = {OK: "ok", LOWER: "**lower**", HIGHER: "**higher: baseline outdated**", UNDECIDED: "undecided"}
STATES = {OK: "ok", LOWER: "failed", HIGHER: "failed", UNDECIDED: "undecided"}
LEGEND = f"""\
- Percent; mean ± SD over seeds (ddof 1). seeds: of the baseline + fresh ones of the last stage that was run.
- Stage 1, three fresh seeds: pooled two-sided t-test (Fisher's test on the share of suppressed seeds where the baseline's form
  two groups, marked F), p < .05 makes a suspect. Stage 2, seven more for suspects: Holm at .01. Fails: both stages the same way,
  and a difference of at least 2 points and half an SD.
- smallest change: what both stages would have caught with power {POWER:g}; `none`: no change, this number is not guarded.
"""
ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd]")  # in XML


@dataclass(frozen=True)
class Line:
    """One checked thing for any report: its name, ok | failed | undecided | error, and a sentence."""

    name: str
    state: str
    text: str


@dataclass(frozen=True)
class Rendered:
    """What a check hands out: markdown, a summary of it, a line for everything that was checked, faults, exit code."""

    markdown: str
    summary: str
    lines: list[Line]
    faults: list[str]
    exit_code: int


def render(report: Report, note: str) -> Rendered:
    """The report: a row for every number, in the summary for those that are not in order.

    Arguments:
        report: of `judge`.
        note: where the numbers come from.
    """
    rows = [_row(verdict, report) for verdict in report.verdicts]
    moved = [row for row, verdict in zip(rows, report.verdicts, strict=True) if verdict.outcome != OK]
    head, faults, ending = headline(report), fault_list(report.faults), [_still_to_run(report), f"- {note}"]
    whole = [f"**{head}**\n", faults, *([table(HEAD, rows) + "\n", LEGEND] if rows else []), *ending]
    short = [f"### {head}\n", faults, *([table(HEAD, moved) + "\n"] if moved else []), *ending]
    lines = [Line(verdict.name, STATES[verdict.outcome], _sentence(verdict)) for verdict in report.verdicts]
    lines += [Line("data", "error", fault) for fault in report.faults]
    return Rendered(joined(whole), joined(short), lines, report.faults, report.exit_code)


def joined(parts: Sequence[str]) -> str:
    """The parts of a text that are not empty, each on lines of its own."""
    return "\n".join(filter(None, parts)) + "\n"


def headline(report: Report) -> str:
    """The verdict in one sentence."""
    count = {outcome: sum(verdict.outcome == outcome for verdict in report.verdicts) for outcome in WORDS}
    total = len(report.verdicts)
    if report.exit_code == 2:
        return f"bench check: no verdict, {max(len(report.faults), 1)} faults in the data"
    if report.exit_code == 1:
        return f"bench check: {count[LOWER]} of {total} numbers are lower, {count[HIGHER]} higher than the baseline"
    if report.exit_code == 3:
        return f"bench check: inconclusive, {count[UNDECIDED]} of {total} numbers need more seeds"
    return f"bench check: none of {total} numbers has moved"


def fault_list(faults: Sequence[str]) -> str:
    """Faults as a list in markdown."""
    return "".join(f"- error: {fault}\n" for fault in faults)


def _row(verdict: Verdict, report: Report) -> list[str]:
    number, values, comparison = verdict.number, verdict.baseline.shares(), verdict.deciding
    smallest = smallest_change(values, verdict.baseline.n, CONFIRM / max(report.suspects, 1))
    cells = [
        _title(verdict, report),
        number.feature,
        number.probe if number.layer == "encoder" else f"{number.probe} {number.layer}",
        f"{len(values)} + {comparison.count if comparison else len(verdict.seeds)}",
        _spread(fmean(values), stdev(values)),
        *(_comparison_cells(comparison) if comparison else [""] * 4),
        "none" if smallest is None else f"{100 * smallest:.1f}",
        WORDS[verdict.outcome],
    ]
    return [cell.replace("|", r"\|") for cell in cells]


def _title(verdict: Verdict, report: Report) -> str:
    # The dataset where there are several, and digits of the settings where the same name stands for several.
    number, names = verdict.number, verdict.baseline.names
    alike = [
        verdict
        for verdict in report.verdicts
        if verdict.baseline.names == names
        and msgspec.structs.replace(verdict.number, settings=number.settings) == number
    ]
    title = names.title + (f" #{number.settings[:6]}" if len(alike) > 1 else "")
    datasets = {verdict.baseline.names.dataset for verdict in report.verdicts}
    return f"{names.dataset}: {title}" if len(datasets) > 1 else title


def _comparison_cells(comparison: Comparison) -> list[str]:
    p = "<.0001" if comparison.p < 1e-4 else f"{comparison.p:.4f}".lstrip("0")
    return [
        _spread(comparison.mean, comparison.deviation),
        f"{100 * comparison.difference:+.1f}",
        f"{100 * comparison.low:+.1f} to {100 * comparison.high:+.1f}",
        p + (" F" if comparison.test == "fisher" else ""),
    ]


def _spread(mean: float, deviation: float) -> str:
    return f"{100 * mean:.1f} ± {100 * deviation:.1f}"


def _sentence(verdict: Verdict) -> str:
    comparison = verdict.deciding
    seeds = f"{verdict.missing} more seeds: {seeds_text(verdict.missing_seeds)}"
    if comparison is None:
        return f"needs {seeds}"
    text = (
        f"{100 * comparison.mean:.1f} % over {comparison.count} fresh seeds, {100 * comparison.difference:+.1f} points "
        f"against the baseline (95 % {100 * comparison.low:+.1f} to {100 * comparison.high:+.1f}, p = {comparison.p:.2g})"
    )
    if verdict.outcome == UNDECIDED:
        return f"{text}; a suspect, needs {seeds}"
    return text + ("; beyond the tolerance, the baseline is outdated" if verdict.outcome == HIGHER else "")


def _still_to_run(report: Report) -> str:
    titles: dict[tuple[int, ...], list[str]] = {}
    for verdict in report.verdicts:
        if verdict.missing:
            titles.setdefault(tuple(verdict.missing_seeds), []).append(verdict.baseline.names.title)
    return "\n".join(
        f"- Still to run, {seeds_text(seeds)}: {'; '.join(dict.fromkeys(group))}. "
        "`bench check SUITE --baseline FILE` runs what it needs by itself."
        for seeds, group in titles.items()
    )


def junit(lines: Sequence[Line], name: str = "bench check") -> str:
    """JUnit's XML: a test case for every line; undecided ones are skipped, errors are errors.

    >>> print(junit([Line("simclr, digit", "ok", "as before")]).splitlines()[1])
    <testsuite name="bench check" tests="1" failures="0" errors="0" skipped="0">
    """
    states = [line.state for line in lines]
    counts = {"failures": "failed", "errors": "error", "skipped": "undecided"}
    suite = ElementTree.Element("testsuite", name=name, tests=str(len(lines)))
    for key, state in counts.items():
        suite.set(key, str(states.count(state)))
    tags = {"failed": "failure", "error": "error", "undecided": "skipped"}
    for line in lines:
        case = ElementTree.SubElement(suite, "testcase", classname=name, name=ILLEGAL.sub("?", line.name))
        text = ILLEGAL.sub("?", line.text)
        if line.state in tags:
            ElementTree.SubElement(case, tags[line.state], message=text)
        else:
            ElementTree.SubElement(case, "system-out").text = text
    ElementTree.indent(suite)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(suite, encoding="unicode") + "\n"


def changes_note(path: str, before: dict[str, list[str]], now: dict[str, list[str]]) -> str:
    """With which file a check compares, and what of the machine has changed between them."""
    changed = [
        f"{key} {', '.join(values)} -> {', '.join(now[key])}"
        for key, values in before.items()
        if key in now and now[key] != values
    ]
    return f"Against {path}" + (f"; between them changed: {'; '.join(changed)}" if changed else "") + "."


# ---- a suite's cells, run for the check ----


class SuiteCells:
    """The settings of a suite, prepared once (their data exist), run under any seeds.

    Arguments:
        suite: name or .yaml file.
        request: settings over the suite's, and its tier.
        device: auto, cpu or cuda.
        workers: cells at once, or None for one per core (one on a GPU).
        threads: of torch in each worker, or None for the cores shared out.

    Raises:
        UserError: every fault of the suite at once.
    """

    def __init__(
        self,
        suite: str,
        request: suites.Request,
        device: str = "auto",
        workers: int | None = None,
        threads: int | None = None,
    ):
        self.device = device_of(device)
        self.workers = workers or (1 if self.device.type == "cuda" else executor.cores())
        self.threads = threads
        prepared = prepare(suites.settings_of(suites.cells_of_suite(suite, request)), executor.cores(), say)
        self.cells = {settings_key(cell.cell, code=False): cell for cell in prepared}
        self.suite = prepared[0].cell.suite

    def seeds(self) -> list[int]:
        """The seed of each setting in the suite's own file: the first it names."""
        return sorted({prepared.cell.seed for prepared in self.cells.values()})

    def run(self, seeds: Sequence[int], out: Path, only: set[str] | None = None) -> list[tuple[Record, Path]]:
        """Records and cell folders of all settings (or those of `only`) under these seeds.

        Raises:
            UserError: a record in `out` that another version of the program wrote.
        """
        chosen = [prepared for key, prepared in self.cells.items() if only is None or key in only]
        cells = [_with_seed(prepared, seed) for prepared in chosen for seed in seeds]
        workers = min(self.workers, len(cells))
        threads = self.threads or max(1, executor.cores() // workers)
        say(f"{len(cells)} cells on {self.device} ({workers} at once) into {out}")
        answers = run_cells(
            cells, out, device=self.device, workers=workers, threads=threads, watch=lambda *_: None, say=say
        )
        finished = [record for record in answers if record]  # all: no budget leaves one out
        if old := [record.spec.label for record in finished if record.code.sources != sources()]:
            raise UserError(
                f"{out}: {len(old)} of its cells were run by another version of the program ({old[0]}, ...): they say "
                "nothing of this one; name another folder with --runs"
            )
        return [(record, out / "cells" / record.spec.folder_name) for record in finished]


def _with_seed(prepared: Prepared, seed: int) -> Prepared:
    cell = msgspec.structs.replace(prepared.cell, seed=seed)
    return replace(prepared, located=replace(prepared.located, cell=cell))


def run_stages(cells: SuiteCells, baseline: Baseline, first_seed: int | None, out: Path) -> Measurements:
    """Three fresh seeds of everything, seven more of the settings that have a suspect.

    Arguments:
        cells: of the suite.
        baseline: what they will be compared with.
        first_seed: of the fresh ones, or None for the next after the baseline's.
        out: the folder of the runs.

    Raises:
        UserError: fresh seeds that the baseline has.
    """
    first, second = fresh_seeds(baseline, first_seed)
    finished = cells.run(first, out)
    measurements = measure(record for record, _ in finished)
    report = judge(baseline, measurements)
    suspects = {verdict.number.settings for verdict in report.verdicts if verdict.missing}
    if report.faults or not suspects:
        return measurements
    say(f"{len(suspects)} settings have a suspect: stage 2, {seeds_text(second)}")
    finished += cells.run(second, out, suspects)
    return measure(record for record, _ in finished)


def fresh_seeds(baseline: Baseline, first_seed: int | None) -> tuple[range, range]:
    """The seeds of both stages.

    Raises:
        UserError: the baseline has some of them.
    """
    after = max(baseline.seeds()) + 1
    start = after if first_seed is None else first_seed
    first, second = range(start, start + FIRST), range(start + FIRST, start + FIRST + SECOND)
    if old := baseline.seeds() & {*first, *second}:
        raise UserError(
            f"bench check: --first-seed {start}: {seeds_text(old)} are in the baseline, fresh ones are needed; take "
            f"{after} or more"
        )
    return first, second


def sources() -> str:
    """Digest of the program's sources, which a record keeps too."""
    return provenance.code("untrained")["sources"]


def say(line: str) -> None:
    """Progress goes beside the report, not into it."""
    print(line, file=sys.stderr, flush=True)
