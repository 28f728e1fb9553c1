"""The statistics of `bench check`: by hand, against a second, naive writing, and their power against drawn seeds."""

import math

import numpy as np
import pytest

from generators.dataset import UserError
from suppression_bench.regression import statistics

SPREAD = [-14, -11, -7, -3, -1, 1, 3, 7, 11, 14]  # thousandths; SD (ddof 1) 9.13


def tail(t, freedom, steps=100_000):
    """Two-sided tail of Student's density by the midpoint rule on a bounded axis, t = tan(u)."""
    start = math.atan(abs(t))
    width = (math.pi / 2 - start) / steps
    total = sum(
        (1 + math.tan(u) ** 2 / freedom) ** (-(freedom + 1) / 2) / math.cos(u) ** 2
        for u in (start + (step + 0.5) * width for step in range(steps))
    )
    scale = math.gamma((freedom + 1) / 2) / (math.sqrt(freedom * math.pi) * math.gamma(freedom / 2))
    return 2 * scale * total * width


def by_hand(a, b, n):
    """t with pooled variance, floored by the binomial noise of n decisions at the mean of all seeds."""
    means = [sum(x) / len(x) for x in (a, b)]
    squares = sum((v - mean) ** 2 for x, mean in zip((a, b), means, strict=True) for v in x)
    freedom = len(a) + len(b) - 2
    share = sum([*a, *b]) / len([*a, *b])
    variance = max(squares / freedom, share * (1 - share) / n)
    return (means[1] - means[0]) / math.sqrt(variance * (1 / len(a) + 1 / len(b))), freedom


@pytest.mark.parametrize("n", [50, 10**6])
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ([0.61, 0.6, 0.64, 0.58, 0.62, 0.59, 0.6, 0.63, 0.61, 0.62], [0.58, 0.6, 0.55]),
        ([0.2, 0.3, 0.25], [0.4, 0.31, 0.33, 0.37]),
        ([0.99, 1.0, 1.0], [1.0, 0.98]),
    ],
)
def test_the_t_test_against_the_density_integrated_by_hand(a, b, n):
    t, freedom = by_hand(a, b, n)
    comparison = statistics.compare(a, b, n)
    assert comparison.p == pytest.approx(tail(t, freedom), rel=1e-4)
    assert math.copysign(1, comparison.difference) == math.copysign(1, t)
    # The interval's ends are where a test at .05 would just not reject.
    error = (comparison.difference / t) if t else 0
    assert tail((comparison.high - comparison.difference) / error, freedom) == pytest.approx(0.05, rel=1e-3)
    assert comparison.high - comparison.difference == pytest.approx(comparison.difference - comparison.low)


def test_a_comparison_by_hand():
    comparison = statistics.compare([0.5, 0.6, 0.7, 0.8], [0.9, 0.95], 10**6)
    # Means .65 and .925; sums of squares .05 and .00125 over 4 degrees; t = .275 / sqrt(.0128125 * .75) = 2.80534.
    assert comparison.difference == pytest.approx(0.275) and comparison.count == 2
    assert comparison.mean == pytest.approx(0.925)
    assert comparison.p == pytest.approx(0.0485468, abs=1e-6)
    assert comparison.low == pytest.approx(0.0028323, abs=1e-6)  # 2.776445 * 0.0980274 below
    assert comparison.high == pytest.approx(0.5471677, abs=1e-6)
    assert comparison.deviation == pytest.approx(0.0353553, abs=1e-6) and comparison.test == "t"
    back = statistics.compare([0.9, 0.95], [0.5, 0.6, 0.7, 0.8], 10**6)
    assert back.p == pytest.approx(comparison.p) and back.difference < 0, "a change downward is one too"


def test_seeds_that_agree_by_chance_keep_the_binomial_noise():
    comparison = statistics.compare([0.5] * 10, [0.53] * 3, 100)
    assert 0.3 < comparison.p < 0.5, "the noise is .05 here"
    assert statistics.compare([1.0] * 10, [1.0] * 3, 100).p == 1.0
    assert statistics.binomial_variance(0.2, 4) == pytest.approx(0.04)


def test_the_stages_and_the_tolerance():
    stages = (statistics.FIRST, statistics.SECOND, statistics.SUSPECT, statistics.CONFIRM, statistics.POWER)
    assert stages == (3, 7, 0.05, 0.01, 0.9)
    assert statistics.tolerance([0.5] * 10) == 0.02
    assert statistics.tolerance([0.4, 0.5, 0.6]) == pytest.approx(0.05), "half of the SD with ddof 1"


def fisher_by_hand(low, count, fresh_low, fresh_count):
    """All tables with the same margins, those added up that are no likelier than this one."""
    total, drawn = low + fresh_low, count + fresh_count

    def chance(low):
        return math.comb(total, low) * math.comb(drawn - total, fresh_count - low) / math.comb(drawn, fresh_count)

    chances = [chance(low) for low in range(fresh_count + 1) if 0 <= total - low <= count]
    return sum(value for value in chances if value <= chance(fresh_low) * (1 + 1e-9))


@pytest.mark.parametrize("table", [(2, 10, 3, 3), (5, 10, 7, 7), (2, 10, 0, 7), (3, 12, 4, 7), (8, 10, 0, 3)])
def test_fishers_test_against_all_tables(table):
    assert statistics.fisher(*table) == pytest.approx(fisher_by_hand(*table), rel=1e-9)


def test_two_groups_of_seeds():
    two = [0.1, 0.11, 0.9, 0.91, 0.92, 0.9, 0.91, 0.92, 0.9, 0.91]
    assert statistics.two_groups(two) == pytest.approx(0.505)
    assert statistics.two_groups([0.1, *[0.9] * 9]) is None, "one seed is no group"
    assert statistics.two_groups([*[0.1] * 9, 0.9]) is None, "one seed is no group"
    assert statistics.two_groups([0.50, 0.51, 0.59, 0.60]) is None, "a gap below .1"
    assert statistics.two_groups([0.1, 0.3, 0.55, 0.8]) is None, "a gap no wider than the groups"
    comparison = statistics.compare(two, [0.1, 0.12, 0.11], 1000)
    assert comparison.test == "fisher" and comparison.p == pytest.approx(10 / 286)
    # Stage 2 needs 7 of 7 suppressed, so all seeds must be: a share of 1 in place of .2, the groups being .80375 apart.
    assert statistics.smallest_change(two, 1000) == pytest.approx(0.8 * 0.80375)
    halves = [*[0.1] * 5, *[0.9] * 5]
    assert statistics.smallest_change(halves, 1000) is None, "ten such seeds against three can show nothing"


def test_the_smallest_change_by_hand():
    values = [0.6 + 5 * offset / 1000 for offset in SPREAD]
    fine = statistics.smallest_change(values, 10**6)
    # Stage 1 needs t > 2.201 (11 degrees), stage 2 t > 2.947 (15 degrees); with power .9 about 2.4 SD of .0457.
    assert 2.3 < fine / 0.0457 < 2.6
    assert statistics.smallest_change(values, 10**6, confirm=0.001) > fine, "a stricter level sees less"
    assert statistics.smallest_change([0.6] * 10, 400) > 2 * 0.0245, "binomial noise hides more than .02"
    assert 0.02 <= statistics.smallest_change([0.6] * 10, 10**8) < 0.0205, "the tolerance is always in the way"


@pytest.mark.parametrize("deviation", [0.004, 0.03, 0.06])
def test_the_smallest_change_is_seen_nine_times_in_ten(deviation):
    """A baseline and both stages drawn anew each time, all of one deviation."""
    random = np.random.default_rng(5)
    base = np.array([-1.6, -1.1, -0.7, -0.3, -0.1, 0.1, 0.3, 0.7, 1.1, 1.6])
    n, mean, draws = 10**6, 0.4, 1000
    shift = statistics.smallest_change(mean + deviation * base / base.std(ddof=1), n)
    hits = 0
    for _ in range(draws):
        old, new = mean + deviation * random.standard_normal(10), mean + shift + deviation * random.standard_normal(10)
        first, second = (statistics.compare(old, part, n) for part in (new[:3], new[3:]))
        far = abs(second.difference) >= statistics.tolerance(old)
        hits += first.p < 0.05 and second.p < 0.01 and far
    # The stages share a baseline, so that they miss together: a little more than .9 is to be expected.
    assert hits / draws == pytest.approx(0.9, abs=0.035)


def test_values_that_are_no_accuracies_are_refused():
    for wrong in (
        [0.5, math.nan],
        [0.5, math.nan, 0.5],
        [math.inf, 0.5],
        [-0.1, 0.5],
        [0.5],
        [[0.5, 0.5]],
        [50.0, 60.0],
    ):
        for before, after in (([0.5, 0.6], wrong), (wrong, [0.5, 0.6])):
            with pytest.raises(UserError, match="accuracies from 0 to 1"):
                statistics.compare(before, after, 100)
