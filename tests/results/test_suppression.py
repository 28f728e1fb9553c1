"""Retention, suppression index, half point, score and their intervals: against naive writings and values by hand."""

import math
import statistics
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from suppression_bench.results import suppression

shares = st.floats(-0.5, 1.5, allow_nan=False)


def test_retention_by_hand():
    assert suppression.retention(0.46, chance=0.1, ceiling=0.9) == pytest.approx(0.45)
    assert suppression.retention(0.05, chance=0.1, ceiling=0.9) < 0  # below chance stays visible
    assert suppression.retention(0.95, chance=0.1, ceiling=0.9) > 1
    assert suppression.retention(0.5, chance=0.5, ceiling=0.55) is not None
    assert suppression.retention(0.5, chance=0.5, ceiling=0.549) is None
    assert suppression.retention(0.2, chance=0.5, ceiling=0.3) is None


@given(st.lists(shares, min_size=1, max_size=8))
def test_the_index_is_one_minus_the_mean_of_cut_retentions(values):
    naive = 1 - statistics.fmean(0 if v < 0 else 1 if v > 1 else v for v in values)
    assert suppression.suppression_index(values) == pytest.approx(naive)
    assert suppression.suppression_index([*values, None]) is None


def test_no_strength_has_no_index():
    assert suppression.suppression_index([]) is None and suppression.score([]) is None
    assert suppression.worst([]) is None and suppression.half_point([], []) is None


def naive_half(strengths, values):
    # Walk the line in ten thousand steps a piece.
    for (a, va), (b, vb) in zip(
        zip(strengths, values, strict=True), zip(strengths[1:], values[1:], strict=True), strict=False
    ):
        for step in range(10_001):
            if va + (vb - va) * step / 10_000 <= 0.5:
                return a + (b - a) * step / 10_000
    return math.inf


@given(st.lists(shares, min_size=2, max_size=6))
def test_the_half_point_is_where_the_line_first_reaches_one_half(values):
    strengths = [3 * i for i in range(len(values))]
    assert suppression.half_point(strengths, values) == pytest.approx(naive_half(strengths, values), abs=1e-3)


def test_the_half_point_by_hand():
    assert suppression.half_point([0, 5, 10], [1.0, 0.75, 0.25]) == 7.5
    assert suppression.half_point([5, 10], [0.4, 0.9]) == 5.0
    assert suppression.half_point([0, 5], [1.0, 0.6]) == math.inf
    assert suppression.half_point([0, 5, 10], [1.0, None, 0.2]) is None
    assert suppression.half_point([0, 5, 10], [1.0, 0.2, None]) == pytest.approx(3.125)


def test_the_score_is_the_worst_features():
    assert suppression.score([[1.0, 0.5], [0.2, 3.0]]) == pytest.approx(0.35)
    assert suppression.score([[1.0, -0.5], [1.0, 0.0]]) == 0.0  # the competitor thrown away
    assert suppression.score([[1.0, None]]) is None


def test_the_resamples_are_those_of_the_stream_in_any_order():
    positions, times = suppression.resamples(3, draws=30_000)
    assert positions.shape == (10, 3) and times.sum() == 30_000 and (np.diff(positions) >= 0).all()
    # A resample is drawn in as many orders as it has: 1, 3 or 6 of 27.
    orders = [6 if len(set(row)) == 3 else 3 if len(set(row)) == 2 else 1 for row in positions.tolist()]
    assert (times / 30_000).tolist() == pytest.approx([n / 27 for n in orders], abs=0.01)
    assert (suppression.resamples(3)[1] == suppression.resamples(3)[1]).all()


@pytest.mark.parametrize("values", [[0.5, 0.6, 0.8], [0.1, 0.2, 0.4, 0.8], [0.91, 0.93, 0.9, 0.95, 0.94, 0.9, 0.92]])
def test_the_interval_of_a_mean_is_students(values):
    low, high = suppression.interval(len(values), lambda seeds: np.array(values)[seeds].mean(), draws=50_000)
    student = stats.t.interval(0.95, len(values) - 1, loc=np.mean(values), scale=stats.sem(values))
    assert (low, high) == pytest.approx(student, abs=0.02 * (student[1] - student[0]))


def test_the_interval_by_hand():
    # Three values a step of .1 apart: mean .6, SD .1, and t of two degrees of freedom 4.3027: .6 +- 4.3027 * .1 / sqrt(3).
    values = np.array([0.5, 0.6, 0.7])
    assert suppression.interval(3, lambda seeds: values[seeds].mean(), draws=100_000) == pytest.approx(
        (0.3516, 0.8484), abs=0.002
    )
    low, high = suppression.interval(3, lambda seeds: values[seeds].mean(), limits=(0.4, 0.7))
    assert (low, high) == (0.4, 0.7)


def test_an_interval_that_is_none_and_one_without_width():
    assert suppression.interval(1, lambda seeds: 1.0) is None
    assert suppression.interval(3, lambda seeds: None if 2 in seeds else 1.0) is None
    assert suppression.interval(3, lambda seeds: None) is None
    assert suppression.interval(3, lambda seeds: 0.5) == (0.5, 0.5)


def test_the_half_points_interval_by_hand():
    # Lower ends 1, .75, .25 cross one half at 7.5; upper ends 1, .9, .7 never do.
    ends = [(1.0, 1.0), (0.75, 0.9), (0.25, 0.7)]
    assert suppression.half_point_interval([0, 5, 10], ends) == (7.5, math.inf)
    assert suppression.half_point_interval([0, 5, 10], [(1.0, 1.0), (0.4, 0.6), (0.2, 0.3)]) == (
        pytest.approx(5 * 0.5 / 0.6),
        pytest.approx(5 + 5 * 0.1 / 0.3),
    )
    assert suppression.half_point_interval([0, 5], [(1.0, 1.0), None]) is None


SIMULATION = spec_from_file_location("coverage", Path(__file__).parents[2] / "benchmarks" / "coverage.py")
coverage = module_from_spec(SIMULATION)
SIMULATION.loader.exec_module(coverage)


@pytest.mark.parametrize("profile", ["open", "edge"])
@pytest.mark.parametrize("name", ["retention", "SI", "score"])
def test_an_interval_of_three_seeds_holds_the_true_value_as_often_as_it_says(name, profile):
    for noise in ("normal", "skewed"):
        share, _ = coverage.coverage(name, coverage.in_use, profile, noise, 0.02, 3, experiments=1000)
        assert 0.90 <= share <= 0.98, noise


def test_five_seeds_and_the_half_point_too_and_a_percentile_interval_does_not():
    assert 0.90 <= coverage.coverage("SI", coverage.in_use, "open", "skewed", 0.02, 5, experiments=500)[0] <= 0.98
    assert coverage.coverage("s50", None, "open", "normal", 0.02, 3, experiments=500)[0] >= 0.90
    assert coverage.coverage("SI", coverage.percentile, "open", "normal", 0.02, 3, experiments=500)[0] < 0.85


def test_the_simulations_true_means_and_noise_are_what_they_say():
    for name, shape in coverage.NOISES.items():
        even = shape((np.arange(200_000) + 0.5) / 200_000)
        assert even.mean() == pytest.approx(0, abs=0.01), name
        assert even.std() == pytest.approx(1, abs=0.01), name
    values, true = coverage.accuracies("edge", "normal", 0.05, 3, 20_000)
    assert values.mean(axis=(0, 1)) == pytest.approx(true, abs=0.001) and values.max() == 1.0
