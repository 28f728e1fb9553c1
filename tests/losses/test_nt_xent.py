"""NT-Xent at values known by hand, in the words of loss.py, and as the notebook's sum of two cross entropies."""

import math

import pytest
import torch
from small_cells import built
from torch.nn import functional as F

from suppression_bench.loss import excess, similarities
from suppression_bench.losses.nt_xent import nt_xent
from suppression_bench.method import Batch

PAIRS = ["all", "cross"]


def projections(seed, count=5, width=3):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(count, width, generator=generator, dtype=torch.float64) for _ in range(2)]


@pytest.mark.parametrize(("pairs", "queue"), [("all", 0), ("cross", 0), ("all", 7), ("cross", 7), ("given", 7)])
def test_it_is_the_softplus_of_the_excess(pairs, queue):
    z1, z2 = projections(1, count=9)
    negatives = projections(2, count=queue)[0] if queue else None
    expected = F.softplus(excess(*similarities(z1, z2, pairs, negatives), 0.1)).mean()
    value = nt_xent(z1, z2, pairs=pairs, negatives=negatives)
    torch.testing.assert_close(value, expected, rtol=1e-10, atol=0)  # torch takes softplus for a line above 20


def test_values_known_by_hand():
    # Two orthogonal samples, equal views, temperature 1: the positive has e, each of the negatives 1.
    z = 7 * torch.eye(2)
    assert nt_xent(z, z, temperature=1.0, pairs="cross").item() == pytest.approx(math.log(1 + 1 / math.e), rel=1e-6)
    assert nt_xent(z, z, temperature=1.0, pairs="all").item() == pytest.approx(math.log(1 + 2 / math.e), rel=1e-6)
    # Opposite samples at temperature .5: similarities 1 and -1, logits 2 and -2.
    z = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])
    assert nt_xent(z, z, temperature=0.5, pairs="cross").item() == pytest.approx(math.log(1 + math.exp(-4)), rel=1e-5)


def test_the_randbit_recipes_loss_is_the_notebooks(randbit):
    method, data = built("simclr", randbit, recipe="randbit", data__bits=4, loss__temperature=0.2, train__batch_size=16)
    samples = data.samples("pretrain")
    views = [samples.whole(slice(0, 16)), samples.whole(slice(0, 16)).flip(3)]
    value = method.loss(Batch(views, torch.arange(16))).loss
    a, b = (F.normalize(method.head(method.encoder(view)), dim=1) for view in views)
    logits, rows = a @ b.T / 0.2, torch.arange(16)
    notebook = F.cross_entropy(logits, rows) + F.cross_entropy(logits.T, rows)
    assert value.item() == pytest.approx(notebook.item(), rel=1e-5)
