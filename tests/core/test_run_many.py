"""Many cells: data built once, a dead worker's cell marked and the others finished, everything taken up again."""

import dataclasses
import json

import msgspec
import pytest
from small_cells import CPU, make_cell, make_record

from generators import build
from generators.dataset import UserError
from suppression_bench import run as running
from suppression_bench.config import Faults, Origin, compose
from suppression_bench.results import record

DEADLY = '''
"""Deadly: ends in the way that its option says."""
import os
from pathlib import Path
from suppression_bench.method import Method, Output

class Deadly(Method):
    def __init__(self, encoder, info, *, way: str = "none"):
        super().__init__(encoder, info)
        self.way = way

    def loss(self, batch):
        marker = Path(os.environ["DEADLY_MARKER"])
        if self.way == "exit" and not marker.exists():
            os._exit(9)
        if self.way == "raise" and not marker.exists():
            raise ValueError("I would rather not")
        features = self.encoder(batch.views[0])
        return Output(features.square().mean(), features)
'''


@pytest.fixture
def deadly(tmp_path, monkeypatch):
    monkeypatch.setenv("DEADLY_MARKER", str(tmp_path / "marker"))
    (tmp_path / "deadly.py").write_text(DEADLY)
    return str(tmp_path / "deadly.py")


def run_cells(found, out, workers=2):
    lines = []
    made = running.run_cells(
        found, out, device=CPU, workers=workers, threads=1, watch=lambda *a: None, say=lines.append
    )
    return made, lines


@pytest.mark.slow
def test_a_dead_worker_and_a_raising_cell_leave_the_others_alone(randbit, tmp_path, deadly):
    found = [make_cell(deadly, randbit, method__way=way, train__steps=2) for way in ("none", "exit", "raise")]
    found.append(make_cell("untrained", randbit))
    made, lines = run_cells(found, tmp_path / "out")
    assert [one.run.status for one in made] == ["ok", "failed", "failed", "ok"] and len(lines) == 4
    assert "I would rather not" in made[2].run.error and made[1].run.error
    for cell, one in zip(found, made, strict=True):
        assert record.read(tmp_path / "out" / "cells" / cell.cell.folder_name / record.NAME) == one
    # The next run tries the failed ones again and leaves the others as they are.
    (tmp_path / "marker").touch()
    again, _ = run_cells(found, tmp_path / "out", workers=1)
    assert [one.run.status for one in again] == ["ok"] * 4
    assert again[0] == made[0] and again[3] == made[3]


def test_the_plan_names_every_cell_once(randbit, tmp_path):
    found = [make_cell("untrained", randbit, seed=seed) for seed in (0, 1)]
    run_cells(found[:1], tmp_path, workers=1)
    run_cells(found, tmp_path, workers=1)
    plan = json.loads((tmp_path / record.PLAN).read_text())
    assert [entry["id"] for entry in plan] == [cell.cell.id for cell in found]


def suite_cell(bits, own=False, **data):
    digits = {} if own else {"data.digit_source": "optdigits", "data.train": 60, "data.test": 30}
    layers = [("data", {"data.dataset": "randbit", **digits, **data})]
    layers.append(("test", {"train.steps": 2, "train.batch_size": 20, "bits": bits}))
    faults = Faults()
    [located] = compose("untrained", "randbit-small", layers, [0], Origin("test", strength="bits"), faults)
    faults.raise_if_any()
    return located


BRIGHT = '''
"""Two brightnesses."""
import numpy as np
from generators.dataset import Dataset, Feature

class Bright(Dataset):
    image_shape = (28, 28, 1)
    features = {"side": Feature(2)}
    targets = ["side"]
    probes = {"side": ("pretrain", "probe-test")}
    recipe = "randbit-small"
    sources = {}

    def __init__(self):
        self.splits = {"pretrain": 40, "probe-test": 10}

    def draw(self, split, index, stream):
        return {"side": index % 2}, {}

    def render(self, labels, factors, stream):
        return np.full((28, 28, 1), 200 * labels["side"], dtype=np.uint8)
'''


def test_data_is_built_once_and_shared(monkeypatch, cache):
    calls = []
    monkeypatch.setattr(running, "build", lambda *a, **k: (calls.append(a), build(*a, **k))[1])
    cells = [suite_cell(0), suite_cell(4), suite_cell(0, **{"data.seed": 1})]
    first, second, third = running.prepare(cells, 1, lambda line: None)
    assert len(calls) == 2 and first.folder == second.folder != third.folder
    assert str(cache) in str(first.folder)
    assert first.cell is cells[0].cell, "a cell's id is known before its data are made"
    assert first.cell.dataset.options["train"] == 60 and len(first.data.digest) == 64
    assert first.data.digest == second.data.digest != third.data.digest
    assert second.data.groups == {"bits": ["bit00", "bit01", "bit02", "bit03"]} and first.data.groups == {}
    assert str(cache) not in json.dumps(msgspec.to_builtins(first.cell))  # a record holds no path of this machine


def test_an_edited_dataset_file_is_built_anew(tmp_path, cache):
    path = tmp_path / "bright.py"
    path.write_text(BRIGHT)
    [first] = running.prepare([suite_cell(0, **{"data.dataset": str(path)}, own=True)], 1, lambda line: None)
    path.write_text(BRIGHT.replace("200", "90"))
    [second] = running.prepare([suite_cell(0, **{"data.dataset": str(path)}, own=True)], 1, lambda line: None)
    assert first.folder != second.folder and first.data.digest != second.data.digest
    assert first.cell.id != second.cell.id


def test_the_number_of_samples_is_part_of_a_cells_identity():
    assert suite_cell(0).cell.id != suite_cell(0, **{"data.train": 50}).cell.id


def test_a_record_on_other_data_is_not_taken_for_this_cells(randbit, tmp_path):
    prepared = make_cell("untrained", randbit)
    running.run(prepared, tmp_path, CPU)
    other = dataclasses.replace(prepared, data=record.Data(digest="e" * 64))
    with pytest.raises(UserError, match="eeeeeeeeeeee"):
        running.run(other, tmp_path, CPU)


@pytest.mark.slow
def test_a_worker_process_makes_the_same_record(randbit, tmp_path):
    found = [make_cell("simclr", randbit, data__bits=bits, train__steps=2) for bits in (0, 2)]
    made, _ = run_cells(found, tmp_path / "workers")
    for cell, one in zip(found, made, strict=True):
        here = running.run(cell, tmp_path / cell.cell.folder_name, CPU)
        assert one.probes == here.probes and one.id == here.id


def test_a_finished_cell_in_one_line(randbit, tmp_path):
    [made], [line] = run_cells([make_cell("untrained", randbit, data__bits=2)], tmp_path, workers=1)
    assert line.startswith("[1/1] untrained") and "digit 0." in line and ", bits " in line and "lbfgs" in line
    assert running.summary(make_record([], status="failed", error="why")) == "failed (why)"
    assert made.run.status == "ok"


def test_a_damaged_dataset_stops_everything_with_one_sentence(randbit, tmp_path, monkeypatch):
    import shutil

    monkeypatch.setenv("SUPPRESSION_BENCH_CACHE", str(tmp_path / "cache"))  # with nothing decoded
    shutil.copytree(randbit, tmp_path / "copy")
    (tmp_path / "copy" / "pretrain-00000.tar").write_bytes(b"")
    with pytest.raises(UserError, match=r"pretrain-00000\.tar"):
        run_cells([make_cell("untrained", tmp_path / "copy")], tmp_path / "out", workers=1)
