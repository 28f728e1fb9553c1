"""The probe's solver against scikit-learn and scipy at the same strength, alone and many at once."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from torch.nn.functional import cross_entropy

from suppression_bench.cell import Probing
from suppression_bench.evaluation import lbfgs
from suppression_bench.evaluation.lbfgs import Objective, Problem, fit
from suppression_bench.evaluation.probes import Task, fit_lbfgs, standardisation


@pytest.fixture(scope="module")
def digits():
    """(train features, train labels, test features, test labels), standardised with the train half."""
    bunch = load_digits()
    features, labels = torch.tensor(bunch.data, dtype=torch.float32), torch.tensor(bunch.target)
    mean, deviation = standardisation(features[:600])
    features = (features - mean) / deviation
    return features[:600], labels[:600], features[600:], labels[600:]


def oracle(features, labels, l2):
    # scikit-learn weighs C against a sum over samples; two classes have one column, half of it on either side.
    strength = (2 if int(labels.max()) == 1 else 1) / (l2 * len(features))
    return LogisticRegression(C=strength, tol=1e-9, max_iter=20_000).fit(features.double().numpy(), labels.numpy())


def scores(features, weights):
    return features @ weights[:-1] + weights[-1]


@pytest.mark.parametrize("l2", Probing().l2)
def test_every_strength_of_the_probes_grid_has_scikit_learns_accuracy(digits, l2):
    # Random features, as of an untrained net: where L2 is weak the stopping rule must not take its place.
    generator = torch.Generator().manual_seed(0)
    hidden = [
        torch.relu(part @ torch.randn(64, 128, generator=generator.manual_seed(0))) for part in (digits[0], digits[2])
    ]
    mean, deviation = standardisation(hidden[0])
    features, test = ((part - mean) / deviation for part in hidden)
    [found] = fit(features, [Problem(digits[1], 10, l2)])
    expected = oracle(features, digits[1], l2).predict(test.double().numpy())
    ours, truth = scores(test, found.weights).argmax(1).numpy(), digits[3].numpy()
    assert found.converged
    assert abs((ours == truth).mean() - (expected == truth).mean()) <= 0.002


def test_a_tight_solution_has_scikit_learns_coefficients(digits):
    features, labels, *_ = digits
    [found] = fit(features.double(), [Problem(labels, 10, 1e-2)], tolerance=1e-9)
    theirs = oracle(features, labels, 1e-2)
    assert found.converged
    np.testing.assert_allclose(found.weights[:-1].T.numpy(), theirs.coef_, atol=1e-5)
    bias = found.weights[-1].numpy()
    np.testing.assert_allclose(bias - bias.mean(), theirs.intercept_ - theirs.intercept_.mean(), atol=1e-5)


def test_many_problems_at_once_are_the_problems_alone(digits):
    features, labels, *_ = digits
    features = features.double()
    problems = [
        Problem(labels, 10, 1e-1),
        Problem(labels % 2, 2, 1e-2),
        Problem(labels, 10, 1e-3),
        Problem(labels % 3, 3, 1e-1),
    ]
    together = fit(features, problems, tolerance=1e-6)
    for problem, found in zip(problems, together, strict=True):
        [alone] = fit(features, [problem], tolerance=1e-6)
        assert found.converged and alone.converged and found.weights.shape == (65, problem.classes)
        torch.testing.assert_close(found.weights, alone.weights, rtol=0, atol=1e-6)


def test_a_value_known_by_hand():
    # Two points at -1 and 1, two classes: by symmetry W = (-w, w), no bias, and at the optimum the derivative of
    # log(1 + e^{-2w}) + l2 w^2 is zero.
    [found] = fit(torch.tensor([[-1.0], [1.0]]).double(), [Problem(torch.tensor([0, 1]), 2, 0.1)], tolerance=1e-10)
    w = found.weights[0, 1].item()
    assert found.weights.flatten().tolist() == pytest.approx([-w, w, 0, 0], abs=1e-9)
    assert -2 / (1 + np.exp(2 * w)) + 2 * 0.1 * w == pytest.approx(0, abs=1e-9)


def test_the_bias_is_not_penalised():
    labels = torch.tensor([0] * 90 + [1] * 10)
    [found] = fit(torch.zeros(100, 2).double(), [Problem(labels, 2, 100.0)], tolerance=1e-8)
    shares = torch.softmax(found.weights[-1], 0).tolist()
    assert shares == pytest.approx([0.9, 0.1], abs=1e-6) and found.weights[:-1].abs().max() == 0


def test_too_few_iterations_are_not_converged(digits):
    features, labels, *_ = digits
    problems = [Problem(labels, 10, 1e-3), Problem(torch.zeros_like(labels), 1, 1.0)]
    hard, trivial = fit(features, problems, iterations=1)
    assert not hard.converged and trivial.converged and torch.isfinite(hard.weights).all()


def test_a_problem_that_cannot_descend_ends_at_once(monkeypatch):
    calls, original = [], Objective.__call__
    monkeypatch.setattr(Objective, "__call__", lambda self, weights: (calls.append(1), original(self, weights))[1])
    features = 1e30 * torch.randn(50, 4, generator=torch.Generator().manual_seed(0))  # squares beyond float32
    [solution] = fit(features, [Problem(torch.arange(50) % 3, 3, 1e-2)])
    assert not solution.converged and torch.isfinite(solution.weights).all() and len(calls) < 100


# --- against scipy, on awkward features ---


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
