"""Small cells, hand-made records, and a method that only writes down what it is shown."""

import hashlib
from pathlib import Path

import torch
from torch import nn

from generators.build import build
from generators.catalog import dataset
from generators.files import dumps_json
from suppression_bench import cell as cells
from suppression_bench.encoder import Encoder
from suppression_bench.method import Info, Method, Output
from suppression_bench.results import record
from suppression_bench.spec import Cell, Origin, make_cells
from suppression_bench.training.data import Data

CPU = torch.device("cpu")
SMALL = {"train.steps": 4, "train.batch_size": 40, "train.checkpoint_seconds": 1000.0, "probe.l2": [1e-3, 1e-2]}


def make_data(name: str, folder: Path, **options) -> Path:
    """Build a dataset into a folder below `folder`."""
    build(dataset(name, options), folder / "data")
    return folder / "data"


def make_cell(method: str, folder: Path, *, recipe: str = "randbit-small", seed: int = 0, **settings) -> Cell:
    """A cell on an existing dataset folder; a setting's dot is written as two underscores."""
    chosen = {**SMALL, **{key.replace("__", "."): value for key, value in settings.items()}}
    origin = Origin("test", folder=str(folder))
    [made], faults = _checked(make_cells(method, recipe, [("test", chosen)], [seed], origin))
    assert not faults
    return made


def _checked(answer):
    assert not answer[1], answer[1]
    return answer


def run(method: str, data: Path, out: Path, **settings) -> dict:
    """The record of a small cell."""
    return cells.run(make_cell(method, data, **settings), out, CPU)


def built(method: str, folder: Path, **settings) -> tuple[Method, Data]:
    """A cell's method with its initial weights, and its data."""
    cell = make_cell(method, folder, **settings)
    data = Data(folder, cell.spec["data"]["bits"])
    return cells.build(cell, data, len(data.samples("pretrain"))), data


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


def probe_entry(correct: int, n: int = 100, feature: str = "digit", classes: int = 10, **changes) -> dict:
    """A probe's entry with `correct` of `n` right, all of true class 0 or 1."""
    confusion = [[0] * classes for _ in range(classes)]
    confusion[0][0], confusion[1][0] = correct, n - correct
    entry = {
        "feature": feature, "probe": "lbfgs", "layer": "encoder", "splits": ["pretrain", "probe-test"], "confusion": confusion,
        "n": n, "chance": 1 / classes, "majority": max(correct, n - correct) / n, "train_correct": n, "train_n": n, "l2": 0.01,
        "converged": True, "absent": [],
    }  # fmt: skip
    return {**entry, **changes}


def make_record(probes: list[dict], method: str = "simclr", seed: int = 0, bits: int = 0, **changes) -> dict:
    """A whole record; `changes` reach into `spec` and `run`, by their own keys."""
    spec = {
        "suite": {"name": "test", "version": 1}, "recipe": "randbit",
        "data": {"dataset": "randbit", "version": 1, "options": {"digit_source": "optdigits"}, "seed": 0, "digest": "d" * 64,
                 "bits": bits},
        "method": {"name": method, "options": {}}, "loss": None, "encoder": {"name": "randbit-conv", "options": {}},
        "augmentation": {}, "train": {}, "probe": {}, "probe_version": 1, "strength": {"key": "bits", "value": bits},
        "varied": {}, "seed": seed,
    }  # fmt: skip
    run_part = {
        "status": "ok", "error": None, "steps": 4, "resumes": 0, "seconds": 1.5, "images_per_second": 10.0,
        "peak_memory_bytes": 1, "loss": 0.5, "collapsed": [],
    }  # fmt: skip
    spec.update({key: value for key, value in changes.items() if key in spec})
    run_part.update({key: value for key, value in changes.items() if key in run_part})
    return {
        "schema": 1, "id": hashlib.sha256(dumps_json(spec).encode()).hexdigest(), "spec": spec,
        "code": {"version": "0", "commit": None, "sources": "", "method": ""},
        "environment": {"device": "cpu", "torch": "2"}, "run": run_part, "probes": probes, "metrics": {},
    }  # fmt: skip


def write_records(folder: Path, made: list[dict]) -> Path:
    """Each record in a folder of its own."""
    for one in made:
        place = folder / "cells" / one["id"][:12]
        place.mkdir(parents=True, exist_ok=True)
        record.write(place, one)
    return folder
