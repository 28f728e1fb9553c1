"""What is drawn for each sample and view, and whole views: by the drawn parameters, sample for sample, bits untouched."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import kstest
from small_cells import make_cell
from torchvision.transforms.v2 import InterpolationMode
from torchvision.transforms.v2 import functional as oracle

from generators.dataset import UserError
from generators.randomness import below, random_words, stream_key, uniform
from suppression_bench import run as running
from suppression_bench.cell import Augmentation
from suppression_bench.training import augment as augmenting
from suppression_bench.training.augment import Draws, augment, crop_boxes, draw
from suppression_bench.training.data import Samples
from suppression_bench.training.loop import Epoch
from suppression_bench.training.transforms import append_constant, kernel_size

KEY = stream_key("test", 1, "pretrain", 0)
SIMCLR = dict(flip=0.5, jitter=0.8, grey=0.2, blur=0.5)
ALL = Augmentation(**SIMCLR, solarize=[0.1, 0.3])


def drawn(augmentation=ALL, side=24, views=range(2), epoch=0, count=20_000):
    return draw(augmentation, side, KEY, views, epoch, count, torch.device("cpu"))


def images_of(count, side=24, channels=3):
    generator = torch.Generator().manual_seed(side)
    images = torch.randint(0, 256, (count, channels, side, side), generator=generator, dtype=torch.uint8)
    return Samples(images, torch.randint(0, 2, (count, 4), generator=generator, dtype=torch.uint8))


def test_nothing_is_drawn_that_is_off():
    draws = drawn(Augmentation())
    assert draws.boxes.shape == (2, 20_000, 4)
    assert all(getattr(draws, name) is None for name in ("flip", "factors", "order", "grey", "sigma", "solarize"))
    assert drawn(Augmentation(crop="none")) == Draws() and draws.boxes is not None
    for view in range(2):
        np.testing.assert_array_equal(draws.boxes[view], crop_boxes(Augmentation(), 24, KEY, 16 + view, 0, 20_000))
    # What is on changes nothing of what was drawn before.
    assert torch.equal(drawn().boxes, draws.boxes)
    assert torch.equal(drawn(Augmentation(flip=0.5)).flip, drawn().flip)


def near(found, probability):
    """Within four standard errors."""
    return abs(found.double().mean().item() - probability) < 4 * math.sqrt(probability * (1 - probability) / len(found))


def test_each_is_applied_as_often_as_asked():
    draws = drawn()
    for view, solarize in ((0, 0.1), (1, 0.3)):
        assert near(draws.flip[view], 0.5) and near(draws.grey[view], 0.2) and near(draws.sigma[view] > 0, 0.5)
        assert near((draws.factors[view] != torch.tensor([1.0, 1.0, 1.0, 0.0])).any(1), 0.8)
        assert near(draws.solarize[view], solarize)
    sure = drawn(Augmentation(flip=1.0, jitter=1.0, grey=1.0, blur=[1.0, 0.1], solarize=[0.0, 0.2]), count=2000)
    assert sure.flip.all() and sure.grey.all() and (sure.sigma[0] > 0).all() and near(sure.sigma[1] > 0, 0.1)
    assert (sure.factors != torch.tensor([1.0, 1.0, 1.0, 0.0])).any(2).all()
    assert not sure.solarize[0].any() and near(sure.solarize[1], 0.2)


@pytest.mark.parametrize("strength", [1.0, 0.5, 2.0])
def test_factors_are_uniform_around_no_change(strength):
    [factors] = drawn(Augmentation(jitter=1.0, jitter_strength=strength), views=range(1)).factors.double().numpy()
    reach = 0.8 * strength
    low = max(0.0, 1 - reach)
    for column in range(3):
        assert kstest(factors[:, column], "uniform", (low, 1 + reach - low)).pvalue > 1e-4
    assert kstest(factors[:, 3], "uniform", (-0.2 * strength, 0.4 * strength)).pvalue > 1e-4
    # Independent of each other.
    assert np.abs(np.corrcoef(factors.T) - np.eye(4)).max() < 4 / math.sqrt(len(factors))


def test_sigmas_are_uniform_and_orders_all_alike():
    draws = drawn()
    sigma = draws.sigma[draws.sigma > 0].double().numpy()
    assert kstest(sigma, "uniform", (0.1, 1.9)).pvalue > 1e-4
    found, counts = np.unique(draws.order[0].numpy(), axis=0, return_counts=True)
    assert len(found) == 24 and (np.sort(found, axis=1) == np.arange(4)).all()
    assert np.abs(counts - 20_000 / 24).max() < 4.5 * math.sqrt(20_000 / 24)


def test_draws_are_pure_functions_of_their_named_axes():
    draws = drawn(count=300)
    # Written a second time, from the words: golden for every cell that will be trained.
    words = random_words(KEY, 48 + 1, 0, 0, count=1800).reshape(300, 6)
    applied, factors = uniform(words[:, 0]) < 0.8, uniform(words[:, 1:5])
    ranges = [(0.2, 1.8)] * 3 + [(-0.2, 0.2)]
    for column, (low, high) in enumerate(ranges):
        expected = np.where(applied, low + factors[:, column] * (high - low), 0.0 if column == 3 else 1.0)
        np.testing.assert_allclose(draws.factors[1, :, column], expected, rtol=0, atol=1e-7)
    assert draws.order[1, 0].tolist() == augmenting.ORDERS[below(words[0, 5], 24)].tolist()
    for name, stream, probability in (("flip", 32, 0.5), ("grey", 64, 0.2)):
        for view in range(2):
            expected = uniform(random_words(KEY, stream + view, count=300)) < probability
            np.testing.assert_array_equal(getattr(draws, name)[view], expected)
    blur = random_words(KEY, 80, count=600).reshape(300, 2)
    expected = np.where(uniform(blur[:, 0]) < 0.5, 0.1 + 1.9 * uniform(blur[:, 1]), 0)
    np.testing.assert_allclose(draws.sigma[0], expected, rtol=1e-6)
    np.testing.assert_array_equal(draws.solarize[1], uniform(random_words(KEY, 97, count=300)) < 0.3)
    # One view alone, fewer samples: the same; another epoch: others.
    assert torch.equal(drawn(count=300, views=range(1, 2)).factors[0], draws.factors[1])
    assert torch.equal(drawn(count=50).sigma, draws.sigma[:, :50])
    later = drawn(count=300, epoch=1)
    for name in ("flip", "factors", "order", "grey", "sigma", "solarize", "boxes"):
        table = getattr(draws, name)
        assert not torch.equal(getattr(later, name), table) and not torch.equal(table[0], table[1])


def view_by_torchvision(image, bits, row):
    """One sample's view, op by op with torchvision's functions and that sample's own parameters."""
    side = image.shape[-1]
    view = oracle.resized_crop(
        image.float() / 255, *row["boxes"], [side, side], interpolation=InterpolationMode.BILINEAR, antialias=True
    )
    view = oracle.horizontal_flip(view) if row["flip"] else view
    ops = [oracle.adjust_brightness, oracle.adjust_contrast, oracle.adjust_saturation, oracle.adjust_hue]
    if row["factors"] != [1, 1, 1, 0]:
        for turn in row["order"]:
            view = ops[turn](view, row["factors"][turn])
    view = oracle.rgb_to_grayscale(view, num_output_channels=3) if row["grey"] else view
    if row["sigma"] > 0:
        view = oracle.gaussian_blur(view, [kernel_size(side)] * 2, [row["sigma"]] * 2)
    view = oracle.solarize(view, 0.5) if row["solarize"] else view
    return torch.cat([view, bits.float()[:, None, None].expand(-1, side, side)])


@pytest.mark.parametrize("side", [24, 40])
def test_whole_views_are_torchvisions_sample_for_sample(side, monkeypatch):
    monkeypatch.setattr(augmenting, "BLOCK", 3 * side * side * 7)  # several blocks, the last one smaller
    samples = images_of(150, side)
    epoch = Epoch(0, samples, 2, True, ALL, KEY)
    index = epoch.order[:100]
    views = epoch.views(index)
    assert len(views) == 2 and views[0].shape == (100, 7, side, side)
    names = ("boxes", "flip", "factors", "order", "grey", "sigma", "solarize")
    for number, view in enumerate(views):
        tables = {name: getattr(epoch.draws, name)[number][index].tolist() for name in names}
        expected = torch.stack(
            [
                view_by_torchvision(samples.images[i], samples.bits[i], {name: tables[name][place] for name in names})
                for place, i in enumerate(index.tolist())
            ]
        )
        different = (view - expected).abs()
        # Solarize jumps at .5: a pixel within rounding of it may fall on either side.
        assert different[:, 3:].max() == 0 and (different > 5e-5).float().mean() < 1e-4


def test_a_permuted_batch_is_a_permuted_answer_and_samples_differ():
    samples = images_of(40)
    epoch = Epoch(3, samples, 2, False, ALL, KEY)
    index = torch.arange(40)
    order = torch.randperm(40, generator=torch.Generator().manual_seed(0))
    for straight, permuted in zip(epoch.views(index), epoch.views(order), strict=True):
        torch.testing.assert_close(permuted, straight[order], rtol=0, atol=1e-6)
    same = Samples(samples.images[:1].expand(40, -1, -1, -1), samples.bits)
    for view in Epoch(3, same, 2, False, ALL, KEY).views(index):
        assert len({tuple(image.flatten().tolist()) for image in view[:, :3]}) == 40
        assert view[:, :3].min() >= -1e-6 and view[:, :3].max() <= 1 + 1e-6


def test_flip_alone_mirrors_exactly():
    samples, index = images_of(40, 40), torch.arange(40)
    epoch = Epoch(0, samples, 2, False, Augmentation(crop="none", flip=0.5), KEY)
    for view, flip in zip(epoch.views(index), epoch.draws.flip, strict=True):
        expected = samples.whole(index)
        expected[flip] = expected[flip].flip(3)
        assert torch.equal(view, expected) and 5 < flip.sum() < 35


def test_a_method_with_one_view_sees_the_first():
    samples, index = images_of(40), torch.arange(40)
    two = Epoch(0, samples, 2, False, ALL, KEY).views(index)
    [one] = Epoch(0, samples, 1, False, ALL, KEY).views(index)
    torch.testing.assert_close(one, two[0], rtol=0, atol=1e-6)


def test_an_empty_table_leaves_images_whole():
    samples = images_of(5)
    found = augment(samples.images, samples.bits, augmenting.Draws(), Augmentation(crop="none"))
    assert torch.equal(found, append_constant(samples.images.float() / 255, samples.bits))
    assert found.stride() == torch.cat([found, found[:, :0]], 1).contiguous(memory_format=torch.channels_last).stride()


WRONG = [
    *[{"area": value} for value in ([0, 1], [0.5, 1.5], [0.9, 0.1])],
    *[{"aspect": value} for value in ([1], [-1, 1], [2, 1])],
    *[{"flip": 1.5}, {"jitter": -0.1}, {"grey": 2.0}, {"blur": [0.5, 1.1]}, {"blur": []}, {"solarize": [-1.0]}],
    *[{"jitter_strength": 0.0}, {"jitter_strength": 3.0}],
]


@pytest.mark.parametrize("wrong", WRONG)
def test_impossible_settings_are_refused(wrong):
    with pytest.raises(UserError, match=f"augmentation.{next(iter(wrong))}"):
        Augmentation(**wrong)


def test_colours_need_colour_and_a_blur_needs_pixels():
    Augmentation(flip=0.5, blur=0.5, solarize=0.1).check((28, 28, 1), 2)
    Augmentation(**SIMCLR).check((20, 20, 3), 2)
    for name in ("jitter", "grey"):
        with pytest.raises(UserError, match=f"augmentation.{name} 0.5 needs images with 3 channels, these have 1"):
            Augmentation(**{name: 0.5}).check((28, 28, 1), 2)
    with pytest.raises(UserError, match=r"augmentation.blur .* 20 pixels or more .* these have 19"):
        Augmentation(blur=[0.0, 0.1]).check((19, 19, 3), 2)


@pytest.mark.parametrize("name", ["blur", "solarize"])
def test_no_more_probabilities_than_views(randbit, name):
    with pytest.raises(UserError, match=rf"augmentation.{name} has 3 values \[1.0, 0.1, 0.5\], the method has 2 views"):
        running.check(make_cell("simclr", randbit, **{f"augmentation__{name}": "1.0,0.1,0.5"}))
    for method in ("byol", "supervised", "untrained"):  # one recipe for all: the metrics draw two views of each
        running.check(make_cell(method, randbit, **{f"augmentation__{name}": "1.0,0.1"}))
    Augmentation(**{name: [1.0, 0.1, 0.5]}).check((28, 28, 1), 3)


def test_values_for_each_view_are_read_from_text(randbit):
    cell = make_cell("simclr", randbit, augmentation__blur="1,0.1", augmentation__solarize="0.2").cell
    assert cell.augmentation.blur == (1.0, 0.1) and cell.augmentation.solarize == 0.2
    with pytest.raises(UserError, match=r"augmentation\.flip is a probability"):
        make_cell("simclr", randbit, augmentation__flip=2)


@pytest.mark.gpu
def test_a_gpu_sees_what_the_cpu_sees(cuda):
    samples, index = images_of(40), torch.arange(40)
    there = Samples(samples.images.to(cuda), samples.bits.to(cuda))
    ours, theirs = (Epoch(0, one, 2, True, ALL, KEY) for one in (samples, there))
    assert torch.equal(ours.order, theirs.order.cpu()) and torch.equal(ours.draws.factors, theirs.draws.factors.cpu())
    for one, other in zip(ours.views(index), theirs.views(index.to(cuda)), strict=True):
        assert ((one - other.cpu()).abs() > 5e-5).float().mean() < 1e-4
