"""What docs/ci.md promises: its commands run, its workflow and the action fit together."""

import re
import shlex
from pathlib import Path

import pytest
import yaml

from suppression_bench.cli import main

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "ci.md").read_text()
ACTION = ROOT / ".github" / "actions" / "check" / "action.yml"
SUITE, WORKFLOW = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


def steps(workflow: str) -> list[dict]:
    return [step for job in yaml.safe_load(workflow)["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("name", ["regression.yml", "docs/ci.md"])
def test_a_workflow_reads_only_and_gives_the_action_what_it_takes(name):
    text = WORKFLOW if name == "docs/ci.md" else (ROOT / ".github" / "workflows" / name).read_text()
    assert yaml.safe_load(text)["permissions"] == {"contents": "read"}
    used = [step for step in steps(text) if ".github/actions/check" in step["uses" if "uses" in step else "run"]]
    inputs = yaml.safe_load(ACTION.read_text())["inputs"]
    required = {key for key, entry in inputs.items() if entry.get("required")}
    assert used and all(required <= step["with"].keys() <= inputs.keys() for step in used)
    assert all((ROOT / step["with"]["baseline"]).parts for step in used)


def test_the_documented_workflow_has_ten_lines():
    lines = [line for line in WORKFLOW.splitlines() if line and not line.startswith("#")]
    assert len(lines) == 10 and "@TAG" in lines[-2]


def test_the_action_names_flags_that_there_are(capsys):
    action = yaml.safe_load(ACTION.read_text())
    assert action["runs"]["using"] == "composite"
    scripts = [step for step in action["runs"]["steps"] if "run" in step]
    assert all("${{" not in step["run"] for step in scripts), (
        "an input must reach the shell as a variable, never as code"
    )
    [check] = [step for step in scripts if "bench check" in step["run"]]
    assert main(["check", "--help"]) == 0
    known = capsys.readouterr().out
    flags = set(re.findall(r"(--[a-z-]+)", check["run"]))
    assert {"--baseline", "--tier", "--junit", "--summary", "--first-seed"} == flags and all(f in known for f in flags)
    assert set(re.findall(r"\$([A-Z_]+)", check["run"])) - {"GITHUB_STEP_SUMMARY"} == check["env"].keys()


@pytest.mark.slow
def test_the_authors_own_guard(tmp_path, monkeypatch):
    """The page's suite with the method of another page, cut to seconds."""
    monkeypatch.chdir(tmp_path)
    method = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[0]
    (tmp_path / "my_method.py").write_text(method)
    suite = yaml.safe_load(SUITE)
    suite["data"] |= {"train": 200, "test": 100}
    suite["set"] = {"train.epochs": 1, "train.batch_size": 100, "probe.l2": [0.01]}
    suite["cells"][0]["grid"]["bits"] = [2]
    (tmp_path / "suppression.yaml").write_text(yaml.safe_dump(suite))
    record, check = (
        next(line for line in PAGE.splitlines() if line.startswith(f"bench check suppression.yaml {flag}"))
        for flag in ("--record", "--baseline")
    )
    one = ["--workers", "1", "--threads", "1"]
    assert main([*shlex.split(record)[1:], *one]) == 0
    assert main([*shlex.split(check)[1:], *one]) == 0
    assert "has moved" in (tmp_path / "summary.md").read_text() and (tmp_path / "check.xml").is_file()
    (tmp_path / "my_method.py").write_text(method + "\n# an edit that changes nothing\n")
    assert main([*shlex.split(check)[1:], *one]) == 0, "an edited file is checked, it is no other cell"
