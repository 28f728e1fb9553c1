"""table, plot and report: what they accept, where they write, and what they refuse in a sentence."""

import os
import subprocess
import sys

import pytest
from small_cells import make_record, probe_entry, write_records
from small_studies import traced

from suppression_bench.cli import main
from suppression_bench.results import record


@pytest.fixture
def runs(tmp_path):
    """A run's folder: a method at two strengths, one of its cells with a trace."""
    return str(write_records(tmp_path / "runs", [make_record([probe_entry(80)]), traced((20, 80))]))


def test_any_mix_of_folders_cells_and_files_gives_one_table(tmp_path, capsys):
    records = [
        make_record([probe_entry(60)]),
        make_record([probe_entry(64)], seed=1),
        make_record([probe_entry(40)], "byol"),
    ]
    first, second = (write_records(tmp_path / name, part) for name, part in (("a", records[:2]), ("b", records[1:])))
    (tmp_path / "study.jsonl").write_text("".join(record.to_json(entry) + "\n" for entry in records))
    [*_, cell] = sorted((second / "cells").iterdir())
    assert main(["table", str(first), str(second)]) == 0
    expected = capsys.readouterr().out
    assert "| 62.0 ± 2.8 (n=2) |" in expected and "| 40.0 " in expected
    for mix in ([second, first, cell], [tmp_path], [tmp_path / "study.jsonl"], [first, tmp_path / "study.jsonl"]):
        assert main(["table", *map(str, mix)]) == 0 and capsys.readouterr().out == expected, mix


@pytest.mark.parametrize(
    ("flags", "part"),
    [
        ([], "| simclr"),
        (["--format", "csv"], "simclr,lbfgs,encoder,80.0"),
        (["--format", "latex"], r"\toprule"),
        (["--format", "html"], "<table"),
        (["--format", "json"], '"accuracy"'),
        (["--long"], "train_accuracy"),
        (["--paper"], "No published number"),
        (["--metrics"], "No metrics"),
        (["--summary"], "| R @2 "),
    ],
)
def test_every_table_is_printed_or_written(runs, tmp_path, capsys, flags, part):
    assert main(["table", runs, *flags]) == 0
    text = capsys.readouterr().out
    assert part in text
    assert main(["table", runs, *flags, "--out", str(tmp_path / "table")]) == 0
    assert (tmp_path / "table").read_text() == text.removesuffix("\n")


@pytest.mark.parametrize(
    "flags",
    [
        ["--metrics", "--summary"],
        ["--summary", "--format", "csv"],
        ["--metrics", "--probe", "sgd"],
        ["--metrics", "--long"],
        ["--summary", "--paper"],
        ["--long", "--format", "html"],
        ["--probe", "online"],
    ],
)
def test_flags_that_do_not_go_together(runs, capsys, flags):
    assert main(["table", runs, *flags]) == 2
    error = capsys.readouterr().err
    assert flags[0].strip("-") in error and "Traceback" not in error


def test_a_terminal_that_cannot_write_every_letter(tmp_path):
    floor = [make_record([probe_entry(right)], "untrained", right) for right in (80, 82)]
    write_records(tmp_path, [make_record([probe_entry(30)]), *floor])
    run = [sys.executable, "-m", "suppression_bench.cli", "table", str(tmp_path)]
    answer = subprocess.run(run, capture_output=True, env={**os.environ, "PYTHONIOENCODING": "ascii"}, check=True)
    assert b"30.0 \\u25bc" in answer.stdout and b"81.0 \\xb1 1.4" in answer.stdout


def test_a_figure_is_the_first_that_can_be_drawn_or_the_one_asked_for(runs, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["plot", runs]) == 0 and capsys.readouterr().out == "written: curves.png\n"
    assert main(["plot", runs, "--kind", "learning", "--out", "order.svg"]) == 0
    assert (tmp_path / "curves.png").is_file() and (tmp_path / "order.svg").is_file()


@pytest.mark.parametrize(
    ("flags", "part"),
    [
        (["--kind", "learning", "--probe", "sgd"], "--probe"),
        (["--kind", "curves", "--probe", "sgd"], "'sgd'; there are lbfgs"),
        (["--kind", "pie"], "pie"),
        (["--kind", "temperature"], "two temperatures"),
        (["--kind", "curves", "--out", "x.gif"], ".svg"),
    ],
)
def test_figures_that_cannot_be_drawn_are_refused(runs, capsys, flags, part):
    assert main(["plot", runs, *flags]) == 2
    error = capsys.readouterr().err
    assert part in error and "Traceback" not in error


def test_records_that_allow_no_figure_are_refused(tmp_path, capsys):
    folder = str(write_records(tmp_path, [make_record([probe_entry(50)])]))
    assert main(["plot", folder]) == 2 and "two strengths" in capsys.readouterr().err


def test_a_report_is_a_page(runs, tmp_path, capsys):
    assert main(["report", runs, "--out", str(tmp_path / "page.html")]) == 0
    assert (tmp_path / "page.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert main(["report", runs, "--out", "page.pdf"]) == 2 and ".html" in capsys.readouterr().err
    assert main(["report", str(tmp_path / "nowhere")]) == 2 and "nowhere" in capsys.readouterr().err
