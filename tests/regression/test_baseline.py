"""Numbers from records, and the file of a baseline: written and read back, every kind of damage refused."""

import json
from pathlib import Path

import msgspec
import pytest
from small_cells import make_record, probe_entry, write_records

from generators.dataset import UserError
from suppression_bench import suite as suites
from suppression_bench.cell import PlugIn, settings_key
from suppression_bench.regression import baseline
from suppression_bench.results import record as records

BASELINES = Path(__file__).parents[2] / "leaderboard" / "baselines"


def cells(method="simclr", seeds=range(10), **changes):
    return [make_record([probe_entry(60 + seed)], method=method, seed=seed, **changes) for seed in seeds]


def with_bits(seed, digit, *bits):
    probes = [probe_entry(right, feature=f"bit{at:02}", classes=2) for at, right in enumerate(bits)]
    return make_record([probe_entry(digit), *probes], seed=seed, bits=4)


# ---- from records ----


def test_numbers_of_records_and_a_group_as_one_of_them():
    measurements = baseline.measure([with_bits(4, 70, 90, 80), with_bits(5, 60, 10, 20)])
    digit, bits = (
        next(measured for number, measured in measurements.numbers.items() if number.feature == feature)
        for feature in ("digit", "bits")
    )
    assert (digit.n, digit.correct, bits.n, bits.correct) == (100, {4: 70, 5: 60}, 200, {4: 170, 5: 30})
    assert digit.shares([5, 4]) == [0.6, 0.7] and digit.shares() == [0.7, 0.6]
    assert not measurements.faults and len(measurements.numbers) == 2
    assert digit.names.title == "simclr bits=4" and digit.names.dataset == "randbit digit_source=optdigits"


@pytest.mark.parametrize(
    ("made", "word"),
    [
        (lambda: [*cells(seeds=[0]), make_record([], seed=1, status="diverged", error="e")], "seed=1: diverged (e)"),
        (lambda: [make_record([], seed=1, status="failed")], "failed"),
        (lambda: [make_record([])], "no probe"),
        (lambda: [*cells(seeds=[0]), *cells(seeds=[1], digest="e" * 64)], "not those of other seeds"),
        (lambda: [with_bits(0, 50, 10, 20), with_bits(1, 50, 10)], "other seeds have 200"),
        (lambda: [*cells(seeds=[0]), make_record([probe_entry(9)])], "stands twice with different numbers"),
        (lambda: [with_bits(0, 50, 10), with_bits(1, 50)], "missing for seeds 1"),
    ],
)
def test_records_that_contradict_each_other_are_faults(made, word):
    assert word in baseline.measure(made()).faults[0]


def test_the_same_record_twice_is_no_fault():
    measurements = baseline.measure(cells(seeds=[0]) * 2)
    assert not measurements.faults and len(measurements.numbers) == 1


def test_what_is_another_number_and_what_is_not():
    def numbers(*pairs):
        return len(baseline.measure([*cells(seeds=[0]), *pairs]).numbers)

    def edited(record, digest):
        mine = PlugIn(name="mine", options={}, file=digest)
        return msgspec.structs.replace(record, spec=msgspec.structs.replace(record.spec, method=mine))

    long = {"train": {"epochs": 1, "checkpoint_seconds": 1.0}, "probe": {"block_size": 9}}
    assert numbers(*cells("byol")) == 2
    assert numbers(*cells(seeds=[1], **long)) == 1, "neither can move a number"
    assert numbers(*cells(seeds=[1], train={"epochs": 2})) == 2
    first, second = cells(seeds=[0, 1])
    measurements = baseline.measure([edited(first, "a" * 64), edited(second, "b" * 64)])
    assert len(measurements.numbers) == 1, "an edited file is what a check is about"


def test_a_planned_cell_that_was_not_run_is_missing(tmp_path):
    planned = cells()
    write_records(tmp_path, planned[:9])
    records.write_plan(
        tmp_path / records.PLAN, [records.Planned(id=cell.id, folder="x", spec=cell.spec) for cell in planned]
    )
    assert baseline.read_runs([tmp_path]).faults == ["simclr bits=0 seed=9: missing, planned but not run"]
    with pytest.raises(UserError, match="none: no such folder"):
        baseline.read_runs([tmp_path / "none"])


def test_runs_that_are_no_baseline_are_named_all_at_once(tmp_path):
    lost = make_record([], method="vae", status="diverged", error="the loss was not finite at step 3")
    write_records(tmp_path, [*cells(), *cells("byol", range(4)), *cells("moco", range(9)), lost])
    with pytest.raises(UserError) as error:
        baseline.make(baseline.read_runs([tmp_path]))
    text = str(error.value)
    for part in (
        "vae bits=0 seed=0: diverged",
        "byol bits=0, digit by lbfgs: 4 of 10",
        "moco bits=0, digit by lbfgs: 9 of 10",
        "--record",
    ):
        assert part in text
    assert "simclr" not in text
    with pytest.raises(UserError, match="no cell"):
        baseline.make(baseline.Measurements())


# ---- the file ----


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "deep" / "base.json"
    baseline.write(baseline.make(baseline.measure(cells() + cells("byol"))), path)
    return path


def test_a_baseline_comes_back_as_it_was_written(file):
    recorded, read = baseline.make(baseline.measure(cells() + cells("byol"))), baseline.read(file)
    assert read.numbers.keys() == recorded.numbers.keys() and len(read.numbers) == 2 and read.seeds() == set(range(10))
    for number, measured in read.numbers.items():
        assert (measured.names, measured.digest) == (recorded.numbers[number].names, "d" * 64)
        assert (measured.n, measured.correct) == (100, {seed: 60 + seed for seed in range(10)})
    assert (read.suite.name, read.suite.version) == ("test", 1) and read.environment["device"] == ["cpu"]
    before = file.read_bytes()
    baseline.write(read, file)
    assert file.read_bytes() == before and before.count(b"\n") == 4, "one cell a line"


DAMAGE = [
    (lambda text: text[:-5], "not valid JSON"),
    (lambda text: text.replace('"n":100', '"n":NaN', 1), "NaN"),
    (lambda text: text.replace('"n":100', '"n":100,"n":100', 1), "twice"),
    (lambda text: text.replace('"n":100', '"n":100.0', 1), "100.0|not valid"),
    (lambda text: text.replace('"n":100', '"n":"100"', 1), r"int.*cells\[0\].n"),
    (lambda text: text.replace('"n":100', '"m":100', 1), r"`m`.*cells\[0\]"),
    (lambda text: text.replace('"n":100', '"n":0', 1), "1"),
    (lambda text: text.replace('"schema":1', '"schema":2', 1), "schema"),
    (lambda text: text.replace('"correct":[60', '"correct":[101', 1), r"101 of 100.*cells\[0\]"),
    (lambda text: text.replace(",69]", ",101]", 1), "101 of 100"),
    (lambda text: text.replace('"correct":[60', '"correct":[-1', 1), "correct"),
    (lambda text: text.replace('"correct":[60,', '"correct":[', 1), "10 seeds but 9 values"),
    (lambda text: text.replace('"correct":[60,', '"correct":[').replace('"seeds":[0,', '"seeds":['), "9 seeds"),
    (lambda text: text.replace('"seeds":[0,', '"seeds":[1,', 1), "a seed stands twice"),
    (lambda text: text.replace('"seeds":[0,1,', '"seeds":[0,true,', 1), "seeds"),
    (lambda text: text.replace('"digest":"d', '"digest":"', 1), "digest"),
    (lambda text: text.replace('"version":1}', '"version":true}', 1), "suite.version"),
    (lambda text: text.replace('"device":["cpu"]', '"device":"cpu"', 1), r"environment"),
    (lambda text: text.split("[\n")[0] + "[]}", "no cell"),
    (lambda text: "[]", "object"),
]


@pytest.mark.parametrize(("damage", "word"), DAMAGE, ids=[word for _, word in DAMAGE])
def test_a_damaged_baseline_is_refused(file, damage, word):
    text = file.read_text()
    assert damage(text) != text, "the damage must do something"
    file.write_text(damage(text))
    with pytest.raises(UserError, match=word) as error:
        baseline.read(file)
    assert str(file) in str(error.value)


def test_a_number_that_stands_twice_and_a_file_too_large(file, monkeypatch):
    content = json.loads(file.read_text())
    first, second = content["cells"]
    second["settings"] = first["settings"]
    file.write_text(json.dumps(content))
    with pytest.raises(UserError, match="cell 1 stands twice"):
        baseline.read(file)
    monkeypatch.setattr(baseline, "LARGEST", 10)
    with pytest.raises(UserError, match="over 10 bytes"):
        baseline.read(file)
    with pytest.raises(UserError, match="no such file; make one"):
        baseline.read(file.parent / "none.json")


def test_the_committed_baseline_is_of_its_suite():
    """A changed recipe, suite or default makes other settings: then the baseline is recorded anew."""
    suite = {settings_key(located.cell, code=False) for located in suites.cells_of_suite("quick", suites.Request())}
    recorded = baseline.read(BASELINES / "quick.json")
    assert {number.settings for number in recorded.numbers} == suite
