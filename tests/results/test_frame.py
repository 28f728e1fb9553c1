"""The long table: records below folders and in study files, settings told apart, groups, means over seeds, floors."""

import msgspec
import pytest
from small_cells import make_record, probe_entry, write_records
from small_studies import PLAIN, bit_entries, described, metrics, plugin, study_of, traced

from generators.dataset import UserError
from suppression_bench.results import frame, record
from suppression_bench.results.frame import summarise


@pytest.fixture
def thrice(tmp_path):
    """One cell in three folders: failed, then with 30 of 100 right, then (on another machine) with 40."""
    failed = make_record([], bits=5, status="failed", error="the device's memory is full")
    folders = [write_records(tmp_path / "failed", [failed])]
    for right in (30, 40):
        folders.append(write_records(tmp_path / str(right), [make_record([probe_entry(right)], bits=5)]))
    return folders


def study_file(path, records):
    path.write_text("".join(record.to_json(entry) + "\n" for entry in records))
    return path


def test_of_a_cell_in_several_folders_the_first_that_ended_well_counts(thrice):
    for folders in (thrice, [thrice[1], thrice[0]], [thrice[0].parent]):
        study = frame.read(folders)
        assert study.long["accuracy"].tolist() == study.measured["accuracy"].tolist() == [0.3]


def test_a_study_file_and_a_folder_of_them_give_the_same_table(tmp_path):
    records = [make_record([probe_entry(right)], seed=seed) for seed, right in enumerate((30, 40))]
    expected = frame.read([write_records(tmp_path / "runs", records)]).long
    for path in (study_file(tmp_path / "study.jsonl", records), tmp_path, tmp_path / "runs"):
        found = frame.read([path]).long
        assert (
            found.sort_values("seed").reset_index(drop=True).equals(expected.sort_values("seed").reset_index(drop=True))
        )


@pytest.mark.parametrize(
    ("text", "part"), [("", "no record"), ("{}\n", "line 1"), ("GOOD\n{}\n", "line 2"), ("GOOD\n\n", "line 2")]
)
def test_a_damaged_study_file_is_named_with_its_line(tmp_path, text, part):
    path = tmp_path / "study.jsonl"
    path.write_text(text.replace("GOOD", record.to_json(make_record([probe_entry(50)]))))
    with pytest.raises(UserError) as caught:
        frame.read([path])
    assert str(path) in str(caught.value) and part in str(caught.value)


def test_folders_and_files_without_records_are_user_errors(thrice, tmp_path):
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "empty", tmp_path / "none", tmp_path / "none.jsonl"):
        with pytest.raises(UserError, match=path.name):
            frame.read([thrice[1], path])


def test_planned_cells_without_a_record_are_missing(tmp_path):
    records = [make_record([probe_entry(80)], bits=bits) for bits in (0, 5)]
    write_records(tmp_path, records[:1])
    plan = [record.Planned(id=entry.id, folder="x", spec=entry.spec) for entry in records]
    record.write_plan(tmp_path / record.PLAN, plan)
    assert frame.read([tmp_path]).long["status"].tolist() == ["ok", "missing"]


@pytest.mark.parametrize("text", ["{}", "[1]", '[{"id": "x"}]', "["])
def test_a_damaged_plan_is_a_sentence(thrice, text):
    (thrice[1] / record.PLAN).write_text(text)
    with pytest.raises(UserError, match=record.PLAN):
        frame.read([thrice[1]])


def test_a_groups_features_keep_their_rows_and_become_one_feature_over_seeds():
    records = [make_record([probe_entry(50), *bit_entries(60, 70, 95)], bits=3, seed=seed) for seed in (0, 1)]
    long = study_of(records).long
    assert long[long["seed"] == 0]["group"].tolist() == ["", "bits", "bits", "bits"]
    summary = summarise(long).set_index("feature")
    assert summary.loc["bits", "mean"] == pytest.approx(0.75) and summary.loc["bits", "n"] == 2
    assert summary.loc["bits", "group"] == "bits" and summary.loc["digit", "group"] == ""


def test_the_record_names_the_groups_not_the_features_name():
    named = make_record([probe_entry(50, feature="bit00")])
    alone = msgspec.structs.replace(named, data=record.Data(digest=named.data.digest))
    assert study_of([named]).long["group"].tolist() == ["bits"] and study_of([alone]).long["group"].tolist() == [""]


@pytest.mark.parametrize(
    "change", [{"recipe": "randbit-small"}, {"train": {"epochs": 100}}, {"encoder": plugin("resnet18")}]
)
def test_cells_of_other_settings_are_no_further_seeds(change):
    long = study_of([make_record([probe_entry(80)]), make_record([probe_entry(40)], **change)]).long
    assert summarise(long)["n"].tolist() == [1, 1] and long["setting"].nunique() == 2


def test_what_moves_no_number_does_not_tell_cells_apart():
    change = {"train": {"epochs": 1, "checkpoint_seconds": 1.0}, "probe": {"block_size": 7}}
    records = [make_record([probe_entry(80)]), make_record([probe_entry(40)], seed=1, **change)]
    assert summarise(study_of(records).long)["n"].tolist() == [2]


def test_the_same_cell_of_two_suites_is_one_seed():
    records = [
        make_record([probe_entry(right)], suite={"name": name, "version": 1})
        for name, right in (("one", 60), ("two", 70))
    ]
    summary = summarise(study_of(records).long)
    assert summary["n"].tolist() == [1] and summary["mean"].tolist() == [pytest.approx(0.65)]


def test_the_floor_is_the_mean_of_the_same_probes():
    records = [
        make_record([probe_entry(90 + seed), probe_entry(40, probe="sgd")], "untrained", seed) for seed in range(3)
    ]
    records.append(make_record([probe_entry(90), probe_entry(41, probe="sgd")]))
    summary = summarise(study_of(records).long)
    assert set(summary["floor"].round(6)) == {0.91, 0.4}
    assert summary[summary["below"]][["method", "probe"]].values.tolist() == [["simclr", "lbfgs"]]


def test_strengths_stay_whole_numbers_beside_a_dataset_without_any():
    records = [make_record([probe_entry(40)], bits=5), make_record([probe_entry(30)], dataset=PLAIN, strength=None)]
    assert [repr(value) for value in study_of(records).long["strength"]] == ["5", "''"]


def test_metrics_are_means_over_a_group_and_a_cell_counts_once():
    record_of_bits = make_record([], bits=3, metrics=metrics({"digit": 100, "bit00": 200, "bit01": 200, "bit02": 80}))
    probed = make_record([probe_entry(50), *bit_entries(50, 50, 50)], bits=3, metrics=record_of_bits.metrics)
    values = study_of([probed]).metrics.set_index(["metric", "feature"])["value"]
    assert values["knn", "digit"] == 50.0 and values["knn", "bits"] == pytest.approx(80.0)
    assert values["uniformity", ""] == 2.5


def test_metrics_stand_beside_the_probe_of_their_layer():
    rows = study_of([described(60, 0.1)]).measured.set_index("layer")
    assert rows["uniformity"].to_dict() == {"encoder": 2.5, "head": 5.0} and set(rows["knn"]) == {0.55}
    assert set(rows["temperature"]) == {0.1} and set(rows["accuracy"]) == {0.6}


def test_traces_are_means_over_a_group():
    traces = study_of([traced((20, 80)), make_record([probe_entry(50)])]).traces
    assert traces.set_index(["feature", "step"])["accuracy"].to_dict() == {
        ("digit", 1): 0.2,
        ("bits", 1): 0.55,
        ("digit", 4): 0.8,
        ("bits", 4): pytest.approx(0.8),
    }
