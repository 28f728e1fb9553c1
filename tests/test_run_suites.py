"""bench run on suites: tiers, a dry run, a budget, folders of several suites, and a kill in the middle."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from suppression_bench import forecast
from suppression_bench.cli import main

SUITE = """
version: 1
title: a test
data: {dataset: randbit, digit_source: optdigits, train: 120, test: 40}
strength: bits
recipe: randbit-small
set: {train: {epochs: 2, batch_size: 60}, probe: {l2: [0.01], metric_samples: 0}}
tier: small
cells:
  - {method: untrained, grid: {bits: [0, 2]}, seeds: [0, 1]}
  - {method: simclr, grid: {bits: [0, 2]}}
tiers:
  small: {}
  quick: {cells: [{method: untrained}]}
"""


def bench(*arguments) -> int:
    return main([str(argument) for argument in arguments])


@pytest.fixture
def suite(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "suite.yaml").write_text(SUITE)
    return tmp_path


def finished(folder) -> dict:
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.rglob("result.json")}


def test_a_tier_runs_in_a_folder_of_its_own(suite, capsys):
    assert bench("run", "suite.yaml", "--tier", "quick", "--workers", 1, "--threads", 1) == 0
    assert len(finished(suite / "runs" / "suite-quick")) == 1 and not (suite / "runs" / "suite").exists()
    assert bench("run", "suite.yaml", "--tier", "quik") == 2
    assert "did you mean 'quick'" in capsys.readouterr().err
    assert bench("run", "--data", "data", "--method", "simclr", "--tier", "quick") == 2
    assert "--tier goes with a suite" in capsys.readouterr().err


def test_a_dry_run_says_all_and_writes_nothing(suite, capsys, monkeypatch):
    monkeypatch.setenv("SUPPRESSION_BENCH_CACHE", str(suite / "cache"))
    before = sorted(suite.rglob("*"))
    assert bench("run", "suite.yaml", "--dry-run", "--workers", 2, "--budget", "2m") == 0
    text = capsys.readouterr().out
    assert "6 cells on" in text and "6 unknown; its data are to be generated first" in text
    assert "randbit digit_source=optdigits train=120 test=40 (160 samples): would be generated, about" in text
    assert "budget: 6 of 6 cells would fit into 2 min" in text and sorted(suite.rglob("*")) == before
    # With one seed of the untrained cells done, the other's time is known; the trained ones' can be measured.
    only = ("--only", "method=untrained", "seed=0")
    assert bench("run", "suite.yaml", *only, "--workers", 1, "--threads", 1, "--out", "out") == 0
    before = sorted(suite.rglob("*"))
    capsys.readouterr()
    assert bench("run", "suite.yaml", "--dry-run", "--threads", 1, "--out", "out") == 0
    text = capsys.readouterr().out
    assert "(160 samples): there" in text and sorted(suite.rglob("*")) == before
    assert "cells: 2 finished, 2 finished records of the same setting, 2 unknown; add --measure" in text
    assert (
        bench("run", "suite.yaml", "--dry-run", "--measure", "--threads", 1, "--out", "elsewhere", "--records", "out")
        == 0
    )
    text = capsys.readouterr().out
    assert "cells: 4 finished records of the same setting, 2 first steps measured" in text
    assert sorted(suite.rglob("*")) == before


@pytest.mark.parametrize("below", [".", "deeper/still"])
def test_a_file_where_the_folder_should_be_is_found_before_any_work(suite, capsys, below):
    (suite / "taken").write_text("notes")
    for dry in ([], ["--dry-run"]):
        assert bench("run", "suite.yaml", *dry, "--out", f"taken/{below}") == 2
        said = capsys.readouterr()
        assert "taken is a file, not a folder; choose another place" in said.err and not said.out
    assert (suite / "taken").read_text() == "notes"


def test_a_budget_leaves_whole_cells_and_the_next_run_goes_on(suite, capsys, monkeypatch):
    # By these estimates untrained cells fit into an hour and trained ones do not.
    hours = {"untrained": 1.0, "simclr": 7200.0}
    monkeypatch.setattr(forecast, "first_steps", lambda located, *rest: hours[located.cell.method.name])
    command = ("run", "suite.yaml", "--budget", "1h", "--workers", 1, "--threads", 1, "--out", "out")
    assert bench(*command) == 0
    said = capsys.readouterr().out
    assert "not run: simclr bits=2 seed=0 (about 2.0 h)" in said
    assert "2 of 6 cells did not fit into 1h; the same command goes on" in said
    first = finished(suite / "out")
    assert len(first) == 4 and "missing" in (suite / "out" / "table.md").read_text()
    assert len(json.loads((suite / "out" / "cells.json").read_text())) == 6
    hours["simclr"] = 1.0
    assert bench(*command) == 0
    assert "did not fit" not in capsys.readouterr().out
    after = finished(suite / "out")
    assert len(after) == 6 and {path: after[path] for path in first} == first
    assert "missing" not in (suite / "out" / "table.md").read_text()


def test_a_budget_that_is_no_duration(suite, capsys):
    assert bench("run", "suite.yaml", "--budget", "soon") == 2
    assert "--budget 'soon' is no duration" in capsys.readouterr().err


def test_a_folder_of_another_suite_is_named(suite, capsys):
    (suite / "other.yaml").write_text(SUITE)
    only = ("--only", "method=untrained", "seed=0", "bits=0", "--workers", 1, "--threads", 1, "--out", "out")
    assert bench("run", "suite.yaml", *only) == 0
    assert "holds other cells" not in capsys.readouterr().out
    assert bench("run", "other.yaml", *only) == 0
    assert "out holds other cells too (1 of suite suite): its tables show them all" in capsys.readouterr().out


@pytest.mark.slow
def test_a_killed_suite_ends_with_the_table_of_an_undisturbed_run(suite):
    """Finished cells are not run again, and nothing in the table tells that the run was killed."""
    flags = ["run", "suite.yaml", "--set", "epochs=20", "checkpoint_seconds=0.05", "--only", "seed=0", "--out"]
    command = [sys.executable, "-m", "suppression_bench.cli", *flags, "killed", "--workers", "2", "--threads", "1"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
    deadline = time.monotonic() + 120
    while not list(suite.rglob("killed/**/checkpoint-*.pt")) and time.monotonic() < deadline:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    before = finished(suite / "killed")
    assert 1 <= len(before) < 4, "the kill came too early or too late to prove anything"
    assert not (suite / "killed" / "table.md").exists()
    assert bench(*flags, "killed", "--workers", 1, "--threads", 1) == 0
    after = finished(suite / "killed")
    assert len(after) == 4 and {path: after[path] for path in before} == before
    assert bench(*flags, "whole", "--workers", 1, "--threads", 1) == 0
    for name in ("table.md", "table.csv", "cells.json"):
        assert (suite / "killed" / name).read_bytes() == (suite / "whole" / name).read_bytes(), name


def test_only_given_twice_holds_both_times(suite, capsys):
    """Whoever repeats the flag means all of it: `--only method=simclr --only bits=2` is one cell."""
    out = ["--dry-run", "--workers", 1, "--threads", 1, "--out", "out"]
    assert bench("run", "suite.yaml", "--only", "method=simclr", "--only", "bits=2", *out) == 0
    assert capsys.readouterr().out.startswith("1 cells")
    assert bench("run", "suite.yaml", "--only", "method=simclr", "bits=0", "--only", "bits=2", *out) == 0
    assert capsys.readouterr().out.startswith("2 cells")


def test_a_budget_into_which_nothing_fits_asks_for_more(suite, capsys):
    """The same command would leave out the same cells for ever."""
    flags = ["--workers", 1, "--threads", 1, "--out", "out", "--budget"]
    assert bench("run", "suite.yaml", *flags, "0.001s") == 0
    said = capsys.readouterr().out
    assert "none of 6 cells fits into 0.001s" in said and "raise --budget" in said and "same command" not in said
    assert "data not there." in said or re.search(r"data [0-9a-f]{12}\.", said)  # no empty part behind it
