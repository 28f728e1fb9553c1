"""Has a number moved? bench check RUNS|SUITE --baseline FILE (--tier a: small cells, bit for bit)."""

import tempfile
from pathlib import Path

from generators.dataset import UserError
from suppression_bench.commands._check_cells import SuiteCells, say, version
from suppression_bench.commands._parser import Parser, set_data_root

SEEDS = 10  # of a baseline
SOURCES = ("digit_source", "image_source")


def _flags(arguments: list[str]):
    parser = Parser(
        "check",
        "Compare the numbers of finished runs, or of a suite that is run for it under fresh seeds, with a baseline. Exit "
        "codes: 0 nothing has moved, 1 a number has, 2 bad data (a missing, extra, failed or diverged cell, other data), 3 more "
        "seeds are needed, 4 the machine.",
    )
    parser.add_argument(
        "what", type=str, nargs="+", help="folders that `bench run` wrote, or one suite's name or .yaml file"
    )
    parser.add_argument("--baseline", type=str, default=None, help="the file to compare with")
    parser.add_argument(
        "--tier", type=str, choices=["a", "b"], default="b",
        help="b: every number over seeds; a: the cells of a small suite bit for bit, one thread, on a CPU (default: b)",
    )  # fmt: skip
    parser.add_argument("--record", action="store_true", help="make the file from these runs or this suite, to --out")
    parser.add_argument("--out", type=str, default=None, help="with --record: the file to write")
    parser.add_argument("--seeds", type=int, default=None, help=f"with --record SUITE: how many (default: {SEEDS})")
    parser.add_argument(
        "--first-seed",
        type=int,
        default=None,
        help="of the fresh seeds of a suite (default: the next after the baseline's)",
    )
    parser.add_argument(
        "--runs", type=str, default=None, help="where a suite's cells are kept (default: runs/check-SUITE-VERSION)"
    )
    parser.add_argument("--junit", type=str, default=None, help="write the verdicts as JUnit XML to this file")
    parser.add_argument("--summary", type=str, default=None, help="append a short verdict (markdown) to this file")
    parser.add_argument(
        "--digit-source", type=str, default=None, help="optdigits, mnist or mnist:DIR, in place of the suite's"
    )
    parser.add_argument(
        "--image-source", type=str, default=None, help="leaves, cifar10:DIR or folder:DIR, in place of the suite's"
    )
    parser.add_argument(
        "--suite-tier", type=str, default=None, help="of a suite that has several: quick, small or paper"
    )
    parser.add_argument(
        "--data-root", type=str, default=None, help="where data is kept (default: $SUPPRESSION_BENCH_CACHE)"
    )
    parser.add_argument(
        "--device", type=str, choices=["auto", "cpu", "cuda"], default=None, help="where a suite trains (default: auto)"
    )
    parser.add_argument(
        "--workers", type=int, default=None, help="cells at once (default: one per core, or 1 on a GPU)"
    )
    parser.add_argument("--threads", type=int, default=None, help="torch threads per worker (default: cores / workers)")
    flags = parser.read(arguments)
    for name in ("seeds", "workers", "threads"):
        if getattr(flags, name) is not None:
            parser.require_positive(flags, name)
    if flags.first_seed is not None and flags.first_seed < 0:
        raise UserError(f"bench check: --first-seed must be at least 0, got {flags.first_seed}")
    flags.folders = _folders(flags.what)
    _require_sense(parser, flags)
    return flags


def _folders(what: list[str]) -> list[Path]:
    """The run folders that are meant, or none where a suite is."""
    there = [Path(name) for name in what if Path(name).is_dir()]
    if there and len(there) < len(what):
        lost = next(name for name in what if not Path(name).is_dir())
        raise UserError(f"{lost}: no such folder; name folders that `bench run` wrote, or one suite")
    if not there and len(what) > 1:
        raise UserError(f"bench check: {' '.join(what)}: give one suite, or folders that `bench run` wrote")
    return there


def _require_sense(parser: Parser, flags) -> None:
    if flags.record:
        parser.refuse(flags, ("baseline", "junit", "summary"), "goes with a check; --record only writes --out")
        if not flags.out:
            raise UserError("bench check: --record needs --out FILE")
    else:
        parser.refuse(flags, ("out", "seeds"), "goes with --record")
        if not flags.baseline:
            raise UserError("bench check: --baseline FILE is missing (--record --out FILE makes one)")
    if flags.folders:
        names = ("seeds", "first_seed", "runs", *SOURCES, "suite_tier", "data_root", "device", "workers", "threads")
        parser.refuse(flags, names, f"goes with a suite; {flags.what[0]} is a folder of finished runs")
    if flags.tier == "a":
        if flags.folders:
            raise UserError(
                f"bench check: --tier a runs a suite itself (bench check tiny --tier a); {flags.what[0]} is a folder"
            )
        names = ("seeds", "first_seed", "runs", "device", "threads")
        parser.refuse(flags, names, "is settled by --tier a: the suite's own seeds, on a CPU, one thread")
    if flags.record and flags.seeds is not None and flags.seeds < SEEDS:
        raise UserError(f"bench check: --seeds {flags.seeds}: a baseline has at least {SEEDS}")


def run(arguments: list[str]) -> int:
    """Compare, or record; 0 nothing has moved, 1 a number has, 2 bad data, 3 more seeds are needed."""
    flags = _flags(arguments)
    set_data_root(flags.data_root)
    if flags.tier == "a":
        return _record_exact(flags) if flags.record else _check_exact(flags)
    return _record(flags) if flags.record else _check(flags)


def _suite_cells(flags, device: str | None = None, threads: int | None = None) -> SuiteCells:
    from suppression_bench.suite import Request

    given = {f"data.{name}": getattr(flags, name) for name in SOURCES if getattr(flags, name)}
    request = Request(given, tier=flags.suite_tier)
    return SuiteCells(flags.what[0], request, device or flags.device or "auto", flags.workers, threads or flags.threads)


def _runs(flags, purpose: str) -> Path:
    from suppression_bench.suite import folder_name

    return Path(flags.runs or f"runs/{purpose}-{folder_name(flags.what[0], flags.suite_tier)}-{version()}")


def _record(flags) -> int:
    from suppression_bench.results import baseline, observed

    if flags.folders:
        seen = observed.read(flags.folders)
    else:
        first = flags.first_seed or 0
        cells = _suite_cells(flags)
        found = cells.run(range(first, first + (flags.seeds or SEEDS)), _runs(flags, "baseline"))
        seen = observed.observe(record for record, _ in found)
    made = baseline.make(seen)
    baseline.write(made, Path(flags.out))
    print(f"written: {flags.out}, {len(made.places)} numbers, {observed.seeds_text(made.seeds())}")
    return 0


def _check(flags) -> int:
    from suppression_bench import check_report, regression
    from suppression_bench.results import baseline as baselines
    from suppression_bench.results import observed

    baseline = baselines.read(Path(flags.baseline))
    if flags.folders:
        seen = observed.read(flags.folders)
    else:
        seen = _run_stages(flags, baseline)
    report = regression.judge(baseline, seen)
    note = _note(flags.baseline, baseline.environment, seen.environment)
    _hand_out(
        flags,
        check_report.markdown(report, note),
        check_report.summary(report, note),
        check_report.lines(report),
        report.faults,
    )
    return report.exit_code


def _run_stages(flags, baseline):
    """Three fresh seeds of everything, seven more of the settings that have a suspect."""
    from suppression_bench import regression
    from suppression_bench.evaluation.comparison import FIRST, SECOND
    from suppression_bench.results.observed import observe, seeds_text

    first = flags.first_seed if flags.first_seed is not None else max(baseline.seeds()) + 1
    one, two = range(first, first + FIRST), range(first + FIRST, first + FIRST + SECOND)
    if old := baseline.seeds() & {*one, *two}:
        raise UserError(
            f"bench check: --first-seed {first}: {seeds_text(old)} are in the baseline, fresh ones are needed; take "
            f"{max(baseline.seeds()) + 1} or more"
        )
    cells, out = _suite_cells(flags), _runs(flags, "check")
    found = cells.run(one, out)
    seen = observe(record for record, _ in found)
    report = regression.judge(baseline, seen)
    suspects = {verdict.place.settings for verdict in report.verdicts if verdict.wanted}
    if report.faults or not suspects:
        return seen
    say(f"{len(suspects)} settings have a suspect: stage 2, {seeds_text(two)}")
    found += cells.run(two, out, suspects)
    return observe(record for record, _ in found)


def _record_exact(flags) -> int:
    from suppression_bench.results import exact

    out = Path(flags.out)
    before = exact.read(out) if out.exists() else {}
    cells = _suite_cells(flags, "cpu", 1)
    first, second = _outcomes(cells), _outcomes(cells)
    if differing := [cell.title for key, cell in first.items() if cell.results != second[key].results]:
        raise UserError(f"{differing[0]}: two runs on this machine differ in their bits; no reference is written")
    exact.write(exact.joined(before, first), cells.suite, out)
    machine = ", ".join(next(iter(first.values())).results[0].machine)
    print(f"written: {out}, {len(first)} cells, a reference of {machine}")
    return 0


def _check_exact(flags) -> int:
    from suppression_bench import check_report, repeatability
    from suppression_bench.results import exact

    references = exact.read(Path(flags.baseline))
    cells = _suite_cells(flags, "cpu", 1)
    found = _outcomes(cells)
    faults = repeatability.faults(references, found)
    again = _outcomes(cells) if not faults and repeatability.needs_repeat(references, found) else None
    findings = [] if faults else repeatability.judge(references, found, again)
    machine = ", ".join(next(iter(found.values())).results[0].machine)
    text = check_report.exact_markdown(findings, faults, f"Against {flags.baseline}; this machine: {machine}.")
    _hand_out(flags, text, text, check_report.exact_lines(findings, faults), faults)
    return 2 if faults or not findings else 1 if any(not finding.passed for finding in findings) else 0


def _outcomes(cells: SuiteCells) -> dict:
    from suppression_bench.results import exact
    from suppression_bench.trained import WEIGHTS

    # A folder of its own each time: a record that is already there would be no run.
    with tempfile.TemporaryDirectory() as folder:
        found = cells.run(cells.own_seeds(), Path(folder))
        return dict(exact.outcome(record, place / WEIGHTS) for record, place in found)


def _note(path: str, old: dict, new: dict) -> str:
    changed = [
        f"{key} {', '.join(old[key])} -> {', '.join(new[key])}" for key in old if key in new and old[key] != new[key]
    ]
    return f"Against {path}" + (f"; between them changed: {'; '.join(changed)}" if changed else "") + "."


def _hand_out(flags, text: str, summary: str, lines: list, faults: list[str]) -> None:
    from suppression_bench import check_report

    print(text)
    # In UTF-8 whatever the machine's own is, as the XML says; a name may hold half a character, as JSON can.
    if flags.junit:
        Path(flags.junit).write_text(check_report.junit(lines), encoding="utf-8")
    if flags.summary:
        with open(flags.summary, "a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(summary)
    if faults:
        raise UserError("\n".join(faults))
