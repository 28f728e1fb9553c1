"""`bench check`: has a number moved since a baseline was recorded?"""

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from generators.dataset import UserError
from suppression_bench.commands._check_cells import SuiteCells, say, version
from suppression_bench.commands.shared import AT_LEAST_ONE, Machine, Sources, at_least, changed, refuse

SEEDS = 10  # of a baseline


@Parameter(name="*")
@dataclass(frozen=True)
class Fresh:
    """How a suite is run for the check.

    Arguments:
        seeds: with --record SUITE: how many (default: 10).
        first_seed: of the fresh seeds of a suite (default: the next after the baseline's).
        runs: where a suite's cells are kept (default: runs/check-SUITE-VERSION).
        suite_tier: of a suite that has several: quick, small or paper.
    """

    seeds: Annotated[int | None, AT_LEAST_ONE] = None
    first_seed: Annotated[int | None, at_least(0)] = None
    runs: Path | None = None
    suite_tier: str | None = None


def check(
    targets: list[str],
    /,
    *,
    baseline: Path | None = None,
    tier: Literal["a", "b"] = "b",
    record: bool = False,
    out: Path | None = None,
    fresh: Fresh = Fresh(),
    junit: Path | None = None,
    summary: Path | None = None,
    sources: Sources = Sources(),
    machine: Machine = Machine(),
) -> int:
    """Compare the numbers of finished runs, or of a suite that is run for it under fresh seeds, with a baseline.

    Exit codes: 0 nothing has moved, 1 a number has, 2 bad data (a missing, extra, failed or diverged cell, other
    data), 3 more seeds are needed, 4 the machine.

    Arguments:
        targets: folders that `bench run` wrote, or one suite's name or .yaml file.
        baseline: the file to compare with.
        tier: b: every number over seeds; a: the cells of a small suite bit for bit, one thread, on a CPU.
        record: make the file from these runs or this suite, to --out.
        out: with --record: the file to write.
        junit: write the verdicts as JUnit XML to this file.
        summary: append a short verdict (markdown) to this file.
    """
    folders = _folders(targets)
    if record:
        refuse(
            "check",
            "goes with a check; --record only writes --out",
            baseline=baseline,
            junit=junit,
            summary=summary,
        )
        if fresh.seeds is not None and fresh.seeds < SEEDS:
            raise UserError(f"bench check: --seeds {fresh.seeds}: a baseline has at least {SEEDS}")
    else:
        refuse("check", "goes with --record", out=out, seeds=fresh.seeds)
    flags = {**changed(fresh), **changed(sources), **changed(machine)}
    if folders:
        refuse("check", f"goes with a suite; {targets[0]} is a folder of finished runs", **flags)
    if tier == "a":
        if folders:
            raise UserError(
                f"bench check: --tier a runs a suite itself (bench check tiny --tier a); {targets[0]} is a folder"
            )
        settled = {name: flags.get(name) for name in ("seeds", "first_seed", "runs", "device", "threads")}
        refuse("check", "is settled by --tier a: the suite's own seeds, on a CPU, one thread", **settled)
        machine = replace(machine, device="cpu", threads=1)
    sources.use()
    suite = Suite(targets[0], fresh, sources, machine)
    if record:
        if out is None:
            raise UserError("bench check: --record needs --out FILE")
        return _record_exact(suite, out) if tier == "a" else _record(folders, suite, out)
    if baseline is None:
        raise UserError("bench check: --baseline FILE is missing (--record --out FILE makes one)")
    reports = Reports(junit, summary)
    return _check_exact(suite, baseline, reports) if tier == "a" else _check(folders, suite, baseline, reports)


def _folders(targets: list[str]) -> list[Path]:
    # The run folders that are meant, or none where a suite is.
    folders = [Path(name) for name in targets if Path(name).is_dir()]
    if folders and len(folders) < len(targets):
        missing = next(name for name in targets if not Path(name).is_dir())
        raise UserError(f"{missing}: no such folder; name folders that `bench run` wrote, or one suite")
    if not folders and len(targets) > 1:
        raise UserError(f"bench check: {' '.join(targets)}: give one suite, or folders that `bench run` wrote")
    return folders


@dataclass(frozen=True)
class Suite:
    """The suite that is checked, and the flags over it."""

    name: str
    fresh: Fresh
    sources: Sources
    machine: Machine

    def cells(self) -> SuiteCells:
        from suppression_bench.suite import Request

        settings = {f"data.{option}": source for option, source in self.sources.named().items()}
        request = Request(settings, tier=self.fresh.suite_tier)
        return SuiteCells(self.name, request, self.machine.device, self.machine.workers, self.machine.threads)

    def folder(self, purpose: str) -> Path:
        from suppression_bench.suite import folder_name

        return self.fresh.runs or Path("runs", f"{purpose}-{folder_name(self.name, self.fresh.suite_tier)}-{version()}")


@dataclass(frozen=True)
class Reports:
    """The files that a verdict is written to."""

    junit: Path | None
    summary: Path | None

    def write(self, text: str, summary: str, lines: list, faults: list[str]) -> None:
        from suppression_bench import check_report

        print(text)
        # In UTF-8 on every machine, as the XML declares; a name may hold half a character, as JSON can.
        if self.junit:
            self.junit.write_text(check_report.junit(lines), encoding="utf-8")
        if self.summary:
            with open(self.summary, "a", encoding="utf-8", errors="backslashreplace") as file:
                file.write(summary)
        if faults:
            raise UserError("\n".join(faults))


def _record(folders: list[Path], suite: Suite, out: Path) -> int:
    from suppression_bench.results import baseline, observed

    if folders:
        seen = observed.read(folders)
    else:
        first = suite.fresh.first_seed or 0
        seeds = range(first, first + (suite.fresh.seeds or SEEDS))
        seen = observed.observe(record for record, _ in suite.cells().run(seeds, suite.folder("baseline")))
    recorded = baseline.make(seen)
    baseline.write(recorded, out)
    print(f"written: {out}, {len(recorded.places)} numbers, {observed.seeds_text(recorded.seeds())}")
    return 0


def _check(folders: list[Path], suite: Suite, file: Path, reports: Reports) -> int:
    from suppression_bench import check_report, regression
    from suppression_bench.results import baseline as baselines
    from suppression_bench.results import observed

    baseline = baselines.read(file)
    seen = observed.read(folders) if folders else _run_stages(suite, baseline)
    report = regression.judge(baseline, seen)
    note = _note(file, baseline.environment, seen.environment)
    text, short = check_report.markdown(report, note), check_report.summary(report, note)
    reports.write(text, short, check_report.lines(report), report.faults)
    return report.exit_code


def _run_stages(suite: Suite, baseline):
    """Three fresh seeds of everything, seven more of the settings that have a suspect."""
    from suppression_bench import regression
    from suppression_bench.evaluation.comparison import FIRST, SECOND
    from suppression_bench.results.observed import observe, seeds_text

    first = suite.fresh.first_seed if suite.fresh.first_seed is not None else max(baseline.seeds()) + 1
    stage_1, stage_2 = range(first, first + FIRST), range(first + FIRST, first + FIRST + SECOND)
    if old := baseline.seeds() & {*stage_1, *stage_2}:
        raise UserError(
            f"bench check: --first-seed {first}: {seeds_text(old)} are in the baseline, fresh ones are needed; take "
            f"{max(baseline.seeds()) + 1} or more"
        )
    cells, out = suite.cells(), suite.folder("check")
    runs = cells.run(stage_1, out)
    seen = observe(record for record, _ in runs)
    report = regression.judge(baseline, seen)
    suspects = {verdict.place.settings for verdict in report.verdicts if verdict.wanted}
    if report.faults or not suspects:
        return seen
    say(f"{len(suspects)} settings have a suspect: stage 2, {seeds_text(stage_2)}")
    runs += cells.run(stage_2, out, suspects)
    return observe(record for record, _ in runs)


def _record_exact(suite: Suite, out: Path) -> int:
    from suppression_bench.results import exact

    before = exact.read(out) if out.exists() else {}
    cells = suite.cells()
    first, second = _outcomes(cells), _outcomes(cells)
    if differing := [cell.title for key, cell in first.items() if cell.results != second[key].results]:
        raise UserError(f"{differing[0]}: two runs on this machine differ in their bits; no reference is written")
    exact.write(exact.joined(before, first), cells.suite, out)
    machine = ", ".join(next(iter(first.values())).results[0].machine)
    print(f"written: {out}, {len(first)} cells, a reference of {machine}")
    return 0


def _check_exact(suite: Suite, file: Path, reports: Reports) -> int:
    from suppression_bench import check_report, repeatability
    from suppression_bench.results import exact

    references = exact.read(file)
    cells = suite.cells()
    outcomes = _outcomes(cells)
    faults = repeatability.faults(references, outcomes)
    again = _outcomes(cells) if not faults and repeatability.needs_repeat(references, outcomes) else None
    findings = [] if faults else repeatability.judge(references, outcomes, again)
    machine = ", ".join(next(iter(outcomes.values())).results[0].machine)
    text = check_report.exact_markdown(findings, faults, f"Against {file}; this machine: {machine}.")
    reports.write(text, text, check_report.exact_lines(findings, faults), faults)
    return 2 if faults or not findings else 1 if any(not finding.passed for finding in findings) else 0


def _outcomes(cells: SuiteCells) -> dict:
    from suppression_bench.results import exact
    from suppression_bench.trained import WEIGHTS

    # A folder of its own each time: a record that is already there would be no run.
    with tempfile.TemporaryDirectory() as folder:
        runs = cells.run(cells.own_seeds(), Path(folder))
        return dict(exact.outcome(record, cell / WEIGHTS) for record, cell in runs)


def _note(path: Path, old: dict, new: dict) -> str:
    changed = [
        f"{key} {', '.join(old[key])} -> {', '.join(new[key])}" for key in old if key in new and old[key] != new[key]
    ]
    return f"Against {path}" + (f"; between them changed: {'; '.join(changed)}" if changed else "") + "."
