"""The decoded cache: the same bytes from any number of workers, never half, and never made twice."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import zlib

import numpy as np
import pytest
from small_cells import CPU, make_cell, make_data

from generators import build, catalog, manifest, shards
from generators.dataset import UserError
from suppression_bench import cell as cells
from suppression_bench import runner
from suppression_bench.cli import main
from suppression_bench.training import decoded
from suppression_bench.training.data import Data

SPLITS = ["pretrain", "probe-test"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """70 and 30 samples in shards of 20, and a cache of their own."""
    monkeypatch.setenv("SUPPRESSION_BENCH_CACHE", str(tmp_path / "cache"))
    build.build(catalog.dataset("randbit", {"train": 70, "test": 30}), tmp_path / "data", shard_size=20)
    return tmp_path / "data"


def files(tmp_path):
    root = tmp_path / "cache" / "decoded"
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_the_cache_is_the_shards_in_a_row(folder, tmp_path):
    found = manifest.read(folder)
    decoded.decode(folder, found, SPLITS)
    written = files(tmp_path)
    assert len(written) == 4
    for split in SPLITS:
        described = found["splits"][split]
        rows = [
            row for entry in described["shards"] for row in shards.read_shard(folder / entry["name"], (28, 28, 1), entry["count"])
        ]  # fmt: skip
        expected = np.stack([picture for picture, *_ in rows])
        digest = described["content_digest"]
        assert digest == hashlib.sha256(b"".join(row[2] for row in rows)).hexdigest()
        stored = written[f"{digest}/pictures.npy"]
        assert stored[-expected.size :] == expected.tobytes() and np.array_equal(decoded.pictures(described), expected)
        labels = json.loads(written[f"{digest}/labels.json"])
        assert labels["pictures_crc32"] == zlib.crc32(expected.tobytes())
        assert labels["labels"] == {key: [row[1]["labels"][key] for row in rows] for key in ("code", "digit")}
        assert decoded.read(described) == labels["labels"] and decoded.is_there(described, (28, 28, 1))


def test_workers_make_the_same_bytes(folder, tmp_path, monkeypatch):
    found = manifest.read(folder)
    decoded.decode(folder, found, SPLITS)
    alone = files(tmp_path)
    for path in (tmp_path / "cache" / "decoded").rglob("*.*"):
        path.unlink()
    monkeypatch.setattr(decoded, "WORTH", 1e-9)  # so little is not worth a worker otherwise
    teams, original = [], decoded.executor.run
    monkeypatch.setattr(
        decoded.executor, "run", lambda f, s, workers: (teams.append(workers), original(f, s, workers))[1]
    )
    decoded.decode(folder, found, SPLITS, workers=2)
    assert teams == [2] and files(tmp_path) == alone


def test_few_samples_are_decoded_by_one_process(folder, monkeypatch):
    teams, original = [], decoded.executor.run
    monkeypatch.setattr(
        decoded.executor, "run", lambda f, s, workers: (teams.append(workers), original(f, s, workers))[1]
    )
    decoded.decode(folder, manifest.read(folder), SPLITS, workers=8)
    assert teams == [1]


def test_a_mapped_picture_cannot_change_the_cache(folder, tmp_path):
    data = Data(folder)
    samples = data.samples("pretrain")
    before = files(tmp_path)
    samples.pictures[:] = 7
    assert files(tmp_path) == before and Data(folder).samples("pretrain").pictures.float().mean() != 7


KILLED = """
import os, signal, sys
from pathlib import Path
from generators import manifest
from suppression_bench.training import decoded
at, original = sys.argv[2], {}

def deadly(name, owner, after):
    before = getattr(owner, name)
    calls = []
    def call(*arguments, **words):
        calls.append(1)
        if len(calls) == after:
            os.kill(os.getpid(), signal.SIGKILL)
        return before(*arguments, **words)
    setattr(owner, name, call)

name, after = at.split(":")
deadly(name, {"_decode_part": decoded, "_finish": decoded, "replace": Path, "write_text": Path}[name], int(after))
folder = Path(sys.argv[1])
decoded.decode(folder, manifest.read(folder), ["pretrain", "probe-test"])
"""


MOMENTS = ["_decode_part:1", "_decode_part:5", "_finish:1", "replace:1", "write_text:1", "replace:2", "replace:4"]


@pytest.mark.parametrize("at", MOMENTS)
def test_a_kill_leaves_nothing_that_is_taken_for_whole(folder, tmp_path, at):
    found = manifest.read(folder)
    ended = subprocess.run([sys.executable, "-c", KILLED, str(folder), at], env=os.environ, capture_output=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    whole = [split for split in SPLITS if decoded.read(found["splits"][split]) is not None]
    assert whole == (SPLITS[:1] if at == "replace:4" else [])  # the fourth rename is the second split's labels
    assert [s for s in SPLITS if decoded.is_there(found["splits"][s], (28, 28, 1))] == whole
    data = Data(folder, 1)
    assert data.decode(1) == [split for split in SPLITS if split not in whole]
    assert all(decoded.read(found["splits"][split]) is not None for split in SPLITS)


def test_what_the_disk_returns_is_compared_with_what_was_decoded(folder, tmp_path, monkeypatch):
    original = decoded._decode_part

    def careless(part, note):
        answer = original(part, note)
        with open(part.path, "r+b") as file:
            file.seek(part.offset + 3)
            file.write(b"\x2a")
        return answer

    monkeypatch.setattr(decoded, "_decode_part", careless)
    with pytest.raises(UserError, match="did not return") as caught:
        decoded.decode(folder, manifest.read(folder), SPLITS)
    assert caught.value.exit_code == 4 and not files(tmp_path)


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


def test_all_is_decoded_before_a_cell_starts(folder, tmp_path, monkeypatch):
    found = [make_cell("simclr", folder, data__bits=bits, train__batch_size=20, train__steps=1) for bits in (0, 2)]
    runner.prepare(found, 1, print)
    described = manifest.read(folder)["splits"]
    assert all(decoded.read(described[split]) is not None for split in SPLITS)
    monkeypatch.setattr(decoded, "decode", lambda *arguments: pytest.fail("decoded again"))
    assert cells.run(found[1], tmp_path / "out", CPU)["run"]["status"] == "ok"


def test_the_second_run_of_a_suite_generates_and_decodes_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("SUPPRESSION_BENCH_CACHE", str(tmp_path / "cache"))
    (tmp_path / "suite.yaml").write_text(SUITE)
    calls = {"write_shard": [], "read_shard": [], "_decode_part": []}
    for owner, name in ((build, "write_shard"), (shards, "read_shard"), (decoded, "_decode_part")):
        original = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *a, f=original, n=name, **k: (calls[n].append(a), f(*a, **k))[1])
    flags = ["--device", "cpu", "--workers", "1"]
    monkeypatch.setattr("generators.executor.cores", lambda: 1)  # all in this process, where calls are counted
    assert main(["run", str(tmp_path / "suite.yaml"), "--out", str(tmp_path / "first"), *flags]) == 0
    assert {name: len(made) for name, made in calls.items()} == {"write_shard": 2, "read_shard": 2, "_decode_part": 2}
    stamps = {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*.*")}
    assert main(["run", str(tmp_path / "suite.yaml"), "--out", str(tmp_path / "second"), *flags]) == 0
    assert {name: len(made) for name, made in calls.items()} == {"write_shard": 2, "read_shard": 2, "_decode_part": 2}
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*.*")} == stamps
    first, second = (
        {path.parent.name: json.loads(path.read_text())["probes"] for path in (tmp_path / name).rglob("result.json")}
        for name in ("first", "second")
    )
    assert len(first) == 3 and first == second
