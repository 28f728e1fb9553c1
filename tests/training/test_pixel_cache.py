"""The pixel cache: the same bytes from any number of workers, never half, any flipped bit decoded anew."""

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys

import msgspec
import numpy as np
import pytest
import torch
from small_cells import CPU, make_cell, make_data

from generators import catalog, manifest, shards
from generators.build import build
from generators.dataset import UserError
from suppression_bench import run as running
from suppression_bench.cli import main
from suppression_bench.training import pixel_cache
from suppression_bench.training.data import Data

SPLITS = ["pretrain", "probe-test"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """70 and 30 samples in shards of 20, and a cache of their own."""
    monkeypatch.setenv("SUPPRESSION_BENCH_CACHE", str(tmp_path / "cache"))
    build(catalog.dataset("randbit", {"train": 70, "test": 30}), tmp_path / "data", shard_size=20)
    return tmp_path / "data"


def files(tmp_path):
    root = tmp_path / "cache" / "decoded"
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def cached(folder, split="pretrain"):
    """The pixel file and the label file of a split."""
    cache = pixel_cache.cache_folder(manifest.read(folder), split)
    return cache / pixel_cache.PIXELS, cache / pixel_cache.LABELS


@pytest.fixture
def decodings(monkeypatch):
    """The splits that are decoded from now on."""
    decoded, original = [], pixel_cache.decode

    def decode(folder, facts, splits, workers=1):
        decoded.extend(splits)
        original(folder, facts, splits, workers)

    monkeypatch.setattr(pixel_cache, "decode", decode)
    return decoded


def test_the_cache_is_the_shards_in_a_row(folder, tmp_path):
    facts = manifest.read(folder)
    pixel_cache.decode(folder, facts, SPLITS)
    assert len(files(tmp_path)) == 4
    for split in SPLITS:
        described = facts.splits[split]
        rows = []
        for shard in described.shards:
            rows += shards.read_shard(folder / shard.name, (28, 28, 1), shard.count)
        expected = np.stack([row[0] for row in rows])
        assert described.content_digest == hashlib.sha256(b"".join(row[2] for row in rows)).hexdigest()
        pixels, _ = cached(folder, split)
        assert pixels.read_bytes()[: expected.size] == expected.tobytes()
        decoded = pixel_cache.DecodedSplit(folder, facts, split)
        assert np.array_equal(decoded.images, expected) and pixel_cache.is_decoded(facts, split)
        assert decoded.labels == {name: [row[1]["labels"][name] for row in rows] for name in ("code", "digit")}


def test_workers_make_the_same_bytes_and_few_samples_take_one(folder, tmp_path, monkeypatch):
    teams, original = [], pixel_cache.executor.run
    monkeypatch.setattr(
        pixel_cache.executor, "run", lambda f, specs, workers: (teams.append(workers), original(f, specs, workers))[1]
    )
    facts = manifest.read(folder)
    pixel_cache.decode(folder, facts, SPLITS, workers=8)
    alone = files(tmp_path)
    shutil.rmtree(tmp_path / "cache" / "decoded")
    monkeypatch.setattr(pixel_cache, "SECONDS_PER_WORKER", 1e-9)  # so little is not worth a worker otherwise
    pixel_cache.decode(folder, facts, SPLITS, workers=2)
    assert teams == [1, 2] and files(tmp_path) == alone


def test_a_mapped_image_cannot_change_the_cache(folder, tmp_path):
    samples = Data(folder).samples("pretrain")
    before = files(tmp_path)
    samples.images[:] = 7
    assert files(tmp_path) == before and Data(folder).samples("pretrain").images.float().mean() != 7


def test_the_second_opening_decodes_nothing(folder, decodings):
    first, second = (Data(folder, 2).samples("pretrain") for _ in range(2))
    assert decodings == ["pretrain"]
    assert torch.equal(first.images, second.images) and torch.equal(first.bits, second.bits)
    Data(folder).samples("probe-test")
    assert decodings == SPLITS


@pytest.mark.parametrize("block", [2**26, 10 * 784], ids=["whole", "by block"])
@pytest.mark.parametrize("name", ["pixels", "labels"])
def test_any_flipped_bit_is_seen_and_decoded_anew(folder, decodings, monkeypatch, block, name):
    """At random places of the file: the pixels, their digests, the labels, their digest."""
    monkeypatch.setattr(pixel_cache, "BLOCK", block)
    whole = Data(folder, 3)
    images, bits = whole.samples("pretrain").take(slice(None))
    images, digits = images.clone(), whole.labels("pretrain", "digit")
    path = cached(folder)[0 if name == "pixels" else 1]
    content, chance = path.read_bytes(), random.Random(block)
    positions = [0, 63, 64, 65, 70 * 784 - 1, 70 * 784, len(content) - 1, *chance.choices(range(len(content)), k=12)]
    for position in (position for position in positions if position < len(content)):
        damaged = bytearray(content)
        damaged[position] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        decodings.clear()
        data = Data(folder, 3)
        again = data.samples("pretrain")
        for start in range(0, 70, 7):  # as training reads: some rows at a time, in any order
            rows = torch.arange(69 - start, 62 - start, -1)
            assert torch.equal(again.take(rows)[0], images[rows]) and torch.equal(again.take(rows)[1], bits[rows])
        assert np.array_equal(data.labels("pretrain", "digit"), digits)
        assert decodings == ["pretrain"], f"byte {position} of {path.name}"
        assert path.read_bytes() == content


@pytest.mark.parametrize("damage", ["flipped", "short", "empty", "zeroed", "gone", "another split's"])
@pytest.mark.parametrize("name", ["pixels", "labels"])
def test_a_damaged_file_is_decoded_anew(folder, decodings, damage, name):
    first, labels = Data(folder).samples("pretrain").images.clone(), Data(folder).labels("pretrain", "digit")
    Data(folder).samples("probe-test")
    number = 0 if name == "pixels" else 1
    path, another = cached(folder)[number], cached(folder, "probe-test")[number]
    content = path.read_bytes()
    path.unlink()
    if damage != "gone":
        flipped = bytearray(content)
        flipped[len(content) // 2] ^= 1
        wrong = {"flipped": flipped, "short": content[:-1], "empty": b"", "zeroed": bytes(len(content))}
        path.write_bytes(wrong.get(damage, another.read_bytes()))
    decodings.clear()
    data = Data(folder)
    images = data.samples("pretrain").images
    assert decodings == (["pretrain"] if name == "pixels" else [])  # pixels need no labels, and are checked when opened
    assert torch.equal(images, first) and np.array_equal(data.labels("pretrain", "digit"), labels)
    assert decodings == ["pretrain"]


def test_a_large_files_blocks_are_checked_when_they_are_read(folder, decodings, monkeypatch):
    monkeypatch.setattr(pixel_cache, "BLOCK", 10 * 784)  # shards of 20 samples: blocks of 10 of them
    expected = Data(folder).samples("pretrain").take(slice(None))[0].clone()
    path, _ = cached(folder)
    content = bytearray(path.read_bytes())
    content[25 * 784] ^= 1
    content[40 * 784] ^= 1
    path.write_bytes(content)
    decodings.clear()
    checked, original = [], pixel_cache._digest
    monkeypatch.setattr(pixel_cache, "_digest", lambda *of: (checked.append(len(of[1])), original(*of))[1])
    samples = Data(folder).samples("pretrain")
    checked.clear()
    assert torch.equal(samples.take(torch.tensor([3, 15, 4]))[0], expected[[3, 15, 4]])
    assert checked == [10, 10] and not decodings  # two blocks, both whole
    samples.take(torch.tensor([5, 16]))
    assert len(checked) == 2  # each once
    assert torch.equal(samples.take(slice(20, 30))[0], expected[20:30]) and decodings == ["pretrain"]
    assert torch.equal(samples.take(torch.tensor([40]))[0], expected[40:41])  # the first of its block
    assert torch.equal(samples.take(slice(None))[0], expected)
    assert decodings == ["pretrain"]  # the new file had the second block too


def test_a_disk_that_returns_something_else_is_named(folder, monkeypatch):
    original = pixel_cache._decode_part

    def careless(part, note):
        decoded = original(part, note)
        with open(part.path, "r+b") as file:
            file.seek(part.first * 784 + 3)
            file.write(b"\x2a")
        return decoded

    monkeypatch.setattr(pixel_cache, "_decode_part", careless)
    with pytest.raises(UserError, match="disk") as caught:
        Data(folder).samples("pretrain")
    assert caught.value.exit_code == 4


@pytest.mark.parametrize("damage", ["truncated", "flipped", "missing"])
def test_a_damaged_shard_is_refused_when_the_cache_is_made(folder, damage):
    path = folder / "probe-test-00000.tar"
    content = bytearray(path.read_bytes())
    path.unlink()
    if damage == "truncated":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "flipped":
        content[700] ^= 1
        path.write_bytes(content)
    with pytest.raises(UserError, match=r"probe-test-00000\.tar"):
        Data(folder).decode(1)
    with pytest.raises(UserError, match=r"probe-test-00000\.tar"):
        Data(folder).samples("probe-test")
    assert len(Data(folder).samples("pretrain")) == 70


def test_samples_that_are_not_the_manifests_are_refused(folder, tmp_path):
    facts = manifest.read(folder)
    wrong = msgspec.structs.replace(facts.splits["pretrain"], content_digest="0" * 64)
    facts = msgspec.structs.replace(facts, splits={**facts.splits, "pretrain": wrong})
    with pytest.raises(UserError, match="manifest"):
        pixel_cache.decode(folder, facts, ["pretrain"])
    assert not files(tmp_path)


KILLED = """
import os, signal, sys
from pathlib import Path
from generators import manifest
from suppression_bench.training import pixel_cache

def deadly(owner, name, last):
    original, calls = getattr(owner, name), []
    def call(*arguments, **options):
        calls.append(1)
        if len(calls) == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*arguments, **options)
    setattr(owner, name, call)

name, last = sys.argv[2].split(":")
owners = {"_decode_part": pixel_cache, "_finish": pixel_cache, "replace": Path, "write_bytes": Path}
deadly(owners[name], name, int(last))
folder = Path(sys.argv[1])
pixel_cache.decode(folder, manifest.read(folder), ["pretrain", "probe-test"])
"""
MOMENTS = ["_decode_part:1", "_decode_part:5", "_finish:1", "replace:1", "write_bytes:1", "replace:2", "replace:4"]


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_kill_leaves_nothing_that_is_taken_for_whole(folder, decodings, moment):
    facts = manifest.read(folder)
    ended = subprocess.run([sys.executable, "-c", KILLED, str(folder), moment], env=os.environ, capture_output=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    whole = SPLITS[:1] if moment == "replace:4" else []  # the fourth rename is the second split's labels
    assert [split for split in SPLITS if pixel_cache.is_decoded(facts, split)] == whole
    data = Data(folder, 1)
    assert data.decode(1) == [split for split in SPLITS if split not in whole]
    assert len(data.samples("pretrain")) == 70 and len(data.samples("probe-test")) == 30
    assert not decodings  # what `decode` has made is whole


def test_the_splits_in_use_are_those_of_training_and_of_every_probe(folder, tmp_path):
    assert Data(folder).splits_in_use() == SPLITS
    options = dict(sizes=[12, 20], canvas=32, train=30, probe_train=20, probe_test=10)
    sizes = Data(make_data("multidigits", tmp_path / "sizes", **options))
    assert sizes.splits_in_use() == ["pretrain", "probe-train-12", "probe-test-12", "probe-train-20", "probe-test-20"]


SUITE = """
version: 1
title: a test
data: {dataset: randbit, digit_source: optdigits, train: 60, test: 30}
strength: bits
recipe: randbit-small
set: {train: {steps: 2, epochs: null, batch_size: 20}, probe: {l2: [0.01]}}
cells:
  - {method: simclr, grid: {bits: [0, 2]}}
  - {method: untrained, grid: {bits: [0]}}
"""


def test_all_is_decoded_before_a_cell_starts(folder, tmp_path, decodings):
    planned = [make_cell("simclr", folder, data__bits=bits, train__batch_size=20, train__steps=1) for bits in (0, 2)]
    running.prepare([prepared.located for prepared in planned], 1, print)
    assert all(pixel_cache.is_decoded(manifest.read(folder), split) for split in SPLITS)
    assert running.run(planned[1], tmp_path / "out", CPU).run.status == "ok" and not decodings


@pytest.mark.slow
def test_the_second_run_of_a_suite_generates_and_decodes_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("SUPPRESSION_BENCH_CACHE", str(tmp_path / "cache"))
    (tmp_path / "suite.yaml").write_text(SUITE)
    calls = {"write_shard": 0, "read_shard": 0, "_decode_part": 0}

    def counted(owner, name):
        original = getattr(owner, name)

        def call(*arguments, **options):
            calls[name] += 1
            return original(*arguments, **options)

        monkeypatch.setattr(owner, name, call)

    for owner, name in ((shards, "write_shard"), (shards, "read_shard"), (pixel_cache, "_decode_part")):
        counted(owner, name)
    flags = ["--device", "cpu", "--workers", "1"]
    monkeypatch.setattr("generators.executor.cores", lambda: 1)  # all in this process, where calls are counted
    assert main(["run", str(tmp_path / "suite.yaml"), "--out", str(tmp_path / "first"), *flags]) == 0
    assert set(calls.values()) == {2}
    stamps = {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*.*")}
    assert main(["run", str(tmp_path / "suite.yaml"), "--out", str(tmp_path / "second"), *flags]) == 0
    assert set(calls.values()) == {2}
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*.*")} == stamps
    first, second = (
        {path.parent.name: json.loads(path.read_text())["probes"] for path in (tmp_path / name).rglob("result.json")}
        for name in ("first", "second")
    )
    assert len(first) == 3 and first == second
