"""NT-Xent against a double loop, by hand, at its edges, and as the notebook's sum of two cross entropies."""

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


def naive(z1, z2, temperature, pairs):
    """Eq. 1 of Chen et al. (2020), anchor by anchor, on lists of scalars."""

    def cosine(a, b):
        dot, left, right = sum(x * y for x, y in zip(a, b, strict=True)), sum(x * x for x in a), sum(y * y for y in b)
        return dot / (left**0.5 * right**0.5)

    total, count = 0.0, len(z1)
    for anchors, others in ((z1, z2), (z2, z1)):
        for i in range(count):
            denominator = 0.0
            for j in range(count):
                denominator = denominator + math.e ** (cosine(anchors[i], others[j]) / temperature)
                if pairs == "all" and j != i:
                    denominator = denominator + math.e ** (cosine(anchors[i], anchors[j]) / temperature)
            positive = math.e ** (cosine(anchors[i], others[i]) / temperature)
            ratio = positive / denominator
            total = total - (ratio.log() if isinstance(ratio, torch.Tensor) else math.log(ratio))
    return total / (2 * count)


@pytest.mark.parametrize("pairs", PAIRS)
@pytest.mark.parametrize("temperature", [0.1, 0.5, 2.0])
def test_value_is_the_double_loops(pairs, temperature):
    for seed in range(3):
        z1, z2 = projections(seed)
        expected = naive(z1.tolist(), z2.tolist(), temperature, pairs)
        assert nt_xent(z1, z2, temperature=temperature, pairs=pairs).item() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("pairs", PAIRS)
def test_gradient_is_the_double_loops(pairs):
    fast = [z.requires_grad_() for z in projections(3)]
    slow = [z.requires_grad_() for z in projections(3)]
    nt_xent(*fast, temperature=0.3, pairs=pairs).backward()
    naive(*[[list(row) for row in z] for z in slow], 0.3, pairs).backward()
    for a, b in zip(fast, slow, strict=True):
        assert a.grad.abs().max() > 1e-3
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-8, atol=1e-10)


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


@pytest.mark.parametrize(("pairs", "candidates"), [("all", 2 * 6 - 1), ("cross", 6)])
def test_equal_projections_give_the_log_of_the_candidates(pairs, candidates):
    z = torch.ones(6, 4)
    assert nt_xent(z, z, pairs=pairs).item() == pytest.approx(math.log(candidates), rel=1e-6)


@pytest.mark.parametrize("pairs", PAIRS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_finite_in_low_precision_and_at_a_low_temperature(pairs, dtype):
    z1, z2 = (z.to(dtype).requires_grad_() for z in projections(0, count=64, width=8))
    with torch.autocast("cpu", torch.bfloat16):
        value = nt_xent(z1, z2, temperature=0.01, pairs=pairs)
    value.backward()
    assert value.dtype == torch.float32 and torch.isfinite(value)
    assert torch.isfinite(z1.grad).all() and torch.isfinite(z2.grad).all()
    exact = nt_xent(z1.detach().double(), z2.detach().double(), temperature=0.01, pairs=pairs)
    assert value.item() == pytest.approx(exact.item(), rel=1e-4)  # autocast must not reach the similarities


def test_finite_where_a_projection_is_zero():
    z = torch.zeros(3, 4, requires_grad=True)
    value = nt_xent(z, torch.ones(3, 4))
    value.backward()
    assert torch.isfinite(value) and torch.isfinite(z.grad).all()


@pytest.mark.parametrize("pairs", PAIRS)
def test_symmetries_and_scale(pairs):
    z1, z2 = projections(1, count=7)
    value = nt_xent(z1, z2, pairs=pairs).item()
    order = torch.tensor([3, 0, 6, 1, 5, 2, 4])
    assert nt_xent(z2, z1, pairs=pairs).item() == pytest.approx(value, rel=1e-9)
    assert nt_xent(z1[order], z2[order], pairs=pairs).item() == pytest.approx(value, rel=1e-9)
    assert nt_xent(5 * z1, 0.1 * z2, pairs=pairs).item() == pytest.approx(value, rel=1e-9)
    assert nt_xent(z1[order], z2, pairs=pairs).item() != pytest.approx(value, rel=1e-3)


@pytest.mark.parametrize("pairs", PAIRS)
def test_temperature_changes_the_value(pairs):
    z1, z2 = projections(2)
    values = [nt_xent(z1, z2, temperature=t, pairs=pairs).item() for t in (0.05, 0.1, 0.2, 1.0)]
    assert len({round(value, 3) for value in values}) == 4
    assert nt_xent(z1, z2, pairs=pairs).item() == pytest.approx(values[1])


def test_declares_what_it_is():
    assert nt_xent.normalises and nt_xent.symmetric and nt_xent.negatives and not nt_xent.needs_labels


def test_the_randbit_recipes_loss_is_the_notebooks(randbit):
    method, data = built("simclr", randbit, recipe="randbit", data__bits=4, loss__temperature=0.2, train__batch_size=16)
    samples = data.samples("pretrain")
    views = [samples.whole(slice(0, 16)), samples.whole(slice(0, 16)).flip(3)]
    value = method.loss(Batch(views, torch.arange(16))).loss
    a, b = (F.normalize(method.head(method.encoder(view)), dim=1) for view in views)
    logits, rows = a @ b.T / 0.2, torch.arange(16)
    notebook = F.cross_entropy(logits, rows) + F.cross_entropy(logits.T, rows)
    assert value.item() == pytest.approx(notebook.item(), rel=1e-5)
