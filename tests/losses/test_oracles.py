"""Losses against lightly's, value and gradient: an optional extra, `pip install 'suppression-bench[oracle]'`."""

import warnings

import pytest
import torch
from torch.nn import functional as F

from generators import catalog

oracle = pytest.importorskip("lightly.loss", reason="lightly is not installed (the optional extra `oracle`)")

TEMPERATURES = [0.05, 0.2, 1.0]


def ours(name, **options):
    function = catalog.load_function("suppression_bench.losses", name)
    return lambda z1, z2: function(z1, z2, **options)


def views(seed):
    generator = torch.Generator().manual_seed(seed)
    first = torch.randn(12, 6, generator=generator, dtype=torch.float64)
    return first, first + 0.5 * torch.randn(12, 6, generator=generator, dtype=torch.float64)


def value_and_gradients(function, seed):
    z1, z2 = (z.requires_grad_() for z in views(seed))
    value = function(z1, z2)
    return value.detach(), *torch.autograd.grad(value, (z1, z2))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        *[(ours("nt_xent", pairs="all", temperature=t), oracle.NTXentLoss(t)) for t in TEMPERATURES],
        *[(ours("dcl", pairs="all", temperature=t), oracle.DCLLoss(t)) for t in TEMPERATURES],
        *[(ours("barlow_twins", weight=w), oracle.BarlowTwinsLoss(w)) for w in (0.005, 0.5)],
        (ours("vicreg"), oracle.VICRegLoss()),
        (
            ours("vicreg", invariance_weight=2, variance_weight=3, covariance_weight=5),
            oracle.VICRegLoss(lambda_param=2, mu_param=3, nu_param=5),
        ),
    ],
)
def test_value_and_gradient_are_theirs(mine, theirs, seed):
    for found, expected in zip(value_and_gradients(mine, seed), value_and_gradients(theirs, seed), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_dclw_differs_by_the_gradient_of_its_weight_alone(temperature):
    # lightly takes the weights as constants; the authors' code and ours let the gradient through them.
    def through_the_weight(z1, z2):
        positive = (F.normalize(z1, dim=1) * F.normalize(z2, dim=1)).sum(1)
        weight = 2 - len(positive) * torch.softmax(positive / 0.5, dim=0)
        return -(weight * positive.detach() / temperature).mean()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        theirs = value_and_gradients(oracle.DCLWLoss(temperature), 0)
    mine, rest = (
        value_and_gradients(ours("dclw", temperature=temperature), 0),
        value_and_gradients(through_the_weight, 0),
    )
    torch.testing.assert_close(mine[0], theirs[0])
    for found, constant, extra in zip(mine[1:], theirs[1:], rest[1:], strict=True):
        assert not torch.allclose(found, constant)
        torch.testing.assert_close(found, constant + extra)
