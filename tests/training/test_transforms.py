"""Transforms of a whole batch at once: each sample against torchvision's function, and by hand; bits stay untouched."""

import itertools
import math

import pytest
import torch
from torchvision.transforms.v2 import InterpolationMode
from torchvision.transforms.v2 import functional as oracle

from suppression_bench.training import transforms
from suppression_bench.training.transforms import _filters, append_constant, resized_crop


def random_boxes(side, count, generator):
    height = torch.randint(1, side + 1, (count,), generator=generator)
    width = torch.randint(1, side + 1, (count,), generator=generator)
    top = (torch.rand(count, generator=generator) * (side - height + 1)).long()
    left = (torch.rand(count, generator=generator) * (side - width + 1)).long()
    return torch.stack([top, left, height, width], dim=1)


@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize(("side", "channels"), [(28, 1), (40, 3)])
def test_each_sample_is_torchvisions_resized_crop(side, channels, antialias):
    generator = torch.Generator().manual_seed(side)
    images = torch.rand(300, channels, side, side, generator=generator)
    boxes = random_boxes(side, 300, generator)
    ours = resized_crop(images, boxes, antialias)
    for image, box, mine in zip(images, boxes.tolist(), ours, strict=True):
        theirs = oracle.resized_crop(
            image, *box, [side, side], interpolation=InterpolationMode.BILINEAR, antialias=antialias
        )
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-5)


@pytest.mark.parametrize("antialias", [True, False])
def test_values_known_by_hand(antialias):
    # Two columns of 0 and 1 stretched to four: centres at .25, .75, 1.25, 1.75, so 0, .25, .75, 1.
    image = torch.tensor([[9.0, 0.0, 1.0, 9.0]]).repeat(4, 1)[None, None]
    cropped = resized_crop(image, torch.tensor([[1, 1, 2, 2]]), antialias)
    torch.testing.assert_close(cropped[0, 0], torch.tensor([[0.0, 0.25, 0.75, 1.0]]).repeat(4, 1))
    # Rows are not columns.
    turned = resized_crop(image.transpose(2, 3), torch.tensor([[1, 1, 2, 2]]), antialias)
    torch.testing.assert_close(turned[0, 0], torch.tensor([0.0, 0.25, 0.75, 1.0])[:, None].repeat(1, 4))


def filters_of_the_first_records(start, length, side, antialias):
    """The crop's weights as the records of docs/results were made with them, operation by operation."""
    grid = torch.arange(side, dtype=torch.float32)
    start, length = start.float()[:, None, None], length.float()[:, None, None]
    scale = length / side
    centre = start + (grid[None, :, None] + 0.5) * scale
    reach = scale.clamp(min=1) if antialias else torch.ones_like(scale)
    pixel = grid[None, None, :]
    weights = (1 - ((pixel + 0.5 - centre) / reach).abs()).clamp(min=0)
    weights = weights * ((pixel >= start) & (pixel < start + length))
    return weights / weights.sum(2, keepdim=True)


@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize(("side", "channels"), [(28, 1), (32, 3), (33, 1), (56, 1)])
def test_crops_are_those_of_the_first_records_bit_for_bit(side, channels, antialias):
    generator = torch.Generator().manual_seed(side)
    images, boxes = torch.rand(60, channels, side, side, generator=generator), random_boxes(side, 60, generator)
    rows = filters_of_the_first_records(boxes[:, 0], boxes[:, 2], side, antialias)
    columns = filters_of_the_first_records(boxes[:, 1], boxes[:, 3], side, antialias)
    assert torch.equal(_filters(boxes[:, 0], boxes[:, 2], None, side, antialias), rows)
    assert torch.equal(_filters(boxes[:, 1], boxes[:, 3], torch.zeros(60, dtype=torch.bool), side, antialias), columns)
    expected = torch.matmul(torch.matmul(rows[:, None], images), columns[:, None].transpose(-1, -2))
    cropped = resized_crop(images, boxes, antialias)
    if channels == 1:  # the same products, so nothing may move
        assert torch.equal(cropped, expected)
    torch.testing.assert_close(cropped, expected, rtol=0, atol=1e-6)


def test_bits_are_appended_as_constant_planes():
    images, bits = torch.rand(3, 2, 4, 4), torch.tensor([[1, 0], [0, 1], [1, 1]], dtype=torch.uint8)
    whole = append_constant(images, bits)
    assert whole.shape == (3, 4, 4, 4)
    assert torch.equal(whole[:, :2], images)
    assert torch.equal(whole[:, 2:], bits.float()[:, :, None, None].expand(3, 2, 4, 4))
    assert torch.equal(append_constant(images, bits[:, :0]), images)


@pytest.mark.gpu
def test_a_gpu_crops_as_the_cpu_does(cuda):
    generator = torch.Generator().manual_seed(1)
    images, boxes = torch.rand(64, 3, 28, 28, generator=generator), random_boxes(28, 64, generator)
    cropped = resized_crop(images.to(cuda), boxes.to(cuda)).cpu()
    torch.testing.assert_close(cropped, resized_crop(images, boxes), rtol=0, atol=1e-5)


# Colours

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


def test_blends_of_all_kinds_in_one_batch(images):
    factors, kinds = spread(0.2, 1.8), torch.arange(60) % 3
    expected = each(lambda image, factor, kind: BLENDS[kind](image, factor), images, factors, kinds)
    torch.testing.assert_close(transforms.blend(images, factors, kinds), expected, **CLOSE)


def test_blends_by_hand():
    # Lightness .2989 .5 + .587 .25 + .114 0 = .2962; of a image of two such pixels that is the mean too.
    pixel = torch.tensor([0.5, 0.25, 0.0]).view(1, 3, 1, 1).expand(3, 3, 1, 2)
    changed = transforms.blend(pixel, torch.tensor([1.5, 2.0, 0.0]), torch.tensor([0, 1, 2]))
    expected = torch.tensor([[0.75, 0.375, 0.0], [0.7038, 0.2038, 0.0], [0.2962, 0.2962, 0.2962]])
    torch.testing.assert_close(changed[:, :, 0, 0], expected, **CLOSE)
    # Contrast 0 is the mean lightness of the image, not of the batch.
    two = torch.stack([torch.zeros(3, 1, 2), torch.tensor([0.0, 1.0]).expand(3, 1, 2)])
    changed = transforms.blend(two, torch.zeros(2), torch.full((2,), transforms.CONTRAST))
    torch.testing.assert_close(changed.mean((1, 2, 3)), torch.tensor([0.0, 0.9999]) * 0.5, **CLOSE)


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
    changed = transforms.hue(orange, torch.tensor([1 / 3])).flatten()
    torch.testing.assert_close(changed, torch.tensor([0.2, 0.8, 0.5]), **CLOSE)


def test_jitter_in_every_order_is_torchvisions(images):
    orders = torch.tensor(list(itertools.permutations(range(4))))
    order = orders[torch.arange(60) % 24]
    factors = torch.stack([spread(0.2, 1.8), spread(1.8, 0.3), spread(0.1, 1.7).flip(0), spread(-0.2, 0.2)], 1)
    factors[50:] = torch.tensor([1.0, 1.0, 1.0, 0.0])

    def jittered(image, factors, turns):
        for turn in turns:
            image = OPS[turn](image, factors[turn])
        return image

    before = images.clone()
    ours = transforms.colour_jitter(images.clone(), factors, order)
    # The hue amplifies float32's rounding where a channel range is tiny and a contrast follows.
    torch.testing.assert_close(ours, each(jittered, images, factors, order), rtol=0, atol=3e-5)
    assert torch.equal(ours[50:], before[50:])
    # The order matters, so a wrong one would be seen.
    reordered = transforms.colour_jitter(images.clone(), factors, order.flip(1))
    assert ((ours - reordered)[:50].abs().amax((1, 2, 3)) > 1e-3).float().mean() > 0.8


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
    changed = transforms.blur(image, torch.tensor([1.0]))[0, 0]
    middle = 1 / (1 + 2 * math.exp(-0.5))
    assert changed[10, 10].item() == pytest.approx(middle**2, abs=1e-6)
    assert changed[10, 11].item() == changed[9, 10].item() == pytest.approx(middle**2 * math.exp(-0.5), abs=1e-6)
    assert changed[10, 12].item() == 0 and changed.sum().item() == pytest.approx(1, abs=1e-6)


def test_solarize_is_torchvisions(images):
    images[10, 0, 0, 0] = 0.5
    expected = torch.stack([oracle.solarize(image, 0.5) for image in images])
    torch.testing.assert_close(transforms.solarize(images), expected, **CLOSE)
    assert transforms.solarize(images)[1].eq(0).all()


def test_only_the_chosen_are_changed(images):
    before, chosen = images.clone(), torch.arange(60) % 3 == 0
    changed = transforms.apply_to(images, chosen, transforms.blur, torch.linspace(0.5, 2.0, 60))
    assert torch.equal(changed[~chosen], before[~chosen])
    expected = transforms.blur(before, torch.linspace(0.5, 2.0, 60))[chosen]
    torch.testing.assert_close(changed[chosen], expected, rtol=0, atol=1e-6)
    assert torch.equal(transforms.apply_to(before.clone(), torch.zeros(60, dtype=torch.bool), transforms.grey), before)


@pytest.mark.gpu
def test_a_gpu_jitters_as_the_cpu_does(cuda, images):
    factors = torch.stack([spread(0.2, 1.8), spread(0.2, 1.8), spread(0.2, 1.8), spread(-0.2, 0.2)], 1)
    order = torch.tensor(list(itertools.permutations(range(4))))[torch.arange(60) % 24]
    changed = transforms.colour_jitter(images.to(cuda), factors.to(cuda), order.to(cuda)).cpu()
    torch.testing.assert_close(changed, transforms.colour_jitter(images, factors, order), rtol=0, atol=3e-5)
