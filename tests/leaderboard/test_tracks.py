"""The tracks are what their suites run: locked settings equal, free settings known, digests registered."""

from pathlib import Path

import msgspec
import numpy as np
import pytest

from generators import catalog
from generators.dataset import UserError
from generators.files import dumps_json
from generators.manifest import registered
from suppression_bench.cell import Cell, value_text
from suppression_bench.leaderboard import entry as entries
from suppression_bench.leaderboard import tracks
from suppression_bench.leaderboard.tracks import Official
from suppression_bench.suite import Request, cells_of_suite

ENTRIES = Path(__file__).parents[2] / entries.ROOT


def quick() -> entries.Submission:
    return entries.load(ENTRIES / "simclr-temperature-0-1-quick")


@pytest.mark.parametrize("name", tracks.names())
def test_every_cell_of_the_suite_obeys_its_track(name):
    """No data is generated: a cell is known before its data are made."""
    track, strengths = tracks.read(name), set()
    for located in cells_of_suite(track.suite, Request(tier=track.tier)):
        cell = located.cell
        assert tracks.faults(track, entries.without_strength(cell, track.strength)) == []
        assert cell.strength and cell.strength.key == track.strength and track.has(cell.strength.value)
        strengths.add(dumps_json(cell.strength.value))
    assert strengths == {dumps_json(value) for value in track.grid}


@pytest.mark.parametrize("name", tracks.names())
def test_pinned_digests_are_registered_ones(name):
    track = tracks.read(name)
    entries_by_digest = {entry.content_digest: entry for entry in registered()}
    for strength, digest in track.digests.items():
        entry = entries_by_digest[digest]
        chosen = {
            **track.data,
            **({} if strength == "all" else {track.strength: [int(n) for n in strength.split("+")]}),
        }
        assert (entry.dataset, entry.options, entry.seed) == (track.locked["data.dataset"], chosen, 0)
    assert {value if isinstance(value, str) else "all" for value in track.digests} <= {"all"} | {
        value_text(value) for value in track.grid
    }


@pytest.mark.parametrize(
    "section, key, value, words",
    [
        ("train", "epochs", 80, "train.epochs is 80, the track locks it at 40"),
        ("train", "batch_size", 128, "train.batch_size is 128"),
        ("train", "shuffle", False, "train.shuffle is False"),
        ("augmentation", "flip", 0.5, "augmentation.flip = 0.5 is a setting that the track leaves at its default"),
        ("augmentation", "area", [0.08, 1.0], "augmentation.area is (0.08, 1.0)"),
        ("probe", "kinds", ["lbfgs", "sgd"], "probe.kinds"),
        ("probe", "layers", ["head"], "probe.layers is ('head',), the track allows"),
        ("encoder", "name", "resnet18", "encoder.name is 'resnet18'"),
        ("encoder", "file", "a" * 64, "encoder.file"),
        ("encoder", "options", {"width": 3}, "encoder.width = 3"),
        ("dataset", "seed", 1, "data.seed is 1"),
        ("dataset", "version", 2, "data.version is 2"),
        ("dataset", "options", {"digit_source": "mnist", "train": None, "test": None}, "data.digit_source is 'mnist'"),
        ("dataset", "options", {"digit_source": "optdigits", "test": None}, "data.train is missing"),
        (None, "probe_version", 2, "probe.version is 2"),
    ],
)
def test_what_a_track_locks_cannot_be_moved(section, key, value, words):
    spec = msgspec.to_builtins(quick().entry.setting)
    (spec[section] if section else spec)[key] = value
    sentences = tracks.faults(tracks.read("quick"), msgspec.convert(spec, Cell))
    assert any(words in sentence for sentence in sentences), sentences


def test_what_is_free_can_be_moved():
    spec = msgspec.to_builtins(quick().entry.setting)
    spec["method"] = {"name": "mine", "file": "a" * 64, "options": {"anything": 1}}
    spec["loss"] = None
    spec["train"] |= {"learning_rate": 0.1, "optimizer": "lars", "warmup_epochs": 3, "micro_batch": 64}
    assert tracks.faults(tracks.read("quick"), msgspec.convert(spec, Cell)) == []


def test_an_unknown_track_is_named():
    with pytest.raises(UserError, match="did you mean 'quick'"):
        tracks.read("quik")


@pytest.mark.parametrize("name", tracks.names())
def test_the_features_of_a_track_are_those_that_its_data_are_probed_for(name):
    # On the embedded pictures, which carry the same features.
    track = tracks.read(name)
    sources = {"digit_source": "optdigits", **({"image_source": "leaves"} if "image_source" in track.data else {})}
    small = {key: 20 for key in ("train", "test", "probe_train", "probe_test") if key in track.data}
    for value in track.grid:
        chosen = (
            {} if track.strength == "bits" else {track.strength: min(value, 20) if isinstance(value, int) else value}
        )
        dataset = catalog.dataset(track.locked["data.dataset"], {**track.data, **sources, **small, **chosen})
        bits = [f"bit{position:02d}" for position in range(value)] if track.strength == "bits" else []
        assert sorted(track.features(value)) == sorted(
            [feature for feature in dataset.probes if feature != "code"] + bits
        )


def test_official_labels_are_those_that_entries_were_tested_on():
    """The class counts of every test split, as the confusion matrices of an entry have them."""
    official, seen = Official(tracks.read("quick")), set()
    for record in quick().records:
        strength = record.spec.dataset.bits
        if record.spec.seed or strength not in (4, 8):
            continue
        for probe in record.probes:
            assert official.splits(strength, probe.feature) == probe.splits
            labels = official.labels(strength)(probe.splits[1], probe.feature)
            assert np.bincount(labels, minlength=len(probe.confusion)).tolist() == list(map(sum, probe.confusion))
            seen.add(strength)
    assert seen == {4, 8}


@pytest.mark.real_data
def test_official_labels_of_mnist_are_drawn_at_every_strength(mnist_folder):
    official = Official(tracks.read("randbit-mnist"), {"digit_source": f"mnist:{mnist_folder}"})
    labels = official.labels(5)("probe-test", "digit")
    assert np.bincount(labels).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
