"""The registered content digests: the code of today still makes those datasets."""

import os

import pytest

from generators.build import build
from generators.catalog import dataset
from generators.dataset import is_source
from generators.manifest import Registered, registered, registered_as

ENTRIES = {entry.title: entry for entry in registered()}
EMBEDDED = [  # rebuilt without any file
    title
    for title, entry in ENTRIES.items()
    if {value for name, value in entry.options.items() if is_source(name)} <= {None, "optdigits", "leaves"}
]


def rebuilt(entry: Registered, out, sources: dict) -> str:
    options = {
        **entry.options,
        **{name: sources.get(value, value) for name, value in entry.options.items() if isinstance(value, str)},
    }
    made = dataset(entry.dataset, options)
    assert made.version == entry.version, "the version was raised: register the dataset anew"
    return build(made, out, seed=entry.seed, shard_size=77).content_digest


def test_what_is_registered():
    assert len(EMBEDDED) >= 12 and len(ENTRIES) == len(registered())
    assert {entry.dataset for entry in ENTRIES.values()} == {"digit-on-imagenet", "multidigits", "randbit"}
    digests = [entry.content_digest for entry in ENTRIES.values()]
    assert len(set(digests)) == len(digests) and all(len(digest) == 64 for digest in digests)


@pytest.mark.parametrize("title", EMBEDDED)
def test_embedded_datasets_are_rebuilt(title, tmp_path):
    assert rebuilt(ENTRIES[title], tmp_path / "out", {}) == ENTRIES[title].content_digest


@pytest.mark.real_data
@pytest.mark.parametrize(
    "title", ["RandBit-MNIST (the suite `randbit-mnist`)", "MultiDigits-MNIST, sizes 20 and 80 (Table 4)"]
)
@pytest.mark.slow
def test_mnist_datasets_are_rebuilt(title, tmp_path):
    sources = {"mnist": f"mnist:{os.environ['SUPPRESSION_BENCH_DATA']}"}
    assert rebuilt(ENTRIES[title], tmp_path / "out", sources) == ENTRIES[title].content_digest


def test_official_is_decided_by_the_registry_alone():
    entry = next(iter(ENTRIES.values()))
    assert registered_as(entry.content_digest) == f"registered: {entry.title}"
    assert registered_as(entry.content_digest[::-1]) == "not a registered dataset"
