"""What stands in the tables: accuracies with spread and marks, lost seeds, bold, metrics, numbers of suppression."""

import csv
import io
import json
import re
import statistics

import pytest
from small_cells import make_record, probe_entry
from small_studies import PLAIN, bit_entries, metrics, plugin, study_of

from generators.dataset import UserError
from suppression_bench.results import significance, tables
from suppression_bench.results.renderers import BELOW, NOT_CONVERGED


def accuracies(records, missing=None, **options):
    """The only table as a frame."""
    [table] = tables.accuracy_tables(study_of(records, missing), **options).tables
    return table.frame()


def row(frame, method, probe="lbfgs"):
    [cells] = frame[(frame["method"] == method) & (frame["probe"] == probe)].to_dict("records")
    return cells


def seeds(method, right, **changes):
    return [make_record([probe_entry(n)], method, seed, **changes) for seed, n in enumerate(right)]


# ---- accuracies ----


def test_mean_deviation_and_n_over_seeds():
    right = [80, 83, 90]
    expected = f"{statistics.mean(right):.1f} ± {statistics.stdev(right):.1f} (n=3)"
    assert row(accuracies(seeds("simclr", right)), "simclr")["digit @0"] == expected
    assert row(accuracies(seeds("simclr", [81])), "simclr")["digit @0"] == "81.0"


def test_a_group_is_one_column_behind_the_single_features():
    records = [make_record([probe_entry(50), *bit_entries(60, 70, 95)], bits=3, seed=seed) for seed in (0, 1)]
    study = study_of(records)
    [table] = tables.accuracy_tables(study).tables
    assert table.columns == ["digit @3", "bits @3"] and table.rows[0].entries[1].value == "75.0 ± 0.0 (n=2)"
    assert any("bits" in note and "mean" in note for note in tables.accuracy_tables(study).notes)


def test_columns_are_in_the_order_of_the_strength():
    frame = accuracies([make_record([probe_entry(50)], bits=bits) for bits in (10, 0, 5)])
    assert list(frame.columns)[3:] == ["digit @0", "digit @5", "digit @10"]


def test_a_probe_that_did_not_converge_is_marked():
    records = [make_record([probe_entry(80, converged=seed == 0)], seed=seed) for seed in (0, 1)]
    assert NOT_CONVERGED in row(accuracies(records), "simclr")["digit @0"]


def test_below_the_mean_of_the_untrained_encoders_is_marked():
    # Three untrained seeds: mean 70, smallest 60. 69 lies below the mean, 70 and 71 do not.
    records = [*seeds("untrained", (60, 70, 80)), *seeds("untrained", (20, 20, 20), bits=5)]
    records += [make_record([probe_entry(n)], name) for name, n in (("byol", 69), ("simclr", 71), ("vae", 70))]
    records += [make_record([probe_entry(30)], "byol", bits=5)]
    frame = accuracies(records)
    assert BELOW in row(frame, "byol")["digit @0"] and BELOW not in row(frame, "byol")["digit @5"]
    for name in ("simclr", "vae", "untrained"):
        assert BELOW not in row(frame, name)["digit @0"]


def test_other_settings_do_not_overwrite_each_other():
    records = [make_record([probe_entry(80)]), make_record([probe_entry(40)], encoder=plugin("resnet18"))]
    assert sorted(accuracies(records)["digit @0"]) == ["40.0", "80.0"]


def test_a_name_that_ends_in_a_hash_is_explained():
    records = [make_record([probe_entry(60)]), make_record([probe_entry(70)], train={"epochs": 2})]
    assert "simclr #" in tables.accuracy_tables(study_of(records)).markdown()
    assert any(note.startswith("#:") for note in tables.accuracy_tables(study_of(records)).notes)
    assert not any(note.startswith("#:") for note in tables.accuracy_tables(study_of(records[:1])).notes)


def test_a_dataset_without_a_strength():
    plain = {"dataset": PLAIN, "strength": None}
    records = [make_record([probe_entry(40)], **plain), make_record([probe_entry(30)], "byol", **plain)]
    records += [*seeds("untrained", (35, 35, 35), **plain)]
    records += [make_record([], "vae", status="failed", error="why", **plain)]
    [table] = tables.accuracy_tables(study_of(records)).tables
    frame = table.frame()
    assert table.heading.startswith("plain:") and ", by" not in table.heading and table.columns == ["digit"]
    assert row(frame, "simclr")["digit"] == "40.0" and BELOW in row(frame, "byol")["digit"]
    assert row(frame, "vae", "")["digit"] == "failed (seed 0)"


def test_the_probe_can_be_chosen():
    records = [make_record([probe_entry(70), probe_entry(40, probe="sgd")]), make_record([], seed=1, status="failed")]
    assert accuracies(records)["probe"].tolist() == ["lbfgs", "sgd"]
    frame = accuracies(records, probe="sgd")
    assert frame["probe"].tolist() == ["sgd"] and "failed (seed 1)" in frame["digit @0"][0]
    with pytest.raises(UserError, match="lbfgs, sgd"):
        accuracies(records, probe="online")


def test_notes_say_where_the_numbers_come_from():
    records = [make_record([probe_entry(70, absent=[7])], seed=3, collapsed=["encoder"])]
    text = " ".join(tables.accuracy_tables(study_of(records)).notes)
    for part in ("Seeds 3", "dddddddddddd", "torch 2 on cpu", "classes 7 are absent", "simclr: collapsed"):
        assert part in text, part


# ---- lost cells, floor and ceiling ----


@pytest.fixture
def lossy():
    """Three methods at five bits, three seeds each: a failed, a diverged and a missing cell; simclr also without bits."""
    records = {
        (method, seed): make_record([probe_entry(20 + seed)], method, seed, bits=5)
        for method in ("byol", "simclr", "vae")
        for seed in range(3)
    }
    records["simclr", 2] = make_record([], "simclr", 2, bits=5, status="failed", error="why")
    records["byol", 0] = make_record([], "byol", 0, bits=5, status="diverged", error="loss is nan")
    missing = records.pop(("vae", 1))
    return study_of([*records.values(), make_record([probe_entry(90)])], [missing])


def test_lost_seeds_stand_where_their_numbers_would(lossy):
    [table] = tables.accuracy_tables(lossy).tables
    frame = table.frame()
    assert row(frame, "simclr")["digit @0"] == "90.0"
    assert row(frame, "simclr")["digit @5"] == "20.5 ± 0.7 (n=2); failed (seed 2)"
    assert row(frame, "byol")["digit @5"] == "21.5 ± 0.7 (n=2); diverged (seed 0)"
    assert row(frame, "vae")["digit @5"] == "21.0 ± 1.4 (n=2); missing (seed 1)" and row(frame, "vae")["digit @0"] == ""


def test_several_lost_seeds_are_one_note_and_failures_alone_are_a_table():
    lost = [
        make_record([], bits=5, seed=seed, status=status)
        for seed, status in ((3, "failed"), (1, "failed"), (2, "diverged"))
    ]
    simclr = row(accuracies([make_record([probe_entry(50)], bits=5), *lost]), "simclr")
    assert simclr["digit @5"] == "50.0; diverged (seed 2); failed (seeds 1, 3)"
    assert "failed (seed 3)" in accuracies(lost[:1]).to_dict("records")[0].values()


def test_the_long_forms_have_a_line_for_each_by_any_probe(lossy):
    for probe in ("all", "lbfgs"):
        lines = json.loads(tables.long_text(lossy, "json", probe))
        rows = list(csv.DictReader(io.StringIO(tables.long_text(lossy, "csv", probe))))
        for table in (lines, rows):
            lost = {(line["method"], int(line["seed"]), line["status"]) for line in table if line["status"] != "ok"}
            assert (
                lost == {("simclr", 2, "failed"), ("byol", 0, "diverged"), ("vae", 1, "missing")} and len(table) == 10
            )
        assert all(line["accuracy"] is None for line in lines if line["status"] != "ok")


def test_the_other_tables_name_lost_cells(lossy):
    for notes in (tables.suppression_tables(lossy).notes, tables.metrics_tables(lossy).notes):
        for lost in ("simclr bits=5 seed=2, failed", "byol bits=5 seed=0, diverged", "vae bits=5 seed=1, missing"):
            assert any(lost in note for note in notes), lost


def test_floor_and_ceiling_are_the_last_rows():
    records = [*seeds("untrained", (30, 30, 30)), *seeds("supervised", (95,)), *seeds("vae", (60,))]
    result = tables.accuracy_tables(study_of(records))
    assert [(line.names[0], line.kind) for line in result.tables[0].rows] == [
        ("vae", ""),
        ("supervised", "ceiling"),
        ("untrained", "floor"),
    ]
    assert not any(note.startswith(("No floor", "No ceiling")) for note in result.notes)


def test_without_floor_and_ceiling_the_notes_have_the_commands_that_add_them():
    notes = tables.accuracy_tables(study_of([make_record([probe_entry(60)])])).notes
    text = " ".join(notes)
    assert "bench run --data DIR --method untrained --recipe randbit --set bits=N --seeds 3 --out OUT" in text
    assert "bench run --data DIR --method supervised --recipe randbit --set bits=N --out OUT" in text


def test_a_floor_of_one_dataset_is_no_floor_of_another():
    records = [*seeds("untrained", (30, 30, 30)), make_record([probe_entry(60)])]
    records.append(make_record([probe_entry(60)], dataset=PLAIN, strength=None))
    floors = [note for note in tables.accuracy_tables(study_of(records)).notes if note.startswith("No floor")]
    assert len(floors) == 1 and "(plain)" in floors[0] and "--recipe randbit --seeds 3" in floors[0]


def test_a_probe_that_the_floor_does_not_have_is_named():
    study = study_of([*seeds("untrained", (30,)), make_record([probe_entry(60), probe_entry(50, probe="online")])])
    for probe, start in (("online", "No floor: "), ("all", "No floor by online: "), ("lbfgs", None)):
        notes = [note for note in tables.accuracy_tables(study, probe).notes if note.startswith("No floor")]
        assert len(notes) == (start is not None) and all(note.startswith(start) for note in notes)


# ---- bold ----

GOOD, POOR = (80, 81, 82), (40, 41, 42)


def best(records):
    """(Title, column) of the best cells, and the number of tests."""
    [table] = tables.accuracy_tables(study_of(records)).tables
    cells = {
        (line.names[0], column)
        for line in table.rows
        for column, entry in zip(table.columns, line.entries, strict=True)
        if entry.best
    }
    return cells, table.tests


def test_the_best_is_bold_only_where_it_is_ahead():
    assert best([*seeds("simclr", GOOD), *seeds("byol", POOR)]) == ({("simclr", "digit @0")}, 1)
    assert best([*seeds("simclr", GOOD), *seeds("byol", (79, 80, 82))]) == (set(), 1)
    third = seeds("vae", (80, 81, 83))  # the best is not ahead of the second, however far the third is
    assert best([*seeds("simclr", GOOD), *seeds("byol", POOR), *third]) == (set(), 1)


def test_floor_and_ceiling_do_not_compete():
    records = [
        *seeds("simclr", GOOD),
        *seeds("byol", POOR),
        *seeds("supervised", (99, 98, 99)),
        *seeds("untrained", GOOD),
    ]
    assert best(records) == ({("simclr", "digit @0")}, 1)


def test_a_single_seed_or_method_or_a_lost_seed_is_no_test():
    assert best([*seeds("simclr", (80,)), *seeds("byol", POOR)]) == (set(), 0)
    assert best([*seeds("simclr", GOOD), *seeds("byol", (40,))]) == (set(), 0)
    assert best(seeds("simclr", GOOD)) == (set(), 0)
    lost = make_record([], "simclr", seed=3, status="diverged")
    assert best([*seeds("simclr", GOOD), *seeds("byol", POOR), lost]) == (set(), 0)


def test_the_columns_are_counted_together():
    # p of the near pair lies between .025 and .05: alone it is bold, beside a column without any difference no longer.
    near = [*seeds("simclr", (50, 52, 54)), *seeds("byol", (45, 47, 49))]
    p = significance.welch((0.5, 0.52, 0.54), (0.45, 0.47, 0.49))
    assert p is not None and 0.025 < p < 0.05
    equal = [*seeds("simclr", (50, 52, 54), bits=5), *seeds("byol", (50, 51, 54), bits=5)]
    assert best(near) == ({("simclr", "digit @0")}, 1) and best([*near, *equal]) == (set(), 2)


def test_probes_are_compared_apart():
    records = [
        make_record([probe_entry(a), probe_entry(b, probe="sgd")], method, seed)
        for method, pairs in (("simclr", [(80, 30), (81, 31)]), ("byol", [(40, 60), (41, 62)]))
        for seed, (a, b) in enumerate(pairs)
    ]
    [table] = tables.accuracy_tables(study_of(records)).tables
    assert {line.names[:2] for line in table.rows if line.entries[0].best} == {("simclr", "lbfgs"), ("byol", "sgd")}


# ---- metrics ----


def metrics_frames(records, **options):
    result = tables.metrics_tables(study_of(records), **options)
    return {table.heading: table.frame() for table in result.tables}


def test_metrics_are_means_over_seeds_and_groups():
    records = [
        make_record(
            [probe_entry(50), *bit_entries(50, 50)],
            seed=seed,
            bits=2,
            metrics=metrics({"digit": 100 + 10 * seed, "bit00": 200, "bit01": 100}),
        )
        for seed in (0, 1, 2)
    ]
    [(heading, frame)] = metrics_frames(records).items()
    [texts] = frame.to_dict("records")
    assert heading.startswith("randbit over optdigits, bits 2")
    assert texts["k-NN % digit"] == f"55.0 ± {statistics.stdev([50.0, 55.0, 60.0]):.1f} (n=3)"
    assert texts["k-NN % bits"] == "75.0 ± 0.0 (n=3)" and texts["alignment"] == "0.250 ± 0.000 (n=3)"
    assert list(frame.columns)[:4] == ["method", "layer", "k-NN % digit", "k-NN % bits"]


def test_one_metrics_table_per_strength_and_undefined_values_stay_empty():
    records = [make_record([probe_entry(50)], metrics=metrics({"digit": 20}))]
    records.append(make_record([probe_entry(50)], bits=5, metrics=metrics({"digit": 30}, uniformity=None)))
    records.append(make_record([probe_entry(50)], "byol", bits=5, metrics=metrics({"digit": 40})))
    (first, _), (second, frame) = metrics_frames(records).items()
    assert "bits 0" in first and "bits 5" in second
    assert dict(zip(frame["method"], frame["uniformity"], strict=True)) == {"byol": "2.50", "simclr": ""}
    assert dict(zip(frame["method"], frame["k-NN % digit"], strict=True)) == {"byol": "20.0", "simclr": "15.0"}


@pytest.mark.parametrize("empty", [None, {**metrics({"digit": 1}), "layers": [], "features": []}])
def test_records_without_metrics_say_so(empty):
    result = tables.metrics_tables(study_of([make_record([probe_entry(50)], metrics=empty)]))
    assert result.tables == [] and "No metrics" in result.markdown()


def test_variants_of_one_dataset_have_headings_of_their_own():
    variant = {"name": "randbit", "version": 1, "options": {"digit_source": "optdigits", "train": 200}}
    records = [make_record([probe_entry(50)], metrics=metrics({"digit": 100}))]
    records.append(make_record([probe_entry(50)], metrics=metrics({"digit": 50}), dataset=variant))
    assert sorted(heading.partition(",")[0] for heading in metrics_frames(records)) == [
        "randbit over optdigits",
        "randbit over optdigits (train=200)",
    ]


# ---- suppression ----


def cells(right, method="simclr", seeds=(0,), bit=90):
    """One record per strength and seed; `right` is strength -> correct digits of 100, chance .1."""
    return [
        make_record([probe_entry(n), *(bit_entries(bit) if bits else [])], method, seed, bits=bits)
        for bits, n in right.items()
        for seed in seeds
    ]


def summary(records):
    [table] = tables.suppression_tables(study_of(records)).tables
    return {(line["method"], line["feature"]): line for line in table.frame().to_dict("records")}


def test_a_methods_own_value_without_competitor_is_its_ceiling():
    digit = summary(cells({0: 90, 5: 50, 10: 10}))["simclr", "digit"]
    assert (digit["ceiling"], digit["R @5"], digit["R @10"]) == ("own", "0.50", "0.00")
    assert (digit["SI"], digit["s50"], digit["n"]) == ("0.75", "5.0", "1")


def test_a_groups_ceiling_is_one_and_the_score_is_the_worst_features():
    rows = summary(cells({0: 90, 5: 50, 10: 90}, bit=60))
    bits, digit = rows["simclr", "bits"], rows["simclr", "digit"]
    kept = float(bits["R @5"])
    assert bits["ceiling"] == "1" and kept == pytest.approx(0.2, abs=0.006) and bits["score"] == ""
    assert float(digit["score"]) == pytest.approx((min(0.5, kept) + min(1.0, kept)) / 2, abs=0.006)


def test_without_such_a_cell_the_supervised_encoder_is():
    records = [*cells({5: 50, 10: 26}), *cells({5: 90, 10: 42}, "supervised")]
    digit = summary(records)["simclr", "digit"]
    assert (digit["ceiling"], digit["R @5"], digit["R @10"], digit["s50"]) == ("supervised", "0.50", "0.50", "<= 5")


def test_a_supervised_encoder_is_no_ceiling_of_its_own():
    """It would have kept all by definition, whatever it has lost."""
    records = [*cells({5: 50, 10: 26}), *cells({5: 90, 10: 42}, "supervised")]
    digit = summary(records)["supervised", "digit"]
    assert [digit[key] for key in ("ceiling", "R @5", "SI", "score")] == ["none", *["undefined"] * 3]
    digit = summary([*records, *cells({0: 90}, "supervised")])["supervised", "digit"]
    assert (digit["ceiling"], digit["R @10"]) == ("own", "0.40")


def test_without_a_ceiling_or_with_two_retention_is_undefined():
    second = make_record([probe_entry(30)], "supervised", bits=5, train={"epochs": 2})
    for more in ([], [*cells({5: 90}, "supervised"), second], [second, *cells({5: 90}, "supervised")]):
        digit = summary([*cells({5: 50}), *more])["simclr", "digit"]
        assert [digit[key] for key in ("ceiling", "R @5", "SI", "s50", "score")][1:] == ["undefined"] * 4
    assert summary(cells({0: 12, 5: 11}))["simclr", "digit"]["SI"] == "undefined"  # a ceiling at chance


def test_every_number_has_an_interval_where_all_strengths_have_the_same_seeds():
    # Retentions at 5 bits .45, .5 and .6 of three seeds that share the ceiling .9: their mean's own Student interval.
    records = [
        cell for seed, right in enumerate((46, 50, 58)) for cell in cells({0: 90, 5: right, 10: 10}, seeds=(seed,))
    ]
    digit = summary(records)["simclr", "digit"]
    mean, low, high = 0.516667, 0.516667 - 4.3027 * 0.0763763 / 3**0.5, 0.516667 + 4.3027 * 0.0763763 / 3**0.5
    numbers = {key: [float(number) for number in re.findall(r"[\d.]+", digit[key])] for key in ("R @5", "SI", "s50")}
    assert numbers["R @5"] == pytest.approx([mean, low, high], abs=0.012)
    assert numbers["SI"] == pytest.approx([1 - mean / 2, 1 - high / 2, 1 - low / 2], abs=0.01)
    # On the lines from (0, 1) to (5, low) and from (5, high) to (10, 0).
    ends = [5 * 0.5 / (1 - low), 5 + 5 * (high - 0.5) / high]
    assert numbers["s50"] == pytest.approx([5 + 5 * (mean - 0.5) / mean, *ends], abs=0.15)
    assert digit["n"] == "3" and "[" in digit["score"] and digit["R @10"] == "0.00 [0.00, 0.00]"


def test_there_is_no_interval_with_one_seed_or_unequal_ones():
    alone = summary(cells({0: 90, 5: 50}))["simclr", "digit"]
    assert alone["n"] == "1" and "[" not in "".join(alone.values())
    unequal = summary([*cells({0: 90}, seeds=(0, 1)), *cells({5: 50})])["simclr", "digit"]
    assert unequal["SI"] == "0.50" and unequal["n"] == "1-2" and "[" not in "".join(unequal.values())


def test_equal_seeds_have_no_width_and_a_curve_that_stays_up_no_end():
    digit = summary(cells({0: 90, 5: 50}, seeds=(0, 1, 2)))["simclr", "digit"]
    assert (digit["R @5"], digit["SI"], digit["s50"]) == ("0.50 [0.50, 0.50]", "0.50 [0.50, 0.50]", "5.0 [5.0, 5.0]")
    records = [cell for seed, right in enumerate((60, 70, 80)) for cell in cells({0: 90, 5: right}, seeds=(seed,))]
    # .75 +- .31: the lower end .44 falls to one half on the way, the upper one never does.
    assert summary(records)["simclr", "digit"]["s50"] == "> 5 [4.5, > 5]"


def test_a_supervised_ceiling_is_resampled_where_it_has_the_same_seeds():
    def retention(supervised):
        records = cells({5: 50}, seeds=(0, 1, 2))
        records += [cell for seed, n in supervised.items() for cell in cells({5: n}, "supervised", seeds=(seed,))]
        return summary(records)["simclr", "digit"]["R @5"]

    assert retention({0: 80, 1: 90}) == "0.53 [0.53, 0.53]"
    low, high = re.findall(r"[\d.]+", retention({0: 80, 1: 90, 2: 100}))[1:]
    assert float(low) < 0.45 and float(high) > 0.55


def test_below_the_floor_is_marked_and_a_thin_or_missing_floor_named():
    def notes(records):
        return " ".join(tables.suppression_tables(study_of(records)).notes)

    records = [*cells({0: 90, 5: 50}), *cells({0: 90, 5: 60}, "untrained", seeds=(0, 1))]
    assert summary(records)["simclr", "digit"]["R @5"] == f"0.50 {BELOW}"
    assert "below untrained" in notes(records) and "bits=5 by lbfgs (n=2)" in notes(records)
    records += cells({0: 90, 5: 60}, "untrained", seeds=(2,))
    assert "below untrained" in notes(records) and "Fewer than" not in notes(records)
    alone = notes(cells({0: 90, 5: 50}))
    assert "randbit over optdigits bits=5 by lbfgs" in alone and "below untrained" not in alone


def test_a_probe_is_chosen_and_failed_cells_stay_named():
    study = study_of([*cells({0: 90, 5: 50}), make_record([], bits=10, status="diverged")])
    text = tables.suppression_tables(study, "lbfgs").markdown()
    assert "bits=10 seed=0, diverged" in text and "R @10" not in text
    with pytest.raises(UserError, match="lbfgs"):
        tables.suppression_tables(study, "online")


def test_nothing_to_summarise_still_names_what_failed():
    result = tables.suppression_tables(study_of([make_record([], bits=10, status="failed")]))
    assert result.tables == [] and "bits=10 seed=0, failed" in result.markdown()
