"""The statistics of `bench check` against a second, naive writing, and their power against drawn seeds."""

import math

import numpy as np
import pytest

from generators.dataset import UserError
from suppression_bench.evaluation import comparison


def tail(t, freedom, steps=100_000):
    """Two-sided tail of Student's density by the midpoint rule on a bounded axis, t = tan(u)."""
    start = math.atan(abs(t))
    width = (math.pi / 2 - start) / steps
    total = sum(
        (1 + math.tan(u) ** 2 / freedom) ** (-(freedom + 1) / 2) / math.cos(u) ** 2
        for u in (start + (place + 0.5) * width for place in range(steps))
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
    found = comparison.compare(a, b, n)
    assert found.p == pytest.approx(tail(t, freedom), rel=1e-4)
    assert math.copysign(1, found.difference) == math.copysign(1, t)
    # The interval's ends are where a test at .05 would just not reject.
    error = (found.difference / t) if t else 0
    assert tail((found.high - found.difference) / error, freedom) == pytest.approx(0.05, rel=1e-3)
    assert found.high - found.difference == pytest.approx(found.difference - found.low)


def fisher_by_hand(low, count, fresh_low, fresh_count):
    """All tables with the same margins, those added up that are no likelier than this one."""
    total, drawn = low + fresh_low, count + fresh_count

    def chance(there):
        return math.comb(total, there) * math.comb(drawn - total, fresh_count - there) / math.comb(drawn, fresh_count)

    chances = [chance(there) for there in range(fresh_count + 1) if 0 <= total - there <= count]
    return sum(one for one in chances if one <= chance(fresh_low) * (1 + 1e-9))


@pytest.mark.parametrize("table", [(2, 10, 3, 3), (5, 10, 7, 7), (2, 10, 0, 7), (3, 12, 4, 7), (8, 10, 0, 3)])
def test_fishers_test_against_all_tables(table):
    assert comparison.fisher(*table) == pytest.approx(fisher_by_hand(*table), rel=1e-9)


@pytest.mark.parametrize("deviation", [0.004, 0.03, 0.06])
def test_the_smallest_change_is_seen_nine_times_in_ten(deviation):
    """A baseline and both stages drawn anew each time, all of one deviation."""
    random = np.random.default_rng(5)
    base = np.array([-1.6, -1.1, -0.7, -0.3, -0.1, 0.1, 0.3, 0.7, 1.1, 1.6])
    n, mean, draws = 10**6, 0.4, 1000
    shift = comparison.smallest_change(mean + deviation * base / base.std(ddof=1), n)
    hits = 0
    for _ in range(draws):
        old, new = mean + deviation * random.standard_normal(10), mean + shift + deviation * random.standard_normal(10)
        first, second = (comparison.compare(old, part, n) for part in (new[:3], new[3:]))
        far = abs(second.difference) >= comparison.tolerance(old)
        hits += first.p < 0.05 and second.p < 0.01 and far
    # The stages share a baseline, so that they miss together: a little more than .9 is to be expected.
    assert hits / draws == pytest.approx(0.9, abs=0.035)


def test_values_that_are_no_accuracies_are_refused():
    for wrong in ([0.5, math.nan], [math.inf, 0.5], [0.5], [[0.5, 0.5]], [50.0, 60.0]):
        with pytest.raises(UserError, match="accuracies from 0 to 1"):
            comparison.compare([0.5, 0.6], wrong, 100)
