"""Whole runs: suites, restarts after a kill, workers that die, a user's own method."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from suppression_bench.cli import main

SUITE = """
version: 1
title: a test
data: {dataset: randbit, digit_source: optdigits, train: 200, test: 60}
strength: bits
recipe: randbit-small
set: {train: {epochs: 2, batch_size: 100}, probe: {l2: [0.01]}}
cells:
  - {method: simclr, grid: {temperature: [0.1], bits: [0, 2]}}
  - {method: untrained, grid: {bits: [0, 2]}, seeds: [0, 1, 2]}
"""

METHOD = '''
"""A method of a user."""
import torch
from suppression_bench.method import Method, Output


class Mine(Method):
    """Pulls the views together, and fails as it is told to."""

    def __init__(self, encoder, info, *, fault: str = "none"):
        super().__init__(encoder, info)
        self.fault = fault

    def loss(self, batch):
        assert batch.labels is None
        first, second = (self.encoder(view) for view in batch.views)
        if self.fault == "raise":
            raise ValueError("a fault of the method")
        if self.fault == "die":
            import os
            os._exit(9)
        loss = (first - second).pow(2).mean()
        return Output(loss * float("nan") if self.fault == "nan" else loss, first)
'''


def bench(*arguments) -> int:
    return main([str(argument) for argument in arguments])


@pytest.fixture
def suite(tmp_path):
    (tmp_path / "mine.py").write_text(METHOD)
    (tmp_path / "suite.yaml").write_text(SUITE)
    return tmp_path


def records(folder) -> dict:
    return {path.parent.name: json.loads(path.read_text()) for path in folder.rglob("result.json")}


def numbers(folder) -> dict:
    return {name: (record["id"], record["probes"]) for name, record in records(folder).items()}


@pytest.mark.slow
def test_a_suite_restarts_where_it_was(suite, capsys):
    out = suite / "out"
    assert bench("run", suite / "suite.yaml", "--out", out, "--workers", 1) == 0
    output = capsys.readouterr().out
    assert "generating randbit" in output and "untrained" in output
    for name in ("table.md", "table.csv", "long.csv", "curves.png", "curves.svg"):
        assert (out / name).stat().st_size > 0
    table = (out / "table.md").read_text()
    assert "digit @0" in table and "digit @2" in table and "(n=3)" in table
    before = {path: path.stat().st_mtime_ns for path in out.rglob("result.json")}
    assert len(before) == 8
    first = numbers(out)
    # One record lost: only its cell runs again, and nothing is generated.
    lost = sorted(before)[0]
    lost.unlink()
    assert bench("run", suite / "suite.yaml", "--out", out, "--workers", 1) == 0
    assert "generating" not in capsys.readouterr().out
    after = {path: path.stat().st_mtime_ns for path in out.rglob("result.json")}
    assert {path for path in before if after[path] != before[path]} == {lost}
    assert numbers(out) == first and (out / "table.md").read_text() == table


@pytest.mark.slow
def test_a_suite_killed_in_the_middle_ends_with_the_same_numbers(suite):
    whole, killed = suite / "whole", suite / "killed"
    command = [
        sys.executable,
        "-m",
        "suppression_bench.cli",
        "run",
        str(suite / "suite.yaml"),
        "--workers",
        "2",
        "--out",
    ]
    only = ["--only", "method=simclr", "--set", "epochs=30", "--set", "checkpoint_seconds=0.05"]
    subprocess.run([*command, str(whole), *only], check=True, capture_output=True)
    process = subprocess.Popen([*command, str(killed), *only], stdout=subprocess.DEVNULL, start_new_session=True)
    deadline = time.monotonic() + 60
    while not list(killed.rglob("checkpoint-*.pt")) and time.monotonic() < deadline:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert list(killed.rglob("checkpoint-*.pt")) and len(records(killed)) < 2, (
        "the kill came too late to prove anything"
    )
    subprocess.run([*command, str(killed), *only], check=True, capture_output=True)
    assert numbers(killed) == numbers(whole)
    assert sum(record["run"]["resumes"] for record in records(killed).values()) >= 1
    for path in whole.rglob("encoder.safetensors"):
        assert path.read_bytes() == (killed / path.relative_to(whole)).read_bytes()
    assert not list(killed.rglob("checkpoint*")), "a finished cell keeps no checkpoint"


@pytest.mark.parametrize("fault, status", [("raise", "failed"), ("die", "failed"), ("nan", "diverged")])
@pytest.mark.slow
def test_a_bad_cell_does_not_stop_the_others(suite, capsys, fault, status):
    text = SUITE + f"  - {{method: {suite / 'mine.py'}, grid: {{bits: [2]}}, set: {{method: {{fault: {fault}}}}}}}\n"
    (suite / "suite.yaml").write_text(text)
    out = suite / "out"
    only = ["--only", "bits=2", "--workers", 2]
    assert bench("run", suite / "suite.yaml", "--out", out, *only) == 1
    ended = records(out)
    bad = [record for record in ended.values() if record["spec"]["method"]["name"] == "mine"]
    assert [record["run"]["status"] for record in bad] == [status]
    assert sum(record["run"]["status"] == "ok" for record in ended.values()) == 4
    output = capsys.readouterr()
    assert status in output.err and "Traceback" not in output.err
    assert f"{status} (seed 0)" in (out / "table.md").read_text()


def test_a_users_own_method_and_its_edit(suite, tmp_path):
    data = tmp_path / "data"
    assert bench("generate", "randbit", "--train", 200, "--test", 60, "--out", data) == 0
    flags = ["run", "--data", data, "--method", suite / "mine.py", "--set", "epochs=1", "batch_size=100", "--out"]
    assert bench(*flags, tmp_path / "out") == 0
    [first] = records(tmp_path / "out").values()
    assert first["spec"]["method"]["name"] == "mine" and str(tmp_path) not in json.dumps(first)
    (suite / "mine.py").write_text(METHOD + "\n# edited\n")
    assert bench(*flags, tmp_path / "out") == 0
    assert len(records(tmp_path / "out")) == 2, "an edited file is another cell"


@pytest.mark.slow
def test_supervised_on_multidigits_both_forms(tmp_path):
    """The set of classes as target, one probe per size; the smallest net, since only the path is tested."""
    small = ["--canvas", 40, "--train", 60, "--probe-train", 50, "--probe-test", 20]
    for form in (["--count", 2, "--canvas", 56], ["--sizes", 10, 24]):
        data, out = tmp_path / f"data{form[1]}", tmp_path / f"out{form[1]}"
        assert bench("generate", "multidigits", *small, *form, "--out", data) == 0
        flags = ["--set", "encoder.name=randbit_conv", "epochs=1", "batch_size=30", "warmup_epochs=0", "--out", out]
        assert bench("run", "--data", data, "--method", "supervised", *flags) == 0
        [record] = records(out).values()
        features = {"digit"} if form[0] == "--count" else {"digit_10", "digit_24"}
        assert {probe["feature"] for probe in record["probes"]} == features
        assert {probe["probe"] for probe in record["probes"]} == {"lbfgs", "sgd"}
