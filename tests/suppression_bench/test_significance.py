"""Bold: the tests by hand, and which cells of a table get it."""

import math

import pytest
from small_cells import make_record, probe_entry, write_records

from suppression_bench.results import pivot, significance, tables
from suppression_bench.results.frame import long_table


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
        for u in (start + (place + 0.5) * width for place in range(steps))
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


def cells(method, right, bits=5, **more):
    return [make_record([probe_entry(r)], method=method, bits=bits, seed=s, **more) for s, r in enumerate(right)]


def bold(folder, made):
    """Titles of the bold cells by column."""
    [table] = pivot.build(long_table([write_records(folder, made)]))
    return {
        (row.title, column[1]) for row in table.rows for column, cell in row.cells.items() if cell.best
    }, table.tests


GOOD, POOR = (80, 81, 82), (40, 41, 42)


def test_the_best_is_bold_only_where_it_is_ahead(tmp_path):
    assert bold(tmp_path / "a", [*cells("simclr", GOOD), *cells("byol", POOR)]) == ({("simclr", 5)}, 1)
    assert bold(tmp_path / "b", [*cells("simclr", GOOD), *cells("byol", (79, 80, 82))]) == (set(), 1)
    third = cells("vae", (80, 81, 83))  # the best is not ahead of the second, however far the third is
    assert bold(tmp_path / "c", [*cells("simclr", GOOD), *cells("byol", POOR), *third]) == (set(), 1)


def test_floor_and_ceiling_do_not_compete(tmp_path):
    made = [*cells("simclr", GOOD), *cells("byol", POOR), *cells("supervised", (99, 98, 99)), *cells("untrained", GOOD)]
    assert bold(tmp_path, made) == ({("simclr", 5)}, 1)


def test_one_seed_or_one_method_or_a_lost_seed_is_no_test(tmp_path):
    assert bold(tmp_path / "a", [*cells("simclr", (80,)), *cells("byol", POOR)]) == (set(), 0)
    assert bold(tmp_path / "b", [*cells("simclr", GOOD), *cells("byol", (40,))]) == (set(), 0)
    assert bold(tmp_path / "c", cells("simclr", GOOD)) == (set(), 0)
    lost = make_record([], method="simclr", bits=5, seed=3, status="diverged")
    assert bold(tmp_path / "d", [*cells("simclr", GOOD), *cells("byol", POOR), lost]) == (set(), 0)


def test_the_columns_are_counted_together(tmp_path):
    # p of the near pair lies between .025 and .05: alone it is bold, beside a column without any difference no longer.
    near = [*cells("simclr", (50, 52, 54)), *cells("byol", (45, 47, 49))]
    p = significance.welch((0.5, 0.52, 0.54), (0.45, 0.47, 0.49))
    assert 0.025 < p < 0.05
    equal = [*cells("simclr", (50, 52, 54), bits=0), *cells("byol", (50, 51, 54), bits=0)]
    assert bold(tmp_path / "alone", near) == ({("simclr", 5)}, 1)
    assert bold(tmp_path / "both", [*near, *equal]) == (set(), 2)


def test_probes_are_compared_apart(tmp_path):
    made = [
        make_record([probe_entry(a), probe_entry(b, probe="sgd")], method=method, seed=seed)
        for method, pairs in (("simclr", [(80, 30), (81, 31)]), ("byol", [(40, 60), (41, 62)]))
        for seed, (a, b) in enumerate(pairs)
    ]
    [table] = pivot.build(long_table([write_records(tmp_path, made)]))
    best = {(row.title, row.probe) for row in table.rows for cell in row.cells.values() if cell.best}
    assert best == {("simclr", "lbfgs"), ("byol", "sgd")} and table.tests == 2


def test_every_format_writes_bold_in_its_own_way(tmp_path):
    frame = long_table([write_records(tmp_path, [*cells("simclr", GOOD), *cells("byol", POOR)])])
    assert "| **81.0 ± 1.0 (n=3)** |" in tables.render(frame, "markdown")
    assert r"\textbf{81.0 $\pm$ 1.0 (n=3)}" in tables.render(frame, "latex")
    assert "simclr,lbfgs,encoder,81.0 ± 1.0 (n=3)\n" in tables.render(frame, "csv")
    legend = next(line for line in tables.render(frame, "markdown").splitlines() if line.startswith("- Bold"))
    assert "Welch" in legend and "Holm" in legend and legend.endswith("columns).")
    frame = long_table([write_records(tmp_path / "n1", [*cells("simclr", (80,)), *cells("byol", (40,))])])
    assert "Bold" not in tables.render(frame, "markdown")
