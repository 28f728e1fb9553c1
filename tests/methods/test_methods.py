"""Every method: a gradient for every encoder parameter, batches of two, honest features; then each one's own rule."""

import copy
import math

import pytest
import torch
from small_cells import built
from torch.nn import functional as F

from generators import catalog
from suppression_bench.encoders.randbit_conv import RandBitConv
from suppression_bench.method import Batch, Info, Output, Target
from suppression_bench.methods.byol import BYOL
from suppression_bench.methods.supervised import Supervised

METHODS = [name for name in catalog.names("suppression_bench.methods") if name != "untrained"]


def batch_of(data, method, count=8):
    """The first samples, whole; the second view is mirrored."""
    whole = data.samples("pretrain").whole(slice(0, count))
    views = [whole, whole.flip(3)][: method.views]
    labels = None
    if method.needs_labels:
        labels = {name: torch.from_numpy(data.labels("pretrain", name)[:count]) for name in data.targets()}
    return Batch(views, torch.arange(count), labels)


@pytest.mark.parametrize("encoder", ["randbit_conv", "resnet18"])
@pytest.mark.parametrize("name", METHODS)
def test_every_encoder_parameter_gets_a_gradient(name, encoder, randbit):
    method, data = built(name, randbit, data__bits=2, encoder__name=encoder)
    output = method.train().loss(batch_of(data, method))
    assert isinstance(output, Output) and output.loss.shape == () and torch.isfinite(output.loss)
    assert output.features.shape == (8, method.encoder.width)
    output.loss.backward()
    for parameter_name, parameter in method.encoder.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().max() > 0, parameter_name


@pytest.mark.parametrize("name", METHODS)
def test_the_features_are_the_encoders_on_the_first_view(name, randbit):
    method, data = built(name, randbit, data__bits=2)
    batch = batch_of(data, method)
    features = method.train().loss(batch).features
    torch.testing.assert_close(features, method.encoder(batch.views[0]))


@pytest.mark.parametrize("name", METHODS)
def test_a_batch_of_two_works(name, randbit):
    method, data = built(name, randbit, data__bits=2)
    output = method.train().loss(batch_of(data, method, count=2))
    output.loss.backward()
    assert torch.isfinite(output.loss)


@pytest.mark.parametrize("name", [*METHODS, "untrained"])
def test_the_projection_is_one_vector_a_sample(name, randbit):
    method, _ = built(name, randbit)
    assert method.eval().project(torch.rand(3, method.encoder.width)).shape[0] == 3


@pytest.mark.parametrize("name", METHODS)
def test_flags_tell_the_truth(name, randbit):
    method, data = built(name, randbit, data__bits=2)
    batch = batch_of(data, method)
    assert method.trains and len(batch.views) == method.views >= 1
    blind = Batch(batch.views, batch.ids, None)
    if method.needs_labels:
        assert method.info.targets
        with pytest.raises(KeyError):
            method.loss(blind)
    else:
        assert method.info.targets == {}
        method.loss(blind)


# BYOL


@pytest.fixture
def byol(randbit):
    return built("byol", randbit, data__bits=2, method__momentum=0.9)


def test_byols_loss_is_the_papers(byol):
    method, data = byol
    batch = batch_of(data, method)
    value = method.train().loss(batch).loss.item()
    expected = 0.0
    for mine, other in ((0, 1), (1, 0)):
        predicted = method.predictor(method.head(method.encoder(batch.views[mine])))
        target = method.target_head(method.target_encoder(batch.views[other]))
        a, b = F.normalize(predicted, dim=1), F.normalize(target, dim=1)
        expected += (a - b).square().sum(1).mean().item()  # eq. 2
    assert value == pytest.approx(expected, rel=1e-5)


def test_byols_target_starts_equal_and_gets_no_gradient(byol):
    method, data = byol
    for moving, online in ((method.target_encoder, method.encoder), (method.target_head, method.head)):
        assert all(
            torch.equal(a, b) for a, b in zip(moving.state_dict().values(), online.state_dict().values(), strict=True)
        )
    method.train().loss(batch_of(data, method)).loss.backward()
    targets = [*method.target_encoder.parameters(), *method.target_head.parameters()]
    assert targets and all(p.grad is None and not p.requires_grad for p in targets)
    assert all(p.grad is not None for p in [*method.head.parameters(), *method.predictor.parameters()])


def test_byols_target_is_the_moving_average(byol):
    method, _ = byol
    before = copy.deepcopy(method.target_encoder)
    with torch.no_grad():
        for parameter in method.encoder.parameters():
            parameter += 1
    method.after_step(0.25)
    rate = 1 - 0.1 * (math.cos(math.pi / 4) + 1) / 2
    pairs = zip(before.parameters(), method.encoder.parameters(), method.target_encoder.parameters(), strict=True)
    for old, online, new in pairs:
        torch.testing.assert_close(new, rate * old + (1 - rate) * online)
    assert not torch.equal(next(before.parameters()), next(method.target_encoder.parameters()))


def test_byols_momentum_rises_from_its_start_to_one():
    method = BYOL(RandBitConv(28, 1), Info((28, 28, 1), 0, 10, {}), head=[4], predictor=[4], momentum=0.8)
    rates = []
    for progress in (1e-9, 0.3, 0.5, 0.8, 1.0):
        with torch.no_grad():
            for moving, online in zip(method.target_head.parameters(), method.head.parameters(), strict=True):
                moving.zero_()
                online.fill_(1.0)
        method.after_step(progress)
        rates.append(1 - next(method.target_head.parameters()).flatten()[0].item())
    assert rates[0] == pytest.approx(0.8, abs=1e-6) and rates[2] == pytest.approx(0.9, abs=1e-6) and rates[-1] == 1
    assert rates == sorted(rates)


# Supervised


def test_supervised_has_a_head_for_each_target_bits_included(randbit):
    method, data = built("supervised", randbit, data__bits=3)
    assert {name: (t.classes, t.many) for name, t in data.targets().items()} == {
        "digit": (10, False), "bit00": (2, False), "bit01": (2, False), "bit02": (2, False),
    }  # fmt: skip
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


def test_supervised_predicts_a_set_by_one_choice_per_class(sizes):
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
