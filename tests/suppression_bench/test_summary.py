"""Summary tables from hand-made records: ceilings, grids, intervals, and what is left out by name."""

import pytest
from small_cells import make_record, probe_entry, write_records

from generators.dataset import UserError
from suppression_bench.commands import table as command
from suppression_bench.results import summary
from suppression_bench.results.frame import long_table


def rows(folder, made):
    [(_, table)] = summary.pivot(long_table([write_records(folder, made)]))
    return {(row["method"], row["feature"]): row for row in table.to_dict("records")}


def cells(right, method="simclr", seeds=(0,), bit=90):
    """One record per strength and seed; `right` is strength -> correct digits of 100, chance .1."""
    return [
        make_record(
            [probe_entry(n), *([probe_entry(bit, feature="bit0")] if bits else [])], method=method, bits=bits, seed=s
        )
        for bits, n in right.items()
        for s in seeds
    ]


def test_a_methods_own_value_without_competitor_is_its_ceiling(tmp_path):
    digit = rows(tmp_path, cells({0: 90, 5: 50, 10: 10}))["simclr", "digit"]
    assert (digit["ceiling"], digit["R @5"], digit["R @10"]) == ("own", "0.50", "0.00")
    assert (digit["SI"], digit["s50"], digit["n"]) == ("0.75", "5.0", "1")


def test_the_bits_ceiling_is_one_and_the_score_is_the_worst_features(tmp_path):
    found = rows(tmp_path, cells({0: 90, 5: 50, 10: 90}, bit=60))
    bits, digit = found["simclr", "bits"], found["simclr", "digit"]
    assert bits["ceiling"] == "1" and bits["R @5"] != "undefined"
    kept = float(bits["R @5"])
    assert float(digit["score"]) == pytest.approx((min(0.5, kept) + min(1.0, kept)) / 2, abs=0.006)
    assert bits["score"] == ""


def test_without_such_a_cell_the_supervised_encoder_is(tmp_path):
    made = [*cells({5: 50, 10: 26}), *cells({5: 90, 10: 42}, method="supervised")]
    digit = rows(tmp_path, made)["simclr", "digit"]
    assert (digit["ceiling"], digit["R @5"], digit["R @10"], digit["s50"]) == ("supervised", "0.50", "0.50", "<= 5")


def test_without_any_it_is_undefined(tmp_path):
    digit = rows(tmp_path, cells({5: 50, 10: 26}))["simclr", "digit"]
    assert [digit[key] for key in ("ceiling", "R @5", "SI", "s50", "score")] == ["none", *["undefined"] * 4]


def test_a_ceiling_at_chance_makes_nothing_of_it(tmp_path):
    assert rows(tmp_path, cells({0: 12, 5: 11}))["simclr", "digit"]["SI"] == "undefined"


def test_an_interval_needs_two_seeds_everywhere(tmp_path):
    both = [*cells({0: 90, 5: 50}, seeds=(0,)), *cells({0: 90, 5: 70}, seeds=(1,))]
    assert rows(tmp_path / "two", both)["simclr", "digit"]["SI"] == "0.38 [0.25, 0.50]"
    one = [*cells({0: 90}, seeds=(0, 1)), *cells({5: 50})]  # a resample without seed 0 would have nothing at 5
    digit = rows(tmp_path / "one", one)["simclr", "digit"]
    assert digit["SI"] == "0.50" and digit["n"] == "1-2"


def test_cells_without_numbers_are_named(tmp_path, capsys):
    made = [*cells({0: 90, 5: 50}), make_record([], bits=10, status="failed")]
    assert command.run([str(write_records(tmp_path, made)), "--summary"]) == 0
    printed = capsys.readouterr().out
    assert "Not in these numbers: simclr" in printed and "bits=10 seed=0, failed" in printed and "R @10" not in printed


def test_two_supervised_encoders_are_no_ceiling_in_either_order(tmp_path):
    first = write_records(tmp_path / "a", [*cells({5: 50}), *cells({5: 90}, method="supervised")])
    other = [make_record([probe_entry(30)], method="supervised", bits=5, train={"epochs": 2})]
    second = write_records(tmp_path / "b", other)
    texts = {summary.render(long_table(folders)).split("- R:")[0] for folders in ([first, second], [second, first])}
    [text] = texts
    digit = next(line for line in text.splitlines() if line.startswith("| simclr"))
    assert "undefined" in digit and "none" in digit


def test_a_probe_is_chosen_and_failed_cells_stay_named(tmp_path):
    made = [*cells({0: 90, 5: 50}), make_record([], bits=10, status="diverged")]
    frame = long_table([write_records(tmp_path, made)])
    assert "bits=10 seed=0, diverged" in summary.render(frame, "lbfgs")
    with pytest.raises(UserError, match="there are: lbfgs"):
        summary.render(frame, "online")


def test_nothing_to_summarise_still_names_what_failed(tmp_path):
    text = summary.render(long_table([write_records(tmp_path, [make_record([], bits=10, status="failed")])]))
    assert text.startswith("Nothing to summarise") and "bits=10 seed=0, failed" in text


@pytest.mark.parametrize(
    "flags", [["--metrics", "--summary"], ["--summary", "--format", "csv"], ["--metrics", "--probe", "sgd"]]
)
def test_flags_that_do_not_go_together(tmp_path, flags):
    folder = write_records(tmp_path, cells({0: 90, 5: 50}))
    with pytest.raises(UserError, match="bench table"):
        command.run([str(folder), *flags])
