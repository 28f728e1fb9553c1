"""A rerun trains in a process of its own, judges the weights itself, and finds out a claim that only looks consistent."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from suppression_bench.suite import Request, cells_of_suite
from test_leaderboard_check import edit, good, toy  # noqa: F401 (fixtures)
from toy_track import METHOD, WISH, reseal, run_cells

from suppression_bench import cli
from suppression_bench.leaderboard import cells, check, levels, official, pack, sandbox, submission, tracks
from suppression_bench.leaderboard.rerun import suite_file as rerun_suite
from suppression_bench.results import predictions, record

QUICK = Path(__file__).parents[2] / "docs/results/quick/cells"

LIMITS = sandbox.Limits()
LIGHT = ["--workers", "1", "--threads", "1", "--device", "cpu", "--nonce", "n"]


def rerun(folder, out, *more):
    given = ["leaderboard", "rerun", folder.name, "--root", str(folder.parent), "--out", str(out)]
    return cli.main([*given, *LIGHT, *map(str, more)])


def test_an_honest_claim_is_raised_to_v3_and_a_stopped_rerun_goes_on(good, toy, tmp_path, capsys):  # noqa: F811
    folder = shutil.copytree(good, tmp_path / "submissions" / good.name)
    assert rerun(folder, tmp_path / "out", "--hours", "0.0003") == 4
    assert "the same command goes on" in capsys.readouterr().err
    assert rerun(folder, tmp_path / "out", "--fresh-seeds", "1") == 2
    assert "holds another rerun" in capsys.readouterr().err
    assert rerun(folder, tmp_path / "out") == 0
    said = capsys.readouterr().out
    assert "the claim holds" in said and "fresh" in said
    found = levels.read_rerun(folder.parent, folder.name)
    planned = json.loads((tmp_path / "out" / "rerun.json").read_text())
    assert found["fresh_seeds"] == planned["fresh_seeds"] and found["nonce"] == "n" and len(found["cells"]) == 9
    assert submission.load(folder).level == levels.RETRAINED
    own = {
        (record["spec"]["strength"]["value"], record["spec"]["seed"]): record
        for record in submission.load(folder).records
    }
    same = [cell for cell in found["cells"] if not cell["fresh"] and cell["feature"] == "digit"]
    for cell in same:  # the same seed on the same machine: the very number
        claim = own[int(cell["strength"]), cell["seed"]]
        [probe] = [probe for probe in claim["probes"] if probe["feature"] == "digit"]
        assert cell["correct"] == sum(row[i] for i, row in enumerate(probe["confusion"]))


def forge_from_labels(folder):
    """All digits right but one a seed: whoever has the public labels can write this without training anything."""
    for one in submission.load(folder).records:
        strength, seed = one["spec"]["strength"]["value"], one["spec"]["seed"]
        truth = official.Official(tracks.read("toy")).labels(strength)("probe-test", "digit").astype("uint8")
        cell = f"bits={strength}-seed={seed}"
        path = folder / "predictions" / f"{cell}.safetensors"
        identity, rows = predictions.read(path)
        claimed = truth.copy()
        claimed[seed] = (truth[seed] + 1) % 10  # no two seeds alike
        predictions.write(folder / "predictions", identity, {**rows, ("lbfgs", "encoder", "digit"): claimed})
        (folder / "predictions" / predictions.NAME).rename(path)
        confusion = predictions.confusion(claimed, truth, 10)
        edit(folder, cell, keep_id=True, probes=lambda probes, made=confusion: probes[-1].update(confusion=made))


def test_a_claim_forged_from_the_public_labels_passes_v1_and_fails_the_rerun(toy, tmp_path, randbit, capsys):  # noqa: F811
    (tmp_path / "mine.py").write_text(METHOD)
    places = run_cells(str(tmp_path / "mine.py"), randbit, tmp_path / "runs", seeds=(0, 1, 2))
    wish = pack.Wish(**{**vars(WISH), "files": {"method": str(tmp_path / "mine.py")}})
    folder = pack.write(places, wish, tmp_path / "submissions")
    forge_from_labels(folder)
    reseal(folder)
    report = check.check(folder, folder.parent)
    assert report.faults == [] and report.level == levels.RESCORED
    assert rerun(folder, tmp_path / "out") == 1
    assert "the claim does NOT hold" in capsys.readouterr().out
    assert submission.load(folder).level == levels.REPORTED


@pytest.mark.parametrize("method", ["simclr", "byol", "vae", "supervised", "untrained"])
def test_the_suite_of_a_rerun_has_the_settings_of_the_claim(method, tmp_path):
    """On published records of the package's methods, resolved and not run."""
    path = sorted(QUICK.glob(f"{method}-*bits=8-*/result.json"))[-1]
    claim = submission.Submission(tmp_path, "x", "X", "", None, "quick", False, None, None, [record.read(path)], 0)
    track = tracks.read("quick")
    found = cells_of_suite(str(rerun_suite(claim, track, [5, 2**31 - 1], {}, tmp_path)), Request())
    assert len(found) == 2 * len(track.grid) and {cell.spec["seed"] for cell in found} == {5, 2**31 - 1}
    for cell in found:
        data = {**cell.spec["data"], "version": 1, "options": track.data, "digest": ""}
        assert cells.common({"spec": {**cell.spec, "data": data}}) == cells.common(claim.records[0])


def test_a_refused_submission_is_not_run(good, toy, tmp_path, capsys):  # noqa: F811
    folder = shutil.copytree(good, tmp_path / "submissions" / good.name)
    (folder / "method.py").write_text("import os\n")
    reseal(folder)
    assert rerun(folder, tmp_path / "out") == 2
    assert "imports os" in capsys.readouterr().err and not (tmp_path / "out").exists()


@pytest.fixture
def bare(tmp_path, monkeypatch):
    """Runs Python code the way foreign code is run, in place of `bench`."""
    (tmp_path / "home").mkdir()

    def run(code, limits=LIMITS, prefix=()):
        env = sandbox.environment(tmp_path / "home", tmp_path / "data", 1)
        monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
        (tmp_path / "python").write_text(f"#!{os.path.realpath('/proc/self/exe')}\n" + code)
        (tmp_path / "python").chmod(0o755)
        return sandbox.run([], tmp_path, env, limits, tmp_path / "log", list(prefix)), (tmp_path / "log").read_text()

    return run


def test_foreign_code_sees_no_secret(bare, monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    code, log = bare("import os; print(sorted(os.environ), os.environ['HOME'])")
    assert code == 0 and "SECRET_TOKEN" not in log and "home" in log


def test_its_memory_and_time_are_limited(bare):
    code, log = bare("x = bytearray(2 * 2**30)", sandbox.Limits(1.0, 1.0))
    assert code == 1 and "MemoryError" in log
    began = time.monotonic()
    code, _ = bare("import time; time.sleep(60)", sandbox.Limits(1 / 3600))
    assert code is None and time.monotonic() - began < 20


def test_its_children_end_with_it(bare, tmp_path):
    child = "import subprocess, sys; p = subprocess.Popen(['sleep', '300']); print(p.pid)"
    _, log = bare(child)
    pid = int(log.strip())
    for _ in range(50):
        state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout.strip()
        if not state or state.startswith("Z"):
            return
        time.sleep(0.1)
    raise AssertionError(f"{pid} still runs: {state}")


def test_it_has_no_network_where_the_system_can_cut_it(bare):
    prefix = sandbox.no_network()
    if not prefix:
        pytest.skip("this system lets no process have a network of its own")
    code, log = bare("import socket; socket.create_connection(('127.0.0.1', 9), 1)", prefix=prefix)
    assert code == 1 and "unreachable" in log
