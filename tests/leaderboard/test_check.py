"""Every fault a submission can have, each planted into a good one and named; nothing of it is ever run."""

import copy as copies
import hashlib
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from toy_track import METHOD, edit

from suppression_bench import cli
from suppression_bench.leaderboard import check as checking
from suppression_bench.leaderboard import entry as entries
from suppression_bench.leaderboard import submission, tracks

CELL = "bits=2-seed=1"


def faults(folder):
    return checking.check(folder, folder.parent).faults


def cell(content, name=CELL):
    bits, seed = (int(part.partition("=")[2]) for part in name.split("-"))
    return next(cell for cell in content["cells"] if (cell["strength"], cell["seed"]) == (bits, seed))


def has_fault(sentences, words):
    assert any(words in sentence for sentence in sentences), sentences


def test_the_good_one_is_in_order(copy):
    report = checking.check(copy, copy.parent)
    assert report.faults == [] and report.level == entries.RESCORED


# Files


def link(folder):
    (folder / "method.py").unlink()
    (folder / "method.py").symlink_to("/etc/passwd")


def link_to_folder(folder):
    (folder / "encoders").symlink_to("/etc")


@pytest.mark.parametrize(
    "plant, words",
    [
        (link, "'method.py' is a link"),
        (link_to_folder, "'encoders' is a link"),
        (lambda folder: (folder / "payload.pkl").write_bytes(b"\x80\x04."), "'payload.pkl' is no file of a submission"),
        (lambda folder: (folder / "setup.py").write_text(""), "'setup.py' is no file of a submission"),
        (lambda folder: (folder / ".github").mkdir(), "'.github' is no plain file"),
        (
            lambda folder: [(folder / "encoders").mkdir(), (folder / "encoders/x.safetensors").touch()],
            "encoders/x.safet",
        ),
        (
            lambda folder: [(folder / "encoders").mkdir(), (folder / f"encoders/{CELL}.pt").touch()],
            f"encoders/{CELL}.pt",
        ),
        (lambda folder: (folder / "encoders" / f"{CELL}.safetensors").mkdir(parents=True), "is no plain file"),
        (lambda folder: os.mkfifo(folder / "loss.py"), "'loss.py' is no plain file"),
        (lambda folder: (folder / "method.py").write_text("#" * 200_000), "method.py has 200000 bytes, at most"),
        (lambda folder: (folder / "entry.json").unlink(), "entry.json is missing"),
        (lambda folder: (folder / "method.py").write_text("a = 1"), "method.py is not the file that entry.json lists"),
        (lambda folder: (folder / "predictions.safetensors").unlink(), "'predictions.safetensors' is listed"),
        (lambda folder: (folder / "loss.py").write_text(""), "loss.py is not listed in entry.json"),
    ],
)
def test_strange_files_are_refused(copy, plant, words):
    plant(copy)
    has_fault(faults(copy), words)


def test_an_oversized_entry_is_not_read(copy, monkeypatch):
    monkeypatch.setitem(checking.LARGEST, "entry.json", 1000)
    has_fault(faults(copy), "entry.json has")


def test_a_folder_that_is_a_link_is_refused(copy):
    (copy.parent / "other").symlink_to(copy)
    assert faults(copy.parent / "other") == ["it is no folder"]


def test_an_entry_that_is_no_strict_json_is_refused(copy):
    (copy / "entry.json").write_text('{"schema": 2, "schema": 2}')
    has_fault(faults(copy), "'schema' stands twice")


# Texts


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"name": "x"}, "name"),
        ({"name": "x" * 61}, "name"),
        ({"name": "a\x00b"}, "'a\\x00b'"),
        ({"name": "a‮b"}, "'a\\u202eb'"),
        ({"name": "a\u200bb"}, "'a\\u200bb'"),
        ({"name": " padded"}, "name"),
        ({"name": "two  blanks"}, "name"),
        ({"name": "line\n"}, "name"),
        ({"name": "cafe\u0301"}, "name"),
        ({"name": "SimСLR"}, "'Sim\\u0421LR'"),  # a Cyrillic C
        ({"name": "\u13f4YOL"}, "name"),  # a Cherokee B
        ({"name": "BYOL\u3164"}, "name"),  # a filler
        ({"name": "BYOL\u3000Net"}, "name"),
        ({"name": "!!"}, "name"),
        ({"contact": "c" * 201}, "contact"),
        ({"contact": "手法"}, "contact"),
        ({"url": "http://example.org"}, "url"),
        ({"slug": "Other"}, "slug 'Other'"),
        ({"slug": "other"}, "is not the folder's name"),
        ({"slug": "../../etc"}, "slug '../../etc'"),
        ({"supersedes": "../x"}, "supersedes '../x'"),
        ({"supersedes": "nobody"}, "supersedes 'nobody'"),
        ({"track": "toi"}, "unknown track 'toi': did you mean 'toy'"),
        ({"track": "../../x"}, "unknown track"),
        ({"track": "quick"}, "train.batch_size is 40, the track locks it at 256"),
    ],
)
def test_texts_that_are_not_in_order_are_refused(copy, changes, words):
    edit(copy, **changes)
    has_fault(faults(copy), words)


@pytest.mark.parametrize("name", ["Café-Net", "Ångström (2)", "Łukasz & Müller", "T = 0.1, <b>"])
def test_names_of_latin_letters_are_in_order(copy, name):
    edit(copy, name=name)
    assert faults(copy) == []


def test_folders_that_are_not_there_are_no_pass(copy, capsys):
    nowhere = str(copy / "nowhere")
    assert cli.main(["leaderboard", "check", "--root", nowhere]) == 2
    assert cli.main(["leaderboard", "check", "--root", str(copy.parent), "--accepted", nowhere]) == 2
    refusal = capsys.readouterr().err
    assert f"--root {nowhere}" in refusal and f"--accepted {nowhere}" in refusal


def test_markup_is_text_and_no_fault(copy):
    edit(copy, name="<script>alert(1)</script>", contact="<img src=x onerror=alert(1)>")
    assert faults(copy) == []  # the page escapes it


# Settings and cells


def forge(probes):
    """One more right answer, everything inside the cell made to fit."""
    probe = probes[-1]
    row = next(row for row in probe["confusion"] if sum(row) > max(row))
    position = probe["confusion"].index(row)
    wrong = next(column for column, count in enumerate(row) if count and column != position)
    row[wrong] -= 1
    row[position] += 1


def hidden_seed(dataset):
    # An option of that name may not hide what the harness used.
    dataset["seed"] = 1
    dataset["options"]["seed"] = 0


def other_counts(probes):
    rows = probes[0]["confusion"]
    rows[0][0] += 1
    probes[0]["n"] += 1
    probes[0]["majority"] = max(map(sum, rows)) / probes[0]["n"]


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda entry: cell(entry)["run"].update(status="diverged"), f"{CELL}: its status is diverged"),
        (lambda entry: cell(entry).update(strength=3), "bits 3 is not in the track's grid"),
        (lambda entry: cell(entry).update(strength="2"), "bits '2' is not in the track's grid"),
        (lambda entry: cell(entry).update(data="0" * 64), "its data 000000000000 are not the track's"),
        (lambda entry: entry["setting"]["train"].update(steps=3), "train.steps is 3, the track locks it at 2"),
        (lambda entry: hidden_seed(entry["setting"]["dataset"]), "data.seed is 1"),
        (lambda entry: entry["setting"]["dataset"].update(file="0" * 64), "data.file"),
        (
            lambda entry: entry["setting"]["method"].update(file="0" * 64),
            "missing or not the file that the setting names",
        ),
        (
            lambda entry: entry["setting"].update(loss={"name": "nope", "options": {}}),
            "loss 'nope' is none of the package's",
        ),
        (lambda entry: entry["code"][0].update(method="0" * 64), "the digest of its file"),
        (lambda entry: cell(entry)["probes"].pop(), f"{CELL}: the probe lbfgs encoder digit is missing"),
        (
            lambda entry: cell(entry)["probes"].append({**cell(entry)["probes"][0], "feature": "luck"}),
            "'lbfgs encoder luck' is none of",
        ),
        (lambda entry: cell(entry)["probes"].append(cell(entry)["probes"][0]), "stands twice"),
        (lambda entry: cell(entry)["probes"][0].update(splits=["pretrain", "pretrain"]), "is not probed on"),
        (lambda entry: forge(cell(entry)["probes"]), "its predictions give another confusion matrix"),
        (lambda entry: other_counts(cell(entry)["probes"]), "has other class counts than in other cells"),
        (lambda entry: other_counts(cell(entry)["probes"]), "give another confusion matrix"),
    ],
)
def test_forged_and_inconsistent_cells_are_refused(copy, change, words):
    edit(copy, change)
    has_fault(faults(copy), words)


@pytest.mark.parametrize("strength", [10**18, -1, [[1]], [2, 2], "x" * 400])
def test_a_strange_strength_brings_nothing_down(copy, strength):
    edit(copy, lambda entry: cell(entry).update(strength=strength))
    assert faults(copy)


# Seeds


def drop(*names):
    return lambda entry: [entry["cells"].remove(cell(entry, name)) for name in names]


def gap(entry):
    for bits in (0, 2):
        cell(entry, f"bits={bits}-seed=1")["seed"] = 7


def copied_seed(entry):
    # Seed 0's numbers under the name of seed 1.
    cell(entry)["probes"] = copies.deepcopy(cell(entry, "bits=2-seed=0")["probes"])


@pytest.mark.parametrize(
    "change, words",
    [
        (drop(CELL), "bits=2: seed 1 is missing, other strengths have it"),
        (drop(CELL, "bits=0-seed=1"), "it has 1 seeds, the track toy asks for"),
        (drop(CELL, "bits=2-seed=0"), "bits=2: no cell"),
        (gap, "its seeds are 0, 7; they must be 0, 1, 2"),
        (lambda entry: entry["cells"].append(cell(entry)), "bits=2: seed 1 stands twice"),
        (copied_seed, "strength 2: seed 1 has the very confusion matrices of seed 0"),
        (lambda entry: entry["cells"].clear(), "it has no cell"),
    ],
)
def test_missing_repeated_and_chosen_seeds_are_refused(copy, change, words):
    edit(copy, change)
    has_fault(faults(copy), words)


# Predictions


def rewrite(folder, change):
    path = folder / entries.PREDICTIONS
    by_cell = entries.read_predictions(path)
    change(by_cell)
    submission.write_predictions(path, by_cell)


KEY = ("lbfgs", "encoder", "digit")


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda rows: rows[CELL].update({KEY: (rows[CELL][KEY] + 1) % 10}), "another confusion"),
        (lambda rows: rows[CELL].update({KEY: rows[CELL][KEY][:50]}), "50 predictions for 100"),
        (lambda rows: rows[CELL].update({KEY: np.full(100, 11, dtype=np.uint8)}), "a class beyond the 10"),
        (lambda rows: rows[CELL].pop(KEY), f"{CELL}: lbfgs encoder digit: no predictions"),
        (lambda rows: rows[CELL].update({("a", "b", "c"): rows[CELL][KEY]}), "a b c: predictions of"),
        (lambda rows: rows[CELL].update({KEY: rows["bits=2-seed=0"][KEY]}), "another confusion"),
        (lambda rows: rows.pop(CELL), f"{CELL}: no predictions"),
        (lambda rows: rows.update({"bits=9-seed=9": rows[CELL]}), "'bits=9-seed=9' is no cell of the entry"),
        (lambda rows: rows[CELL].update({KEY: rows[CELL][KEY].astype(np.float32)}), "F32"),
        (lambda rows: rows[CELL].update({KEY: rows[CELL][KEY][None]}), "[1, 100]"),
    ],
)
def test_predictions_that_do_not_give_the_cells_are_refused(copy, change, words):
    rewrite(copy, change)
    edit(copy)
    has_fault(faults(copy), words)


@pytest.mark.parametrize("content", [b"\x80\x04.", b"\xff" * 8, b""])
def test_predictions_that_are_no_safetensors_are_refused(copy, content):
    (copy / entries.PREDICTIONS).write_bytes(content)
    edit(copy)
    has_fault(faults(copy), "no safetensors file")


# Code


def test_nothing_of_a_submission_is_executed(copy, tmp_path):
    for name in ("method.py", "loss.py"):
        (copy / name).write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    edit(copy)
    assert faults(copy) and not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "text, words",
    [
        (b"\xff\xfe", "no UTF-8"),
        (b"def broken(:", "no Python"),
        (b"x = " + b"(" * 5000, "no Python"),
        ("x = '\u202e'".encode(), "U+202E"),
        (b"x = 1\x00", "U+0000"),
        # In UTF-7 the second line is `x = 1`, a new line, and `import os`.
        (b"# coding: utf-7\nx = 1  # +AAo-import os\n", "encoding"),
        (b"# coding: nonsense\nx = 1\n", "no Python"),
    ],
)
def test_code_that_a_reviewer_cannot_read_is_refused(copy, text, words):
    (copy / "method.py").write_bytes(text)
    edit(copy)
    sentences = faults(copy)
    has_fault(sentences, words)
    has_fault(sentences, "method.py is missing or not the file that the setting names")


def replace_method(folder, text):
    """Another method file, everything made to fit."""
    (folder / "method.py").write_text(text)

    def change(entry):
        entry["setting"]["method"]["file"] = entry["code"][0]["method"] = hashlib.sha256(text.encode()).hexdigest()

    edit(folder, change)


def test_imports_are_listed_for_the_reviewer(copy):
    replace_method(copy, METHOD + "\nimport os.path, subprocess\nfrom . import other\n")
    report = checking.check(copy, copy.parent)
    [note] = [note for note in report.notes if "method.py imports" in note]
    assert report.faults == [] and "os.path" in note and "subprocess" in note and "torch.nn" in note


@pytest.mark.parametrize(
    "name, words", [("simclr", "is called like one of the package's"), ("a/b", "a file's name is")]
)
def test_a_method_of_ones_own_has_a_name_of_its_own(copy, name, words):
    edit(copy, lambda entry: entry["setting"]["method"].update(name=name))
    has_fault(faults(copy), words)


def test_a_method_without_its_file_is_refused(copy):
    (copy / "method.py").unlink()
    edit(copy)
    has_fault(faults(copy), "method.py is missing or not the file")
    edit(copy, lambda entry: entry["setting"]["method"].update(file=None, version=1))
    has_fault(faults(copy), "is none of the package's, and names no file of its own")


def test_reading_labels_must_be_declared(copy):
    replace_method(copy, METHOD + "\nMine.needs_labels = True\n")
    assert faults(copy) == ["label_use is false, but its method or loss reads labels"]
    edit(copy, label_use=True)
    assert faults(copy) == []


# Others


def beside(folder, slug, **changes):
    """A copy of an entry under another slug."""
    twin = shutil.copytree(folder, folder.parent / slug)
    edit(twin, slug=slug, **changes)
    return twin


def test_copies_and_look_alikes_are_refused(copy):
    twin = beside(copy, "their-method", name="Their Method")
    has_fault(faults(twin), "4 of its cells are cells of the entry my-method-toy")
    edit(twin, lambda entry: entry["setting"].update(recipe="renamed"))  # other settings, the same numbers
    has_fault(faults(twin), "4 of its cells have the very confusion matrices of the entry my-method-toy")
    for name in ("my  method", "My-Method", "MÝ MÉTHOD"):
        edit(twin, name=name)
        has_fault(faults(twin), "looks like the entry my-method-toy's, 'My Method'")
    has_fault(
        faults(beside(copy, "mymethod-toy", name="Another")), "slug mymethod-toy looks like the entry my-method-toy's"
    )


def test_an_entry_may_supersede_another_once(copy):
    second = beside(copy, "my-method-toy-2", supersedes=copy.name)
    assert faults(second) == [] and faults(copy) == []
    last = beside(copy, "my-method-toy-4", supersedes=second.name)
    assert faults(last) == [] and faults(copy) == []  # a chain is one entry
    shutil.rmtree(last)
    third = beside(copy, "my-method-toy-3", supersedes=copy.name)
    has_fault(faults(third), "which my-method-toy-2 supersedes already")
    edit(copy, track="quick")
    has_fault(faults(second), "an entry of the track 'quick'")


def test_an_accepted_entry_never_changes(copy, tmp_path):
    accepted = shutil.copytree(copy.parent, tmp_path / "accepted")
    assert checking.check(copy, accepted).faults == []
    edit(copy, contact="somebody else")
    has_fault(checking.check(copy, accepted).faults, "entries never change")


@pytest.mark.parametrize(
    "files, words",
    [
        (["leaderboard/entries/my-method-toy/entry.json", "setup.py"], "'setup.py'"),
        (["leaderboard/entries/my-method-toy/../../x"], "files of its own folder"),
        (["leaderboard/entries/a/entry.json", "leaderboard/entries/b/entry.json"], "2 submissions (a, b)"),
        (["leaderboard/reruns/my-method-toy.json"], "'leaderboard/reruns/my-method-toy.json'"),
        ([".github/workflows/leaderboard.yml"], "'.github/workflows"),
        (["leaderboard/entries/README.md"], "files of its own folder"),
    ],
)
def test_a_pull_request_touches_its_own_folder_only(copy, capsys, files, words):
    assert cli.main(["leaderboard", "check", "--root", str(copy.parent), "--changed", *files]) == 2
    assert words in capsys.readouterr().err


def test_the_changed_folder_is_what_is_checked(copy, capsys, tmp_path):
    (beside(copy, "broken", name="xx") / "entry.json").write_text("{")
    (tmp_path / "list").write_bytes(b"leaderboard/entries/my-method-toy/entry.json\0")
    flags = ["leaderboard", "check", "--root", str(copy.parent), "--changed-list", str(tmp_path / "list")]
    assert cli.main(flags) == 0
    assert "my-method-toy: in order" in capsys.readouterr().out
    (tmp_path / "list").write_bytes(b"")
    assert cli.main(flags) == 2
    assert cli.main(["leaderboard", "check", "--root", str(copy.parent)]) == 2
    assert cli.main(["leaderboard", "check", "--root", str(copy.parent), "nobody"]) == 2
    assert "nobody" in capsys.readouterr().err


def test_all_faults_come_at_once(copy, capsys):
    def change(entry):
        entry["setting"]["train"]["steps"] = 3
        cell(entry)["run"]["status"] = "diverged"
        drop("bits=0-seed=1")(entry)

    (copy / "method.py").write_text("import os")
    edit(copy, change, name="x", url="http://x")
    assert cli.main(["leaderboard", "check", str(copy)]) == 2
    refusal = capsys.readouterr().err
    for words in ("train.steps", "status is diverged", "seed 1 is missing", "method.py", "name 'x'", "url 'http://x'"):
        assert words in refusal
    assert all(line.startswith("bench: error: 'my-method-toy': ") for line in refusal.strip().split("\n"))


def test_a_fault_cannot_flood_the_terminal(copy):
    edit(copy, lambda entry: entry["setting"]["dataset"]["options"].update({f"x{i}": "y" * 400 for i in range(100)}))
    sentences = faults(copy)
    assert len(sentences) == 41 and sentences[-1].startswith("and ") and max(map(len, sentences)) < 420


def test_a_fault_shows_foreign_text_as_what_it_is(copy):
    rewrite(copy, lambda rows: rows[CELL].update({("lbfgs", "\x1b[31m\n::error::", "\u202e"): rows[CELL][KEY]}))
    edit(copy)
    sentences = faults(copy)
    has_fault(sentences, "\\x1b[31m\\n::error:: \\u202e")
    assert all(sentence.isprintable() for sentence in sentences)


ENTRIES = Path(__file__).parents[2] / "leaderboard" / "entries"


@pytest.mark.slow
def test_the_repositorys_own_entries_are_in_order():
    """Every committed entry passes the check, and every noted level of embedded data is the one it reaches."""
    loaded = [entries.load(folder) for folder in entries.folders(ENTRIES)]
    noted = {path.stem for path in (ENTRIES.parent / "checks").glob("*.json")}
    assert len(loaded) >= 12 and noted <= {submission.slug for submission in loaded}
    for submitted in loaded:
        report = checking.check(submitted.folder, ENTRIES)
        assert report.faults == [], submitted.slug
        if submitted.slug in noted and tracks.read(submitted.entry.track).data.get("digit_source") == "optdigits":
            assert submitted.check and min(submitted.check.level, entries.RESCORED) == report.level


# Whatever JSON stands in an entry, the answer is a sentence.

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


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_entry_brings_the_check_down(copy, toy, data):
    content = json.loads((toy / "all" / copy.name / "entry.json").read_text())
    chosen = data.draw(st.sampled_from([path for path in paths(content) if path]))
    inner = content
    for key in chosen[:-1]:
        inner = inner[key]
    inner[chosen[-1]] = data.draw(JSON)
    (copy / "entry.json").write_text(json.dumps(content))
    assert isinstance(faults(copy), list)
