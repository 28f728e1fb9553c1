"""From trained cells to a page: submit, check, build, as the documentation tells it."""

from urllib.parse import unquote

import pytest
from test_leaderboard_page import README, Page, words
from toy_track import METHOD, make_track, run_cells, use

from suppression_bench.cli import main
from suppression_bench.leaderboard import tracks


@pytest.fixture
def root(randbit, tmp_path, monkeypatch):
    """A leaderboard with a method of one's own, a ceiling and a floor, each trained, submitted and checked."""
    use(monkeypatch, make_track(tmp_path / "tracks", randbit))
    (tmp_path / "mine.py").write_text(METHOD)
    root = tmp_path / "leaderboard"
    (root / "submissions").mkdir(parents=True)
    (root / "README.md").write_text(README)
    for method, more in (
        (str(tmp_path / "mine.py"), ["--method", str(tmp_path / "mine.py")]),
        ("supervised", []),
        ("untrained", []),
    ):
        name = method.rpartition("/")[2].removesuffix(".py")
        run_cells(method, randbit, tmp_path / name)
        flags = [
            "--name",
            f"The {name}",
            "--url",
            "https://example.org",
            "--track",
            "toy",
            "--out",
            str(root / "submissions"),
        ]
        assert main(["submit", str(tmp_path / name), *flags, *more]) == 0
    yield root
    monkeypatch.undo()
    tracks.read.cache_clear()


def test_from_cells_to_a_page(root, capsys):
    assert main(["leaderboard", "check", *map(str, sorted((root / "submissions").iterdir())), "--keep"]) == 0
    assert main(["leaderboard", "build", "--root", str(root / "submissions")]) == 0
    assert main(["leaderboard", "build", "--root", str(root / "submissions"), "--check"]) == 0
    found = Page((root / "site" / "index.html").read_text(encoding="utf-8"))
    text = words(found)
    assert "The mine" in text and "V1 rescored" in text and "V0 reported of" not in text
    assert "ceiling The supervised" in text and "floor The untrained" in text
    kept = [line for line in (root / "README.md").read_text().split("\n") if line.startswith("| ")]
    assert [line.split(" | ")[0] for line in kept] == ["| rank", "| 1", "| ceiling", "| floor"]
    for link in found.links:
        if link.startswith("../"):
            assert (root / "site" / unquote(link)).exists(), link
