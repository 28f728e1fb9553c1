"""The files of `bench check`: written and read back, and every kind of damage refused."""

import json

import pytest
from small_cells import make_record, probe_entry, write_records

from generators.dataset import UserError
from suppression_bench.results import baseline, exact, observed


def records(method="simclr", seeds=range(10), **more):
    return [make_record([probe_entry(60 + seed)], method=method, seed=seed, **more) for seed in seeds]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "deep" / "base.json"
    baseline.write(baseline.make(observed.observe(records() + records("byol"))), path)
    return path


def test_a_baseline_comes_back_as_it_was_written(file):
    made, read = baseline.make(observed.observe(records() + records("byol"))), baseline.read(file)
    assert read.places.keys() == made.places.keys() and len(read.places) == 2
    for place, seen in read.places.items():
        assert (seen.names, seen.digest, seen.n, seen.correct) == (
            made.places[place].names, made.places[place].digest, 100, {seed: 60 + seed for seed in range(10)},
        )  # fmt: skip
    assert read.suite == {"name": "test", "version": 1} and read.environment["device"] == ["cpu"]
    before = file.read_bytes()
    baseline.write(read, file)
    assert file.read_bytes() == before and before.count(b"\n") == 4, "one cell a line"


DAMAGE = [
    (lambda text: text[:-5], "not valid JSON"),
    (lambda text: text.replace('"n":100', '"n":NaN', 1), "NaN is not allowed"),
    (lambda text: text.replace('"n":100', '"n":100,"n":100', 1), "stands twice"),
    (lambda text: text.replace('"n":100', '"n":100.0', 1), "n has the wrong type float"),
    (lambda text: text.replace('"n":100', '"m":100', 1), "unknown key 'm'"),
    (lambda text: text.replace('"schema":1', '"schema":2', 1), "schema 2 is not 1"),
    (lambda text: text.replace('"correct":[60', '"correct":[101', 1), "no value above"),
    (lambda text: text.replace('"seeds":[0,', '"seeds":[1,', 1), "a seed stands twice"),
    (lambda text: text.replace('"version":1}', '"version":true}', 1), "version has the wrong type bool"),
    (lambda text: text.replace('"device":["cpu"]', '"device":"cpu"', 1), "device must be a list"),
    (lambda text: "[]", "must be an object"),
]


@pytest.mark.parametrize(("damage", "word"), DAMAGE, ids=[word for _, word in DAMAGE])
def test_a_damaged_baseline_is_refused(file, damage, word):
    text = file.read_text()
    assert damage(text) != text, "the damage must do something"
    file.write_text(damage(text))
    with pytest.raises(UserError, match=word) as error:
        baseline.read(file)
    assert str(file) in str(error.value)


def test_all_faults_of_a_baseline_at_once_and_a_file_too_large(file, monkeypatch):
    content = json.loads(file.read_text())
    content["cells"][0]["seeds"] = [1] * 10
    content["cells"][1]["digest"] = "x"
    file.write_text(json.dumps(content))
    with pytest.raises(UserError, match="cell 1: a seed stands twice; cell 2: digest is no SHA-256"):
        baseline.read(file)
    monkeypatch.setattr(baseline, "LARGEST", 10)
    with pytest.raises(UserError, match="over 10 bytes"):
        baseline.read(file)
    with pytest.raises(UserError, match="no such baseline; make one"):
        baseline.read(file.parent / "none.json")


def test_runs_that_are_no_baseline_are_named_all_at_once(tmp_path):
    lost = make_record([], method="vae", status="diverged", error="the loss was not finite at step 3")
    write_records(tmp_path, [*records(), *records("byol", range(4)), *records("moco", range(9)), lost])
    with pytest.raises(UserError) as error:
        baseline.make(observed.read([tmp_path]))
    text = str(error.value)
    for part in (
        "vae bits=0 seed=0: diverged",
        "byol bits=0, digit by lbfgs: 4 of 10",
        "moco bits=0, digit by lbfgs: 9 of 10",
    ):
        assert part in text
    assert "simclr" not in text


def test_a_planned_cell_that_was_not_run_is_missing(tmp_path):
    there = records()
    write_records(tmp_path, there[:9])
    plan = [{"id": one["id"], "folder": "x", "spec": one["spec"]} for one in there]
    (tmp_path / "cells.json").write_text(json.dumps(plan))
    assert observed.read([tmp_path]).faults == ["simclr bits=0 seed=9: missing, planned but not run"]
    with pytest.raises(UserError, match=r"no result\.json in it"):
        observed.read([tmp_path / "cells" / "none"])


def one_cell(tmp_path, machine="2", right=60, weights=b"w"):
    made = make_record([probe_entry(right)])
    made["environment"] |= {"torch": machine, "platform": "Linux", "cpu_capability": "AVX2"}
    (tmp_path / "w").write_bytes(weights)
    return dict([exact.outcome(made, tmp_path / "w")])


def test_references_come_back_and_those_of_other_machines_stay(tmp_path):
    path = tmp_path / "tiny.json"
    exact.write(one_cell(tmp_path), None, path)
    exact.write(exact.joined(exact.read(path), one_cell(tmp_path, "3", 61)), None, path)
    exact.write(exact.joined(exact.read(path), one_cell(tmp_path, "2", 62)), None, path)
    [cell] = exact.read(path).values()
    rights = {r.machine[0]: r.matrices["lbfgs encoder digit"][0][0] for r in cell.results}
    assert rights == {"2": 62, "3": 61} and cell.title == "simclr bits=0 seed=0"
    text = path.read_text()
    for old, new, word in [
        ('"torch":"2"', '"torch":"3"', "a machine stands twice"),
        ('"seed":0', '"seed":0.5', "not valid JSON"),
        ('"lbfgs encoder digit":[[', '"lbfgs encoder digit":[[-1],[', "square matrices"),
        ('"references"', '"reference"', "unknown key 'reference'"),
        ('"weights":"', '"weights":"x', "weights is no SHA-256"),
    ]:
        assert old in text
        path.write_text(text.replace(old, new, 1))
        with pytest.raises(UserError, match=word):
            exact.read(path)
    diverged = make_record([], status="diverged")
    with pytest.raises(UserError, match="diverged"):
        exact.outcome(diverged, tmp_path / "w")
