"""Where the crops lie: torchvision's distribution, and TensorFlow's rule against a second, scalar writing."""

import hashlib
import math

import numpy as np
import pytest
import torch
from scipy.stats import ks_2samp
from torchvision.transforms.v2 import RandomResizedCrop

from generators.randomness import random_words, stream_key
from suppression_bench.cell import Augmentation
from suppression_bench.training import augment as rules
from suppression_bench.training.augment import ATTEMPTS, crop_boxes

KEY = stream_key("test", 1, "pretrain", 0)
RANGES = [
    ((0.5, 1.0), (3 / 4, 4 / 3)),
    ((0.08, 1.0), (3 / 4, 4 / 3)),
    ((0.08, 0.3), (1.0, 2.0)),
    ((0.95, 1.0), (1.1, 1.3)),
]


def drawn(crop, area, aspect, side=28, *, key=KEY, stream=16, epoch=0, count=4000):
    return crop_boxes(Augmentation(crop=crop, area=list(area), aspect=list(aspect)), side, key, stream, epoch, count)


@pytest.mark.parametrize("crop", ["torchvision", "tensorflow"])
@pytest.mark.parametrize(("area", "aspect"), RANGES)
@pytest.mark.parametrize("side", [28, 40])
def test_always_inside(crop, area, aspect, side):
    top, left, height, width = drawn(crop, area, aspect, side).T
    assert (top >= 0).all() and (left >= 0).all() and (height >= 1).all() and (width >= 1).all()
    assert (top + height <= side).all() and (left + width <= side).all()


def statistics(boxes, side):
    top, left, height, width = np.asarray(boxes, dtype=float).T
    return {"area": height * width / side**2, "aspect": width / height, "top": top, "left": left, "height": height}


@pytest.mark.parametrize(("area", "aspect"), RANGES[:3])
def test_distributed_as_torchvisions(area, aspect):
    torch.manual_seed(0)
    transform, image = RandomResizedCrop(28, scale=area, ratio=aspect), torch.zeros(1, 28, 28)
    theirs = []
    for _ in range(4000):
        box = transform.make_params([image])
        theirs.append([box[side] for side in ("top", "left", "height", "width")])
    ours, theirs = statistics(drawn("torchvision", area, aspect, count=40_000), 28), statistics(theirs, 28)
    for name in ours:
        # Kolmogorov's distance that equal distributions exceed once in 2,000 draws.
        assert ks_2samp(ours[name], theirs[name]).statistic < 2.03 * math.sqrt(44 / 40 / 4000), name
        assert ours[name].mean() == pytest.approx(theirs[name].mean(), abs=4 * theirs[name].std() / math.sqrt(4000))


def tensorflow_box(words, side, area, aspect):
    """GenerateRandomCrop of TensorFlow's sample_distorted_bounding_box, number by number, on the sample's own words."""

    def below(word, bound):
        return (word * bound) >> 64

    smallest, largest = area[0] * side * side, area[1] * side * side
    (row_word, column_word), attempts = words[-1], words[:-1]
    for aspect_word, height_word in attempts:
        ratio = aspect[0] + (aspect_word >> 11) * 2.0**-53 * (aspect[1] - aspect[0])
        height = round(math.sqrt(smallest / ratio))
        max_height = round(math.sqrt(largest / ratio))
        if round(max_height * ratio) > side:
            max_height = int((side + 0.5 - 1e-7) / ratio)
        if max_height > side:
            max_height = side
        if height >= max_height:
            height = max_height
        if height < max_height:
            height += below(height_word, max_height - height + 1)
        width = round(height * ratio)
        if width * height < smallest:
            height += 1
            width = round(height * ratio)
        if width * height > largest:
            height -= 1
            width = round(height * ratio)
        if not smallest <= width * height <= largest or width > side or height > side or width <= 0 or height <= 0:
            continue
        top = below(row_word, side - height) if height < side else 0
        left = below(column_word, side - width) if width < side else 0
        return [top, left, height, width]
    return [0, 0, side, side]


@pytest.mark.parametrize(("area", "aspect"), RANGES)
@pytest.mark.parametrize("side", [28, 40])
def test_tensorflows_rule_number_by_number(side, area, aspect):
    count = 1500
    words = random_words(KEY, 16, 0, 0, count=count * 2 * (ATTEMPTS + 1)).reshape(count, ATTEMPTS + 1, 2).tolist()
    expected = [tensorflow_box(sample_words, side, area, aspect) for sample_words in words]
    assert drawn("tensorflow", area, aspect, side, count=count).tolist() == expected


def test_tensorflows_rule_by_hand():
    # Aspect 1 and the area of a 20x20 crop alone: height 20, offsets below 8 (never 8 itself).
    boxes = drawn("tensorflow", (400 / 784, 400 / 784), (1.0, 1.0))
    assert set(map(tuple, boxes[:, 2:].tolist())) == {(20, 20)}
    assert set(boxes[:, 0].tolist()) == set(range(8)) == set(boxes[:, 1].tolist())
    # torchvision's offsets reach the edge.
    boxes = drawn("torchvision", (400 / 784, 400 / 784), (1.0, 1.0))
    assert set(boxes[:, 0].tolist()) == set(range(9)) == set(boxes[:, 1].tolist())


@pytest.mark.parametrize("crop", ["torchvision", "tensorflow"])
def test_a_table_hangs_on_its_named_axes_alone(crop):
    first = drawn(crop, *RANGES[1], count=50)
    np.testing.assert_array_equal(first, drawn(crop, *RANGES[1], count=50))
    np.testing.assert_array_equal(first[:20], drawn(crop, *RANGES[1], count=20))
    tables = [first]
    tables += [
        drawn(crop, *RANGES[1], count=50, stream=17),
        drawn(crop, *RANGES[1], count=50, epoch=1),
        drawn(crop, *RANGES[1], count=50, key=stream_key("test", 1, "pretrain", 1)),
    ]
    for table in tables:
        assert len({tuple(row) for row in table.tolist()}) > 40
        assert sum(np.array_equal(table, another) for another in tables) == 1
        # No row of one table comes back in another by more than chance.
        assert all((table == another).all(1).mean() < 0.2 for another in tables if another is not table)


def every_attempt(crop, area, aspect, side, count):
    """The boxes with all attempts of all samples computed at once, the first that fits taken."""
    augmentation = Augmentation(crop=crop, area=list(area), aspect=list(aspect))
    rule = rules._torchvision_size if crop == "torchvision" else rules._tensorflow_size
    words = random_words(KEY, 16, 0, 0, count=count * 2 * (ATTEMPTS + 1)).reshape(count, ATTEMPTS + 1, 2)
    height, width, valid = rule(words[:, :-1], side, augmentation)
    sizes = []
    for row, fits in enumerate(valid):
        first = np.flatnonzero(fits)[:1]
        sizes.append([height[row, first[0]], width[row, first[0]]] if len(first) else [side, side])
    return sizes, valid


@pytest.mark.parametrize("crop", ["torchvision", "tensorflow"])
@pytest.mark.parametrize(("area", "aspect"), [*RANGES, ((0.99, 1.0), (1.3, 1.4))])
def test_later_attempts_count_only_where_the_first_does_not_fit(crop, area, aspect):
    expected, valid = every_attempt(crop, area, aspect, 28, 3000)
    assert drawn(crop, area, aspect, count=3000)[:, 2:].tolist() == expected
    if area[0] > 0.9:
        assert not valid[:, 0].all()


@pytest.mark.parametrize(("crop", "digest"), [("torchvision", "a0f28a5954447e51"), ("tensorflow", "0befc711e187108d")])
def test_the_crops_of_the_published_records_stay(crop, digest):
    table = drawn(crop, (0.5, 1.0), (3 / 4, 4 / 3), key=stream_key("training", 1, "pretrain", 0), count=1347)
    assert hashlib.sha256(table.astype("<i8").tobytes()).hexdigest()[:16] == digest


def test_no_crop_is_the_whole_image():
    assert drawn("none", *RANGES[0], count=3).tolist() == [[0, 0, 28, 28]] * 3
