"""The gradient cache: in double precision the whole batch's loss and gradients, part by part."""

from functools import partial

import pytest
import torch
from small_cells import CPU, make_cell
from torch import nn

from generators import catalog
from generators.dataset import UserError
from suppression_bench import run as running
from suppression_bench.encoder import Encoder
from suppression_bench.method import Batch, Info, Method, Target
from suppression_bench.training.gradient_cache import GradientCache

COUNT = 12


class Smooth(Encoder):
    """Without batch norm, so that samples do not meet inside; with dropout if asked for."""

    width = 6

    def __init__(self, dropout: float = 0.0, norm: bool = False):
        super().__init__()
        norms = [nn.BatchNorm1d(8)] if norm else []
        self.layers = nn.Sequential(
            nn.Flatten(), nn.Linear(32, 8), *norms, nn.Tanh(), nn.Dropout(dropout), nn.Linear(8, self.width)
        )

    def forward(self, images):
        return self.layers(images)


def build(name="simclr", loss="nt_xent", **encoder):
    """A method in double precision whose head has one layer (batch norm sits between two)."""
    torch.manual_seed(3)
    cls = catalog.load_class("suppression_bench.methods", name, Method)
    function = catalog.load_function("suppression_bench.losses", loss)
    info = Info((4, 4, 2), 0, COUNT, {"digit": Target(3)} if cls.needs_labels else {})
    return cls(Smooth(**encoder), info, function, head=[5]).double().train()


def batch():
    generator = torch.Generator().manual_seed(0)
    views = [torch.rand(COUNT, 2, 4, 4, dtype=torch.float64, generator=generator) for _ in range(2)]
    return Batch(views, torch.arange(COUNT), {"digit": torch.arange(COUNT) % 3})


def gradients(method):
    return [parameter.grad.clone() for parameter in method.parameters()]


def in_parts(method, rows):
    output = GradientCache(method, rows).loss(batch())
    output.loss.backward()
    return output


def whole(method):
    output = method.loss(batch())
    output.loss.backward()
    return output, gradients(method)


@pytest.mark.parametrize("rows", [1, 4, 5, COUNT])
@pytest.mark.parametrize(
    ("name", "loss"), [("simclr", "nt_xent"), ("simclr", "vicreg"), ("simclr", "macl"), ("supcon", "supcon_out")]
)
def test_it_equals_the_whole_batch(name, loss, rows):
    expected, gradients_of_whole = whole(build(name, loss))
    method = build(name, loss)
    output = in_parts(method, rows)
    assert output.loss.item() == pytest.approx(expected.loss.item(), rel=1e-12)
    torch.testing.assert_close(output.features, expected.features.detach(), rtol=0, atol=1e-12)
    for a, b in zip(gradients(method), gradients_of_whole, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-12)


def test_noise_of_the_network_is_the_same_in_both_passes():
    method = build(dropout=0.5)
    torch.manual_seed(7)
    output = in_parts(method, 4)
    mine, after = gradients(method), torch.get_rng_state()
    method.zero_grad()
    # The same in the open: the parts in their order, one graph, one loss.
    torch.manual_seed(7)
    given, parts = batch(), []
    for start in range(0, COUNT, 4):
        parts.append(method.project_views([view[start : start + 4] for view in given.views])[0])
    loss = method.loss_of([torch.cat(views) for views in zip(*parts, strict=True)], given)
    loss.backward()
    assert output.loss.item() == pytest.approx(loss.item(), rel=1e-12)
    for a, b in zip(mine, gradients(method), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-12)
    assert torch.equal(after, torch.get_rng_state())


def test_running_statistics_count_each_sample_once():
    method, plain = build(norm=True), build(norm=True)
    in_parts(method, 4)
    given = batch()
    for start in range(0, COUNT, 4):
        plain.project_views([view[start : start + 4] for view in given.views])
    assert all(torch.equal(a, b) for a, b in zip(method.buffers(), plain.buffers(), strict=True))
    assert method.encoder.layers[2].num_batches_tracked == 6  # three parts of two views


def test_a_loss_may_draw_noise_and_have_weights_too():
    """What it draws comes once and resumes after; a weight that views and loss share gets both gradients, in bf16 too."""
    results = []
    for rows in (None, 4):
        method = build().float()
        weight, original = method.encoder.layers[1].weight, method.loss_of

        def loss_of(projected, batch, original=original, weight=weight):
            return original(projected, batch) * torch.rand(()) + nn.functional.linear(torch.ones(1, 32), weight).sum()

        method.loss_of = loss_of
        torch.manual_seed(5)
        views = [view.float() for view in batch().views]
        with torch.autocast("cpu", torch.bfloat16):
            output = (GradientCache(method, rows) if rows else method).loss(Batch(views, batch().ids))
        output.loss.backward()
        results.append((weight.grad, torch.rand(())))
    (expected, after), (gradient, after_parts) = results
    torch.testing.assert_close(gradient, expected, rtol=0, atol=0.05)  # the loss's own share is 1 for each weight
    assert after == after_parts


def test_half_precision_gives_gradients_to_every_weight():
    method, formats = build().float(), []
    method.encoder.layers[1].register_forward_hook(lambda layer, inputs, output: formats.append(output.dtype))
    given = batch()
    given = Batch([view.float() for view in given.views], given.ids)
    autocast = partial(torch.autocast, "cpu", torch.bfloat16)
    with autocast():
        output = GradientCache(method, 4).loss(given)
    output.loss.backward()
    assert formats == [torch.bfloat16] * 12  # three parts of two views, twice
    halves = gradients(method)
    method.zero_grad()
    with autocast():
        loss = method.loss(given).loss
    loss.backward()
    for a, b in zip(halves, gradients(method), strict=True):
        assert a.dtype == torch.float32 and a.abs().max() > 0
        torch.testing.assert_close(a, b, rtol=0, atol=0.05 * b.abs().max().item())


def test_a_cell_in_parts_trains_and_repeats(randbit, tmp_path):
    weights = []
    for name in ("one", "two"):
        cell = make_cell("simclr", randbit, data__bits=2, train__micro_batch=16)
        assert running.run(cell, tmp_path / name, CPU).run.status == "ok"
        weights.append((tmp_path / name / "encoder.safetensors").read_bytes())
    assert weights[0] == weights[1]


def test_a_method_that_needs_its_whole_batch_is_refused(randbit):
    with pytest.raises(UserError, match=r"train\.micro_batch: the method byol needs its whole batch"):
        running.check(make_cell("byol", randbit, train__micro_batch=10))
    running.check(make_cell("simclr", randbit, train__micro_batch=10))
    running.check(make_cell("untrained", randbit, train__micro_batch=10))
