"""The probe's solver against scikit-learn at the same strength, alone and many at once."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from suppression_bench.cell import Probing
from suppression_bench.evaluation.lbfgs import Objective, Problem, fit
from suppression_bench.evaluation.probes import standardisation


@pytest.fixture(scope="module")
def digits():
    """(train features, train labels, test features, test labels), standardised with the train half."""
    bunch = load_digits()
    features, labels = torch.tensor(bunch.data, dtype=torch.float32), torch.tensor(bunch.target)
    mean, deviation = standardisation(features[:600])
    features = (features - mean) / deviation
    return features[:600], labels[:600], features[600:], labels[600:]


def objective(features, labels, weights, l2):
    """Mean cross entropy + l2 / 2 ||W||^2, the bias in the last row free."""
    features, weights = features.double(), weights.double()
    logits = features @ weights[:-1] + weights[-1]
    return (torch.nn.functional.cross_entropy(logits, labels) + l2 / 2 * weights[:-1].square().sum()).item()


def oracle(features, labels, l2):
    # scikit-learn weighs C against a sum over samples; two classes have one column, half of it on either side.
    strength = (2 if int(labels.max()) == 1 else 1) / (l2 * len(features))
    return LogisticRegression(C=strength, tol=1e-9, max_iter=20_000).fit(features.double().numpy(), labels.numpy())


def scores(features, weights):
    return features @ weights[:-1] + weights[-1]


@pytest.mark.parametrize("l2", [1e-1, 1e-2, 1e-3])
@pytest.mark.parametrize("classes", [10, 2])
def test_solution_is_scikit_learns(digits, l2, classes):
    features, labels, test, test_labels = digits
    labels, test_labels = labels % classes, test_labels % classes
    [found] = fit(features, [Problem(labels, classes, l2)])
    assert found.converged
    theirs = oracle(features, labels, l2)
    if classes == 2:
        weights = np.concatenate([-theirs.coef_, theirs.coef_]).T / 2
        bias = np.concatenate([-theirs.intercept_, theirs.intercept_])[None] / 2
    else:
        weights, bias = theirs.coef_.T, theirs.intercept_[None]
    best = objective(features, labels, torch.tensor(np.concatenate([weights, bias])), l2)
    assert best - 1e-9 <= objective(features, labels, found.weights, l2) <= best * (1 + 1e-3)
    predicted, expected = scores(test, found.weights).argmax(1).numpy(), theirs.predict(test.double().numpy())
    assert (predicted == expected).mean() >= 0.995
    truth = test_labels.numpy()
    assert abs((predicted == truth).mean() - (expected == truth).mean()) <= 0.002


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


def test_large_and_useless_features_stay_finite():
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(50, 4, generator=generator)
    features[:, 0] *= 1e6
    features[:, 1] = 0
    [found] = fit(features, [Problem(torch.arange(50) % 3, 3, 1e-2)])
    assert torch.isfinite(found.weights).all()


def test_a_problem_that_cannot_descend_ends_at_once(monkeypatch):
    calls, original = [], Objective.__call__
    monkeypatch.setattr(Objective, "__call__", lambda self, weights: (calls.append(1), original(self, weights))[1])
    features = 1e30 * torch.randn(50, 4, generator=torch.Generator().manual_seed(0))  # squares beyond float32
    [solution] = fit(features, [Problem(torch.arange(50) % 3, 3, 1e-2)])
    assert not solution.converged and torch.isfinite(solution.weights).all() and len(calls) < 100
