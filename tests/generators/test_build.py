"""Building: the same bytes on any number of workers, and nothing foreign is touched."""

import json
import os
import shutil

import pytest
from toy_data import Usage, folder_bytes, interrupted, make, write_toy

from generators import manifest
from generators.build import build
from generators.catalog import dataset
from generators.dataset import UserError
from generators.inspect import verify


def test_what_a_build_leaves(toy, whole, tmp_path):
    assert sorted(whole) == ["manifest.json", *(f"pretrain-{n:05d}.tar" for n in range(5)), "probe-test-00000.tar"]
    steps = []
    found = verify(tmp_path / "whole", progress=lambda *step: steps.append(step))
    assert found.splits["pretrain"].count == 41 and steps[-1] == (50, 50)
    assert [shard.count for shard in found.splits["pretrain"].shards] == [10, 10, 10, 10, 1]
    counts = {"parity": [0, 0], "letters": [0] * 5}
    made = dataset(toy, {})
    for index in range(41):
        labels = made.sample("pretrain", index, 0).labels
        counts["parity"][labels["parity"]] += 1
        for letter in labels["letters"]:
            counts["letters"][letter] += 1
    assert found.splits["pretrain"].class_counts == counts
    assert str(tmp_path) not in whole["manifest.json"].decode()
    assert whole["manifest.json"].decode() == json.dumps(found.builtins(), sort_keys=True, separators=(",", ":")) + "\n"


@pytest.mark.parametrize("workers, shard_size", [(2, 10), (5, 7), (1, 1), (1, 2000)])
def test_same_content_for_any_workers_and_shard_size(toy, whole, tmp_path, workers, shard_size):
    steps = []
    arguments = dict(workers=workers, shard_size=shard_size, progress=lambda *step: steps.append(step))
    found = make(toy, tmp_path / "out", **arguments)
    assert found.content_digest == json.loads(whole["manifest.json"])["content_digest"]
    assert verify(tmp_path / "out") == found
    assert shard_size != 10 or folder_bytes(tmp_path / "out") == whole
    assert steps[-1] == (50, 50) and len(steps) == -(-41 // shard_size) + -(-9 // shard_size)


def test_seed_and_options_change_the_content_and_recipe_does_not(toy, tmp_path):
    digests = [make(toy, tmp_path / "a").content_digest, make(toy, tmp_path / "b", seed=1).content_digest]
    digests.append(make(toy, tmp_path / "c", {"train": 40}).content_digest)
    other = write_toy(tmp_path / "other", ('recipe = "toy"', 'recipe = "another"'))
    assert len(set(digests)) == 3 and make(other, tmp_path / "d").content_digest == digests[0]


def test_a_dataset_with_a_fractional_option_can_be_opened_again(toy, tmp_path):
    first = make(toy, tmp_path / "out", {"noise": 0.25})
    assert verify(tmp_path / "out") == first == make(toy, tmp_path / "out", {"noise": 0.25})
    with pytest.raises(UserError, match="another dataset"):
        make(toy, tmp_path / "out", {"noise": 0.5})


def test_other_datasets_seeds_and_shard_sizes_are_refused(toy, whole, tmp_path):
    out = tmp_path / "half"
    mended = interrupted(tmp_path / "user", out)
    for folder, finished in ((tmp_path / "whole", True), (out, False)):
        before = folder_bytes(folder)
        for options, arguments in (
            ({}, dict(shard_size=10, seed=1)),
            ({"train": 40}, dict(shard_size=10)),
            ({}, dict(shard_size=20)),
        ):
            with pytest.raises(UserError, match="already holds" if finished else "another dataset or shard size"):
                make(mended, folder, options, **arguments)
        assert folder_bytes(folder) == before
    for arguments in (dict(shard_size=0), dict(workers=0)):
        with pytest.raises(UserError, match="at least 1"):
            make(toy, tmp_path / "new", **arguments)


def test_smaller_shards_are_refused_where_each_split_is_one_shard(toy, tmp_path):
    first = make(toy, tmp_path / "out", shard_size=50)
    (tmp_path / "out" / "probe-test-00000.tar").unlink()
    with pytest.raises(UserError, match="shards of"):
        make(toy, tmp_path / "out", shard_size=10)
    assert make(toy, tmp_path / "out", shard_size=50) == first == verify(tmp_path / "out")


@pytest.mark.parametrize(
    "name", ["notes.txt", "thesis.tmp", "pretrain-notes.txt", "pretrain-holiday.tar", "a.99999999999999999999.tmp"]
)
def test_foreign_files_are_refused_and_left_alone(toy, tmp_path, name):
    out = tmp_path / "out"
    out.mkdir()
    (out / name).write_text("mine")
    with pytest.raises(UserError, match="holds other files"):
        make(toy, out)
    assert folder_bytes(out) == {name: b"mine"}
    with pytest.raises(UserError, match="is a file"):
        make(toy, out / name)


def test_too_small_disk_is_refused_before_a_byte_is_written(toy, tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(10**9, 0, 50 * 60))
    with pytest.raises(UserError, match="are needed") as caught:
        make(toy, tmp_path / "out")
    assert caught.value.exit_code == 4 and not list((tmp_path / "out").glob("*"))


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root writes into read-only folders")
def test_read_only_folder(toy, tmp_path):
    (tmp_path / "out").mkdir(mode=0o555)
    with pytest.raises(OSError):
        make(toy, tmp_path / "out")


@pytest.mark.parametrize(
    "old, new, part",
    [
        ('targets = ["parity"]', 'targets = ["sied"]', "the target 'sied' is no feature (parity, letters)"),
        (
            '{"parity": ("pretrain", "probe-test")}',
            '{"pairty": ("pretrain", "probe-test")}',
            "the probe 'pairty' is no",
        ),
        (
            '("pretrain", "probe-test")',
            '("pretrain", "probe-tst")',
            "names the split 'probe-tst', which is none of pretrain",
        ),
        ('"pretrain": train, "probe-test": test', '"probe-test": test, "pretrain": train', "first split must be"),
        ('"probe-test": test', '"probe-test": 0', "the split probe-test has 0 samples"),
        (
            'recipe = "toy"',
            'recipe = "toy"; strength = "bright"',
            "the strength 'bright' is no option (train, test, noise)",
        ),
        ('return {"parity":', 'return {"party":', "'parity' is probed on pretrain, but `draw` gives it no such label"),
    ],
)
def test_slips_in_a_users_dataset_are_named_before_anything_is_written(old, new, part, tmp_path):
    path = write_toy(tmp_path / "user", (old, new))
    with pytest.raises(UserError) as caught:
        make(path, tmp_path / "out")
    assert part in str(caught.value) and not (tmp_path / "out").exists()


def test_a_long_shard_shows_signs_of_life(toy, tmp_path):
    steps = []
    make(toy, tmp_path / "out", {"train": 600}, progress=lambda *step: steps.append(step))
    assert steps == [(250, 609), (500, 609), (600, 609), (609, 609)]
    steps.clear()
    make(toy, tmp_path / "two", {"train": 600}, workers=2, shard_size=300, progress=lambda *step: steps.append(step))
    assert (609, 609) == steps[-1] and {(250, 609), (500, 609), (550, 609), (259, 609)} & set(steps)


def test_an_option_that_says_nothing_differs_from_one_that_is_not_there():
    said = manifest.differences({"options": {"a": 1}}, {"options": {"a": 1, "mode": "nothing"}})
    assert said == "options.mode: nothing there, nothing here"  # an empty text would mean "the same dataset"
    assert not manifest.differences({"options": {"mode": "nothing"}}, {"options": {"mode": "nothing"}})


def test_a_finished_build_is_not_made_again_whatever_its_splits_are_called(tmp_path):
    # probe-train stands before probe-test in the dataset, behind it in the manifest.
    few = dataset("multidigits", {"train": 20, "probe-train": 15, "probe-test": 12})
    first = build(few, tmp_path / "out", shard_size=10)
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()}
    assert build(few, tmp_path / "out", shard_size=10).content_digest == first.content_digest
    assert {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()} == before
