"""The online probe: watches only, and each feature's layer learns as if it were alone."""

import numpy as np
import pytest
import torch
from small_cells import CPU, make_data, run
from torch import nn
from torch.nn import functional as F

from suppression_bench.cell import Train
from suppression_bench.evaluation.probes import OnlineProbe, Task

TRAINING = Train(steps=6, learning_rate=1e-2, weight_decay=0.5, schedule="linear", epsilon=1e-7)


@pytest.fixture
def tasks():
    rng = np.random.default_rng(0)
    return [Task("digit", 10, rng.integers(0, 10, 40)), Task("bit00", 2, rng.integers(0, 2, 40))]


def batches():
    generator = torch.Generator().manual_seed(0)
    for step in range(6):
        yield step, torch.randn(8, 5, generator=generator), torch.randint(0, 40, (8,), generator=generator)


def trained(tasks, seed=3):
    probe = OnlineProbe(5, tasks, TRAINING, 6, 0, seed, CPU)
    for step, features, index in batches():
        probe(step, features, index)
    return probe


def test_each_layer_is_a_plain_dense_layer_with_the_recipes_optimizer(tasks):
    start, probe = OnlineProbe(5, tasks, TRAINING, 6, 0, 3, CPU), trained(tasks)
    for task, first, last in zip(tasks, start.probes(), probe.probes(), strict=True):
        layer = nn.Linear(5, task.classes)
        layer.weight.data, layer.bias.data = first.weights[:-1].T.clone(), first.weights[-1].clone()
        optimizer = torch.optim.Adam(layer.parameters(), eps=1e-7)
        for step, features, index in batches():
            optimizer.param_groups[0]["lr"] = 1e-2 * (1 - step / 6)
            optimizer.zero_grad()
            F.cross_entropy(layer(features), torch.from_numpy(task.labels)[index]).backward()
            optimizer.step()
        torch.testing.assert_close(last.weights[:-1].T, layer.weight.detach())
        torch.testing.assert_close(last.weights[-1], layer.bias.detach())
        assert (last.feature, last.kind, last.l2) == (task.feature, "online", None)
        probes_scores = layer(features)
        assert torch.equal(last.predict(features), probes_scores.argmax(1))


def test_glorot_start(tasks):
    probe = OnlineProbe(500, tasks, TRAINING, 6, 0, 3, CPU)
    for task, made in zip(tasks, probe.probes(), strict=True):
        bound = (6 / (500 + task.classes)) ** 0.5
        assert 0.97 * bound < made.weights[:-1].abs().max() <= bound and made.weights[-1].abs().max() == 0


def test_nothing_flows_back_and_no_random_number_is_taken(tasks):
    features = torch.randn(8, 5, requires_grad=True)
    state = torch.random.get_rng_state()
    probe = OnlineProbe(5, tasks, TRAINING, 6, 0, 3, CPU)
    probe(0, features.detach(), torch.arange(8))
    assert features.grad is None and torch.equal(torch.random.get_rng_state(), state)


def test_its_state_goes_on_exactly(tasks):
    whole, first = trained(tasks), OnlineProbe(5, tasks, TRAINING, 6, 0, 3, CPU)
    steps = list(batches())
    for one in steps[:3]:
        first(*one)
    second = OnlineProbe(5, tasks, TRAINING, 6, 0, 99, CPU)
    second.load_state_dict(first.state_dict())
    for one in steps[3:]:
        second(*one)
    for a, b in zip(whole.probes(), second.probes(), strict=True):
        assert torch.equal(a.weights, b.weights)


@pytest.mark.slow
def test_it_learns_beside_a_method(randbit, tmp_path):
    settings = dict(data__bits=2, probe__kinds=["online"], train__steps=150, train__learning_rate=1e-2)
    record = run("supervised", randbit, tmp_path, **settings)
    found = {entry.feature: entry for entry in record.probes}
    assert set(found) == {"digit", "bit00", "bit01"} and all(e.probe == "online" for e in found.values())
    assert found["digit"].accuracy > 0.5 and found["bit00"].accuracy > 0.8


def test_features_whose_labels_pretraining_lacks_are_left_out(tmp_path):
    # With two digits of one size no pretraining sample has *the* digit: there is nothing to learn online.
    data = make_data("multidigits", tmp_path, count=2, canvas=56, train=40, probe_train=40, probe_test=20)
    settings = dict(
        recipe="randbit-small", encoder__name="randbit_conv", train__batch_size=20, probe__kinds=["lbfgs", "online"]
    )
    record = run("simclr", data, tmp_path / "out", **settings)
    assert record.run.status == "ok" and [e.probe for e in record.probes] == ["lbfgs"]
