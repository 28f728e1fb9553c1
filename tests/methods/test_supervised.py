"""The supervised ceiling: a head for each target, bits included, and a set as one choice per class."""

import pytest
import torch
from small_cells import built

from suppression_bench.method import Target


def test_supervised_has_a_head_for_each_target_bits_included(randbit, batch_of):
    method, data = built("supervised", randbit, data__bits=3)
    assert {name: (t.classes, t.many) for name, t in data.targets().items()} == {
        "digit": (10, False),
        "bit00": (2, False),
        "bit01": (2, False),
        "bit02": (2, False),
    }
    assert {name: head.out_features for name, head in method.heads.items()} == {
        "digit": 10,
        "bit00": 2,
        "bit01": 2,
        "bit02": 2,
    }
    batch = batch_of(data, method)
    features = method.train().encoder(batch.views[0])
    expected = 0.0
    for name, head in method.heads.items():
        shares = torch.log_softmax(head(features), 1)
        expected -= sum(shares[i, int(label)].item() for i, label in enumerate(batch.labels[name])) / 8
    assert method.loss(batch).loss.item() == pytest.approx(expected, rel=1e-5)


def test_supervised_predicts_a_set_by_one_choice_per_class(sizes, batch_of):
    method, data = built("supervised", sizes, encoder__name="randbit_conv")
    assert data.targets() == {"digits": Target(10, many=True)}
    labels = data.labels("pretrain", "digits")
    assert labels.shape == (60, 10) and set(labels.sum(1)) <= {1.0, 2.0} and set(labels.flatten()) == {0.0, 1.0}
    batch = batch_of(data, method)
    shares = torch.sigmoid(method.heads["digits"](method.train().encoder(batch.views[0])))
    wanted = batch.labels["digits"]
    expected = -(wanted * shares.log() + (1 - wanted) * (1 - shares).log()).mean().item()
    assert method.loss(batch).loss.item() == pytest.approx(expected, rel=1e-5)
