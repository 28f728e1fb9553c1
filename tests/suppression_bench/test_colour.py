"""Colours of a whole batch at once: each op of each sample against torchvision's function, and by hand."""

import itertools
import math

import pytest
import torch
from torchvision.transforms.v2 import functional as oracle

from suppression_bench.training import colour

CLOSE = dict(rtol=0, atol=1e-5)
BLENDS = {
    colour.BRIGHTNESS: oracle.adjust_brightness,
    colour.CONTRAST: oracle.adjust_contrast,
    colour.SATURATION: oracle.adjust_saturation,
}
OPS = [*BLENDS.values(), oracle.adjust_hue]


@pytest.fixture
def pictures():
    """Noise, and the cases where a hue is not defined or two channels tie."""
    generator = torch.Generator().manual_seed(0)
    noise = torch.rand(60, 3, 24, 24, generator=generator)
    noise[0], noise[1], noise[2] = 0, 1, 0.3
    noise[3, 1:] = 0
    noise[4, 1] = noise[4, 0]
    noise[5, 2] = noise[5, 1]
    noise[6, 2] = noise[6, 0]
    noise[7] = (noise[7] > 0.5).float()
    noise[8] = (noise[8] * 255).round() / 255
    return noise


def spread(low, high, count=60):
    return torch.linspace(low, high, count)[torch.randperm(count, generator=torch.Generator().manual_seed(1))]


def each(function, pictures, *parameters):
    """A function of one picture, picture by picture, with Python numbers."""
    return torch.stack([function(*row) for row in zip(pictures, *(p.tolist() for p in parameters), strict=True)])


@pytest.mark.parametrize("kind", BLENDS)
def test_each_blend_is_torchvisions(pictures, kind):
    factors = spread(0.0, 1.9)
    ours = colour.blend(pictures, factors, torch.full((60,), kind))
    torch.testing.assert_close(ours, each(BLENDS[kind], pictures, factors), **CLOSE)


def test_blends_of_all_kinds_in_one_batch(pictures):
    factors, kinds = spread(0.2, 1.8), torch.arange(60) % 3
    expected = each(lambda picture, factor, kind: BLENDS[kind](picture, factor), pictures, factors, kinds)
    torch.testing.assert_close(colour.blend(pictures, factors, kinds), expected, **CLOSE)


def test_blends_by_hand():
    # Lightness .2989 .5 + .587 .25 + .114 0 = .2962; of a picture of two such pixels that is the mean too.
    pixel = torch.tensor([0.5, 0.25, 0.0]).view(1, 3, 1, 1).expand(3, 3, 1, 2)
    found = colour.blend(pixel, torch.tensor([1.5, 2.0, 0.0]), torch.tensor([0, 1, 2]))
    expected = torch.tensor([[0.75, 0.375, 0.0], [0.7038, 0.2038, 0.0], [0.2962, 0.2962, 0.2962]])
    torch.testing.assert_close(found[:, :, 0, 0], expected, **CLOSE)
    # Contrast 0 is the mean lightness of the picture, not of the batch.
    two = torch.stack([torch.zeros(3, 1, 2), torch.tensor([0.0, 1.0]).expand(3, 1, 2)])
    found = colour.blend(two, torch.zeros(2), torch.full((2,), colour.CONTRAST))
    torch.testing.assert_close(found.mean((1, 2, 3)), torch.tensor([0.0, 0.9999]) * 0.5, **CLOSE)


@pytest.mark.parametrize("limit", [0.2, 0.5])
def test_hue_is_torchvisions(pictures, limit):
    shifts = spread(-limit, limit)
    ours = colour.hue(pictures, shifts)
    torch.testing.assert_close(ours, each(oracle.adjust_hue, pictures, shifts), **CLOSE)
    assert (ours - pictures).abs().amax((1, 2, 3))[8:].min() > 0.01


def test_hue_by_hand():
    # Half a turn from orange (30 degrees) is 210 degrees: red falls to the low value, blue is the value, green between.
    orange = torch.tensor([0.8, 0.5, 0.2]).view(1, 3, 1, 1)
    torch.testing.assert_close(colour.hue(orange, torch.tensor([0.5])).flatten(), torch.tensor([0.2, 0.5, 0.8]))
    # A third of a turn hands each channel on.
    found = colour.hue(orange, torch.tensor([1 / 3])).flatten()
    torch.testing.assert_close(found, torch.tensor([0.2, 0.8, 0.5]), **CLOSE)


def test_jitter_in_every_order_is_torchvisions(pictures):
    orders = torch.tensor(list(itertools.permutations(range(4))))
    order = orders[torch.arange(60) % 24]
    factors = torch.stack([spread(0.2, 1.8), spread(1.8, 0.3), spread(0.1, 1.7).flip(0), spread(-0.2, 0.2)], 1)
    factors[50:] = torch.tensor([1.0, 1.0, 1.0, 0.0])

    def one(picture, own, turns):
        for turn in turns:
            picture = OPS[turn](picture, own[turn])
        return picture

    before = pictures.clone()
    ours = colour.colour_jitter(pictures.clone(), factors, order)
    # The hue amplifies float32's rounding where a channel range is tiny and a contrast follows.
    torch.testing.assert_close(ours, each(one, pictures, factors, order), rtol=0, atol=3e-5)
    assert torch.equal(ours[50:], before[50:])
    # The order matters, so a wrong one would be seen.
    other = colour.colour_jitter(pictures.clone(), factors, order.flip(1))
    assert ((ours - other)[:50].abs().amax((1, 2, 3)) > 1e-3).float().mean() > 0.8


def test_grey_is_torchvisions(pictures):
    expected = torch.stack([oracle.rgb_to_grayscale(picture, num_output_channels=3) for picture in pictures])
    torch.testing.assert_close(colour.grey(pictures), expected, **CLOSE)


@pytest.mark.parametrize(("side", "size"), [(20, 3), (24, 3), (56, 5), (112, 11)])
@pytest.mark.parametrize("channels", [1, 3])
def test_blur_is_torchvisions(side, size, channels):
    assert colour.kernel_size(side) == size
    generator = torch.Generator().manual_seed(side)
    pictures, sigmas = torch.rand(12, channels, side, side, generator=generator), torch.linspace(0.1, 2.0, 12)
    expected = each(lambda p, sigma: oracle.gaussian_blur(p, [size, size], [sigma, sigma]), pictures, sigmas)
    torch.testing.assert_close(colour.blur(pictures, sigmas), expected, **CLOSE)


def test_blur_by_hand():
    # Three taps e^-1/2, 1, e^-1/2 at sigma 1: the middle of a single bright pixel keeps the square of 1 / (1 + 2 e^-1/2).
    picture = torch.zeros(1, 1, 20, 20)
    picture[0, 0, 10, 10] = 1
    found = colour.blur(picture, torch.tensor([1.0]))[0, 0]
    middle = 1 / (1 + 2 * math.exp(-0.5))
    assert found[10, 10].item() == pytest.approx(middle**2, abs=1e-6)
    assert found[10, 11].item() == found[9, 10].item() == pytest.approx(middle**2 * math.exp(-0.5), abs=1e-6)
    assert found[10, 12].item() == 0 and found.sum().item() == pytest.approx(1, abs=1e-6)


def test_solarize_is_torchvisions(pictures):
    pictures[10, 0, 0, 0] = 0.5
    expected = torch.stack([oracle.solarize(picture, 0.5) for picture in pictures])
    torch.testing.assert_close(colour.solarize(pictures), expected, **CLOSE)
    assert colour.solarize(pictures)[1].eq(0).all()


def test_only_the_chosen_are_changed(pictures):
    before, chosen = pictures.clone(), torch.arange(60) % 3 == 0
    found = colour.changed(pictures, chosen, colour.blur, torch.linspace(0.5, 2.0, 60))
    assert torch.equal(found[~chosen], before[~chosen])
    expected = colour.blur(before, torch.linspace(0.5, 2.0, 60))[chosen]
    torch.testing.assert_close(found[chosen], expected, rtol=0, atol=1e-6)
    assert torch.equal(colour.changed(before.clone(), torch.zeros(60, dtype=torch.bool), colour.grey), before)


@pytest.mark.gpu
def test_a_gpu_jitters_as_the_cpu_does(cuda, pictures):
    factors = torch.stack([spread(0.2, 1.8), spread(0.2, 1.8), spread(0.2, 1.8), spread(-0.2, 0.2)], 1)
    order = torch.tensor(list(itertools.permutations(range(4))))[torch.arange(60) % 24]
    found = colour.colour_jitter(pictures.to(cuda), factors.to(cuda), order.to(cuda)).cpu()
    torch.testing.assert_close(found, colour.colour_jitter(pictures, factors, order), rtol=0, atol=3e-5)
