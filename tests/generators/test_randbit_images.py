"""RandBit over pictures, and what later options leave alone: codes, identities, and MultiDigits' `distinct`."""

from collections import Counter

import numpy as np
import pytest
from toy_data import draw, naive_resize

from generators import manifest, sources
from generators.build import build
from generators.catalog import dataset
from generators.dataset import UserError
from generators.randomness import Stream, stream_key
from generators.sources import images


def test_pictures_and_labels_are_the_source_s():
    source = images("leaves")
    for side in (None, 40):
        made = dataset("randbit", {"image_source": "leaves", "train": 30, "test": 20, "image_size": side})
        assert made.image_shape == (side or 64, side or 64, 3)
        assert set(made.features) == {"image"} and made.features["image"].classes == 10
        assert made.targets == ["image", "code"] and made.recipe == "natural-small"
        assert made.probes == dict.fromkeys(("image", "code"), ("pretrain", "probe-test"))
        for split, part, step in (("pretrain", "train", 10_000 // 30), ("probe-test", "test", 100)):
            for index in (0, 1, 19):
                sample = made.sample(split, index, 0)
                place = sample.factors["source"]
                assert sample.factors["part"] == part and index * step <= place < index * step + 7
                assert sample.labels["image"] == source.labels[part][place]
                assert np.array_equal(sample.image, source.image(part, place, side or 64))
    classes = Counter(draw(made, "pretrain", index)[0]["image"] for index in range(30))
    assert classes == dict.fromkeys(range(10), 3)


@pytest.mark.parametrize("side", [8, 33, 60])
def test_digits_of_another_size(side):
    made, digits = dataset("randbit", {"image_size": side}), sources.digits("optdigits")
    assert made.image_shape == (side, side, 1) and set(made.features) == {"digit"}
    for split, part in (("pretrain", "train"), ("probe-test", "test")):
        expected = naive_resize(digits.images[part][11], side, side)
        assert np.array_equal(made.sample(split, 11, 0).image[:, :, 0], expected)


def test_the_code_is_independent_of_the_source_and_its_size():
    kinds = [{}, {"image_size": 20}, {"image_source": "leaves"}, {"image_source": "leaves", "train": 500}]
    for split in ("pretrain", "probe-test"):
        for index in (0, 7, 400):
            assert len({draw(dataset("randbit", kind), split, index, 3)[0]["code"] for kind in kinds}) == 1
    assert draw(dataset("randbit", {"image_source": "leaves"}), "pretrain", 0)[0]["code"] == 3393871795


def test_later_options_are_no_part_of_the_identity_at_their_default():
    plain = manifest.identity(dataset("randbit", {}), 0)
    assert plain.options == {"digit_source": "optdigits", "train": None, "test": None}
    same = [{"digit_source": "optdigits"}, {"image_source": None}, {"image_size": "none", "digit_source": None}]
    assert all(manifest.identity(dataset("randbit", options), 0) == plain for options in same)
    assert "classes" not in plain.builtins()["sources"]["digits"]
    other = manifest.identity(dataset("randbit", {"image_source": "leaves", "image_size": 32}), 0)
    assert other.options == {
        "digit_source": None,
        "image_source": "leaves",
        "image_size": 32,
        "train": None,
        "test": None,
    }
    assert other.sources["images"].classes == images("leaves").classes
    assert "distinct" not in manifest.identity(dataset("multidigits", {"distinct": "none"}), 0).options
    assert manifest.identity(dataset("multidigits", {"distinct": "classes"}), 0).options["distinct"] == "classes"


def test_golden_digests(tmp_path):
    """Datasets of before the later options keep their digests."""
    made = build(dataset("randbit", {"train": 20, "test": 5}), tmp_path / "a")
    assert made.content_digest == "7b1ef45a3ed3eed8643a27ec963c96b800c0932a0492f9b63e368e434a6e22fd"
    few = {"train": 20, "probe_train": 5, "probe_test": 5}
    made = build(dataset("multidigits", {**few, "sizes": [20, 30]}), tmp_path / "b")
    assert made.content_digest == "948e39a9a4d5727314081f17a815ff00ff261ba85d4d95a6e0eed63eb885d866"
    made = build(dataset("multidigits", {**few, "count": 3}), tmp_path / "c")
    assert made.content_digest == "ed041f2ebccd1d5b0763b9d7c81f29ee9ea6fdb421c44b4009abac3462fddf66"


@pytest.mark.parametrize(
    "name, options",
    [
        ("multidigits", {"count": 2}),
        ("randbit", {"digit_source": "optdigits", "image_size": 28, "train": 1347, "test": 450}),
        ("digit-on-imagenet", {"unique_digits": 1347, "train": 10_000, "test": 2000, "probe_train": 10_000}),
    ],
)
def test_a_default_written_out_is_the_same_dataset(name, options):
    assert manifest.identity(dataset(name, options), 0) == manifest.identity(dataset(name, {}), 0)


@pytest.mark.parametrize(
    "name, options",
    [
        ("randbit", {"image_source": "leaves", "image_size": 16, "train": 4, "test": 3}),
        (
            "multidigits",
            {"count": 3, "distinct": "classes", "train": 4, "probe_train": 2, "probe_test": 2, "canvas": 40},
        ),
        (
            "digit-on-imagenet",
            {"unique_digits": 2, "image_size": 32, "train": 4, "test": 3, "digits": "redraw", "rounds": 2},
        ),
    ],
)
def test_the_order_of_options_does_not_matter(name, options, tmp_path):
    turned = dict(reversed(options.items()))
    assert list(turned) != list(options)
    first = build(dataset(name, options), tmp_path / "a")
    assert build(dataset(name, turned), tmp_path / "b").content_digest == first.content_digest
    assert build(dataset(name, {**options, "train": 3}), tmp_path / "c").content_digest != first.content_digest


def naive_distinct(stream, available: int, wanted: int) -> list[int]:
    """Draw from a list of those that are left; the last one moves to the place of the drawn."""
    left, found = list(range(available)), []
    for position, word in enumerate(stream.words(0, wanted).tolist()):
        place = word * (available - position) >> 64
        found.append(left[place])
        last = left.pop()
        if place < len(left):
            left[place] = last
    return found


@pytest.mark.parametrize("options", [{"count": 1}, {"count": 12}, {"count": 1024}, {"sizes": [20, 30, 40]}], ids=str)
def test_instances_never_repeat_and_equal_the_naive_draw(options):
    made = dataset("multidigits", {"distinct": "instances", **options})
    for index in range(20):
        factors = draw(made, "pretrain", index, 5)[1]
        stream = Stream(stream_key("multidigits", 1, "pretrain", 5), index)
        assert factors["source"] == naive_distinct(stream, 1347, len(made.sizes))
        assert len(set(factors["source"])) == len(made.sizes)


def test_instances_are_uniform_and_all_reachable():
    made = dataset("multidigits", {"distinct": "instances", "count": 100})
    used = Counter(one for index in range(1500) for one in draw(made, "pretrain", index)[1]["source"])
    assert len(used) == 1347
    expected, variance = 1500 * 100 / 1347, 1500 * 100 / 1347 * (1 - 100 / 1347)
    assert max(abs(count - expected) for count in used.values()) < 5 * variance**0.5
    last = Counter(draw(made, "pretrain", index)[1]["source"][-1] // 135 for index in range(1500))
    assert max(abs(count - 150) for count in last.values()) < 5 * 135**0.5  # the last draw is uniform too


def test_classes_never_repeat_and_are_uniform():
    labels = sources.digits("optdigits").labels["train"]
    made = dataset("multidigits", {"distinct": "classes", "count": 3})
    classes, instances = Counter(), Counter()
    for index in range(9000):
        found, factors = draw(made, "pretrain", index)
        assert found["digits"] == labels[factors["source"]].tolist() and len(set(found["digits"])) == 3
        classes.update((place, one) for place, one in enumerate(found["digits"]))
        instances.update(factors["source"])
    assert len(classes) == 30 and max(abs(count - 900) for count in classes.values()) < 5 * (900 * 0.9) ** 0.5
    assert len(instances) == 1347  # each digit is reachable, and equally often within its class
    sizes = Counter(labels.tolist())
    spread = [abs(count - 2700 / sizes[labels[one]]) for one, count in instances.items()]
    assert max(spread) < 5.5 * (2700 / min(sizes.values())) ** 0.5
    whole = dataset("multidigits", {"distinct": "classes", "count": 10})
    assert all(sorted(draw(whole, "pretrain", index)[0]["digits"]) == list(range(10)) for index in range(20))


def test_none_repeats_and_the_probes_and_places_do_not_change():
    kinds = [dataset("multidigits", {"count": 10, "distinct": kind}) for kind in ("none", "instances", "classes")]
    assert any(len(set(draw(kinds[0], "pretrain", index)[0]["digits"])) < 10 for index in range(20))
    for index in range(5):
        places = [draw(kind, "pretrain", index)[1] for kind in kinds]
        assert places[0]["top"] == places[1]["top"] == places[2]["top"]
        for split in ("probe-train", "probe-test"):
            assert draw(kinds[0], split, index) == draw(kinds[1], split, index) == draw(kinds[2], split, index)


@pytest.mark.parametrize(
    "options, parts",
    [
        ({"distinct": "classes", "count": 11}, ["--distinct classes allows 10", "got 11"]),
        ({"distinct": "classes", "sizes": [20] * 11}, ["allows 10", "got 11"]),
        ({"distinct": "instances", "sizes": [4] * 1348}, ["allows 1347", "got 1348"]),
        ({"distinct": "both"}, ["distinct must be one of none, instances, classes"]),
    ],
    ids=["11 classes", "11 sizes", "1348 instances", "both"],
)
def test_too_many_distinct_digits_are_refused(options, parts):
    with pytest.raises(UserError) as caught:
        dataset("multidigits", options)
    assert all(part in str(caught.value) for part in parts), str(caught.value)
