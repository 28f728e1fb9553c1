"""Failed, diverged and missing cells in every format; floors, ceilings; any mix of folders."""

import csv
import io
import json
import os
import re
import subprocess
import sys

import pytest
from small_cells import make_record, probe_entry, write_records
from test_metric_tables import metrics

from generators import strict_json
from suppression_bench.cli import main
from suppression_bench.results import tables
from suppression_bench.results.frame import long_table
from suppression_bench.results.record import PLAN

FORMATS = ["markdown", "csv", "latex", "html"]


@pytest.fixture
def folder(tmp_path):
    """Three methods at five bits, three seeds each: one failed, one diverged, one missing cell; simclr also without bits."""
    made = {
        (method, seed): make_record([probe_entry(20 + seed)], method=method, bits=5, seed=seed)
        for method in ("byol", "simclr", "vae")
        for seed in range(3)
    }
    made["simclr", 2] = make_record(
        [], method="simclr", bits=5, seed=2, status="failed", error="<script>alert(1)</script>"
    )
    made["byol", 0] = make_record([], method="byol", bits=5, seed=0, status="diverged", error="loss is nan")
    missing = made.pop(("vae", 1))
    write_records(tmp_path / "run", [*made.values(), make_record([probe_entry(90)], method="simclr", bits=0)])
    plan = [{"id": one["id"], "folder": "x", "spec": one["spec"]} for one in (*made.values(), missing)]
    (tmp_path / "run" / PLAN).write_text(strict_json.dumps(plan))
    return tmp_path / "run"


def said(capsys, *flags):
    assert main(["table", *map(str, flags)]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("form", FORMATS)
def test_lost_seeds_stand_where_their_numbers_would(folder, form, capsys):
    text = said(capsys, folder, "--format", form)
    spread = {"latex": r"$\pm$"}.get(form, "±")
    mark = ('<em class="lost">', "</em>") if form == "html" else ("", "")
    for mean, deviation, lost in (
        (20.5, 0.7, "failed (seed 2)"), (21.5, 0.7, "diverged (seed 0)"), (21.0, 1.4, "missing (seed 1)"),
    ):  # fmt: skip
        assert f"{mean} {spread} {deviation} (n=2); {mark[0]}{lost}{mark[1]}" in text, form
    assert "n=3" not in text


def test_the_long_forms_have_a_line_for_each_by_any_probe(folder, capsys):
    for more in ([], ["--probe", "lbfgs"]):
        lines = json.loads(said(capsys, folder, "--format", "json", *more))
        rows = list(csv.DictReader(io.StringIO(said(capsys, folder, "--long", *more).strip())))
        for found in (lines, rows):
            lost = {(row["method"], int(row["seed"]), row["status"]) for row in found if row["status"] != "ok"}
            assert lost == {("simclr", 2, "failed"), ("byol", 0, "diverged"), ("vae", 1, "missing")}
            assert len(found) == 10
        assert all(line["accuracy"] is None for line in lines if line["status"] != "ok")


def test_the_summary_and_the_metrics_name_them(folder, tmp_path, capsys):
    # A cell without bits, with metrics: there is something to show beside what is lost.
    with_metrics = {**make_record([probe_entry(50)], method="swav", bits=5), "metrics": metrics(20)}
    more = write_records(tmp_path / "more", [with_metrics])
    for flag in ("--summary", "--metrics"):
        text = said(capsys, folder, more, flag)
        assert "swav" in text
        for lost in (
            "simclr bits=5 seed=2, failed", "byol bits=5 seed=0, diverged", "vae bits=5 seed=1, missing",
        ):  # fmt: skip
            assert f"Not in these numbers: {lost}." in text, (flag, lost)
    assert "seed=2, failed" in said(capsys, folder, "--metrics")  # and where there is nothing else to show


def test_several_lost_seeds_are_one_note(tmp_path):
    made = [make_record([probe_entry(50)], bits=5, seed=0)]
    made += [
        make_record([], bits=5, seed=s, status=status) for s, status in ((3, "failed"), (1, "failed"), (2, "diverged"))
    ]
    text = tables.render(long_table([write_records(tmp_path, made)]), "markdown")
    assert "50.0; diverged (seed 2); failed (seeds 1, 3)" in text


def untrained(**more):
    return [make_record([probe_entry(30)], method="untrained", seed=s, **more) for s in range(3)]


def test_floor_and_ceiling_are_the_last_rows(tmp_path):
    made = [
        *untrained(),
        make_record([probe_entry(95)], method="supervised"),
        make_record([probe_entry(60)], method="vae"),
    ]
    frame = long_table([write_records(tmp_path, made)])
    [(_, table)] = tables.pivot(frame)
    assert table["method"].tolist() == ["vae", "supervised", "untrained"]
    assert "No floor" not in tables.render(frame, "markdown") and "No ceiling" not in tables.render(frame, "markdown")


@pytest.mark.parametrize("form", ["markdown", "latex", "html"])
def test_without_them_the_legend_says_how_to_get_them(tmp_path, form, capsys):
    text = said(capsys, write_records(tmp_path, [make_record([probe_entry(60)])]), "--format", form)
    assert "No floor: no untrained encoder was run" in text and "No ceiling: no supervised encoder was run" in text
    assert "bench run --data DIR --method untrained --recipe randbit --set bits=N --seeds 3 --out OUT" in text
    assert "bench run --data DIR --method supervised --recipe randbit --set bits=N --out OUT" in text


def test_a_floor_of_one_dataset_is_no_floor_of_another(tmp_path):
    other = {"dataset": "plain", "version": 1, "options": {}, "seed": 0, "digest": "f" * 64, "bits": 0}
    made = [*untrained(), make_record([probe_entry(60)]), make_record([probe_entry(60)], data=other, strength=None)]
    text = tables.render(long_table([write_records(tmp_path, made)]), "markdown")
    assert "No floor (plain)" in text and "No floor (randbit" not in text and "--recipe randbit --seeds 3" in text


def test_a_probe_that_the_floor_does_not_have_is_said(tmp_path):
    made = [*untrained(), make_record([probe_entry(60), probe_entry(50, probe="online")])]
    text = tables.render(long_table([write_records(tmp_path, made)]), "markdown", probe="online")
    assert "No floor: the untrained encoder has no online probe." in text
    # Beside the other probe, too: a row that cannot have the mark is no row that needs none.
    text = tables.render(long_table([tmp_path]), "markdown")
    assert "- No floor by online: the untrained encoder has no such probe; ▼ is not given there." in text
    text = tables.render(long_table([tmp_path]), "markdown", probe="lbfgs")
    assert "No floor" not in text


def test_a_name_that_ends_in_a_hash_is_explained(tmp_path):
    made = [make_record([probe_entry(60)]), make_record([probe_entry(70)], train={"epochs": 2})]
    text = tables.render(long_table([write_records(tmp_path, made)]), "markdown")
    assert "simclr #" in text and "- #: cells of one name that differ in other settings" in text
    assert "- #" not in tables.render(long_table([write_records(tmp_path / "one", made[:1])]), "markdown")


def test_any_mix_of_folders_gives_one_table(tmp_path, capsys):
    first = write_records(tmp_path / "a", [make_record([probe_entry(60)]), *untrained()])
    second = write_records(tmp_path / "b", [make_record([probe_entry(64)], seed=1), make_record([probe_entry(60)])])
    third = write_records(tmp_path / "c", [make_record([probe_entry(40)], method="byol")])
    [cell] = (third / "cells").iterdir()
    expected = said(capsys, first, second, cell)
    assert "| 62.0 ± 2.8 (n=2) |" in expected and "| 40.0 " in expected and "| 30.0 ± 0.0 (n=3) |" in expected
    for mix in (
        [cell, second, first],
        [tmp_path],
        [tmp_path, first, cell, tmp_path / "b" / "cells"],
        [first, first, second, cell],
    ):
        assert said(capsys, *mix) == expected, mix


def test_the_same_cell_of_two_suites_is_one_seed(tmp_path, capsys):
    made = [make_record([probe_entry(r)], seed=s) for s, r in enumerate((60, 70))]
    again = [
        make_record([probe_entry(r)], seed=s, suite={"name": "other", "version": 2}) for s, r in enumerate((60, 70))
    ]
    assert {one["id"] for one in made}.isdisjoint(one["id"] for one in again)
    text = said(capsys, write_records(tmp_path / "a", made), write_records(tmp_path / "b", again))
    assert "| 65.0 ± 7.1 (n=2) |" in text


def test_a_terminal_that_cannot_write_every_letter(tmp_path):
    floor = [make_record([probe_entry(right)], method="untrained", seed=right) for right in (80, 82)]
    write_records(tmp_path, [make_record([probe_entry(30)]), *floor])
    run = [sys.executable, "-m", "suppression_bench.cli", "table", str(tmp_path)]
    answer = subprocess.run(run, capture_output=True, env={**os.environ, "PYTHONIOENCODING": "ascii"}, check=True)
    assert b"30.0 \\u25bc" in answer.stdout and b"81.0 \\xb1 1.4" in answer.stdout


def test_markup_in_a_name_breaks_no_markdown_table(tmp_path, capsys):
    made = {**make_record([probe_entry(50)], method="<b>a|b</b>", bits=5), "metrics": metrics(20)}
    folder = write_records(tmp_path, [made])
    for flags in ([], ["--summary"], ["--metrics"]):
        text = said(capsys, folder, *flags)
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in text.splitlines() if line.startswith("|")}
        assert len(widths) == 1 and r"\<b>a\|b\</b>" in text, flags
