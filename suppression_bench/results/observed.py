"""What records say of each place: setting, probe and feature -> the number of right answers of every seed."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from generators import strict_json
from generators.dataset import UserError, is_source
from suppression_bench.results import record as records
from suppression_bench.results.found import read_plan

BITS = "bits"
# What cannot move a number, or is compared by itself: the data's digest, which seed, how the suite calls it.
ELSEWHERE = ("suite", "strength", "varied", "seed")
HARMLESS = {"train": ("checkpoint_seconds",), "probe": ("block_size",), "data": ("digest", "version")}


@dataclass(frozen=True, order=True)
class Place:
    """What is compared over seeds: settings (their hash, without data digest and seed), probe, layer and feature."""

    settings: str
    probe: str
    layer: str
    feature: str


@dataclass
class Seen:
    """The numbers of one place.

    names: dataset, method, setting, encoder, recipe, strength_name and strength, for people.
    digest: of the data's content.
    n: test decisions of a seed (test samples; for `bits` times the bits).
    correct: seed -> how many of them were right.
    sources: seed -> digest of the program that ran.
    """

    names: dict[str, str]
    digest: str
    n: int
    correct: dict[int, int] = field(default_factory=dict)
    sources: dict[int, str] = field(default_factory=dict)

    def shares(self, seeds: Iterable[int]) -> list[float]:
        """The accuracies of some seeds."""
        return [self.correct[seed] / self.n for seed in seeds]


@dataclass
class Observed:
    """All places of some records, what was wrong with the records, and where they come from."""

    places: dict[Place, Seen] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    environment: dict[str, list[str]] = field(default_factory=dict)
    suites: list[dict | None] = field(default_factory=list)


def read(folders: list[Path]) -> Observed:
    """The places of run folders, each searched to any depth; a planned cell without a record is a fault.

    Raises:
        UserError: no record below a folder, or a damaged one.
    """
    found, planned = [], {}
    for folder in folders:
        paths = sorted(Path(folder).rglob(records.NAME))
        plans = sorted(Path(folder).rglob(records.PLAN))
        if not paths and not plans:
            raise UserError(f"{folder}: no {records.NAME} in it; name a folder that `bench run` wrote")
        found += [records.read(path) for path in paths]
        for path in plans:
            planned.update({entry["id"]: entry["spec"] for entry in read_plan(path)})
    known = {record["id"] for record in found}
    observed = observe(found)
    observed.faults += [
        f"{title(spec)}: missing, planned but not run" for key, spec in planned.items() if key not in known
    ]
    return observed


def observe(found: Iterable[dict]) -> Observed:
    """The places of checked records; the probes of all bits become one feature, `bits`."""
    made, groups = Observed(), {}
    for record in found:
        if record["run"]["status"] != "ok":
            made.faults.append(f"{title(record['spec'])}: {record['run']['status']} ({record['run']['error']})")
            continue
        if not isinstance(record["spec"]["data"].get("digest"), str):
            made.faults.append(f"{title(record['spec'])}: its record does not say which data it saw (spec.data.digest)")
            continue
        if not record["probes"]:
            made.faults.append(f"{title(record['spec'])}: no probe in its record")
        _note(made, record)
        groups.setdefault(settings_digest(record["spec"]), set()).add(record["spec"]["seed"])
        for place, (correct, n) in _right(record).items():
            _add(made, place, record, correct, n)
    for place, seen in made.places.items():
        without = sorted(groups[place.settings] - seen.correct.keys())
        if without:
            made.faults.append(
                f"{describe(place, seen.names)}: missing for {seeds_text(without)}, which have other probes"
            )
    return made


def _right(record: dict) -> dict[Place, tuple[int, int]]:
    settings, found = settings_digest(record["spec"]), {}
    for probe in record["probes"]:
        feature = BITS if records.is_bit(probe["feature"]) else probe["feature"]
        place = Place(settings, probe["probe"], probe["layer"], feature)
        correct, n = found.get(place, (0, 0))
        found[place] = correct + sum(row[i] for i, row in enumerate(probe["confusion"])), n + probe["n"]
    return found


def _add(made: Observed, place: Place, record: dict, correct: int, n: int) -> None:
    spec, seed = record["spec"], record["spec"]["seed"]
    seen = made.places.setdefault(place, Seen(names_of(spec), spec["data"]["digest"], n))
    what = f"{describe(place, seen.names)} seed={seed}"
    if spec["data"]["digest"] != seen.digest:
        made.faults.append(
            f"{what}: its data {spec['data']['digest'][:12]} are not those of other seeds, {seen.digest[:12]}"
        )
    elif n != seen.n:
        made.faults.append(f"{what}: {n} test decisions, other seeds have {seen.n}")
    elif seen.correct.setdefault(seed, correct) != correct:
        made.faults.append(
            f"{what}: stands twice with different numbers ({seen.correct[seed]} and {correct} of {n} right)"
        )
    seen.sources[seed] = record["code"]["sources"]


def _note(made: Observed, record: dict) -> None:
    where = {**record["environment"], "commit": record["code"]["commit"]}
    for key in ("torch", "device", "platform", "cpu_capability", "commit"):
        if isinstance(where.get(key), str):
            made.environment[key] = sorted({where[key], *made.environment.get(key, [])})
    if record["spec"]["suite"] not in made.suites:
        made.suites.append(record["spec"]["suite"])


def settings_digest(spec: dict) -> str:
    """Hash of everything in a spec that is to stay equal while the code changes.

    A plug-in file of a user is known by its name and options: its content is what a check is about.
    """
    parts = {key: value for key, value in spec.items() if key not in ELSEWHERE}
    for section, names in HARMLESS.items():
        parts[section] = {key: value for key, value in spec[section].items() if key not in names}
    for section in ("method", "loss", "encoder"):
        if parts[section]:
            parts[section] = {key: value for key, value in parts[section].items() if key != "file"}
    return hashlib.sha256(strict_json.dumps(parts).encode()).hexdigest()


def names_of(spec: dict) -> dict[str, str]:
    """What people call a cell: every value a text."""
    options = spec["data"].get("options") or {}
    strength = spec["strength"] or {"key": "", "value": ""}
    shown = [f"{key}={_show(options[key])}" for key in sorted(options) if is_source(key) and options[key]]
    shown += [
        f"{key}={_show(value)}"
        for key, value in sorted(options.items())
        if not is_source(key) and key != strength["key"] and value is not None
    ]
    return {
        "dataset": " ".join([spec["data"]["dataset"], *shown]),
        "method": spec["method"]["name"],
        "setting": " ".join(f"{key.partition('.')[2]}={_show(value)}" for key, value in spec["varied"].items()),
        "encoder": spec["encoder"]["name"],
        "recipe": spec["recipe"],
        "strength_name": strength["key"],
        "strength": _show(strength["value"]),
    }


def title(spec: dict) -> str:
    """A cell by name: method, setting, strength, seed."""
    return f"{cell_title(names_of(spec))} seed={spec['seed']}"


def cell_title(names: dict[str, str]) -> str:
    """Method, setting and strength of a cell.

    >>> cell_title({"method": "simclr", "setting": "temperature=0.1", "strength_name": "bits", "strength": "8"})
    'simclr temperature=0.1 bits=8'
    """
    strength = f"{names['strength_name']}={names['strength']}" if names["strength_name"] else ""
    return " ".join(filter(None, [names["method"], names["setting"], strength]))


def describe(place: Place, names: dict[str, str]) -> str:
    """A place by name: the cell, the feature, the probe, and the layer where it is not the encoder."""
    layer = "" if place.layer == "encoder" else f" on {place.layer}"
    return f"{cell_title(names)}, {place.feature} by {place.probe}{layer}"


def seeds_text(seeds: Iterable[int]) -> str:
    """Seeds in words, neighbours as a range.

    >>> seeds_text([10, 11, 12, 20])
    'seeds 10-12, 20'
    """
    runs: list[list[int]] = []
    for seed in sorted(seeds):
        if runs and seed == runs[-1][1] + 1:
            runs[-1][1] = seed
        else:
            runs.append([seed, seed])
    return "seeds " + ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def _show(value) -> str:
    return "+".join(map(str, value)) if isinstance(value, list) else str(value)
