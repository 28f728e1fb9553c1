"""SimSiam: value and gradient by a second writing, and by hand."""

import math

import pytest
import torch

from suppression_bench.conformance.toy import Toy
from suppression_bench.method import Batch
from suppression_bench.methods.simsiam import SimSiam


def test_simsiams_value_and_gradient_by_a_second_writing():
    toy = Toy(SimSiam, None, {"head": [8, 6], "predictor": [3, 6]})
    method, batch = toy.build(), toy.batch([0, 1, 2, 3, 4])
    method.loss(batch).loss.backward()
    found = [parameter.grad.clone() for parameter in method.parameters()]
    value = method.loss(batch).loss.item()
    method.zero_grad()
    projected = [method.head(method.encoder(view)) for view in batch.views]
    constants = [[row.tolist() for row in z] for z in projected]
    total = torch.zeros(())
    for mine, other in ((0, 1), (1, 0)):
        for predicted, target in zip(method.predictor(projected[mine]), constants[other], strict=True):
            product = sum(p * t for p, t in zip(predicted, target, strict=True))
            total = total - product / (predicted.norm() * math.sqrt(sum(t * t for t in target))) / (2 * 5)
    total.backward()
    assert value == pytest.approx(total.item(), rel=1e-5)
    for one, parameter in zip(found, method.parameters(), strict=True):
        torch.testing.assert_close(one, parameter.grad, rtol=1e-3, atol=1e-6)


def test_simsiam_by_hand():
    method = Toy(SimSiam, None, {"head": [6], "predictor": [6]}).build()
    torch.nn.init.eye_(method.predictor[0].weight)
    view = torch.rand(4, 3, 12, 12)
    # Two equal views and a predictor that changes nothing: both cosines are 1.
    assert method.loss(Batch([view, view], torch.arange(4))).loss.item() == pytest.approx(-1)
