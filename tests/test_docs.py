"""The examples of the documentation run as they stand."""

import re
from pathlib import Path

import pytest

from suppression_bench.cli import main

DOCS = Path(__file__).parents[1] / "docs"


def blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)


def bench(line: str) -> int:
    return main(line.split()[1:])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_a_method_and_a_loss_of_ones_own(folder):
    method, loss = blocks("add_a_method.md")
    (folder / "pull_and_spread.py").write_text(method)
    (folder / "distance.py").write_text(loss)
    assert bench("bench generate randbit --train 200 --test 50 --out data/randbit") == 0
    short = "batch_size=100 epochs=1"
    own = f"bench run --data data/randbit --method ./pull_and_spread.py --set bits=8 spread=0.5 {short} --out runs/mine"
    assert bench(own) == 0
    named = f"bench run --data data/randbit --method simclr --set loss.name=./distance.py weight=2 {short} --out runs/distance"
    assert bench(named) == 0
    assert bench("bench table runs/mine runs/distance") == 0
    assert bench("bench conformance ./pull_and_spread.py ./distance.py") == 0


def test_a_dataset_of_ones_own(folder):
    (folder / "square_and_stripe.py").write_text(blocks("add_a_dataset.md")[0])
    assert (
        bench(
            "bench generate ./square_and_stripe.py --brightness 200 --train 300 --workers 2 --shard-size 100 --out data/stripe"
        )
        == 0
    )
    assert bench("bench verify data/stripe") == 0
    assert bench("bench run --data data/stripe --method simclr --set epochs=1 --out runs/stripe") == 0
    assert "stripe @200" in (folder / "runs/stripe/table.md").read_text()


def test_datasets_read_from_python_and_from_a_spec(folder):
    few = "--image-size 32 --unique-digits 16 --train 20 --test 10"
    assert bench(f"bench generate digit-on-imagenet {few} --out data/k16") == 0
    [example] = blocks("datasets.md")
    names: dict = {}
    exec(example, names)
    assert names["image"].shape == (32, 32, 3) and len(names["test"].labels()["digit"]) == 10
    first, labels = next(iter(names["stream"]))
    assert (first == names["image"]).all() and labels == names["labels"]
    [spec] = re.findall(r"```yaml\n(.*?)```", (DOCS / "datasets.md").read_text(), re.DOTALL)
    (folder / "spec.yaml").write_text(spec)
    assert bench("bench generate spec.yaml --train 20 --probe-train 10 --probe-test 10 --out data/spec") == 0
    assert bench("bench describe data/spec --out card.md") == 0 and (folder / "card.png").is_file()


def test_a_suite_of_ones_own(folder, capsys):
    [suite] = re.findall(r"```yaml\n(.*?)```", (DOCS / "suites.md").read_text(), re.DOTALL)
    (folder / "my_suite.yaml").write_text(suite)
    assert (
        bench("bench run my_suite.yaml --tier tiny --only bits=0 seed=0 temperature=0.1 --budget 30m --workers 1") == 0
    )
    assert len(list((folder / "runs/my_suite-tiny").rglob("result.json"))) == 1
    listed = (DOCS / "suites.md").read_text()
    for path in (DOCS.parent / "suppression_bench" / "suites").glob("*.yaml"):
        assert f"`{path.stem}`" in listed, f"docs/suites.md does not name {path.stem}"


def test_methods_and_losses_are_listed_as_they_are(capsys):
    assert bench("bench list methods losses --full") == 0
    assert (DOCS / "methods.md").read_text().endswith(capsys.readouterr().out)


def test_the_readmes_method(folder):
    [method] = re.findall(r"```python\n(.*?)```", (DOCS.parent / "README.md").read_text(), re.DOTALL)
    (folder / "my_method.py").write_text(method)
    assert bench("bench generate randbit --train 200 --test 50 --out data/randbit") == 0
    own = "bench run --data data/randbit --method ./my_method.py --set bits=10 batch_size=100 epochs=1 --out runs/mine"
    assert bench(own) == 0


def test_the_leaderboards_suite_is_on_its_track(folder, capsys):
    """The page's entry, with the README's method: every cell obeys the track, and every track is named."""
    from suppression_bench.leaderboard import entry, tracks
    from suppression_bench.suite import Request, cells_of_suite

    page = (DOCS / "leaderboard.md").read_text()
    [suite] = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    [method] = re.findall(r"```python\n(.*?)```", (DOCS.parent / "README.md").read_text(), re.DOTALL)
    (folder / "my_method.py").write_text(method)
    (folder / "my_entry.yaml").write_text(suite)
    track, located = tracks.read("quick"), cells_of_suite("my_entry.yaml", Request())
    assert len(located) == len(track.grid) * track.seeds.least
    for setting in (entry.without_strength(cell.cell, track.strength) for cell in located):
        assert tracks.faults(track, setting) == []
    assert all(f"`{name}`" in page for name in tracks.names())
    for words, flags in re.findall(r"^bench (leaderboard \w+|submit)(.*)$", page, re.MULTILINE):
        capsys.readouterr()
        assert main([*words.split(), "--help"]) == 0
        text = capsys.readouterr().out
        assert all(flag in text for flag in re.findall(r"--[a-z-]+", flags)), words


@pytest.mark.parametrize("run", sorted(path.name for path in (DOCS / "results").iterdir()))
def test_the_printed_results_are_those_of_the_records(run, capsys):
    """No number in the documentation is typed by hand: each table is what the committed records render to."""
    assert main(["table", str(DOCS / "results" / run)]) == 0
    assert capsys.readouterr().out.strip() in (DOCS / "results.md").read_text()


@pytest.mark.parametrize("page", sorted(path.name for path in DOCS.glob("*.md")))
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", (DOCS / page).read_text()):
        assert target.startswith("https://") or (DOCS / target).exists(), f"{page} links to {target}"


def test_the_pages_build(tmp_path):
    sphinx = pytest.importorskip("sphinx.cmd.build", reason="Sphinx is not installed (the optional extra `docs`)")
    assert sphinx.main(["-W", "-q", str(DOCS), str(tmp_path)]) == 0 and (tmp_path / "index.html").is_file()
