"""Train and probe: bench run SUITE, or one cell with bench run --data DIR --method NAME."""

import itertools
import os
import shlex
import sys
import time
from pathlib import Path

from generators import executor
from generators.dataset import UserError
from suppression_bench import budget
from suppression_bench.commands._parser import Parser, set_data_root
from suppression_bench.commands.shared import Bar, pairs

TRACED = 12  # steps of --trace


def _parser() -> Parser:
    parser = Parser("run", "Run a suite (its data is generated where missing), or one method on a generated folder.")
    parser.add_argument("suite", type=str, nargs="?", default=None, help="name or .yaml file of a suite")
    parser.add_argument(
        "--data", type=str, default=None, help="a folder that `bench generate` wrote, in place of a suite"
    )
    parser.add_argument("--method", type=str, default=None, help="with --data: a method's name or .py file")
    parser.add_argument("--recipe", type=str, default=None, help="with --data: a recipe (default: the dataset's own)")
    parser.add_argument("--tier", type=str, default=None, help="of a suite that has several: quick, small or paper")
    parser.add_argument("--set", type=str, nargs="+", action="append", default=None, metavar="KEY=VALUE",
                        help="settings, dotted (train.epochs=5) or short (epochs=5)")  # fmt: skip
    parser.add_argument("--only", type=str, nargs="+", action="append", default=None, metavar="KEY=VALUES",
                        help="keep the cells that have one of the values: temperature=0.1 bits=0,5 method=simclr")  # fmt: skip
    parser.add_argument(
        "--seeds", type=int, default=None, help="number of seeds, for cells that name none of their own"
    )
    parser.add_argument(
        "--trace", action="store_true", help=f"probe at {TRACED} log-spaced training steps too (probe.trace={TRACED})"
    )
    parser.add_argument("--out", type=str, default=None, help="the run's folder (default: runs/SUITE)")
    parser.add_argument(
        "--digit-source", type=str, default=None, help="optdigits, mnist or mnist:DIR, in place of the suite's"
    )
    parser.add_argument(
        "--image-source", type=str, default=None, help="leaves, cifar10:DIR or folder:DIR, in place of the suite's"
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done: cells, data, time")
    parser.add_argument(
        "--budget", type=str, default=None, metavar="TIME",
        help="start only cells that will be done in this time, as in 90s, 30m, 2h; the same command goes on",
    )  # fmt: skip
    parser.add_argument(
        "--data-root", type=str, default=None, help="where data is kept (default: $SUPPRESSION_BENCH_CACHE)"
    )
    parser.add_argument("--device", type=str, default="auto", choices=["auto", "cpu", "cuda"], help="where to train")
    parser.add_argument(
        "--workers", type=int, default=None, help="cells at once (default: one per core, or 1 on a GPU)"
    )
    parser.add_argument("--threads", type=int, default=None, help="torch threads per worker (default: cores / workers)")
    return parser


def run(arguments: list[str]) -> int:
    """Run cells, write records, tables and figures; 1 if a cell failed or diverged."""
    flags = _parser().read(arguments)
    if flags.suite is not None and flags.data is not None:
        raise UserError(
            f"bench run: {flags.suite!r} is read as a suite, and --data names a folder: give one of them "
            "(several settings go behind one --set: --set epochs=1 precision=bf16)"
        )
    if flags.suite is None and flags.data is None:
        raise UserError(
            "bench run: give a suite (bench run quick) or a data folder (bench run --data DIR --method NAME)"
        )
    for name in ("seeds", "workers", "threads"):
        if getattr(flags, name) is not None and getattr(flags, name) < 1:
            raise UserError(f"bench run: --{name} must be at least 1, got {getattr(flags, name)}")
    began, most = time.monotonic(), None if flags.budget is None else budget.seconds(flags.budget)
    set_data_root(flags.data_root)
    # Read when torch is loaded, here or in a worker: threads that spin while they wait cost a busy machine dearly.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from suppression_bench import cell, estimate, outlook, suite

    device = cell.device_of(flags.device)
    found = _cells(flags)
    workers = min(flags.workers or (1 if device.type == "cuda" else executor.cores()), len(found))
    threads = flags.threads or max(1, executor.cores() // workers)
    name = suite.folder_name(flags.suite, flags.tier) if flags.suite else Path(flags.method).stem
    out = Path(flags.out or f"runs/{name}")
    _require_folder(out)
    estimator = estimate.Estimator(out, device, threads)
    print(f"{len(found)} cells on {device} ({workers} at once) into {out}", flush=True)
    if mixed := outlook.others(out, found):
        print(mixed)
    if flags.dry_run:
        bar = Bar("cells", len(found))
        try:
            said = outlook.describe(found, estimator, workers, most, bar.to)
        finally:
            bar.bar.close()
        print(said)
        return 0
    limit = None
    if most is not None:
        limit = budget.Budget(most, lambda one: estimator.of(one).seconds, began)
    records = _run(found, out, device, workers, threads, limit)
    _render(out)
    if limit and limit.left_out:
        print(_left_out(limit, found, records, flags.budget, shlex.join(["bench", "run", *arguments])))
    ended = [(c.label, r["run"]) for c, r in zip(found, records, strict=True) if r]
    bad = [(label, part) for label, part in ended if part["status"] != "ok"]
    for label, part in bad:
        print(f"bench: {label}: {part['status']} ({part['error']})", file=sys.stderr)
    return 1 if bad else 0


def _require_folder(out: Path) -> None:
    # Asked before a dry run says that all is well, and before an hour of generating.
    nearest = next(place for place in (out.absolute(), *out.absolute().parents) if place.exists())
    if not nearest.is_dir():
        raise UserError(f"bench run: --out {out}: {nearest} is a file, not a folder; choose another place")


def _left_out(limit: budget.Budget, found: list, records: list, most: str, command: str) -> str:
    lines = [
        f"not run: {left.label}" + (f" (about {budget.words(wanted)})" if wanted else "")
        for left, wanted in limit.left_out
    ]
    lines.append(f"{len(limit.left_out)} of {len(found)} cells did not fit into {most}; to go on: {command}")
    if not any(records):  # the same command would not get further
        gone = budget.words(limit.clock() - limit.began)
        lines[-1] = f"none of {len(found)} cells fits into {most}, of which preparation took {gone}: raise --budget"
    return "\n".join(lines)


def _run(found, out, device, workers, threads, limit) -> list[dict | None]:
    from suppression_bench import runner

    progress = {}
    bar = Bar("cells", len(found))

    def watch(position: int, done: int, steps: int) -> None:
        progress[position] = done / steps
        bar.to(round(sum(progress.values()), 2))

    try:
        runner.prepare(found, executor.cores(), bar.say)
        return runner.run_cells(
            found, out, device=device, workers=workers, threads=threads, watch=watch, say=bar.say,
            **({"admit": limit.admits} if limit else {}),
        )  # fmt: skip
    finally:
        bar.bar.close()


def _cells(flags) -> list:
    from generators import manifest
    from suppression_bench import spec, suite

    given = pairs(list(itertools.chain(*flags.set or [])), "--set")
    if flags.trace:
        given = {"probe.trace": TRACED, **given}  # a number that --set names wins
    only = pairs(list(itertools.chain(*flags.only or [])), "--only", split=True)
    if flags.suite:
        refused = [name for name in ("method", "recipe") if getattr(flags, name)]
        if refused:
            raise UserError(
                f"bench run: --{refused[0]} goes with --data DIR; a suite names its own (use --only method=NAME)"
            )
        for option in ("digit_source", "image_source"):
            if getattr(flags, option):
                given[f"data.{option}"] = getattr(flags, option)
        return suite.cells_of_suite(flags.suite, suite.Request(given, only, flags.seeds, flags.tier))
    if not flags.method:
        raise UserError("bench run --data DIR needs --method NAME (see bench list methods)")
    for name in ("only", "digit_source", "image_source", "tier"):
        if getattr(flags, name):
            raise UserError(f"bench run: --{name.replace('_', '-')} goes with a suite, not with --data DIR")
    recipe = flags.recipe or manifest.read(Path(flags.data))["recipe"]
    origin = spec.Origin("bench run", varied=tuple(given), folder=str(Path(flags.data).absolute()))
    made, faults = spec.make_cells(flags.method, recipe, [("--set", given)], list(range(flags.seeds or 1)), origin)
    if faults:
        raise UserError("\n".join(faults))
    return made


def _render(out: Path) -> None:
    from suppression_bench.results import drawings, tables
    from suppression_bench.results.frame import long_table

    frame = long_table([out])
    text = tables.render(frame, "markdown")
    (out / "table.md").write_text(text, encoding="utf-8")
    (out / "table.csv").write_text(tables.render(frame, "csv"), encoding="utf-8")
    tables.write_csv(frame, out / "long.csv")
    print("\n" + text)
    written = ["table.md", "table.csv", "long.csv"]
    for drawing in drawings.drawings([out]):
        for ending in ("png", "svg"):
            drawing.draw(out / f"{drawing.name}.{ending}")
            written.append(f"{drawing.name}.{ending}")
    print(f"written: {out}/{', '.join(written)}")
