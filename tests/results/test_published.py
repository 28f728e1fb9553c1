"""The papers' numbers: the data against values typed here from the papers, and which cells they stand beside."""

import csv
import json

import pytest
from small_cells import make_record, probe_entry
from small_studies import MNIST, metrics, study_of

from suppression_bench.results import published, tables
from suppression_bench.results.published import Subject, numbers_of

COLUMNS = [
    "source",
    "dataset",
    "pictures",
    "variant",
    "method",
    "setting",
    "probe",
    "metric",
    "feature",
    "strength",
    "value",
]
COUNTS = {  # how many numbers the papers' tables have
    "Chen, Luo & Li 2021, Table 2": 3 * 3 * 4,
    "Chen, Luo & Li 2021, Table 3": 4 * 6 + 1,
    "Chen, Luo & Li 2021, Table 4": 4 * (2 * 7 - 1),  # at 20+20 one digit stands for both
    "Chen, Luo & Li 2021, notebook": 15,
    "Huang et al. 2023, Table 1": 3 * 2,
    "Huang et al. 2023, Table 2": 5 * 5 * 3,
    "Huang et al. 2023, Table 3": 5 * 4,
    "Wang & Liu 2021, Table 1": 10 * 3,
}
CANVAS = "canvas=112 placement=random train=60000"


def test_the_file_is_whole_and_has_no_number_twice():
    with published.FILE.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == COLUMNS
    assert {source: sum(row["source"] == source for row in rows) for source in COUNTS} == COUNTS
    assert len(rows) == sum(COUNTS.values()) == len({tuple(row[column] for column in COLUMNS[:-1]) for row in rows})
    for row in rows:
        assert None not in row.values() and all(value == value.strip() for value in row.values())
        assert row["metric"] in ("accuracy", "knn", "uniformity", "tolerance", "sensitivity")
        low, high = {"uniformity": (1, 4), "tolerance": (0, 1), "sensitivity": (0, 1)}.get(row["metric"], (9, 100))
        assert low <= float(row["value"]) <= high, row


def value_of(*subject, metric="accuracy"):
    *cell, feature, strength = subject
    [number] = numbers_of(Subject(*cell, "online", feature, strength, metric))
    return number.value


@pytest.mark.parametrize(
    ("subject", "value"),
    [
        (("randbit", "mnist", "", "simclr", "temperature=0.1", "digit", 10), 18.67),
        (("randbit", "mnist", "", "simclr", "temperature=0.2", "digit", 0), 89.98),
        (("randbit", "mnist", "", "simclr", "temperature=0.05", "digit", 20), 9.9),
        (("multidigits", "mnist", CANVAS, "simclr", "temperature=0.2", "digit", 16), 96.4),
        (("multidigits", "mnist", "canvas=112 placement=grid", "supervised", "", "digit", 16), 92.4),
        (("multidigits", "mnist", "canvas=112 placement=grid", "simclr", "", "digit", 1), 98.3),
        (("multidigits", "mnist", CANVAS, "untrained", "", "digit", 8), 18),
        (("multidigits", "mnist", CANVAS, "simclr", "temperature=0.05", "digit_20", "20+80"), 39.9),
        (("multidigits", "mnist", CANVAS, "simclr", "temperature=0.2", "digit_20", "20+60"), 24.9),
        (("multidigits", "mnist", CANVAS, "simclr", "temperature=0.2", "digit_60", "20+60"), 99.1),
        (("multidigits", "mnist", CANVAS, "untrained", "", "digit_70", "20+70"), 28.1),
        (("multidigits", "mnist", CANVAS, "supervised", "", "digit_20", "20+20"), 99.1),
        (("randbit", "imagenet", "", "simclr", "head=2048+2048+128 batch_size=1024 epochs=800", "image", 0), 70.9),
        (("randbit", "imagenet", "", "simclr", "head=2048+128 batch_size=512 epochs=100", "image", 0), 65.4),
        (("randbit", "cifar10", "", "memory-bank", "name=nt-xent temperature=0.3", "image", 0), 83.27),
        (("randbit", "cifar10", "", "memory-bank", "temperature=1.0", "image", 0), 82.21),
        (("randbit", "cifar10", "", "memory-bank", "name=simple", "image", 0), 74.83),
        (("randbit", "cifar10", "", "memory-bank", "name=hard-simple", "image", 0), 84.84),
        (("randbit", "cifar10", "", "simclr", "batch_size=1024", "image", 0), 83.6),
        (("randbit", "cifar10", "", "simclr", "name=macl form=b", "image", 0), 87.27),
        (("randbit", "cifar10", "", "simclr", "name=dual-temperature batch_size=128", "image", 0), 86.4),
        (("randbit", "cifar10", "", "simclr", "temperature=0.07 temperature_end=0.126", "image", 0), 88.75),
        (("randbit", "cifar100", "", "simclr", "name=dcl epochs=500", "image", 0), 63.14),
    ],
)
def test_spot_values(subject, value):
    assert value_of(*subject) == value


@pytest.mark.parametrize(
    ("method", "setting", "metric", "feature", "value"),
    [
        ("memory-bank", "name=nt-xent temperature=0.07", "uniformity", "", 3.86),
        ("memory-bank", "name=hard temperature=0.3", "tolerance", "image", 0.0267),
        ("memory-bank", "name=simple", "tolerance", "image", 0.61),
        ("simclr", "", "knn", "image", 80.28),
        ("simclr", "name=macl", "knn", "image", 85.52),
        ("simclr", "temperature=0.07", "knn", "image", 78.7),
        ("simclr", "name=dcl batch_size=64", "sensitivity", "image", 0.33),
        ("simclr", "name=macl form=b batch_size=1024", "sensitivity", "image", 0.3),
    ],
)
def test_spot_values_of_metrics(method, setting, metric, feature, value):
    assert value_of("randbit", "cifar10", "", method, setting, feature, 0, metric=metric) == value


@pytest.mark.parametrize(
    "subject",
    [
        ("randbit", "mnist", "image_size=56", "simclr", "temperature=0.1", "online", "digit", 10),
        ("randbit", "mnist", "", "simclr", "temperature=0.1", "lbfgs", "digit", 10),
        ("randbit", "mnist", "", "simclr", "temperature=0.1 precision=bf16", "online", "digit", 10),
        ("randbit", "mnist", "", "simclr", "temperature=0.1 recipe=randbit #ab12cd", "online", "digit", 10),
        ("randbit", "mnist", "", "simclr", "", "online", "digit", 10),
        ("randbit", "optdigits", "", "simclr", "temperature=0.1", "online", "digit", 10),
        ("multidigits", "mnist", "canvas=96 placement=random", "untrained", "", "lbfgs", "digit_20", "20+80"),
        ("multidigits", "mnist", "canvas=112 placement=grid", "untrained", "", "lbfgs", "digit_20", "20+80"),
        ("multidigits", "mnist", CANVAS, "untrained", "", "lbfgs", "digit_80", "20+20"),
        ("multidigits", "mnist", "canvas=56 placement=random", "untrained", "", "lbfgs", "digit", 4),
        ("multidigits", "mnist", "canvas=56 digit_size=20 placement=random", "untrained", "", "lbfgs", "digit", 4),
        ("multidigits", "mnist", "canvas=112 digit_size=20 placement=random", "untrained", "", "lbfgs", "digit", 4),
        ("randbit", "cifar10", "", "simclr", "name=dcl temperature=0.5", "lbfgs", "image", 0),
    ],
)
def test_other_cells_have_no_published_number(subject):
    assert numbers_of(Subject(*subject)) == []


def multidigits(**options):
    common = {"canvas": 112, "count": None, "digit_source": "mnist", "placement": "random", "sizes": None}
    return {"name": "multidigits", "version": 1, "options": {**common, **options}}


def table_of(*records, missing=None, paper=True):
    """The texts of all cells, the titles of the rows and the notes."""
    result = tables.accuracy_tables(study_of(list(records), missing), paper=paper)
    rows = [row for table in result.tables for row in table.rows]
    return [entry.text() for row in rows for entry in row.entries], [row.names for row in rows], " ".join(result.notes)


def test_half_the_size_has_the_number_of_twice_the_size_and_says_so():
    probes = [probe_entry(90, feature="digit_10"), probe_entry(99, feature="digit_25")]
    record = make_record(
        probes,
        dataset=multidigits(canvas=56, sizes=[10, 25]),
        strength={"key": "sizes", "value": [10, 25]},
        varied={"loss.temperature": 0.2},
    )
    texts, _, notes = table_of(record)
    assert texts == ["90.0 (87.5, +2.5)", "99.0 (99.0, +0.0)"]
    assert "Table 4, at twice the size" in notes and "a canvas of twice as many pixels" in notes


def test_a_count_of_digits_of_half_the_size_on_half_the_canvas():
    variant = "canvas=56 digit_size=14 placement=grid train=10000"
    subject = Subject("multidigits", "mnist", variant, "simclr", "temperature=0.2", "lbfgs", "digit", 16)
    [number] = numbers_of(subject)
    assert (number.value, number.source) == (98.3, "Chen, Luo & Li 2021, Table 3, at twice the size")


def randbit(right, seed=0, probe="online", temperature=0.05, **changes):
    probes = [] if right is None else [probe_entry(right, probe=probe)]
    changes = {"dataset": MNIST, "bits": 5, "varied": {"loss.temperature": temperature}, **changes}
    return make_record(probes, seed=seed, **changes)


def test_the_published_value_and_the_difference_stand_in_the_cell():
    records = [randbit(70), randbit(72, 1), randbit(None, 2, status="failed", error="why")]
    texts, names, notes = table_of(*records)
    assert texts == ["71.0 ± 1.4 (n=2) (70.6, +0.4); failed (seed 2)"] and len(names) == 1
    assert "In brackets: the published value, and ours minus it" in notes and "notebook" in notes
    lines = json.loads(tables.long_text(study_of(records), "json", paper=True))
    theirs = [{"source": "Chen, Luo & Li 2021, notebook", "percent": 70.63}]
    assert {line["seed"]: line["published"] for line in lines} == {0: theirs, 1: theirs, 2: []}
    assert "70.63 (Chen, Luo & Li 2021, notebook)" in tables.long_text(study_of(records), "csv", paper=True)


def test_without_paper_it_stands_in_a_row_of_its_own_beside_the_same_probe_on_the_same_data():
    texts, names, _ = table_of(randbit(70), paper=False)
    assert texts == ["70.0", "70.6"] and [name[1] for name in names] == ["online", "online, published"]
    optdigits = {**MNIST, "options": {"digit_source": "optdigits"}}
    for record in (randbit(70, probe="lbfgs"), randbit(70, dataset=optdigits), randbit(70, method="byol")):
        assert len(table_of(record, paper=False)[1]) == 1


def test_a_failed_cell_still_shows_the_published_value():
    counted = {"dataset": multidigits(count=4), "strength": {"key": "count", "value": 4}}
    untrained = make_record([probe_entry(30)], "untrained", **counted)
    texts, _, notes = table_of(untrained, make_record([], status="diverged", **counted))
    assert texts == ["(99.0); diverged (seed 0)", "30.0 (18.0, +12.0)"]
    assert "no temperature is published" in notes and "the paper does not describe its probe" in notes


def test_several_sources_are_numbered():
    counted = {"dataset": multidigits(count=4), "strength": {"key": "count", "value": 4}}
    texts, _, notes = table_of(make_record([probe_entry(30)], "untrained", **counted), randbit(70))
    assert texts == ["30.0 ([1] 18.0, +12.0)", "70.0 ([2] 70.6, -0.6)"]
    assert "[1] Chen, Luo & Li 2021, Table 3; [2] Chen, Luo & Li 2021, notebook" in notes


def test_nothing_published_says_so():
    record = make_record([probe_entry(70)], metrics=metrics({"digit": 20}))
    assert "No published number is known" in table_of(record)[2]
    assert "ublished" not in table_of(record, paper=False)[2]
    assert "No published metric" in " ".join(tables.metrics_tables(study_of([record]), paper=True).notes)


def cifar(**changes):
    options = {"digit_source": None, "image_source": "cifar10", "image_size": None}
    image = metrics({"image": 100}, uniformity=3.5, tolerance=0.2, sensitivity=0.29)
    dataset = {"name": "randbit", "version": 1, "options": options}
    return make_record([probe_entry(50, feature="image")], metrics=image, dataset=dataset, **changes)


def test_published_metrics_stand_beside_ours():
    records = [cifar(method="memory-bank", varied={"loss.temperature": 0.3}), cifar(varied={"loss.name": "dcl"})]
    study = study_of([*records, cifar(method="byol")])
    result = tables.metrics_tables(study, paper=True)
    rows = {row["method"]: row for row in result.tables[0].frame().to_dict("records")}
    bank, dcl, byol = (rows[name] for name in ("memory-bank temperature=0.3", "simclr name=dcl", "byol"))
    assert bank["uniformity"] == "3.50 ([2] 3.60, -0.10)" and bank["tolerance image"] == "0.200 ([2] 0.178, +0.022)"
    assert dcl["k-NN % image"] == "50.0 ([1] 83.9, -33.9)" and dcl["sensitivity image"] == "0.290 ([1] 0.309, -0.019)"
    assert not any("(" in text for text in byol.values())
    assert "[1] Huang et al. 2023, Table 2; [2] Wang & Liu 2021, Table 1" in " ".join(result.notes)
    plain = tables.metrics_tables(study)
    assert "sensitivity image" not in plain.tables[0].columns and "ublished" not in plain.markdown()
