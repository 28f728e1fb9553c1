"""The solver against scipy's on awkward features, its blocks of rows, and where the last fit starts."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from small_cells import CPU, built
from torch.nn.functional import cross_entropy

from suppression_bench.cell import Probing
from suppression_bench.evaluation import lbfgs
from suppression_bench.evaluation.lbfgs import Objective, Problem, fit
from suppression_bench.evaluation.probes import Task, fit_lbfgs, measure


def scipys(features, labels, classes, l2):
    """The minimum by scipy, from a plain writing of the objective."""
    x, one_hot = np.hstack([features, np.ones((len(features), 1))]), np.eye(classes)[labels]

    def value(flat):
        weights = flat.reshape(-1, classes)
        logits = x @ weights
        logits -= logits.max(1, keepdims=True)
        shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        loss = -np.log(shares[one_hot == 1]).mean() + l2 / 2 * (weights[:-1] ** 2).sum()
        slope = x.T @ (shares - one_hot) / len(x)
        slope[:-1] += l2 * weights[:-1]
        return loss, slope.ravel()

    start = np.zeros((x.shape[1]) * classes)
    found = minimize(value, start, jac=True, method="L-BFGS-B", options={"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-9})
    return found.fun, found.x.reshape(-1, classes)


def awkward(kind, generator):
    """(features, labels, classes) of one awkward shape, float64."""
    features = torch.randn(80, 6, generator=generator, dtype=torch.float64)
    labels = ((features[:, 0] + torch.randn(80, generator=generator)) > 0).long() + (features[:, 1] > 0.5).long()
    if kind == "constant":
        features = torch.cat([features, torch.zeros(80, 3)], 1)
    elif kind == "duplicated":
        features = torch.cat([features, features], 1)
    elif kind == "collinear":
        features = features @ torch.randn(6, 20, generator=generator, dtype=torch.float64)
    elif kind == "separable":
        labels = (features[:, 2] > 0).long() + (features[:, 2] > 1).long()
    elif kind == "absent":
        labels = labels * 2
    elif kind == "wide":
        features = torch.randn(30, 50, generator=generator, dtype=torch.float64)
        labels = labels[:30]
    return features, labels, 5 if kind == "absent" else 3


@pytest.mark.parametrize("kind", ["plain", "constant", "duplicated", "collinear", "separable", "absent", "wide"])
def test_awkward_features_give_scipys_minimum(kind):
    features, labels, classes = awkward(kind, torch.Generator().manual_seed(0))
    for l2 in (1e-1, 1e-3):
        best, weights = scipys(features.numpy(), labels.numpy(), classes, l2)
        [found] = fit(features, [Problem(labels, classes, l2)], tolerance=1e-8)
        assert found.converged
        value = Objective(features, [Problem(labels, classes, l2)])(found.weights)[0].item()
        assert value == pytest.approx(best, abs=1e-8)
        np.testing.assert_allclose(found.weights[:-1].numpy(), weights[:-1], atol=2e-4)


def test_blocks_of_rows_add_up(monkeypatch):
    features, labels, _ = awkward("plain", torch.Generator().manual_seed(0))
    objective = Objective(features, [Problem(labels, 3, 0.1), Problem(labels % 2, 2, 0.01)])
    weights = torch.randn(7, 5, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    value, gradient = objective(weights)
    loss = cross_entropy(features @ weights[:-1, :3] + weights[-1, :3], labels) + 0.05 * weights[:-1, :3].square().sum()
    assert value[0].item() == pytest.approx(loss.item(), abs=1e-12)
    objective.rows = 7
    for one, other in zip(objective(weights), (value, gradient), strict=True):
        torch.testing.assert_close(one, other)


def test_a_start_near_the_end_gives_the_same_minimum():
    features, labels, _ = awkward("plain", torch.Generator().manual_seed(0))
    problem = Problem(labels, 3, 1e-2)
    [zero] = fit(features, [problem], tolerance=1e-9)
    start = zero.weights + 0.1 * torch.randn(7, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    [warm] = fit(features, [problem], tolerance=1e-9, start=[start])
    torch.testing.assert_close(warm.weights[:-1], zero.weights[:-1], rtol=0, atol=1e-6)
    [there] = fit(features, [problem], tolerance=1e-6, start=[zero.weights], iterations=0)
    assert there.converged and torch.equal(there.weights, zero.weights)


def test_a_longer_memory_leads_to_the_same_minimum(monkeypatch):
    features, labels, classes = awkward("collinear", torch.Generator().manual_seed(0))
    best, _ = scipys(features.numpy(), labels.numpy(), classes, 1e-3)
    problem, kept = Problem(labels, classes, 1e-3), []
    for many in (len(features) + 1, len(features)):
        monkeypatch.setattr(lbfgs, "MANY", many)
        kept.append(lbfgs.Descent(features, [problem], None, None).memory)
        [found] = fit(features, [problem], tolerance=1e-8)
        assert found.converged and Objective(features, [problem])(found.weights)[0].item() == pytest.approx(
            best, abs=1e-8
        )
    assert kept == [lbfgs.HISTORY, lbfgs.LONG_HISTORY]


def test_the_final_fit_starts_at_the_chosen_weights(monkeypatch):
    features, labels, _ = awkward("plain", torch.Generator().manual_seed(0))
    starts, original = [], lbfgs.fit
    monkeypatch.setattr(lbfgs, "fit", lambda *a, **k: (starts.append(k.get("start")), original(*a, **k))[1])
    [found] = fit_lbfgs(features, [Task("f", 3, labels.numpy())], [1e-2, 1e-1])
    assert starts[0] is None and [weights.shape for weights in starts[1]] == [(7, 3)]
    [alone] = fit_lbfgs(features, [Task("f", 3, labels.numpy())], [found.l2])
    torch.testing.assert_close(found.weights[:-1], alone.weights[:-1], rtol=0, atol=1e-2)


def test_the_encoder_sees_each_split_once_whatever_the_features(randbit):
    from suppression_bench.training.data import Data

    method, data = built("simclr", randbit, data__bits=4)[0], Data(randbit, 4)
    seen = []
    method.encoder.register_forward_pre_hook(lambda module, inputs: seen.append(len(inputs[0])))
    found, *_ = measure(
        data, method, Probing(l2=[1e-2], kinds=["lbfgs", "sgd"], layers=["encoder", "head"]), {}, 0, CPU
    )
    assert len({entry["feature"] for entry in found}) == 5
    assert seen == [200, 100]  # the train split, then the test split
