"""Commands that train: run and speed."""

import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from generators import executor, manifest
from generators.dataset import UserError
from suppression_bench.budget import Budget, seconds, words
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
    sources: Sources = Sources(),
    machine: Machine = Machine(),
) -> int:
    """Run a suite (its data is generated where missing), or one method on a generated folder.

    Writes records, tables and figures. Exit code 1 if a cell failed or diverged.

    Arguments:
        suite: name or .yaml file of a suite.
        out: the run's folder (default: runs/SUITE).
        dry_run: only say what would be done: cells, data, time.
        budget: start only cells that will be done in this time, as in 90s, 30m, 2h; the same command goes on.
    """
    began, most = time.monotonic(), None if budget is None else seconds(budget)
    sources.use()
    # Read when torch is loaded, here or in a worker: threads that spin while they wait cost a busy machine dearly.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from suppression_bench import cell, estimate, outlook
    from suppression_bench.suite import folder_name

    device = cell.device_of(machine.device)
    cells = cells_of(suite, selection, sources)
    workers, threads = machine.share(device.type, len(cells))
    out = out or Path("runs", folder_name(suite, selection.tier) if suite else Path(selection.method or "").stem)
    _require_folder(out)
    estimator = estimate.Estimator(out, device, threads)
    print(f"{len(cells)} cells on {device} ({workers} at once) into {out}", flush=True)
    if mixed := outlook.others(out, cells):
        print(mixed)
    if dry_run:
        with Bar("cells", len(cells)) as bar:
            text = outlook.describe(cells, estimator, workers, most, bar.to)
        print(text)
        return 0
    limit = None if most is None else Budget(most, lambda cell: estimator.of(cell).seconds, began)
    records = _run(cells, out, device, workers, threads, limit)
    _render(out)
    if limit and limit.left_out:
        print(_not_run(limit, cells, records, str(budget)))
    ended = [(cell.label, record["run"]) for cell, record in zip(cells, records, strict=True) if record]
    bad = [(label, ending) for label, ending in ended if ending["status"] != "ok"]
    for label, ending in bad:
        print(f"bench: {label}: {ending['status']} ({ending['error']})", file=sys.stderr)
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
    from suppression_bench import spec

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
    recipe = selection.recipe or manifest.read(selection.data)["recipe"]
    origin = spec.Origin("bench run", varied=tuple(settings), folder=str(selection.data.absolute()))
    seeds = list(range(selection.seeds or 1))
    cells, faults = spec.make_cells(selection.method, recipe, [("--set", settings)], seeds, origin)
    if faults:
        raise UserError("\n".join(faults))
    return cells


def _require_folder(out: Path) -> None:
    # Asked before a dry run says that all is well, and before an hour of generating.
    nearest = next(path for path in (out.absolute(), *out.absolute().parents) if path.exists())
    if not nearest.is_dir():
        raise UserError(f"bench run: --out {out}: {nearest} is a file, not a folder; choose another place")


def _run(cells, out, device, workers, threads, limit) -> list[dict | None]:
    from suppression_bench import runner

    progress = {}
    admit = {"admit": limit.admits} if limit else {}
    with Bar("cells", len(cells)) as bar:

        def watch(position: int, done: int, steps: int) -> None:
            progress[position] = done / steps
            bar.to(round(sum(progress.values()), 2))

        runner.prepare(cells, executor.cores(), bar.say)
        return runner.run_cells(
            cells, out, device=device, workers=workers, threads=threads, watch=watch, say=bar.say, **admit
        )


def _not_run(limit: Budget, cells: list, records: list, budget: str) -> str:
    lines = [
        f"not run: {cell.label}" + (f" (about {words(estimated)})" if estimated else "")
        for cell, estimated in limit.left_out
    ]
    if any(records):
        lines.append(f"{len(limit.left_out)} of {len(cells)} cells did not fit into {budget}; the same command goes on")
    else:  # the same command would not get further
        preparation = words(limit.clock() - limit.began)
        lines.append(
            f"none of {len(cells)} cells fits into {budget}, of which preparation took {preparation}: raise --budget"
        )
    return "\n".join(lines)


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

    from suppression_bench import cell, runner
    from suppression_bench.speed import markdown, measure
    from suppression_bench.training import precision

    precision.prepare_process()
    torch_device = cell.device_of(device)
    timed = timed_cell(data, recipe, method, settings or [])

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    runner.prepare([timed], executor.cores(), say)
    before = torch.get_num_threads()
    torch.set_num_threads(threads or executor.cores())
    try:
        measured = measure(timed, torch_device, steps, say)
    finally:
        torch.set_num_threads(before)
    print(json.dumps(measured, indent=1) if form == "json" else markdown(measured))
    return 0


def timed_cell(data: Path | None, recipe: str | None, method: str, settings: list[str]):
    """The cell that `bench speed` times, on a folder or on embedded data.

    Raises:
        UserError: a recipe without embedded data, and every fault of a setting at once.
    """
    from suppression_bench import spec

    values = pairs(settings, "--set")
    layers, folder = [], ""
    if data:
        recipe, folder = recipe or manifest.read(data)["recipe"], str(data.absolute())
    else:
        recipe = recipe or "randbit-small"
        spec.read_yaml(spec.RECIPES, recipe)
        name = Path(recipe).stem
        if name not in EMBEDDED:
            raise UserError(
                f"bench speed: no embedded data go with the recipe {recipe!r}; name a folder with --data DIR"
            )
        layers = [(recipe, {f"data.{key}": value for key, value in EMBEDDED[name].items()})]
    origin = spec.Origin("bench speed", varied=tuple(values), folder=folder)
    cells, faults = spec.make_cells(method, recipe, [*layers, ("--set", values)], [0], origin)
    if faults:
        raise UserError("\n".join(faults))
    return cells[0]
