"""Cropping a whole batch at once: each sample against torchvision, by hand, and the bits that no crop may touch."""

import pytest
import torch
from small_cells import Recorder
from torchvision.transforms.v2 import InterpolationMode
from torchvision.transforms.v2 import functional as oracle

from generators.dataset import UserError
from suppression_bench.cell import Augmentation, Train
from suppression_bench.training.data import Samples
from suppression_bench.training.loop import train
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
def test_the_whole_box_changes_nothing(antialias):
    images = torch.rand(4, 2, 28, 28)
    boxes = torch.tensor([[0, 0, 28, 28]]).expand(4, 4)
    torch.testing.assert_close(resized_crop(images, boxes, antialias), images, rtol=0, atol=1e-6)


@pytest.mark.parametrize("antialias", [True, False])
def test_values_known_by_hand(antialias):
    # Two columns of 0 and 1 stretched to four: centres at .25, .75, 1.25, 1.75, so 0, .25, .75, 1.
    image = torch.tensor([[9.0, 0.0, 1.0, 9.0]]).repeat(4, 1)[None, None]
    found = resized_crop(image, torch.tensor([[1, 1, 2, 2]]), antialias)
    torch.testing.assert_close(found[0, 0], torch.tensor([[0.0, 0.25, 0.75, 1.0]]).repeat(4, 1))
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
    found = resized_crop(images, boxes, antialias)
    if channels == 1:  # the same products, so nothing may move
        assert torch.equal(found, expected)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)


def test_bits_are_appended_as_constant_planes():
    images, bits = torch.rand(3, 2, 4, 4), torch.tensor([[1, 0], [0, 1], [1, 1]], dtype=torch.uint8)
    whole = append_constant(images, bits)
    assert whole.shape == (3, 4, 4, 4)
    assert torch.equal(whole[:, :2], images)
    assert torch.equal(whole[:, 2:], bits.float()[:, :, None, None].expand(3, 2, 4, 4))
    assert torch.equal(append_constant(images, bits[:, :0]), images)


def seen(samples, batch_size, *, seed=0, steps=None, **augmentation):
    """The batches of file-ordered training."""
    method = Recorder(channels=samples.images.shape[1] + samples.bits.shape[1])
    training = Train(batch_size=batch_size, steps=steps or len(samples) // batch_size, shuffle=False)
    train(method, samples, training, Augmentation(**augmentation), seed=seed)
    return method.batches


@pytest.fixture
def samples():
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (40, 1, 28, 28), generator=generator, dtype=torch.uint8)
    return Samples(images, torch.randint(0, 2, (40, 4), generator=generator, dtype=torch.uint8))


@pytest.mark.parametrize("crop", ["torchvision", "tensorflow"])
def test_the_two_views_differ_in_the_image_and_not_in_the_bits(samples, crop):
    [batch] = seen(samples, 40, crop=crop, area=[0.5, 1.0])
    first, second = batch.views
    different = (first[:, :1] - second[:, :1]).abs().amax((1, 2, 3)) > 1e-3
    assert different.float().mean() > 0.9
    planes = samples.bits.float()[:, :, None, None].expand(-1, -1, 28, 28)
    assert torch.equal(first[:, 1:], planes) and torch.equal(second[:, 1:], planes)
    for view in batch.views:
        assert view.min() >= 0 and view.max() <= 1 + 1e-6


def test_parameters_differ_within_a_batch():
    # One and the same image 40 times: every crop is another one.
    image = torch.arange(784, dtype=torch.uint8).reshape(1, 1, 28, 28).expand(40, 1, 28, 28)
    [batch] = seen(Samples(image, torch.zeros(40, 0, dtype=torch.uint8)), 40)
    assert len({tuple(view.flatten().tolist()) for view in batch.views[0]}) >= 38


def test_a_samples_crop_does_not_depend_on_the_batch(samples):
    [large] = seen(samples, 40)
    small = seen(samples, 10)
    for view in range(2):
        torch.testing.assert_close(torch.cat([batch.views[view] for batch in small]), large.views[view])


def test_another_epoch_or_seed_is_another_crop(samples):
    first, second = seen(samples, 40, steps=2)
    [other] = seen(samples, 40, seed=1)
    for one, two in ((first, second), (first, other), (second, other)):
        assert ((one.views[0] - two.views[0]).abs().amax((1, 2, 3)) > 1e-3).float().mean() > 0.9


def test_without_a_crop_the_views_are_the_whole_images(samples):
    [batch] = seen(samples, 40, crop="none")
    assert all(torch.equal(view, samples.whole(slice(None))) for view in batch.views)


@pytest.mark.parametrize("wrong", [{"area": [0, 1]}, {"area": [0.5, 1.5]}, {"area": [0.9, 0.1]}, {"aspect": [1]},
                                   {"aspect": [-1, 1]}, {"aspect": [2, 1]}])  # fmt: skip
def test_impossible_ranges_are_refused(wrong):
    with pytest.raises(UserError, match=next(iter(wrong))):
        Augmentation(**wrong)


@pytest.mark.gpu
def test_a_gpu_crops_as_the_cpu_does(cuda):
    generator = torch.Generator().manual_seed(1)
    images, boxes = torch.rand(64, 3, 28, 28, generator=generator), random_boxes(28, 64, generator)
    found = resized_crop(images.to(cuda), boxes.to(cuda)).cpu()
    torch.testing.assert_close(found, resized_crop(images, boxes), rtol=0, atol=1e-5)
