"""The tracks are what their suites run: locked settings equal, free settings known, digests registered."""

import copy
import json
from pathlib import Path

import numpy as np
import pytest
from suppression_bench.suite import Request, cells_of_suite

from generators import catalog, registry, strict_json
from generators.dataset import UserError
from suppression_bench.leaderboard import tracks
from suppression_bench.leaderboard.official import Official
from suppression_bench.results import record as records

QUICK = Path(__file__).parents[2] / "docs/results/quick/cells"


def specs(name):
    """The specs of a track's own suite, with data facts as a manifest states them (no data is generated)."""
    track = tracks.read(name)
    for cell in cells_of_suite(track.suite, Request(tier=track.tier)):
        given = cell.dataset[1]
        known = {**track.data, track.strength: None}
        assert {key: given[key] for key in known if key in given and key != track.strength} == {
            key: value for key, value in track.data.items() if key in given
        }
        assert all(value in (None, "none") or key == "digit_size" for key, value in given.items() if key not in known)
        own = {**track.data}
        if track.strength != "bits":
            own[track.strength] = given[track.strength]
        data = {"dataset": cell.spec["data"]["dataset"], "version": 1, "seed": cell.spec["data"]["seed"],
                "bits": cell.spec["data"]["bits"], "options": own, "digest": "0" * 64}  # fmt: skip
        yield track, {**cell.spec, "data": data}


@pytest.mark.parametrize("name", tracks.names())
def test_every_cell_of_the_suite_obeys_its_track(name):
    seen = []
    for track, spec in specs(name):
        spec["data"]["digest"] = track.digest(tracks.text(spec["strength"]["value"])) or "0" * 64
        assert tracks.faults(track, spec) == []
        seen.append(strict_json.dumps(spec["strength"]["value"]))
    assert set(seen) == {strict_json.dumps(value) for value in track.grid}


@pytest.mark.parametrize("name", tracks.names())
def test_pinned_digests_are_registered_ones(name):
    track = tracks.read(name)
    known = {entry["content_digest"]: entry for entry in registry.entries()}
    for strength, digest in track.digests.items():
        entry = known[digest]
        own = {**track.data, **({} if strength == "all" else {track.strength: [int(n) for n in strength.split("+")]})}
        assert (entry["dataset"], entry["options"], entry["seed"]) == (track.locked["data.dataset"], own, 0)
    assert {value if isinstance(value, str) else "all" for value in track.digests} <= {"all"} | {
        tracks.text(value) for value in track.grid
    }


def test_published_records_obey_the_track_quick():
    paths = sorted(QUICK.glob("*/result.json"))
    assert paths
    for path in paths:
        assert tracks.faults(tracks.read("quick"), records.read(path)["spec"]) == []


@pytest.mark.parametrize(
    "section, key, value, words",
    [
        ("train", "epochs", 80, "train.epochs is 80, the track locks it at 40"),
        ("train", "batch_size", 256.0, "train.batch_size is 256.0"),
        ("train", "shuffle", 1, "train.shuffle is 1"),
        ("augmentation", "flip", 0.5, "augmentation.flip = 0.5 is a setting that the track leaves at its default"),
        ("augmentation", "area", [0.08, 1.0], "augmentation.area is [0.08, 1.0]"),
        ("probe", "kinds", ["lbfgs", "sgd"], "probe.kinds"),
        ("probe", "layers", ["head"], "probe.layers is ['head'], the track allows"),
        ("encoder", "name", "resnet18", "encoder.name is 'resnet18'"),
        ("encoder", "file", "a" * 64, "encoder.file"),
        ("data", "digest", "a" * 64, "its data aaaaaaaaaaaa are not the track's, 59c676508b16"),
        ("data", "bits", 5, "bits 5 is not in the track's grid"),
        ("data", "seed", 1, "data.seed is 1"),
        (None, "probe_version", 2, "probe.version is 2"),
        (None, "strength", None, "its strength None is not the setting bits"),
    ],
)
def test_what_a_track_locks_cannot_be_moved(section, key, value, words):
    [path] = QUICK.glob("simclr-temperature=0.1-bits=4-*/result.json")
    spec = json.loads(path.read_text())["spec"]
    (spec[section] if section else spec)[key] = value
    assert any(words in fault for fault in tracks.faults(tracks.read("quick"), spec))


def test_what_is_free_can_be_moved():
    [path] = QUICK.glob("simclr-temperature=0.1-bits=4-*/result.json")
    spec = copy.deepcopy(json.loads(path.read_text())["spec"])
    spec["method"] = {"name": "mine", "file": "a" * 64, "options": {"anything": 1}}
    spec["loss"] = None
    spec["train"] |= {"learning_rate": 0.1, "optimizer": "lars", "warmup_epochs": 3, "micro_batch": 64}
    assert tracks.faults(tracks.read("quick"), spec) == []


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
        own = {} if track.strength == "bits" else {track.strength: min(value, 20) if isinstance(value, int) else value}
        made = catalog.dataset(track.locked["data.dataset"], {**track.data, **sources, **small, **own})
        bits = [f"bit{position:02d}" for position in range(value)] if track.strength == "bits" else []
        assert sorted(track.features(value)) == sorted([one for one in made.probes if one != "code"] + bits)


@pytest.mark.parametrize(
    "name, run, strengths", [("quick", "quick", {4, 8}), ("randbit-mnist", "randbit-mnist", {0, 5, 10})]
)
def test_official_labels_are_those_that_published_cells_were_tested_on(name, run, strengths, request):
    """The class counts of every test split, as the published confusion matrices have them."""
    sources = {"digit_source": f"mnist:{request.getfixturevalue('mnist_folder')}"} if name != "quick" else {}
    official = Official(tracks.read(name), sources)
    seen = set()
    for path in sorted((QUICK.parents[1] / run / "cells").glob("*/result.json")):
        record = records.read(path)
        strength = record["spec"]["strength"]["value"]
        for probe in record["probes"] if strength in strengths else []:
            assert official.splits(strength, probe["feature"]) == probe["splits"]
            labels = official.labels(strength)(probe["splits"][1], probe["feature"])
            assert np.bincount(labels, minlength=len(probe["confusion"])).tolist() == list(map(sum, probe["confusion"]))
            seen.add(strength)
    assert seen == strengths
