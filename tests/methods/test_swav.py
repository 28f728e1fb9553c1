"""SwAV: Sinkhorn-Knopp by loops and by hand, the prediction of the other view's assignment."""

import math

import pytest
import torch
from torch.nn import functional as F

from suppression_bench.conformance.toy import Toy
from suppression_bench.methods.swav import Assignment, SwAV


def naive_sinkhorn(similarity, epsilon, iterations):
    """Caron et al.'s appendix code with loops: Q is prototypes x samples, its rows and columns are scaled in turn."""
    samples, prototypes = len(similarity), len(similarity[0])
    q = [[math.exp(similarity[b][k] / epsilon) for b in range(samples)] for k in range(prototypes)]
    for _ in range(iterations):
        for k in range(prototypes):
            row = sum(q[k])
            q[k] = [value / row / prototypes for value in q[k]]
        for b in range(samples):
            column = sum(q[k][b] for k in range(prototypes))
            for k in range(prototypes):
                q[k][b] /= column * samples
    return [[q[k][b] * samples for k in range(prototypes)] for b in range(samples)]


def test_sinkhorn_is_the_slow_one():
    similarity = torch.rand(7, 4, generator=torch.Generator().manual_seed(2), dtype=torch.float64) * 2 - 1
    for epsilon, iterations in ((0.05, 3), (0.5, 1)):
        found = Assignment(epsilon, iterations)(similarity)
        expected = torch.tensor(naive_sinkhorn(similarity.tolist(), epsilon, iterations), dtype=torch.float64)
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(found.sum(1), torch.ones(7, dtype=torch.float64))
    even = Assignment(0.5, 200)(similarity)
    torch.testing.assert_close(even.sum(0), torch.full((4,), 7 / 4, dtype=torch.float64))


def test_sinkhorn_by_hand():
    # Symmetric, so nothing needs scaling but each row to 1: odds of exp(.05 log 3 / .05) = 3 to 1.
    similarity = torch.tensor([[0.05 * math.log(3), 0.0], [0.0, 0.05 * math.log(3)]])
    assert Assignment(0.05, 3)(similarity).flatten().tolist() == pytest.approx([0.75, 0.25, 0.25, 0.75])
    assert torch.isfinite(Assignment(0.05, 3)(torch.tensor([[1.0, -1.0], [1.0, -1.0]]))).all()


def test_swav_predicts_the_other_views_assignment():
    toy = Toy(SwAV, None, {"head": [6], "prototypes": 5, "temperature": 0.2})
    method, batch = toy.build(), toy.batch([0, 1, 2, 3])
    value = method.loss(batch).loss.item()
    prototypes = F.normalize(method.prototypes.weight, dim=1)
    similarity = [
        (F.normalize(method.head(method.encoder(view)), dim=1) @ prototypes.T).tolist() for view in batch.views
    ]
    total = 0.0
    for mine, other in ((0, 1), (1, 0)):
        for row, wanted in zip(similarity[mine], naive_sinkhorn(similarity[other], 0.05, 3), strict=True):
            whole = sum(math.exp(s / 0.2) for s in row)
            total -= sum(q * (s / 0.2 - math.log(whole)) for q, s in zip(wanted, row, strict=True)) / (2 * 4)
    assert value == pytest.approx(total, rel=1e-4)


def test_swavs_prototypes_keep_length_one():
    toy = Toy(SwAV, None, {"prototypes": 5})
    method = toy.build()
    torch.testing.assert_close(method.prototypes.weight.norm(dim=1), torch.ones(5))
    before = method.prototypes.weight.detach().clone()
    toy.train(method, [[0, 1, 2, 3]] * 2, rate=0.1)
    torch.testing.assert_close(method.prototypes.weight.norm(dim=1), torch.ones(5))
    assert not torch.allclose(before, method.prototypes.weight)
