"""From runs to a folder that the check accepts and that says where everything comes from."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from toy_track import METHOD, edit, request, run_cells

from generators.dataset import UserError
from suppression_bench import cli
from suppression_bench.leaderboard import entry as entries
from suppression_bench.leaderboard import submission
from suppression_bench.leaderboard.check import check
from suppression_bench.results import predictions
from suppression_bench.results import record as records


def submit(*arguments):
    return cli.main(["submit", *map(str, arguments), "--url", "https://example.org", "--track", "toy"])


def untrained(toy):
    return submission.gather([toy / "package"], {"method": ["untrained"]})


def test_a_method_of_ones_own_is_packed_and_accepted(toy, tmp_path, capsys):
    assert submit(toy / "mine", "--name", "My Method", "--method", toy / "mine.py", "--out", tmp_path) == 0
    printed = capsys.readouterr().out
    assert "level V1 rescored" in printed and "git add leaderboard/entries/my-method-toy" in printed
    assert "method.py imports suppression_bench.method, torch, torch.nn" in printed  # for its reviewer
    loaded = entries.load(tmp_path / "my-method-toy")
    assert (loaded.entry.name, loaded.entry.track, loaded.entry.label_use) == ("My Method", "toy", False)
    assert loaded.entry.own_files == {"method": "method.py"} and (loaded.folder / "method.py").read_text() == METHOD
    assert loaded.entry.setting.method.options == {"width": 16} and loaded.level == entries.REPORTED
    assert sorted(path.name for path in loaded.folder.iterdir()) == [
        "entry.json",
        "method.py",
        "predictions.safetensors",
    ]


def test_the_cells_are_those_of_the_runs(toy, tmp_path):
    """Ids, numbers and predictions; metrics stay with the runs, as nobody can count them again."""
    cells = untrained(toy)
    folder = submission.write(cells, request(), tmp_path)
    expected = {record.id: record for record in cells.values()}
    loaded, rows = entries.load(folder), entries.read_predictions(folder / entries.PREDICTIONS)
    assert {record.id for record in loaded.records} == set(expected) and len(expected) == 4
    for path, record in cells.items():
        [entered] = [entered for entered in loaded.records if entered.id == record.id]
        assert (entered.probes, entered.run, entered.data) == (record.probes, record.run, record.data)
        kept = predictions.read(path / predictions.NAME)[1]
        packed = rows[entries.cell_name(record)]
        assert kept.keys() == packed.keys() and all((kept[key] == packed[key]).all() for key in kept)


def test_every_cell_is_a_line(toy, tmp_path):
    folder = submission.write(untrained(toy), request(), tmp_path)
    lines = (folder / "entry.json").read_text().split("\n")
    cells = [json.loads(line.rstrip(",")) for line in lines[lines.index(' "cells": [') + 1 :][:4]]
    assert [(cell["strength"], cell["seed"]) for cell in cells] == [(0, 0), (0, 1), (2, 0), (2, 1)]


def test_one_of_several_methods_is_chosen(toy, tmp_path, capsys):
    assert submit(toy / "package", "--name", "Ceiling", "--out", tmp_path) == 2
    refusal = capsys.readouterr().err
    assert "2 settings" in refusal and "supervised" in refusal and "--only" in refusal
    assert submit(toy / "package", "--name", "Ceiling", "--out", tmp_path, "--only", "method=supervised") == 0
    loaded = entries.load(tmp_path / "ceiling-toy")
    assert loaded.entry.label_use and not loaded.entry.own_files
    assert submit(toy / "package", "--name", "Floor", "--out", tmp_path, "--only", "method=untrained") == 0
    assert not entries.load(tmp_path / "floor-toy").entry.label_use
    assert submit(toy / "package", "--name", "xx", "--out", tmp_path, "--only", "mehod=untrained") == 2
    assert "did you mean 'method'" in capsys.readouterr().err


def test_the_same_runs_give_the_same_folder(toy, tmp_path):
    first, second = (submission.write(untrained(toy), request(), tmp_path / name) for name in ("one", "two"))
    assert entries.digest(first) == entries.digest(second)


@pytest.mark.parametrize(
    "more, words",
    [
        ([], "--method PATH.py"),
        (["--method", "{here}/other.py"], "not the file that the cells were run with"),
        (["--method", "{here}/mine.py", "--loss", "{here}/mine.py"], "--loss"),
        (["--method", "{here}/mine.py", "--slug", "../x"], "--slug '../x'"),
    ],
)
def test_what_does_not_fit_is_named(toy, tmp_path, capsys, more, words):
    (toy / "other.py").write_text(METHOD + "\n# edited\n")
    flags = [text.format(here=toy) for text in more]
    assert submit(toy / "mine", "--name", "My Method", "--out", tmp_path, *flags) == 2
    assert words in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_refused_folder_is_taken_away_again(toy, tmp_path, capsys):
    flags = ("--name", "x" * 61, "--slug", "long", "--method", toy / "mine.py", "--out", tmp_path)
    assert submit(toy / "mine", *flags) == 2
    assert "name" in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_an_entry_is_never_overwritten(toy, tmp_path, capsys):
    arguments = (toy / "mine", "--name", "My Method", "--method", toy / "mine.py", "--out", tmp_path)
    assert submit(*arguments) == 0
    assert submit(*arguments) == 2
    assert "entries never change" in capsys.readouterr().err


def test_a_folder_that_cannot_be_made_ends_with_4(toy, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file", tmp_path / "file" / "below", tmp_path / ("x" * 300)):
        assert submit(toy / "mine", "--name", "My Method", "--method", toy / "mine.py", "--out", out) == 4
        assert str(out) in capsys.readouterr().err


def test_folders_without_records_are_named(toy, tmp_path):
    for runs in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(UserError, match=runs.name):
            submission.gather([runs], {})


def test_runs_without_predictions_reach_no_level(toy, tmp_path, randbit):
    cells = run_cells("untrained", randbit, tmp_path / "old")
    first, *others = cells
    (first / predictions.NAME).unlink()
    with pytest.raises(UserError, match="1 of 4 cells have no predictions"):
        submission.write(cells, request(), tmp_path / "out")
    for folder in others:
        (folder / predictions.NAME).unlink()
    report = check(submission.write(cells, request(), tmp_path / "out"), tmp_path / "out")
    assert report.faults == [] and report.level == entries.REPORTED and "predictions" in report.reason


def test_where_the_data_cannot_be_had_nothing_is_rescored(toy, tmp_path, monkeypatch):
    def refuse(*_):
        raise UserError("the source is not there")

    folder = submission.write(untrained(toy), request(), tmp_path)
    monkeypatch.setattr("suppression_bench.leaderboard.tracks.Official.labels", refuse)
    report = check(folder, tmp_path)
    assert report.faults == [] and report.level == entries.REPORTED and "the source is not there" in report.reason


def test_two_runs_of_one_cell_are_refused(toy, tmp_path, randbit):
    again = run_cells("untrained", randbit, tmp_path / "again", seeds=(0,))
    with pytest.raises(UserError, match="a second cell of bits=0-seed=0"):
        submission.write({**untrained(toy), **again}, request(), tmp_path / "out")
    assert all(record.is_ok for record in map(records.read, (tmp_path / "again").rglob(records.NAME)))


def test_encoders_are_probed_again(toy, tmp_path, capsys):
    root = tmp_path / "entries"
    submit(toy / "mine", "--name", "My Method", "--method", toy / "mine.py", "--out", root, "--with-encoder")
    assert cli.main(["leaderboard", "check", "--root", str(root), "--reprobe", "--keep"]) == 0
    assert "level V2 re-probed" in capsys.readouterr().out
    folder = root / "my-method-toy"
    assert entries.load(folder).level == entries.REPROBED
    encoders = folder / "encoders"
    weights = load_file(encoders / "bits=0-seed=0.safetensors")
    save_file({name: value * 0 for name, value in weights.items()}, encoders / "bits=0-seed=0.safetensors")
    save_file({name: value * float("nan") for name, value in weights.items()}, encoders / "bits=0-seed=1.safetensors")
    (encoders / "bits=2-seed=1.safetensors").write_bytes(b"no weights")
    save_file({"other": torch.zeros(1)}, encoders / "bits=2-seed=0.safetensors")
    edit(folder)
    capsys.readouterr()
    assert cli.main(["leaderboard", "check", "--root", str(root), "--reprobe"]) == 2
    refusal = capsys.readouterr().err
    assert "bits=0-seed=0: digit: its encoder gives" in refusal and "not finite" in refusal
    assert refusal.count("no weights of randbit-conv") == 2
    submit(toy / "mine", "--name", "Bare", "--method", toy / "mine.py", "--out", tmp_path / "bare")
    assert cli.main(["leaderboard", "check", "--root", str(tmp_path / "bare"), "--reprobe"]) == 0
    assert "level V1 rescored (it brings no encoders)" in capsys.readouterr().out
