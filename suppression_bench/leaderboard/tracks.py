"""Tracks: what an entry competes in, which settings are locked there and which are its own. One YAML file each."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import yaml

from generators import options
from generators.dataset import UserError

FOLDER = Path(__file__).parents[1] / "tracks"
NOT_PINNED = "not pinned"
KEYS = {
    "version", "title", "suite", "tier", "strength", "grid", "seeds", "digests",
    "locked", "choices", "free", "features",
}  # fmt: skip
SECTIONS = ("data", "encoder", "augmentation", "train", "probe", "method", "loss")


@dataclass(frozen=True)
class Track:
    """A suite's setting in which methods are ranked.

    name, version, title: of the track.
    suite, tier: whose cells its own entries are (tier None: a suite without tiers).
    strength: the competitor's setting; grid: its values, all of them wanted.
    least, ours: number of seeds asked of an entry, and that the project's own entries have.
    digests: strength as text (or "all") -> content digest of the data; empty where it is not pinned.
    probed: strength as text (or "all") -> probed features, without the bits.
    locked: dotted setting -> its one value.
    choices: dotted setting -> its allowed values.
    free: dotted settings, or SECTION.* for a whole section, that are the entry's own.
    """

    name: str
    version: int
    title: str
    suite: str
    tier: str | None
    strength: str
    grid: list
    least: int
    ours: int
    digests: dict[str, str]
    probed: dict[str, list[str]]
    locked: dict
    choices: dict
    free: set[str]

    def digest(self, strength: str) -> str | None:
        """The content digest of the data at a strength (as text), None where it is not pinned."""
        return self.digests.get(strength, self.digests.get("all"))

    def features(self, strength) -> list[str]:
        """The features that every cell at a strength is probed for.

        >>> read("quick").features(4)
        ['digit', 'bit00', 'bit01', 'bit02', 'bit03']
        """
        own = self.probed.get(text(strength), self.probed.get("all"))
        bits = strength if self.strength == "bits" else self.locked["data.bits"]
        return [*own, *(f"bit{position:02d}" for position in range(bits))]

    @property
    def data(self) -> dict:
        """The locked options of the dataset, without the strength: as a manifest has them."""
        own = {key.partition(".")[2]: value for key, value in self.locked.items() if key.startswith("data.")}
        return {key: value for key, value in own.items() if key not in ("dataset", "version", "seed", "bits")}


def names() -> list[str]:
    """The tracks there are.

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
        raise UserError(f"unknown track {name[:80]!a}: {options.did_you_mean(name[:80], names())}")
    content = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())
    if unknown := content.keys() - KEYS:
        raise ValueError(f"track {name}: unknown keys {sorted(unknown)}")
    digests = content["digests"]
    free = content["free"]
    return Track(
        name, content["version"], content["title"], content["suite"], content.get("tier"), content["strength"],
        content["grid"], content["seeds"]["least"], content["seeds"]["ours"], {} if digests == NOT_PINNED else digests,
        content["features"],
        _dotted(content["locked"]), _dotted(content["choices"]),
        {f"{section}.{one}" for section, own in free.items() for one in (["*"] if own == "all" else own)},
    )  # fmt: skip


def _dotted(sections: dict) -> dict:
    return {f"{section}.{key}": value for section, own in sections.items() for key, value in own.items()}


def settings(spec: dict) -> dict:
    """Every setting of a record's spec that can move a number, under its dotted name; the seed and labels are left out."""
    data = {key: value for key, value in spec["data"].items() if key not in ("options", "digest")}
    sections = {
        "data": {**spec["data"]["options"], **data},  # an option cannot hide what the harness used
        "augmentation": spec["augmentation"],
        "train": spec["train"],
        "probe": {**spec["probe"], "version": spec["probe_version"]},
    }
    for section in ("encoder", "method", "loss"):
        if spec[section] is not None:
            own = {key: value for key, value in spec[section].items() if key != "options"}
            sections[section] = {**spec[section]["options"], **own}
    return _dotted(sections)


def faults(track: Track, spec: dict) -> list[str]:
    """What in a record's spec is not as the track has it, each as a sentence; its shape is known to be in order."""
    found, given = [], settings(spec)
    strength = spec["strength"]
    own = given.pop(f"data.{track.strength}", None)
    if strength != {"key": track.strength, "value": own}:
        found.append(f"its strength {strength} is not the setting {track.strength}, which is {own!r}")
    if not has(track, own):
        found.append(f"{track.strength} {own!r} is not in the track's grid {track.grid}")
    for name, value in track.locked.items():
        if name not in given:
            found.append(f"{name} is missing, the track locks it at {value!r}")
        elif not _same(given[name], value):
            found.append(f"{name} is {given[name]!r}, the track locks it at {value!r}")
    for name, values in track.choices.items():
        if not any(_same(given.get(name), value) for value in values):
            found.append(f"{name} is {given.get(name)!r}, the track allows {' or '.join(map(repr, values))}")
    known = track.locked.keys() | track.choices.keys() | track.free
    for name in given.keys() - known:
        if f"{name.partition('.')[0]}.*" not in track.free:
            found.append(f"{name} = {given[name]!r} is a setting that the track leaves at its default")
    wanted = track.digest(text(own))
    if wanted and spec["data"]["digest"] != wanted:
        found.append(f"its data {spec['data']['digest'][:12]} are not the track's, {wanted[:12]}")
    return sorted(found)


def has(track: Track, strength) -> bool:
    """Whether a strength is one of a track's grid, as it is written there.

    >>> has(read("quick"), 4), has(read("quick"), 4.0), has(read("quick"), 5)
    (True, False, False)
    """
    return any(_same(strength, value) for value in track.grid)


def _same(one, other) -> bool:
    # 1 is True and 1.0 to Python; a setting is what it is written as.
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(_same(a, b) for a, b in zip(one, other, strict=True))
    return type(one) is type(other) and one == other


def text(value) -> str:
    """A strength without spaces, as it stands in file names.

    >>> text([20, 80])
    '20+80'
    """
    return "+".join(map(str, value)) if isinstance(value, list) else str(value)
