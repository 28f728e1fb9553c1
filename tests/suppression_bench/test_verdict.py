"""Prediction intervals against a second writing and simulation; a verdict that neither cries wolf nor excuses a gross miss."""

import math

import numpy as np
import pytest
from scipy import stats
from small_cells import make_record, probe_entry

from suppression_bench.leaderboard import rerun, verdict


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
        found = verdict.interval(values, n, level)
        assert (found.low, found.high) == pytest.approx(naive(values, n, level))


def test_seeds_that_agree_by_chance_still_have_binomial_noise():
    found = verdict.interval([0.5] * 10, 100)
    assert found.high - found.mean == pytest.approx(3.2498 * math.sqrt(0.25 / 100 * 1.1), rel=1e-3)


def test_a_perfect_claim_is_no_promise_of_the_last_sample():
    found = verdict.judge(claim([400, 400, 400]), again({0: 400, 77: 396, 78: 399}), {77, 78})
    assert verdict.passed(found, [])
    assert not verdict.passed(verdict.judge(claim([400, 400, 400]), again({0: 400, 77: 380, 78: 399}), {77, 78}), [])


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


@pytest.mark.parametrize(
    "values, holds",
    [
        ({0: 200, 77: 205, 78: 195}, True),
        ({0: 200, 77: 205, 78: 300}, False),
        ({0: 200, 77: 100, 78: 195}, False),  # better than claimed or worse: not what was claimed
        ({0: 240, 77: 240, 78: 240}, False),  # none of them far, but all a bit too much
    ],
)
def test_the_verdict(values, holds):
    found = verdict.judge(claim(HONEST), again(values), {77, 78})
    assert len(found) == 6 and [cell["fresh"] for cell in found[:3]] == [False, True, True]
    assert verdict.passed(found, []) is holds
    assert not verdict.passed(found, ["a cell failed"]) and not verdict.passed([], [])


def test_one_small_miss_is_chance_in_many_cells_and_a_gross_one_is_not():
    cells = [{"inside": True, "far": False}] * 29
    assert verdict.passed([*cells, {"inside": False, "far": False}], [])
    assert not verdict.passed([*cells, {"inside": False, "far": True}], [])
    assert not verdict.passed([*cells[:27], *[{"inside": False, "far": False}] * 3], [])


def test_bits_are_one_feature_and_other_probes_are_left_out():
    probes = [probe_entry(40, 50, f"bit0{i}", 2) for i in range(3)]
    probes += [probe_entry(5, 50), {**probe_entry(9, 50), "probe": "online"}, {**probe_entry(9, 50), "layer": "head"}]
    assert verdict.right(probes) == {"bits": (120, 150), "digit": (5, 50)}


def test_fresh_seeds_hang_on_submission_and_nonce():
    first = rerun.draw_seeds("a", "n", [0, 1, 2], 1, 2)
    assert first == rerun.draw_seeds("a", "n", [2, 1, 0], 1, 2)
    assert len({str(rerun.draw_seeds("a", nonce, [0, 1, 2], 1, 2)) for nonce in "abcdefgh"}) == 8
    submitted, fresh = first
    assert set(submitted) < {0, 1, 2} and len(set(fresh)) == 2 and not set(fresh) & {0, 1, 2}
    assert {rerun.draw_seeds("a", nonce, [0, 1, 2], 1, 2)[0][0] for nonce in "abcdefghijkl"} == {0, 1, 2}
