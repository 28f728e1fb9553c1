"""BYOL: eq. 2 by a second writing, and the target that follows as a moving average."""

import copy
import math

import pytest
import torch
from small_cells import built
from torch.nn import functional as F

from suppression_bench.encoders.randbit_conv import RandBitConv
from suppression_bench.method import Info
from suppression_bench.methods.byol import BYOL


@pytest.fixture
def byol(randbit):
    return built("byol", randbit, data__bits=2, method__momentum=0.9)


def test_byols_loss_is_the_papers(byol, batch_of):
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


def test_byols_target_starts_equal_and_gets_no_gradient(byol, batch_of):
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
