"""The linear probes: the choice of L2 recomputed by scikit-learn, SGD by a slow loop, controls and odd features."""

import math

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from generators.dataset import UserError
from generators.randomness import permutation, random_words, stream_key
from suppression_bench.cell import Probing
from suppression_bench.evaluation import probes as probing
from suppression_bench.evaluation.probes import (
    Task,
    confusion,
    fit_lbfgs,
    fit_sgd,
    split_train,
    standardisation,
)

GRID = [1e-2, 1e-1, 1.0, 10.0]  # strong enough for both solvers to end at one point


@pytest.fixture(scope="module")
def digits():
    bunch = load_digits()
    return torch.tensor(bunch.data, dtype=torch.float64) / 16, bunch.target.astype(np.int64)


def chosen_by_sklearn(features, labels, grid):
    """The strength with the most held-out hits, the strongest among equals."""
    mean, deviation = features.mean(0), features.std(0, correction=0).clamp(min=1e-6)
    standard = ((features - mean) / deviation).numpy()
    inner, outer = split_train(len(features))
    factor = 2 if labels.max() == 1 else 1  # see test_lbfgs
    hits = {}
    for l2 in grid:
        model = LogisticRegression(C=factor / (l2 * len(inner)), tol=1e-7, max_iter=5000).fit(
            standard[inner], labels[inner]
        )
        hits[l2] = int((model.predict(standard[outer]) == labels[outer]).sum())
    return max(l2 for l2 in grid if hits[l2] == max(hits.values())), hits


def test_chosen_l2_is_the_best_of_the_held_out_part(digits):
    features, labels = digits[0][:250], digits[1][:250]
    generator = torch.Generator().manual_seed(0)
    noisy = torch.cat([features, torch.randn(250, 300, generator=generator, dtype=torch.float64)], dim=1)
    chosen = []
    for values in (features, noisy):
        tasks = [Task("digit", 10, labels), Task("odd", 2, labels % 2), Task("third", 3, labels % 3)]
        for task, found in zip(tasks, fit_lbfgs(values, tasks, GRID), strict=True):
            expected, hits = chosen_by_sklearn(values, task.labels, GRID)
            assert found.l2 == expected, (task.feature, hits)
            chosen.append(found.l2)
    assert len(set(chosen)) > 1  # otherwise this test could not see a fixed choice


def test_the_final_fit_uses_the_whole_train_split(digits):
    features, labels = digits[0][:300], digits[1][:300]
    [found] = fit_lbfgs(features, [Task("digit", 10, labels)], [1e-2])
    mean, deviation = standardisation(features)
    theirs = LogisticRegression(C=1 / (1e-2 * 300), tol=1e-8, max_iter=5000).fit(
        ((features - mean) / deviation).numpy(), labels
    )
    test = digits[0][300:]
    expected = theirs.predict(((test - mean) / deviation).numpy())
    assert (found.predict(test).numpy() == expected).mean() >= 0.998
    assert (found.l2, found.kind, found.converged, found.feature) == (1e-2, "lbfgs", True, "digit")


def test_the_held_out_part_is_a_fifth_and_never_fitted_on():
    for count in (3, 5, 11, 200):
        inner, outer = split_train(count)
        assert sorted([*inner, *outer]) == list(range(count)) and len(outer) == count // 5
    assert not np.array_equal(split_train(200)[1], np.arange(40))


def test_permuted_train_labels_are_at_chance(digits):
    features, labels = digits
    shuffled = np.random.default_rng(0).permutation(labels[:900])
    chance, error = 0.1, 3 * math.sqrt(0.1 * 0.9 / (len(labels) - 900))
    for fit in (lambda *a: fit_lbfgs(*a, GRID), fit_sgd):
        [found] = fit(features[:900], [Task("digit", 10, shuffled)])
        accuracy = (found.predict(features[900:]).numpy() == labels[900:]).mean()
        assert abs(accuracy - chance) < error
        [true] = fit(features[:900], [Task("digit", 10, labels[:900])])
        assert (true.predict(features[900:]).numpy() == labels[900:]).mean() > 0.85


@pytest.mark.parametrize("level", [0.0, 3.7, 1000.3])
def test_constant_features_give_the_majority(level):
    features = torch.full((90, 5), level)
    labels = np.array([1] * 50 + [0] * 40)
    for found in (
        *fit_lbfgs(features, [Task("f", 2, labels)], GRID),
        *fit_sgd(features[:, :1] * 0, [Task("f", 2, labels)]),
    ):
        assert torch.isfinite(found.weights).all()
        width = len(found.mean)
        assert found.predict(torch.full((7, width), level)).tolist() == [1] * 7


def test_standardisation_floors_the_deviation():
    mean, deviation = standardisation(torch.tensor([[1.0, 5.0], [3.0, 5.0]]))
    assert mean.tolist() == [2, 5] and deviation.tolist() == pytest.approx([1.0, probing.SMALLEST_DEVIATION])


def test_confusion_by_hand():
    assert confusion(torch.tensor([0, 2, 2, 1, 2]), np.array([0, 2, 1, 1, 0]), 3) == [[1, 0, 1], [0, 1, 1], [0, 0, 1]]
    assert confusion(torch.tensor([1]), np.array([0]), 4)[0] == [0, 1, 0, 0]


def test_predict_is_the_written_formula():
    weights = torch.tensor([[1.0, -1.0], [0.0, 2.0], [0.5, 0.0]])
    found = probing.Probe("f", "lbfgs", weights, torch.tensor([1.0, 0.0]), torch.tensor([2.0, 4.0]), 0.1, True)
    # x = (3, 0): ((3 - 1) / 2, 0) -> scores (1 + .5, -1); x = (1, 4): (0, 1) -> scores (.5, 2).
    assert found.predict(torch.tensor([[3.0, 0.0], [1.0, 4.0]])).tolist() == [0, 1]


def naive_sgd(features, labels, classes, epochs, batch_size, rate):
    """Softmax regression with momentum .9 and a cosine, sample by sample."""
    count, width = features.shape
    weights, velocity = np.zeros((width + 1, classes)), np.zeros((width + 1, classes))
    per_epoch, step = count // batch_size, 0
    key = stream_key("probe", probing.VERSION, "sgd", 0)
    for epoch in range(epochs):
        order = permutation(random_words(key, 0, 0, epoch, count=count))
        for start in range(0, per_epoch * batch_size, batch_size):
            gradient = np.zeros_like(weights)
            for row in order[start : start + batch_size]:
                x = np.append(features[row], 1.0)
                scores = np.exp(x @ weights)
                shares = scores / scores.sum()
                shares[labels[row]] -= 1
                gradient += np.outer(x, shares) / batch_size
            velocity = 0.9 * velocity + gradient
            weights -= rate * (1 + math.cos(math.pi * step / (epochs * per_epoch))) / 2 * velocity
            step += 1
    return weights


def test_sgd_is_the_slow_loops(digits):
    features, labels = digits[0][:70], digits[1][:70]
    tasks = [Task("odd", 2, labels % 2), Task("digit", 10, labels)]
    found = fit_sgd(features, tasks, epochs=2, batch_size=20, learning_rate=0.1)
    for task, one in zip(tasks, found, strict=True):
        expected = naive_sgd(features.numpy(), task.labels, task.classes, 2, 20, 0.1)
        np.testing.assert_allclose(one.weights.numpy(), expected, rtol=1e-9, atol=1e-12)
        assert one.l2 is None and one.kind == "sgd"
    [other] = fit_sgd(features, tasks[:1], epochs=2, batch_size=20, seed=1)
    assert not torch.equal(other.weights, found[0].weights)


def test_wrong_probe_settings_are_refused():
    for name, value in (("kinds", ["lbfgs", "forest"]), ("layers", ["tail"])):
        with pytest.raises(UserError, match=rf"probe.{name}.*{value[-1]}"):
            Probing(**{name: value})
