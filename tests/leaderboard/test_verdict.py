"""Prediction intervals against a second writing and simulation; a verdict that neither cries wolf nor excuses a gross miss."""

import math

import msgspec
import numpy as np
import pytest
from scipy import stats
from small_cells import make_record, probe_entry
from small_entries import rerun

from suppression_bench.leaderboard import verdict


def naive(values, n, level):
    mean = sum(values) / len(values)
    variance = sum((value - mean) ** 2 for value in values) / (len(values) - 1)
    variance = max(variance, mean * (1 - mean) / n)
    half = stats.t.ppf(1 - (1 - level) / 2, len(values) - 1) * math.sqrt(variance) * math.sqrt(1 + 1 / len(values))
    half = max(half, 0.02)
    return max(0, mean - half), min(1, mean + half)


@pytest.mark.parametrize("values, n", [([0.5, 0.6, 0.55], 1000), ([0.9, 0.9, 0.9, 0.9], 450), ([1.0, 1.0], 100)])
def test_the_interval_is_the_textbooks(values, n):
    for level in (0.9, 0.99):
        expected = verdict.interval(values, n, level)
        assert (expected.low, expected.high) == pytest.approx(naive(values, n, level))


def test_seeds_that_agree_by_chance_still_have_binomial_noise():
    expected = verdict.interval([0.5] * 10, 100)
    assert expected.high - expected.mean == pytest.approx(3.2498 * math.sqrt(0.25 / 100 * 1.1), rel=1e-3)


def test_a_perfect_claim_is_no_promise_of_the_last_sample():
    assert holds(claim([400, 400, 400]), again({0: 400, 77: 396, 78: 399}))
    assert not holds(claim([400, 400, 400]), again({0: 400, 77: 380, 78: 399}))


def test_an_honest_new_seed_lies_inside_99_times_in_100():
    rng = np.random.default_rng(0)
    inside = [verdict.interval(values[:10], 10**6).holds(values[10]) for values in rng.normal(0.5, 0.05, (4000, 11))]
    assert 0.985 < np.mean(inside) < 0.995


def claim(values, n=400):
    return [
        make_record([probe_entry(right, n)], seed=seed, bits=bits)
        for bits in (0, 4)
        for seed, right in enumerate(values)
    ]


def again(values, n=400):
    return {(str(bits), seed): [probe_entry(right, n)] for bits in (0, 4) for seed, right in values.items()}


HONEST = [200, 206, 194, 210, 190, 203, 197, 205, 196, 199]


def holds(claimed, retrained):
    judged = verdict.compare(claimed, retrained, {77, 78})
    return rerun("a", cells=msgspec.to_builtins(judged), allowed=verdict.allowed(len(judged))).passed


@pytest.mark.parametrize(
    "values, honest",
    [
        ({0: 200, 77: 205, 78: 195}, True),
        ({0: 200, 77: 205, 78: 300}, False),
        ({0: 200, 77: 100, 78: 195}, False),  # better than claimed or worse: not what was claimed
        ({0: 240, 77: 240, 78: 240}, False),  # none of them far, but all a bit too much
    ],
)
def test_the_verdict(values, honest):
    judged = verdict.compare(claim(HONEST), again(values), {77, 78})
    assert len(judged) == 6 and [cell.fresh for cell in judged[:3]] == [False, True, True]
    assert holds(claim(HONEST), again(values)) is honest


def test_bits_are_one_feature_and_other_probes_are_left_out():
    probes = [probe_entry(40, 50, f"bit0{i}", 2) for i in range(3)]
    probes += [probe_entry(5, 50), probe_entry(9, 50, probe="online"), probe_entry(9, 50, layer="head")]
    assert verdict.right(probes, make_record(probes).group_of) == {"bits": (120, 150), "digit": (5, 50)}
