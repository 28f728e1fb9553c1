"""How long cells take: from records of the same kind, by a measurement, and what fits into a budget."""

import pytest
from small_cells import CPU, make_cell

from generators import pending, sources
from generators.dataset import UserError
from suppression_bench import budget, estimate, outlook, runner, stand_in
from suppression_bench import cell as cells
from suppression_bench.estimate import FINISHED, MEASURED, SETUP, SIMILAR, Estimate, Estimator
from suppression_bench.results import record
from suppression_bench.spec import Origin, make_cells
from suppression_bench.suite import Request, cells_of_suite


def refuse(*arguments):
    raise AssertionError("there are records, nothing has to be measured")


def finish(cell, out, seconds, **run_part):
    """The record of a cell, with other times than it took."""
    folder = out / "cells" / cell.folder_name
    if not (folder / record.NAME).exists():
        cells.run(cell, folder, CPU)
    made = record.read(folder / record.NAME)
    made["run"] |= {"seconds": seconds, **run_part}
    record.write(folder, made)
    return made


def test_a_finished_cell_costs_nothing_and_another_seed_what_it_took(randbit, tmp_path):
    done, other = (make_cell("untrained", randbit, seed=seed) for seed in (0, 1))
    finish(done, tmp_path, 12.5)
    estimator = Estimator(tmp_path, CPU, 1, refuse)
    assert estimator.of(done) == Estimate(0.0, FINISHED)
    assert estimator.of(other) == Estimate(12.5, SETUP)


def test_more_steps_are_scaled_and_the_probes_are_not(randbit, tmp_path):
    done, longer = (make_cell("simclr", randbit, train__steps=steps) for steps in (4, 12))
    finish(done, tmp_path, 10.0, images_per_second=20.0)  # 4 steps of 40 are 8 seconds, 2 are for the rest
    found = Estimator(tmp_path, CPU, 1, refuse).of(longer)
    assert found == Estimate(2.0 + 24.0, SIMILAR)


def test_a_temperature_makes_no_difference_and_bits_do(randbit, tmp_path):
    done = make_cell("simclr", randbit)
    finish(done, tmp_path, 10.0)
    estimator = Estimator(tmp_path, CPU, 1, refuse)
    assert estimator.of(make_cell("simclr", randbit, loss__temperature=0.5)) == Estimate(10.0, SETUP)
    assert estimator.of(make_cell("simclr", randbit, data__bits=4)).source == SIMILAR


@pytest.mark.parametrize(
    "change", [{"resumes": 1}, {"status": "failed", "error": "why"}, {"status": "diverged", "error": "why"}]
)
def test_times_of_cells_that_did_not_run_through_are_left_out(randbit, tmp_path, change):
    done = make_cell("simclr", randbit)
    finish(done, tmp_path, 10.0, **change)
    estimator = Estimator(tmp_path, CPU, 1, lambda *arguments: 3.0)
    assert estimator.of(make_cell("simclr", randbit, seed=1)) == Estimate(3.0, MEASURED)
    assert estimator.of(done).source == (MEASURED if "failed" in change.values() else FINISHED)


def test_records_that_come_while_it_is_asked_count(randbit, tmp_path):
    first, second = (make_cell("untrained", randbit, seed=seed) for seed in (0, 1))
    asked = []
    estimator = Estimator(tmp_path, CPU, 1, lambda *arguments: asked.append(arguments) or 3.0)
    assert [estimator.of(one).source for one in (first, second)] == [MEASURED, MEASURED]
    assert len(asked) == 1, "two seeds are measured once"
    finish(first, tmp_path, 7.0)
    assert [estimator.of(one) for one in (first, second)] == [Estimate(0.0, FINISHED), Estimate(7.0, SETUP)]


def test_a_method_that_fails_has_no_time(randbit, tmp_path):
    def fail(*arguments):
        raise ValueError("I would rather not")

    found = Estimator(tmp_path, CPU, 1, fail).of(make_cell("simclr", randbit))
    assert found.seconds is None and "ValueError: I would rather not" in found.source


def of_dataset(method="simclr", **options):
    layers = [("test", {f"data.{key}": value for key, value in options.items()})]
    layers.append(("test", {"train.steps": 50, "train.batch_size": 20, "train.warmup_epochs": 0, "probe.l2": [0.01]}))
    [made], faults = make_cells(method, "randbit-small", layers, [0], Origin("test", strength=None))
    assert not faults
    return made


def test_data_that_are_not_there_are_estimated_without_making_them(tmp_path, monkeypatch):
    monkeypatch.setenv("SUPPRESSION_BENCH_CACHE", str(tmp_path / "cache"))
    cell = of_dataset(dataset="randbit", digit_source="optdigits", train=60, test=30)
    estimator = Estimator(tmp_path / "out", CPU, 1)
    place = estimator.place(cell)
    assert not place.is_there and place.counts == {"pretrain": 60, "probe-test": 30}
    found = estimator.of(cell)
    assert found.source == MEASURED and found.seconds > 0
    said = outlook.describe([cell], estimator, 1, None, lambda done: None)
    assert "would be generated, about" in said and f"1 {MEASURED}" in said
    assert list(tmp_path.iterdir()) == []
    # Once they are there and the cell is done, it is known again, digest and all.
    runner.prepare([cell], 1, lambda line: None)
    finish(cell, tmp_path / "out", 5.0)
    again = of_dataset(dataset="randbit", digit_source="optdigits", train=60, test=30)
    assert Estimator(tmp_path / "out", CPU, 1, refuse).of(again).source == FINISHED


@pytest.mark.parametrize("method", ["byol", "vae", "supervised", "memory_bank", "swav", "untrained"])
def test_every_kind_of_method_can_be_measured(method):
    cell = of_dataset(method, dataset="multidigits", sizes=[10, 20], canvas=32, train=60, probe_train=50, probe_test=40)
    place = runner.locate(cell)
    assert 0 < stand_in.seconds(cell, place.facts, place.counts, CPU) < 600


def test_steps_and_probes_are_counted_in_proportion(monkeypatch):
    cell = of_dataset(dataset="randbit", digit_source="optdigits", train=60, test=30)
    place = runner.locate(cell)
    monkeypatch.setattr(stand_in, "_step", lambda cell, method, data, device: 0.25 * data.count)
    monkeypatch.setattr(stand_in, "_probes", lambda *arguments: 3.0)
    assert stand_in.seconds(cell, place.facts, place.counts, CPU) == 0.25 * 20 * 50 + 3.0


def test_a_stand_in_has_the_labels_of_its_dataset():
    cell = of_dataset(dataset="randbit", digit_source="optdigits", bits=3)
    data = stand_in.StandIn(runner.locate(cell).facts, 3, 50)
    assert list(data.probes()) == ["digit", "bit00", "bit01", "bit02"] == list(data.targets())
    samples = data.samples("pretrain")
    assert samples.images.shape == (50, 1, 28, 28) and samples.bits.shape == (50, 3)
    assert (data.labels("pretrain", "bit01") == samples.bits[:, 1].numpy()).all()
    assert set(data.labels("probe-test", "digit")) <= set(range(10))


def test_a_source_that_has_to_come_first_is_named(tmp_path, monkeypatch):
    from PIL import Image

    monkeypatch.setenv("SUPPRESSION_BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sources, "download_mnist", refuse)
    [cell, *_] = cells_of_suite("randbit-mnist", Request(tier="quick"))
    found = Estimator(tmp_path / "out", CPU, 1).of(cell)
    assert found.seconds is None and "MNIST would be downloaded first" in found.source
    for part in ("train", "val"):
        (tmp_path / "pictures" / part / "one").mkdir(parents=True)
        Image.new("RGB", (40, 40)).save(tmp_path / "pictures" / part / "one" / "a.png")
    folder = f"folder:{tmp_path / 'pictures'}"
    assert "all 2 images of" in pending.pending(folder)
    own = of_dataset(dataset="digit-on-imagenet", image_source=folder, image_size=32)
    assert "all 2 images of" in outlook.describe([own], Estimator(tmp_path / "out", CPU, 1), 1, None, lambda done: None)
    assert not (tmp_path / "cache").exists()
    own = runner.locate(own)  # which reads them
    assert own.counts["pretrain"] == 1 and pending.pending(folder) == ""


def test_a_plan_with_several_workers_and_a_budget():
    known = [Estimate(seconds, SETUP) for seconds in (4.0, 1.0, 1.0, 1.0)]
    assert estimate.together([one.seconds for one in known], 2) == 4.0
    assert outlook._fitting(known, 1, 6.0) == 3 and outlook._fitting(known, 2, 3.0) == 3
    assert outlook._fitting([Estimate(9.0, SETUP), *known], 1, 7.0) == 4


@pytest.mark.parametrize("text", ["", "30", "m", "-3m", "3 m", "1e3s", "soon", "30min", "0s", "1..5h"])
def test_an_unreadable_budget_is_a_sentence(text):
    with pytest.raises(UserError, match="--budget"):
        budget.seconds(text)


def test_a_budget_admits_by_the_clock():
    now = [0.0]
    limit = budget.Budget(10.0, lambda cell: cell, 0.0, lambda: now[0])
    assert limit.admits(10) and limit.admits(None) and not limit.admits(10.5)
    now[0] = 8.0
    assert limit.admits(2) and not limit.admits(2.5) and limit.admits(None)
    now[0] = 11.0
    assert limit.admits(0), "a finished cell costs nothing"
    assert not limit.admits(None) and not limit.admits(1)
    assert limit.left_out == [(10.5, 10.5), (2.5, 2.5), (None, None), (1, 1)]
