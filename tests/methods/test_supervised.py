"""The supervised ceiling: a head for each target, bits included, and a set as one choice per class."""

import pytest
import torch
from small_cells import built
from torch.nn import functional as F

from suppression_bench.encoders.randbit_conv import RandBitConv
from suppression_bench.method import Batch, Info, Target
from suppression_bench.methods.supervised import Supervised


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


def test_supervised_adds_up_its_targets():
    torch.manual_seed(0)
    info = Info((28, 28, 1), 0, 4, {"one": Target(3), "two": Target(4, many=True)})
    method = Supervised(RandBitConv(28, 1), info).eval()
    view, one, two = torch.rand(4, 1, 28, 28), torch.tensor([0, 1, 2, 1]), torch.eye(4)
    both = method.loss(Batch([view], torch.arange(4), {"one": one, "two": two})).loss
    features = method.encoder(view)
    parts = (
        F.cross_entropy(method.heads["one"](features), one),
        F.binary_cross_entropy_with_logits(method.heads["two"](features), two),
    )
    assert both.item() == pytest.approx(sum(parts).item(), rel=1e-6)
