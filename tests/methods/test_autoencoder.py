"""The autoencoder: its loss by loops, for each likelihood and both weights of the planes."""

import math

import pytest
import torch

from suppression_bench.conformance.toy import Toy
from suppression_bench.method import Batch
from suppression_bench.methods.autoencoder import Autoencoder


@pytest.mark.parametrize("likelihood", ["bernoulli", "squared-error"])
@pytest.mark.parametrize(("planes", "weight"), [("once", 1 / 144), ("every-pixel", 1.0)])
def test_the_autoencoders_loss_is_the_slow_one(likelihood, planes, weight):
    toy = Toy(Autoencoder, None, {"latent": 5, "likelihood": likelihood, "planes": planes})
    method, batch = toy.build(), toy.batch([0, 1, 2])
    drawn, view = method.decoder(method.code(method.encoder(batch.views[0]))).double(), batch.views[0].double()
    share = torch.sigmoid(drawn)
    misfit = (
        -(view * share.log() + (1 - view) * (1 - share).log()) if likelihood == "bernoulli" else (drawn - view) ** 2
    )
    total = sum(
        sum(misfit[sample, channel].flatten().tolist()) * (1.0 if channel == 0 else weight)
        for sample in range(3)
        for channel in range(3)
    )
    assert method.loss(batch).loss.item() == pytest.approx(total / 3, rel=1e-5)
    assert method.loss(batch).loss.item() == method.loss(batch).loss.item()  # no noise
    features = method.encoder(batch.views[0])
    assert torch.equal(method.project(features), method.code(features))


def test_a_drawing_of_zeros_by_hand():
    method = Toy(Autoencoder, None, {"likelihood": "bernoulli", "planes": "once"}).build()
    torch.nn.init.zeros_(method.decoder[-1].weight)
    torch.nn.init.zeros_(method.decoder[-1].bias)
    # Every pixel is drawn with probability one half: log 2 for each of 144 pixels and for each of two bits.
    view = torch.cat([torch.ones(2, 1, 12, 12), torch.zeros(2, 2, 12, 12)], 1)
    assert method.loss(Batch([view], torch.arange(2))).loss.item() == pytest.approx(146 * math.log(2))
