"""Nearest neighbours: against double loops, by hand, in any block size, with ties and too few samples."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from generators.dataset import UserError
from suppression_bench.evaluation.metrics import agreement, nearest, vote


def unit(count, width=5, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return F.normalize(torch.randn(count, width, generator=generator, dtype=torch.float64), dim=1).to(dtype)


TRAIN, TEST = unit(37), unit(11, seed=1)
TRAIN_LABELS, TEST_LABELS = torch.arange(37) % 3, torch.arange(11) % 3


def naive_nearest(queries, references, k, alone=False):
    found = []
    for i, query in enumerate(queries.tolist()):
        keys = []
        for j, reference in enumerate(references.tolist()):
            if not (alone and i == j):
                keys.append((-sum(a * b for a, b in zip(query, reference, strict=True)), j))
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
def test_each_equals_a_double_loop_in_any_block_size(k, block_size):
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


def test_values_known_by_hand():
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


def test_the_order_of_the_samples_changes_nothing():
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


def test_no_matrix_of_all_pairs_is_ever_held(monkeypatch):
    largest = []
    original = torch.Tensor.__matmul__
    monkeypatch.setattr(
        torch.Tensor, "__matmul__", lambda a, b: (made := original(a, b), largest.append(made.numel()))[0]
    )
    references = unit(60_000, 4, dtype=torch.float32)
    assert nearest(references[:100], references, k=3, block_size=50).shape == (100, 3)
    assert nearest(references[:3000], k=3, block_size=500).shape == (3000, 3)
    assert max(largest) == 500 * 500
