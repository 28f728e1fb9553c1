"""Welch's test against the density integrated by hand, and Holm's correction."""

import math

import pytest

from suppression_bench.results import significance


def by_hand(a, b):
    """Welch's t and its degrees of freedom, in plain sums."""
    means = [sum(x) / len(x) for x in (a, b)]
    shares = [sum((v - m) ** 2 for v in x) / (len(x) - 1) / len(x) for x, m in zip((a, b), means, strict=True)]
    t = (means[0] - means[1]) / math.sqrt(sum(shares))
    freedom = sum(shares) ** 2 / sum(s * s / (len(x) - 1) for s, x in zip(shares, (a, b), strict=True))
    return t, freedom


def tail(t, freedom, steps=200_000):
    """Two-sided tail of Student's density by the midpoint rule on a bounded axis, t = tan(u)."""
    start = math.atan(abs(t))
    width = (math.pi / 2 - start) / steps
    total = sum(
        (1 + math.tan(u) ** 2 / freedom) ** (-(freedom + 1) / 2) / math.cos(u) ** 2
        for u in (start + (step + 0.5) * width for step in range(steps))
    )
    scale = math.gamma((freedom + 1) / 2) / (math.sqrt(freedom * math.pi) * math.gamma(freedom / 2))
    return 2 * scale * total * width


@pytest.mark.parametrize(
    ("a", "b"), [([0.9, 0.92, 0.91], [0.8, 0.85, 0.7]), ([0.5, 0.51], [0.49, 0.4, 0.45, 0.47]), ([1, 1, 1], [2, 3, 5])]
)
def test_welch_against_the_density_integrated_by_hand(a, b):
    assert significance.welch(a, b) == pytest.approx(tail(*by_hand(a, b)), rel=1e-4)


def test_welch_is_undefined_without_seeds_or_spread():
    assert significance.welch([0.5], [0.1, 0.2]) is None and significance.welch([], []) is None
    assert significance.welch([0.5, 0.5], [0.1, 0.1]) is None
    assert significance.welch([0.1 + 0.2] * 2, [0.1, 0.1 + 1e-17]) is None
    assert significance.welch([0.5, 0.5], [0.1, 0.2]) == pytest.approx(tail(*by_hand([0.5, 0.5], [0.1, 0.2])), rel=1e-4)


def test_holm_stops_at_the_first_that_fails():
    assert significance.holm([0.04]) == [True] and significance.holm([]) == []
    assert significance.holm([0.02, 0.03]) == [True, True]  # .02 <= .025, then .03 <= .05
    assert significance.holm([0.03, 0.04]) == [False, False]  # .03 > .025, and nothing after it
    assert significance.holm([0.06, 0.001, 0.02]) == [False, True, True]
