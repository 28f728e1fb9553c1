"""From runs to a folder that the check accepts and that says where everything comes from."""

import json

import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file
from toy_track import METHOD, WISH, make_track, reseal, run_cells, use

from generators.dataset import UserError
from suppression_bench import cli
from suppression_bench.leaderboard import levels, pack, submission, tracks
from suppression_bench.leaderboard.check import check
from suppression_bench.results import predictions


@pytest.fixture(scope="module")
def made(randbit, tmp_path_factory):
    """Cells of a method of one's own, and of SimCLR and the untrained network, on the toy track."""
    place = tmp_path_factory.mktemp("submit")
    (place / "mine.py").write_text(METHOD)
    run_cells(str(place / "mine.py"), randbit, place / "mine")
    run_cells("supervised", randbit, place / "package")
    run_cells("untrained", randbit, place / "package")
    make_track(place / "tracks", randbit)
    return place


@pytest.fixture
def toy(made, monkeypatch):
    use(monkeypatch, made / "tracks")
    yield made
    monkeypatch.undo()
    tracks.read.cache_clear()


def submit(*arguments):
    return cli.main(["submit", *map(str, arguments), "--url", "https://example.org", "--track", "toy"])


def test_a_method_of_ones_own_is_packed_and_accepted(toy, tmp_path, capsys):
    assert submit(toy / "mine", "--name", "My Method", "--method", toy / "mine.py", "--out", tmp_path) == 0
    said = capsys.readouterr().out
    assert "level V1 rescored" in said and "git add leaderboard/submissions/my-method-toy" in said
    found = submission.load(tmp_path / "my-method-toy")
    assert (found.name, found.track, found.method_file, found.label_use) == ("My Method", "toy", "method.py", False)
    assert len(found.records) == 4 and found.level == levels.REPORTED  # until a maintainer notes more
    assert (found.folder / "method.py").read_text() == METHOD
    assert yaml.safe_load((found.folder / "recipe.yaml").read_text())["method"]["width"] == 16
    assert sorted(path.name for path in found.folder.iterdir()) == [
        "method.py", "predictions", "recipe.yaml", "records", "submission.json",
    ]  # fmt: skip


def test_check_notes_the_level_beside_the_submissions(toy, tmp_path, capsys):
    root = tmp_path / "submissions"
    submit(toy / "mine", "--name", "My Method", "--method", toy / "mine.py", "--out", root, "--with-encoder")
    assert cli.main(["leaderboard", "check", "--root", str(root), "--keep"]) == 0
    assert submission.load(root / "my-method-toy").level == levels.RESCORED
    assert len(list((root / "my-method-toy" / "encoders").iterdir())) == 4
    assert "in order, level V1 rescored" in capsys.readouterr().out


def test_one_of_several_methods_is_chosen(toy, tmp_path, capsys):
    assert submit(toy / "package", "--name", "Ceiling", "--out", tmp_path) == 2
    assert "cells of 2 settings (supervised" in capsys.readouterr().err
    assert submit(toy / "package", "--name", "Ceiling", "--out", tmp_path, "--only", "method=supervised") == 0
    found = submission.load(tmp_path / "ceiling-toy")
    assert found.label_use and found.method_file is None
    assert submit(toy / "package", "--name", "Floor", "--out", tmp_path, "--only", "method=untrained") == 0
    assert not submission.load(tmp_path / "floor-toy").label_use
    assert submit(toy / "package", "--name", "x", "--out", tmp_path, "--only", "mehod=untrained") == 2
    assert "did you mean 'method'" in capsys.readouterr().err


def test_the_same_runs_give_the_same_folder(toy, tmp_path):
    for name in ("one", "two"):
        pack.write(pack.gather([toy / "package"], {"method": ["untrained"]}), WISH, tmp_path / name)
    assert submission.digest(tmp_path / "one/my-method-toy") == submission.digest(tmp_path / "two/my-method-toy")


@pytest.mark.parametrize(
    "more, words",
    [
        ([], "is a file of your own; name it with --method PATH.py"),
        (["--method", "{here}/other.py"], "not the file that the cells were run with"),
        (["--method", "{here}/mine.py", "--loss", "{here}/mine.py"], "--loss"),
        (["--method", "{here}/mine.py", "--slug", "../x"], "--slug '../x'"),
    ],
)
def test_what_does_not_fit_is_said(toy, tmp_path, capsys, more, words):
    (toy / "other.py").write_text(METHOD + "\n# edited\n")
    given = [text.format(here=toy) for text in more]
    assert submit(toy / "mine", "--name", "My Method", "--out", tmp_path, *given) == 2
    assert words in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_refused_folder_is_taken_away_again(toy, tmp_path, capsys):
    assert (
        submit(toy / "mine", "--name", "x" * 61, "--slug", "long", "--method", toy / "mine.py", "--out", tmp_path) == 2
    )
    assert "name has 61 characters" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_an_entry_is_never_overwritten(toy, tmp_path, capsys):
    given = (toy / "mine", "--name", "My Method", "--method", toy / "mine.py", "--out", tmp_path)
    assert submit(*given) == 0
    assert submit(*given) == 2
    assert "entries never change" in capsys.readouterr().err


def test_a_place_that_cannot_hold_a_folder_ends_with_4(toy, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "below", tmp_path / ("x" * 300)):
        assert submit(toy / "mine", "--name", "My Method", "--method", toy / "mine.py", "--out", place) == 4
        assert "name another place" in capsys.readouterr().err


def test_runs_without_predictions_reach_no_level(toy, tmp_path, randbit):
    places = run_cells("untrained", randbit, tmp_path / "old")
    (places[0] / predictions.NAME).unlink()
    with pytest.raises(UserError, match="1 of 4 cells have no predictions"):
        pack.write(places, WISH, tmp_path / "out")
    for place in places[1:]:
        (place / predictions.NAME).unlink()
    report = check(pack.write(places, WISH, tmp_path / "out"), tmp_path / "out")
    assert report.faults == [] and report.level == levels.REPORTED and report.reason == "it brings no predictions"


def test_where_the_data_cannot_be_had_nothing_is_rescored(toy, tmp_path, monkeypatch):
    def refuse(*_):
        raise UserError("the source is not there")

    made = pack.write(pack.gather([toy / "package"], {"method": ["untrained"]}), WISH, tmp_path)
    monkeypatch.setattr("suppression_bench.leaderboard.official.Official.labels", refuse)
    report = check(made, tmp_path)
    assert report.faults == [] and report.level == levels.REPORTED and "the source is not there" in report.reason


def test_the_form_lists_every_file(toy, tmp_path):
    made = pack.write(pack.gather([toy / "package"], {"method": ["untrained"]}), WISH, tmp_path)
    form = json.loads((made / "submission.json").read_text())
    there = {path.relative_to(made).as_posix() for path in made.rglob("*") if path.is_file()}
    assert set(form["files"]) == there - {"submission.json"} and len(there) == 10


def test_encoders_are_probed_again(toy, tmp_path, capsys):
    root = tmp_path / "submissions"
    submit(toy / "mine", "--name", "My Method", "--method", toy / "mine.py", "--out", root, "--with-encoder")
    assert cli.main(["leaderboard", "check", "--root", str(root), "--reprobe", "--keep"]) == 0
    assert "level V2 re-probed" in capsys.readouterr().out
    folder = root / "my-method-toy"
    assert submission.load(folder).level == levels.REPROBED
    own = folder / "encoders"
    weights = load_file(own / "bits=0-seed=0.safetensors")
    save_file({name: value * 0 for name, value in weights.items()}, own / "bits=0-seed=0.safetensors")
    save_file({name: value * float("nan") for name, value in weights.items()}, own / "bits=0-seed=1.safetensors")
    (own / "bits=2-seed=1.safetensors").write_bytes(b"no weights")
    save_file({"other": torch.zeros(1)}, own / "bits=2-seed=0.safetensors")
    reseal(folder)
    capsys.readouterr()
    assert cli.main(["leaderboard", "check", "--root", str(root), "--reprobe"]) == 2
    said = capsys.readouterr().err
    assert "bits=0-seed=0: digit: its encoder gives" in said and "not finite" in said
    assert said.count("no weights of randbit-conv") == 2
    submit(toy / "mine", "--name", "Bare", "--method", toy / "mine.py", "--out", tmp_path / "bare")
    assert cli.main(["leaderboard", "check", "--root", str(tmp_path / "bare"), "--reprobe"]) == 0
    assert "level V1 rescored (it brings no encoders)" in capsys.readouterr().out
