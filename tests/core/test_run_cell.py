"""One cell from data to record: repeatable, honest about divergence and collapse, blind to labels."""

import pytest
from small_cells import CPU, locate_cell, make_cell, make_data, run

from generators.dataset import UserError
from suppression_bench import run as running
from suppression_bench.results import weights
from suppression_bench.training.data import Data


def test_no_label_reaches_a_method_that_needs_none(randbit, tmp_path, monkeypatch):
    seen = []
    original = running.build_method

    def build(*arguments):
        made = original(*arguments)
        seen.append(made.info)
        loss = made.loss
        made.loss = lambda batch: (seen.append(batch.labels), loss(batch))[1]
        return made

    monkeypatch.setattr(running, "build_method", build)
    run("simclr", randbit, tmp_path / "a", data__bits=2, probe__kinds=["online"])
    assert seen[0].targets == {} and seen[1:] == [None] * 4
    seen.clear()
    run("supervised", randbit, tmp_path / "b", data__bits=2)
    assert set(seen[0].targets) == {"digit", "bit00", "bit01"} == set(seen[1])


METHOD = '''
"""Spoilt: a dense layer whose loss or features go wrong."""
import torch
from suppression_bench.method import Method, Output

class Spoilt(Method):
    def __init__(self, encoder, info, *, wrong: str = "loss"):
        super().__init__(encoder, info)
        self.wrong, self.steps = wrong, 0

    def loss(self, batch):
        self.steps += 1
        features = self.encoder(batch.views[0])
        factor = float("nan") if self.wrong == "loss" and self.steps == 3 else 0.0 if self.wrong == "collapse" else 1.0
        return Output(features.square().mean() * factor, features)

    def after_step(self, progress):
        if self.wrong == "collapse":
            with torch.no_grad():
                for parameter in self.encoder.parameters():
                    parameter.zero_()
'''


@pytest.fixture
def spoilt(tmp_path):
    (tmp_path / "spoilt.py").write_text(METHOD)
    return str(tmp_path / "spoilt.py")


def test_a_diverged_cell_says_so_in_its_record(randbit, tmp_path, spoilt):
    record = run(spoilt, randbit, tmp_path / "out")
    assert record.run.status == "diverged" and record.run.steps == 3 and record.probes == []
    assert "step 3" in record.run.error and record.run.loss is None
    assert run(spoilt, randbit, tmp_path / "out") == record  # no silent retry


def test_a_collapsed_cell_says_so_in_its_record(randbit, tmp_path, spoilt):
    record = run(spoilt, randbit, tmp_path / "out", method__wrong="collapse")
    assert record.run.status == "ok" and record.run.collapsed == ["encoder"]
    [entry] = record.probes
    assert sum(row[0] > 0 for row in zip(*entry.confusion, strict=True)) <= 1 or entry.majority < 0.2


def same_weights(one, two):
    return (one / "encoder.safetensors").read_bytes() == (two / "encoder.safetensors").read_bytes()


@pytest.mark.parametrize("method", ["simclr", "byol", "vae", "supervised"])
def test_one_seed_one_result(randbit, tmp_path, method):
    records = [
        run(method, randbit, tmp_path / name, data__bits=3, seed=seed) for name, seed in (("a", 0), ("b", 0), ("c", 1))
    ]
    assert same_weights(tmp_path / "a", tmp_path / "b") and not same_weights(tmp_path / "a", tmp_path / "c")
    assert records[0].probes == records[1].probes and records[0].run.loss == records[1].run.loss
    assert records[0].id == records[1].id != records[2].id


@pytest.mark.parametrize("method", ["simclr", "vae"])
def test_the_online_probe_changes_no_bit_of_the_encoder(randbit, tmp_path, method):
    run(method, randbit, tmp_path / "off", data__bits=3)
    record = run(method, randbit, tmp_path / "on", data__bits=3, probe__kinds=["lbfgs", "online"])
    assert same_weights(tmp_path / "off", tmp_path / "on")
    assert {entry.probe for entry in record.probes} == {"lbfgs", "online"}


def test_a_finished_cell_is_not_run_again(randbit, tmp_path, monkeypatch):
    first = run("simclr", randbit, tmp_path)
    assert not list(tmp_path.glob("checkpoint*"))
    monkeypatch.setattr(running.loop, "train", None)
    assert run("simclr", randbit, tmp_path) == first


def test_the_untrained_encoder_is_not_trained(randbit, tmp_path):
    record = run("untrained", randbit, tmp_path, data__bits=2)
    assert record.run.steps == 0 and record.run.loss is None
    cell = locate_cell("untrained", randbit, data__bits=2)
    fresh = running.build_method(cell, Data(randbit, 2), 200)
    weights.save(fresh.encoder, tmp_path / "fresh.safetensors", (28, 28, 1))
    assert (tmp_path / "fresh.safetensors").read_bytes() == (tmp_path / "encoder.safetensors").read_bytes()


@pytest.mark.gpu
def test_a_cell_on_a_gpu_is_near_the_cpus(randbit, tmp_path, cuda):
    made = [running.run(make_cell("simclr", randbit, data__bits=2), tmp_path / str(d), d) for d in (CPU, cuda)]
    assert made[1].run.loss == pytest.approx(made[0].run.loss, rel=1e-2)


@pytest.mark.real_data
@pytest.mark.slow
def test_the_notebooks_recipe_on_the_real_mnist(mnist_folder, tmp_path):
    data = make_data("randbit", tmp_path, digit_source=f"mnist:{mnist_folder}", train=3000, test=500)
    record = run("simclr", data, tmp_path / "out", recipe="randbit", train__steps=30, train__batch_size=500)
    entry = next(entry for entry in record.probes if entry.probe == "lbfgs")
    assert sum(row[i] for i, row in enumerate(entry.confusion)) / 500 > 0.8


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"loss__pairs": "given"}, "use it with moco"), ({"loss__temperature": 0.0}, "temperature must be above 0")],
)
def test_options_that_the_loss_refuses_are_found_before_anything_trains(randbit, settings, words):
    with pytest.raises(UserError, match=f"^simclr.* seed=0: .*{words}"):
        running.check(make_cell("simclr", randbit, **settings))
    running.check(make_cell("moco", randbit, loss__pairs="given"))
