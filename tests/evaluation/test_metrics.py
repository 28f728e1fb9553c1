"""Metrics of normalised features: against double loops, values known by hand, in any block size and bounded memory."""

import itertools
import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from generators.dataset import UserError
from suppression_bench.evaluation.metrics import (
    agreement,
    alignment,
    effective_rank,
    gradient_ratio_curve,
    local_separation,
    nearest,
    semantic_sensitivity,
    tolerance,
    uniformity,
    vote,
)

COUNT = 13


def unit(count=COUNT, width=4, seed=0, shift=0.3, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return F.normalize(torch.randn(count, width, generator=generator, dtype=torch.float64) + shift, dim=1).to(dtype)


LABELS = torch.tensor([0, 3, 3, 1, 0, 0, 1, 3, 3, 3, 7, 1, 0])
ONE, TWO = unit(), F.normalize(unit() + 0.4 * unit(seed=1), dim=1)


def dot(x, y):
    return sum(a * b for a, b in zip(x.tolist(), y.tolist(), strict=True))


def distance(x, y):
    return sum((a - b) ** 2 for a, b in zip(x.tolist(), y.tolist(), strict=True)) ** 0.5


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def pairs(x, labels, same):
    return [
        dot(x[i], x[j])
        for i, j in itertools.product(range(len(x)), repeat=2)
        if i != j and (labels[i] == labels[j]).item() is same
    ]


def naive_separation(x, y, ranks):
    rows = [sorted((dot(x[i], y[j]) for j in range(len(y)) if j != i), reverse=True)[:ranks] for i in range(len(x))]
    return mean(dot(a, b) for a, b in zip(x, y, strict=True)), [mean(column) for column in zip(*rows, strict=True)]


def naive_curve(x, y, temperature, bins):
    found = [[] for _ in range(bins)]
    for i in range(len(x)):
        weights = {j: math.exp(dot(x[i], y[j]) / temperature) for j in range(len(y)) if j != i}
        for j, weight in weights.items():
            place = min(int((dot(x[i], y[j]) + 1) * bins / 2), bins - 1)
            found[place].append(weight / sum(weights.values()))
    return [mean(part) if part else None for part in found]


def naive_rank(x):
    values = np.linalg.svd(x.numpy(), compute_uv=False)
    shares = values / values.sum()
    return math.exp(-sum(p * math.log(p) for p in shares))


def alone(x, y, labels, block_size):
    """Every metric, as one flat list of numbers."""
    values = [
        alignment(x, y, block_size=block_size),
        alignment(x, y, alpha=1.0, block_size=block_size),
        uniformity(x, block_size=block_size),
        uniformity(x, t=0.5, block_size=block_size),
        tolerance(x, labels, block_size=block_size),
        semantic_sensitivity(x, labels, block_size=block_size),
        effective_rank(x, block_size=block_size),
    ]
    positive, negatives = local_separation(x, y, block_size=block_size)
    curve = gradient_ratio_curve(x, y, temperature=0.2, bins=6, block_size=block_size)
    return [*values, positive, *negatives, *(-9.0 if value is None else value for value in curve)]


def test_each_equals_a_double_loop():
    assert alignment(ONE, TWO) == pytest.approx(mean(distance(a, b) ** 2 for a, b in zip(ONE, TWO, strict=True)))
    assert alignment(ONE, TWO, alpha=3.0) == pytest.approx(
        mean(distance(a, b) ** 3 for a, b in zip(ONE, TWO, strict=True))
    )
    for t in (0.5, 2.0):
        potentials = [math.exp(-t * distance(a, b) ** 2) for a, b in itertools.combinations(ONE, 2)]
        assert uniformity(ONE, t=t) == pytest.approx(-math.log(mean(potentials)))
    same, other = mean(pairs(ONE, LABELS, True)), mean(pairs(ONE, LABELS, False))
    assert tolerance(ONE, LABELS) == pytest.approx(same)
    assert semantic_sensitivity(ONE, LABELS) == pytest.approx(same - other)
    for ranks in (1, 5, 10):
        positive, negatives = local_separation(ONE, TWO, ranks=ranks)
        expected = naive_separation(ONE, TWO, ranks)
        assert positive == pytest.approx(expected[0]) and negatives == pytest.approx(expected[1])
    for temperature, bins in ((0.1, 20), (1.0, 3)):
        found = gradient_ratio_curve(ONE, TWO, temperature=temperature, bins=bins)
        expected = naive_curve(ONE, TWO, temperature, bins)
        assert [v is None for v in found] == [v is None for v in expected]
        assert [v for v in found if v is not None] == pytest.approx([v for v in expected if v is not None])
    assert effective_rank(ONE) == pytest.approx(naive_rank(ONE))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("block_size", [1, 2, 5, 12, 13, 14])
def test_the_size_of_the_blocks_changes_nothing(dtype, block_size):
    one, two = ONE.to(dtype), TWO.to(dtype)
    whole = alone(ONE, TWO, LABELS, 1000)
    assert alone(one, two, LABELS, block_size) == pytest.approx(whole, rel=1e-12 if dtype == torch.float64 else 2e-5)


def test_the_order_of_the_samples_changes_nothing():
    order = torch.from_numpy(np.random.default_rng(0).permutation(COUNT))
    assert alone(ONE[order], TWO[order], LABELS[order], 4) == pytest.approx(alone(ONE, TWO, LABELS, 4), rel=1e-12)


def test_values_known_by_hand():
    square = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
    assert alignment(square, -square) == 4 and alignment(square, square) == 0
    # four neighbours at squared distance 2, two opposites at 4
    assert uniformity(square) == pytest.approx(-math.log((4 * math.exp(-4) + 2 * math.exp(-8)) / 6))
    assert uniformity(torch.ones(5, 1)) == pytest.approx(0, abs=1e-12)
    assert tolerance(square, torch.tensor([0, 0, 1, 1])) == 0 and tolerance(square, np.array([0, 1, 0, 1])) == -1
    assert semantic_sensitivity(square, torch.tensor([0, 1, 0, 1])) == -1
    assert local_separation(square, square) == (1.0, [0.0, 0.0, -1.0])
    share = math.exp(1 / 0.5) / (2 * math.exp(1 / 0.5) + 1)  # similarities 0, 0 and -1
    low, middle = gradient_ratio_curve(square, square, temperature=0.5, bins=2)
    assert middle == pytest.approx(share) and low == pytest.approx(1 - 2 * share)
    assert effective_rank(square) == pytest.approx(2)
    assert effective_rank(torch.ones(7, 4) / 2) == pytest.approx(1)


def test_uniform_features_come_near_four():
    """P2's values near 3.9 fit only t = 2."""
    value = uniformity(unit(2000, 128, shift=0.0, dtype=torch.float32))
    assert 3.85 < value < 4


def test_a_sharp_temperature_keeps_the_ratios_finite():
    one, two = unit(40, 8, dtype=torch.float32), unit(40, 8, seed=2, dtype=torch.float32)
    sharp = gradient_ratio_curve(one, two, temperature=0.01, bins=10, block_size=7)
    assert all(value is None or math.isfinite(value) for value in sharp)


def test_undefined_is_none():
    one = unit(1)
    assert uniformity(one) is None and tolerance(ONE, torch.arange(COUNT)) is None
    assert semantic_sensitivity(ONE, torch.arange(COUNT)) is None
    assert semantic_sensitivity(ONE, torch.zeros(COUNT, dtype=torch.int64)) is None
    assert local_separation(one, one) == (pytest.approx(1), [])
    assert gradient_ratio_curve(one, one, bins=2) == [None, None] and effective_rank(one) == pytest.approx(1)


def test_a_few_negatives_give_as_many_ranks():
    assert len(local_separation(ONE, TWO, ranks=100, block_size=4)[1]) == COUNT - 1


CALLS = {
    "alignment": lambda x: alignment(x, ONE),
    "alignment of the second": lambda x: alignment(ONE, x),
    "uniformity": uniformity,
    "tolerance": lambda x: tolerance(x, LABELS),
    "sensitivity": lambda x: semantic_sensitivity(x, LABELS),
    "separation": lambda x: local_separation(x, ONE),
    "separation of the second": lambda x: local_separation(ONE, x),
    "curve": lambda x: gradient_ratio_curve(ONE, x),
    "rank": effective_rank,
}


@pytest.mark.parametrize("name", CALLS)
def test_every_metric_checks_its_features(name):
    with pytest.raises(UserError, match="normalised"):
        CALLS[name](ONE * 1.01)


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda x: x * 0, "normalised"),
        (lambda x: x[0], "matrix"),
        (lambda x: x * torch.tensor([math.nan] + [1.0] * 3), "finite"),
        (lambda x: x / 0.0, "finite"),
        (lambda x: (x * 100).long(), "matrix"),
        (lambda x: x.half(), "matrix"),
        (lambda x: x[:0], "matrix"),
        (lambda x: torch.cat([x[:-1], x[-1:] * 2]), "row 12 has length 2"),
    ],
)
def test_what_is_not_on_the_sphere_is_refused(spoil, sentence):
    with pytest.raises(UserError, match=sentence):
        uniformity(spoil(ONE))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: alignment(ONE, TWO[:-1]), "alike"),
        (lambda: local_separation(ONE, TWO.float()), "alike"),
        (lambda: alignment(ONE, TWO, alpha=0.0), "alpha"),
        (lambda: uniformity(ONE, t=0.0), "t must"),
        (lambda: uniformity(ONE, t=21.0), "t must"),
        (lambda: uniformity(ONE, block_size=0), "block_size"),
        (lambda: local_separation(ONE, TWO, ranks=0), "ranks"),
        (lambda: gradient_ratio_curve(ONE, TWO, bins=0), "bins"),
        (lambda: gradient_ratio_curve(ONE, TWO, temperature=0.0), "temperature"),
        (lambda: gradient_ratio_curve(ONE, TWO, temperature=math.nan), "temperature"),
        (lambda: tolerance(ONE, LABELS[:-1]), "labels must be 13 int64"),
        (lambda: tolerance(ONE, LABELS.float()), "int64"),
        (lambda: semantic_sensitivity(ONE, F.one_hot(LABELS)), "one a sample"),
    ],
)
def test_options_out_of_range_are_refused(call, sentence):
    with pytest.raises(UserError, match=sentence):
        call()


def test_no_matrix_of_all_pairs_is_ever_held(monkeypatch):
    """20,000 x 20,000 similarities would be 1.6 GB; no tensor of more than the blocks' size is multiplied out."""
    largest = []
    original = torch.Tensor.__matmul__

    def watched(self, other):
        made = original(self, other)
        largest.append(made.numel())
        return made

    monkeypatch.setattr(torch.Tensor, "__matmul__", watched)
    x = F.normalize(torch.randn(20_000, 4), dim=1)
    labels = torch.arange(20_000) % 10
    assert -1 <= tolerance(x, labels) <= 1 and effective_rank(x) > 3.9
    x = x[:6000]
    alone(x, x, labels[:6000], 500)
    assert max(largest) <= 500 * 500


# --- nearest neighbours ---

TRAIN, TEST = unit(37, 5, shift=0.0), unit(11, 5, seed=1, shift=0.0)
TRAIN_LABELS, TEST_LABELS = torch.arange(37) % 3, torch.arange(11) % 3


def naive_nearest(queries, references, k, alone=False):
    found = []
    for i, query in enumerate(queries):
        keys = [(-dot(query, reference), j) for j, reference in enumerate(references) if not (alone and i == j)]
        found.append([j for _, j in sorted(keys)[:k]])
    return found


def naive_vote(rows, labels):
    winners = []
    for row in rows:
        classes = [int(labels[j]) for j in row]
        most = max(classes.count(c) for c in classes)
        winners.append(next(c for c in classes if classes.count(c) == most))  # of the equals, the first to appear
    return winners


@pytest.mark.parametrize("k", [1, 4, 36, 37, 200])
@pytest.mark.parametrize("block_size", [1, 3, 10, 37, 1000])
def test_neighbours_equal_a_double_loop_in_any_block_size(k, block_size):
    rows = naive_nearest(TEST, TRAIN, k)
    found = nearest(TEST, TRAIN, k=k, block_size=block_size)
    assert found.tolist() == rows and found.dtype == torch.int64
    assert nearest(TEST.float(), TRAIN.float(), k=k, block_size=block_size).tolist() == rows
    predicted = naive_vote(rows, TRAIN_LABELS)
    assert vote(found, TRAIN_LABELS, block_size=block_size).tolist() == predicted
    own = naive_nearest(TRAIN, TRAIN, k, alone=True)
    assert nearest(TRAIN, k=k, block_size=block_size).tolist() == own
    for labels in (TRAIN_LABELS, TRAIN_LABELS % 2):
        share = np.mean([labels[i] == labels[j] for i, row in enumerate(own) for j in row])
        assert agreement(torch.tensor(own), labels, block_size=block_size) == pytest.approx(share)


def test_more_neighbours_than_samples_are_all_of_them():
    assert nearest(TEST, TRAIN).shape == (11, 37) and nearest(TRAIN).shape == (37, 36)
    assert agreement(nearest(TRAIN), TRAIN_LABELS) == pytest.approx((13 * 12 + 2 * 12 * 11) / (37 * 36))


def test_neighbours_by_hand():
    corners = torch.eye(2)[[0, 0, 0, 1, 1, 1]]
    shape, colour = torch.tensor([0, 0, 0, 1, 1, 1]), np.array([0, 1, 0, 1, 0, 1])
    assert [agreement(nearest(corners, k=2), labels) for labels in (shape, colour)] == [1.0, 1 / 3]
    assert vote(nearest(torch.eye(2), corners, k=3), shape).tolist() == [0, 1]


def test_votes_that_tie_go_to_the_nearest():
    labels = torch.tensor([5, 2, 2, 5, 0])
    assert vote(torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2], [4, 0, 1, 4]]), labels).tolist() == [5, 2, 0]


@pytest.mark.parametrize("block_size", [1, 2, 5, 100])
def test_equal_similarities_go_to_the_earlier_reference(block_size):
    same = F.normalize(torch.full((9, 7), 0.3), dim=1)
    assert nearest(same[:2], same, k=4, block_size=block_size).tolist() == [[0, 1, 2, 3]] * 2
    assert nearest(same[:3], k=2, block_size=block_size).tolist() == [[1, 2], [0, 2], [0, 1]]
    opposite = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [1.0, 0.0], [0.0, -1.0], [0.0, 1.0]])
    assert nearest(opposite[:1], opposite, k=5, block_size=block_size).tolist() == [[0, 2, 3, 4, 1]]


def test_the_order_of_the_samples_changes_no_vote():
    generator = np.random.default_rng(0)
    train, test = torch.from_numpy(generator.permutation(37)), torch.from_numpy(generator.permutation(11))
    before = vote(nearest(TEST, TRAIN, k=6), TRAIN_LABELS)
    after = vote(nearest(TEST[test], TRAIN[train], k=6), TRAIN_LABELS[train])
    assert torch.equal(before[test], after)
    assert agreement(nearest(TRAIN[train], k=6), TRAIN_LABELS[train]) == agreement(nearest(TRAIN, k=6), TRAIN_LABELS)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: nearest(TEST * 2, TRAIN), "normalised"),
        (lambda: nearest(TEST, TRAIN * 0.9), "normalised"),
        (lambda: nearest(TEST * float("nan"), TRAIN), "finite"),
        (lambda: nearest(TEST, TRAIN / 0.0), "finite"),
        (lambda: nearest(TEST, unit(9, 3)), "alike"),
        (lambda: nearest(TEST.float(), TRAIN), "alike"),
        (lambda: nearest(TEST, TRAIN, k=0), "at least 1"),
        (lambda: nearest(TEST[:1]), "another"),
        (lambda: nearest(TEST, TRAIN, block_size=0), "block_size"),
        (lambda: vote(torch.tensor([[0]]), torch.tensor([-1])), "from 0"),
        (lambda: vote(nearest(TEST, TRAIN), TRAIN_LABELS.float()), "37 int64"),
        (lambda: agreement(nearest(TRAIN), TRAIN_LABELS[1:]), "37 int64"),
        (lambda: agreement(nearest(TRAIN), F.one_hot(TRAIN_LABELS)), "one a sample"),
    ],
)
def test_what_cannot_be_measured_is_refused(call, sentence):
    with pytest.raises(UserError, match=sentence):
        call()


def test_neighbours_need_no_matrix_of_all_pairs(monkeypatch):
    largest = []
    original = torch.Tensor.__matmul__
    monkeypatch.setattr(
        torch.Tensor, "__matmul__", lambda a, b: (made := original(a, b), largest.append(made.numel()))[0]
    )
    references = unit(60_000, 4, dtype=torch.float32)
    assert nearest(references[:100], references, k=3, block_size=50).shape == (100, 3)
    assert nearest(references[:3000], k=3, block_size=500).shape == (3000, 3)
    assert max(largest) == 500 * 500
