"""Every fault a submission can have, each planted into a good one and found; nothing of it is ever run."""

import hashlib
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from toy_track import METHOD, WISH, make_track, reseal, run_cells, use

from generators import strict_json
from suppression_bench import cli
from suppression_bench.leaderboard import check as checking
from suppression_bench.leaderboard import code, levels, pack, submission, tracks
from suppression_bench.results import predictions

CELL = "bits=2-seed=1"


@pytest.fixture(scope="module")
def good(randbit, tmp_path_factory):
    """A submission in order, the folder of tracks beside it."""
    place = tmp_path_factory.mktemp("check")
    (place / "mine.py").write_text(METHOD)
    places = run_cells(str(place / "mine.py"), randbit, place / "runs")
    make_track(place / "tracks", randbit)
    with pytest.MonkeyPatch.context() as patch:
        use(patch, place / "tracks")
        made = pack.write(
            places, pack.Wish(**{**vars(WISH), "files": {"method": str(place / "mine.py")}}), place / "all"
        )
    tracks.read.cache_clear()
    return made


@pytest.fixture
def toy(good, monkeypatch):
    use(monkeypatch, good.parents[1] / "tracks")
    yield
    monkeypatch.undo()
    tracks.read.cache_clear()


@pytest.fixture
def copy(good, toy, tmp_path):
    """A copy of the good submission, alone in its folder."""
    return shutil.copytree(good, tmp_path / "submissions" / good.name)


def faults(folder):
    return checking.check(folder, folder.parent).faults


def edit(folder, cell=CELL, keep_id=False, **parts):
    """A record edited as a forger would: id, list of files and predictions' id made to fit again."""
    path = folder / "records" / f"{cell}.json"
    record = json.loads(path.read_text())
    for key, change in parts.items():
        change(record[key])
    if not keep_id:
        record["id"] = hashlib.sha256(strict_json.dumps(record["spec"]).encode()).hexdigest()
        kept = folder / "predictions" / f"{cell}.safetensors"
        _, rows = predictions.read(kept)
        predictions.write(folder / "predictions", record["id"], rows)
        (folder / "predictions" / predictions.NAME).rename(kept)
    path.write_text(json.dumps(record))
    reseal(folder)


def form(folder, **changes):
    reseal(folder, **changes)


def one(found, words):
    """The fault with these words is there."""
    assert any(words in fault for fault in found), found


def test_the_good_one_is_in_order(copy):
    report = checking.check(copy, copy.parent)
    assert report.faults == [] and report.level == levels.RESCORED


# Files


def link(folder):
    (folder / "recipe.yaml").unlink()
    (folder / "recipe.yaml").symlink_to("/etc/passwd")


def link_to_folder(folder):
    shutil.rmtree(folder / "predictions")
    (folder / "predictions").symlink_to("/etc")


@pytest.mark.parametrize(
    "plant, words",
    [
        (link, "'recipe.yaml' is a link"),
        (link_to_folder, "'predictions' is a link"),
        (lambda folder: (folder / "payload.pkl").write_bytes(b"\x80\x04."), "'payload.pkl' is no file of a submission"),
        (lambda folder: (folder / "setup.py").write_text(""), "'setup.py' is no file of a submission"),
        (lambda folder: (folder / ".github").mkdir(), "'.github' is no plain file"),
        (lambda folder: (folder / "records" / "x.json").write_text("{}"), "'records/x.json' is no file"),
        (lambda folder: (folder / "records" / "Bits=2-seed=1.json").write_text("{}"), "is no file of a submission"),
        (lambda folder: (folder / "predictions" / "bits=2-seed=9.npy").write_text(""), "is no file of a submission"),
        (lambda folder: (folder / "records" / "bits=2-seed=9.json").mkdir(), "is no plain file"),
        (lambda folder: os.mkfifo(folder / "loss.py"), "'loss.py' is no plain file"),
        (lambda folder: (folder / "method.py").write_text("#" * 200_000), "method.py has 200000 bytes, at most"),
        (lambda folder: (folder / "recipe.yaml").unlink(), "recipe.yaml is missing"),
        (lambda folder: (folder / "submission.json").unlink(), "submission.json is missing"),
        (lambda folder: (folder / "recipe.yaml").write_text("a: 1"), "recipe.yaml is not the file that submission.json"),
        (lambda folder: (folder / "records" / f"{CELL}.json").unlink(), f"records/{CELL}.json' is listed in submission"),
        (lambda folder: (folder / "loss.py").write_text(""), "loss.py is not listed in submission.json"),
    ],
)  # fmt: skip
def test_strange_files_are_refused(copy, plant, words):
    plant(copy)
    one(faults(copy), words)


def test_a_folder_that_is_a_link_is_refused(copy):
    (copy.parent / "other").symlink_to(copy)
    assert faults(copy.parent / "other") == ["it is no folder"]


@pytest.mark.parametrize(
    "text, words",
    [
        ("{", "not valid JSON"),
        ('{"schema": 1, "schema": 1}', "'schema' stands twice"),
        ('{"schema": NaN}', "NaN is not allowed"),
        ("[" * 10_000, "not valid JSON"),
        ("[]", "it must be an object, got list"),
        ("\xff", "not valid JSON"),
    ],
)
def test_a_form_that_is_no_strict_json_is_refused(copy, text, words):
    (copy / "submission.json").write_text(text, encoding="latin-1")
    one(faults(copy), words)


# Texts


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"extra": 1}, "unknown key 'extra'"),
        ({"label_use": "no"}, "label_use has the wrong type str"),
        ({"name": "x"}, "name has 1 characters, from 2 to 60"),
        ({"name": "x" * 61}, "name has 61 characters"),
        ({"name": "a\x00b"}, "U+0000, which cannot be seen"),
        ({"name": "a‮b"}, "U+202E, which cannot be seen"),
        ({"name": "a\u200bb"}, "U+200B, which cannot be seen"),
        ({"name": " padded"}, "blanks at its ends"),
        ({"name": "cafe\u0301"}, "Unicode's form NFC"),
        ({"name": "SimСLR"}, "mixes alphabets"),
        ({"name": "\u13f4YOL"}, "mixes alphabets"),  # a Cherokee B
        ({"name": "\ua4d0YOL"}, "mixes alphabets"),  # a Lisu B
        ({"name": "BYOL\u3164"}, "U+3164, which cannot be seen"),
        ({"name": "BYOL\u2800"}, "U+2800, which cannot be seen"),
        ({"name": "BY\u034fOL"}, "U+034F, which cannot be seen"),
        ({"name": "BYOL\ufe0f"}, "U+FE0F, which cannot be seen"),
        ({"name": "BYOL\u3000Net"}, "U+3000, which cannot be seen"),
        ({"name": "!!"}, "has no letter or digit"),
        ({"contact": "c" * 201}, "contact has 201 characters"),
        ({"url": "http://example.org"}, "must begin with https://"),
        ({"url": "javascript:alert(1)"}, "must begin with https://"),
        ({"url": "https://user:secret@example.org"}, "holds a user's name"),
        ({"url": "https://exämple.org"}, "visible ASCII"),
        ({"url": 'https://example.org/"><script>'}, "must be written as %XX"),
        ({"url": "https://localhost"}, "names no host"),
        ({"url": "https://example.org:99999"}, "is no link"),
        ({"url": "https://" + "a" * 300}, "url has 308 characters"),
        ({"slug": "Other"}, "small letters, digits and single hyphens"),
        ({"slug": "other"}, "is not the folder's name"),
        ({"slug": "../../etc"}, "small letters"),
        ({"supersedes": "../x"}, "supersedes '../x': small letters"),
        ({"supersedes": "nobody"}, "supersedes 'nobody', which is no entry here"),
        ({"track": "toi"}, "unknown track 'toi': did you mean 'toy'"),
        ({"track": "../../x"}, "unknown track"),
        ({"track": "quick"}, "train.batch_size is 40, the track locks it at 256"),
    ],
)
def test_texts_that_are_not_in_order_are_refused(copy, changes, words):
    form(copy, **changes)
    one(faults(copy), words)


@pytest.mark.parametrize("name", ["L² Net", "β-VAE", "Café", "手法", "Метод", "ViT-Ｂ/16"])
def test_names_of_any_one_alphabet_are_in_order(copy, name):
    form(copy, name=name)
    assert faults(copy) == []


def test_folders_that_are_not_there_are_no_pass(copy, capsys):
    nowhere = str(copy / "nowhere")
    assert cli.main(["leaderboard", "check", "--root", nowhere]) == 2
    assert cli.main(["leaderboard", "check", "--root", str(copy.parent), "--accepted", nowhere]) == 2
    found = capsys.readouterr().err
    assert f"--root {nowhere}: no such folder" in found and f"--accepted {nowhere}: no such folder" in found


def test_markup_is_text_and_no_fault(copy):
    form(copy, name="<script>alert(1)</script>", contact="<img src=x onerror=alert(1)>")
    assert faults(copy) == []  # the page escapes it


# Records


def put(**values):
    return lambda part: part.update(values)


def forge(record_probes):
    """One more right answer, everything inside the record made to fit."""
    probe = record_probes[-1]
    row = next(row for row in probe["confusion"] if sum(row) > max(row))
    place = probe["confusion"].index(row)
    other = next(i for i, count in enumerate(row) if count and i != place)
    row[other] -= 1
    row[place] += 1


def other_counts(probes):
    rows = probes[0]["confusion"]
    rows[0][0] += 1
    probes[0]["n"] += 1
    probes[0]["majority"] = max(map(sum, rows)) / probes[0]["n"]


@pytest.mark.parametrize(
    "parts, words",
    [
        (dict(run=put(status="diverged")), "its status is diverged"),
        (dict(run=put(extra=1)), "run has the unknown key 'extra'"),
        (dict(spec=put(extra=1)), "spec has the unknown key 'extra'"),
        (dict(spec=put(strength={"key": "bits", "value": 0})), "its record is of bits=0-seed=1"),
        (dict(spec=lambda spec: spec["data"].update(digest="0" * 64)), "its data 000000000000 are not the track's"),
        (dict(spec=lambda spec: spec["train"].update(steps=3)), "train.steps is 3, the track locks it at 2"),
        (dict(spec=lambda spec: spec["train"].update(learning_rate=1)), "train.learning_rate is 1, in bits=0-seed=0"),
        (dict(spec=lambda spec: spec["method"]["options"].update(width=17)), "method.width is 17, in bits=0-seed=0 16"),
        (dict(spec=lambda spec: spec["method"].update(file="0" * 64)), "were run with another one than the form names"),
        (dict(spec=put(loss={"name": "nt-xent", "options": {}})), "loss: the records were run with another one"),
        (dict(code=put(method="0" * 64)), "the digest of its file is not the one in the records"),
        (dict(code=put(sources=1)), "sources has the wrong type int"),
        (dict(environment=put(device="x\x1b[2J")), "U+001B, which cannot be seen"),
        (dict(environment=put(device="x" * 501)), "has 501 characters"),
        (dict(probes=lambda probes: probes.pop()), "the probe lbfgs encoder digit is missing"),
        (dict(probes=lambda probes: probes.append({**probes[0], "feature": "luck"})), "'lbfgs encoder luck' is none of"),
        (dict(probes=lambda probes: probes.append(probes[0])), "stands twice"),
        (dict(probes=lambda probes: probes[0].update(n=101)), "does not add up to n"),
        (dict(probes=lambda probes: probes[0].update(confusion=[[1.5]])), "no square of counts"),
        (dict(probes=lambda probes: probes[0].update(splits=["pretrain", "pretrain"])), "is not probed on"),
        (dict(probes=lambda probes: probes[0].update(chance=0.2)), "chance is not 1 /"),
        (dict(probes=forge), "its predictions give another confusion matrix than its record has"),
        (dict(probes=other_counts), "has other class counts than in other cells"),
        (dict(probes=other_counts), "give another confusion matrix"),
        (dict(probes=lambda probes: probes[0].update(chance=10**400)), "not a valid record"),
    ],
)  # fmt: skip
def test_forged_and_inconsistent_records_are_refused(copy, parts, words):
    edit(copy, **parts)
    one(faults(copy), words)


def test_an_id_that_is_not_the_hash_of_the_spec_is_refused(copy):
    edit(copy, keep_id=True, spec=put(recipe="other"))
    one(faults(copy), "id is not the hash of spec")


@pytest.mark.parametrize("text", ["{}", "null", '{"a": Infinity}', "[" * 9999, '{"a":' * 9999])
def test_a_record_that_is_none_is_refused(copy, text):
    (copy / "records" / f"{CELL}.json").write_text(text)
    reseal(copy)
    one(faults(copy), f"records/{CELL}.json: not")


def test_a_recipe_that_says_something_else_is_refused(copy):
    (copy / "recipe.yaml").write_text("method: {name: better}\n")
    reseal(copy)
    one(faults(copy), "recipe.yaml does not say what the records say")


# Seeds


def move(folder, old, new):
    for part, ending in (("records", "json"), ("predictions", "safetensors")):
        (folder / part / f"{old}.{ending}").rename(folder / part / f"{new}.{ending}")


def drop(folder, cell):
    (folder / "records" / f"{cell}.json").unlink()
    (folder / "predictions" / f"{cell}.safetensors").unlink()


def gap(folder):
    for bits in (0, 2):
        move(folder, f"bits={bits}-seed=1", f"bits={bits}-seed=7")
        edit(folder, f"bits={bits}-seed=7", spec=put(seed=7))


def repeated(folder):
    for part, ending in (("records", "json"), ("predictions", "safetensors")):
        shutil.copy(folder / part / f"{CELL}.{ending}", folder / part / f"bits=2-seed=2.{ending}")


def copied_seed(folder):
    # Seed 0's numbers under the name of seed 1.
    for part, ending in (("records", "json"), ("predictions", "safetensors")):
        shutil.copy(folder / part / f"bits=2-seed=0.{ending}", folder / part / f"{CELL}.{ending}")
    edit(folder, spec=put(seed=1))


@pytest.mark.parametrize(
    "plant, words",
    [
        (lambda folder: drop(folder, CELL), "bits=2: seed 1 is missing, other strengths have it"),
        (lambda folder: (drop(folder, CELL), drop(folder, "bits=0-seed=1")), "it has 1 seeds, the track toy asks for"),
        (lambda folder: (drop(folder, CELL), drop(folder, "bits=2-seed=0")), "bits=2: no cell"),
        (gap, "its seeds are 0, 7; they must be 0, 1, 2"),
        (repeated, "bits=2: seed 1 stands twice"),
        (repeated, "bits=2-seed=2: its record is of bits=2-seed=1"),
        (copied_seed, "strength 2: seed 1 has the very confusion matrices of seed 0"),
        (lambda folder: [drop(folder, f"bits={b}-seed={s}") for b in (0, 2) for s in (0, 1)], "it has no record"),
    ],
)
def test_missing_repeated_and_chosen_seeds_are_refused(copy, plant, words):
    plant(copy)
    reseal(copy)
    one(faults(copy), words)


# Predictions


def rewrite(folder, change, identity=None, cell=CELL):
    path = folder / "predictions" / f"{cell}.safetensors"
    own, rows = predictions.read(path)
    change(rows)
    predictions.write(folder / "predictions", own if identity is None else identity, rows)
    (folder / "predictions" / predictions.NAME).rename(path)


PLACE = ("lbfgs", "encoder", "digit")


@pytest.mark.parametrize(
    "plant, words",
    [
        (
            lambda folder: rewrite(folder, lambda rows: rows.update({PLACE: (rows[PLACE] + 1) % 10})),
            "another confusion",
        ),
        (lambda folder: rewrite(folder, lambda rows: rows.update({PLACE: rows[PLACE][:50]})), "50 predictions for 100"),
        (lambda folder: rewrite(folder, lambda rows: rows.update({PLACE: np.full(100, 11)})), "a class beyond the 10"),
        (lambda folder: rewrite(folder, lambda rows: rows.pop(PLACE)), "lbfgs encoder digit: no predictions"),
        (
            lambda folder: rewrite(folder, lambda rows: rows.update({("a", "b", "c"): rows[PLACE]})),
            "a b c: predictions of",
        ),
        (lambda folder: rewrite(folder, lambda rows: None, "0" * 64), "it is of another cell"),
        (lambda folder: (folder / "predictions" / f"{CELL}.safetensors").unlink(), "all cells have one, or none has"),
        (
            lambda folder: (folder / "predictions" / f"{CELL}.safetensors").write_bytes(b"\x80\x04."),
            "no safetensors file",
        ),
        (
            lambda folder: (folder / "predictions" / f"{CELL}.safetensors").write_bytes(b"\xff" * 8),
            "no safetensors file",
        ),
    ],
)
def test_predictions_that_do_not_give_the_record_are_refused(copy, plant, words):
    plant(copy)
    reseal(copy)
    one(faults(copy), words)


# Code


@pytest.mark.parametrize(
    "line, words",
    [
        ("import os", "imports os"),
        ("import subprocess, math", "imports subprocess"),
        ("from pathlib import Path", "imports Path from pathlib"),
        ("import torch.hub", "imports torch.hub"),
        ("from torch import hub", "imports hub from torch"),
        ("from torch import *", "imports * from torch"),
        ("from . import other", "imports relatively"),
        ("from suppression_bench.training.data import Data", "imports Data from suppression_bench.training.data"),
        ("from suppression_bench import cell", "imports cell from suppression_bench"),
        ("import generators", "imports generators"),
        ("exec('1')", "uses exec"),
        ("x = eval", "uses eval"),
        ("open('labels')", "uses open"),
        ("__import__('os')", "uses __import__"),
        ("getattr(torch, 'lo' + 'ad')", "uses getattr"),
        ("globals()", "uses globals"),
        ("__builtins__", "uses __builtins__"),
        ("torch.load('x')", "uses the attribute load"),
        ("torch.hub", "uses the attribute hub"),
        ("torch.utils.cpp_extension", "uses the attribute utils"),
        ("().__class__.__bases__", "uses the attribute __class__"),
        ("torch._C", "uses the private attribute _C"),
        ("import numpy as np; np.fromfile('x')", "uses the attribute fromfile"),
        ("def broken(:", "is no Python"),
        ("x = '\u202e'", "U+202E, which cannot be seen"),
        ("x = " + "(" * 5000, "is no Python"),
        ("match torch:\n    case object(sys=found):\n        pass", "uses a class pattern"),
        ("self = torch\nself.sys", "uses the attribute sys"),
        ("self = torch\nself._C", "uses the attribute _C"),
        ("(x for x in [1]).gi_frame.f_builtins", "uses the attribute f_builtins"),
        ("import typing\ntyping.operator", "uses the attribute operator"),
        ("from typing import get_type_hints", "imports get_type_hints from typing"),
        ("torch.fx", "uses the attribute fx"),
        (
            "import suppression_bench.method\nsuppression_bench.cli",
            "imports suppression_bench.method by its whole name",
        ),
        ("x = torch" + ".nn" * 700 + ".utils", "uses the attribute utils"),
    ],
)
def test_code_that_has_no_place_in_a_method_is_refused(copy, line, words):
    (copy / "method.py").write_text(METHOD + line + "\n")
    reseal(copy)
    found = faults(copy)
    one(found, words)
    one(found, "method.py is missing or not the file that the form names")


@pytest.mark.parametrize("encoding", ["utf-7", "unicode_escape", "latin-1", "nonsense"])
def test_code_that_python_would_read_otherwise_is_refused(encoding):
    # In UTF-7 the second line is `x = 1`, a new line, and `import os`.
    text = f"# coding: {encoding}\nx = 1  # +AAo-import os\n"
    assert code.faults(text, "method.py") == [
        "method.py: names another encoding than utf-8, in which Python would read other code than stands there"
    ]
    assert code.faults(text.replace(encoding, "utf-8"), "method.py") == []


def test_nothing_of_a_submission_is_executed(copy, tmp_path):
    (copy / "method.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    (copy / "loss.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    reseal(copy)
    assert faults(copy) and not (tmp_path / "ran").exists()


def test_a_file_that_is_no_text_is_refused(copy):
    (copy / "method.py").write_bytes(b"\xff\xfe")
    reseal(copy)
    one(faults(copy), "method.py: is no UTF-8 text")


def renamed(folder, name):
    for path in sorted((folder / "records").iterdir()):
        edit(folder, path.stem, spec=lambda spec: spec["method"].update(name=name))
    form(folder, method={**json.loads((folder / "submission.json").read_text())["method"], "name": name})


@pytest.mark.parametrize(
    "name, words", [("simclr", "is called like one of the package's"), ("a/b", "a file's name is")]
)
def test_a_method_of_ones_own_has_a_name_of_its_own(copy, name, words):
    renamed(copy, name)
    one(faults(copy), words)


def test_a_method_without_its_file_is_refused(copy):
    (copy / "method.py").unlink()
    reseal(copy)
    one(faults(copy), "method.py is missing or not the file")
    form(copy, method={"name": "mine", "file": None, "sha256": "0" * 64})
    one(faults(copy), "is none of the package's, and no file of its own is there")


def test_reading_labels_must_be_said(copy):
    text = METHOD + "\nMine.needs_labels = True\n"
    (copy / "method.py").write_text(text)
    digest = hashlib.sha256(text.encode()).hexdigest()
    for path in sorted((copy / "records").iterdir()):
        edit(copy, path.stem, spec=lambda spec: spec["method"].update(file=digest), code=put(method=digest))
    said = {"name": "mine", "file": "method.py", "sha256": digest}
    from suppression_bench.leaderboard import cells

    own = [json.loads(path.read_text()) for path in sorted((copy / "records").iterdir())]
    (copy / "recipe.yaml").write_text(cells.recipe_text(own))
    form(copy, method=said)
    assert faults(copy) == ["label_use is false, but its method or loss reads labels"]
    form(copy, method=said, label_use=True)
    assert faults(copy) == []


# Others


def beside(folder, slug, **changes):
    """A copy of an entry under another slug."""
    made = shutil.copytree(folder, folder.parent / slug)
    form(made, slug=slug, **changes)
    return made


def test_copies_and_look_alikes_are_refused(copy):
    other = beside(copy, "their-method", name="Their Method")
    one(faults(other), "4 of its cells are cells of the entry my-method-toy")
    for path in sorted((other / "records").iterdir()):
        edit(other, path.stem, spec=put(recipe="renamed"))  # other ids, the same numbers
    one(faults(other), "4 of its cells have the very confusion matrices of the entry my-method-toy")
    form(other, name="Му-Меthоd")  # Cyrillic
    one(faults(other), "looks like the entry my-method-toy's, 'My Method'")
    form(other, name="my  method")
    one(faults(other), "looks like the entry my-method-toy's, 'My Method'")
    one(faults(beside(copy, "mymeth0d-toy", name="Another")), "slug mymeth0d-toy looks like the entry my-method-toy's")


def test_an_entry_may_supersede_another_once(copy):
    second = beside(copy, "my-method-toy-2", supersedes=copy.name)
    assert faults(second) == [] and faults(copy) == []
    last = beside(copy, "my-method-toy-4", supersedes=second.name)
    assert faults(last) == [] and faults(copy) == []  # a chain is one entry
    shutil.rmtree(last)
    third = beside(copy, "my-method-toy-3", supersedes=copy.name)
    one(faults(third), "which my-method-toy-2 has superseded already")
    form(copy, track="quick")
    one(faults(second), "which is on the track quick")


def test_an_accepted_entry_never_changes(copy, tmp_path):
    accepted = shutil.copytree(copy.parent, tmp_path / "accepted")
    assert checking.check(copy, accepted).faults == []
    form(copy, contact="somebody else")
    one(checking.check(copy, accepted).faults, "entries never change")


@pytest.mark.parametrize(
    "files, words",
    [
        (["leaderboard/submissions/my-method-toy/recipe.yaml", "setup.py"], "changes 'setup.py'"),
        (["leaderboard/submissions/my-method-toy/../../x"], "only adds files of its own folder"),
        (["leaderboard/submissions/a/recipe.yaml", "leaderboard/submissions/b/recipe.yaml"], "2 submissions (a, b)"),
        (["leaderboard/reruns/my-method-toy.json"], "changes 'leaderboard/reruns/my-method-toy.json'"),
        ([".github/workflows/leaderboard.yml"], "changes '.github/workflows"),
        (["leaderboard/submissions/README.md"], "only adds files of its own folder"),
    ],
)
def test_a_pull_request_touches_its_own_folder_only(copy, capsys, files, words):
    assert cli.main(["leaderboard", "check", "--root", str(copy.parent), "--changed", *files]) == 2
    assert words in capsys.readouterr().err


def test_the_changed_folder_is_what_is_checked(copy, capsys, tmp_path):
    (beside(copy, "broken", name="x") / "submission.json").write_text("{")
    (tmp_path / "list").write_bytes(b"leaderboard/submissions/my-method-toy/recipe.yaml\0")
    given = ["leaderboard", "check", "--root", str(copy.parent), "--changed-list", str(tmp_path / "list")]
    assert cli.main(given) == 0
    assert "my-method-toy: in order" in capsys.readouterr().out
    (tmp_path / "list").write_bytes(b"")
    assert cli.main(given) == 2
    assert cli.main(["leaderboard", "check", "--root", str(copy.parent)]) == 2
    assert cli.main(["leaderboard", "check", "--root", str(copy.parent), "nobody"]) == 2
    assert "nobody: no such submission" in capsys.readouterr().err
    assert cli.main(["leaderboard", "chek"]) == 2
    assert cli.main(["leaderboard"]) == 0


def test_all_faults_come_at_once(copy, capsys):
    edit(copy, spec=lambda spec: spec["train"].update(steps=3), run=put(status="diverged"))
    drop(copy, "bits=0-seed=1")
    (copy / "method.py").write_text("import os\n")
    form(copy, name="x", url="http://x")
    assert cli.main(["leaderboard", "check", str(copy)]) == 2
    said = capsys.readouterr().err
    for words in (
        "train.steps",
        "status is diverged",
        "seed 1 is missing",
        "imports os",
        "name has 1",
        "must begin with https",
    ):
        assert words in said
    assert all(line.startswith("bench: error: 'my-method-toy': ") for line in said.strip().split("\n"))


def test_a_fault_cannot_flood_the_terminal(copy):
    edit(copy, spec=lambda spec: spec["train"].update({f"x{i}": "y" * 400 for i in range(100)}))
    found = faults(copy)
    assert len(found) == 41 and found[-1].startswith("and ") and max(map(len, found)) < 420


SUBMISSIONS = Path(__file__).parents[2] / "leaderboard" / "submissions"


def test_the_repositorys_own_entries_are_in_order():
    """Every committed entry passes the check, and every noted level of embedded data is the one it reaches."""
    found = submission.load_all(SUBMISSIONS)
    assert {path.stem for path in (SUBMISSIONS.parent / "checks").glob("*.json")} <= {one.slug for one in found}
    for one in found:
        report = checking.check(one.folder, SUBMISSIONS)
        assert report.faults == [], one.slug
        noted = levels.read_check(SUBMISSIONS, one.slug)
        if noted and tracks.read(one.track).data.get("digit_source") == "optdigits":
            assert noted["submission"] == one.digest and min(noted["level"], levels.RESCORED) == report.level


# Whatever JSON stands in a record, the answer is a sentence.

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def paths(value, above=()):
    yield above
    if isinstance(value, (dict, list)):
        for key in value if isinstance(value, dict) else range(min(len(value), 2)):
            yield from paths(value[key], (*above, key))


def number(path, value):
    """A record's number set to another one."""
    *above, last = path.split(".")

    def change(part):
        for key in above:
            part = part[int(key) if isinstance(part, list) else key]
        part[last] = value

    return change


@pytest.mark.parametrize(
    "part, path, value, words",
    [
        ("run", "seconds", 10**400, "holds a whole number beyond 9223372036854775807"),
        ("run", "loss", -(10**400), "holds a whole number beyond 9223372036854775807"),
        ("probes", "0.absent", [[10**400]], "holds a whole number beyond 9223372036854775807"),
        ("run", "seconds", -5, "run.seconds -5 is negative"),
        ("run", "resumes", -1, "run.resumes -1 is negative"),
        ("environment", "threads", -1, "environment.threads -1 is negative"),
        ("probes", "0.chance", 10**400, "not a valid record"),
        ("spec", "strength.value", 2.0, "its record is of bits=2.0-seed=1"),
    ],
)
def test_numbers_that_no_run_gives_are_refused(copy, part, path, value, words):
    edit(copy, **{part: number(path, value)})
    one(faults(copy), words)


@pytest.mark.parametrize("depth", [30, 400, 900])
def test_settings_nested_deep_in_all_cells_are_refused(copy, depth):
    value = 1
    for _ in range(depth):
        value = [value]
    for path in sorted((copy / "records").iterdir()):
        edit(copy, path.stem, spec=lambda spec: spec["method"]["options"].update(width=value))
    one(faults(copy), "nested more than 20 deep")


def test_a_fault_shows_foreign_text_as_what_it_is(copy):
    kept = copy / "predictions" / f"{CELL}.safetensors"
    identity, rows = predictions.read(kept)
    rows["lbfgs", "\x1b[31m\n::error::", "\u202e"] = rows["lbfgs", "encoder", "digit"]
    predictions.write(copy / "predictions", identity, rows)
    (copy / "predictions" / predictions.NAME).rename(kept)
    reseal(copy)
    found = faults(copy)
    one(found, "lbfgs \\x1b[31m\\n::error:: \\u202e: predictions of a probe that the record does not have")
    assert all(fault.isprintable() for fault in found)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_record_brings_the_check_down(copy, good, data):
    record = json.loads((good / "records" / f"{CELL}.json").read_text())
    place = data.draw(st.sampled_from([path for path in paths(record) if path and path[0] not in ("id",)]))
    inner = record
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = data.draw(JSON)
    if isinstance(record["spec"], dict):
        record["id"] = hashlib.sha256(
            json.dumps(record["spec"], sort_keys=True, separators=(",", ":")).encode()
        ).hexdigest()
    (copy / "records" / f"{CELL}.json").write_text(json.dumps(record))
    reseal(copy)
    assert isinstance(faults(copy), list)
