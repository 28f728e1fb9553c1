"""The baseline of `bench check`: how often each probe was right, by seed, read from records and kept in one JSON file."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec

from generators.dataset import UserError, is_source
from generators.files import dumps_json, loads_json
from suppression_bench.cell import Cell, SuiteName, settings_key, value_text
from suppression_bench.results import record as records
from suppression_bench.results.record import Count, Digest, Positive, Record, Struct

SCHEMA = 1
LEAST = 10  # seeds
LARGEST = 8_000_000  # bytes


class Number(Struct, frozen=True, order=True):
    """What is compared over seeds: the accuracy of one probe on one layer for one feature in one setting.

    settings: hash of everything that can move it but the code and the seed (`settings_key`).
    """

    settings: Digest
    probe: str
    layer: str
    feature: str


class Names(Struct, frozen=True):
    """What people call the setting of a number."""

    dataset: str
    method: str
    setting: str
    encoder: str
    recipe: str
    strength_name: str
    strength: str

    @property
    def title(self) -> str:
        """Method, setting and strength.

        >>> names = dict.fromkeys(Names.__struct_fields__, "")
        >>> Names(**{**names, "method": "simclr", "strength_name": "bits", "strength": "8"}).title
        'simclr bits=8'
        """
        strength = f"{self.strength_name}={self.strength}" if self.strength_name else ""
        return " ".join(filter(None, [self.method, self.setting, strength]))


@dataclass
class Measured:
    """The values of a number.

    digest: of the data's content.
    n: test decisions of a seed (test samples; for a feature group times its members).
    correct: seed -> how many of them were right.
    sources: seed -> digest of the program that ran; a baseline keeps none.
    """

    names: Names
    digest: str
    n: int
    correct: dict[int, int] = field(default_factory=dict)
    sources: dict[int, str] = field(default_factory=dict)

    def shares(self, seeds: Iterable[int] | None = None) -> list[float]:
        """The accuracies of some seeds, or of all in rising order."""
        return [self.correct[seed] / self.n for seed in (sorted(self.correct) if seeds is None else seeds)]


@dataclass
class Measurements:
    """All numbers of some records, what was wrong with the records, and where they come from."""

    numbers: dict[Number, Measured] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    environment: dict[str, list[str]] = field(default_factory=dict)
    suites: list[SuiteName | None] = field(default_factory=list)


@dataclass(frozen=True)
class Baseline:
    """Numbers to compare with; the suite that they belong to, if it is one; the machines, for information."""

    suite: SuiteName | None
    environment: dict[str, list[str]]
    numbers: dict[Number, Measured]

    def seeds(self) -> set[int]:
        """Every seed that some number has."""
        return {seed for measured in self.numbers.values() for seed in measured.correct}


# ---- from records ----


def read_runs(paths: list[Path]) -> Measurements:
    """The numbers of run folders, each searched to any depth, and study files; a planned cell without a record is a fault.

    Raises:
        UserError: no record in one of them, or a damaged one.
    """
    # Every record, also of a cell that lies in several folders: two that contradict each other are a fault.
    finished = list(records.records_below(paths))
    ids = {record.id for record in finished}
    measurements = measure(finished)
    measurements.faults += [
        f"{cell.label}: missing, planned but not run"
        for key, cell in records.planned_cells(paths).items()
        if key not in ids
    ]
    return measurements


def measure(finished: Iterable[Record]) -> Measurements:
    """The numbers of records; the probes of a feature group become one number."""
    measurements = Measurements()
    seeds: dict[str, set[int]] = {}
    for record in finished:
        label = record.spec.label
        if not record.is_ok:
            measurements.faults.append(f"{label}: {record.run.status} ({record.run.error})")
            continue
        if not record.probes:
            measurements.faults.append(f"{label}: no probe in its record")
        _note_origin(measurements, record)
        settings = settings_key(record.spec, code=False)
        seeds.setdefault(settings, set()).add(record.spec.seed)
        for number, (correct, n) in _right_answers(record, settings).items():
            _add(measurements, number, record, correct, n)
    for number, measured in measurements.numbers.items():
        if without := seeds[number.settings] - measured.correct.keys():
            measurements.faults.append(
                f"{describe(number, measured.names)}: missing for {seeds_text(without)}, which have other probes"
            )
    return measurements


def _right_answers(record: Record, settings: str) -> dict[Number, tuple[int, int]]:
    answers: dict[Number, tuple[int, int]] = {}
    for probe in record.probes:
        feature = record.group_of(probe.feature)
        number = Number(settings=settings, probe=probe.probe, layer=probe.layer, feature=feature)
        correct, n = answers.get(number, (0, 0))
        answers[number] = correct + probe.correct, n + probe.n
    return answers


def _add(measurements: Measurements, number: Number, record: Record, correct: int, n: int) -> None:
    seed, digest = record.spec.seed, record.data.digest
    measured = measurements.numbers.setdefault(number, Measured(names_of(record.spec), digest, n))
    title = f"{describe(number, measured.names)} seed={seed}"
    if digest != measured.digest:
        measurements.faults.append(
            f"{title}: its data {digest[:12]} are not those of other seeds, {measured.digest[:12]}"
        )
    elif n != measured.n:
        measurements.faults.append(f"{title}: {n} test decisions, other seeds have {measured.n}")
    elif (first := measured.correct.setdefault(seed, correct)) != correct:
        measurements.faults.append(f"{title}: stands twice with different numbers ({first} and {correct} of {n} right)")
    measured.sources[seed] = record.code.sources


def _note_origin(measurements: Measurements, record: Record) -> None:
    origin = {**msgspec.to_builtins(record.environment), "commit": record.code.commit}
    for key in ("torch", "device", "platform", "cpu_capability", "commit"):
        if origin[key]:
            measurements.environment[key] = sorted({origin[key], *measurements.environment.get(key, [])})
    if record.spec.suite not in measurements.suites:
        measurements.suites.append(record.spec.suite)


def names_of(cell: Cell) -> Names:
    """What people call a cell: the dataset with its sources, then its other options, and all that is varied."""
    options, strength = cell.dataset.options, cell.strength
    shown = [
        name
        for name, value in sorted(options.items(), key=lambda item: (not is_source(item[0]), item[0]))
        if (value if is_source(name) else value is not None and not (strength and name == strength.key))
    ]
    return Names(
        dataset=" ".join([cell.dataset.name, *(f"{name}={value_text(options[name])}" for name in shown)]),
        method=cell.method.name,
        setting=cell.setting,
        encoder=cell.encoder.name,
        recipe=cell.recipe,
        strength_name=strength.key if strength else "",
        strength=value_text(strength.value) if strength else "",
    )


def describe(number: Number, names: Names) -> str:
    """A number by name: the cell, the feature, the probe, and the layer where it is not the encoder."""
    layer = "" if number.layer == "encoder" else f" on {number.layer}"
    return f"{names.title}, {number.feature} by {number.probe}{layer}"


def seeds_text(seeds: Iterable[int]) -> str:
    """Seeds in words, neighbours as a range.

    >>> seeds_text([10, 11, 12, 20])
    'seeds 10-12, 20'
    """
    ranges: list[list[int]] = []
    for seed in sorted(seeds):
        if ranges and seed == ranges[-1][1] + 1:
            ranges[-1][1] = seed
        else:
            ranges.append([seed, seed])
    return "seeds " + ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def make(measurements: Measurements) -> Baseline:
    """The baseline of finished runs.

    Raises:
        UserError: every cell that failed, diverged or is missing, and every one with fewer than ten seeds, at once.
    """
    faults = list(measurements.faults)
    if not measurements.numbers:
        faults.append("there is no cell with a number")
    short: dict[tuple[str, int], str] = {}  # the first number of each setting and number of seeds
    for number, measured in sorted(measurements.numbers.items()):
        if (count := len(measured.correct)) < LEAST:
            short.setdefault((number.settings, count), describe(number, measured.names))
    faults += [f"{title}: {count} of {LEAST} seeds" for (_, count), title in short.items()]
    if faults:
        text = "\n".join(dict.fromkeys(faults))
        raise UserError(
            f"{text}\nno baseline is written: run these cells (`bench check SUITE --record --seeds {LEAST}` runs them)"
        )
    suite = measurements.suites[0] if len(measurements.suites) == 1 else None
    return Baseline(suite, measurements.environment, dict(sorted(measurements.numbers.items())))


# ---- the file ----


class Row(Names, frozen=True):
    """A number in the file: its names, the fields of `Number`, and the values by seed."""

    settings: Digest
    probe: str
    layer: str
    feature: str
    digest: Digest
    n: Positive
    seeds: list[Count]
    correct: list[Count]

    def __post_init__(self):
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError("a seed stands twice")
        if len(self.seeds) != len(self.correct):
            raise ValueError(f"{len(self.seeds)} seeds but {len(self.correct)} values")
        if len(self.seeds) < LEAST:
            raise ValueError(f"{len(self.seeds)} seeds, a baseline has at least {LEAST}")
        if max(self.correct) > self.n:
            raise ValueError(f"{max(self.correct)} of {self.n} test decisions are right")

    @property
    def number(self) -> Number:
        return Number(**{name: getattr(self, name) for name in Number.__struct_fields__})

    @property
    def measured(self) -> Measured:
        names = Names(**{name: getattr(self, name) for name in Names.__struct_fields__})
        return Measured(names, self.digest, self.n, dict(zip(self.seeds, self.correct, strict=True)))


class File(Struct, frozen=True):
    """The file of a baseline."""

    schema: Literal[1]
    suite: SuiteName | None
    environment: dict[str, list[str]]
    cells: list[Row]

    def __post_init__(self):
        if not self.cells:
            raise ValueError("it has no cell")
        numbers = [row.number for row in self.cells]
        if len(set(numbers)) < len(numbers):
            twice = next(number for number in numbers if numbers.count(number) > 1)
            raise ValueError(f"cell {numbers.index(twice) + 1} stands twice")


def write(baseline: Baseline, path: Path) -> None:
    """Write a baseline whole or not at all.

    Raises:
        UserError: it breaks its own schema (a fault of this program).
    """
    cells = [
        {
            **msgspec.to_builtins(number),
            **msgspec.to_builtins(measured.names),
            "digest": measured.digest,
            "n": measured.n,
            "seeds": sorted(measured.correct),
            "correct": [measured.correct[seed] for seed in sorted(measured.correct)],
        }
        for number, measured in baseline.numbers.items()
    ]
    head = {"schema": SCHEMA, "suite": msgspec.to_builtins(baseline.suite), "environment": baseline.environment}
    write_by_line(path, head, cells, File)


def read(path: Path) -> Baseline:
    """A baseline, strictly read.

    Raises:
        UserError: no such file, too large, no strict JSON, unknown, missing or repeated keys, cells or seeds, or numbers
            that contradict each other.
    """
    file = read_strictly(path, File, LARGEST, f"make one with `bench check RUNS --record --out {path}`")
    return Baseline(file.suite, file.environment, {row.number: row.measured for row in file.cells})


def read_strictly(path: Path, kind: Any, largest: int, remedy: str) -> Any:
    """The content of a file of `bench check` as a Struct.

    Raises:
        UserError: as `read`.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such file; {remedy}")
    if path.stat().st_size > largest:
        raise UserError(f"{path}: over {largest} bytes is no file of `bench check`")
    content = loads_json(path.read_bytes(), str(path))
    return records.convert(content, kind, str(path), "restore the file or record it anew")


def write_by_line(path: Path, head: dict[str, Any], cells: list[dict[str, Any]], kind: Any) -> None:
    """Write such a file whole or not at all, one cell a line, so that a change of it can be read.

    Raises:
        UserError: the content breaks its own schema (a fault of this program).
    """
    records.convert({**head, "cells": cells}, kind, str(path), "restore the file or record it anew")
    lines = ",\n".join(dumps_json(cell) for cell in cells)
    path.parent.mkdir(parents=True, exist_ok=True)
    records.write_atomic(path, dumps_json(head)[:-1] + ',"cells":[\n' + lines + "\n]}\n")
