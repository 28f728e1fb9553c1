"""A submission's folder is read strictly, its level comes from files beside it."""

import hashlib
import json

import pytest
from small_cells import make_record, probe_entry

from generators import strict_json
from generators.dataset import UserError
from suppression_bench.leaderboard import levels, shape, submission

ENVIRONMENT = {
    "python": "3", "torch": "2", "numpy": "2", "platform": "Linux", "device": "cpu", "cpu_capability": "AVX2", "threads": 1,
}  # fmt: skip


def whole(made):
    """A hand-made record with all that the program writes."""
    return {**made, "environment": ENVIRONMENT}


def write(root, slug="one", **changes):
    """A small folder with two records."""
    folder = root / "submissions" / slug
    (folder / "records").mkdir(parents=True)
    files = {}
    for seed in (1, 0):
        text = strict_json.dumps(whole(make_record([probe_entry(50)], seed=seed))) + "\n"
        (folder / "records" / f"bits=0-seed={seed}.json").write_text(text)
        files[f"records/bits=0-seed={seed}.json"] = {
            "bytes": len(text), "sha256": hashlib.sha256(text.encode()).hexdigest(),
        }  # fmt: skip
    form = {
        "schema": 1, "slug": slug, "name": "One", "url": "https://example.org", "contact": None, "track": "quick",
        "label_use": False, "supersedes": None, "method": {"name": "simclr", "file": None, "sha256": "a" * 64},
        "loss": None, "files": files, **changes,
    }  # fmt: skip
    (folder / "submission.json").write_text(json.dumps(form))
    return folder


def test_a_folder_is_read(tmp_path):
    folder = write(tmp_path)
    found = submission.load(folder)
    assert (found.slug, found.name, found.track, found.level, found.method_file) == ("one", "One", "quick", 0, None)
    assert [record["spec"]["seed"] for record in found.records] == [0, 1]
    assert [one.slug for one in submission.load_all(folder.parent)] == ["one"]


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"extra": 1}, "unknown key 'extra'"),
        ({"label_use": 1}, "label_use has the wrong type int"),
        ({"schema": 2}, "schema 2 is not 1"),
        ({"slug": "two"}, "must be the folder's name"),
        ({"method": {"name": "simclr"}}, "method lacks the key 'file'"),
        ({"files": {"records/x.json": {"bytes": "3", "sha256": ""}}}, "bytes has the wrong type str"),
    ],
)
def test_a_form_that_is_not_in_order_is_refused(tmp_path, changes, words):
    folder = write(tmp_path)
    form = json.loads((folder / "submission.json").read_text())
    (folder / "submission.json").write_text(json.dumps({**form, **changes}))
    with pytest.raises(UserError, match=words):
        submission.load(folder)


def test_a_record_of_another_shape_is_refused(tmp_path):
    folder = write(tmp_path)
    bad = make_record([probe_entry(50)])  # its environment lacks half of the keys
    (folder / "records" / "bits=0-seed=0.json").write_text(strict_json.dumps(bad))
    with pytest.raises(UserError, match="environment lacks the key"):
        submission.load(folder)


def test_the_level_comes_from_findings_on_this_very_content(tmp_path):
    folder = write(tmp_path)
    digest = submission.digest(folder)
    noted = {"schema": 1, "slug": "one", "submission": digest, "level": 1}
    path = levels.check_file(folder.parent, "one")
    path.parent.mkdir()
    path.write_text(json.dumps(noted))
    assert submission.load(folder).level == 1
    cell = {
        "strength": "0", "seed": 0, "fresh": False, "feature": "digit", "correct": 5, "n": 10, "claimed": [5, 6],
        "mean": 0.5, "low": 0.4, "high": 0.6, "inside": True, "far": False,
    }  # fmt: skip
    rerun = {
        "schema": 1, "slug": "one", "submission": digest, "track": "quick", "nonce": "n", "submitted_seeds": [0],
        "fresh_seeds": [7, 8], "code": {}, "environment": {}, "cells": [cell], "failed": [], "allowed": 0, "passed": True,
    }  # fmt: skip
    path = levels.rerun_file(folder.parent, "one")
    path.parent.mkdir()
    path.write_text(json.dumps(rerun))
    assert submission.load(folder).level == 3
    (folder / "records" / "note.txt").write_text("edited")
    assert submission.load(folder).level == 0
    path.write_text(json.dumps({**rerun, "cells": [{**cell, "inside": False}]}))
    with pytest.raises(UserError, match="passed does not follow"):
        submission.load(folder)


def test_hidden_characters_and_long_texts_are_named():
    record = whole(make_record([probe_entry(50)]))
    assert shape.faults(record) == []
    record["spec"]["varied"] = {"a\x07": "b" * 501}
    assert [fault.split(" ")[2][:6] for fault in shape.faults(record)] == ["'a\\x07", "'bbbbb"]
