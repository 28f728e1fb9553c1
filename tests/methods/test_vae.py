"""The VAE: its loss written again with loops, both likelihoods of the planes, the warm-up, the decoder's sizes."""

import math

import pytest
import torch

from suppression_bench.encoders.randbit_conv import RandBitConv
from suppression_bench.method import Batch, Info
from suppression_bench.methods.vae import VAE


def vae(side=28, bits=2, channels=1, **options):
    torch.manual_seed(0)
    info = Info((side, side, channels), bits, 10, {})
    return VAE(RandBitConv(side, channels + bits), info, **{"latent": 5, **options})


def pictures(count=3, bits=2, side=28):
    generator = torch.Generator().manual_seed(1)
    view = torch.rand(count, 1 + bits, side, side, generator=generator)
    view[:, 1:] = (view[:, 1:, :1, :1] > 0.5).float()
    return view


def naive(method, view, weight, plane_weight):
    """Mean over samples of -log p(x | z) + weight KL, number by number, with the same noise."""
    features = method.encoder(view)
    mean, log_variance = method.mean(features), method.log_variance(features)
    torch.manual_seed(5)
    code = mean + torch.randn(mean.shape) * torch.exp(log_variance / 2)
    share = torch.sigmoid(method.decoder(code).double())
    logs = -(view.double() * share.log() + (1 - view.double()) * (1 - share).log())
    total = 0.0
    for sample in range(len(view)):
        for channel in range(view.shape[1]):
            part = sum(logs[sample, channel].flatten().tolist())
            total += part if channel == 0 else plane_weight * part
        for m, v in zip(mean[sample].tolist(), log_variance[sample].tolist(), strict=True):
            total += weight * (m * m + math.exp(v) - 1 - v) / 2
    return total / len(view)


def value(method, view):
    torch.manual_seed(5)
    return method.loss(Batch([view], torch.arange(len(view)))).loss.item()


@pytest.mark.parametrize(("planes", "plane_weight"), [("once", 1 / 784), ("every-pixel", 1.0)])
def test_loss_is_the_slow_one(planes, plane_weight):
    method, view = vae(planes=planes, beta=0.7, warmup=0.0).eval(), pictures()
    assert value(method, view) == pytest.approx(naive(method, view, 0.7, plane_weight), rel=1e-5)


def test_the_divergences_weight_rises_over_the_warm_up():
    method, view = vae(beta=2.0, warmup=0.2).eval(), pictures()
    weights = []
    for progress in (0.0, 0.05, 0.1, 0.2, 0.7, 1.0):
        method.after_step(progress)
        divergence = naive(method, view, 1, 0) - naive(method, view, 0, 0)
        weights.append((value(method, view) - naive(method, view, 0, 1 / 784)) / divergence)
    assert weights == pytest.approx([0, 0.5, 1, 2, 2, 2], abs=0.02)


def test_the_divergence_by_hand():
    method, view = vae(beta=1.0, warmup=0.0).eval(), pictures()
    for layer, bias in ((method.mean, 3.0), (method.log_variance, math.log(4))):
        torch.nn.init.zeros_(layer.weight)
        torch.nn.init.constant_(layer.bias, bias)
    without = vae(beta=0.0, warmup=0.0).eval()
    without.load_state_dict(method.state_dict())
    # Five latents of mean 3 and variance 4: (9 + 4 - 1 - log 4) / 2 each.
    assert value(method, view) - value(without, view) == pytest.approx(5 * (12 - math.log(4)) / 2, rel=1e-4)


def test_the_code_is_noisy_and_the_projection_is_its_mean():
    method, view = vae().eval(), pictures()
    torch.manual_seed(1)
    first = method.loss(Batch([view], torch.arange(3))).loss.item()
    second = method.loss(Batch([view], torch.arange(3))).loss.item()
    assert first != second
    features = method.encoder(view)
    assert torch.equal(method.project(features), method.mean(features)) and method.project(features).shape == (3, 5)


@pytest.mark.parametrize("side", [28, 29, 32, 33, 56, 112])
@pytest.mark.parametrize(("channels", "bits"), [(1, 0), (3, 2)])
def test_the_decoder_draws_every_size(side, channels, bits):
    method = vae(side, bits, channels)
    assert method.decoder(torch.randn(2, 5)).shape == (2, channels + bits, side, side)
