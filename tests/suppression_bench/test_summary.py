"""Summary tables from hand-made records: ceilings, grids, intervals, and what is left out by name."""

import re

import pytest
from small_cells import make_record, probe_entry, write_records

from generators.dataset import UserError
from suppression_bench.cli import main
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


def test_a_supervised_encoder_is_no_ceiling_of_its_own(tmp_path):
    """It would have kept all by definition, whatever it has lost."""
    made = [*cells({5: 50, 10: 26}), *cells({5: 90, 10: 42}, method="supervised")]
    digit = rows(tmp_path / "a", made)["supervised", "digit"]
    assert [digit[key] for key in ("ceiling", "R @5", "SI", "score")] == ["none", *["undefined"] * 3]
    digit = rows(tmp_path / "b", [*made, *cells({0: 90}, method="supervised")])["supervised", "digit"]
    assert (digit["ceiling"], digit["R @10"]) == ("own", "0.40")


def test_without_any_it_is_undefined(tmp_path):
    digit = rows(tmp_path, cells({5: 50, 10: 26}))["simclr", "digit"]
    assert [digit[key] for key in ("ceiling", "R @5", "SI", "s50", "score")] == ["none", *["undefined"] * 4]


def test_a_ceiling_at_chance_makes_nothing_of_it(tmp_path):
    assert rows(tmp_path, cells({0: 12, 5: 11}))["simclr", "digit"]["SI"] == "undefined"


def test_every_number_has_an_interval_where_all_strengths_have_the_same_seeds(tmp_path):
    # Retentions at 5 bits .45, .5 and .6 of three seeds that share the ceiling .9: their mean's own Student interval.
    made = [cell for seed, right in enumerate((46, 50, 58)) for cell in cells({0: 90, 5: right, 10: 10}, seeds=(seed,))]
    digit = rows(tmp_path, made)["simclr", "digit"]
    mean, low, high = 0.516667, 0.516667 - 4.3027 * 0.0763763 / 3**0.5, 0.516667 + 4.3027 * 0.0763763 / 3**0.5
    found = [float(number) for number in re.findall(r"[\d.]+", digit["R @5"])]
    assert found == pytest.approx([mean, low, high], abs=0.012)
    index = [float(number) for number in re.findall(r"[\d.]+", digit["SI"])]
    assert index == pytest.approx([1 - mean / 2, 1 - high / 2, 1 - low / 2], abs=0.01)
    # On the lines from (0, 1) to (5, low) and from (5, high) to (10, 0).
    half = [float(number) for number in re.findall(r"[\d.]+", digit["s50"])]
    ends = [5 * 0.5 / (1 - low), 5 + 5 * (high - 0.5) / high]
    assert half == pytest.approx([5 + 5 * (mean - 0.5) / mean, *ends], abs=0.15)
    assert digit["n"] == "3" and "[" in digit["score"] and digit["R @10"] == "0.00 [0.00, 0.00]"


def test_there_is_no_interval_with_one_seed_or_unequal_ones(tmp_path):
    alone = rows(tmp_path / "one", cells({0: 90, 5: 50}))["simclr", "digit"]
    assert alone["n"] == "1" and "[" not in "".join(alone.values())
    other = [*cells({0: 90}, seeds=(0, 1)), *cells({5: 50})]  # a resample without seed 0 would have nothing at 5
    unequal = rows(tmp_path / "unequal", other)["simclr", "digit"]
    assert unequal["SI"] == "0.50" and unequal["n"] == "1-2" and "[" not in "".join(unequal.values())


def test_equal_seeds_have_no_width(tmp_path):
    digit = rows(tmp_path, cells({0: 90, 5: 50}, seeds=(0, 1, 2)))["simclr", "digit"]
    assert (digit["R @5"], digit["SI"]) == ("0.50 [0.50, 0.50]", "0.50 [0.50, 0.50]")
    assert digit["s50"] == "5.0 [5.0, 5.0]"


def test_a_curve_that_never_falls_to_one_half_is_above_the_last_strength(tmp_path):
    made = [cell for seed, right in enumerate((60, 70, 80)) for cell in cells({0: 90, 5: right}, seeds=(seed,))]
    # .75 +- .31: the lower end .44 falls to one half on the way, the upper one never does.
    assert rows(tmp_path, made)["simclr", "digit"]["s50"] == "> 5 [4.5, > 5]"


def test_a_supervised_ceiling_is_resampled_where_it_has_the_same_seeds(tmp_path):
    def ours(name, supervised):
        made = [cell for seed in (0, 1, 2) for cell in cells({5: 50}, seeds=(seed,))]
        made += [cell for seed, n in supervised.items() for cell in cells({5: n}, method="supervised", seeds=(seed,))]
        return rows(tmp_path / name, made)["simclr", "digit"]["R @5"]

    assert ours("fixed", {0: 80, 1: 90}) == "0.53 [0.53, 0.53]"
    low, high = re.findall(r"[\d.]+", ours("paired", {0: 80, 1: 90, 2: 100}))[1:]
    assert float(low) < 0.45 and float(high) > 0.55


def test_what_lies_below_the_floor_is_marked_and_a_thin_floor_named(tmp_path, capsys):
    made = [*cells({0: 90, 5: 50}), *cells({0: 90, 5: 60}, method="untrained", seeds=(0, 1))]
    folder = write_records(tmp_path / "two", made)
    assert rows(tmp_path / "two", [])["simclr", "digit"]["R @5"] == "0.50 ▼"
    text = summary.render(long_table([folder]))
    assert "below untrained" in text and "Fewer than 3 untrained encoders" in text and "bits=5 by lbfgs (n=2)" in text
    made += cells({0: 90, 5: 60}, method="untrained", seeds=(2,))
    text = summary.render(long_table([write_records(tmp_path / "three", made)]))
    assert "below untrained" in text and "Fewer than" not in text and "No untrained" not in text
    text = summary.render(long_table([write_records(tmp_path / "none", cells({0: 90, 5: 50}))]))
    assert "▼: randbit over optdigits bits=5 by lbfgs." in text and "below untrained" not in text


def test_cells_without_numbers_are_named(tmp_path, capsys):
    made = [*cells({0: 90, 5: 50}), make_record([], bits=10, status="failed")]
    assert main(["table", str(write_records(tmp_path, made)), "--summary"]) == 0
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
def test_flags_that_do_not_go_together(tmp_path, flags, capsys):
    folder = write_records(tmp_path, cells({0: 90, 5: 50}))
    assert main(["table", str(folder), *flags]) == 2
    assert all(flag in capsys.readouterr().err for flag in flags[:1])
