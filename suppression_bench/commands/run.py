"""Train and probe: bench run SUITE, or one cell with bench run --data DIR --method NAME."""

import itertools
import os
import shlex
import sys
import time
from pathlib import Path

from generators import executor
from generators.dataset import UserError
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
    parser.add_argument("--measure", action="store_true", help="time the first steps of cells that no record is like")
    parser.add_argument("--records", type=str, nargs="+", default=None, metavar="DIR",
                        help="further run folders whose records say how long a cell takes")  # fmt: skip
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
    began = time.monotonic()
    set_data_root(flags.data_root)
    # Read when torch is loaded, here or in a worker: threads that spin while they wait cost a busy machine dearly.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from suppression_bench import config, forecast
    from suppression_bench.run import device_of

    limit = None if flags.budget is None else forecast.seconds_of(flags.budget)
    device, cells = device_of(flags.device), _cells(flags)
    workers = min(flags.workers or (1 if device.type == "cuda" else executor.cores()), len(cells))
    threads = flags.threads or max(1, executor.cores() // workers)
    name = config.suite_folder(flags.suite, flags.tier) if flags.suite else Path(flags.method).stem
    out = Path(flags.out or f"runs/{name}")
    _require_folder(out)
    measured = flags.measure or limit is not None
    outlook = forecast.Forecast(out, [Path(folder) for folder in flags.records or []], device, threads, measured)
    print(f"{len(cells)} cells on {device} ({workers} at once) into {out}", flush=True)
    if mixed := forecast.other_suites(out, cells):
        print(mixed)
    if flags.dry_run:
        print(forecast.describe(cells, outlook, workers, limit))
        return 0
    budget = None if limit is None else forecast.Budget(limit, lambda cell: outlook.of(cell).seconds, began)
    records = _run(cells, out, device, workers, threads, budget)
    _render(out)
    if budget and budget.skipped:
        print(budget.report(len(cells), flags.budget, shlex.join(["bench", "run", *arguments]), any(records)))
    bad = [(cell.label, record.run) for cell, record in zip(cells, records, strict=True) if record and not record.is_ok]
    for label, ended in bad:
        print(f"bench: {label}: {ended.status} ({ended.error})", file=sys.stderr)
    return 1 if bad else 0


def _require_folder(out: Path) -> None:
    # Asked before a dry run says that all is well, and before an hour of generating.
    nearest = next(path for path in (out.absolute(), *out.absolute().parents) if path.exists())
    if not nearest.is_dir():
        raise UserError(f"bench run: --out {out}: {nearest} is a file, not a folder; choose another place")


def _run(cells, out, device, workers, threads, budget) -> list:
    from suppression_bench.run import prepare, run_cells

    progress = {}
    bar = Bar(len(cells), "cells")

    def watch(position: int, done: int, steps: int) -> None:
        progress[position] = done / steps
        bar.to(round(sum(progress.values()), 2))

    try:
        return run_cells(
            prepare(cells, executor.cores(), bar.say),
            out,
            device=device,
            workers=workers,
            threads=threads,
            watch=watch,
            say=bar.say,
            **({"admit": budget.admits} if budget else {}),
        )
    finally:
        bar.bar.close()


def _cells(flags) -> list:
    from suppression_bench import config

    settings = pairs(list(itertools.chain(*flags.set or [])), "--set")
    if flags.trace:
        settings = {"probe.trace": TRACED, **settings}  # a number that --set names wins
    only = pairs(list(itertools.chain(*flags.only or [])), "--only", split=True)
    if flags.suite:
        refused = [name for name in ("method", "recipe") if getattr(flags, name)]
        if refused:
            raise UserError(
                f"bench run: --{refused[0]} goes with --data DIR; a suite names its own (use --only method=NAME)"
            )
        for option in ("digit_source", "image_source"):
            if getattr(flags, option):
                settings[f"data.{option}"] = getattr(flags, option)
        return config.cells_of_suite(flags.suite, config.Request(settings, only, flags.seeds, flags.tier))
    if not flags.method:
        raise UserError("bench run --data DIR needs --method NAME (see bench list methods)")
    for name in ("only", "digit_source", "image_source", "tier"):
        if getattr(flags, name):
            raise UserError(f"bench run: --{name.replace('_', '-')} goes with a suite, not with --data DIR")
    return config.cells_of_folder(Path(flags.data), flags.method, flags.recipe, settings, flags.seeds or 1)


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
