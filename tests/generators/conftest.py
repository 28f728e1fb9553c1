"""Fixtures: the toy dataset, two real ones, and `datasets` offline."""

import pytest
from toy_data import folder_bytes, make, write_toy

from generators.build import build
from generators.catalog import dataset


@pytest.fixture
def toy(tmp_path):
    return write_toy(tmp_path / "user")


@pytest.fixture
def whole(toy, tmp_path):
    """The undisturbed build: file name -> bytes."""
    make(toy, tmp_path / "whole", shard_size=10)
    return folder_bytes(tmp_path / "whole")


SPECS = {
    "randbit": {"train": 23, "test": 7},
    "multidigits": {"sizes": [20, 40], "canvas": 48, "train": 11, "probe_train": 4, "probe_test": 3},
}


@pytest.fixture(scope="session", params=SPECS)
def real(request, tmp_path_factory):
    """A dataset and its folder: shards of 5 samples, the last one shorter."""
    made, folder = dataset(request.param, SPECS[request.param]), tmp_path_factory.mktemp(request.param)
    build(made, folder, shard_size=5)
    return made, folder


@pytest.fixture
def load(monkeypatch, tmp_path):
    """`datasets.load_dataset`, offline and with all its files in tmp_path."""
    for name in ("HF_HOME", "HF_DATASETS_CACHE"):
        monkeypatch.setenv(name, str(tmp_path / name))
    for name in ("HF_DATASETS_OFFLINE", "HF_HUB_OFFLINE"):
        monkeypatch.setenv(name, "1")
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    return lambda *names, **options: datasets.load_dataset(*names, cache_dir=str(tmp_path / "cache"), **options)
