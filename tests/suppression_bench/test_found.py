"""Records below folders: of a cell that several folders hold one counts, and what is no plan is refused."""

import pytest
from small_cells import make_record, probe_entry, write_records

from generators import strict_json
from generators.dataset import UserError
from suppression_bench.cli import main
from suppression_bench.results.found import planned, records_below
from suppression_bench.results.frame import long_table
from suppression_bench.results.measured import measured
from suppression_bench.results.record import PLAN


@pytest.fixture
def twice(tmp_path):
    """One cell in three folders: failed, then with 30 of 100 right, then (on another machine) with 40."""
    failed = make_record([], bits=5, status="failed", error="the device's memory is full")
    folders = [write_records(tmp_path / "failed", [failed])]
    for right in (30, 40):
        folders.append(write_records(tmp_path / str(right), [make_record([probe_entry(right)], bits=5)]))
    return folders


def test_a_cell_that_ended_well_somewhere_is_not_shown_as_failed(twice, capsys):
    for folders in (twice[:2], twice[1::-1]):
        assert main(["table", *[str(folder) for folder in folders]]) == 0
        said = capsys.readouterr().out
        assert "30.0" in said and "failed" not in said


def test_tables_and_figures_show_the_same_record(twice):
    assert long_table(twice)["accuracy"].tolist() == measured(twice)["accuracy"].tolist() == [0.3]


def test_an_empty_folder_beside_a_full_one_is_named(twice, tmp_path):
    (tmp_path / "empty").mkdir()
    record = make_record([probe_entry(50)])
    plan = [{"id": record["id"], "folder": "x", "spec": record["spec"]}]
    (twice[1] / PLAN).write_text(strict_json.dumps(plan))
    assert list(planned(twice)) == [record["id"]]
    with pytest.raises(UserError, match=r"empty: no result\.json in it"):
        long_table([twice[1], tmp_path / "empty"])


BROKEN = {
    "{}": "must be a list, got dict", "[1]": "an entry must be an object", '[{"id": "x"}]': "lacks the key 'spec'",
    '[{"id": "x", "folder": "y", "spec": {}}]': "spec lacks the key 'suite'", "[": "not valid JSON",
}  # fmt: skip


@pytest.mark.parametrize("text", BROKEN)
def test_what_is_no_plan_is_a_sentence(twice, text):
    (twice[1] / PLAN).write_text(text)
    with pytest.raises(UserError) as caught:
        long_table([twice[1]])
    assert BROKEN[text] in str(caught.value) and str(twice[1] / PLAN) in str(caught.value)


def test_every_folder_must_have_something(tmp_path):
    with pytest.raises(UserError, match="no such folder"):
        records_below([tmp_path / "none"])
