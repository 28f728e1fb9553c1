"""Colours of a whole batch at once: each op of each sample against torchvision's function, and by hand."""

import itertools
import math

import pytest
import torch
from torchvision.transforms.v2 import functional as oracle

from suppression_bench.training import transforms

CLOSE = dict(rtol=0, atol=1e-5)
BLENDS = {
    transforms.BRIGHTNESS: oracle.adjust_brightness,
    transforms.CONTRAST: oracle.adjust_contrast,
    transforms.SATURATION: oracle.adjust_saturation,
}
OPS = [*BLENDS.values(), oracle.adjust_hue]


@pytest.fixture
def images():
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


def each(function, images, *parameters):
    """A function of one image, image by image, with Python numbers."""
    return torch.stack([function(*row) for row in zip(images, *(p.tolist() for p in parameters), strict=True)])


@pytest.mark.parametrize("kind", BLENDS)
def test_each_blend_is_torchvisions(images, kind):
    factors = spread(0.0, 1.9)
    ours = transforms.blend(images, factors, torch.full((60,), kind))
    torch.testing.assert_close(ours, each(BLENDS[kind], images, factors), **CLOSE)


def test_blends_of_all_kinds_in_one_batch(images):
    factors, kinds = spread(0.2, 1.8), torch.arange(60) % 3
    expected = each(lambda image, factor, kind: BLENDS[kind](image, factor), images, factors, kinds)
    torch.testing.assert_close(transforms.blend(images, factors, kinds), expected, **CLOSE)


def test_blends_by_hand():
    # Lightness .2989 .5 + .587 .25 + .114 0 = .2962; of a image of two such pixels that is the mean too.
    pixel = torch.tensor([0.5, 0.25, 0.0]).view(1, 3, 1, 1).expand(3, 3, 1, 2)
    found = transforms.blend(pixel, torch.tensor([1.5, 2.0, 0.0]), torch.tensor([0, 1, 2]))
    expected = torch.tensor([[0.75, 0.375, 0.0], [0.7038, 0.2038, 0.0], [0.2962, 0.2962, 0.2962]])
    torch.testing.assert_close(found[:, :, 0, 0], expected, **CLOSE)
    # Contrast 0 is the mean lightness of the image, not of the batch.
    two = torch.stack([torch.zeros(3, 1, 2), torch.tensor([0.0, 1.0]).expand(3, 1, 2)])
    found = transforms.blend(two, torch.zeros(2), torch.full((2,), transforms.CONTRAST))
    torch.testing.assert_close(found.mean((1, 2, 3)), torch.tensor([0.0, 0.9999]) * 0.5, **CLOSE)


@pytest.mark.parametrize("limit", [0.2, 0.5])
def test_hue_is_torchvisions(images, limit):
    shifts = spread(-limit, limit)
    ours = transforms.hue(images, shifts)
    torch.testing.assert_close(ours, each(oracle.adjust_hue, images, shifts), **CLOSE)
    assert (ours - images).abs().amax((1, 2, 3))[8:].min() > 0.01


def test_hue_by_hand():
    # Half a turn from orange (30 degrees) is 210 degrees: red falls to the low value, blue is the value, green between.
    orange = torch.tensor([0.8, 0.5, 0.2]).view(1, 3, 1, 1)
    torch.testing.assert_close(transforms.hue(orange, torch.tensor([0.5])).flatten(), torch.tensor([0.2, 0.5, 0.8]))
    # A third of a turn hands each channel on.
    found = transforms.hue(orange, torch.tensor([1 / 3])).flatten()
    torch.testing.assert_close(found, torch.tensor([0.2, 0.8, 0.5]), **CLOSE)


def test_jitter_in_every_order_is_torchvisions(images):
    orders = torch.tensor(list(itertools.permutations(range(4))))
    order = orders[torch.arange(60) % 24]
    factors = torch.stack([spread(0.2, 1.8), spread(1.8, 0.3), spread(0.1, 1.7).flip(0), spread(-0.2, 0.2)], 1)
    factors[50:] = torch.tensor([1.0, 1.0, 1.0, 0.0])

    def one(image, own, turns):
        for turn in turns:
            image = OPS[turn](image, own[turn])
        return image

    before = images.clone()
    ours = transforms.colour_jitter(images.clone(), factors, order)
    # The hue amplifies float32's rounding where a channel range is tiny and a contrast follows.
    torch.testing.assert_close(ours, each(one, images, factors, order), rtol=0, atol=3e-5)
    assert torch.equal(ours[50:], before[50:])
    # The order matters, so a wrong one would be seen.
    other = transforms.colour_jitter(images.clone(), factors, order.flip(1))
    assert ((ours - other)[:50].abs().amax((1, 2, 3)) > 1e-3).float().mean() > 0.8


def test_grey_is_torchvisions(images):
    expected = torch.stack([oracle.rgb_to_grayscale(image, num_output_channels=3) for image in images])
    torch.testing.assert_close(transforms.grey(images), expected, **CLOSE)


@pytest.mark.parametrize(("side", "size"), [(20, 3), (24, 3), (56, 5), (112, 11)])
@pytest.mark.parametrize("channels", [1, 3])
def test_blur_is_torchvisions(side, size, channels):
    assert transforms.kernel_size(side) == size
    generator = torch.Generator().manual_seed(side)
    images, sigmas = torch.rand(12, channels, side, side, generator=generator), torch.linspace(0.1, 2.0, 12)
    expected = each(lambda p, sigma: oracle.gaussian_blur(p, [size, size], [sigma, sigma]), images, sigmas)
    torch.testing.assert_close(transforms.blur(images, sigmas), expected, **CLOSE)


def test_blur_by_hand():
    # Three taps e^-1/2, 1, e^-1/2 at sigma 1: the middle of a single bright pixel keeps the square of 1 / (1 + 2 e^-1/2).
    image = torch.zeros(1, 1, 20, 20)
    image[0, 0, 10, 10] = 1
    found = transforms.blur(image, torch.tensor([1.0]))[0, 0]
    middle = 1 / (1 + 2 * math.exp(-0.5))
    assert found[10, 10].item() == pytest.approx(middle**2, abs=1e-6)
    assert found[10, 11].item() == found[9, 10].item() == pytest.approx(middle**2 * math.exp(-0.5), abs=1e-6)
    assert found[10, 12].item() == 0 and found.sum().item() == pytest.approx(1, abs=1e-6)


def test_solarize_is_torchvisions(images):
    images[10, 0, 0, 0] = 0.5
    expected = torch.stack([oracle.solarize(image, 0.5) for image in images])
    torch.testing.assert_close(transforms.solarize(images), expected, **CLOSE)
    assert transforms.solarize(images)[1].eq(0).all()


def test_only_the_chosen_are_changed(images):
    before, chosen = images.clone(), torch.arange(60) % 3 == 0
    found = transforms.apply_to(images, chosen, transforms.blur, torch.linspace(0.5, 2.0, 60))
    assert torch.equal(found[~chosen], before[~chosen])
    expected = transforms.blur(before, torch.linspace(0.5, 2.0, 60))[chosen]
    torch.testing.assert_close(found[chosen], expected, rtol=0, atol=1e-6)
    assert torch.equal(transforms.apply_to(before.clone(), torch.zeros(60, dtype=torch.bool), transforms.grey), before)


@pytest.mark.gpu
def test_a_gpu_jitters_as_the_cpu_does(cuda, images):
    factors = torch.stack([spread(0.2, 1.8), spread(0.2, 1.8), spread(0.2, 1.8), spread(-0.2, 0.2)], 1)
    order = torch.tensor(list(itertools.permutations(range(4))))[torch.arange(60) % 24]
    found = transforms.colour_jitter(images.to(cuda), factors.to(cuda), order.to(cuda)).cpu()
    torch.testing.assert_close(found, transforms.colour_jitter(images, factors, order), rtol=0, atol=3e-5)
