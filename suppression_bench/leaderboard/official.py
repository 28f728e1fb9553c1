"""The true labels of a track's test splits, drawn from the dataset's own definition; no picture is rendered."""

from collections.abc import Callable

import numpy as np

from generators import deep
from generators.dataset import TOGETHER, Dataset
from generators.randomness import Streams, stream_key
from suppression_bench.leaderboard.tracks import Track


class Official:
    """A track's labels, at every strength.

    Labels are drawn before any pixel exists, by the code that generates the data, so nothing needs to lie on the disk
    but the sources; that the data are these is what the track's digests say.

    Arguments:
        track: whose data.
        sources: option -> a source with its place ("mnist:DIR"); the others are embedded, found in the data root or
            downloaded.
    """

    def __init__(self, track: Track, sources: dict[str, str] | None = None):
        self.track, self.sources = track, sources or {}
        self._datasets: dict[str, Dataset] = {}
        self._splits: dict[tuple[str, str], list[dict]] = {}

    def labels(self, strength) -> Callable[[str, str], np.ndarray]:
        """(split, feature) -> (N,) true classes, at a strength.

        Raises:
            UserError: a source that cannot be had.

        >>> from suppression_bench.leaderboard import tracks
        >>> found = Official(tracks.read("quick")).labels(4)
        >>> len(found("probe-test", "digit")), sorted(set(found("probe-test", "bit03").tolist()))
        (450, [0, 1])
        """
        dataset = self._dataset(strength)
        code = dataset.constant_channels.label if dataset.constant_channels else None

        def get(split: str, feature: str) -> np.ndarray:
            drawn = self._draw(dataset, split)
            if code and feature not in dataset.features:
                return np.array([labels[code] >> int(feature[3:]) & 1 for labels in drawn])
            return np.array([labels[feature] for labels in drawn])

        return get

    def splits(self, strength, feature: str) -> list[str]:
        """The train and the test split of a feature's probe."""
        dataset = self._dataset(strength)
        known = dataset.probes
        return list(known[feature if feature in known else dataset.constant_channels.label])

    def _dataset(self, strength) -> Dataset:
        track = self.track
        own = {} if track.strength == "bits" else {track.strength: strength}
        key = str(own)
        if key not in self._datasets:
            found = {"dataset": track.locked["data.dataset"], "options": {**track.data, **own}}
            self._datasets[key] = deep.dataset_of(found, None, self.sources)
        return self._datasets[key]

    def _draw(self, dataset: Dataset, split: str) -> list[dict]:
        place = (str(dataset.options), split)
        if place not in self._splits:
            key = stream_key(dataset.name, dataset.version, split, self.track.locked["data.seed"])
            count = dataset.splits[split]
            self._splits[place] = [
                dataset.draw(split, stream.index, stream)[0]
                for first in range(0, count, TOGETHER)
                for stream in Streams(key, first, min(first + TOGETHER, count))
            ]
        return self._splits[place]
