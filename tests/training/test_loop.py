"""The training loop: what a method is shown, what it may not see, repeatability, divergence, observers."""

import numpy as np
import pytest
import torch
from small_cells import Recorder

from generators.dataset import UserError
from suppression_bench.cell import Augmentation, Train
from suppression_bench.training.loop import train


def trained(data, method=None, *, seed=0, augmentation=None, labels=None, observers=(), **training):
    method = method or Recorder()
    training = Train(**{"batch_size": 50, "epochs": 2, **training})
    outcome = train(
        method,
        data.samples("pretrain"),
        training,
        augmentation or Augmentation(crop="none"),
        seed=seed,
        labels=labels,
        observers=observers,
    )
    return method, outcome


def positions(batches, data):
    """Which samples a batch holds, found by their images and bits."""
    whole = data.samples("pretrain").whole(slice(None)).flatten(1)
    position_of = {tuple(row): i for i, row in enumerate(whole.tolist())}
    assert len(position_of) == len(whole)
    return [[position_of[tuple(row)] for row in batch.views[0].flatten(1).tolist()] for batch in batches]


def test_every_sample_once_an_epoch_in_a_new_order(four_bits):
    method, outcome = trained(four_bits)
    shown = positions(method.batches, four_bits)
    first, second = ([position for batch in shown[start : start + 4] for position in batch] for start in (0, 4))
    assert outcome.status == "ok" and outcome.steps == 8 and len(shown) == 8
    assert sorted(first) == sorted(second) == list(range(200)) and first != second
    assert first != list(range(200)) and sum(a == b for a, b in zip(first, second, strict=True)) < 10


def test_without_shuffling_the_batches_repeat_in_file_order(four_bits):
    method, _ = trained(four_bits, shuffle=False, batch_size=60)
    shown = positions(method.batches, four_bits)
    assert shown[:3] == shown[3:] == [list(range(start, start + 60)) for start in (0, 60, 120)]


def test_ids_are_a_permutation_that_tells_nothing_of_the_order(four_bits):
    method, _ = trained(four_bits)
    ids = torch.cat([batch.ids for batch in method.batches]).numpy()
    shown = np.concatenate(positions(method.batches, four_bits))
    id_of = dict(zip(shown[:200], ids[:200], strict=True))
    assert all(id_of[sample] == number for sample, number in zip(shown[200:], ids[200:], strict=True))  # epoch two
    table = np.array([id_of[sample] for sample in range(200)])
    assert sorted(table) == list(range(200))
    assert abs(np.corrcoef(table, np.arange(200))[0, 1]) < 0.25 and (table == np.arange(200)).sum() < 8
    method, _ = trained(four_bits, seed=1)
    again = dict(
        zip(
            np.concatenate(positions(method.batches, four_bits)),
            torch.cat([b.ids for b in method.batches]).tolist(),
            strict=True,
        )
    )
    assert sum(again[sample] == id_of[sample] for sample in range(200)) < 10


def test_labels_belong_to_their_samples(four_bits):
    assert all(batch.labels is None for batch in trained(four_bits)[0].batches)
    labels = {"digit": torch.from_numpy(four_bits.labels("pretrain", "digit"))}
    method, _ = trained(four_bits, labels=labels)
    for batch, shown in zip(method.batches, positions(method.batches, four_bits), strict=True):
        assert torch.equal(batch.labels["digit"], labels["digit"][shown])


def test_progress_runs_to_one(four_bits):
    method, _ = trained(four_bits)
    assert method.progress == pytest.approx([step / 8 for step in range(1, 9)])


def test_the_learning_rate_follows_the_schedule(four_bits, monkeypatch):
    rates = []
    original = torch.optim.SGD.step
    monkeypatch.setattr(
        torch.optim.SGD, "step", lambda self, *a: (rates.append(self.param_groups[0]["lr"]), original(self, *a))[1]
    )
    trained(four_bits, optimizer="sgd", learning_rate=0.4, schedule="linear", warmup_epochs=1)
    assert rates == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.4, 0.3, 0.2, 0.1])


class Watcher:
    def __init__(self):
        self.calls = []

    def __call__(self, step, features, index):
        assert not features.requires_grad
        self.calls.append((step, features.clone(), index.clone()))

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


def test_observers_get_the_samples_numbers_and_the_first_views_features(four_bits):
    watcher = Watcher()
    method, _ = trained(four_bits, observers=[watcher], learning_rate=1e-30)
    shown = positions(method.batches, four_bits)
    for (_, features, index), positions_of_batch, batch in zip(watcher.calls, shown, method.batches, strict=True):
        assert index.tolist() == positions_of_batch
        torch.testing.assert_close(features, method.encoder(batch.views[0]))
    assert [step for step, *_ in watcher.calls] == list(range(8))


@pytest.mark.parametrize("bad", [1, 7, 60])
def test_a_loss_that_is_not_finite_ends_training_and_names_the_step(four_bits, bad):
    _, outcome = trained(four_bits, Recorder(bad=bad), epochs=None, steps=60)
    assert (outcome.status, outcome.steps) == ("diverged", bad)
    _, outcome = trained(four_bits, Recorder(bad=0), epochs=None, steps=60)
    assert (outcome.status, outcome.steps) == ("ok", 60) and np.isfinite(outcome.loss)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({}, "train: give exactly one of steps and epochs"),
        ({"steps": 3, "epochs": 3}, "train: give exactly one"),
        ({"steps": 0}, "train.steps"),
        ({"epochs": -1}, "train.epochs"),
        ({"steps": 3, "batch_size": 0}, "train.batch_size"),
        ({"steps": 1, "micro_batch": 0}, "train.micro_batch must be above 0, got 0"),
        ({"steps": 1, "micro_batch": 9, "batch_size": 8}, r"train.micro_batch must be at most .* \(8\), got 9"),
        ({"steps": 1, "micro_batch": 1, "batch_size": 8}, "train.micro_batch 1 leaves a part of one sample"),
        ({"steps": 1, "micro_batch": 3, "batch_size": 10}, "train.micro_batch 3 leaves a part of one sample"),
        *[({"steps": 3, "schedule": "step", "decay": decay}, "train.decay") for decay in (0, 2.0)],
        *[({"steps": 3, "schedule": "step", "milestones": m}, "train.milestones") for m in ([0.9, 0.8], [0.5, 1.0])],
    ],
)
def test_impossible_trainings_are_refused(wrong, words):
    with pytest.raises(UserError, match=words):
        Train(**wrong)


def test_a_batch_larger_than_the_data_is_refused(four_bits):
    with pytest.raises(UserError, match=r"201.*200"):
        trained(four_bits, batch_size=201)
