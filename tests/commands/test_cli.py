"""The command line: what the README promises, and every fault as a sentence with exit code 2."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from suppression_bench.cli import COMMANDS, OF_A_DATASET, app_for, main


def bench(*arguments) -> int:
    return main([str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def randbit(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "randbit"
    assert bench("generate", "randbit", "--train", 300, "--test", 100, "--out", folder) == 0
    return folder


HEAVY = ("torch", "pandas", "sklearn", "matplotlib")


def test_help_pages_name_their_command_and_load_no_heavy_library():
    pages = [[], ["leaderboard"], *(name.split() for name in COMMANDS), ["generate", "randbit"]]
    code = (
        f"import sys; from suppression_bench.cli import main; main([]); light = 'numpy' not in sys.modules; "
        f"answers = [main([*page, '--help']) for page in {pages}]; "
        f"print(light, set(answers), [name for name in {HEAVY} if name in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert answer.strip().endswith("True {0} []"), "numpy in the overview, or a heavy library in a page"
    assert "bench run quick" in answer
    assert all(f"Usage: bench {' '.join(name.split())} " in answer for name in COMMANDS)


def test_every_command_has_a_summary_and_every_option_a_text():
    for name in COMMANDS:
        words = [*name.split(), *(["randbit"] if name in OF_A_DATASET else [])]
        app = app_for(words)
        for word in name.split():
            app = app[word]
        assert app.help and app.help[0].isupper(), name
        for argument in app.assemble_argument_collection(parse_docstring=True):
            assert argument.parameter.help or argument.children, f"{name} {argument.name}"


def test_version_and_list(capsys):
    assert bench("--version") == 0
    assert bench("list", "methods", "suites") == 0
    text = capsys.readouterr().out
    assert "suppression-bench 0" in text and "simclr" in text and "randbit-mnist" in text and "datasets:" not in text


FAULTS = [
    (["frobnicate"], ["unknown command 'frobnicate'", "check, conformance"]),
    (["run", "quikc"], ["unknown suite 'quikc'", "did you mean 'quick'"]),
    (["run"], ["give a suite"]),
    (["run", "quick", "--metod", "x"], ["unknown argument '--metod'", "did you mean '--method'"]),
    (["run", "quick", "--seeds", "0"], ["--seeds must be at least 1"]),
    (["run", "quick", "--only", "bitts=3"], ["--only bitts", "did you mean 'bits'"]),
    (["run", "quick", "--only", "bits=3"], ["no cell left"]),
    (["run", "quick", "--only", "sizes=[20,80]"], ["'sizes=[20,80]'", "not valid YAML", "write a list as 20+80"]),
    (["run", "quick", "--only", "bits=2020-13-45"], ["'bits=2020-13-45'", "not valid YAML"]),
    (["run", "quick", "--set", "kinds=[lbfgs"], ["'kinds=[lbfgs'", "not valid YAML"]),
    (["run", "quick", "--set", "temprature=1"], ["unknown setting 'temprature'", "did you mean 'temperature'"]),
    (["run", "quick", "--set", "epochs"], ["'epochs'", "key=value"]),
    (["run", "--only", "bits=0", "quick"], ["--only 'quick'", "key=value", "before --only"]),
    (["run", "quick", "--set"], ["--set needs a value", "bench run --help"]),
    (["run", "quick", "--seeds"], ["--seeds needs a value"]),
    (["run", "quick", "--no-trace"], ["'--no-trace'", "did you mean '--trace'"]),
    (["run", "quick", "--device", "gpu"], ["--device", "'gpu'", "auto, cpu, cuda"]),
    (["run", "quick", "small"], ["'small'", "too many"]),
    (["leaderboard", "chekc"], ["unknown command 'chekc'", "did you mean 'check'"]),
    (["submit", "{randbit}", "--url", "https://example.org"], ["--name is missing"]),
    (["speed", "--steps", "1.5"], ["--steps must be an integer, got '1.5'"]),
    (["leaderboard", "rerun", "x", "--hours", "nan"], ["--hours must be a number, got 'nan'"]),
    (["table", "{randbit}", "--out", ""], ["--out must be a path"]),
    (["run", "quick", "--set", "bits=33"], ["data.bits 33 is not in 0..32"]),
    (["run", "--data", "{randbit}", "--method", "simclar"], ["unknown method 'simclar'", "did you mean 'simclr'"]),
    (["run", "--data", "{randbit}"], ["needs --method"]),
    (["run", "--data", "{tmp}/none", "--method", "simclr"], ["is not there", "bench generate"]),
    (["run", "--data", "{randbit}", "--method", "{tmp}/no.py"], ["no such file"]),
    (
        ["run", "--data", "{randbit}", "--method", "simclr", "--set", "batch_size=301"],
        ["larger than the 300 training samples"],
    ),
    (["generate", "multidigits", "--sizes", "20", "200", "--out", "{out}"], ["--sizes 200", "4 to 112"]),
    (["generate", "multidigits", "--count", "17", "--placement", "grid", "--out", "{out}"], ["16 cells"]),
    (["generate", "randbit", "--digit-source", "mnist:{tmp}/none", "--out", "{out}"], ["missing", "optdigits"]),
    (["generate", "randbit", "--train", "many", "--out", "{out}"], ["train must be an integer"]),
    (["generate", "randbit"], ["--out is missing"]),
    (["generate", "randbitt", "--out", "{out}"], ["unknown dataset", "did you mean 'randbit'"]),
    (["verify", "{tmp}"], ["has no manifest.json"]),
    (["table", "{tmp}/none"], ["no such folder"]),
    (["table", "{randbit}"], ["no result.json"]),
    (["run", "quick", "--seeds", "x"], ["--seeds must be an integer, got 'x'"]),
    (["run", "nofile.yaml"], ["nofile.yaml: no such file"]),
    (["run", "--data", "{randbit}", "--method", "simclr", "--only", "bits=0"], ["--only goes with a suite"]),
    (["plot", "{randbit}", "--out", "x.gif"], ["must end in .png or .svg"]),
    (["list", "method"], ["unknown kind", "did you mean 'methods'"]),
    (["list", "methods", "recipes", "--full"], ["--full: not for recipes", "datasets, methods, encoders, losses"]),
]


@pytest.mark.parametrize("arguments, parts", FAULTS, ids=[" ".join(fault[0])[:60] for fault in FAULTS])
def test_a_fault_is_a_sentence(arguments, parts, randbit, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "out"
    paths = {"randbit": randbit, "tmp": tmp_path, "out": out}
    assert bench(*[argument.format(**paths) for argument in arguments]) == 2
    output = capsys.readouterr()
    assert "Traceback" not in output.err and output.err.startswith("bench: error: ")
    for part in parts:
        assert part in output.err
    assert not out.exists() and not (tmp_path / "runs").exists(), "nothing may be half-written"


def test_every_fault_of_a_suite_file_at_once(tmp_path, capsys):
    suite = tmp_path / "mine.yaml"
    suite.write_text(
        "version: 1\ntitel: x\ndata: {dataset: randbit}\nrecipe: randbit-small\nseeds: zero\n"
        "cells:\n  - {method: simclr, grid: {bits: [0]}, set: {train: {epochs: many}}}\n  - {method: simclar}\n"
    )
    assert bench("run", suite, "--out", tmp_path / "out") == 2
    output = capsys.readouterr().err
    for part in (
        "unknown key 'titel'",
        "seeds must be a list",
        "epochs must be an integer",
        "unknown method 'simclar'",
    ):
        assert part in output
    assert not (tmp_path / "out").exists()


def test_a_truncated_shard_is_refused_before_anything_is_written(randbit, tmp_path, capsys, monkeypatch):
    import shutil

    monkeypatch.setenv("SUPPRESSION_BENCH_CACHE", str(tmp_path / "cache"))  # with nothing decoded
    folder = shutil.copytree(randbit, tmp_path / "data")
    shard = folder / "pretrain-00000.tar"
    shard.write_bytes(shard.read_bytes()[:-512])
    assert bench("run", "--data", folder, "--method", "untrained", "--out", tmp_path / "out") == 2
    assert "pretrain-00000.tar" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert bench("generate", "randbit", "--train", 300, "--test", 100, "--out", folder) == 0
    assert bench("verify", folder) == 0


@pytest.mark.slow
def test_one_cell_from_data_to_table(randbit, tmp_path, capsys, monkeypatch):
    out = tmp_path / "one"
    flags = ["--set", "epochs=1", "--set", "bits=2", "batch_size=100", "--out", out]
    assert bench("run", "--data", randbit, "--method", "simclr", "--set", "temperature=0.2", *flags) == 0
    [path] = out.rglob("result.json")
    record = json.loads(path.read_text())
    assert record["spec"]["loss"]["options"] == {"temperature": 0.2, "pairs": "cross"}
    assert record["spec"]["train"]["epochs"] == 1 and record["run"]["steps"] == 3
    assert {probe["feature"] for probe in record["probes"]} == {"digit", "bit00", "bit01"}
    assert all(probe["n"] == 100 and probe["train_n"] == 300 for probe in record["probes"])
    capsys.readouterr()
    for form, mark in (
        ("markdown", "| simclr"),
        ("csv", "method,"),
        ("latex", r"\toprule"),
        ("json", '"accuracy"'),
        ("html", "<table"),
    ):
        assert bench("table", out, "--format", form) == 0
        assert mark in capsys.readouterr().out
    for wrong in (["--probe", "sgd"], ["--long", "--format", "latex"]):
        assert bench("table", out, *wrong) == 2
    capsys.readouterr()
    monkeypatch.chdir(tmp_path)
    for path in (["--out", tmp_path / "none/x.md"], ["--out=none/x.md"], ["--out", "./none/x.md"], ["--out", "."]):
        assert bench("table", out, *path) == 4
    assert bench("report", out, "--out=./none/x.html") == 4
    (tmp_path / "report.html").mkdir()
    assert bench("report", out) == 4
    output = capsys.readouterr().err
    assert "Traceback" not in output and output.count("bench: error: ") == output.count("\n") == 6
    assert bench("plot", out, "--out", tmp_path / "x.png") == 2  # one strength is no curve
    assert "two strengths" in capsys.readouterr().err


@pytest.mark.slow
def test_the_same_cell_twice_gives_the_same_record(randbit, tmp_path):
    """The same cell twice gives the same record but for the clock."""
    runs = []
    for name in ("a", "b"):
        out = tmp_path / name
        assert (
            bench("run", "--data", randbit, "--method", "untrained", "--seeds", 2, "--set", "bits=1", "--out", out) == 0
        )
        records = [json.loads(path.read_text()) for path in sorted(out.rglob("result.json"))]
        runs.append([(record["id"], record["spec"], record["probes"]) for record in records])
    assert runs[0] == runs[1] and len(runs[0]) == 2


def shell(line: str) -> subprocess.CompletedProcess:
    line = line.replace("bench", f"{sys.executable} -m suppression_bench")
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", line], capture_output=True, text=True, cwd=Path(__file__).parents[2]
    )


@pytest.mark.parametrize(
    ("line", "exit_code", "words"),
    [
        ("bench list methods losses --full | head -1", 0, []),
        ("bench --help | head -1", 0, []),
        ("bench list >&-", 0, []),
        ("bench list > /dev/full", 4, ["No space left"]),
        ("bench table docs/results/quick.jsonl --out /proc/table.md", 4, ["/proc/table.md"]),
    ],
)
@pytest.mark.slow
def test_a_closed_pipe_is_no_fault_and_a_full_disk_is_one_sentence(line, exit_code, words):
    answer = shell(line)
    assert answer.returncode == exit_code, answer.stderr
    assert answer.stderr.count("\n") == bool(words) and all(word in answer.stderr for word in words)
