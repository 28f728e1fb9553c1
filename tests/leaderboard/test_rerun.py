"""A rerun trains in a sandbox, judges the weights itself, and finds out a claim that only looks consistent."""

import json
import os
from pathlib import Path

import pytest
from test_check import cell
from toy_track import METHOD, edit, request, run_cells

from suppression_bench import cli
from suppression_bench.cell import settings_key
from suppression_bench.leaderboard import check, sandbox, submission, tracks
from suppression_bench.leaderboard import entry as entries
from suppression_bench.leaderboard import rerun as reruns
from suppression_bench.leaderboard.entry import Rerun
from suppression_bench.results import predictions
from suppression_bench.suite import Request, cells_of_suite

ENTRIES = Path(__file__).parents[2] / entries.ROOT
LIGHT = ["--workers", "1", "--threads", "1", "--device", "cpu", "--nonce", "n"]


def run_again(folder, out, *more):
    command = ["leaderboard", "rerun", folder.name, "--root", str(folder.parent), "--out", str(out)]
    return cli.main([*command, *LIGHT, *map(str, more)])


def finding_of(folder):
    return entries.read_finding(entries.finding_path(folder, Rerun), Rerun)


@pytest.mark.slow
@pytest.mark.sandbox
def test_an_honest_claim_is_raised_to_v3_and_a_stopped_rerun_goes_on(copy, tmp_path, capsys):
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
def test_a_claim_forged_from_the_public_labels_passes_v1_and_fails_the_rerun(toy, tmp_path, randbit, capsys):
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


def test_foreign_code_is_not_run_without_a_sandbox(copy, tmp_path, capsys, no_bubblewrap):
    assert run_again(copy, tmp_path / "out") == 4
    refusal = capsys.readouterr().err
    for remedy in ("bubblewrap", "apparmor_restrict_unprivileged_userns", "container", "--i-trust-this-code"):
        assert remedy in refusal
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_ones_own_code_may_be_trusted_and_raises_no_level(copy, tmp_path, capsys, no_bubblewrap):
    assert run_again(copy, tmp_path / "out", "--i-trust-this-code") == 0
    assert "unsandboxed" in capsys.readouterr().out
    assert finding_of(copy).passed and finding_of(copy).sandbox == "unsandboxed"
    assert entries.load(copy).level == entries.REPORTED


def test_a_refused_submission_is_not_run(copy, tmp_path, capsys):
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


def test_fresh_seeds_hang_on_submission_and_nonce():
    first = reruns.draw_seeds("a", "n", [0, 1, 2], 1, 2)
    assert first == reruns.draw_seeds("a", "n", [2, 1, 0], 1, 2)
    assert len({str(reruns.draw_seeds("a", nonce, [0, 1, 2], 1, 2)) for nonce in "abcdefgh"}) == 8
    submitted, fresh = first
    assert set(submitted) < {0, 1, 2} and len(set(fresh)) == 2 and not set(fresh) & {0, 1, 2}
    assert {reruns.draw_seeds("a", nonce, [0, 1, 2], 1, 2)[0][0] for nonce in "abcdefghijkl"} == {0, 1, 2}
