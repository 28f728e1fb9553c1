"""The forecast: from finished records of the same setting, by the first steps of a cell, and what fits into a budget."""

import msgspec
import pytest
from small_cells import CPU, make_cell

from generators import sources
from generators.dataset import UserError
from suppression_bench import forecast
from suppression_bench import run as running
from suppression_bench.config import Faults, Origin, compose
from suppression_bench.forecast import FINISHED, MEASURED, RECORDED, UNKNOWN, UNTRAINED, Estimate, Forecast
from suppression_bench.results import record as records
from suppression_bench.suite import Request, cells_of_suite


@pytest.fixture(autouse=True)
def one_thread_records(monkeypatch):
    """Records say how many threads ran: here one, as the forecasts below ask."""
    monkeypatch.setattr(running.provenance.torch, "get_num_threads", lambda: 1)


def finish(prepared, out, seconds, **run_part):
    """The record of a cell, with other times than it took."""
    folder = out / "cells" / prepared.cell.folder_name
    record = running.run(prepared, folder, CPU)
    changed = msgspec.structs.replace(record.run, seconds=seconds, **run_part)
    records.write(folder, msgspec.structs.replace(record, run=changed))


def of(out, cell, **options):
    return Forecast(out, options.get("others", []), CPU, 1, options.get("measured", False)).of(cell.located)


def test_a_finished_cell_costs_nothing_and_another_seed_what_it_took(randbit, tmp_path):
    first, second = (make_cell("untrained", randbit, seed=seed) for seed in (0, 1))
    finish(first, tmp_path, 12.5)
    assert of(tmp_path, first) == Estimate(0.0, FINISHED)
    assert of(tmp_path, second) == Estimate(12.5, RECORDED)
    assert of(tmp_path, make_cell("untrained", randbit, data__bits=4)) == Estimate(None, UNKNOWN)


def test_records_of_other_folders_count_for_the_time_alone(randbit, tmp_path):
    first = make_cell("untrained", randbit)
    finish(first, tmp_path / "old", 3.0)
    assert of(tmp_path / "new", first, others=[tmp_path / "old"]) == Estimate(3.0, RECORDED)


@pytest.mark.parametrize(
    "change", [{"resumes": 1}, {"status": "failed", "error": "why"}, {"status": "diverged", "error": "why"}]
)
def test_times_of_cells_that_did_not_run_through_are_left_out(randbit, tmp_path, change):
    prepared = make_cell("simclr", randbit)
    finish(prepared, tmp_path, 10.0, **change)
    assert of(tmp_path, make_cell("simclr", randbit, seed=1)) == Estimate(None, UNKNOWN)
    assert of(tmp_path, prepared).source == (UNKNOWN if "failed" in change.values() else FINISHED)


def test_records_that_come_while_it_is_asked_count(randbit, tmp_path):
    first, second = (make_cell("untrained", randbit, seed=seed) for seed in (0, 1))
    outlook = Forecast(tmp_path, [], CPU, 1, False)
    assert [outlook.of(cell.located).source for cell in (first, second)] == [UNKNOWN, UNKNOWN]
    finish(first, tmp_path, 7.0)
    estimates = [outlook.of(cell.located) for cell in (first, second)]
    assert estimates == [Estimate(0.0, FINISHED), Estimate(7.0, RECORDED)]


def test_the_first_steps_of_a_cell_are_counted_for_all_of_them(randbit, tmp_path, monkeypatch):
    monkeypatch.setattr(forecast._Clock, "seconds_per_step", lambda clock: 0.5 + 0 * len(clock.times))
    found = of(tmp_path, make_cell("simclr", randbit, train__steps=40), measured=True)
    assert found == Estimate(20.0, MEASURED) and list(tmp_path.iterdir()) == []


def test_without_training_there_is_no_step_to_time(randbit, tmp_path):
    assert of(tmp_path, make_cell("untrained", randbit), measured=True) == Estimate(None, UNTRAINED)


@pytest.mark.parametrize("method", ["byol", "vae", "supervised", "swav"])
def test_every_kind_of_method_can_be_measured(randbit, tmp_path, method):
    found = of(tmp_path, make_cell(method, randbit, train__warmup_epochs=1), measured=True)
    assert found.source == MEASURED and 0 <= found.seconds < 60


FAILING = '''
"""Failing."""
from suppression_bench.method import Method

class Failing(Method):
    def loss(self, batch):
        raise ValueError("I would rather not")
'''


def test_a_method_that_fails_has_no_time(randbit, tmp_path):
    (tmp_path / "failing.py").write_text(FAILING)
    found = of(tmp_path / "out", make_cell(str(tmp_path / "failing.py"), randbit), measured=True)
    assert found.seconds is None and "ValueError: I would rather not" in found.source


def of_dataset(**options):
    layers = [("test", {f"data.{key}": value for key, value in options.items()}), ("test", {"train.steps": 5})]
    faults = Faults()
    [located] = compose("simclr", "randbit-small", layers, [0], Origin("test"), faults)
    faults.raise_if_any()
    return located


def test_a_dry_run_makes_no_data_and_says_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("SUPPRESSION_BENCH_CACHE", str(tmp_path / "cache"))
    located = of_dataset(dataset="randbit", digit_source="optdigits", train=60, test=30)
    outlook = Forecast(tmp_path / "out", [], CPU, 1, True)
    assert outlook.of(located).seconds is None
    text = forecast.describe([located], outlook, 1, None)
    assert "(90 samples): would be generated, about" in text and list(tmp_path.iterdir()) == []


def test_a_source_that_has_to_come_first_is_named(tmp_path, monkeypatch):
    from PIL import Image

    def refuse(*arguments):
        raise AssertionError("nothing is downloaded by a forecast")

    monkeypatch.setenv("SUPPRESSION_BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sources, "download_mnist", refuse)
    cells = cells_of_suite("randbit-mnist", Request(tier="quick"))
    outlook = Forecast(tmp_path / "out", [], CPU, 1, False)
    assert "MNIST would be downloaded first" in forecast.describe(cells, outlook, 1, None)
    for part in ("train", "val"):
        (tmp_path / "images" / part / "one").mkdir(parents=True)
        Image.new("RGB", (40, 40)).save(tmp_path / "images" / part / "one" / "a.png")
    folder = f"folder:{tmp_path / 'images'}"
    assert sources.pending(folder)
    located = of_dataset(dataset="digit-on-imagenet", image_source=folder, image_size=32)
    assert sources.pending(folder) in forecast.describe([located], outlook, 1, None)
    assert not (tmp_path / "cache").exists()


def test_seeds_of_one_cell_are_one_line(randbit, tmp_path):
    cells = [make_cell("untrained", randbit, seed=seed).located for seed in (0, 1, 2)]
    text = forecast.describe(cells, Forecast(tmp_path, [], CPU, 1, False), 1, None)
    assert text.count("untrained") == 1 and "0, 1, 2" in text and "3 unknown" in text


def test_a_plan_with_several_workers_and_a_budget():
    estimates = [Estimate(seconds, RECORDED) for seconds in (4.0, 1.0, 1.0, 1.0)]
    assert forecast.makespan([estimate.seconds for estimate in estimates], 2) == 4.0
    assert forecast._count_fitting(estimates, 1, 6.0) == 3 and forecast._count_fitting(estimates, 2, 3.0) == 3
    assert forecast._count_fitting([Estimate(9.0, RECORDED), *estimates], 1, 7.0) == 4


@pytest.mark.parametrize("text", ["", "30", "m", "-3m", "3 m", "1e3s", "soon", "30min", "0s", "1..5h"])
def test_an_unreadable_budget_is_a_sentence(text):
    with pytest.raises(UserError, match="--budget"):
        forecast.seconds_of(text)


def test_a_budget_admits_by_the_clock():
    now = [0.0]
    budget = forecast.Budget(10.0, lambda cell: cell, 0.0, lambda: now[0])
    assert budget.admits(10) and budget.admits(None) and not budget.admits(10.5)
    now[0] = 8.0
    assert budget.admits(2) and not budget.admits(2.5) and budget.admits(None)
    now[0] = 11.0
    assert budget.admits(0), "a finished cell costs nothing"
    assert not budget.admits(None) and not budget.admits(1)
    assert budget.skipped == [(10.5, 10.5), (2.5, 2.5), (None, None), (1, 1)]
