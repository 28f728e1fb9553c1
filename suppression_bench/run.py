"""Cells run to their records: the story of one cell in one function, and many cells on an executor.

Data are built once, each cell runs wherever a worker is free, and whatever is killed goes on when it is called again.
"""

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import msgspec
import numpy as np
import torch

from generators import build, catalog, executor, manifest
from generators.dataset import Dataset, UserError
from generators.files import dumps_json, make_folder
from generators.randomness import random_words
from generators.sources import data_root
from suppression_bench.config import LocatedCell
from suppression_bench.encoder import Encoder
from suppression_bench.evaluation import probes as probing
from suppression_bench.evaluation.probes import OnlineProbe, Representation, measure
from suppression_bench.evaluation.trace import Trace
from suppression_bench.method import Info, Method
from suppression_bench.results import predictions, provenance, weights
from suppression_bench.results import record as records
from suppression_bench.results.record import Record
from suppression_bench.training import gradient_cache, loop, optim, precision
from suppression_bench.training.data import Data

TRACEBACK = "traceback.txt"  # in the folder of a cell that failed


@dataclass(frozen=True)
class Prepared:
    """A cell whose data are there: their folder, their content digest and the groups of their features."""

    located: LocatedCell
    folder: Path
    data: records.Data

    @property
    def cell(self):
        return self.located.cell

    @property
    def label(self) -> str:
        return self.cell.label


def run(
    prepared: Prepared, folder: Path, device: torch.device, note: Callable[[int, int], None] | None = None
) -> Record:
    """Run a cell to its record, or return the record that is there.

    Killed at any moment, the next call goes on from the last checkpoint and ends with the same weights (on a CPU).

    Arguments:
        prepared: the cell and its data.
        folder: where the record, the weights and the checkpoints go.
        device: where to train.
        note: called now and then with (steps done, steps in all).

    Raises:
        UserError: damaged data, or a checkpoint or record of a run that has changed.
    """
    if finished := finished_record(folder, prepared):
        return finished
    began, cell = time.monotonic(), prepared.cell
    folder.mkdir(parents=True, exist_ok=True)
    data = Data(prepared.folder, cell.dataset.bits)
    method = build_method(prepared.located, data, data.manifest.splits["pretrain"].count)
    method.to(device=device, memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
    outcome, online, traces = _train(prepared, data, method, folder, device, note)
    status, measured = outcome.status, _Measured()
    if status == "ok":
        measured = _measure(prepared, data, method, online, folder, device)
        status = "ok" if measured.finite else "invalid_features"
    training_seconds = outcome.seconds - sum(trace.seconds for trace in traces)
    views = outcome.steps * cell.train.batch_size
    run_part = records.Run(
        status=cast(Any, status),
        error=None if status != "diverged" else f"the loss was not finite at step {outcome.steps}",
        steps=outcome.steps,
        resumes=outcome.resumes,
        seconds=round(time.monotonic() - began, 3),
        images_per_second=round(views / training_seconds, 1) if training_seconds > 0 else 0.0,
        peak_memory_bytes=provenance.peak_memory(device),
        loss=outcome.loss if np.isfinite(outcome.loss) else None,
        collapsed=list(measured.collapsed),
    )
    trace = traces[0].record() if traces and traces[0].points else None
    record = _record(prepared, device, run_part, probes=measured.probes, metrics=measured.metrics, trace=trace)
    records.write(folder, record)
    loop.clear_checkpoints(folder)
    (folder / TRACEBACK).unlink(missing_ok=True)  # of an earlier try
    return record


def _train(
    prepared: Prepared,
    data: Data,
    method: Method,
    folder: Path,
    device: torch.device,
    note: Callable[[int, int], None] | None,
) -> tuple[loop.Outcome, list[OnlineProbe], list[Trace]]:
    """Train the method, its online probes and traces watching; one that does not train is done at once."""
    if not method.trains:
        return loop.Outcome("ok", 0, float("nan"), 0, 0.0), [], []
    cell, samples = prepared.cell, data.samples("pretrain", device)
    online = _online_probes(data, method, cell, len(samples), device) if "online" in cell.probe.kinds else []
    steps = cell.train.total_steps(len(samples))
    traces = [Trace(data, method, cell.probe, steps, cell.seed, *online)] if cell.probe.trace else []
    outcome = loop.train(
        method,
        samples,
        cell.train,
        cell.augmentation,
        seed=cell.seed,
        labels=labels_of(data, method, device) if method.needs_labels else None,
        observers=[*online, *traces],
        folder=folder,
        identity=_identity(prepared, device),
        note=note,
    )
    return outcome, online, traces


@dataclass(frozen=True)
class _Measured:
    """The record's probes and metrics, the layers whose features are constant, and whether all features are finite."""

    probes: Sequence[dict] = ()
    collapsed: Sequence[str] = ()
    metrics: dict | None = None
    finite: bool = True


def _measure(
    prepared: Prepared, data: Data, method: Method, online: list[OnlineProbe], folder: Path, device: torch.device
) -> _Measured:
    """Probe the frozen encoder and describe its features; its weights and the predictions go into the cell's folder."""
    cell = prepared.cell
    by_feature = {probe.feature: probe for observer in online for probe in observer.probes()}
    describe = None
    if cell.probe.metric_samples:
        describe = Representation(data, method, cell.probe, cell.augmentation, cell.seed)
    predicted: dict[tuple[str, str, str], np.ndarray] = {}
    probes, collapsed, finite = measure(data, method, cell.probe, by_feature, cell.seed, device, describe, predicted)
    weights.save(method.encoder, folder / weights.NAME, data.image_shape)
    if finite:
        predictions.write(folder, cell.id, predicted)
    return _Measured(probes, collapsed, describe.metrics() if describe and finite else None, finite)


def finished_record(folder: Path, prepared: Prepared) -> Record | None:
    """The record of a cell that needs no run, if there is one: a failed cell is tried again.

    Raises:
        UserError: a damaged record, or one of the same cell on other data.
    """
    path = folder / records.NAME
    if not path.exists():
        return None
    record = records.read(path)
    if record.run.status == "failed":
        return None
    if record.data.digest != prepared.data.digest:
        raise UserError(
            f"{path}: its data {record.data.digest[:12]} are not those of this run, {prepared.data.digest[:12]}; "
            "choose another folder with --out"
        )
    return record


def build_method(located: LocatedCell, data: Data, count: int) -> Method:
    """The cell's method around its encoder, initialised from the seed.

    Arguments:
        located: the cell and where its plug-ins lie.
        data: the dataset.
        count: training samples.
    """
    cell, references = located.cell, located.references
    encoder_class = catalog.load_class("suppression_bench.encoders", references["encoder"], Encoder)
    method_class = catalog.load_class("suppression_bench.methods", references["method"], Method)
    loop.seed_torch(loop.training_key(cell.seed), loop.INITIAL)
    encoder = encoder_class(data.image_shape[0], data.channels, **cell.encoder.options)
    targets = data.targets() if method_class.needs_labels else {}
    info = Info(data.image_shape, data.bits, count, targets)
    loss = [_loss(located)] if cell.loss else []
    method = method_class(encoder, info, *loss, **cell.method.options)
    if cell.train.initialisation == "glorot":
        optim.glorot(method)
    method.after_build()
    return method


def _loss(located: LocatedCell) -> Callable:
    """The cell's loss with its options filled in."""
    function = catalog.load_function("suppression_bench.losses", located.references["loss"])
    return partial(function, **located.cell.loss.options) if located.cell.loss else function


def check(prepared: Prepared) -> None:
    """What can be known of a cell before anything is written: its options fit each other and its batches can be filled.

    Raises:
        UserError: a batch larger than the training split, options that the loss refuses, colours to change
            where there are none, or parts of a batch for a method that has none.
    """
    cell = prepared.cell
    data = Data(prepared.folder, cell.dataset.bits)
    method = catalog.load_class("suppression_bench.methods", prepared.located.references["method"], Method)
    cell.augmentation.check(data.image_shape, method.views)
    if cell.loss:
        _try_loss(prepared.located, method)
    if method.trains:
        cell.train.steps_per_epoch(data.manifest.splits["pretrain"].count)
        if cell.train.micro_batch:
            gradient_cache.require(method, cell.method.name)


def _try_loss(located: LocatedCell, method: type[Method]) -> None:
    # On a few random projections: a loss says only then what is wrong with its options, and a suite's other cells would
    # have trained for hours until the turn of this one.
    generator = torch.Generator().manual_seed(0)
    first, second, negatives = torch.randn(3, 8, 16, generator=generator)
    inputs = {"negatives": negatives, "labels": torch.arange(8) // 2}
    try:
        _loss(located)(first, second, **{name: inputs[name] for name in method.passes})
    except UserError as error:
        raise UserError(f"{located.label}: {error}") from None
    except Exception:
        return  # a user's loss may want other shapes: what it says in training goes into the record


def _record(prepared: Prepared, device: torch.device, run_part: records.Run, **parts: Any) -> Record:
    """The record of a cell that has ended: its probes, metrics and trace are plain values."""
    record = {
        "schema": records.SCHEMA,
        "id": prepared.cell.id,
        "spec": msgspec.to_builtins(prepared.cell),
        "data": msgspec.to_builtins(prepared.data),
        "code": provenance.code(prepared.located.references["method"]),
        "environment": provenance.environment(device),
        "run": msgspec.to_builtins(run_part),
        "probes": [],
        **parts,
    }
    return msgspec.convert(record, Record)


def labels_of(data: Data, method: Method, device: torch.device) -> dict[str, torch.Tensor]:
    """The training split's labels for a method that declares them: target -> (N,) or (N, classes)."""
    return {name: torch.from_numpy(data.labels("pretrain", name)).to(device) for name in method.info.targets}


def _online_probes(data: Data, method: Method, cell, count: int, device: torch.device) -> list[OnlineProbe]:
    tasks = [
        probing.Task(feature, data.classes(feature), data.labels("pretrain", feature))
        for feature in data.probes()
        if data.has_label("pretrain", feature)
    ]
    if not tasks:  # no feature that is probed has a label on the training split
        return []
    steps, warmup = cell.train.total_steps(count), cell.train.warmup_epochs * cell.train.steps_per_epoch(count)
    head_seed = int(random_words(loop.training_key(cell.seed), loop.INITIAL, 1, count=1)[0] >> np.uint64(1))
    return [OnlineProbe(method.encoder.width, tasks, cell.train, steps, warmup, head_seed, device)]


def _identity(prepared: Prepared, device: torch.device) -> dict:
    """What must not change before a checkpoint is resumed; flat, so that a refusal can name each differing field."""
    code = provenance.code(prepared.located.references["method"])
    identity = {f"code.{key}": value for key, value in code.items() if key != "commit"}
    environment = provenance.environment(device)
    identity |= {key: environment[key] for key in ("torch", "device", "threads")}
    cell = prepared.cell
    settings = {**cell.settings(), "data.digest": prepared.data.digest, "recipe": cell.recipe, "seed": cell.seed}
    for kind in ("dataset", "method", "loss", "encoder"):
        if part := getattr(cell, kind):
            settings |= {f"{kind}.version": part.version, f"{kind}.file": part.file}
    return {**identity, **settings}


def device_of(name: str) -> torch.device:
    """The device of --device: auto takes CUDA where there is one.

    Raises:
        UserError: cuda where there is none.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise UserError("--device cuda: torch sees no CUDA device here; use --device cpu or auto")
    return torch.device(name)


# ---- data ----


@dataclass(frozen=True)
class DataPlan:
    """A cell's data, there or still to be generated.

    dataset: opened with its options, None for a folder of the user's.
    facts: the manifest, or as much of it as is known before a sample is drawn.
    counts: samples of each split.
    folder: where the data are or would be.
    """

    dataset: Dataset | None
    facts: manifest.Identity
    counts: dict[str, int]
    folder: Path

    @property
    def is_there(self) -> bool:
        return (self.folder / manifest.NAME).exists()


def data_key(located: LocatedCell) -> str:
    """The same text for cells on the same data."""
    if located.dataset is None:
        return str(located.folder)
    return dumps_json([*located.dataset, located.cell.dataset.seed])


def plan_data(located: LocatedCell) -> DataPlan:
    """Where a cell's data are or would be; nothing is generated, but its sources are opened.

    Raises:
        UserError: options that the dataset refuses, or a source that is not there.
    """
    if located.dataset is None:
        facts = manifest.read(Path(str(located.folder)))
        return DataPlan(
            None, facts, {name: split.count for name, split in facts.splits.items()}, Path(str(located.folder))
        )
    name, options = located.dataset
    dataset = catalog.dataset(name, options)
    facts = manifest.identity(dataset, located.cell.dataset.seed)
    identity = facts.builtins()
    if catalog.is_path(name):  # a user's file may change without a new version: then its data are made anew
        identity["file"] = catalog.file_digest("generators.datasets", name)
    short = hashlib.sha256(dumps_json(identity).encode()).hexdigest()[:12]
    return DataPlan(dataset, facts, dataset.splits, data_root() / "datasets" / f"{dataset.name}-{short}")


def prepare(cells: Sequence[LocatedCell], workers: int, say: Callable[[str], None]) -> list[Prepared]:
    """Build the data that the cells need and do not have yet, and check each cell.

    Raises:
        UserError: a fault that would stop a cell later.
    """
    folders: dict[str, tuple[Path, str]] = {}
    prepared = []
    for located in cells:
        key = data_key(located)
        if key not in folders:
            plan = plan_data(located)
            if plan.dataset is not None:
                if not plan.is_there:
                    say(f"generating {plan.dataset.name} ({sum(plan.counts.values())} samples)")
                build(
                    plan.dataset,
                    plan.folder,
                    seed=located.cell.dataset.seed,
                    workers=workers,
                    reference=located.dataset[0] if located.dataset else None,
                    say=say,
                )
            folders[key] = plan.folder, manifest.read(plan.folder).content_digest
        folder, digest = folders[key]
        groups = Data(folder, located.cell.dataset.bits).groups()
        prepared.append(Prepared(located, folder, records.Data(digest=digest, groups=groups)))
        check(prepared[-1])
    for folder, bits in dict.fromkeys((entry.folder, entry.cell.dataset.bits) for entry in prepared):
        Data(folder, bits).decode(workers)  # here, so that no two cells decode the same
    return prepared


# ---- many cells ----


@dataclass(frozen=True)
class Job:
    """What a worker gets."""

    prepared: Prepared
    folder: str
    device: str
    threads: int


def run_cells(
    cells: Sequence[Prepared],
    out: Path,
    *,
    device: torch.device,
    workers: int,
    threads: int,
    watch: Callable[[int, int, int], None],
    say: Callable[[str], None],
    admit: Callable[[LocatedCell], bool] = lambda cell: True,
) -> list[Record | None]:
    """Run every cell that has no record yet and return all records in the cells' order.

    A cell that fails, or whose worker dies, gets a record that says so; the others go on.

    Arguments:
        cells: prepared.
        out: the run's folder; each cell has a folder of its own below `cells/`.
        device: where to train.
        workers: cells at once.
        threads: of torch in each worker.
        watch: called with (position of the cell, steps done, steps in all) while cells train.
        say: prints a line.
        admit: asked about each cell in its turn, when a worker is free for it; one that is not admitted has None in
            place of a record.
    """
    make_folder(out / "cells")
    _extend_plan(out, cells)
    folders = [out / "cells" / prepared.cell.folder_name for prepared in cells]
    admitted: list[int] = []  # positions of cells; the executor counts the admitted ones from 0

    def jobs() -> Iterator[Job]:
        for position, (prepared, folder) in enumerate(zip(cells, folders, strict=True)):
            if admit(prepared.located):
                admitted.append(position)
                yield Job(prepared, str(folder), str(device), threads)

    results: dict[int, Record] = {}
    for outcome in executor.run(run_job, jobs(), workers, lambda turn, message: watch(admitted[turn], *message)):
        position = admitted[outcome.position]
        prepared, folder, trace_note = cells[position], folders[position], ""
        if outcome.error is None:
            results[position] = outcome.value
        elif isinstance(outcome.error, UserError):
            raise UserError(f"{prepared.label}: {outcome.error}")
        else:
            results[position] = write_failure(prepared, folder, _first_line(outcome.error))
            if outcome.trace:  # for the method's author; a worker that died has left none
                (folder / TRACEBACK).write_text(outcome.trace)
                trace_note = f"; traceback: {folder / TRACEBACK}"
        say(f"[{len(results)}/{len(cells)}] {prepared.label}: {summary(results[position])}{trace_note}")
    return [results.get(position) for position in range(len(cells))]


def run_job(job: Job, note: Callable) -> Record:
    """One cell in a worker process."""
    torch.set_num_threads(job.threads)
    precision.prepare_process()
    try:
        return run(job.prepared, Path(job.folder), torch.device(job.device), lambda done, steps: note((done, steps)))
    except torch.OutOfMemoryError as error:
        raise RuntimeError(f"the device's memory is full; set train.batch_size lower ({error})") from None


def write_failure(prepared: Prepared, folder: Path, error: str) -> Record:
    """Write the record of a cell that ended with an error; the next run tries it again."""
    folder.mkdir(parents=True, exist_ok=True)
    record = _record(prepared, torch.device("cpu"), records.Run(status="failed", error=error))
    records.write(folder, record)
    return record


def _first_line(error: Exception) -> str:
    # A worker's error comes as a RuntimeError that names its own type already.
    name = "" if type(error) is RuntimeError else f"{type(error).__name__}: "
    return (name + str(error)).split("\n")[0][:500]


def summary(record: Record) -> str:
    """A finished cell in one line: each feature's accuracy by the first kind of probe, a group's as its mean."""
    if not record.is_ok:
        return f"{record.run.status} ({record.run.error})"
    first = record.probes[0].probe if record.probes else ""
    accuracies: dict[str, list[float]] = {}
    for probe in record.probes:
        if probe.probe == first and probe.layer == "encoder":
            accuracies.setdefault(record.group_of(probe.feature), []).append(probe.accuracy)
    # Single features first, groups behind them.
    ordered = sorted(accuracies.items(), key=lambda item: item[0] in record.data.groups)
    values = ", ".join(f"{name} {sum(shares) / len(shares):.3f}" for name, shares in ordered)
    return f"{values} ({first} probe, {record.run.seconds:.1f} s)"


def _extend_plan(out: Path, cells: Sequence[Prepared]) -> None:
    # Every cell that this folder is to hold, so that a table can name those that are missing.
    path = out / records.PLAN
    planned = records.read_plan(path) if path.exists() else []
    present = {entry.id for entry in planned}
    planned += [
        records.Planned(id=prepared.cell.id, folder=prepared.cell.folder_name, spec=prepared.cell)
        for prepared in cells
        if prepared.cell.id not in present
    ]
    records.write_plan(path, planned)
