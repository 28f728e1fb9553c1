"""Runs on the toy track, and a submission in order, for all tests of the leaderboard."""

import shutil

import pytest
from toy_track import METHOD, make_track, request, run_cells

from suppression_bench.leaderboard import submission, tracks


@pytest.fixture(scope="session")
def runs(randbit, tmp_path_factory):
    """Cells of a method of one's own, and of the supervised and the untrained network, on the toy track."""
    folder = tmp_path_factory.mktemp("toy")
    (folder / "mine.py").write_text(METHOD)
    run_cells(str(folder / "mine.py"), randbit, folder / "mine")
    run_cells("supervised", randbit, folder / "package")
    run_cells("untrained", randbit, folder / "package")
    make_track(folder / "tracks", randbit)
    return folder


@pytest.fixture
def toy(runs, monkeypatch):
    """The runs, with the toy track among the tracks."""
    monkeypatch.setattr(tracks, "FOLDER", runs / "tracks")
    tracks.read.cache_clear()
    yield runs
    tracks.read.cache_clear()


@pytest.fixture
def copy(toy, tmp_path):
    """A submission in order, alone in its folder."""
    good = toy / "all" / "my-method-toy"
    if not good.exists():
        cells = submission.gather([toy / "mine"], {})
        submission.write(cells, request(files={"method": str(toy / "mine.py")}), good.parent)
    return shutil.copytree(good, tmp_path / "entries" / good.name)
