"""Ranks of the leaderboard: a score by hand and by a second writing, ties, ceilings, floors, and what has no score."""

import itertools
import math
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats
from small_cells import probe_entry
from small_entries import GRID, a_track, board, cells, entry

from generators.dataset import UserError
from suppression_bench.cell import Strength
from suppression_bench.leaderboard import tracks


def slugs(standings):
    return [standing.slug for standing in standings]


def strength_of(record):
    return record.spec.strength.value


def test_a_score_by_hand():
    # Digits .9 without bits, chance .1: .5 at four bits keep half; at eight .8 keep 7/8, but the bits, .6 of .5 to 1, keep .2.
    records = cells({0: 90, 4: 50}, seeds=(0,), bit=100) + cells({8: 80}, seeds=(0,), bit=60)
    [standing] = board([entry("a", records)]).ranked
    assert standing.score == pytest.approx((0.5 + 0.2) / 2)
    assert standing.accuracy == pytest.approx(((0.5 + 1) / 2 + (0.8 + 0.6) / 2) / 2)
    assert (standing.seeds, standing.interval, standing.ranks) == ((0,), None, (1, 1))


def test_throwing_the_competitor_away_gains_nothing():
    good = entry("keeps", cells({0: 90, 4: 80, 8: 70}, bit=90))
    thrown = entry("throws", cells({0: 90, 4: 90, 8: 90}, bit=50))
    assert slugs(board([good, thrown]).ranked) == ["keeps", "throws"]
    assert board([thrown]).ranked[0].score == 0


def naive(records, grid):
    """The score by loops over integers: per seed, the mean over strengths of the worst feature's cut retention."""
    scores = []
    for seed in sorted({record.spec.seed for record in records}):
        probes_at = {strength_of(record): record.probes for record in records if record.spec.seed == seed}
        share = {}
        for strength, probes in probes_at.items():
            right, bits = {}, []
            for probe in probes:
                diagonal = 0
                for k in range(len(probe.confusion)):
                    diagonal += probe.confusion[k][k]
                if probe.feature.startswith("bit"):
                    bits.append(diagonal / probe.n)
                else:
                    right[probe.feature] = diagonal / probe.n
            if bits:
                right["bits"] = math.fsum(bits) / len(bits)
            share[strength] = right
        total = []
        for strength in grid:
            if strength == 0:
                continue
            kept = [(share[strength]["digit"] - 0.1) / (share[0]["digit"] - 0.1)]
            kept.append((share[strength]["bits"] - 0.5) / 0.5)
            total.append(min(min(1, max(0, value)) for value in kept))
        scores.append(sum(total) / len(total))
    return scores


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(*[st.integers(0, 90)] * 2, st.integers(40, 97), st.integers(20, 97)), min_size=1, max_size=4))
@example([(0, 18, 88, 20), (14, 43, 69, 20)])  # both .38 but for the last bit; the second is the more accurate
def test_scores_equal_a_second_writing(drawn):
    submissions = [
        entry(f"e{position}", cells({0: alone, 4: four, 8: eight}, bit=bit))
        for position, (four, eight, bit, alone) in enumerate(drawn)
    ]
    result = board(submissions)
    assert len(result.ranked) == len(drawn) and not result.undefined
    for standing in result.ranked:
        assert standing.scores == pytest.approx(naive(standing.submission.records, GRID))
        assert standing.score == pytest.approx(np.mean(standing.scores))
    ordered = [(-round(standing.score, 12), -round(standing.accuracy, 12)) for standing in result.ranked]
    assert ordered == sorted(ordered)


def test_the_interval_is_students_own():
    [standing] = board([entry("a", cells({0: 90, 4: 50, 8: 40}, jitter=3))]).ranked
    reach = stats.t.ppf(0.975, 2) * np.std(standing.scores, ddof=1) / math.sqrt(3)
    assert standing.interval == pytest.approx((standing.score - reach, standing.score + reach), abs=0.004)


def test_equal_scores_are_told_apart_by_accuracy():
    low = entry("a", cells({0: 90, 4: 50, 8: 50}, bit=50))
    high = entry("b", cells({0: 90, 4: 60, 8: 50}, bit=50))
    result = board([low, high]).ranked
    assert slugs(result) == ["b", "a"] and result[0].score == result[1].score == 0


def test_ranks_are_those_that_the_seeds_leave_open():
    result = board(a_track())
    ranks = {standing.submission.slug: standing.ranks for standing in result.ranked}
    assert ranks == {"alpha": (1, 2), "beta": (1, 2), "gamma": (3, 3)}
    assert {standing.submission.slug: standing.alike for standing in result.ranked} == {
        "alpha": ("beta",),
        "beta": ("alpha",),
        "gamma": (),
    }


def naive_ranks(scores):
    """Welch's tests of scipy itself, Holm by hand, ranks by counting."""
    pairs = list(itertools.combinations(range(len(scores)), 2))
    p = {pair: stats.ttest_ind(scores[pair[0]], scores[pair[1]], equal_var=False).pvalue for pair in pairs}
    sure, untested = set(), sorted(pairs, key=p.get)
    while untested and p[untested[0]] <= 0.05 / len(untested):
        sure.add(untested.pop(0))
    result = []
    for standing in range(len(scores)):
        better = worse = 0
        for pair in sure:
            if standing in pair:
                rival = pair[1 - pair.index(standing)]
                better += np.mean(scores[rival]) > np.mean(scores[standing])
                worse += np.mean(scores[rival]) < np.mean(scores[standing])
        result.append((1 + better, len(scores) - worse))
    return result


def test_ranks_equal_a_second_writing():
    random = np.random.default_rng(3)
    for _ in range(20):
        submissions = []
        for position in range(5):
            centre, records = random.integers(30, 70), []
            for seed in range(4):
                digits = {0: 90, 4: int(centre + random.integers(-4, 5)), 8: int(centre + random.integers(-4, 5))}
                records += cells(digits, seeds=(seed,))
            submissions.append(entry(f"e{position}", records))
        result = board(submissions)
        assert [standing.ranks for standing in result.ranked] == naive_ranks(
            [standing.scores for standing in result.ranked]
        )


def test_seeds_that_agree_to_the_last_digit_prove_nothing():
    result = board(
        [entry("a", cells({0: 90, 4: 80, 8: 80}, jitter=0)), entry("b", cells({0: 90, 4: 20, 8: 20}, jitter=0))]
    )
    assert [standing.ranks for standing in result.ranked] == [(1, 2), (1, 2)]


def test_labels_and_untrained_encoders_stand_apart():
    result = board(a_track())
    assert slugs(result.ranked) == ["alpha", "beta", "gamma"]
    assert slugs(result.ceilings) == ["labels"] and slugs(result.floors) == ["floor"]
    assert all(standing.ranks is None and standing.score is not None for standing in (*result.ceilings, *result.floors))
    assert result.floor["digit"][8] == {0: 0.5, 1: 0.51, 2: 0.52} and result.floor_score == result.floors[0].score


def test_a_foreign_file_is_no_floor():
    result = board([entry("mine", cells({0: 90, 4: 80, 8: 60}, method="untrained"), method_file=True)])
    assert slugs(result.ranked) == ["mine"] and not result.floors and result.floor == {}


def test_what_lies_below_the_floor_is_marked():
    result = board(a_track())
    marked = {standing.submission.slug: standing.below for standing in (*result.ranked, *result.floors)}
    assert marked == {"alpha": (), "beta": (), "gamma": (("digit", 4), ("digit", 8)), "floor": ()}


def superseding(submission, slug):
    return replace(submission, entry=msgspec.structs.replace(submission.entry, supersedes=slug))


def test_an_older_entry_is_not_shown():
    old, new, newest = (entry(slug, cells({0: 90, 4: 80, 8: 60})) for slug in ("old", "new", "newest"))
    result = board([old, superseding(new, "old"), superseding(newest, "new")])
    assert slugs(result.ranked) == ["newest"] and result.superseded == (("new", "newest"), ("old", "new"))


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"a": "a"}, "in a circle"),
        ({"a": "nobody"}, "no entry here"),
        ({"a": "other"}, "an entry of the track 'slow'"),
        ({"a": "c", "b": "c"}, "a supersedes already"),
        ({"a": "b", "b": "c", "c": "a"}, "in a circle"),
    ],
)
def test_an_impossible_supersedes_is_refused(changes, words):
    submissions = [entry(slug, [], supersedes=changes.get(slug)) for slug in "abc"]
    with pytest.raises(UserError, match=words):
        board([*submissions, entry("other", [], track="slow")])


def diverged(records, strength, seed):
    run = msgspec.structs.replace(records[0].run, status="diverged")
    return [
        msgspec.structs.replace(record, run=run, probes=[])
        if (strength_of(record), record.spec.seed) == (strength, seed)
        else record
        for record in records
    ]


def with_probes(records, change):
    return [msgspec.structs.replace(record, probes=change(record)) for record in records]


FULL = {0: 90, 4: 80, 8: 60}


@pytest.mark.parametrize(
    "records, words",
    [
        ([], "no record"),
        (cells(FULL)[:-1], "strength 8, seed 2: no record"),
        (cells({0: 90, 4: 80}), "strength 8, seed 0: no record; strength 8, seed 1: no record"),
        (diverged(cells(FULL), 8, 1), "strength 8, seed 1: diverged"),
        (cells({**FULL, 6: 60}), "strength 6, seed 0: none of the track's"),
        (cells({0: 11, 4: 80, 8: 60}, jitter=3), "clears chance by less than 0.05 (seed 0, 1)"),
        (
            with_probes(cells(FULL), lambda record: [*record.probes, probe_entry(99, feature="easy")]),
            "a probe of easy, which the track does not have",
        ),
        (
            with_probes(cells(FULL), lambda record: record.probes[:3]),
            "strength 4, seed 0: no lbfgs probe of bit02, bit03",
        ),
        (
            with_probes(cells(FULL), lambda record: record.probes[bool(strength_of(record)) :]),
            "strength 4, seed 0: no lbfgs probe of digit",
        ),
    ],
)
def test_an_undefined_score_says_why(records, words):
    result = board([*a_track(), entry("odd", records)])
    [odd] = result.undefined
    assert words in odd.reason and (odd.score, odd.scores, odd.ranks) == (None, (), None)
    assert (odd.accuracy is None) == ("ceiling" not in words and "chance" not in words)  # none over a part of the cells
    assert slugs(result.ranked) == ["alpha", "beta", "gamma"]


def test_two_records_for_one_place_are_refused():
    with pytest.raises(UserError, match="strength 0, seed 0: two records"):
        board([entry("twice", [*cells(FULL), *cells({0: 91}, seeds=(0,))])])


def sized(right, seeds=(0, 1), method="simclr"):
    """Records of a track without strength 0: the list of sizes is the strength."""
    records = []
    for sizes, correct in right.items():
        for record in cells({0: correct}, seeds, method):
            strength = Strength(key="sizes", value=list(map(int, sizes.split("+"))))
            spec = msgspec.structs.replace(record.spec, strength=strength)
            records.append(msgspec.structs.replace(record, spec=spec))
    return records


def test_without_strength_0_the_supervised_entry_is_the_ceiling():
    track = msgspec.structs.replace(
        tracks.read("multidigits-size"), name="quick", grid=[[20, 20], [20, 50, 80]], probed={"all": ["digit"]}
    )
    records = sized({"20+20": 50, "20+50+80": 30})
    without = board([entry("a", records)], track)
    assert "no ceiling, as the track has no supervised entry" in without.undefined[0].reason
    ceiling = entry("s", sized({"20+20": 90, "20+50+80": 50}, method="supervised"), label_use=True)
    [standing] = board([entry("a", records), ceiling], track).ranked
    assert standing.scores == pytest.approx([(0.5 + 0.5) / 2, (0.41 / 0.81 + 0.21 / 0.41) / 2])
    # A second ceiling, less checked, moves nothing.
    worse = entry("r", sized({"20+20": 60, "20+50+80": 40}, method="supervised"), label_use=True, level=0)
    assert board([worse, entry("a", records), ceiling], track).ranked[0].scores == standing.scores


def test_the_order_of_the_submissions_is_nothing():
    submissions = [*a_track(), entry("delta", cells(FULL)[:-1])]
    assert board(submissions) == board(submissions[::-1])
    assert board([]).ranked == ()
