"""Has a number moved? bench check RUNS|SUITE --baseline FILE (--tier a: small cells, bit for bit)."""

import os
from pathlib import Path

from generators.dataset import UserError
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
    # Read when torch is loaded, here or in a worker: threads that spin while they wait cost a busy machine dearly.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from suppression_bench.regression import exact

    if flags.record:
        print(exact.record(_suite_cells(flags), Path(flags.out)) if flags.tier == "a" else _record(flags))
        return 0
    rendered = exact.check(_suite_cells(flags), Path(flags.baseline)) if flags.tier == "a" else _check(flags)
    return _hand_out(flags, rendered)


def _suite_cells(flags):
    from suppression_bench.config import Request
    from suppression_bench.regression.check import SuiteCells

    sources = {f"data.{name}": getattr(flags, name) for name in SOURCES if getattr(flags, name)}
    device, threads = ("cpu", 1) if flags.tier == "a" else (flags.device or "auto", flags.threads)
    return SuiteCells(flags.what[0], Request(sources, tier=flags.suite_tier), device, flags.workers, threads)


def _runs(flags, purpose: str) -> Path:
    from suppression_bench.config import suite_folder
    from suppression_bench.regression.check import sources

    # Cells of another version of the program never lie in the same folder.
    return Path(flags.runs or f"runs/{purpose}-{suite_folder(flags.what[0], flags.suite_tier)}-{sources()[:8]}")


def _record(flags) -> str:
    from suppression_bench.regression import baseline

    if flags.folders:
        measurements = baseline.read_runs(flags.folders)
    else:
        first = flags.first_seed or 0
        finished = _suite_cells(flags).run(range(first, first + (flags.seeds or SEEDS)), _runs(flags, "baseline"))
        measurements = baseline.measure(record for record, _ in finished)
    recorded = baseline.make(measurements)
    baseline.write(recorded, Path(flags.out))
    return f"written: {flags.out}, {len(recorded.numbers)} numbers, {baseline.seeds_text(recorded.seeds())}"


def _check(flags):
    from suppression_bench.regression import baseline, check

    expected = baseline.read(Path(flags.baseline))
    if flags.folders:
        measurements = baseline.read_runs(flags.folders)
    else:
        check.fresh_seeds(expected, flags.first_seed)  # refused before any work
        measurements = check.run_stages(_suite_cells(flags), expected, flags.first_seed, _runs(flags, "check"))
    note = check.changes_note(flags.baseline, expected.environment, measurements.environment)
    return check.render(check.judge(expected, measurements), note)


def _hand_out(flags, rendered) -> int:
    from suppression_bench.regression.check import junit

    print(rendered.markdown)
    # In UTF-8 whatever the machine's own is, as the XML says; a name may hold half a character, as JSON can.
    if flags.junit:
        Path(flags.junit).write_text(junit(rendered.lines), encoding="utf-8")
    if flags.summary:
        with open(flags.summary, "a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(rendered.summary)
    if rendered.faults:
        raise UserError("\n".join(rendered.faults))
    return rendered.exit_code
