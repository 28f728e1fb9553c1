"""Retention, suppression index, half point, score and their intervals: against naive writings and values by hand."""

import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from suppression_bench.evaluation import suppression

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
    found, naive = suppression.half_point(strengths, values), naive_half(strengths, values)
    assert found == pytest.approx(naive, abs=1e-3)


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


def test_an_interval_is_the_middle_of_the_resamples():
    values = np.array([0.1, 0.2, 0.4, 0.8])
    low, high = suppression.interval(4, lambda seeds: values[seeds].mean(), draws=4000)
    # The exact distribution: all 4^4 resamples are alike.
    exact = sorted(values[list(np.unravel_index(i, (4,) * 4))].mean() for i in range(256))
    assert low == pytest.approx(np.quantile(exact, 0.025), abs=0.03)
    assert high == pytest.approx(np.quantile(exact, 0.975), abs=0.03)
    again = suppression.interval(4, lambda seeds: values[seeds].mean(), draws=4000)
    assert (low, high) == again
    assert suppression.interval(1, lambda seeds: 1.0) is None
    assert suppression.interval(3, lambda seeds: None if 2 in seeds else 1.0) is None
    assert suppression.interval(3, lambda seeds: 0.5) == (0.5, 0.5)
