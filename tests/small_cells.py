"""Small cells, hand-made records, and a method that only writes down what it is shown."""

from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import nn

from generators import manifest
from generators.build import build
from generators.catalog import dataset
from suppression_bench import run as running
from suppression_bench.cell import Cell
from suppression_bench.config import Faults, LocatedCell, Origin, compose
from suppression_bench.encoder import Encoder
from suppression_bench.method import Info, Method, Output
from suppression_bench.results import record as records
from suppression_bench.results.record import Probe, Record
from suppression_bench.run import Prepared
from suppression_bench.training.data import Data

CPU = torch.device("cpu")
SMALL = {"train.steps": 4, "train.batch_size": 40, "train.checkpoint_seconds": 1000.0, "probe.l2": [1e-3, 1e-2]}


def make_data(name: str, folder: Path, **options) -> Path:
    """Build a dataset into a folder below `folder`."""
    build(dataset(name, options), folder / "data")
    return folder / "data"


def locate_cell(method: str, folder: Path, *, recipe: str = "randbit-small", seed: int = 0, **settings) -> LocatedCell:
    """A cell on an existing dataset folder; a setting's dot is written as two underscores."""
    chosen = {**SMALL, **{key.replace("__", "."): value for key, value in settings.items()}}
    faults = Faults()
    origin = Origin("test", folder=Path(folder), facts=manifest.read(Path(folder)))
    cells = compose(method, recipe, [("test", chosen)], [seed], origin, faults)
    faults.raise_if_any()
    return cells[0]


def make_cell(method: str, folder: Path, **settings) -> Prepared:
    """A prepared cell on an existing dataset folder."""
    located = locate_cell(method, folder, **settings)
    data = Data(folder, located.cell.dataset.bits)
    facts = records.Data(digest=data.manifest.content_digest, groups=data.groups())
    return Prepared(located, Path(folder), facts)


def run(method: str, data: Path, out: Path, **settings) -> Record:
    """The record of a small cell."""
    return running.run(make_cell(method, data, **settings), out, CPU)


def built(method: str, folder: Path, **settings) -> tuple[Method, Data]:
    """A cell's method with its initial weights, and its data."""
    located = locate_cell(method, folder, **settings)
    data = Data(folder, located.cell.dataset.bits)
    return running.build_method(located, data, len(data.samples("pretrain"))), data


def pull(z1, z2, *, negatives=None, labels=None, temperature: float = 0.1):
    """A stand-in for a loss: squared distance."""
    return (z1 - z2).square().mean() / temperature


class Flat(Encoder):
    """One dense layer."""

    width = 3

    def __init__(self, channels: int = 5, side: int = 28):
        super().__init__()
        self.layer = nn.Linear(channels * side * side, self.width)

    def forward(self, pictures):
        return self.layer(pictures.flatten(1))


class Recorder(Method):
    """Keeps every batch; its loss is that of a linear map, and NaN at the step `bad` (from 1)."""

    def __init__(self, views: int = 2, needs_labels: bool = False, bad: int = 0, channels: int = 5):
        super().__init__(Flat(channels), Info((28, 28, 1), channels - 1, 200, {}))
        self.views, self.needs_labels, self.bad = views, needs_labels, bad
        self.batches, self.progress = [], []

    def loss(self, batch):
        self.batches.append(batch)
        features = self.encoder(batch.views[0])
        value = features.square().mean()
        return Output(value * float("nan") if len(self.batches) == self.bad else value, features)

    def after_step(self, progress):
        self.progress.append(progress)


def probe_entry(correct: int, n: int = 100, feature: str = "digit", classes: int = 10, **changes) -> Probe:
    """A probe's entry with `correct` of `n` right, all of true class 0 or 1."""
    confusion = [[0] * classes for _ in range(classes)]
    confusion[0][0], confusion[1][0] = correct, n - correct
    entry = {
        "feature": feature,
        "probe": "lbfgs",
        "layer": "encoder",
        "splits": ["pretrain", "probe-test"],
        "confusion": confusion,
        "n": n,
        "chance": 1 / classes,
        "majority": max(correct, n - correct) / n,
        "train_correct": n,
        "train_n": n,
        "l2": 0.01,
        "converged": True,
        "absent": [],
    }
    return msgspec.convert({**entry, **changes}, Probe)


def make_spec(method: str = "simclr", seed: int = 0, bits: int = 0, **changes) -> Cell:
    """A whole spec; `changes` replace its fields, given as plain values."""
    spec = {
        "suite": {"name": "test", "version": 1},
        "recipe": "randbit",
        "dataset": {"name": "randbit", "version": 1, "options": {"digit_source": "optdigits"}, "seed": 0, "bits": bits},
        "method": {"name": method, "options": {}, "version": 1},
        "loss": None,
        "encoder": {"name": "randbit-conv", "options": {}, "version": 1},
        "augmentation": {},
        "train": {"epochs": 1},
        "probe": {},
        "probe_version": 1,
        "strength": {"key": "bits", "value": bits},
        "varied": {},
        "seed": seed,
    }
    return msgspec.convert({**spec, **changes}, Cell)


def make_record(
    probes: list[Probe], method: str = "simclr", seed: int = 0, bits: int = 0, digest: str = "d" * 64, **changes
) -> Record:
    """A whole record; `changes` reach into `spec`, `run` and the record itself, by their own keys."""

    def part(struct: type[msgspec.Struct]) -> dict[str, Any]:
        return {name: changes[name] for name in changes.keys() & struct.__struct_fields__}

    spec = make_spec(method, seed, bits, **part(Cell))
    run_part = {
        "status": "ok",
        "steps": 4,
        "seconds": 1.5,
        "images_per_second": 10.0,
        "peak_memory_bytes": 1,
        "loss": 0.5,
    }
    members = sorted({probe.feature for probe in probes if probe.feature.startswith("bit")})
    fields = {
        "schema": records.SCHEMA,
        "id": spec.id,
        "spec": msgspec.to_builtins(spec),
        "data": {"digest": digest, "groups": {"bits": members} if members else {}},
        "code": {"version": "0", "commit": None, "sources": "", "method": ""},
        "environment": {"device": "cpu", "torch": "2"},
        "run": {**run_part, **part(records.Run)},
        "probes": msgspec.to_builtins(probes),
        **{name: changes[name] for name in ("code", "environment", "metrics", "trace") if name in changes},
    }
    return msgspec.convert(fields, Record)


def write_records(folder: Path, cells: list[Record]) -> Path:
    """Each record in a folder of its own."""
    for record in cells:
        cell_folder = folder / "cells" / record.id[:12]
        cell_folder.mkdir(parents=True, exist_ok=True)
        records.write(cell_folder, record)
    return folder


def accuracy(entry: dict) -> float:
    """The accuracy of a probe's entry as `measure` returns it."""
    return msgspec.convert(entry, Probe).accuracy
