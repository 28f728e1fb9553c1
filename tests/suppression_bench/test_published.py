"""The papers' numbers: the data against values typed here from the papers, and which cells they stand beside."""

import csv
import json

import pytest
from small_cells import make_record, probe_entry, write_records

from suppression_bench.cli import main
from suppression_bench.results import published, tables
from suppression_bench.results.frame import long_table
from suppression_bench.results.published import Place, find

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
FILES = {  # file -> rows: how many numbers the papers' tables have
    "cifar10-macl.csv": 5 * 5 * 3 + 3 * 2,
    "cifar10-temperature.csv": 10 * 3,
    "cifar100-macl.csv": 5 * 4,
    "imagenet-heads.csv": 3 * 3 * 4,
    "multidigits-count.csv": 4 * 6 + 1,
    "multidigits-sizes.csv": 4 * (2 * 7 - 1),  # at 20+20 one digit stands for both
    "randbit-mnist.csv": 15,
}
CANVAS = "canvas=112 placement=random train=60000"


def rows(name):
    with (published.REFERENCE / name).open(newline="") as file:
        return list(csv.DictReader(file))


def test_every_file_is_whole_and_has_no_number_twice():
    assert sorted(path.name for path in published.REFERENCE.iterdir()) == sorted(FILES)
    seen = set()
    for name, count in FILES.items():
        found = rows(name)
        assert len(found) == count and list(found[0]) == COLUMNS, name
        for row in found:
            key = tuple(row[column] for column in COLUMNS[:-1])
            assert key not in seen, key
            seen.add(key)
            assert None not in row.values() and all(value == value.strip() for value in row.values())
            assert row["metric"] in ("accuracy", "knn", "uniformity", "tolerance", "sensitivity")
            low, high = {"uniformity": (1, 4), "tolerance": (0, 1), "sensitivity": (0, 1)}.get(row["metric"], (9, 100))
            assert low <= float(row["value"]) <= high, row


def one(*place, metric="accuracy"):
    dataset, pictures, variant, method, setting, feature, strength = place
    [number] = find(Place(dataset, pictures, variant, method, setting, "online", feature, strength, metric))
    return number.value


@pytest.mark.parametrize(
    ("place", "value"),
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
def test_spot_values(place, value):
    assert one(*place) == value


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
    assert one("randbit", "cifar10", "", method, setting, feature, 0, metric=metric) == value


@pytest.mark.parametrize(
    "place",
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
def test_other_cells_have_no_published_number(place):
    assert find(Place(*place)) == []


def test_half_the_size_has_the_number_of_twice_the_size_and_says_so(tmp_path):
    data = {"dataset": "multidigits", "version": 1, "seed": 0, "digest": "a" * 64, "bits": 0}
    data["options"] = {"canvas": 56, "count": None, "digit_source": "mnist", "placement": "random", "sizes": [10, 25]}
    own = dict(data=data, strength={"key": "sizes", "value": [10, 25]}, varied={"loss.temperature": 0.2})
    made = make_record([probe_entry(90, feature="digit_10"), probe_entry(99, feature="digit_25")], **own)
    text = tables.render(long_table([write_records(tmp_path, [made])]), "markdown", paper=True)
    assert "90.0 (87.5, +2.5)" in text and "99.0 (99.0, +0.0)" in text
    assert "Table 4, at twice the size" in text and "a canvas of twice as many pixels" in text


def test_a_count_of_digits_of_half_the_size_on_half_the_canvas():
    variant = "canvas=56 digit_size=14 placement=grid train=10000"
    [found] = find(Place("multidigits", "mnist", variant, "simclr", "temperature=0.2", "lbfgs", "digit", 16))
    assert (found.value, found.source) == (98.3, "Chen, Luo & Li 2021, Table 3, at twice the size")


MNIST = {
    "dataset": "randbit", "version": 1, "options": {"digit_source": "mnist"}, "seed": 0, "digest": "e" * 64, "bits": 5,
}  # fmt: skip


def randbit(right, seed=0, **more):
    return make_record(
        [probe_entry(right, probe="online")], bits=5, data=MNIST, varied={"loss.temperature": 0.05}, seed=seed, **more
    )


def test_the_published_value_and_the_difference_stand_in_the_cell(tmp_path, capsys):
    folder = str(write_records(tmp_path, [randbit(70), randbit(72, seed=1), make_record([], seed=2, bits=5, data=MNIST,
                               varied={"loss.temperature": 0.05}, status="failed", error="why")]))  # fmt: skip
    expected = {
        "markdown": "71.0 ± 1.4 (n=2) (70.6, +0.4); failed (seed 2)",
        "csv": "71.0 ± 1.4 (n=2) (70.6, +0.4); failed (seed 2)",
        "latex": r"71.0 $\pm$ 1.4 (n=2) (70.6, +0.4); failed (seed 2)",
        "html": '71.0 ± 1.4 (n=2) <span class="published">(70.6, +0.4)</span>; <em class="lost">failed (seed 2)</em>',
    }
    for form, cell in expected.items():
        assert main(["table", folder, "--paper", "--format", form]) == 0
        said = capsys.readouterr().out
        assert cell in said and "online, published" not in said, form
        if form != "csv":
            assert "In brackets: the published value, and ours minus it" in said and "notebook" in said, form
    assert main(["table", folder, "--paper", "--format", "json"]) == 0
    lines = json.loads(capsys.readouterr().out)
    theirs = [{"source": "Chen, Luo & Li 2021, notebook", "percent": 70.63}]
    assert {line["seed"]: line["published"] for line in lines} == {0: theirs, 1: theirs, 2: []}
    assert main(["table", folder, "--paper", "--long"]) == 0
    assert "70.63 (Chen, Luo & Li 2021, notebook)" in capsys.readouterr().out


def test_without_paper_they_stand_in_rows_of_their_own(tmp_path):
    frame = long_table([write_records(tmp_path, [randbit(70)])])
    [(_, table)] = tables.pivot(frame)
    assert table["probe"].tolist() == ["online", "online, published"] and table["digit @5"].tolist() == ["70.0", "70.6"]
    [(_, table)] = tables.pivot(frame, paper=True)
    assert table["digit @5"].tolist() == ["70.0 (70.6, -0.6)"]


def test_a_failed_cell_still_shows_the_published_value(tmp_path):
    data = {"dataset": "multidigits", "version": 1, "seed": 0, "digest": "a" * 64, "bits": 0}
    data["options"] = {"canvas": 112, "count": 4, "digit_source": "mnist", "placement": "random", "sizes": None}
    own = dict(data=data, strength={"key": "count", "value": 4})
    made = [make_record([probe_entry(30)], method="untrained", **own), make_record([], status="diverged", **own)]
    text = tables.render(long_table([write_records(tmp_path, made)]), "markdown", paper=True)
    assert "(99.0); diverged (seed 0)" in text and "30.0 (18.0, +12.0)" in text
    assert "no temperature is published" in text and "the paper does not describe its probe" in text


def test_several_sources_are_numbered(tmp_path):
    data = {"dataset": "multidigits", "version": 1, "seed": 0, "digest": "a" * 64, "bits": 0}
    data["options"] = {"canvas": 112, "count": 4, "digit_source": "mnist", "placement": "random", "sizes": None}
    own = make_record([probe_entry(30)], method="untrained", data=data, strength={"key": "count", "value": 4})
    frame = long_table([write_records(tmp_path, [own, randbit(70)])])
    text = tables.render(frame, "markdown", paper=True)
    assert "30.0 ([1] 18.0, +12.0)" in text and "70.0 ([2] 70.6, -0.6)" in text
    assert "[1] Chen, Luo & Li 2021, Table 3; [2] Chen, Luo & Li 2021, notebook" in text


def test_nothing_published_says_so(tmp_path):
    frame = long_table([write_records(tmp_path, [make_record([probe_entry(70)])])])
    assert "No published number is known" in tables.render(frame, "markdown", paper=True)
    assert "ublished" not in tables.render(frame, "markdown")
