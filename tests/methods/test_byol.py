"""BYOL: eq. 2 by a second writing, and the target that follows as a moving average."""

import copy
import math

import pytest
import torch
from small_cells import built
from torch.nn import functional as F


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


@pytest.mark.parametrize("progress", [1e-9, 0.25, 0.5, 1.0])
def test_byols_target_is_a_moving_average_whose_momentum_rises_to_one(byol, progress):
    method, _ = byol
    pairs = [(method.target_encoder, method.encoder), (method.target_head, method.head)]
    before = [copy.deepcopy(target) for target, _ in pairs]
    with torch.no_grad():
        for parameter in [*method.encoder.parameters(), *method.head.parameters()]:
            parameter += 1
    method.after_step(progress)
    rate = 1 - 0.1 * (math.cos(math.pi * progress) + 1) / 2
    for old, (target, online) in zip(before, pairs, strict=True):
        for mine in zip(old.parameters(), online.parameters(), target.parameters(), strict=True):
            torch.testing.assert_close(mine[2], rate * mine[0] + (1 - rate) * mine[1])
