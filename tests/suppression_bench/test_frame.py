"""Frames from hand-made records: seeds, floors, missing cells, datasets with and without a strength."""

import pytest
from small_cells import make_record, probe_entry, write_records

from generators import strict_json
from generators.dataset import UserError
from suppression_bench.results import tables
from suppression_bench.results.frame import long_table, summarise
from suppression_bench.results.record import PLAN

NO_STRENGTH = {"dataset": "plain", "version": 1, "options": {}, "seed": 0, "digest": "f" * 64, "bits": 0}


def frame(folder, made):
    return long_table([write_records(folder, made)])


def one_table(folder, made, **more):
    [(heading, table)] = tables.pivot(frame(folder, made), **more)
    return heading, table


def row(table, method, probe="lbfgs"):
    [found] = table[(table["method"] == method) & (table["probe"] == probe)].to_dict("records")
    return found


def untrained(right, bits=0):
    return [make_record([probe_entry(r)], method="untrained", bits=bits, seed=s) for s, r in enumerate(right)]


def test_below_the_mean_of_the_untrained_encoders_is_marked(tmp_path):
    # Three untrained seeds: mean 70, smallest 60. 69 lies below the mean, 70 and 71 do not.
    made = [*untrained([60, 70, 80]), *untrained([20, 20, 20], bits=5)]
    made += [make_record([probe_entry(r)], method=name) for name, r in (("byol", 69), ("simclr", 71), ("vae", 70))]
    made += [make_record([probe_entry(30)], method="byol", bits=5)]
    _, table = one_table(tmp_path, made)
    assert tables.BELOW in row(table, "byol")["digit @0"] and tables.BELOW not in row(table, "byol")["digit @5"]
    for name in ("simclr", "vae", "untrained"):
        assert tables.BELOW not in row(table, name)["digit @0"]
    text = tables.render(long_table([tmp_path]), "markdown")
    assert f"- {tables.BELOW} below" in text


def test_the_floor_is_the_same_probes(tmp_path):
    made = [make_record([probe_entry(90), probe_entry(40, probe="sgd")], method="untrained", seed=s) for s in range(3)]
    made.append(make_record([probe_entry(91), probe_entry(41, probe="sgd")]))
    found = summarise(frame(tmp_path, made))
    assert not found["below"].any()
    assert set(found["floor"].round(6)) == {0.9, 0.4}


def test_planned_cells_without_a_record_are_missing(tmp_path):
    made = [make_record([probe_entry(80)], bits=b) for b in (0, 5)]
    write_records(tmp_path, made[:1])
    plan = [{"id": one["id"], "folder": "x", "spec": one["spec"]} for one in made]
    (tmp_path / PLAN).write_text(strict_json.dumps(plan))
    [(_, table)] = tables.pivot(long_table([tmp_path]))
    assert "missing (seed 0)" in row(table, "simclr").values() and row(table, "simclr")["digit @0"] == "80.0"


def test_a_record_counts_once_whatever_folders_name_it(tmp_path):
    write_records(tmp_path / "a", [make_record([probe_entry(80)])])
    write_records(tmp_path / "b", [make_record([probe_entry(80)])])
    assert len(long_table([tmp_path / "a", tmp_path, tmp_path / "b"])) == 1


@pytest.mark.parametrize("change", [{"recipe": "randbit-small"}, {"train": {"epochs": 100}},
                                    {"encoder": {"name": "resnet18", "options": {}}}])  # fmt: skip
def test_cells_of_other_settings_are_no_further_seeds(tmp_path, change):
    found = summarise(frame(tmp_path, [make_record([probe_entry(80)]), make_record([probe_entry(40)], **change)]))
    assert found["n"].tolist() == [1, 1]


def test_a_dataset_without_a_strength(tmp_path):
    plain = dict(data=NO_STRENGTH, strength=None)
    made = [make_record([probe_entry(40)], **plain), make_record([probe_entry(30)], method="byol", **plain)]
    made += [make_record([probe_entry(r)], method="untrained", seed=s, **plain) for s, r in enumerate((35, 35, 35))]
    made += [make_record([], method="vae", status="failed", error="why", **plain)]
    heading, table = one_table(tmp_path, made)
    assert "by" not in heading.split("plain")[1].split() and list(table.columns)[3:] == ["digit"]
    assert row(table, "simclr")["digit"] == "40.0" and tables.BELOW in row(table, "byol")["digit"]
    assert [found["digit"] for found in table.to_dict("records") if found["method"] == "vae"] == ["failed (seed 0)"]


def test_strengths_stay_whole_numbers_beside_a_dataset_without_any(tmp_path):
    made = [make_record([probe_entry(40)], bits=5), make_record([probe_entry(30)], data=NO_STRENGTH, strength=None)]
    found = dict(tables.pivot(frame(tmp_path, made)))
    columns = sorted(list(table.columns)[-1] for table in found.values())
    assert columns == ["digit", "digit @5"]


def test_folders_without_records_are_user_errors(tmp_path):
    for place in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(UserError, match="bench run"):
            long_table([place])
