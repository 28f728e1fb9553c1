"""The record: written whole, read strictly, every contradiction refused."""

import json
import os

import msgspec
import pytest
from small_cells import make_record, probe_entry, write_records

from generators.dataset import UserError
from suppression_bench.cell import digest_of
from suppression_bench.results import record


@pytest.fixture
def good():
    return make_record([probe_entry(80), probe_entry(40, feature="bit00", classes=2)], bits=1)


def plain(good):
    """The record as plain values that may be edited."""
    return json.loads(json.dumps(msgspec.to_builtins(good)))


def refused(folder, text):
    path = folder / record.NAME
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(UserError) as caught:
        record.read(path)
    assert str(path) in str(caught.value)
    return str(caught.value)


def edited(good, *place, value):
    """The record's text with one place changed."""
    copy = plain(good)
    inner = copy
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return json.dumps(copy)


def test_round_trip(good, tmp_path):
    record.write(tmp_path, good)
    assert record.read(tmp_path / record.NAME) == good
    assert [path.name for path in tmp_path.iterdir()] == [record.NAME]


def test_accuracy_follows_from_the_integers():
    entry = probe_entry(1, confusion=[[3, 1], [2, 4]], n=10, chance=0.5, majority=0.6)
    assert entry.accuracy == 0.7 and record.majority(entry.confusion) == 0.6
    assert probe_entry(37).accuracy == 0.37


@pytest.mark.parametrize("place", [(), ("run",), ("probes", 0)])
def test_unknown_and_missing_keys_are_refused(good, tmp_path, place):
    assert "extra" in refused(tmp_path, edited(good, *place, "extra", value=1))
    copy = plain(good)
    inner = copy
    for key in place:
        inner = inner[key]
    gone = {(): "spec", ("run",): "status"}.get(place, "feature")
    del inner[gone]
    assert gone in refused(tmp_path, json.dumps(copy))


def test_duplicate_keys_are_refused(good, tmp_path):
    text = json.dumps(plain(good))
    assert "'status'" in refused(tmp_path, text.replace('"status":', '"status": "ok", "status":', 1))
    assert "'schema'" in refused(tmp_path, '{"schema": 1, ' + text[1:])


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
@pytest.mark.parametrize("key", ["seconds", "loss"])
def test_numbers_that_are_none_are_refused(good, tmp_path, word, key):
    text = json.dumps(plain(good))
    value = {"seconds": "1.5", "loss": "0.5"}[key]
    assert f'"{key}": {value}' in text
    refused(tmp_path, text.replace(f'"{key}": {value}', f'"{key}": {word}'))


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("id",), 7),
        (("schema",), "1"),
        (("probes",), {}),
        (("spec",), []),
        (("run", "steps"), 4.0),
        (("run", "steps"), True),
        (("run", "status"), None),
        (("run", "collapsed"), "encoder"),
        (("probes", 0, "n"), "100"),
        (("probes", 0, "n"), 100.0),
        (("probes", 0, "converged"), 1),
        (("probes", 0, "l2"), "0.01"),
        (("probes", 0, "confusion"), "none"),
        (("probes", 0, "chance"), None),
        (("probes", 0), 3),
    ],
)
def test_wrong_types_are_refused(good, tmp_path, place, value):
    refused(tmp_path, edited(good, *place, value=value))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("n", 99),
        ("majority", 0.5),
        ("chance", 0.2),
        ("train_correct", 101),
        ("train_correct", -1),
        ("train_n", 10),
        ("confusion", []),
        ("confusion", [[100]]),
        ("confusion", [[80, 20], [0]]),
        ("confusion", [[80.0, 20.0], [0, 0]]),
        ("confusion", [[-1, 101], [0, 0]]),
        ("confusion", [[True, 99], [0, 0]]),
        pytest.param("chance", 10**400, id="beyond any float"),
        pytest.param("majority", 10**400, id="beyond it too"),
    ],
)
def test_contradictions_are_refused(good, tmp_path, key, value):
    said = refused(tmp_path, edited(good, "probes", 0, key, value=value))
    assert "probe" in said or "too large" in said


@pytest.mark.parametrize("count", [1.0, True])
def test_counts_are_integers(tmp_path, count):
    good = make_record([probe_entry(99)])
    assert good.probes[0].confusion[1][0] == 1  # any of these adds up all the same
    assert "confusion" in refused(tmp_path, edited(good, "probes", 0, "confusion", 1, 0, value=count))


def test_empty_probes_are_refused(good, tmp_path):
    zeros = [[0] * 10 for _ in range(10)]
    copy = plain(good)
    copy["probes"][0] |= {"confusion": zeros, "n": 0}
    refused(tmp_path, json.dumps(copy))
    copy = plain(good)
    copy["probes"][0] |= {"train_n": 0, "train_correct": 0}  # a share of nothing
    refused(tmp_path, json.dumps(copy))


def test_an_id_that_is_not_the_specs_hash_is_refused(good, tmp_path):
    refused(tmp_path, edited(good, "id", value="0" * 64))
    refused(tmp_path, edited(good, "spec", "seed", value=5))


def test_other_schemas_and_statuses_are_refused(good, tmp_path):
    assert "schema 1 is not 2" in refused(tmp_path, edited(good, "schema", value=1))
    refused(tmp_path, edited(good, "schema", value=3))
    assert "fine" in refused(tmp_path, edited(good, "run", "status", value="fine"))


def test_oversize_and_broken_files_are_refused(good, tmp_path):
    text = json.dumps(plain(good))
    assert str(record.LARGEST) in refused(tmp_path, text + " " * record.LARGEST)
    for broken in (text[:-5], "", "[]", "null", b"\xff\xfe", "[" * 100_000):
        refused(tmp_path, broken)


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_what_is_no_plain_file_is_no_record(tmp_path, make):
    make(tmp_path / record.NAME)
    with pytest.raises(UserError, match="no plain file"):
        record.read(tmp_path / record.NAME)


def test_a_wrong_record_is_never_written(good, tmp_path):
    wrong = [{"id": "0" * 64}]
    wrong += [
        {"run": msgspec.structs.replace(good.run, **change)}
        for change in (
            {"status": "fine"},
            {"seconds": float("nan")},
            {"loss": float("inf")},
            {"steps": -1},
            {"steps": 1.5},
        )
    ]
    for change in wrong:
        with pytest.raises(UserError):
            record.write(tmp_path, msgspec.structs.replace(good, **change))
    assert not (tmp_path / record.NAME).exists()


def test_a_trace_is_optional_and_strict(good, tmp_path):
    point = {
        "step": 1,
        "feature": "digit",
        "splits": ["pretrain", "probe-test"],
        "correct": 30,
        "n": 100,
        "train_n": 200,
        "converged": True,
    }
    good = make_record(good.probes, bits=1, trace={"version": 1, "probe": "lbfgs", "l2": 1e-3, "points": [point]})
    record.write(tmp_path, good)
    assert record.read(tmp_path / record.NAME) == good
    assert "correct lies outside 0..n" in refused(tmp_path, edited(good, "trace", "points", 0, "correct", value=101))
    assert "extra" in refused(tmp_path, edited(good, "trace", "points", 0, "extra", value=1))
    assert "step" in refused(tmp_path, edited(good, "trace", "points", 0, "step", value=0))
    assert "points" in refused(tmp_path, edited(good, "trace", value={"version": 1, "probe": "sgd", "l2": None}))
    assert "trace" in refused(tmp_path, edited(good, "trace", value=[]))


PLACES = [
    ("spec", "dataset"),
    ("spec", "dataset", "name"),
    ("spec", "method", "name"),
    ("spec", "strength", "value"),
    ("spec", "suite", "name"),
    ("spec", "varied"),
    ("spec", "encoder", "options"),
    ("code", "commit"),
    ("environment", "device"),
]


@pytest.mark.parametrize("place", PLACES, ids=".".join)
def test_what_tables_read_of_a_cell_must_be_there(good, tmp_path, place):
    """A record by hand or of another program is refused by a sentence, not by the table that stumbles over it."""
    copy = plain(good)
    inner = copy
    for key in place[:-1]:
        inner = inner[key]
    del inner[place[-1]]
    copy["id"] = digest_of(copy["spec"])
    assert place[-1] in refused(tmp_path, json.dumps(copy))
    inner[place[-1]] = 7.5
    copy["id"] = digest_of(copy["spec"])
    if place[-1] != "value":  # which is of any type
        assert place[-1] in refused(tmp_path, json.dumps(copy))


# ---- the records and plans below run folders ----


@pytest.fixture
def twice(tmp_path):
    """One cell in three folders: failed, then with 30 of 100 right, then (on another machine) with 40."""
    failed = make_record([], bits=5, status="failed", error="the device's memory is full")
    folders = [write_records(tmp_path / "failed", [failed])]
    for right in (30, 40):
        folders.append(write_records(tmp_path / str(right), [make_record([probe_entry(right)], bits=5)]))
    return folders


def test_a_cell_that_ended_well_somewhere_counts(twice):
    for folders in (twice[:2], twice[1::-1]):
        [found] = record.read_all(folders).values()
        assert found.is_ok and found.probes[0].accuracy == 0.3
    assert next(iter(record.read_all(twice).values())).probes[0].accuracy == 0.3, "the first of several"


def test_an_empty_folder_beside_a_full_one_is_named(twice, tmp_path):
    (tmp_path / "empty").mkdir()
    good = make_record([probe_entry(50)])
    record.write_plan(twice[1] / record.PLAN, [record.Planned(id=good.id, folder="x", spec=good.spec)])
    assert record.planned_cells(twice) == {good.id: good.spec}
    with pytest.raises(UserError, match=r"empty: no result\.json in it"):
        record.read_all([twice[1], tmp_path / "empty"])
    with pytest.raises(UserError, match="no such folder"):
        record.read_all([tmp_path / "none"])


BROKEN = ["{}", "[1]", '[{"id": "x"}]', '[{"id": "x", "folder": "y", "spec": {}}]', "["]


@pytest.mark.parametrize("text", [*BROKEN, '[{"id": "x", "folder": "y", "spec": {"data": {}}}]'])
def test_what_is_no_plan_is_a_sentence(tmp_path, text):
    (tmp_path / record.PLAN).write_text(text)
    with pytest.raises(UserError, match=str(tmp_path / record.PLAN)):
        record.planned_cells([tmp_path])
