"""`bench check`: has a number moved since a baseline was recorded?"""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from generators.dataset import UserError
from suppression_bench.commands.shared import AT_LEAST_ONE, Machine, Sources, at_least, changed, refuse

if TYPE_CHECKING:  # they load torch
    from suppression_bench.regression.check import Rendered, SuiteCells

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
    # Read when torch is loaded, here or in a worker: threads that spin while they wait cost a busy machine dearly.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from suppression_bench.regression import exact

    suite = Suite(targets[0], fresh, sources, machine)
    if record:
        if out is None:
            raise UserError("bench check: --record needs --out FILE")
        print(exact.record(suite.cells(), out) if tier == "a" else _record(folders, suite, out))
        return 0
    if baseline is None:
        raise UserError("bench check: --baseline FILE is missing (--record --out FILE makes one)")
    rendered = exact.check(suite.cells(), baseline) if tier == "a" else _compare(folders, suite, baseline)
    return _hand_out(rendered, junit, summary)


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

    def cells(self) -> "SuiteCells":
        from suppression_bench.regression.check import SuiteCells
        from suppression_bench.suite import Request

        settings = {f"data.{option}": source for option, source in self.sources.named().items()}
        request = Request(settings, tier=self.fresh.suite_tier)
        return SuiteCells(self.name, request, self.machine.device, self.machine.workers, self.machine.threads)

    def folder(self, purpose: str) -> Path:
        from suppression_bench.regression.check import sources
        from suppression_bench.suite import suite_folder

        # Cells of another version of the program never lie in the same folder.
        name = f"{purpose}-{suite_folder(self.name, self.fresh.suite_tier)}-{sources()[:8]}"
        return self.fresh.runs or Path("runs", name)


def _record(folders: list[Path], suite: Suite, out: Path) -> str:
    from suppression_bench.regression import baseline

    if folders:
        measurements = baseline.read_runs(folders)
    else:
        first = suite.fresh.first_seed or 0
        seeds = range(first, first + (suite.fresh.seeds or SEEDS))
        finished = suite.cells().run(seeds, suite.folder("baseline"))
        measurements = baseline.measure(record for record, _ in finished)
    recorded = baseline.make(measurements)
    baseline.write(recorded, out)
    return f"written: {out}, {len(recorded.numbers)} numbers, {baseline.seeds_text(recorded.seeds())}"


def _compare(folders: list[Path], suite: Suite, file: Path) -> "Rendered":
    from suppression_bench.regression import baseline
    from suppression_bench.regression import check as checks

    expected = baseline.read(file)
    if folders:
        measurements = baseline.read_runs(folders)
    else:
        first = suite.fresh.first_seed
        checks.fresh_seeds(expected, first)  # refused before any work
        measurements = checks.run_stages(suite.cells(), expected, first, suite.folder("check"))
    note = checks.changes_note(str(file), expected.environment, measurements.environment)
    return checks.render(checks.judge(expected, measurements), note)


def _hand_out(rendered: "Rendered", junit: Path | None, summary: Path | None) -> int:
    from suppression_bench.regression import check as checks

    print(rendered.markdown)
    # In UTF-8 on every machine, as the XML declares; a name may hold half a character, as JSON can.
    if junit:
        junit.write_text(checks.junit(rendered.lines), encoding="utf-8")
    if summary:
        with open(summary, "a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(rendered.summary)
    if rendered.faults:
        raise UserError("\n".join(rendered.faults))
    return rendered.exit_code
