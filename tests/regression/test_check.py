"""Verdicts of `bench check`: both stages, seeds that are no evidence, and what is never a pass; then their report."""

from xml.etree import ElementTree

import msgspec
import pytest

from suppression_bench.regression import check
from suppression_bench.regression.baseline import Baseline, Measured, Measurements, Names, Number

N = 1000
SPREAD = [-14, -11, -7, -3, -1, 1, 3, 7, 11, 14]  # thousandths; SD (ddof 1) 9.13
TEN = range(10, 20)
TWO, THREE = ("one", "two"), ("one", "two", "three")
NAMES = Names(**{**dict.fromkeys(Names.__struct_fields__, ""), "dataset": "randbit", "method": "simclr"})


def number(feature="digit") -> Number:
    return Number(settings="a" * 64, probe="lbfgs", layer="encoder", feature=feature)


def measured(correct: dict[int, int], n=N, digest="d" * 64, sources="s") -> Measured:
    return Measured(NAMES, digest, n, dict(correct), dict.fromkeys(correct, sources))


def base(centre=600, spread=SPREAD, features=("digit",)) -> Baseline:
    values = {seed: centre + offset for seed, offset in enumerate(spread)}
    return Baseline(None, {}, {number(feature): measured(values) for feature in features})


def drawn(first=600, second=None, seeds=TEN, **changes) -> Measured:
    """Ten fresh seeds: three around `first`, seven around `second`, with a spread like the baseline's."""
    wobble, second = [-9, 0, 9, -12, -8, -3, 0, 3, 8, 12], first if second is None else second
    values = {seed: (first if at < 3 else second) + wobble[at] for at, seed in enumerate(seeds)}
    return measured(values, **changes)


def fresh(*values: Measured, features=("digit",), faults=()) -> Measurements:
    return Measurements({number(feature): value for feature, value in zip(features, values, strict=True)}, list(faults))


def judged(*values: Measured, features=("digit",), **changes) -> tuple[list[str], int]:
    report = check.judge(base(features=features, **changes), fresh(*values, features=features))
    return [verdict.outcome for verdict in report.verdicts], report.exit_code


@pytest.mark.parametrize(
    ("values", "outcome", "exit_code"),
    [
        (drawn(), "ok", 0),
        (drawn(560), "lower", 1),
        (drawn(640), "higher", 1),
        (drawn(560, 600), "ok", 0),  # the second stage did not confirm it
        (drawn(560, 640), "ok", 0),  # two signs
        (drawn(640, 560), "ok", 0),  # two signs
        (drawn(600, 560), "ok", 0),  # no suspect has no second stage
        (drawn(585), "ok", 0),  # within .02
    ],
)
def test_both_stages_must_point_the_same_way_and_far_enough(values, outcome, exit_code):
    assert judged(values) == ([outcome], exit_code)


def test_what_the_stages_compare():
    report = check.judge(base(), fresh(drawn(560, 570)))
    [verdict] = report.verdicts
    assert (verdict.first.count, verdict.second.count, report.suspects) == (3, 7, 1)
    assert verdict.first.mean == pytest.approx(0.56) and verdict.second.mean == pytest.approx(0.57)
    assert verdict.first.difference == pytest.approx(-0.04)
    assert verdict.deciding is verdict.second and verdict.seeds == tuple(TEN)
    [verdict] = check.judge(base(), fresh(drawn())).verdicts
    assert verdict.second is None and verdict.deciding is verdict.first and verdict.seeds == (10, 11, 12)


@pytest.mark.parametrize(("spread", "shift"), [([-100, -50, 50, 100] * 100, -30), (SPREAD * 40, -15)])
def test_a_significant_difference_within_half_an_sd_or_two_points_is_no_news(spread, shift):
    values = [300, 310, 320, *(600 + shift + offset for offset in spread)]
    moved = measured({1000 + at: value for at, value in enumerate(values)})
    report = check.judge(base(spread=spread), fresh(moved))
    assert report.verdicts[0].second.p < 1e-6 and report.exit_code == 0


@pytest.mark.parametrize(
    ("values", "missing"),
    [
        ({10: 560, 11: 550, 12: 570}, 7),
        ({seed: 560 + seed for seed in range(10, 19)}, 1),  # six seeds are no second stage
        ({10: 600, 11: 601}, 1),
        (dict.fromkeys(range(10), 600), 3),  # the baseline's own seeds are no evidence
    ],
)
def test_too_few_seeds_are_undecided(values, missing):
    report = check.judge(base(), fresh(measured(values)))
    assert (report.verdicts[0].outcome, report.exit_code, report.missing) == ("undecided", 3, missing)
    start = max(9, *values) + 1
    assert report.verdicts[0].missing_seeds == list(range(start, start + missing))


def test_seeds_of_the_baseline_beside_fresh_ones_change_nothing():
    values = drawn(560)
    values.correct.update(base().numbers[number()].correct)
    assert judged(values) == (["lower"], 1)
    assert judged(measured({10: 600, 11: 605, 12: 590})) == (["ok"], 0)
    assert judged(drawn(560), measured({10: 600}), features=TWO) == (["lower", "undecided"], 1)


@pytest.mark.parametrize("moved", range(3))
def test_every_number_is_judged(moved):
    values = [drawn(560 if at == moved else 600) for at in range(3)]
    outcomes = ["lower" if at == moved else "ok" for at in range(3)]
    assert judged(*values, features=THREE) == (outcomes, 1)


def test_the_suspects_share_the_second_stages_level():
    near = drawn(560, 576).correct
    [verdict] = check.judge(base(), fresh(measured(near))).verdicts
    assert 0.01 / 3 < verdict.second.p < 0.01 and verdict.outcome == "lower", "enough alone"
    assert judged(*[measured(near)] * 3, features=THREE) == (["ok"] * 3, 0), "too much for one of three (Holm)"
    waiting = measured({seed: near[seed] for seed in range(10, 13)})
    assert judged(measured(near), waiting, waiting, features=THREE) == (["ok", "undecided", "undecided"], 3)


def test_what_is_never_a_pass():
    def faulty(measurements, *words):
        report = check.judge(base(), measurements)
        return report.exit_code == 2 and all(any(word in fault for fault in report.faults) for word in words)

    assert faulty(Measurements(), "missing")
    assert faulty(fresh(drawn(), drawn(), features=("digit", "more")), "extra")
    assert faulty(fresh(drawn(digest="e" * 64)), "other data")
    assert faulty(fresh(drawn(n=N + 1)), "test decisions")
    assert faulty(fresh(drawn(), faults=["simclr seed=3: diverged"]), "diverged")
    mixed = drawn()
    mixed.sources[19] = "other"
    assert faulty(fresh(mixed), "2 different versions")
    assert check.Report([], []).exit_code == 2, "nothing compared is no pass"
    report = check.judge(base(features=TWO), fresh(drawn(sources="s"), drawn(sources="t"), features=TWO))
    assert "2 different versions" in report.faults[0], "versions are counted over all numbers"
    report = check.judge(base(features=TWO), fresh(drawn(n=N + 1), features=["two"]))
    assert ["missing" in fault for fault in report.faults] == [True, False] and len(report.faults) == 2
    report = check.judge(base(features=("digit", "more")), fresh(drawn(560)))
    assert report.exit_code == 2 and [verdict.outcome for verdict in report.verdicts] == ["lower"]


def test_other_data_are_not_compared_and_seeds_that_are_left_out_may_be_of_older_code():
    for change in ({"digest": "e" * 64}, {"n": N + 1}):
        assert not check.judge(base(), fresh(drawn(**change))).verdicts
    mixed = drawn()
    mixed.correct[0], mixed.sources[0] = 590, "older"
    assert check.judge(base(), fresh(mixed)).exit_code == 0


# ---- the report ----


def rendered(*values: Measured, features=("digit",), **changes) -> check.Rendered:
    return check.render(check.judge(base(features=features), fresh(*values, features=features, **changes)), "a note")


def cells_of(markdown: str, feature: str) -> list[str]:
    [row] = [line for line in markdown.splitlines() if f"| {feature} |" in line]
    return [cell.strip() for cell in row.strip("|").split("|")]


def test_a_row_says_what_was_compared():
    report = rendered(drawn(560), drawn(), features=TWO)
    cell, _, probe, seeds, before, now, difference, interval, p, smallest, verdict = cells_of(report.markdown, "one")
    assert (cell, probe, seeds) == ("simclr", "lbfgs", "10 + 7") and "lower" in verdict
    assert (before, now, difference) == ("60.0 ± 0.9", "56.0 ± 0.9", "-4.0")
    low, high = map(float, interval.split(" to "))
    assert low < -4 < high < -2 and p == ".0001" and 2 < float(smallest) < 6
    seeds, *_, verdict = cells_of(report.markdown, "two")[3:]
    assert (seeds, verdict) == ("10 + 3", "ok")
    assert "| one |" in report.summary and "| two |" not in report.summary, "only what is not in order"
    assert "1 of 2 numbers are lower" in report.markdown and report.markdown.endswith("- a note\n")
    assert [(line.state, line.name) for line in report.lines] == [
        ("failed", "randbit: simclr, one by lbfgs"),
        ("ok", "randbit: simclr, two by lbfgs"),
    ]
    assert "-4.0 points" in report.lines[0].text and report.exit_code == 1


def test_a_row_without_a_comparison_and_faults_in_every_report():
    report = rendered(measured({10: 600}), faults=["seed 3: diverged"])
    assert cells_of(report.markdown, "digit")[3:9] == ["10 + 1", "60.0 ± 0.9", "", "", "", ""]
    for text in (report.markdown, report.summary):
        assert "- error: seed 3: diverged" in text and "Still to run, seeds 11-12: simclr." in text
    assert [line.state for line in report.lines] == ["undecided", "error"] and report.exit_code == 2
    assert "2 more seeds: seeds 11-12" in report.lines[0].text


def test_the_smallest_change_grows_with_the_suspects_that_share_the_level():
    def smallest(*values):
        return float(cells_of(rendered(*values, features=THREE).markdown, "one")[9])

    assert smallest(drawn(560), drawn(560), drawn(560)) > smallest(drawn(560), drawn(), drawn())


def test_suspects_wait_for_their_second_stage():
    report = rendered(measured({10: 560, 11: 550, 12: 570}))
    assert "1 of 1 numbers need more seeds" in report.markdown and "seeds 13-19" in report.lines[0].text
    assert cells_of(report.markdown, "digit")[3] == "10 + 3" and report.exit_code == 3


def test_numbers_of_the_same_name_are_told_apart():
    values = {seed: 600 + offset for seed, offset in enumerate(SPREAD)}
    numbers = {msgspec.structs.replace(number(), settings=letter * 64): measured(values) for letter in "ab"}
    report = check.judge(Baseline(None, {}, numbers), Measurements({key: drawn() for key in numbers}))
    rows = check.render(report, "").markdown
    assert "| simclr #aaaaaa |" in rows and "| simclr #bbbbbb |" in rows
    other = msgspec.structs.replace(NAMES, dataset="multidigits", method="by|ol")
    numbers[number("more")] = measured(values)
    numbers[number("more")].names = other
    report = check.judge(Baseline(None, {}, numbers), Measurements({key: drawn() for key in numbers}))
    rows = check.render(report, "").markdown
    assert "| randbit: simclr #aaaaaa |" in rows and r"| multidigits: by\|ol |" in rows


def test_junit_counts_states_and_replaces_what_xml_forbids():
    lines = [check.Line("a\x00b", state, "text\ud800") for state in ("ok", "failed", "undecided", "error")]
    root = ElementTree.fromstring(check.junit(lines).encode())
    counts = {key: root.get(key) for key in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "4", "failures": "1", "errors": "1", "skipped": "1"}
    assert [case.get("name") for case in root] == ["a?b"] * 4
    assert [case[0].tag for case in root] == ["system-out", "failure", "skipped", "error"]


def test_the_note_names_what_has_changed():
    before, now = {"torch": ["2.10"], "device": ["cpu"], "commit": ["a"]}, {"torch": ["2.11"], "device": ["cpu"]}
    assert check.changes_note("base.json", before, now).endswith("changed: torch 2.10 -> 2.11.")
    assert check.changes_note("base.json", now, now) == "Against base.json."


def test_fresh_seeds_follow_the_baselines_and_are_none_of_them():
    assert check.fresh_seeds(base(), None) == (range(10, 13), range(13, 20))
    assert check.fresh_seeds(base(), 100) == (range(100, 103), range(103, 110))
    with pytest.raises(check.UserError, match=r"seeds 3-9 are in the baseline.*take 10"):
        check.fresh_seeds(base(), 3)
