"""Optimizers, schedules and initialisation: coupled weight decay, LARS by a second writing, values by hand."""

import copy
import math

import pytest
import torch
from torch import nn

from suppression_bench.cell import Train
from suppression_bench.encoders.randbit_conv import RandBitConv
from suppression_bench.training import optim


def small_net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3)).double()


def steps(net, optimizer, count=5, extra=lambda net: 0.0):
    generator = torch.Generator().manual_seed(1)
    for _ in range(count):
        x = torch.randn(8, 4, generator=generator, dtype=torch.float64)
        loss = (net(x) - x[:, :3]).square().mean() + extra(net)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return [p.detach().clone() for p in net.parameters()]


def build(module, name, *, learning_rate, weight_decay, momentum=0.9, epsilon=1e-8):
    training = Train(steps=1, optimizer=name, learning_rate=learning_rate, momentum=momentum, epsilon=epsilon)
    return optim.build_optimizer(module, training, weight_decay)


def l2(net):
    return 1e-4 * sum(p.square().sum() for p in net.parameters() if p.ndim > 1)


def test_adams_weight_decay_is_kerass_penalty_on_kernels_alone():
    ours, theirs = small_net(), small_net()
    training = Train(steps=5, learning_rate=1e-2, weight_decay=2e-4, epsilon=1e-7, optimizer="adam")
    weights = steps(ours, optim.build_optimizer(ours, training, training.weight_decay))
    expected = steps(theirs, torch.optim.Adam(theirs.parameters(), lr=1e-2, eps=1e-7), extra=l2)
    for a, b in zip(weights, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-12)
    without = small_net()
    plain = steps(without, torch.optim.Adam(without.parameters(), lr=1e-2, eps=1e-7))
    assert max((a - b).abs().max() for a, b in zip(weights, plain, strict=True)) > 1e-5


def test_decoupled_decay_is_another_thing():
    coupled_net, decoupled_net = small_net(), small_net()
    options = dict(learning_rate=1e-2, weight_decay=1e-1, momentum=0.9, epsilon=1e-7)
    weights = steps(coupled_net, build(coupled_net, "adam", **options))
    decoupled = steps(decoupled_net, build(decoupled_net, "adamw", **options))
    assert (weights[0] - decoupled[0]).abs().max() > 1e-3


@pytest.mark.parametrize("name", ["adam", "adamw", "sgd", "lars"])
def test_biases_and_batch_norm_never_decay(name):
    net = RandBitConv(28, 3)
    optimizer = build(net, name, learning_rate=0.5, weight_decay=0.25, momentum=0.8, epsilon=1e-5)
    decays = {id(p): group["weight_decay"] for group in optimizer.param_groups for p in group["params"]}
    for parameter in net.parameters():
        assert decays[id(parameter)] == (0.25 if parameter.ndim > 1 else 0.0)
    for group in optimizer.param_groups:
        assert group["lr"] == 0.5
        assert group.get("momentum", 0.8) == 0.8 and group.get("eps", 1e-5) == 1e-5


def test_frozen_parameters_stay_outside():
    net = small_net()
    net[0].requires_grad_(False)
    assert sum(len(group["params"]) for group in optim.parameter_groups(net, 0.1)) == 4


def naive_lars(parameters, gradients, lr, momentum, decay, trust):
    """Algorithm 1 of You et al. (2017) on flat lists, vectors without axes for the scaling left plain."""
    velocities = [[0.0] * len(p) for p, _ in parameters]
    for grads in gradients:
        for (values, kernel), gradient, velocity in zip(parameters, grads, velocities, strict=True):
            full = [g + (decay if kernel else 0.0) * w for g, w in zip(gradient, values, strict=True)]
            size, change = (math.sqrt(sum(x * x for x in xs)) for xs in (values, full))
            ratio = trust * size / change if kernel and size > 0 and change > 0 else 1.0
            for i, x in enumerate(full):
                velocity[i] = momentum * velocity[i] + lr * ratio * x
                values[i] -= velocity[i]
    return [values for values, _ in parameters]


def test_lars_against_a_second_writing():
    torch.manual_seed(2)
    shapes = [(3, 4), (4,), (2, 1, 3, 3), (2, 2)]
    module = nn.ParameterList([nn.Parameter(torch.randn(shape, dtype=torch.float64)) for shape in shapes])
    module[3].data.zero_()  # a kernel of zeros must still move
    gradients = [[torch.randn(shape, dtype=torch.float64) for shape in shapes] for _ in range(5)]
    start = [(p.detach().flatten().tolist(), p.ndim > 1) for p in module]
    expected = naive_lars(start, [[g.flatten().tolist() for g in step] for step in gradients], 0.3, 0.9, 0.05, 0.001)
    optimizer = build(module, "lars", learning_rate=0.3, weight_decay=0.05, momentum=0.9, epsilon=1e-8)
    for step in gradients:
        for parameter, gradient in zip(module, step, strict=True):
            parameter.grad = gradient.clone()
        optimizer.step()
    for parameter, values in zip(module, expected, strict=True):
        torch.testing.assert_close(parameter.flatten(), torch.tensor(values, dtype=torch.float64), rtol=1e-10, atol=0)


def test_lars_by_hand():
    # |w| = 5, |g| = 2: ratio .001 * 5 / 2 = .0025, so one step of rate .1 moves w by .1 * .0025 * 2 = .0005.
    kernel, bias = nn.Parameter(torch.tensor([[3.0, 4.0]]).double()), nn.Parameter(torch.tensor([1.0]).double())
    optimizer = build(nn.ParameterList([kernel, bias]), "lars", learning_rate=0.1, weight_decay=0.0)
    kernel.grad, bias.grad = torch.tensor([[0.0, 2.0]]).double(), torch.tensor([2.0]).double()
    optimizer.step()
    assert kernel.tolist() == [[3.0, pytest.approx(3.9995, rel=1e-12)]] and bias.item() == pytest.approx(0.8)
    bias.grad = torch.zeros(1).double()
    optimizer.step()
    assert bias.item() == pytest.approx(0.8 - 0.9 * 0.2)


def test_schedules():
    assert [optim.schedule_factor("linear", s, 600, 0) for s in (0, 150, 599)] == pytest.approx([1, 0.75, 1 / 600])
    assert [optim.schedule_factor("cosine", s, 8, 0) for s in (0, 2, 4, 6)] == pytest.approx(
        [1, (1 + 0.5**0.5) / 2, 0.5, (1 - 0.5**0.5) / 2]
    )
    assert [optim.schedule_factor("constant", s, 8, 0) for s in (0, 7)] == [1, 1]
    assert [optim.schedule_factor("cosine", s, 12, 4) for s in (0, 1, 3, 4, 8)] == pytest.approx([0.25, 0.5, 1, 1, 0.5])
    assert optim.schedule_factor("linear", 2, 3, 5) == pytest.approx(0.6)  # training ends inside the warm-up


def test_set_rate_reaches_every_group():
    optimizer = build(small_net(), "sgd", learning_rate=1, weight_decay=0)
    optim.set_learning_rate(optimizer, 0.125)
    assert [group["lr"] for group in optimizer.param_groups] == [0.125, 0.125]


def test_glorot_bounds():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(8, 64, 3), nn.BatchNorm2d(64), nn.Linear(300, 200), nn.ConvTranspose2d(64, 8, 3))
    before = copy.deepcopy(net[1].state_dict())
    optim.glorot(net)
    bounds = {0: math.sqrt(6 / (9 * 8 + 9 * 64)), 2: math.sqrt(6 / 500), 3: math.sqrt(6 / (9 * 8 + 9 * 64))}
    for position, bound in bounds.items():
        weight = net[position].weight
        assert 0.99 * bound < weight.abs().max() <= bound * (1 + 1e-6)
        assert weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.03) and net[position].bias.abs().max() == 0
    assert all(torch.equal(value, before[name]) for name, value in net[1].state_dict().items())


def test_the_step_schedule_falls_at_its_milestones():
    # Wang & Liu (2021): x.1 at epochs 160 and 190 of 200, here of 100 steps each.
    training = Train(epochs=200, schedule="step", learning_rate=0.03)
    rates = [optim.learning_rate(training, step, 20000, 0) for step in (0, 15999, 16000, 18999, 19000, 19999)]
    assert rates == pytest.approx([0.03, 0.03, 0.003, 0.003, 0.0003, 0.0003])
    other = Train(steps=10, schedule="step", milestones=[0.1, 0.35, 0.5], decay=0.5, learning_rate=1.0)
    assert [optim.learning_rate(other, step, 10, 0) for step in range(10)] == [
        1,
        0.5,
        0.5,
        0.5,
        0.25,
        0.125,
        0.125,
        0.125,
        0.125,
        0.125,
    ]
    assert [optim.schedule_factor("step", step, 10, 4, [0.5], 0.1) for step in (0, 3, 4, 5)] == [0.25, 1, 1, 0.1]
    assert all(optim.schedule_factor("step", m, 200, 0, [m / 200], 0.5) == 0.5 for m in range(1, 200))
    assert all(optim.schedule_factor("step", m - 1, 200, 0, [m / 200], 0.5) == 1 for m in range(1, 200))
