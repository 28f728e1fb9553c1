"""Every suite of the package: each tier resolves on data of its size, the roles are there, one tiny cell runs through."""

import numpy as np
import pytest
import yaml
from small_cells import CPU

from generators import catalog, sources
from generators.catalog import dataset
from generators.sources import ImageSource
from suppression_bench import config
from suppression_bench import run as running
from suppression_bench import suite as suites
from suppression_bench.cell import settings_key
from suppression_bench.method import Method


def read(name):
    return yaml.safe_load((suites.SUITES / f"{name}.yaml").read_text()), f"suite {name}"


NAMES = sorted(path.stem for path in suites.SUITES.glob("*.yaml"))
TIERS = [(name, tier) for name in NAMES for tier in read(name)[0].get("tiers", {None: {}})]
ROLES = {"simclr", "byol", "vae", "supervised", "untrained"}
FAMILIES = ("randbit-", "multidigits-", "digit-on-imagenet", "everything-", "quick")
COUNTS = {"cifar10": (50_000, 10_000, 10), "folder": (100_000, 5_000, 1000), "leaves": (10_000, 2_000, 10)}
SIDES = {"cifar10": 32, "leaves": 64}

TINY = {
    "train.steps": 2,
    "train.batch_size": 16,
    "train.warmup_epochs": 0,
    "probe.l2": [0.01],
    "probe.metric_samples": 10,
}
TINY_DATA = {
    "randbit": {"train": 40, "test": 20},
    "multidigits": {"train": 40, "probe_train": 30, "probe_test": 20},
    "digit-on-imagenet": {"train": 40, "test": 20, "image_size": 32, "digit_size": 8, "digit_source": "optdigits"},
}


class Pictures(ImageSource):
    """As many labels as the real source has, and no picture."""

    digest, licence = "d" * 64, "none"

    def __init__(self, kind):
        train, test, classes = COUNTS[kind]
        self.name, self.side, self.classes = kind, SIDES.get(kind), [str(number) for number in range(classes)]
        self.labels = {"train": np.arange(train) % classes, "test": np.arange(test) % classes}

    def image(self, part, index, side):
        raise AssertionError("no picture is drawn here")


def digits(name):
    counts = {"train": 60_000, "test": 10_000} if name == "mnist" else {"train": 1347, "test": 450}
    labels = {part: np.arange(count) % 10 for part, count in counts.items()}
    return sources.DigitSource(name, "d" * 64, "none", {}, labels)


@pytest.fixture
def sized_sources(monkeypatch):
    """Sources that have the real ones' sizes without their files."""
    monkeypatch.setattr(sources, "digits", digits)
    for module in ("randbit", "digit_on_imagenet"):
        monkeypatch.setattr(f"generators.datasets.{module}.images", Pictures)


@pytest.mark.parametrize(("name", "tier"), TIERS)
def test_every_tier_resolves(name, tier, sized_sources):
    faults = config.Faults()
    [chosen] = [part for part in suites.tiers_of(*read(name), faults) if part.name == (tier or "")]
    found = suites.cells_of_tier(chosen, name, suites.Request(), faults)
    assert not faults
    assert len({located.cell.folder_name for located in found}) == len(found)
    opened = {}
    for located in found:
        key = running.data_key(located)
        if key not in opened:
            opened[key] = dataset(*located.dataset)
        cls = catalog.load_class("suppression_bench.methods", located.references["method"], Method)
        located.cell.augmentation.check(opened[key].image_shape, cls.views)
        if cls.trains:
            assert located.cell.train.total_steps(opened[key].splits["pretrain"]) > 0
    methods = {located.cell.method.name for located in found}
    assert "untrained" in methods
    for cell in (located.cell for located in found if located.cell.method.name == "untrained"):
        same = [located for located in found if settings_key(located.cell) == settings_key(cell)]
        alone = cell.encoder.name == "raw-pixels" or name == "tiny"  # which compares bits and shows no result
        assert len(same) == 3 or alone, "the floor is a mean of three"
    if name.startswith(FAMILIES):
        assert methods >= ROLES


@pytest.mark.parametrize(
    "name", [name for name in NAMES if name not in ("quick", "tiny", "methods-quick", "temperature-quick")]
)
def test_every_suite_has_a_quick_tier(name):
    assert {tier for owner, tier in TIERS if owner == name} == {"quick", "small", "paper"} or name == "everything-quick"


def tiny(name, tier, method, **changes):
    """The first cell of a method, cut down until it takes a second."""
    [*_, wanted] = [part for part in suites.tiers_of(*read(name), config.Faults()) if part.name == tier]
    changes = {**TINY, **{f"data.{key}": value for key, value in TINY_DATA[wanted.content["data"]["dataset"]].items()}}
    if wanted.content["data"].get("digit_source"):
        changes["data.digit_source"] = "optdigits"
    if wanted.content["data"].get("image_source"):
        changes |= {"data.image_source": "leaves", "augmentation.blur": 0}
        changes |= {"data.image_size": 16} if wanted.content["data"]["dataset"] == "randbit" else {}
    return suites.cells_of_suite(name, suites.Request(changes, {"method": [method]}, tier=tier))[0]


CASES = [
    ("randbit-mnist", "quick", "vae"),
    ("randbit-images", "quick", "byol"),
    ("multidigits-count", "quick", "simclr"),
    ("multidigits-size", "quick", "supervised"),
    ("digit-on-imagenet", "quick", "vae"),
    ("losses", "quick", "simclr"),
    ("losses", "small", "simclr"),
    ("temperature", "paper", "memory-bank"),
    ("macl", "quick", "simclr"),
    ("align-uniform", "quick", "simclr"),
]


@pytest.mark.parametrize(("name", "tier", "method"), CASES)
@pytest.mark.slow
def test_a_tiny_cell_runs_through(name, tier, method, cache, tmp_path):
    cell = tiny(name, tier, method)
    [prepared] = running.prepare([cell], 1, lambda line: None)
    made = running.run(prepared, tmp_path, CPU)
    assert made.run.status == "ok" and made.run.steps == 2
    assert {probe.probe for probe in made.probes} >= {"lbfgs"} and made.metrics
    assert made.spec.suite.name == name and made.spec.strength


@pytest.mark.parametrize("family", sorted(TINY_DATA))
def test_a_tiny_cell_of_everything_runs_through(family, cache, tmp_path):
    only = {"data.dataset": [family], "method": ["simclr"]}
    [cell, *_] = suites.cells_of_suite("everything-quick", suites.Request({**TINY, "data.train": 40}, only))
    few = {"test": 20, "probe_train": 30, "probe_test": 20}  # of no family all of them, so --set cannot name them
    cell.dataset[1].update({key: value for key, value in few.items() if key in cell.dataset[1]})
    [prepared] = running.prepare([cell], 1, lambda line: None)
    made = running.run(prepared, tmp_path, CPU)
    assert made.run.status == "ok" and made.spec.dataset.name == family
