"""Commands that train: run and speed."""

import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from generators import executor
from generators.dataset import UserError
from suppression_bench.commands.shared import AT_LEAST_ONE, Bar, DataRoot, Machine, Sources, pairs, refuse

TRACED = 12  # steps of --trace


@Parameter(name="*")
@dataclass(frozen=True)
class Selection:
    """Which cells a run holds.

    Arguments:
        data: a folder that `bench generate` wrote, in place of a suite.
        method: with --data: a method's name or .py file.
        recipe: with --data: a recipe (default: the dataset's own).
        tier: of a suite that has several: quick, small or paper.
        settings: settings, dotted (train.epochs=5) or short (epochs=5).
        only: keep the cells that have one of the values: temperature=0.1 bits=0,5 method=simclr.
        seeds: number of seeds, for cells that name none of their own.
        trace: probe at 12 log-spaced training steps too (probe.trace=12).
    """

    data: Path | None = None
    method: str | None = None
    recipe: str | None = None
    tier: str | None = None
    settings: Annotated[tuple[str, ...], Parameter(name="--set", metavar="KEY=VALUE")] = ()
    only: Annotated[tuple[str, ...], Parameter(metavar="KEY=VALUES")] = ()
    seeds: Annotated[int | None, AT_LEAST_ONE] = None
    trace: bool = False


def run(
    suite: str | None = None,
    /,
    *,
    selection: Selection = Selection(),
    out: Path | None = None,
    dry_run: bool = False,
    budget: Annotated[str | None, Parameter(metavar="TIME")] = None,
    measure: bool = False,
    records: Annotated[tuple[Path, ...], Parameter(metavar="DIR")] = (),
    sources: Sources = Sources(),
    machine: Machine = Machine(),
) -> int:
    """Run a suite (its data is generated where missing), or one method on a generated folder.

    Writes records, tables and figures. Exit code 1 if a cell failed or diverged.

    Arguments:
        suite: name or .yaml file of a suite.
        out: the run's folder (default: runs/SUITE).
        dry_run: only say what would be done: cells, data, time.
        budget: start only cells that will be done in this time, as in 90s, 30m, 2h; the same command goes on. Cells
            like none that has finished are measured.
        measure: time the first steps of a cell where no finished one tells how long it takes.
        records: further run folders whose finished cells tell how long a cell takes.
    """
    began = time.monotonic()
    sources.use()
    # Read when torch is loaded, here or in a worker: threads that spin while they wait cost a busy machine dearly.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from suppression_bench import forecast
    from suppression_bench import suite as suites
    from suppression_bench.run import device_of

    limit = None if budget is None else forecast.seconds_of(budget)
    device = device_of(machine.device)
    cells = cells_of(suite, selection, sources)
    workers, threads = machine.share(device.type, len(cells))
    name = suites.suite_folder(suite, selection.tier) if suite else Path(selection.method or "").stem
    out = out or Path("runs", name)
    _require_folder(out)
    outlook = forecast.Forecast(out, records, device, threads, measure or limit is not None)
    print(f"{len(cells)} cells on {device} ({workers} at once) into {out}", flush=True)
    if mixed := forecast.other_suites(out, cells):
        print(mixed)
    if dry_run:
        print(forecast.describe(cells, outlook, workers, limit))
        return 0
    admission = None if limit is None else forecast.Budget(limit, lambda cell: outlook.of(cell).seconds, began)
    finished = _run(cells, out, device, workers, threads, admission)
    _render(out)
    if admission and admission.skipped:
        print(admission.report(len(cells), str(budget), any(finished)))
    bad = [
        (cell.label, record.run) for cell, record in zip(cells, finished, strict=True) if record and not record.is_ok
    ]
    for label, ending in bad:
        print(f"bench: {label}: {ending.status} ({ending.error})", file=sys.stderr)
    return 1 if bad else 0


def cells_of(suite: str | None, selection: Selection, sources: Sources) -> list:
    """The cells that a suite, or a data folder and a method, and the flags over them describe.

    Raises:
        UserError: flags that do not go together, and every fault of a setting at once.
    """
    settings, only = pairs(selection.settings, "--set"), pairs(selection.only, "--only", split=True)
    if selection.trace:
        settings = {"probe.trace": TRACED, **settings}  # a number that --set names wins
    if suite is None:
        return _cells_of_folder(selection, settings, sources)
    from suppression_bench.suite import Request, cells_of_suite

    if selection.data is not None:
        raise UserError(
            f"bench run: {suite!r} is read as a suite, and --data names a folder: give one of them "
            "(several settings go behind one --set: --set epochs=1 precision=bf16)"
        )
    refuse(
        "run",
        "goes with --data DIR; a suite names its own (use --only method=NAME)",
        method=selection.method,
        recipe=selection.recipe,
    )
    settings |= {f"data.{option}": source for option, source in sources.named().items()}
    return cells_of_suite(suite, Request(settings, only, selection.seeds, selection.tier))


def _cells_of_folder(selection: Selection, settings: dict, sources: Sources) -> list:
    from suppression_bench import config

    if selection.data is None:
        raise UserError(
            "bench run: give a suite (bench run quick) or a data folder (bench run --data DIR --method NAME)"
        )
    if not selection.method:
        raise UserError("bench run --data DIR needs --method NAME (see bench list methods)")
    refuse(
        "run",
        "goes with a suite, not with --data DIR",
        only=selection.only or None,
        tier=selection.tier,
        **sources.named(),
    )
    data, method, recipe, seeds = selection.data, selection.method, selection.recipe, selection.seeds
    return config.cells_of_folder(data, method, recipe, settings, seeds or 1)


def _require_folder(out: Path) -> None:
    # Asked before a dry run says that all is well, and before an hour of generating.
    nearest = next(path for path in (out.absolute(), *out.absolute().parents) if path.exists())
    if not nearest.is_dir():
        raise UserError(f"bench run: --out {out}: {nearest} is a file, not a folder; choose another place")


def _run(cells, out, device, workers, threads, admission) -> list:
    from suppression_bench.run import prepare, run_cells

    progress = {}
    admit = {"admit": admission.admits} if admission else {}
    with Bar("cells", len(cells)) as bar:

        def watch(position: int, done: int, steps: int) -> None:
            progress[position] = done / steps
            bar.to(round(sum(progress.values()), 2))

        return run_cells(
            prepare(cells, executor.cores(), bar.say),
            out,
            device=device,
            workers=workers,
            threads=threads,
            watch=watch,
            say=bar.say,
            **admit,
        )


def _render(out: Path) -> None:
    from suppression_bench.results import figures, frame, tables

    study = frame.read([out])
    accuracies = tables.accuracy_tables(study)
    text = accuracies.markdown()
    (out / "table.md").write_text(text, encoding="utf-8")
    (out / "table.csv").write_text(accuracies.csv(), encoding="utf-8")
    (out / "long.csv").write_text(tables.long_text(study, "csv"), encoding="utf-8")
    print("\n" + text)
    written = ["table.md", "table.csv", "long.csv"]
    for name in figures.drawable(study):
        for ending in ("png", "svg"):
            figures.draw(study, name, out / f"{name}.{ending}")
            written.append(f"{name}.{ending}")
    print(f"written: {out}/{', '.join(written)}")


# Embedded data for each recipe of the package; others are timed on a folder that --data names.
EMBEDDED = {
    "randbit-small": {"dataset": "randbit"},
    "randbit": {"dataset": "randbit"},
    "natural-small": {"dataset": "digit-on-imagenet", "image_size": 64},
    "natural": {"dataset": "digit-on-imagenet", "image_size": 64},
    "cifar": {"dataset": "randbit", "image_source": "leaves", "image_size": 32},
    "temperature": {"dataset": "randbit", "image_source": "leaves", "image_size": 32},
    "macl": {"dataset": "randbit", "image_source": "leaves", "image_size": 32},
    "images-small": {"dataset": "randbit", "image_source": "leaves", "image_size": 32},
    "generalized": {"dataset": "randbit", "image_source": "leaves", "image_size": 32},
    "generalized-imagenet": {"dataset": "digit-on-imagenet"},
    "multidigits": {"dataset": "multidigits", "train": 2048, "probe_train": 1000, "probe_test": 200},
    "multidigits-small": {
        "dataset": "multidigits",
        "canvas": 56,
        "train": 2048,
        "probe_train": 1000,
        "probe_test": 200,
    },
}


def speed(
    *,
    data: Path | None = None,
    recipe: str | None = None,
    method: str = "simclr",
    settings: Annotated[list[str] | None, Parameter(name="--set", metavar="KEY=VALUE")] = None,
    device: Literal["auto", "cpu", "cuda"] = "auto",
    steps: Annotated[int, AT_LEAST_ONE] = 30,
    threads: Annotated[int | None, AT_LEAST_ONE] = None,
    form: Annotated[Literal["markdown", "json"], Parameter(name="--format")] = "markdown",
    root: DataRoot = DataRoot(),
) -> int:
    """Time training, its parts, and the same network on random tensors, on this machine.

    Arguments:
        data: a folder that `bench generate` wrote (default: embedded).
        recipe: a recipe's name or file (default: the data's own, or randbit-small).
        method: a method's name or .py file.
        settings: settings, as of `bench run`: bits=8 batch_size=512 precision=bf16.
        device: where to train.
        steps: timed steps of each side.
        threads: torch threads (default: all cores).
        form: how to print it.
    """
    root.use()
    import torch

    from suppression_bench.run import device_of, prepare
    from suppression_bench.speed import markdown, measure
    from suppression_bench.training import precision

    precision.prepare_process()
    torch_device = device_of(device)
    located = timed_cell(data, recipe, method, settings or [])

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    [prepared] = prepare([located], executor.cores(), say)
    before = torch.get_num_threads()
    torch.set_num_threads(threads or executor.cores())
    try:
        measured = measure(prepared, torch_device, steps, say)
    finally:
        torch.set_num_threads(before)
    print(json.dumps(measured, indent=1) if form == "json" else markdown(measured))
    return 0


def timed_cell(data: Path | None, recipe: str | None, method: str, settings: list[str]):
    """The cell that `bench speed` times, on a folder or on embedded data.

    Raises:
        UserError: a recipe without embedded data, and every fault of a setting at once.
    """
    from suppression_bench import config

    values = pairs(settings, "--set")
    if data:
        return config.cells_of_folder(data, method, recipe, values, 1)[0]
    recipe = recipe or "randbit-small"
    config.read_yaml(config.RECIPES, recipe)
    name = Path(recipe).stem
    if name not in EMBEDDED:
        raise UserError(f"bench speed: no embedded data go with the recipe {recipe!r}; name a folder with --data DIR")
    layers = [(recipe, {f"data.{key}": value for key, value in EMBEDDED[name].items()}), ("--set", values)]
    faults, origin = config.Faults(), config.Origin("bench speed", varied=tuple(values))
    cells = config.compose(method, recipe, layers, [0], origin, faults)
    faults.raise_if_any()
    return cells[0]
