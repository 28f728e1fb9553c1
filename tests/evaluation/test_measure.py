"""Measuring a method: features in evaluation mode, test data read last, permuted labels, absent classes, collapse."""

import dataclasses

import numpy as np
import pytest
import torch
from small_cells import CPU, Recorder, accuracy, built, make_data, run
from torch import nn

from suppression_bench.cell import Probing
from suppression_bench.evaluation import probes as measuring
from suppression_bench.evaluation.probes import extract
from suppression_bench.training.data import Data

OPTIONS = Probing(l2=[1e-3, 1e-1], kinds=["lbfgs", "sgd"])


@pytest.fixture(scope="module")
def method(randbit):
    return built("simclr", randbit, data__bits=4)[0]


class Permuted(Data):
    """The data with the labels of one split in another order."""

    split = "probe-test"

    def labels(self, split, feature):
        found = super().labels(split, feature)
        return np.random.default_rng(0).permutation(found) if split == self.split else found


def measured(data, method, monkeypatch, options=OPTIONS):
    """The entries, and every fitted probe."""
    fitted = []

    def spy(name):
        original = getattr(measuring, name)

        def fit(*arguments, **more):
            made = original(*arguments, **more)
            fitted.extend(made)
            return made

        monkeypatch.setattr(measuring, name, fit)

    with monkeypatch.context():
        spy("fit_lbfgs")
        spy("fit_sgd")
        found, collapsed, finite = measuring.measure(data, method, options, {}, 0, CPU)
    assert finite
    return found, collapsed, fitted


def test_permuted_test_labels_change_no_probe(method, randbit, monkeypatch):
    found, _, fitted = measured(Data(randbit, 4), method, monkeypatch)
    monkeypatch.undo()
    other, _, again = measured(Permuted(randbit, 4), method, monkeypatch)
    assert len(fitted) == len(again) == 2 * 5
    for one, two in zip(fitted, again, strict=True):
        assert torch.equal(one.weights, two.weights) and one.l2 == two.l2
        assert torch.equal(one.mean, two.mean) and torch.equal(one.deviation, two.deviation)
    for one, two in zip(found, other, strict=True):
        same = ("feature", "probe", "l2", "converged", "train_correct", "train_n", "n", "absent")
        assert [one[key] for key in same] == [two[key] for key in same]
    true, permuted = (next(accuracy(e) for e in entries if e["feature"] == "digit") for entries in (found, other))
    assert true > 0.4 > 0.25 > permuted


def test_the_test_split_is_read_after_the_last_fit(method, randbit, monkeypatch):
    events = []

    class Watched(Data):
        def samples(self, split, device="cpu"):
            events.append(split)
            return super().samples(split, device)

        def labels(self, split, feature):
            events.append(split)
            return super().labels(split, feature)

    for name in ("fit_lbfgs", "fit_sgd"):
        original = getattr(measuring, name)
        monkeypatch.setattr(measuring, name, lambda *a, f=original, **k: (events.append("fit"), f(*a, **k))[1])
    measuring.measure(Watched(randbit, 4), method, OPTIONS, {}, 0, CPU)
    assert events.count("fit") == 2
    assert max(i for i, e in enumerate(events) if e == "fit") < min(
        i for i, e in enumerate(events) if e == "probe-test"
    )


def test_permuted_train_labels_are_at_chance(method, randbit, monkeypatch):
    data = Permuted(randbit, 4)
    data.split = "pretrain"
    found, *_ = measured(data, method, monkeypatch)
    for entry in found:
        spread = (entry["chance"] * (1 - entry["chance"]) / entry["n"]) ** 0.5
        assert abs(accuracy(entry) - entry["chance"]) < 3 * spread, entry["feature"]


def test_entries_follow_from_the_data(method, randbit, monkeypatch):
    data = Data(randbit, 4)
    found, collapsed, fitted = measured(data, method, monkeypatch)
    assert sorted(e["feature"] for e in found[:5]) == ["bit00", "bit01", "bit02", "bit03", "digit"] and not collapsed
    features = extract(method, data.samples("probe-test"), ["encoder"], 30)["encoder"]
    for entry, probe in zip(found, fitted, strict=True):
        truth = data.labels("probe-test", entry["feature"])
        assert entry["n"] == 100 and entry["train_n"] == 200 and entry["splits"] == ["pretrain", "probe-test"]
        assert [sum(row) for row in entry["confusion"]] == np.bincount(
            truth, minlength=len(entry["confusion"])
        ).tolist()
        assert accuracy(entry) == pytest.approx((probe.predict(features).numpy() == truth).mean())
        assert entry["chance"] == (0.1 if entry["feature"] == "digit" else 0.5)
        assert entry["majority"] == np.bincount(truth).max() / 100


def test_features_of_two_sizes_come_from_their_own_splits(sizes, monkeypatch):
    method, data = built("untrained", sizes, encoder__name="randbit_conv")
    found, *_ = measured(data, method, monkeypatch, Probing(l2=[1e-2]))
    assert {e["feature"]: e["splits"] for e in found} == {
        "digit_12": ["probe-train-12", "probe-test-12"],
        "digit_20": ["probe-train-20", "probe-test-20"],
    }


def test_absent_classes_are_recorded(tmp_path):
    record = run("untrained", make_data("randbit", tmp_path, train=7, test=30), tmp_path / "out")
    [entry] = record.probes
    assert entry.absent == [7, 8, 9] and entry.n == 30


def test_extraction_leaves_the_method_as_it_was(randbit):
    method, data = built("simclr", randbit, data__bits=4)
    method.train()
    before = {name: value.clone() for name, value in method.state_dict().items()}
    modes = [module.training for module in method.modules()]
    one = extract(method, data.samples("probe-test"), ["encoder", "head"], 1000)
    assert all(torch.equal(value, before[name]) for name, value in method.state_dict().items())
    assert method.training and [module.training for module in method.modules()] == modes
    other = extract(method, data.samples("probe-test"), ["encoder", "head"], 7)
    for layer, width in (("encoder", 128), ("head", 64)):
        assert one[layer].shape == (100, width) and one[layer].dtype == torch.float32
        torch.testing.assert_close(one[layer], other[layer])  # in training mode the batch would count
        assert not one[layer].requires_grad


def test_the_images_that_are_probed_are_whole_and_have_their_bits(randbit):
    method, data = Recorder(), Data(randbit, 4)
    method.encoder = Keep()
    extract(method, data.samples("probe-test"), ["encoder"], 40)
    shown = torch.cat(method.encoder.seen)
    assert [len(part) for part in method.encoder.seen] == [40, 40, 20]
    images, _ = data.samples("probe-test").take(slice(None))
    assert np.allclose(shown[:, 0].numpy() * 255, images[:, 0])
    for bit in range(4):
        plane = torch.from_numpy(data.labels("probe-test", f"bit{bit:02d}")).float()[:, None, None].expand(-1, 28, 28)
        assert torch.equal(shown[:, 1 + bit], plane)


class Keep(nn.Module):
    """Remembers what it is shown."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def forward(self, pictures):
        self.seen.append(pictures)
        return pictures.flatten(1)[:, :3]


@pytest.mark.parametrize("level", [0.0, 0.3, 3.7, 100.3, 1000.3])
def test_a_collapsed_encoder_is_named(randbit, level, monkeypatch):
    method = Recorder()
    method.encoder.forward = lambda pictures: torch.full((len(pictures), 3), level)
    found, collapsed, _ = measured(Data(randbit, 4), method, monkeypatch)
    assert collapsed == ["encoder"]
    assert all(accuracy(entry) <= entry["majority"] for entry in found)


def test_features_that_are_not_finite_are_not_probed(randbit):
    method = Recorder()
    method.encoder.forward = lambda pictures: torch.full((len(pictures), 3), float("nan"))
    assert measuring.measure(Data(randbit, 4), method, OPTIONS, {}, 0, CPU) == ([], [], False)


def test_the_online_probe_is_measured_beside_the_others(method, randbit):
    data = Data(randbit, 4)
    tasks = [measuring.Task("digit", 10, data.labels("pretrain", "digit"))]
    [probe] = measuring.fit_sgd(torch.rand(200, 128), tasks)
    online = {"digit": dataclasses.replace(probe, kind="online")}
    found, *_ = measuring.measure(data, method, Probing(kinds=["online"]), online, 0, CPU)
    assert [(e["feature"], e["probe"], e["layer"]) for e in found] == [("digit", "online", "encoder")]


def test_the_encoder_sees_each_split_once_whatever_the_features(randbit):
    method, data = built("simclr", randbit, data__bits=4)
    seen = []
    method.encoder.register_forward_pre_hook(lambda module, inputs: seen.append(len(inputs[0])))
    found, *_ = measuring.measure(
        data, method, Probing(l2=[1e-2], kinds=["lbfgs", "sgd"], layers=["encoder", "head"]), {}, 0, CPU
    )
    assert len({entry["feature"] for entry in found}) == 5
    assert seen == [200, 100]  # the train split, then the test split
