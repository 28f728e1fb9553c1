"""Faults planted in the checker: each one must be caught by one fixed set of assertions, or the checker can lie."""

import sys
import types
from contextlib import contextmanager
from pathlib import Path

import pytest

import suppression_bench
from generators.dataset import UserError

ROOT = Path(suppression_bench.__file__).parent
# In the order in which they import each other.
FILES = {
    "comparison": "evaluation/comparison",
    "observed": "results/observed",
    "baseline": "results/baseline",
    "regression": "regression",
    "exact": "results/exact",
    "repeatability": "repeatability",
}
N = 1000


@contextmanager
def fresh(file: str = "", old: str = "", new: str = ""):
    """The checker's modules made anew from their source, with one text replaced; the real ones are put back."""
    made, before = types.SimpleNamespace(), {}
    try:
        for name, path in FILES.items():
            full = f"suppression_bench.{path.replace('/', '.')}"
            package = sys.modules[full.rpartition(".")[0]]
            text = (ROOT / f"{path}.py").read_text()
            if name == file:
                assert text.count(old) == 1, (
                    f"{path}.py holds {old!r} {text.count(old)} times: mend the list of mutants"
                )
                text = text.replace(old, new)
            module = types.ModuleType(full)
            before[full] = (sys.modules.get(full), package, getattr(package, name, None))
            sys.modules[full] = module
            setattr(package, name, module)
            exec(compile(text, f"{path}.py", "exec"), module.__dict__)
            setattr(made, name, module)
        yield made
    finally:
        for full, (module, package, attribute) in before.items():
            sys.modules[full] = module
            setattr(package, full.rpartition(".")[2], attribute)
            if module is None:
                del sys.modules[full]


def refuses(call, *words):
    """Whether it raises a UserError that says these words."""
    try:
        call()
    except UserError as error:
        return all(word in str(error) for word in words)
    return False


# ---------------------------------------------------------------- the fixed assertions

SPREAD = [-14, -11, -7, -3, -1, 1, 3, 7, 11, 14]  # thousandths; SD (ddof 1) 9.13
TEN = range(10, 20)


def place(m, name="digit"):
    return m.observed.Place("a" * 64, "lbfgs", "encoder", name)


def seen(m, correct, n=N, digest="d" * 64, sources="s"):
    names = dict.fromkeys(m.baseline.NAMES, "x")
    return m.observed.Seen(names, digest, n, dict(correct), dict.fromkeys(dict(correct), sources))


def base(m, centre=600, spread=SPREAD, features=("digit",)):
    values = {seed: centre + off for seed, off in enumerate(spread)}
    return m.baseline.Baseline(None, {}, {place(m, name): seen(m, values) for name in features})


def drawn(m, first=600, second=None, seeds=TEN, **more):
    """Ten fresh seeds: three around `first`, seven around `second`, with a spread like the baseline's."""
    wobble, second = [-9, 0, 9, -12, -8, -3, 0, 3, 8, 12], first if second is None else second
    values = {s: (first if at < 3 else second) + wobble[at] for at, s in enumerate(seeds)}
    return seen(m, values, **more)


def watched(m, *found, features=("digit",), faults=()):
    return m.observed.Observed({place(m, name): one for name, one in zip(features, found, strict=True)}, list(faults))


def outcome(m, *found, features=("digit",), **more):
    report = m.regression.judge(base(m, features=features, **more), watched(m, *found, features=features))
    return [verdict.verdict for verdict in report.verdicts], report.exit_code


def check_comparison(m):
    c = m.comparison
    found = c.compare([0.5, 0.6, 0.7, 0.8], [0.9, 0.95], 10**6)
    # By hand: means .65 and .925; sums of squares .05 and .00125 over 4 degrees; t = .275 / sqrt(.0128125 * .75).
    assert abs(found.difference - 0.275) < 1e-12 and found.count == 2
    assert abs(found.p - 0.0485468) < 1e-6  # t = 2.80534 at 4 degrees of freedom, two-sided
    assert abs(found.low - 0.0028323) < 1e-6 and abs(found.high - 0.5471677) < 1e-6  # +- 2.776445 * 0.0980274
    assert abs(found.deviation - 0.0353553) < 1e-6 and found.test == "t"
    back = c.compare([0.9, 0.95], [0.5, 0.6, 0.7, 0.8], 10**6)
    assert abs(back.p - found.p) < 1e-12 and back.difference < 0, "a change downward is one too"
    quiet = c.compare([0.5] * 10, [0.53] * 3, 100)
    assert 0.3 < quiet.p < 0.5, "seeds that agree by chance have no deviation of zero: binomial noise is .05 here"
    assert c.compare([1.0] * 10, [1.0] * 3, 100).p == 1.0
    assert abs(c.binomial_variance(0.2, 4) - 0.04) < 1e-12
    for wrong in ([0.5, float("nan"), 0.5], [0.5, 1.5], [-0.1, 0.5], [0.5]):
        assert refuses(lambda wrong=wrong: c.compare([0.5, 0.6, 0.7], wrong, 100), "from 0 to 1")
        assert refuses(lambda wrong=wrong: c.compare(wrong, [0.5, 0.6, 0.7], 100), "from 0 to 1")
    assert c.tolerance([0.5] * 10) == 0.02
    assert abs(c.tolerance([0.4, 0.5, 0.6]) - 0.05) < 1e-12, "half of the SD with ddof 1"
    assert (c.FIRST, c.SECOND, c.SUSPECT, c.CONFIRM, c.POWER) == (3, 7, 0.05, 0.01, 0.9)


def check_groups(m):
    c = m.comparison
    two = [0.1, 0.11, 0.9, 0.91, 0.92, 0.9, 0.91, 0.92, 0.9, 0.91]
    assert abs(c.two_groups(two) - 0.505) < 1e-12
    assert c.two_groups([0.1, *[0.9] * 9]) is None and c.two_groups([*[0.1] * 9, 0.9]) is None, "one seed is no group"
    assert c.two_groups([0.50, 0.51, 0.59, 0.60]) is None, "a gap below .1"
    assert c.two_groups([0.1, 0.3, 0.55, 0.8]) is None, "a gap no wider than the groups"
    assert abs(c.fisher(2, 10, 3, 3) - 10 / 286) < 1e-9
    found = c.compare(two, [0.1, 0.12, 0.11], N)
    assert found.test == "fisher" and abs(found.p - 10 / 286) < 1e-9
    shifted = c.smallest_change(two, N)
    # Stage 2 needs 7 of 7 suppressed, so all seeds must be: a share of 1 in place of .2, the groups being .80375 apart.
    assert abs(shifted - 0.8 * 0.80375) < 1e-9
    assert c.smallest_change([*[0.1] * 5, *[0.9] * 5], N) is None, "ten such seeds against three can show nothing"


def check_smallest_change(m):
    c = m.comparison
    values = [0.6 + 5 * off / N for off in SPREAD]
    fine = c.smallest_change(values, 10**6)
    # Stage 1 needs t > 2.201 (11 df), stage 2 t > 2.947 (15 df); with power .9 about 2.4 SD.
    assert 2.3 < fine / 0.0457 < 2.6
    assert c.smallest_change(values, 10**6, confirm=0.001) > fine, "a stricter level sees less"
    assert c.smallest_change([0.6] * 10, 400) > 2 * 0.0245, "binomial noise hides more than .02"
    assert 0.02 <= c.smallest_change([0.6] * 10, 10**8) < 0.0205, "the tolerance is always in the way"


def check_stages(m):
    assert outcome(m, drawn(m)) == (["ok"], 0)
    assert outcome(m, drawn(m, 560)) == (["lower"], 1)
    assert outcome(m, drawn(m, 640)) == (["higher"], 1)
    assert outcome(m, drawn(m, 560, 600)) == (["ok"], 0), "the second stage did not confirm it"
    assert outcome(m, drawn(m, 560, 640)) == (["ok"], 0), "two signs"
    assert outcome(m, drawn(m, 640, 560)) == (["ok"], 0), "two signs"
    assert outcome(m, drawn(m, 600, 560)) == (["ok"], 0), "no suspect has no second stage"
    assert outcome(m, drawn(m, 585)) == (["ok"], 0), "within .02"
    report = m.regression.judge(base(m), watched(m, drawn(m, 560)))
    [verdict] = report.verdicts
    assert (verdict.first.count, verdict.second.count, report.suspects) == (3, 7, 1)
    assert abs(verdict.first.mean - 0.56) < 1e-12 and abs(verdict.second.mean - 0.56) < 1e-12
    assert verdict.deciding is verdict.second and verdict.used == tuple(TEN)
    assert abs(verdict.first.difference + 0.04) < 1e-12
    # Significant by its many seeds, but within half an SD; then by much more than that, but within .02.
    for spread, shift in (([-100, -50, 50, 100] * 100, -30), (SPREAD * 40, -15)):
        values = [300, 310, 320, *(600 + shift + off for off in spread)]
        moved = seen(m, {1000 + at: value for at, value in enumerate(values)})
        report = m.regression.judge(base(m, spread=spread), watched(m, moved))
        assert report.verdicts[0].second.p < 1e-6 and report.exit_code == 0


def check_seeds(m):
    few = watched(m, seen(m, {10: 560, 11: 550, 12: 570}))
    report = m.regression.judge(base(m), few)
    assert (report.verdicts[0].verdict, report.exit_code, report.wanted()) == ("undecided", 3, 7)
    report = m.regression.judge(base(m), watched(m, seen(m, {s: 560 + s for s in range(10, 19)})))
    assert (report.verdicts[0].verdict, report.wanted()) == ("undecided", 1), "six seeds are no second stage"
    report = m.regression.judge(base(m), watched(m, seen(m, {10: 600, 11: 601})))
    assert (report.verdicts[0].verdict, report.exit_code, report.wanted()) == ("undecided", 3, 1)
    assert outcome(m, seen(m, {10: 600, 11: 605, 12: 590})) == (["ok"], 0)
    old = base(m).places[place(m)].correct
    report = m.regression.judge(base(m), watched(m, seen(m, old)))
    assert (report.exit_code, report.wanted()) == (3, 3), "the baseline's own seeds are no evidence"
    both = drawn(m, 560)
    both.correct.update(old)
    assert outcome(m, both) == (["lower"], 1)
    two = ("one", "two")
    assert outcome(m, drawn(m, 560), seen(m, {10: 600}), features=two) == (["lower", "undecided"], 1)


def check_places(m):
    three = ("one", "two", "three")
    for at in range(3):
        found = [drawn(m, 560 if at == other else 600) for other in range(3)]
        wanted = ["lower" if at == other else "ok" for other in range(3)]
        assert outcome(m, *found, features=three) == (wanted, 1)
    # The second stage's p is enough alone, too much for one of three suspects.
    near = drawn(m, 560, 576).correct
    [verdict] = m.regression.judge(base(m), watched(m, seen(m, near))).verdicts
    assert 0.01 / 3 < verdict.second.p < 0.01 and verdict.verdict == "lower", verdict.second
    assert outcome(m, *[seen(m, near)] * 3, features=three) == (["ok"] * 3, 0), "Holm"
    waits = seen(m, {s: near[s] for s in range(10, 13)})
    assert outcome(m, seen(m, near), waits, waits, features=three) == (["ok", "undecided", "undecided"], 3), "all count"


def check_faults(m):
    def faulty(found, *words):
        report = m.regression.judge(base(m), found)
        return report.exit_code == 2 and all(any(word in fault for fault in report.faults) for word in words)

    good = drawn(m)
    assert faulty(m.observed.Observed(), "missing")
    assert faulty(watched(m, good, good, features=("digit", "more")), "extra")
    assert faulty(watched(m, drawn(m, digest="e" * 64)), "other data")
    assert faulty(watched(m, drawn(m, n=N + 1)), "test decisions")
    for other in ({"digest": "e" * 64}, {"n": N + 1}):
        assert not m.regression.judge(base(m), watched(m, drawn(m, **other))).verdicts, "other data are not compared"
    assert faulty(watched(m, good, faults=["simclr seed=3: diverged"]), "diverged")
    mixed = drawn(m)
    mixed.sources[19] = "other"
    assert faulty(watched(m, mixed), "2 different versions")
    mixed = drawn(m)
    mixed.correct[0], mixed.sources[0] = 590, "older"
    assert m.regression.judge(base(m), watched(m, mixed)).exit_code == 0, "a seed that is left out may be older"
    assert m.regression.Report([], []).exit_code == 2, "nothing compared is no pass"
    two = base(m, features=("digit", "more"))
    report = m.regression.judge(two, watched(m, drawn(m, 560)))
    assert report.exit_code == 2 and [v.verdict for v in report.verdicts] == ["lower"]


def record(seed=0, right=7, bits=(), status="ok", digest="d" * 64, method="simclr", **more):
    """What of a record the checker reads."""

    def entry(feature, correct):
        rest = {"probe": "lbfgs", "layer": "encoder", "n": 10}
        return {"feature": feature, "confusion": [[correct, 10 - correct], [0, 0]], **rest}

    spec = {
        "suite": None, "recipe": "r", "data": {"dataset": "randbit", "options": {}, "digest": digest, "version": 1},
        "method": {"name": method, "options": {}, **more}, "loss": None, "encoder": {"name": "e", "options": {}},
        "train": {"checkpoint_seconds": 30.0}, "probe": {"block_size": 9},
        "strength": None, "varied": {}, "seed": seed,
    }  # fmt: skip
    probes = [entry("digit", right), *(entry(f"bit{at:02}", one) for at, one in enumerate(bits))]
    return {
        "spec": spec, "run": {"status": status, "error": None}, "probes": probes if status == "ok" else [],
        "code": {"sources": "s", "commit": None}, "environment": {"torch": "2"},
    }  # fmt: skip


def check_observed(m):
    o = m.observed
    found = o.observe([record(seed=4, right=7, bits=(9, 8)), record(seed=5, right=6, bits=(1, 2))])
    digit, bits = (next(s for p, s in found.places.items() if p.feature == name) for name in ("digit", "bits"))
    assert (digit.n, digit.correct, bits.n, bits.correct) == (10, {4: 7, 5: 6}, 20, {4: 17, 5: 3})
    assert digit.shares([5, 4]) == [0.6, 0.7] and not found.faults and len(found.places) == 2
    assert "diverged" in o.observe([record(), record(seed=1, status="diverged")]).faults[0]
    assert "failed" in o.observe([record(seed=1, status="failed")]).faults[0]
    assert "not those of other seeds" in o.observe([record(), record(seed=1, digest="e" * 64)]).faults[0]
    assert "other seeds have 20" in o.observe([record(bits=(1, 2)), record(seed=1, bits=(1,))]).faults[0]
    assert "stands twice" in o.observe([record(), record(right=6)]).faults[0] and not o.observe([record()] * 2).faults
    assert "missing for seeds 1" in o.observe([record(bits=(1,)), record(seed=1)]).faults[0]
    assert len(o.observe([record(), record(method="byol")]).places) == 2
    assert len(o.observe([record(), record(file="a"), record(file="b")]).places) == 1, (
        "an edited file is the same place"
    )
    later = record(seed=1)
    later["spec"]["train"] = {"checkpoint_seconds": 1.0}
    assert len(o.observe([record(), later]).places) == 1
    later["spec"]["train"] = {"checkpoint_seconds": 30.0, "epochs": 2}
    assert len(o.observe([record(), later]).places) == 2


def check_baseline(m):
    b = m.baseline
    ten = m.observed.observe([record(seed=seed) for seed in range(10)])
    assert len(b.make(ten).places) == 1 and b.make(ten).seeds() == set(range(10))
    assert refuses(lambda: b.make(m.observed.observe([record(seed=s) for s in range(9)])), "9 of 10 seeds", "--record")
    lost = [record(seed=s) for s in range(10)] + [record(seed=10, status="diverged"), record(method="byol")]
    assert refuses(lambda: b.make(m.observed.observe(lost)), "diverged", "byol", "1 of 10 seeds")
    assert refuses(lambda: b.make(m.observed.Observed()), "no cell")
    good = {
        **dict.fromkeys(b.NAMES, "x"), "settings": "a" * 64, "probe": "p", "layer": "l", "feature": "f",
        "digest": "d" * 64, "n": 10, "seeds": list(range(10)), "correct": [5] * 10,
    }  # fmt: skip
    whole = {"schema": 1, "suite": None, "environment": {}, "cells": [good]}
    b._check(whole, "file")
    for change, word in BROKEN_CELLS:
        assert refuses(lambda change=change: b._check({**whole, "cells": [{**good, **change}]}, "file"), word), change
    for change, word in (({"schema": 2}, "schema 2"), ({"cells": []}, "no cell"), ({"more": 1}, "unknown key"),
                         ({"cells": [good, good]}, "stands twice")):  # fmt: skip
        assert refuses(lambda change=change: b._check({**whole, **change}, "file"), word), change


def check_exact(m):
    r = m.repeatability
    here, there = ("2.10", "Linux", "AVX2", "one"), ("2.11", "Linux", "AVX2", "one")

    def cell(*results, digest="d"):
        return {("s", 0): m.exact.Exact("cell", digest, list(results))}

    def result(off=0, machine=here, weights="w", more=()):
        return m.exact.Result(machine, weights, {"digit": [[50 - off, off], [0, 50]], **dict(more)})

    def found(references, one, again=None):
        [finding] = r.judge(references, one, again)
        return finding.passed, finding.rule

    assert found(cell(result()), cell(result())) == (True, "bit-exact")
    assert found(cell(result()), cell(result(1))) == (False, "bit-exact")
    assert found(cell(result()), cell(result(weights="v"))) == (False, "bit-exact")
    assert found(cell(result()), cell(result(more={"bits": [[1]]}))) == (False, "bit-exact")
    assert found(cell(result(more={"bits": [[1]]})), cell(result())) == (False, "bit-exact")
    other = cell(result(machine=there))
    assert found(other, cell(result(12)), cell(result(12))) == (True, "band")
    assert found(other, cell(result(20)), cell(result(20))) == (False, "band")
    assert found(other, cell(result(12)), cell(result(3))) == (False, "band"), "not repeatable"
    assert found(other, cell(result()), cell(result(weights="v"))) == (False, "band"), "not repeatable"
    assert found(other, cell(result())) == (False, "band"), "never repeated"
    for position in range(4):
        where = tuple("other" if at == position else part for at, part in enumerate(here))
        assert found(cell(result(machine=where)), cell(result()), cell(result())) == (True, "band")
    near = cell(result(20, machine=there), result(2, machine=("1", "", "", "")))
    assert found(near, cell(result(0)), cell(result(0))) == (True, "band"), "the nearest reference counts"
    assert found(cell(result(machine=there, more={"bits": [[1]]})), cell(result()), cell(result())) == (False, "band")
    both = cell(result(3, machine=there), result())
    assert found(both, cell(result())) == (True, "bit-exact") and not r.needs_repeat(both, cell(result()))
    assert r.needs_repeat(other, cell(result()))
    assert r.judge(cell(result(), digest="e"), cell(result()), None) == []
    assert "other data" in r.faults(cell(result(), digest="e"), cell(result()))[0]
    assert "missing" in r.faults(cell(result()), {})[0] and "extra" in r.faults({}, cell(result()))[0]
    assert r.faults(cell(result()), cell(result())) == []
    assert abs(r.moved(result(), result(5)) - 0.05) < 1e-12 and r.BAND == 0.15


BROKEN_CELLS = [
    ({"correct": [5] * 9 + [11]}, "no value above"),
    ({"correct": [5] * 9 + [-1]}, "integers from 0"),
    ({"correct": [5] * 9 + [5.0]}, "integers from 0"),
    ({"correct": [5] * 9}, "10 seeds but 9 values"),
    ({"seeds": [0] * 10}, "a seed stands twice"),
    ({"seeds": [True, *range(2, 11)]}, "integers from 0"),
    ({"seeds": list(range(9)), "correct": [5] * 9}, "9 seeds"),
    ({"digest": "d" * 63}, "digest is no SHA-256"),
    ({"n": 0, "correct": [0] * 10}, "n must be at least 1"),
    ({"n": "10"}, "wrong type"),
    ({"more": 1}, "unknown key"),
]

CHECKS = [
    check_comparison, check_groups, check_smallest_change, check_stages, check_seeds, check_places, check_faults, check_observed,
    check_baseline, check_exact,
]  # fmt: skip

# ---------------------------------------------------------------- the planted faults

MUTANTS = [
    # the statistics
    ("comparison", "after.mean() - before.mean()", "before.mean() - after.mean()"),
    ("comparison", "stats.t.sf(abs(difference) / error, freedom)", "stats.t.sf(difference / error, freedom)"),
    ("comparison", "p = 2 * float(stats.t.sf", "p = 1 * float(stats.t.sf"),
    ("comparison", "stats.t.sf(abs", "stats.t.cdf(abs"),
    ("comparison", "if error > 0 else 1.0", "if error > 0 else 0.0"),
    ("comparison", "error = pooled_deviation(before, after, n) * math.sqrt(1 / len(before) + 1 / len(after))",
     "error = pooled_deviation(before, after, n) * math.sqrt(1 / (len(before) + len(after)))"),
    ("comparison", "return math.sqrt(max(float(pooled), binomial_variance(float(np.concatenate([before, after]).mean()), n)))",
     "return math.sqrt(float(pooled))"),
    ("comparison", "return math.sqrt(max(float(pooled), binomial", "return math.sqrt(min(float(pooled), binomial"),
    ("comparison", "pooled = (before.var(ddof=1)", "pooled = (before.var(ddof=0)"),
    ("comparison", "+ after.var(ddof=1) * (len(after) - 1)", "+ after.var(ddof=0) * (len(after) - 1)"),
    ("comparison", "+ after.var(ddof=1) * (len(after) - 1)) / freedom", ") / freedom"),
    ("comparison", "float(after.std(ddof=1)), difference,", "float(after.std(ddof=0)), difference,"),
    ("comparison", "stats.t.isf(0.025, freedom)", "stats.t.isf(0.05, freedom)"),
    ("comparison", "difference - half, difference + half", "difference + half, difference - half"),
    ("comparison", "return share * (1 - share) / n", "return share * share / n"),
    ("comparison", "return max(LEAST, SHARE * float", "return min(LEAST, SHARE * float"),
    ("comparison", "SHARE * float(_shares(baseline).std(ddof=1))", "SHARE * float(_shares(baseline).std())"),
    ("comparison", "not ((shares >= 0) & (shares <= 1)).all()", "((shares < 0) | (shares > 1)).any()"),
    ("comparison", "not ((shares >= 0) & (shares <= 1)).all()", "(shares < 0).any()"),
    ("comparison", "shares = np.asarray(values, dtype=np.float64)",
     "shares = np.asarray([v for v in values if v == v], dtype=np.float64)"),
    ("comparison", "FIRST, SECOND = 3, 7", "FIRST, SECOND = 3, 5"),
    ("comparison", "SUSPECT, CONFIRM = 0.05, 0.01", "SUSPECT, CONFIRM = 0.05, 0.1"),
    ("comparison", "LEAST, SHARE = 0.02, 0.5", "LEAST, SHARE = 0.002, 0.5"),
    ("comparison", "if edge is not None:\n        p = fisher", "if edge is None:\n        p = fisher"),
    ("comparison", "int((after < edge).sum()), len(after))", "int((after >= edge).sum()), len(after))"),
    ("comparison", "< 2 or gap < GAP", "< 1 or gap < GAP"),
    ("comparison", "gap < GAP or gap <= widths", "gap < GAP or gap >= widths"),
    ("comparison", "gap < GAP or gap <= widths", "gap <= widths"),
    ("comparison", "float(min(significant, large))", "float(significant)"),
    ("comparison", "float(min(significant, large))", "float(large)"),
    ("comparison", "max(float(before.var(ddof=1)), binomial_variance(centre, n))", "float(before.var(ddof=1)) + 1e-12"),
    ("comparison", "(SECOND, confirm, tolerance(before))", "(SECOND, CONFIRM, tolerance(before))"),
    ("comparison", "found *= float(min(", "found = float(min("),
    ("comparison", "if chances[0] * chances[1] >= POWER", "if max(chances) >= POWER"),
    # the verdicts
    ("regression", "verdict.first.p < SUSPECT", "verdict.first.p > SUSPECT"),
    ("regression", "verdict.first.p < SUSPECT", "verdict.first.p < 2 * SUSPECT / 100"),
    ("regression", "confirmed = holm([second[at].p if second[at] else 1.0 for at in suspects], CONFIRM)",
     "confirmed = [bool(second[at]) and second[at].p < CONFIRM for at in suspects]"),
    ("regression", "confirmed = holm([second[at].p if second[at] else 1.0 for at in suspects], CONFIRM)",
     "confirmed = [True for at in suspects]"),
    ("regression", "holm([second[at].p if second[at] else 1.0 for", "holm([second[at].p if second[at] else 0.0 for"),
    ("regression", "verdict.first.difference * second.difference > 0", "True"),
    ("regression", "verdict.first.difference * second.difference > 0", "verdict.first.difference * second.difference < 0"),
    ("regression", "large = abs(second.difference) >=", "large = second.difference >="),
    ("regression", "large = abs(second.difference) >=", "large = abs(second.difference) <"),
    ("regression", "moved = confirmed and same_way and large", "moved = confirmed and same_way"),
    ("regression", "moved = confirmed and same_way and large", "moved = same_way and large"),
    ("regression", "(LOWER if second.difference < 0 else HIGHER)", "(HIGHER if second.difference < 0 else LOWER)"),
    ("regression", "(LOWER if second.difference < 0 else HIGHER)", "(LOWER if second.difference < 0 else OK)"),
    ("regression", "_fresh(seen, found)[:FIRST]", "_fresh(seen, found)[-FIRST:]"),
    ("regression", "_fresh(verdict.baseline, found)[FIRST:]", "_fresh(verdict.baseline, found)"),
    ("regression", "_fresh(verdict.baseline, found)[FIRST:]", "_fresh(verdict.baseline, found)[FIRST:-1]"),
    ("regression", "sorted(found.correct.keys() - seen.correct.keys())", "sorted(found.correct.keys())"),
    ("regression", "if len(seeds) < FIRST:", "if len(seeds) < 1:"),
    ("regression", "if len(seeds) >= SECOND else None", "if len(seeds) >= 2 else None"),
    ("regression", "return Verdict(place, seen, UNDECIDED,", "return Verdict(place, seen, OK,"),
    ("regression", "return replace(verdict, verdict=UNDECIDED,", "return replace(verdict, verdict=OK,"),
    ("regression", "wanted=FIRST + SECOND - len(fresh))", "wanted=SECOND - len(fresh))"),
    ("regression", "for place, seen in baseline.places.items()\n        if place",
     "for place, seen in list(baseline.places.items())[:-1]\n        if place"),
    ("regression", "for at, verdict in enumerate(verdicts) if", "for at, verdict in enumerate(verdicts[:-1]) if"),
    ("regression", "for at, verdict in enumerate(verdicts) if", "for at, verdict in list(enumerate(verdicts))[1:] if"),
    ("regression", "seen.shares(sorted(seen.correct)), found.shares(seeds), seen.n)",
     "found.shares(seeds), seen.shares(sorted(seen.correct)), seen.n)"),
    # what is no pass
    ("regression", "if found is None:\n            faults.append", "if found is None:\n            str"),
    ("regression", "elif found.digest != seen.digest:", "elif False:"),
    ("regression", "elif found.n != seen.n:", "elif False:"),
    ("regression", "if place not in baseline.places:", "if False:"),
    ("regression", "return found.digest == seen.digest and found.n == seen.n", "return True"),
    ("regression", "if len(sources) > 1:", "if len(sources) > 2:"),
    ("regression", "for seed in _fresh(seen, found) if seed in found.sources", "for seed in found.sources"),
    ("regression", "faults = list(observed.faults) + _faults(", "faults = _faults("),
    ("regression", "if self.faults or not found:", "if not found:"),
    ("regression", "if self.faults or not found:", "if self.faults:"),
    ("regression", "return 1 if found & {LOWER, HIGHER} else 3", "return 1 if found & {LOWER} else 3"),
    ("regression", "else 3 if UNDECIDED in found else 0", "else 0"),
    # the numbers themselves
    ("observed", 'if record["run"]["status"] != "ok":', 'if record["run"]["status"] == "failed":'),
    ("observed", 'if spec["data"]["digest"] != seen.digest:', "if False:"),
    ("observed", "elif n != seen.n:", "elif False:"),
    ("observed", "elif seen.correct.setdefault(seed, correct) != correct:", "elif seen.correct.update({seed: correct}):"),
    ("observed", "if without:", "if not without:"),
    ("observed", 'sum(row[i] for i, row in enumerate(probe["confusion"])), n + probe["n"]',
     'sum(row[0] for i, row in enumerate(probe["confusion"][1:])), n + probe["n"]'),
    ("observed", "return [self.correct[seed] / self.n for seed in seeds]",
     "return [self.correct[seed] / self.n for seed in sorted(seeds)]"),
    ("observed", "feature = BITS if records.is_bit", "feature = BITS if not records.is_bit"),
    ("observed", 'if key != "file"}', "if True}"),
    ("observed", 'ELSEWHERE = ("suite", "strength", "varied", "seed")',
     'ELSEWHERE = ("suite", "strength", "varied", "seed", "method")'),
    # tier a
    ("repeatability", "nearest <= BAND", "nearest >= BAND"),
    ("repeatability", "nearest <= BAND", "True"),
    ("repeatability", "nearest = min(", "nearest = max("),
    ("repeatability", "if other.machine == result.machine", "if other.machine[:3] == result.machine[:3]"),
    ("repeatability", "if other.machine == result.machine", "if other.machine[1:] == result.machine[1:]"),
    ("repeatability", "if again is None or again.weights", "if again is not None and again.weights"),
    ("repeatability", "again.weights != result.weights or", "False or"),
    ("repeatability", "or again.matrices != result.matrices:", "or False:"),
    ("repeatability", "if reference.weights != result.weights:", "if False:"),
    ("repeatability", "if reference.matrices[name] != result.matrices.get(name)", "if False"),
    ("repeatability", "if name not in reference.matrices]", "if name in reference.matrices and False]"),
    ("repeatability", "sum(abs(a - b) for", "sum(a - b for"),
    ("repeatability", "return differing / 2 /", "return differing /"),
    ("repeatability", "if reference.matrices.keys() != result.matrices.keys():", "if False:"),
    ("repeatability", "if key in references and references[key].digest == cell.digest", "if key in references"),
    ("repeatability", "elif references[key].digest != cell.digest:", "elif False:"),
    ("repeatability", "for key, cell in references.items() if key not in cells]",
     "for key, cell in references.items() if False]"),
    ("repeatability", "if key not in references:", "if False:"),
    # the file
    ("baseline", "if len(seen.correct) < LEAST:", "if len(seen.correct) < 2:"),
    ("baseline", "faults = list(observed.faults)\n", "faults = []\n"),
    ("baseline", "if not observed.places:", "if False:"),
    ("baseline", "LEAST = 10", "LEAST = 9"),
    ("baseline", "any(type(value) is not int or value", "any(not isinstance(value, (int, float)) or value"),
    ("baseline", "or value < 0 for value in [*seeds, *correct])", "or value < 0 for value in correct)"),
    ("baseline", "if len(set(seeds)) < len(seeds):", "if False:"),
    ("baseline", "if len(seeds) < LEAST:", "if False:"),
    ("baseline", "any(value > cell[\"n\"] for value in correct)", "any(value > cell[\"n\"] for value in correct[:-1])"),
    ("baseline", "if own.count(place) > 1", "if own.count(place) > 2"),
    ("baseline", 'content["schema"] != SCHEMA', 'content["schema"] < SCHEMA'),
]  # fmt: skip


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_checker_as_it_is_passes(check):
    with fresh() as modules:
        check(modules)


@pytest.mark.parametrize("mutant", MUTANTS, ids=[f"{m[0]}-{at}" for at, m in enumerate(MUTANTS)])
def test_a_planted_fault_is_caught(mutant):
    with fresh(*mutant) as modules:
        for check in CHECKS:
            try:
                check(modules)
            except Exception:  # an assertion that fails, or a checker that falls over: caught either way
                return
    pytest.fail(f"nothing noticed {mutant[2]!r} in place of {mutant[1]!r}")


def test_every_fault_is_planted_once():
    assert len(MUTANTS) >= 20 and len(set(MUTANTS)) == len(MUTANTS)
