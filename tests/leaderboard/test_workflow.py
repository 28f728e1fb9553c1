"""The workflow for submissions reads and never runs: base branch's code, no secret, no right to write."""

import re
from pathlib import Path

import yaml

from suppression_bench.cli import main

TEXT = (Path(__file__).parents[2] / ".github/workflows/leaderboard.yml").read_text()
WORKFLOW = yaml.safe_load(TEXT)
CHECK, SANDBOX = (WORKFLOW["jobs"][name] for name in ("check", "sandbox"))
STEPS = CHECK["steps"]


def test_it_may_only_read_and_holds_no_secret():
    assert WORKFLOW["permissions"] == {"contents": "read"}
    assert all("permissions" not in job for job in WORKFLOW["jobs"].values())
    assert set(WORKFLOW[True]) == {"pull_request", "push"}  # YAML reads `on` as true
    assert "secrets" not in TEXT and "GITHUB_TOKEN" not in TEXT
    steps = [*STEPS, *SANDBOX["steps"]]
    checkouts = [step for step in steps if "checkout" in step.get("uses", "")]
    assert len(checkouts) == 3 and all(step["with"]["persist-credentials"] is False for step in checkouts)


def test_no_text_of_the_pull_request_reaches_a_shell():
    assert all("${{" not in step["run"] for step in STEPS if "run" in step)


def test_only_the_base_branch_is_installed_and_run():
    refs = {step["with"]["path"]: step["with"]["ref"] for step in STEPS if "checkout" in step.get("uses", "")}
    assert "base.sha" in refs["base"] and "head.sha" in refs["submitted"]
    for step in STEPS:
        if "run" not in step:
            continue
        assert step.get("working-directory", "base") == "base"
        for command in step["run"].strip().split("\n"):
            words = command.split()
            assert words[0] in ("python", "git", "bench"), command
            if words[0] == "python":
                assert "submitted" not in command
            if words[0] == "bench":
                assert words[:3] == ["bench", "leaderboard", "check"]


def test_a_pull_requests_code_never_trains_and_the_sandbox_is_never_skipped():
    assert CHECK["if"] == "github.event_name == 'pull_request'" and SANDBOX["if"] == "github.event_name == 'push'"
    commands = "\n".join(step.get("run", "") for step in SANDBOX["steps"])
    assert "bubblewrap" in commands and "sandbox.fault()" in commands and "-m sandbox" in commands


def test_it_names_flags_that_exist(capsys):
    [check] = [step["run"] for step in STEPS if "bench" in step.get("run", "")]
    assert main(["leaderboard", "check", "--help"]) == 0
    help_text = capsys.readouterr().out
    flags = set(re.findall(r"(--[a-z-]+)", check))
    assert flags == {"--root", "--accepted", "--changed-list"} and all(flag in help_text for flag in flags)
