"""Building disturbed: kills, exceptions, damaged shards, rivals; the end is always the same bytes."""

import contextlib
import errno
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from toy_data import Usage, folder_bytes, interrupted, make

from generators import files, manifest
from generators.build import build
from generators.catalog import dataset
from generators.inspect import verify

SERVER = """
import os, sys
from generators.build import build
from generators.catalog import dataset
made = dataset("multidigits", {"train": 1500, "probe-train": 150, "probe-test": 120})
for line in sys.stdin:
    child = os.fork()
    if not child:
        build(made, sys.argv[1], shard_size=100)
        os._exit(0)
    print(child, flush=True)
    print(os.waitpid(child, 0)[1], flush=True)
"""


def test_sigkill_at_random_moments(tmp_path):
    options = {"train": 1500, "probe-train": 150, "probe-test": 120}
    build(dataset("multidigits", options), tmp_path / "whole", shard_size=100)
    reference, out, chance = folder_bytes(tmp_path / "whole"), tmp_path / "out", random.Random()
    with subprocess.Popen(
        [sys.executable, "-c", SERVER, str(out)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:

        def start():
            server.stdin.write("go\n")
            server.stdin.flush()
            return int(server.stdout.readline())

        for target in (0, 2, 5, 9, 12, 15, 18):  # shards to wait for before the kill
            child, limit = start(), time.monotonic() + 20
            while len(list(out.glob("*.tar"))) < target and time.monotonic() < limit:
                time.sleep(0.001)
            time.sleep(chance.random() * 0.02)
            with contextlib.suppress(ProcessLookupError):  # it was faster
                os.kill(child, 9)
            server.stdout.readline()
            found = folder_bytes(out, "*.tar")
            assert all(reference[name] == data for name, data in found.items())
            if (out / "manifest.json").exists():
                assert found.keys() | {"manifest.json"} == reference.keys()
        start()
        assert server.stdout.readline() == "0\n"
        server.stdin.close()
    assert folder_bytes(out) == reference


def stamps(folder: Path) -> dict:
    return {path.name: (path.stat().st_mtime_ns, path.stat().st_ino) for path in folder.glob("*.tar")}


def test_exception_in_a_dataset_then_mended(whole, tmp_path):
    out = tmp_path / "out"
    mended = interrupted(tmp_path / "user", out)
    kept = stamps(out)
    assert sorted(kept) == ["pretrain-00000.tar", "pretrain-00001.tar", "pretrain-00002.tar"]
    make(mended, out, shard_size=10, workers=2)
    assert folder_bytes(out) == whole and kept.items() <= stamps(out).items()  # kept, not made anew


def test_shards_of_a_folder_that_says_not_what_is_built_there_are_made_anew(whole, tmp_path):
    out = tmp_path / "out"
    mended = interrupted(tmp_path / "user", out)
    before = stamps(out)
    (out / manifest.UNFINISHED).unlink()
    make(mended, out, shard_size=10)
    assert folder_bytes(out) == whole and not before.items() & stamps(out).items()


def test_a_folder_killed_behind_its_manifest_is_finished(toy, whole, tmp_path):
    out, half = tmp_path / "whole", tmp_path / "half"
    interrupted(tmp_path / "user", half)
    (out / manifest.UNFINISHED).write_bytes((half / manifest.UNFINISHED).read_bytes())
    before = stamps(out)
    make(toy, out, shard_size=10)
    assert folder_bytes(out) == whole and stamps(out) == before


DAMAGES = {
    "cut": lambda data: data[:3000],
    "empty": lambda data: b"",
    "a block of zeros": lambda data: data[:2048] + bytes(512) + data[2560:],
    "a byte more": lambda data: data[:700] + b"x" + data[701:] + b"x",
    "other pixels": lambda data: data.replace(b"IDAT", b"IDAX", 1),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_and_stray_shards_of_an_unfinished_build_are_made_anew(whole, tmp_path, damage):
    out = tmp_path / "out"
    mended = interrupted(tmp_path / "user", out)
    before = stamps(out)
    shard = out / "pretrain-00001.tar"
    shard.write_bytes(DAMAGES[damage](shard.read_bytes()))
    other = (out / "pretrain-00000.tar").read_bytes()
    for number in (2, 9):  # another shard's samples, under a name of this build and under none
        (out / f"pretrain-0000{number}.tar").write_bytes(other)
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    (out / f"pretrain-00004.tar.{dead.stdout.strip()}-5.tmp").write_bytes(b"half")
    make(mended, out, shard_size=10, workers=2)
    assert folder_bytes(out) == whole
    assert before.items() & stamps(out).items() == {("pretrain-00000.tar", before["pretrain-00000.tar"])}


def test_a_rivals_temporary_file_may_vanish_while_looked_at(whole, tmp_path, monkeypatch):
    out = tmp_path / "out"
    mended = interrupted(tmp_path / "user", out)
    partial = out / f"pretrain-00004.tar.{os.getppid()}-5.tmp"
    partial.write_bytes(b"half")
    monkeypatch.setattr(files.os, "kill", lambda process, signal: partial.unlink())
    make(mended, out, shard_size=10)
    assert folder_bytes(out) == whole


def test_damaged_shard_of_a_finished_folder_is_mended(toy, whole, tmp_path):
    out = tmp_path / "whole"
    before = stamps(out)
    assert (
        files.dumps_json(make(toy, out, shard_size=10)) == whole["manifest.json"].decode().strip()
        and stamps(out) == before
    )
    (out / "pretrain-00003.tar").unlink()
    (out / "probe-test-00000.tar").write_bytes(whole["probe-test-00000.tar"][:-512])
    seen = []
    make(toy, out, shard_size=10, progress=lambda *step: seen.append((out / manifest.NAME).exists()))
    assert set(seen) == {False}  # in the meantime the folder is no dataset
    assert folder_bytes(out) == whole
    assert {n for n, s in stamps(out).items() if before[n] != s} == {"pretrain-00003.tar", "probe-test-00000.tar"}


RIVAL = """
import sys
from generators.build import build
from generators.catalog import dataset
made = dataset(sys.argv[1], {"train": 900})
sys.stdin.readline()
build(made, sys.argv[2], shard_size=10, reference=sys.argv[1])
"""


def test_two_processes_build_one_folder(toy, tmp_path):
    make(toy, tmp_path / "alone", {"train": 900}, shard_size=10)
    command = [sys.executable, "-c", RIVAL, toy, str(tmp_path / "out")]
    rivals = [subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    time.sleep(0.7)  # both stand at the line
    for rival in rivals:
        rival.stdin.write("go\n")
        rival.stdin.flush()
        time.sleep(0.02)
    assert [rival.communicate()[1] for rival in rivals] == ["", ""] and [rival.returncode for rival in rivals] == [0, 0]
    assert folder_bytes(tmp_path / "out") == folder_bytes(tmp_path / "alone")
    verify(tmp_path / "out")


def test_restart_needs_room_only_for_the_rest(whole, tmp_path, monkeypatch):
    out, room = tmp_path / "out", 112_641  # 50 samples of four 512-byte blocks, and a tenth more
    mended = interrupted(tmp_path / "user", out)
    used = sum(path.stat().st_size for path in out.iterdir())
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(10**9, 0, room - used))
    make(mended, out, shard_size=10)
    assert folder_bytes(out) == whole


def test_full_disk_leaves_nothing_half(toy, whole, tmp_path, monkeypatch):
    calls, out = [], tmp_path / "out"

    def fsync(handle):
        calls.append(handle)
        if len(calls) > 8:
            raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space left"):
        patch.setattr(os, "fsync", fsync)
        make(toy, out, shard_size=10)
    found = folder_bytes(out)
    assert found.pop(manifest.UNFINISHED) and found and found.items() <= whole.items() and manifest.NAME not in found
    make(toy, out, shard_size=10)
    assert folder_bytes(out) == whole
