"""`bench check` from the command line: each verdict with its exit code, on hand-made records and on real small cells."""

import json
from xml.etree import ElementTree

import pytest
from small_cells import make_record, probe_entry, write_records

from suppression_bench.cli import main

SPREAD = [-20, -15, -10, -5, 0, 0, 5, 10, 15, 20]


def bench(*arguments) -> int:
    return main(["check", *map(str, arguments)])


def runs(folder, seeds, centre=600, method="simclr", bits=4, **more):
    """Records of 1000 test decisions around a centre, spread alike whatever the seeds."""
    made = [
        make_record(
            [probe_entry(centre + SPREAD[(7 * seed) % 10], n=1000)], method=method, seed=seed, bits=bits, **more
        )
        for seed in seeds
    ]
    return write_records(folder, made)


@pytest.fixture
def base(tmp_path, capsys):
    old = runs(runs(tmp_path / "old", range(10)), range(10), centre=800, method="byol")
    assert bench(old, "--record", "--out", tmp_path / "base.json") == 0
    assert "2 numbers, seeds 0-9" in capsys.readouterr().out
    return tmp_path / "base.json"


def fresh(folder, centre=600, seeds=range(10, 20), **more):
    return runs(runs(folder, seeds, centre, **more), seeds, centre=800, method="byol")


def test_nothing_has_moved(base, tmp_path, capsys):
    assert bench(fresh(tmp_path / "new"), "--baseline", base) == 0
    text = capsys.readouterr().out
    assert "none of 2 numbers has moved" in text and "| simclr bits=4 | digit | lbfgs | 10 + 3 | 60.0 ± 1.3 |" in text
    row = next(line for line in text.splitlines() if line.startswith("| byol"))
    assert 2 < float(row.split("|")[10]) < 8, "the smallest change, in points"


def test_a_number_has_moved_and_every_report_says_so(base, tmp_path, capsys):
    junit, summary = tmp_path / "out.xml", tmp_path / "summary.md"
    summary.write_text("before\n")
    assert bench(fresh(tmp_path / "new", 500), "--baseline", base, "--junit", junit, "--summary", summary) == 1
    text = capsys.readouterr().out
    assert "1 of 2 numbers are lower, 0 higher" in text and "**lower**" in text and "10 + 7" in text
    suite = ElementTree.parse(junit).getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "1", "0")
    [case] = [case for case in suite if case.find("failure") is not None]
    assert "simclr bits=4, digit by lbfgs" in case.get("name") and "points" in case.find("failure").get("message")
    short = summary.read_text()
    assert short.startswith("before\n### bench check: 1 of 2") and "| simclr" in short and "| byol" not in short


def test_a_change_for_the_better_fails_too(base, tmp_path, capsys):
    assert bench(fresh(tmp_path / "new", 700), "--baseline", base) == 1
    assert "**higher: baseline outdated**" in capsys.readouterr().out


def test_too_few_seeds_are_inconclusive_and_named(base, tmp_path, capsys):
    assert bench(fresh(tmp_path / "new", 500, range(10, 13)), "--baseline", base, "--junit", tmp_path / "x.xml") == 3
    text = capsys.readouterr().out
    assert "inconclusive, 1 of 2" in text and "Still to run, seeds 13-19: simclr bits=4." in text
    assert ElementTree.parse(tmp_path / "x.xml").getroot().get("skipped") == "1"
    assert bench(tmp_path / "old", "--baseline", base) == 3
    assert "Still to run, seeds 10-12: " in capsys.readouterr().out, "the baseline's own seeds are no evidence"


def faults(capsys) -> str:
    said = capsys.readouterr()
    assert "Traceback" not in said.err and "bench: error: " in said.err
    return said.err


def test_bad_data_is_never_a_pass(base, tmp_path, capsys):
    new = fresh(tmp_path / "new")
    runs(new, range(10, 13), bits=8)
    write_records(new, [make_record([], seed=13, status="diverged", error="the loss was not finite at step 3")])
    junit = tmp_path / "out.xml"
    assert bench(new, "--baseline", base, "--junit", junit) == 2
    said = faults(capsys)
    assert "simclr bits=8, digit by lbfgs: extra" in said and "seed=13: diverged (the loss" in said
    assert ElementTree.parse(junit).getroot().get("errors") == "2"
    assert bench(runs(tmp_path / "one", range(10, 13)), "--baseline", base) == 2
    assert "byol bits=4, digit by lbfgs: missing" in faults(capsys)
    assert bench(fresh(tmp_path / "other", digest="e" * 64), "--baseline", base) == 2
    assert "other data, digest eeeeeeeeeeee where the baseline has dddddddddddd" in faults(capsys)


def test_a_name_that_is_no_text_stands_in_every_report(base, tmp_path):
    junit, summary = tmp_path / "out.xml", tmp_path / "summary.md"
    new = runs(fresh(tmp_path / "new"), [10], method="a\ud800<|>\x00")
    assert bench(new, "--baseline", base, "--junit", junit, "--summary", summary) == 2
    [message] = [error.get("message") for error in ElementTree.parse(junit).getroot().iter("error")]
    assert message.startswith("a?<|>? bits=4, digit by lbfgs: extra")
    assert "a\\ud800<|>" in summary.read_text(encoding="utf-8")


@pytest.mark.parametrize("flag", ["--junit", "--summary", "--out"])
def test_a_place_that_cannot_be_written_ends_with_4(base, tmp_path, capsys, flag):
    (tmp_path / "file").write_text("")
    for place in (tmp_path / ("x" * 300), tmp_path / "file" / "x.json", tmp_path / "old"):
        chosen = ["--record"] if flag == "--out" else ["--baseline", base]
        assert bench(tmp_path / "old", *chosen, flag, place) == 4, place
        assert "name another place" in faults(capsys)


def test_what_cannot_be_asked(base, tmp_path, capsys):
    new = fresh(tmp_path / "new")
    for arguments, word in [
        ([new], "--baseline FILE is missing"),
        ([new, "--record"], "--record needs --out"),
        ([new, "--baseline", tmp_path / "none.json"], "no such file; make one"),
        ([new, "--baseline", base, "--out", "x"], "--out goes with --record"),
        ([new, "--baseline", base, "--workers", 2], "--workers goes with a suite"),
        ([new, "--baseline", base, "--tier", "a"], "runs a suite itself"),
        ([new, tmp_path / "none", "--baseline", base], "none: no such folder"),
        (["quick", "tiny", "--baseline", base], "give one suite"),
        (["quikc", "--baseline", base], "did you mean 'quick'"),
        (["quick", "--baseline", base, "--first-seed", 3], "seeds 3-9 are in the baseline"),
        (["quick", "--record", "--out", "x", "--seeds", 9], "at least 10"),
        (["tiny", "--tier", "a", "--baseline", base], "not valid"),
    ]:
        assert bench(*arguments) == 2, arguments
        assert word in faults(capsys)


SUITE = """
version: 1
data: {dataset: randbit, digit_source: optdigits, train: 200, test: 100}
strength: bits
recipe: randbit-small
set: {probe: {l2: [0.01]}}
cells:
  - {method: untrained, grid: {bits: [2]}, seeds: [0, 1]}
"""


@pytest.mark.slow
def test_a_suite_is_run_in_two_stages(tmp_path, capsys, monkeypatch):
    """An untrained encoder against itself, then against a baseline that says it was much better."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text(SUITE)
    one = ["--workers", 1, "--threads", 1]
    assert bench("mine.yaml", "--record", "--out", "base.json", *one) == 0
    content = json.loads((tmp_path / "base.json").read_text())
    features = {cell["feature"]: cell for cell in content["cells"]}
    assert set(features) == {"digit", "bits"} and features["bits"]["n"] == 200 and features["digit"]["n"] == 100
    assert features["digit"]["seeds"] == list(range(10)) and content["suite"] == {"name": "mine", "version": 1}
    capsys.readouterr()
    assert bench("mine.yaml", "--baseline", "base.json", "--runs", "new", *one) == 0
    assert len(list((tmp_path / "new").rglob("result.json"))) == 3, "no suspect, no second stage"
    digit = next(cell for cell in content["cells"] if cell["feature"] == "digit")
    digit["correct"] = [min(count + 20, 100) for count in digit["correct"]]
    (tmp_path / "better.json").write_text(json.dumps(content))
    capsys.readouterr()
    assert bench("mine.yaml", "--baseline", "better.json", "--runs", "new", *one) == 1
    said = capsys.readouterr()
    assert len(list((tmp_path / "new").rglob("result.json"))) == 10 and "stage 2, seeds 13-19" in said.err
    assert "1 of 2 numbers are lower" in said.out and bench("new", "--baseline", "better.json") == 1
    # Another version of the program must not be judged by these records.
    for path in (tmp_path / "new").rglob("result.json"):
        path.write_text(path.read_text().replace('"sources":"', '"sources":"0'))
    capsys.readouterr()
    assert bench("mine.yaml", "--baseline", "base.json", "--runs", "new", *one) == 2
    assert "another version of the program" in faults(capsys)


@pytest.mark.slow
def test_tier_a_says_which_rule_applied(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text(SUITE)
    assert bench("mine.yaml", "--tier", "a", "--record", "--out", "tiny.json", "--workers", 1) == 0
    check = ["mine.yaml", "--tier", "a", "--baseline", "tiny.json", "--workers", 1]
    capsys.readouterr()
    assert bench(*check) == 0
    said = capsys.readouterr()
    assert (
        "all 1 cells agree" in said.out and "every bit must agree" in said.out and said.err.count("1 cells on cpu") == 1
    )
    text = (tmp_path / "tiny.json").read_text()
    (tmp_path / "tiny.json").write_text(text.replace('"platform":"', '"platform":"Other'))
    assert bench(*check) == 0
    said = capsys.readouterr()
    assert "no reference of this torch version" in said.out and said.err.count("1 cells on cpu") == 2, "run twice"
    [cell] = json.loads(text)["cells"]
    weights = cell["references"][0]["weights"]
    (tmp_path / "tiny.json").write_text(text.replace(weights, weights[::-1]))
    assert bench(*check) == 1
    assert "weights differ in their bits" in capsys.readouterr().out
    (tmp_path / "tiny.json").write_text(text.replace(cell["digest"], cell["digest"][::-1]))
    assert bench(*check) == 2
    assert "other data" in faults(capsys)
