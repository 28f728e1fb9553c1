"""MultiDigits and RandBit: the labels, places, counts and bits that their docstrings promise."""

from collections import Counter

import numpy as np
import pytest
from toy_data import draw, naive_resize

from generators import sources
from generators.catalog import dataset
from generators.dataset import UserError

PART = {"pretrain": "train", "probe-train": "train", "probe-test": "test"}
SETTINGS = [
    {},
    {"count": 5},
    {"sizes": "20,40"},
    {"count": 4, "placement": "grid"},
    {"canvas": 64, "sizes": [9, 64]},
    {"canvas": 56, "digit_size": 14, "count": 16, "placement": "grid"},
]


@pytest.mark.parametrize("options", SETTINGS, ids=str)
def test_multidigits_labels_and_pixels_follow_from_the_factors(options):
    made, digits = dataset("multidigits", options), sources.digits("optdigits")
    for split in made.splits:
        part = PART[split if split in PART else split.rpartition("-")[0]]
        for index in range(3):
            sample = made.sample(split, index, 4)
            factors = sample.factors
            assert factors["part"] == part and sample.index == index
            classes = [int(digits.labels[part][source]) for source in factors["source"]]
            assert sample.labels["digits"] == classes
            for size in set(factors["size"]):
                feature = f"digit_{size}" if "sizes" in options else "digit"
                alone = factors["size"].count(size) == 1
                assert sample.labels.get(feature) == (classes[factors["size"].index(size)] if alone else None)
            total = np.zeros((made.options["canvas"],) * 2, dtype=int)
            for source, size, top, left in zip(*(factors[k] for k in ("source", "size", "top", "left")), strict=True):
                patch = digits.images[part][source]
                patch = patch if size == 28 else naive_resize(patch, size, size)
                assert 0 <= top <= len(total) - size and 0 <= left <= len(total) - size
                for row in range(size):
                    for column in range(size):
                        total[top + row, left + column] += patch[row, column]
            assert sample.image.dtype == np.uint8 and sample.image.shape == made.image_shape
            assert np.array_equal(sample.image[:, :, 0], np.minimum(total, 255))


def test_pretrain_has_the_asked_digits_and_probes_have_one():
    for options, sides in (({}, [28, 28]), ({"count": 9}, [28] * 9), ({"sizes": [20, 80]}, [20, 80])):
        made = dataset("multidigits", options)
        assert draw(made, "pretrain", 0)[1]["size"] == sides
        for feature, splits in made.probes.items():
            for split in splits:
                labels, factors = draw(made, split, 5)
                assert factors["size"] == [int(split.rpartition("-")[2]) if "sizes" in options else 28]
                assert labels == {"digits": [labels[feature]], feature: labels[feature]}


@pytest.mark.parametrize("options, cells", [({"count": 16}, 16), ({"count": 3}, 16), ({"canvas": 70, "count": 4}, 4)])
def test_grid_places_are_cells_without_repetition(options, cells):
    made, used = dataset("multidigits", {"placement": "grid", **options}), Counter()
    for index in range(300):
        _, factors = draw(made, "pretrain", index)
        places = list(zip(factors["top"], factors["left"], strict=True))
        assert len(set(places)) == len(places) == options["count"]
        assert all(top % 28 == left % 28 == 0 for top, left in places)
        used.update(places)
    assert len(used) == cells  # and every cell is used
    assert max(used.values()) < 2 * min(used.values())


def test_random_places_reach_both_borders():
    made = dataset("multidigits", {"sizes": [100, 28]})
    tops, lefts = np.array([[draw(made, "pretrain", index)[1][k] for index in range(900)] for k in ("top", "left")])
    for places in (tops, lefts):
        assert (places[:, 0].min(), places[:, 0].max()) == (0, 12)
        assert (places[:, 1].min(), places[:, 1].max()) == (0, 84)
    assert abs(np.corrcoef(tops[:, 1], lefts[:, 1])[0, 1]) < 0.17  # five standard errors


@pytest.mark.parametrize("split, available", [("probe-train", 1347), ("probe-test", 450)])
def test_probe_splits_use_each_digit_once_before_any_twice(split, available):
    made = dataset("multidigits", {"probe-train": 2 * 1347 + 10, "probe-test": 910})
    assert made.splits == {"pretrain": 60_000, "probe-train": 2704, "probe-test": 910}
    order = [draw(made, split, index)[1]["source"][0] for index in range(made.splits[split])]
    for turn in (order[:available], order[available : 2 * available]):
        assert sorted(turn) == list(range(available))
    assert order[:available] != order[available : 2 * available]
    assert len(set(order[2 * available :])) == 10
    assert order != [draw(made, split, index, seed=1)[1]["source"][0] for index in range(len(order))]


def test_only_probe_test_holds_test_digits():
    made, digits = dataset("multidigits", {"sizes": [20, 28]}), sources.digits("optdigits")
    train = {picture.tobytes() for picture in digits.images["train"]}
    for split in made.splits:
        for index in range(30):
            _, factors = draw(made, split, index)
            pictures = [digits.images[factors["part"]][source].tobytes() for source in factors["source"]]
            assert all(picture in train for picture in pictures) == ("probe-test" not in split)


def test_two_digits_of_one_size_are_probed_once_and_not_labelled():
    made = dataset("multidigits", {"sizes": [20, 20]})
    assert made.probes == {"digit_20": ("probe-train-20", "probe-test-20")}
    assert set(made.features) == {"digits", "digit_20"} and made.features["digits"].many
    assert set(draw(made, "pretrain", 0)[0]) == {"digits"}


def test_randbit_takes_the_source_in_order_and_balanced_independent_bits():
    made, digits = dataset("randbit", {}), sources.digits("optdigits")
    assert made.splits == {"pretrain": 1347, "probe-test": 450}
    for split, part in (("pretrain", "train"), ("probe-test", "test")):
        codes = []
        for index in range(made.splits[split]):
            labels, factors = draw(made, split, index)
            assert labels["digit"] == digits.labels[part][index] and factors == {"part": part, "source": index}
            codes.append(labels["code"])
        assert min(codes) >= 0 and max(codes) < 2**32 and len(set(codes)) == len(codes)
        bits = np.array(codes)[:, None] >> np.arange(32) & 1
        assert abs(bits.mean(0) - 0.5).max() < 5 * 0.5 / len(codes) ** 0.5
        assert abs(np.corrcoef(bits.T) - np.eye(32)).max() < 5 / len(codes) ** 0.5
        assert np.array_equal(made.sample(split, 7, 0).image[:, :, 0], digits.images[part][7])
    assert (made.constant_channels.label, made.constant_channels.max) == ("code", 32)


def test_randbit_code_hangs_on_the_sample_alone():
    whole, part = dataset("randbit", {}), dataset("randbit", {"train": 10, "test": 3})
    for split in whole.splits:
        assert whole.sample(split, 2, 0).labels == part.sample(split, 2, 0).labels
        assert whole.sample(split, 2, 0).labels["code"] != whole.sample(split, 2, 1).labels["code"]
    assert draw(whole, "pretrain", 2)[0]["code"] != draw(whole, "probe-test", 2)[0]["code"]


@pytest.mark.parametrize(
    "name, options, parts",
    [
        ("multidigits", {"sizes": [20, 200]}, ["--sizes 200", "4 to 112"]),
        ("multidigits", {"sizes": [3]}, ["--sizes 3"]),
        ("multidigits", {"count": 17, "placement": "grid"}, ["--count 17", "16 cells"]),
        ("multidigits", {"canvas": 28, "placement": "grid"}, ["--count 2", "1 cells"]),
        ("multidigits", {"sizes": [20], "placement": "grid"}, ["grid", "--count"]),
        ("multidigits", {"count": 2, "sizes": [20]}, ["count and sizes exclude each other"]),
        ("multidigits", {"count": 0}, ["--count 0"]),
        ("multidigits", {"count": 2, "digit_size": 3}, ["--digit-size 3", "4 to 112"]),
        ("multidigits", {"sizes": [20, 50], "digit_size": 14}, ["--digit-size 14", "--sizes"]),
        ("multidigits", {"count": 17, "placement": "grid", "canvas": 56, "digit_size": 14}, ["16 cells of 14 pixels"]),
        ("multidigits", {"count": 10**13}, ["--count", "1024"]),
        ("multidigits", {"canvas": 27}, ["--canvas 27"]),
        ("multidigits", {"canvas": 1025}, ["--canvas 1025"]),
        (
            "multidigits",
            {"train": 0, "probe-train": 0, "probe-test": -1},
            ["--train 0", "--probe-train 0", "--probe-test -1"],
        ),
        (
            "multidigits",
            {"count": 2000, "sizes": [2], "canvas": 3, "train": 0},
            ["exclude", "--canvas 3", "--count 2000", "--sizes 2", "--train 0"],
        ),
        ("multidigits", {"cuont": 2}, ["'cuont'", "did you mean 'count'?"]),
        ("multidigits", {"count": "two"}, ["count must be an integer or none, got 'two'"]),
        (
            "multidigits",
            {"count": True, "placment": "grid", "canvas": 1.5, "placement": "gird"},
            ["count must be", "did you mean 'placement'?", "canvas must be", "one of random, grid"],
        ),
        ("multidigits", {"digit_source": "emnist"}, ["unknown digit source 'emnist'"]),
        ("randbit", {"train": 1348}, ["--train 1348", "1 to 1347"]),
        ("randbit", {"test": 451}, ["--test 451", "1 to 450"]),
        ("randbit", {"train": 0}, ["--train 0"]),
        ("randbit", {"digit_source": "optdigits", "image_source": "leaves"}, ["exclude each other"]),
        ("randbit", {"image_source": "leafs"}, ["unknown image source", "did you mean 'leaves'?"]),
        ("randbit", {"image_source": ""}, ["unknown image source ''"]),
        ("randbit", {"digit_source": ""}, ["unknown digit source ''"]),
        ("randbit", {"image_size": 7}, ["--image-size 7: from 8"]),
        ("randbit", {"image_source": "leaves", "image_size": 1025}, ["--image-size 1025"]),
        ("randbit", {"image_source": "leaves", "train": 10_001}, ["--train 10001", "leaves has 1 to 10000"]),
        ("randbit", {"image_source": "leaves", "test": 0}, ["--test 0"]),
        ("digit-on-imagenet", {"image_size": 31}, ["--image-size 31: from 32 to 1024"]),
        ("digit-on-imagenet", {"image_size": 1025}, ["--image-size 1025"]),
        ("digit-on-imagenet", {"image_size": 64, "digit_size": 17}, ["--digit-size 17: from 4 to 16 pixels"]),
        ("digit-on-imagenet", {"digit_size": 3, "rounds": 0}, ["--digit-size 3: from 4 to 56 pixels", "--rounds 0"]),
        ("digit-on-imagenet", {"unique_digits": 1348}, ["--unique-digits 1348: optdigits has 1 to 1347"]),
        ("digit-on-imagenet", {"rounds": 0, "digits": "redraw"}, ["--rounds 0"]),
        ("digit-on-imagenet", {"rounds": 2}, ["--rounds 2", "--digits redraw"]),
        ("digit-on-imagenet", {"train": 10_001}, ["--train 10001", "1 to 10000"]),
        ("digit-on-imagenet", {"probe_on": "pretrain", "probe_train": 5}, ["goes with --probe-on probe-train"]),
        (
            "digit-on-imagenet",
            {"image_size": 5, "unique_digits": 0, "rounds": -3, "train": 0, "test": 2001, "probe_train": 10**20},
            [
                "--image-size 5",
                "--unique-digits 0",
                "--rounds -3",
                "--train 0",
                "--test 2001",
                f"--probe-train {10**20}",
            ],
        ),
        (
            "digit-on-imagenet",
            {"blend": "mix", "digits": "often", "unique_digit": 3},
            ["blend must be one of max, add", "digits must be one of fixed, redraw", "did you mean 'unique_digits'?"],
        ),
        ("digit-on-imagenet", {"image_source": "leaves:here"}, ["leaves:here"]),
        ("digit-on-imagenet", {"image_source": "folder:"}, ["needs a place"]),
    ],
)
def test_option_faults_are_named_all_at_once(name, options, parts):
    with pytest.raises(UserError) as caught:
        dataset(name, options)
    assert all(part in str(caught.value) for part in parts), str(caught.value)
    assert caught.value.exit_code == 2
