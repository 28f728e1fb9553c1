"""The leaves: the contract of an image source, exactness, and that a class's name says what its pictures show."""

import hashlib
import itertools
import random
import time

import numpy as np
import pytest

from generators.dataset import UserError
from generators.image_sources import leaves as module
from generators.image_sources.leaves import Leaves
from generators.sources import images

GOLDEN = {  # (part, index, side) -> the first 16 digits of the pixels' SHA-256
    ("train", 0, 64): "09ffbea6f7430f4a",
    ("train", 4321, 64): "3645b2e2bf44a4d1",
    ("test", 1999, 64): "7cd5879278148012",
    ("train", 4321, 224): "1df63ee33c427cc6",
    ("test", 250, 224): "e0ac6b7660901888",
    ("test", 1250, 16): "8551ff922be7f5d9",
    ("train", 7654, 512): "4413441d01b21333",
}


@pytest.fixture(scope="module")
def source() -> Leaves:
    return Leaves()


@pytest.fixture(scope="module")
def sample(source) -> dict[str, np.ndarray]:
    """Class name -> 24 of its train pictures, (24, 64, 64, 3) double."""
    return {
        name: np.stack([source.image("train", 1000 * label + 41 * k, 64) for k in range(24)]).astype(np.float64)
        for label, name in enumerate(source.classes)
    }


def mean_of(sample: dict[str, np.ndarray], factor: str, measure) -> list[float]:
    """The measure of each class that has this value of a factor."""
    values = [float(measure(pictures)) for name, pictures in sample.items() if factor in name.split("-")]
    assert len(values) >= 3
    return values


def test_contract(source):
    assert source.name == "leaves" and source.side == 64 and source.licence.startswith("CC0")
    assert len(source.digest) == 64 and images("leaves").digest == source.digest
    for part, count in (("train", 10_000), ("test", 2000)):
        labels = source.labels[part]
        assert labels.dtype == np.int64 and labels.shape == (count,) and source.count(part) == count
        assert (np.diff(labels) >= 0).all(), "sorted by class, as an image folder is"
        assert np.bincount(labels).tolist() == [count // 10] * 10
    for side in (16, 17, 64, 101, 512):
        picture = source.image("test", 7, side)
        assert picture.shape == (side, side, 3) and picture.dtype == np.uint8
    picture[:] = 0
    assert source.image("test", 7, 512).any(), "every call returns a new array"


def test_class_names_are_unique_and_differ_in_two_factors(source):
    factors = [name.split("-") for name in source.classes]
    for one, other in itertools.combinations(factors, 2):
        assert sum(a != b for a, b in zip(one, other, strict=True)) >= 2, (one, other)
    for values in zip(*factors, strict=True):  # no value of a factor belongs to one class alone
        assert min(values.count(value) for value in values) >= 3


def test_a_picture_is_a_pure_function_of_part_and_index(source, monkeypatch):
    wanted = [("train", 17), ("test", 17), ("train", 9000)]
    first = {key: source.image(*key, 64) for key in wanted}

    def refuse(*_, **__):
        raise AssertionError("global randomness or the clock was asked")

    for owner, names in ((np.random, ("rand", "random", "randint", "seed", "default_rng")), (random, ("random",))):
        for name in names:
            monkeypatch.setattr(owner, name, refuse)
    monkeypatch.setattr(time, "time", refuse)
    for key in reversed(wanted):
        Leaves().image("train", 5, 32)
        assert np.array_equal(Leaves().image(*key, 64), first[key])
    assert not np.array_equal(first["train", 17], first["test", 17])


@pytest.mark.parametrize("key", GOLDEN, ids=str)
def test_golden_pictures(source, key):
    assert hashlib.sha256(source.image(*key).tobytes()).hexdigest()[:16] == GOLDEN[key]


@pytest.mark.parametrize("side", [16, 64, 512])
def test_no_32_bit_integer_overflows(source, monkeypatch, side):
    keys = [("train", 1000 * label + 3) for label in range(0, 10, 1 if side < 512 else 4)]
    narrow = [source.image(*key, side) for key in keys]

    class Wide:
        int32 = np.int64

        def __getattr__(self, name):
            return getattr(np, name)

    monkeypatch.setattr(module, "np", Wide())
    monkeypatch.setattr(module, "COSINE", module.COSINE.astype(np.int64))
    monkeypatch.setattr(module, "SINE", module.SINE.astype(np.int64))
    assert module._texture(module.Stream(np.zeros(2, np.uint64), 0), (1,), 3).dtype == np.int64, "really wide"
    for key, picture in zip(keys, narrow, strict=True):
        assert np.array_equal(source.image(*key, side), picture)


@pytest.mark.parametrize("side", [64, 112])
def test_a_larger_side_shows_the_same_scene(source, side):
    for index in range(100, 10_000, 900):
        small = source.image("train", index, side).astype(np.float64)
        large = source.image("train", index, 2 * side).astype(np.float64)
        shrunk = large.reshape(side, 2, side, 2, 3).mean((1, 3))
        other = source.image("train", index + 1, side).astype(np.float64)
        assert np.corrcoef(shrunk.ravel(), small.ravel())[0, 1] > 0.9
        assert np.corrcoef(other.ravel(), small.ravel())[0, 1] < 0.6
        enlarged = small.repeat(2, 0).repeat(2, 1)
        assert np.abs(large - enlarged).mean() > 3, "more detail, not the same pixels enlarged"


@pytest.mark.parametrize(("shape", "area"), [("discs", np.pi / 4), ("boxes", 1), ("shards", 1 / 2)])
def test_areas_of_the_shapes(shape, area):
    # A leaf of half axes 1000 x 500 in its box, not turned: its share of the box is known.
    x, y = np.arange(-1000, 1001), np.arange(-500, 501)[:, None]
    inside = module._inside(x, y, module.SHAPES.index(shape), [2**26 // 1000, 0, 2**26 // 500, 0])
    assert inside.mean() == pytest.approx(area, abs=0.01)


def test_every_place_is_painted_and_textured(sample):
    for pictures in sample.values():
        blocks = pictures.reshape(24, 8, 8, 8, 8, 3).swapaxes(2, 3).reshape(24, 64, 64, 3)
        flat = blocks.std(2).max(-1) < 1  # of the 64 blocks of 8 x 8 pixels
        assert flat.mean() < 0.005, "only clipped black or white may be flat"
        assert 60 < pictures.mean() < 170 and pictures.std() > 30


def test_leaves_cover_most_of_the_ground():
    shares = []
    for index in range(20):
        stream = module.Stream(module.stream_key("leaves", module.VERSION, "train", 0), index)
        owner = module._outlines(stream, 80, 64, 0, module._angles(stream, 80, 0))
        assert owner.min() >= 0 and owner.max() <= 80
        shares.append((owner > 0).mean())
        assert len(np.unique(owner)) > 20, "many leaves are seen"
    assert np.mean(shares) > 0.6


def test_names_tell_the_orientation(sample):
    def upright(pictures):  # change from left to right against change from top to bottom
        return np.abs(np.diff(pictures, axis=2)).mean() / np.abs(np.diff(pictures, axis=1)).mean()

    assert min(mean_of(sample, "upright", upright)) > 1.15
    assert max(mean_of(sample, "lying", upright)) < 1 / 1.15
    slanted = mean_of(sample, "slanted", upright)
    assert 0.9 < min(slanted) and max(slanted) < 1.1


def test_names_tell_the_spectrum(sample):
    def fine(pictures):  # median change to the next pixel against the spread of a picture
        return np.median(np.abs(np.diff(pictures, axis=2))) / pictures.std((1, 2, 3)).mean()

    assert min(mean_of(sample, "rough", fine)) > 1.5 * max(mean_of(sample, "smooth", fine))


def test_names_tell_the_palette(sample):
    def red_over_blue(pictures):
        return (pictures[..., 0] - pictures[..., 2]).mean()

    def green_excess(pictures):
        return (2 * pictures[..., 1] - pictures[..., 0] - pictures[..., 2]).mean()

    assert min(mean_of(sample, "warm", red_over_blue)) > 10 and max(mean_of(sample, "cool", red_over_blue)) < -5
    others = mean_of(sample, "warm", green_excess) + mean_of(sample, "cool", green_excess)
    assert min(mean_of(sample, "green", green_excess)) > max(others) + 10


def test_pictures_of_a_class_vary(sample):
    for pictures in sample.values():
        flat = pictures.reshape(24, -1)
        correlations = np.corrcoef(flat)[np.triu_indices(24, 1)]
        assert np.abs(correlations).max() < 0.6
        assert pictures.mean((1, 2)).std(0).min() > 8, "mean colours vary within a class"


def test_faults(source, monkeypatch):
    with pytest.raises(UserError, match="computed"):
        Leaves("some/folder")
    with pytest.raises(UserError, match="computed"):
        images("leaves:x")
    for side in (15, 513):
        with pytest.raises(UserError, match="16 to 512"):
            source.image("train", 0, side)
    for part, index in (("train", 10_000), ("test", 2000), ("test", -1)):
        with pytest.raises(IndexError, match=part):
            source.image(part, index, 64)
    monkeypatch.setattr(module, "LEAVES_SHA256", "0" * 64)
    with pytest.raises(UserError, match="other images here"):
        Leaves()
