"""A track's data on this machine: built where missing, of the track's digests."""

from collections.abc import Callable
from pathlib import Path

from generators import build
from generators.dataset import UserError, is_source
from generators.sources import data_root
from suppression_bench import runner
from suppression_bench.leaderboard import tracks
from suppression_bench.leaderboard.tracks import Track
from suppression_bench.spec import Cell


def make_data(track: Track, sources: dict[str, str], workers: int, say: Callable[[str], None]) -> dict[str, Path]:
    """Strength as text -> folder of the data, built by this package where missing and of the track's digest.

    Raises:
        UserError: a source that is not there, or data of another digest.
    """
    found, made = {}, {}
    for value in track.grid:
        own = {} if track.strength == "bits" else {track.strength: value}
        given = (track.locked["data.dataset"], {**track.data, **sources, **own})
        seed = track.locked["data.seed"]
        place = runner.locate(Cell({"data": {"seed": seed}}, {}, given))
        if place.folder not in made:
            made[place.folder] = build.build(
                place.dataset, place.folder, seed=seed, workers=workers, reference=given[0], say=say
            )
        wanted = track.digest(tracks.text(value))
        if wanted and made[place.folder]["content_digest"] != wanted:
            raise UserError(f"{place.folder}: not the data of the track {track.name} (digest {wanted[:12]}...)")
        found[tracks.text(value)] = place.folder
    return found


def places(track: Track, sources: dict[str, str]) -> dict[str, str]:
    """Where the sources lie, for a process that has no network: MNIST that `make_data` has fetched is in the data root."""
    found = {key: value for key, value in track.data.items() if is_source(key) and value is not None}
    return {**{key: f"mnist:{data_root().absolute()}" for key, value in found.items() if value == "mnist"}, **sources}
