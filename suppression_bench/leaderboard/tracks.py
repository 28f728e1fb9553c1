"""Tracks: what an entry competes in - locked and free settings, strengths, digests of the data, official labels."""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from generators import catalog
from generators.catalog import did_you_mean
from generators.dataset import TOGETHER, Dataset, UserError
from generators.files import dumps_json, loads_yaml
from generators.randomness import Streams, stream_key
from suppression_bench.cell import Augmentation, Cell, Probing, Train, value_text
from suppression_bench.results.record import Digest, Struct

FOLDER = Path(__file__).parents[1] / "tracks"
NOT_PINNED = "not pinned"
BITS = "bits"  # the strength that sets how many constant channels are in use
PROBE, LAYER = "lbfgs", "encoder"  # whose accuracies count, on every track
# What a setting is that a track does not name; of no track are steps and epochs left unnamed.
DEFAULTS = {
    f"{section}.{name}": value
    for section, options in (("augmentation", Augmentation()), ("train", Train(steps=1)), ("probe", Probing()))
    for name, value in msgspec.to_builtins(options).items()
}


class Seeds(Struct, frozen=True):
    """Number of seeds asked of an entry, and that the project's own entries have."""

    least: int
    ours: int


class Track(Struct, frozen=True, kw_only=True):
    """A suite's setting in which methods are ranked.

    suite, tier: whose cells its own entries are (tier None: a suite without tiers).
    strength: the competitor's setting; grid: its values, all of which an entry has.
    digests: strength as text (or "all") -> content digest of the data; empty where it is not pinned.
    probed: strength as text (or "all") -> probed features, without the bits.
    locked: dotted setting -> its one value.
    choices: dotted setting -> its allowed values.
    free: dotted settings, or SECTION.* for a whole section, that an entry chooses.
    """

    name: str
    version: int
    title: str
    suite: str
    tier: str | None = None
    strength: str
    grid: list[int | list[int]]
    seeds: Seeds
    digests: dict[str, Digest]
    probed: dict[str, list[str]] = msgspec.field(name="features")
    locked: dict[str, Any]
    choices: dict[str, list[Any]]
    free: list[str]

    def has(self, strength: Any) -> bool:
        """Whether a strength is one of the grid, as it is written there.

        >>> read("quick").has(4), read("quick").has(4.0), read("quick").has(5)
        (True, False, False)
        """
        return any(_same(strength, value) for value in self.grid)

    def digest(self, strength: str) -> str | None:
        """The content digest of the data at a strength (as text), None where it is not pinned."""
        return self.digests.get(strength, self.digests.get("all"))

    def features(self, strength: Any) -> list[str]:
        """The features that every cell at a strength is probed for.

        >>> read("quick").features(4)
        ['digit', 'bit00', 'bit01', 'bit02', 'bit03']
        """
        features = self.probed.get(value_text(strength), self.probed.get("all", []))
        bits = strength if self.strength == BITS else self.locked["data.bits"]
        return [*features, *(f"bit{position:02d}" for position in range(bits))]

    @property
    def data(self) -> dict[str, Any]:
        """The locked options of the dataset, without the strength: as a manifest has them."""
        section = {key.partition(".")[2]: value for key, value in self.locked.items() if key.startswith("data.")}
        return {key: value for key, value in section.items() if key not in ("dataset", "version", "seed", "bits")}


def names() -> list[str]:
    """The tracks of the package.

    >>> "quick" in names()
    True
    """
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


@lru_cache(maxsize=16)
def read(name: str) -> Track:
    """A track by name.

    Raises:
        UserError: unknown ("did you mean").

    >>> read("quick").grid
    [0, 4, 8, 10, 14]
    """
    if name not in names():
        raise UserError(f"unknown track {name[:80]!a}: {did_you_mean(name[:80], names())}")
    content = loads_yaml((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
    content |= {key: _dotted(content[key]) for key in ("locked", "choices")}
    content["free"] = [
        f"{section}.{key}" for section, keys in content["free"].items() for key in (["*"] if keys == "all" else keys)
    ]
    content["digests"] = {} if content["digests"] == NOT_PINNED else content["digests"]
    return msgspec.convert({**content, "name": name}, Track)


def _dotted(sections: dict[str, dict]) -> dict[str, Any]:
    return {f"{section}.{key}": value for section, keys in sections.items() for key, value in keys.items()}


def _same(first: Any, second: Any) -> bool:
    # 1 is True and 1.0 to Python; as canonical JSON a value is what it is written as.
    return dumps_json(first) == dumps_json(second)


# ---- the settings of an entry ----


def settings(cell: Cell) -> dict[str, Any]:
    """Every setting that can move a number, by its dotted name; files of one's own by their digests."""
    values = cell.settings()
    values |= {"data.version": cell.dataset.version, "probe.version": cell.probe_version}
    parts = {"data": cell.dataset, "encoder": cell.encoder, "method": cell.method, "loss": cell.loss}
    values |= {f"{section}.file": part.file for section, part in parts.items() if part and part.file}
    return values


def faults(track: Track, setting: Cell) -> list[str]:
    """What in an entry's setting is not as the track has it, each as a sentence; strength and seed are left out."""
    sentences, values = [], settings(setting)
    values.pop(f"data.{track.strength}", None)
    for name, value in track.locked.items():
        if name not in values:
            sentences.append(f"{name} is missing, the track locks it at {value!r}")
        elif not _same(values[name], value):
            sentences.append(f"{name} is {values[name]!r}, the track locks it at {value!r}")
    for name, allowed in track.choices.items():
        if not any(_same(values.get(name), value) for value in allowed):
            sentences.append(f"{name} is {values.get(name)!r}, the track allows {' or '.join(map(repr, allowed))}")
    listed = {*track.locked, *track.choices, *track.free}
    for name in values.keys() - listed:
        is_free = f"{name.partition('.')[0]}.*" in track.free
        if not is_free and not (name in DEFAULTS and _same(values[name], DEFAULTS[name])):
            sentences.append(f"{name} = {values[name]!r} is a setting that the track leaves at its default")
    return sorted(sentences)


# ---- official labels ----


class Official:
    """A track's labels at every strength, drawn from the dataset's own definition; no image is rendered.

    Labels are drawn before any pixel exists, by the code that generates the data, so nothing needs to lie on the disk
    but the sources; that the data are these is what the track's digests say.

    Arguments:
        track: whose data.
        sources: option -> a source with its folder ("mnist:DIR"); the others are embedded, in the data root or
            downloaded.
    """

    def __init__(self, track: Track, sources: dict[str, str] | None = None):
        self.track, self.sources = track, sources or {}
        self._datasets: dict[str, Dataset] = {}
        self._splits: dict[tuple[str, str], list[dict]] = {}

    def labels(self, strength: Any) -> Callable[[str, str], np.ndarray]:
        """(split, feature) -> (N,) true classes, at a strength.

        Raises:
            UserError: a source that cannot be had.

        >>> labels = Official(read("quick")).labels(4)
        >>> len(labels("probe-test", "digit")), sorted(set(labels("probe-test", "bit03").tolist()))
        (450, [0, 1])
        """
        dataset = self._dataset(strength)
        constant = dataset.constant_channels

        def get(split: str, feature: str) -> np.ndarray:
            drawn = self._draw(dataset, split)
            if constant and feature not in dataset.features:
                bit = constant.feature_names(constant.max).index(feature)
                return np.array([labels[constant.label] >> bit & 1 for labels in drawn])
            return np.array([labels[feature] for labels in drawn])

        return get

    def splits(self, strength: Any, feature: str) -> tuple[str, ...]:
        """The train and the test split of a feature's probe."""
        dataset = self._dataset(strength)
        constant = dataset.constant_channels
        return tuple(dataset.probes[constant.label if constant and feature not in dataset.probes else feature])

    def _dataset(self, strength: Any) -> Dataset:
        chosen = {} if self.track.strength == BITS else {self.track.strength: strength}
        key = dumps_json(chosen)
        if key not in self._datasets:
            drawn = {**self.track.data, **chosen, **self.sources}
            self._datasets[key] = catalog.dataset(self.track.locked["data.dataset"], drawn)
        return self._datasets[key]

    def _draw(self, dataset: Dataset, split: str) -> list[dict]:
        key = (str(dataset.options), split)
        if key not in self._splits:
            stream = stream_key(dataset.name, dataset.version, split, self.track.locked["data.seed"])
            count = dataset.splits[split]
            self._splits[key] = [
                dataset.draw(split, stream_at.index, stream_at)[0]
                for first in range(0, count, TOGETHER)
                for stream_at in Streams(stream, first, min(first + TOGETHER, count))
            ]
        return self._splits[key]
