"""All three families: the same content for any workers and shard sizes, with all global randomness forbidden."""

import random

import numpy as np
import pytest
import torch
from PIL import Image

from generators import sources
from generators.build import build
from generators.catalog import dataset
from generators.inspect import verify

FAMILIES = {
    "multidigits": {"sizes": [20, 60], "train": 60, "probe_train": 12, "probe_test": 9},
    "randbit": {"image_source": "leaves", "image_size": 32, "train": 30, "test": 10},
    "digit-on-imagenet": {"image_size": 40, "unique_digits": 7, "train": 30, "test": 10, "probe_train": 9},
    "folder": {"image_size": 40, "digits": "redraw", "rounds": 2, "blend": "add"},
}


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """An image folder of two classes with six pictures each, JPEG and PNG."""
    folder, chance = tmp_path_factory.mktemp("pictures"), np.random.default_rng(5)
    for part in ("train", "val"):
        for index in range(12):
            path = folder / part / f"class{index // 6}" / f"{index}.{'jpg' if index % 2 else 'png'}"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(chance.integers(0, 256, (30, 50, 3), dtype=np.uint8)).save(path)
    return folder


@pytest.fixture(scope="module")
def made(pictures, tmp_path_factory):
    """family -> dataset, its name and the content digest of an undisturbed build."""
    found = {}
    for family, options in FAMILIES.items():
        name = "digit-on-imagenet" if family == "folder" else family
        own = {**options, "image_source": f"folder:{pictures}"} if family == "folder" else options
        one = dataset(name, own)
        found[family] = one, name, build(one, tmp_path_factory.mktemp(family) / "out", seed=3).content_digest
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_workers_and_shard_sizes(made, family, tmp_path):
    one, name, digest = made[family]
    built = build(one, tmp_path / "out", seed=3, workers=2, shard_size=4, reference=name)
    assert built.content_digest == digest and verify(tmp_path / "out") == built


@pytest.mark.parametrize("family", FAMILIES)
def test_no_global_randomness(made, family, tmp_path, monkeypatch):
    one, name, digest = made[family]
    sources.digits("optdigits")

    def forbidden(*arguments, **options):
        raise AssertionError("global randomness was used")

    keep = ("Philox", "BitGenerator", "SeedSequence")
    for library, names in (
        (random, dir(random)),
        (np.random, dir(np.random)),
        (torch, ["rand", "randn", "randint", "randperm", "normal", "bernoulli", "multinomial", "manual_seed", "seed"]),
    ):
        for attribute in names:
            if not attribute.startswith("_") and attribute not in keep and callable(getattr(library, attribute)):
                monkeypatch.setattr(library, attribute, forbidden)
    for use in (lambda: torch.rand(1), lambda: random.random(), lambda: np.random.rand(1)):
        with pytest.raises(AssertionError, match="global randomness"):
            use()
    assert build(one, tmp_path / "out", seed=3, reference=name).content_digest == digest
