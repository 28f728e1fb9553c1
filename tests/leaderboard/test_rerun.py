"""A rerun trains in a sandbox, judges the weights itself, and finds out a claim that only looks consistent."""

import json
import math
import os
from pathlib import Path

import msgspec
import numpy as np
import pytest
from scipy import stats
from small_cells import make_record, probe_entry
from small_entries import rerun
from test_check import cell, copy, good, toy  # noqa: F401 (fixtures)
from toy_track import METHOD, edit, request, run_cells

from suppression_bench import cli
from suppression_bench.cell import settings_key
from suppression_bench.config import Request, cells_of_suite
from suppression_bench.leaderboard import check, sandbox, submission, tracks
from suppression_bench.leaderboard import entry as entries
from suppression_bench.leaderboard import rerun as reruns
from suppression_bench.leaderboard.entry import Rerun
from suppression_bench.results import predictions

ENTRIES = Path(__file__).parents[2] / entries.ROOT
LIGHT = ["--workers", "1", "--threads", "1", "--device", "cpu", "--nonce", "n"]


def run_again(folder, out, *more):
    command = ["leaderboard", "rerun", folder.name, "--root", str(folder.parent), "--out", str(out)]
    return cli.main([*command, *LIGHT, *map(str, more)])


def finding_of(folder):
    return entries.read_finding(entries.finding_path(folder, Rerun), Rerun)


@pytest.mark.slow
@pytest.mark.sandbox
def test_an_honest_claim_is_raised_to_v3_and_a_stopped_rerun_goes_on(copy, tmp_path, capsys):  # noqa: F811
    assert run_again(copy, tmp_path / "out", "--hours", "0.0003") == 4
    assert "the same command goes on" in capsys.readouterr().err
    assert run_again(copy, tmp_path / "out", "--fresh-seeds", "1") == 2
    assert "holds another rerun" in capsys.readouterr().err
    assert run_again(copy, tmp_path / "out") == 0
    printed = capsys.readouterr().out
    assert "the claim holds" in printed and "sandbox: bubblewrap" in printed
    finding, planned = finding_of(copy), json.loads((tmp_path / "out" / "rerun.json").read_text())
    assert finding.fresh_seeds == planned["fresh_seeds"] and finding.nonce == "n" and len(finding.cells) == 9
    assert finding.sandbox == "bubblewrap" and entries.load(copy).level == entries.RETRAINED
    claims = {(record.spec.dataset.bits, record.spec.seed): record for record in entries.load(copy).records}
    for number in finding.cells:  # the same seed on the same machine: the very number
        if not number.fresh and number.feature == "digit":
            [probe] = [p for p in claims[int(number.strength), number.seed].probes if p.feature == "digit"]
            assert number.correct == probe.correct


def forge_from_labels(folder):
    """All digits right but one a seed: whoever has the public labels can write this without training anything."""
    rows = entries.read_predictions(folder / entries.PREDICTIONS)
    official, key = tracks.Official(tracks.read("toy")), ("lbfgs", "encoder", "digit")
    for record in entries.load(folder).records:
        truth = official.labels(record.spec.dataset.bits)("probe-test", "digit").astype("uint8")
        claimed, seed = truth.copy(), record.spec.seed
        claimed[seed] = (truth[seed] + 1) % 10  # no two seeds alike
        rows[entries.cell_name(record)][key] = claimed
        confusion = predictions.confusion(claimed, truth, 10)
        name = entries.cell_name(record)
        edit(folder, lambda content: cell(content, name)["probes"][-1].update(confusion=confusion))  # noqa: B023
    submission.write_predictions(folder / entries.PREDICTIONS, rows)
    edit(folder)


@pytest.mark.slow
@pytest.mark.sandbox
def test_a_claim_forged_from_the_public_labels_passes_v1_and_fails_the_rerun(toy, tmp_path, randbit, capsys):  # noqa: F811
    (tmp_path / "mine.py").write_text(METHOD)
    cells = run_cells(str(tmp_path / "mine.py"), randbit, tmp_path / "runs", seeds=(0, 1, 2))
    folder = submission.write(cells, request(files={"method": str(tmp_path / "mine.py")}), tmp_path / "entries")
    forge_from_labels(folder)
    report = check.check(folder, folder.parent)
    assert report.faults == [] and report.level == entries.RESCORED
    assert run_again(folder, tmp_path / "out") == 1
    assert "does NOT hold" in capsys.readouterr().out
    assert entries.load(folder).level == entries.REPORTED


@pytest.fixture
def no_bubblewrap(monkeypatch):
    monkeypatch.setattr(sandbox.shutil, "which", lambda name: None)


def test_foreign_code_is_not_run_without_a_sandbox(copy, tmp_path, capsys, no_bubblewrap):  # noqa: F811
    assert run_again(copy, tmp_path / "out") == 4
    refusal = capsys.readouterr().err
    for remedy in ("bubblewrap", "apparmor_restrict_unprivileged_userns", "container", "--i-trust-this-code"):
        assert remedy in refusal
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_ones_own_code_may_be_trusted_and_raises_no_level(copy, tmp_path, capsys, no_bubblewrap):  # noqa: F811
    assert run_again(copy, tmp_path / "out", "--i-trust-this-code") == 0
    assert "unsandboxed" in capsys.readouterr().out
    assert finding_of(copy).passed and finding_of(copy).sandbox == "unsandboxed"
    assert entries.load(copy).level == entries.REPORTED


def test_a_refused_submission_is_not_run(copy, tmp_path, capsys):  # noqa: F811
    (copy / "method.py").write_text("import os\n")
    edit(copy)
    assert run_again(copy, tmp_path / "out") == 2
    assert "method.py" in capsys.readouterr().err and not (tmp_path / "out").exists()


@pytest.mark.parametrize("path", [path.name for path in sorted(ENTRIES.iterdir())])
def test_the_suite_of_a_rerun_has_the_setting_of_the_claim(path, tmp_path):
    """On the committed entries, resolved and not run."""
    claim, track = entries.load(ENTRIES / path), tracks.read("quick")
    suite = reruns.suite_file(claim, track, [5, 2**31 - 1], {}, tmp_path)
    located = cells_of_suite(str(suite), Request())
    assert len(located) == 2 * len(track.grid) and {cell.cell.seed for cell in located} == {5, 2**31 - 1}
    for planned in located:
        setting = entries.without_strength(planned.cell, track.strength)
        assert settings_key(setting) == settings_key(claim.entry.setting)


def test_sources_are_named_by_absolute_folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    track = tracks.read("randbit-mnist")
    assert reruns.offline_sources(track, {"digit_source": "mnist:here"}) == {"digit_source": f"mnist:{tmp_path}/here"}
    assert os.path.isabs(reruns.offline_sources(track, {})["digit_source"].removeprefix("mnist:"))


# The verdict: prediction intervals against a second writing and simulation.


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
        found = reruns.interval(values, n, level)
        assert (found.low, found.high) == pytest.approx(naive(values, n, level))


def test_seeds_that_agree_by_chance_still_have_binomial_noise():
    found = reruns.interval([0.5] * 10, 100)
    assert found.high - found.mean == pytest.approx(3.2498 * math.sqrt(0.25 / 100 * 1.1), rel=1e-3)


def test_a_perfect_claim_is_no_promise_of_the_last_sample():
    assert holds(claim([400, 400, 400]), again({0: 400, 77: 396, 78: 399}))
    assert not holds(claim([400, 400, 400]), again({0: 400, 77: 380, 78: 399}))


def test_an_honest_new_seed_lies_inside_99_times_in_100():
    rng = np.random.default_rng(0)
    inside = [reruns.interval(values[:10], 10**6).holds(values[10]) for values in rng.normal(0.5, 0.05, (4000, 11))]
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
    judged = reruns.compare(claimed, retrained, {77, 78})
    return rerun("a", cells=msgspec.to_builtins(judged), allowed=reruns.allowed(len(judged))).passed


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
    judged = reruns.compare(claim(HONEST), again(values), {77, 78})
    assert len(judged) == 6 and [cell.fresh for cell in judged[:3]] == [False, True, True]
    assert holds(claim(HONEST), again(values)) is honest


def test_bits_are_one_feature_and_other_probes_are_left_out():
    probes = [probe_entry(40, 50, f"bit0{i}", 2) for i in range(3)]
    probes += [probe_entry(5, 50), probe_entry(9, 50, probe="online"), probe_entry(9, 50, layer="head")]
    assert reruns.right(probes, make_record(probes).group_of) == {"bits": (120, 150), "digit": (5, 50)}


def test_fresh_seeds_hang_on_submission_and_nonce():
    first = reruns.draw_seeds("a", "n", [0, 1, 2], 1, 2)
    assert first == reruns.draw_seeds("a", "n", [2, 1, 0], 1, 2)
    assert len({str(reruns.draw_seeds("a", nonce, [0, 1, 2], 1, 2)) for nonce in "abcdefgh"}) == 8
    submitted, fresh = first
    assert set(submitted) < {0, 1, 2} and len(set(fresh)) == 2 and not set(fresh) & {0, 1, 2}
    assert {reruns.draw_seeds("a", nonce, [0, 1, 2], 1, 2)[0][0] for nonce in "abcdefghijkl"} == {0, 1, 2}
