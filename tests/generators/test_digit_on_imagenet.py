"""DigitOnImageNet: pixels against a naive composition, which digit stands on which picture, and what k leaves alone."""

from collections import Counter

import numpy as np
import pytest
from PIL import Image
from toy_data import draw, naive_resize

from generators import manifest, sources
from generators.catalog import dataset
from generators.sources import LARGE_SIDE, images, recipe_for

NAME = "digit-on-imagenet"
COUNTS = {"train": 10_000, "test": 2000}  # of leaves
DIGITS = {"train": 1347, "test": 450}  # of optdigits


def made(**options):
    return dataset(NAME, {"image_size": 32, **options})


def draws(one, split, seed=0, count=None):
    """(picture, digit) of the first samples of a split."""
    factors = [draw(one, split, index, seed)[1] for index in range(count or one.splits[split])]
    return [(f["picture"], f["source"]) for f in factors]


@pytest.fixture
def folder(tmp_path):
    """A tiny folder of PNG pictures, named for `folder:`; bright, dark and of other aspects."""
    random = np.random.Generator(np.random.PCG64(5))
    for part, each in (("train", 4), ("val", 2)):
        for name in ("ant", "bee", "cow"):
            (tmp_path / "my pictures" / part / name).mkdir(parents=True)
            for number in range(each):
                pixels = random.integers(0, 256, (9 + number, 14, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(tmp_path / "my pictures" / part / name / f"{number}.png")
    return f"folder:{tmp_path / 'my pictures'}"


def naive(one, factors, blend, size=None):
    """Integer loops over the nine places, pixels and channels."""
    side, part = one.image_shape[0], factors["part"]
    size = size or round(28 * side / 224)
    picture = one.images.image(part, factors["picture"], side).astype(int).tolist()
    digit = sources.digits("optdigits").images[part][factors["source"]]
    digit = (digit if size == 28 else naive_resize(digit, size, size)).tolist()
    for top in (side * 15 // 100, side * 45 // 100, side * 75 // 100):
        for left in (side * 15 // 100, side * 45 // 100, side * 75 // 100):
            for y in range(size):
                for x in range(size):
                    for channel in range(3):
                        old, new = picture[top + y][left + x][channel], digit[y][x]
                        mixed = max(old, new) if blend == "max" else min(255, old + new)
                        picture[top + y][left + x][channel] = mixed
    return np.array(picture, dtype=np.uint8)


@pytest.mark.parametrize("blend", ["max", "add"])
@pytest.mark.parametrize("side", [32, 33, 64])
def test_pixels_are_those_of_the_naive_composition(blend, side, folder):
    for source, few in (("leaves", {"train": 7, "test": 5}), (folder, {})):
        one = made(image_source=source, image_size=side, blend=blend, **few)
        for split in one.splits:
            for index in (0, one.splits[split] - 1):
                sample = one.sample(split, index, 3)
                assert sample.image.dtype == np.uint8 and sample.image.shape == (side, side, 3)
                assert np.array_equal(sample.image, naive(one, sample.factors, blend))
                assert np.array_equal(one.sample(split, index, 3).image, sample.image)  # the source keeps its own


@pytest.mark.parametrize(("side", "size"), [(32, 4), (64, 16), (66, 16), (112, 28)])
def test_digits_of_another_size_stand_at_the_same_places(side, size):
    one = made(image_size=side, digit_size=size, train=3, test=2)
    for split in one.splits:
        sample = one.sample(split, 1, 3)
        assert np.array_equal(sample.image, naive(one, sample.factors, "max", size))


def test_the_papers_digit_size_written_out_is_the_same_dataset():
    plain = manifest.identity(made(image_size=64), 0)
    assert "digit_size" not in plain.options and manifest.identity(made(image_size=64, digit_size=8), 0) == plain
    assert manifest.identity(made(image_size=64, digit_size=16), 0).options["digit_size"] == 16


def test_places_and_size_at_224_and_64():
    large, small = made(image_size=224, train=1, test=1), made(image_size=64, train=1, test=1)
    assert (large.corners, large.digit_side) == ([33, 100, 168], 28)
    assert (small.corners, small.digit_side) == ([9, 28, 48], 8)
    sample = large.sample("pretrain", 0, 0)
    digit = sources.digits("optdigits").images["train"][0]
    difference = sample.image != images("leaves").image("train", 0, 224)
    inside = np.zeros((224, 224), dtype=bool)
    for top in (33, 100, 168):
        for left in (33, 100, 168):
            inside[top : top + 28, left : left + 28] = True
            assert (sample.image[top : top + 28, left : left + 28] >= digit[:, :, None]).all()
    assert difference.any() and not difference[~inside].any()


@pytest.mark.parametrize("side", range(32, 1025, 31))
def test_digits_never_leave_the_picture(side):
    one = made(image_size=side)
    assert one.corners == [side * 15 // 100, side * 45 // 100, side * 75 // 100]
    for digit in (one.digit_side, made(image_size=side, digit_size=side // 4).digit_side):
        assert one.corners[2] + digit <= side and one.corners[0] + digit <= one.corners[1] <= one.corners[2] - digit


@pytest.mark.parametrize("k", [1, 16, 1347, None])
def test_fixed_takes_the_first_k_train_digits_in_turn(k):
    one = made(unique_digits=k, train=3000)
    labels = sources.digits("optdigits").labels["train"]
    for index in range(3000):
        found, factors = draw(one, "pretrain", index)
        assert factors["source"] == index % (k or 1347) and found["digit"] == labels[factors["source"]]
        assert factors["part"] == "train" and draw(one, "pretrain", index, seed=9) == (found, factors)


def test_redraw_takes_the_first_k_alone_uniformly_and_whatever_the_index():
    one, k, rounds = made(unique_digits=5, digits="redraw", train=400, rounds=5), 5, 5
    assert one.splits["pretrain"] == 2000
    found = draws(one, "pretrain")
    used = Counter(digit for _, digit in found)
    assert set(used) == set(range(k))
    assert sum((count - 400) ** 2 / 400 for count in used.values()) < 23.5  # chi-square, 4 degrees, p = 1e-4
    pictures = [picture for picture, _ in found]
    assert pictures == pictures[:400] * rounds == [i * 25 for i in range(400)] * rounds
    digits = np.array([digit for _, digit in found])
    for gap in (1, 5, 400):  # neighbours, fixed's period, another round: a fifth of the digits agree
        share = (digits[gap:] == digits[:-gap]).mean()
        assert abs(share - 0.2) < 5 * 0.4 / (2000 - gap) ** 0.5
    assert found != draws(one, "pretrain", seed=1)


@pytest.mark.parametrize("options", [{}, {"unique_digits": 3}, {"digits": "redraw", "rounds": 2, "unique_digits": 1}])
def test_probe_splits_hold_all_digits_and_parts_never_mix(options):
    one = made(train=1400, test=900, probe_train=2694, **options)
    for split, part in (("probe-train", "train"), ("probe-test", "test")):
        found, available = draws(one, split), DIGITS[part]
        assert len(found) == 2 * available
        for turn in (found[:available], found[available:]):
            assert sorted(digit for _, digit in turn) == list(range(available))
        assert [digit for _, digit in found[:available]] != [digit for _, digit in found[available:]]
    for split, part in (("pretrain", "train"), ("probe-train", "train"), ("probe-test", "test")):
        digits = sources.digits("optdigits").labels[part]
        for index in range(0, one.splits[split], 211):
            labels, factors = draw(one, split, index)
            assert factors["part"] == part and factors["picture"] < COUNTS[part]
            expected = {"image": images("leaves").labels[part][factors["picture"]], "digit": digits[factors["source"]]}
            assert labels == expected and all(type(value) is int for value in labels.values())


def test_probe_on_pretrain_has_no_probe_train():
    usual, literal = made(train=20, test=10), made(train=20, test=10, probe_on="pretrain")
    assert usual.splits == {"pretrain": 20, "probe-train": 20, "probe-test": 10}
    assert usual.probes == dict.fromkeys(("image", "digit"), ("probe-train", "probe-test"))
    assert literal.splits == {"pretrain": 20, "probe-test": 10}
    assert literal.probes == dict.fromkeys(("image", "digit"), ("pretrain", "probe-test"))
    assert draws(usual, "probe-test") == draws(literal, "probe-test")


def test_the_knob_and_the_blend_leave_everything_else_alone():
    base = made(train=60, test=30, probe_train=50)
    for options in ({"unique_digits": 4}, {"blend": "add"}, {"unique_digits": 4, "digits": "redraw"}):
        other = made(train=60, test=30, probe_train=50, **options)
        assert other.splits == base.splits and other.probes == base.probes
        for split in ("probe-train", "probe-test"):
            assert draws(base, split, seed=2) == draws(other, split, seed=2)
        pictures = [[picture for picture, _ in draws(one, "pretrain", seed=2)] for one in (base, other)]
        assert pictures[0] == pictures[1]
        if "blend" not in options:
            assert np.array_equal(base.sample("probe-test", 3, 2).image, other.sample("probe-test", 3, 2).image)
    two = made(train=60, test=30, unique_digits=4), made(train=60, test=30, unique_digits=4, blend="add")
    assert draws(two[0], "pretrain") == draws(two[1], "pretrain")
    assert not np.array_equal(*(one.sample("pretrain", 0, 0).image for one in two))


@pytest.mark.parametrize("count", [10, 30, 70, 10_000])
def test_a_limited_number_is_spread_evenly_over_the_classes(count):
    one = made(train=count, test=20)
    for split, part in (("pretrain", "train"), ("probe-train", "train"), ("probe-test", "test")):
        chosen = [picture for picture, _ in draws(one, split)]
        assert len(set(chosen)) == len(chosen) == one.splits[split] and chosen == sorted(chosen)
        classes = Counter(images("leaves").labels[part][chosen].tolist())
        assert len(classes) == 10 and set(classes.values()) == {one.splits[split] // 10}


def test_spread_by_hand(folder):
    source = images(folder)
    assert [source.spread("train", 5, index) for index in range(5)] == [0, 2, 4, 7, 9]  # of 12
    assert [source.spread("test", 6, index) for index in range(6)] == list(range(6))


def test_what_it_declares(folder):
    one = dataset(NAME, {"image_source": folder})
    assert (
        one.image_shape == (LARGE_SIDE, LARGE_SIDE, 3)
        and one.splits["pretrain"] == 12
        and one.recipe == "natural-small"
    )
    assert {name: (f.classes, f.many) for name, f in one.features.items()} == {
        "image": (3, False),
        "digit": (10, False),
    }
    assert one.targets == ["image", "digit"] and one.strength == "unique_digits" and one.constant_channels is None
    assert set(one.sources) == {"images", "digits"}
    source = images("leaves")
    source.labels = {"train": np.zeros(100_000, dtype=np.int64), "test": source.labels["test"]}
    assert recipe_for(source) == "natural"
