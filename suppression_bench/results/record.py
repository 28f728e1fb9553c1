"""The record of a cell: one typed schema, strictly read, from which everything that people look at is rendered."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from generators import files
from generators.dataset import UserError
from generators.files import dumps_json, loads_json
from suppression_bench.cell import Cell, digest_of

NAME = "result.json"
PLAN = "cells.json"  # every cell that a run's folder is to hold
STUDY = ".jsonl"  # a file of records, one a line
SCHEMA = 2
LARGEST = 2_000_000  # bytes
OLD = "an older version wrote it, with another schema; run the cells again, or read it with that version"

Count = Annotated[int, msgspec.Meta(ge=0)]
Positive = Annotated[int, msgspec.Meta(ge=1)]
Amount = Annotated[float, msgspec.Meta(ge=0)]
Digest = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
Splits = tuple[str, str]  # train and test


class Struct(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of all parts of a record: immutable, and an unknown key is an error."""


class Data(Struct, frozen=True):
    """The data that the cell saw: their content digest, and the features that form a group, as {"bits": ["bit00"]}."""

    digest: Digest
    groups: dict[str, list[str]] = {}


class Code(Struct, frozen=True):
    """The program: version, commit, digest of the packages' sources and of the method's file."""

    version: str
    commit: str | None
    sources: str
    method: str


class Environment(Struct, frozen=True):
    """Where the cell ran."""

    device: str
    torch: str
    python: str = ""
    numpy: str = ""
    platform: str = ""
    cpu_capability: str = ""
    threads: Count = 0


class Run(Struct, frozen=True):
    """How the run went.

    error: why it is not ok. loss: mean of the last steps. collapsed: layers whose features are constant.
    """

    status: Literal["ok", "diverged", "failed", "invalid_features"]
    error: str | None = None
    steps: Count = 0
    resumes: Count = 0
    seconds: Amount = 0.0
    images_per_second: Amount = 0.0
    peak_memory_bytes: Count = 0
    loss: float | None = None
    collapsed: list[str] = []


class Probe(Struct, frozen=True):
    """One linear probe of one feature: integers, from which every accuracy follows.

    probe: lbfgs, online or sgd. confusion: test samples [true class][predicted class]. absent: classes that the train
    split lacks.
    """

    feature: str
    probe: str
    layer: str
    splits: Splits
    confusion: list[list[Count]]
    n: Positive
    chance: float
    majority: float
    train_correct: Count
    train_n: Positive
    l2: float | None
    converged: bool
    absent: list[Count]

    def __post_init__(self):
        name, rows = f"probe {self.probe} of {self.feature}", self.confusion
        if not rows or any(len(row) != len(rows) for row in rows):
            raise ValueError(f"{name}: the confusion matrix is no square of counts")
        if sum(map(sum, rows)) != self.n:
            raise ValueError(f"{name}: the confusion matrix does not add up to n")
        if abs(self.chance - 1 / len(rows)) > 1e-9:
            raise ValueError(f"{name}: chance is not 1 / {len(rows)}")
        if abs(self.majority - majority(rows)) > 1e-9:
            raise ValueError(f"{name}: majority does not follow from the confusion matrix")
        if self.train_correct > self.train_n:
            raise ValueError(f"{name}: train_correct lies outside 0..train_n")

    @property
    def correct(self) -> int:
        """Test samples on the diagonal of the confusion matrix."""
        return sum(row[position] for position, row in enumerate(self.confusion))

    @property
    def accuracy(self) -> float:
        """Share of the test samples on the diagonal of the confusion matrix."""
        return self.correct / self.n


class LayerMetrics(Struct, frozen=True):
    """What the normalised features of a layer look like on a test split; None where undefined, a list is then empty."""

    layer: str
    splits: Splits
    n: Positive
    alignment: float | None
    uniformity: float | None
    effective_rank: float | None
    positive_similarity: float | None
    negative_similarities: list[float]
    gradient_ratios: list[float | None]


class FeatureMetrics(Struct, frozen=True):
    """What a layer's normalised features say of one feature on a test split."""

    feature: str
    layer: str
    splits: Splits
    n: Positive
    tolerance: float | None
    sensitivity: float | None
    knn_correct: Count | None
    agreement: float | None

    def __post_init__(self):
        if (self.knn_correct or 0) > self.n:
            raise ValueError(f"metrics of {self.feature}: knn_correct lies outside 0..n")


class Metrics(Struct, frozen=True):
    """Metrics of normalised features; `voters` of the train split vote, `neighbours` of the test split agree."""

    version: int
    temperature: float
    voters: Count
    neighbours: Count
    layers: list[LayerMetrics]
    features: list[FeatureMetrics]


class TracePoint(Struct, frozen=True):
    """How many test samples a feature's probe got right after a training step."""

    step: Positive
    feature: str
    splits: Splits
    correct: Count
    n: Positive
    train_n: Positive
    converged: bool

    def __post_init__(self):
        if self.correct > self.n:
            raise ValueError(f"trace of {self.feature}: correct lies outside 0..n")


class Trace(Struct, frozen=True):
    """Probes of the training's course (docs/protocol.md)."""

    version: int
    probe: str
    l2: float | None
    points: list[TracePoint]


class Record(Struct, frozen=True):
    """Everything that is known of a cell once it has ended."""

    schema: Literal[2]
    id: Digest
    spec: Cell
    data: Data
    code: Code
    environment: Environment
    run: Run
    probes: list[Probe]
    metrics: Metrics | None = None
    trace: Trace | None = None

    @property
    def is_ok(self) -> bool:
        return self.run.status == "ok"

    def group_of(self, feature: str) -> str:
        """The group that a feature counts into: that of the bits, or the feature itself."""
        return next((group for group, members in self.data.groups.items() if feature in members), feature)


class Planned(Struct, frozen=True):
    """A cell that a run's folder is to hold, and the name of its folder."""

    id: Digest
    folder: str
    spec: Cell


def majority(confusion: list[list[int]]) -> float:
    """Share of the largest true class."""
    return max(map(sum, confusion)) / sum(map(sum, confusion))


def to_json(record: Record) -> str:
    """Canonical JSON of a record, one line.

    Raises:
        ValueError: a number that is not finite (JSON has none).
    """
    return dumps_json(msgspec.to_builtins(record))


def write(folder: Path, record: Record) -> None:
    """Write the record atomically and last: its presence says that the cell is done.

    Raises:
        UserError: the record breaks its own schema (a fault of this program).
    """
    what = str(folder / NAME)
    try:
        text = to_json(record)
    except ValueError as error:
        raise UserError(f"{what}: a record holds finite numbers only ({error})") from None
    parse(text, what)
    write_atomic(folder / NAME, text + "\n")


def read(path: Path) -> Record:
    """A record, strictly read.

    Raises:
        UserError: too large, no strict JSON, not the schema, or numbers that contradict each other.
    """
    if path.exists() and not path.is_file():  # a folder, or a pipe, which would be waited for
        raise UserError(f"{path}: no plain file; delete it and run the cell again")
    if path.stat().st_size > LARGEST:
        raise UserError(f"{path}: over {LARGEST} bytes is no record")
    return parse(path.read_bytes(), str(path))


def parse(text: str | bytes, what: str) -> Record:
    """The record of a JSON text.

    Arguments:
        text: JSON; a key that stands twice, NaN and Infinity are refused.
        what: the file's name, for errors.

    Raises:
        UserError: as `read`.
    """
    content = loads_json(text, what, floats=True)
    if isinstance(content, dict) and isinstance(content.get("schema"), int) and content["schema"] < SCHEMA:
        raise UserError(f"{what}: schema {content['schema']} is not {SCHEMA}: {OLD}")
    record = convert(content, Record, what, "delete the file and run the cell again")
    # The hash of the spec as it is written: a field that a later version adds must not make an old record wrong.
    if record.id != digest_of(content["spec"]):
        raise UserError(
            f"{what}: not a valid record (id is not the hash of spec); delete the file and run the cell again"
        )
    return record


def convert(content: Any, kind: Any, what: str, remedy: str) -> Any:
    """Plain values as a typed Struct.

    Raises:
        UserError: an unknown, missing or wrongly typed key, or a value that contradicts another.
    """
    try:
        return msgspec.convert(content, kind)
    except (msgspec.ValidationError, UserError, ArithmeticError, RecursionError) as error:
        raise UserError(f"{what}: not valid ({error}); {remedy}") from None


def write_atomic(path: Path, content: str | bytes) -> None:
    """Write a file whole or not at all: under a temporary name, flushed to the disk, renamed."""
    with files.write_atomic(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


# ---- the records and plans of run folders and study files ----


def records_below(paths: Iterable[Path]) -> Iterator[Record]:
    """Every record of run folders, each searched to any depth, and of study files.

    Raises:
        UserError: no such folder or file, neither record nor plan in a folder, or a damaged record.
    """
    for path in map(Path, paths):
        if path.suffix == STUDY and path.is_file():
            yield from read_study(path)
            continue
        if not path.is_dir():
            raise UserError(f"{path}: no such folder; name one that `bench run` wrote, or a {STUDY} file of records")
        record_files = sorted([*path.rglob(NAME), *path.rglob(f"*{STUDY}")])
        if not record_files and next(path.rglob(PLAN), None) is None:
            raise UserError(f"{path}: no {NAME} in it; name a folder that `bench run` wrote")
        for file in record_files:
            yield from [read(file)] if file.name == NAME else read_study(file)


def read_study(path: Path) -> Iterator[Record]:
    """The records of a study file, one a line.

    Raises:
        UserError: no line, or a line that is no record; it is named by its number.
    """
    lines = path.read_bytes().splitlines()
    if not lines:
        raise UserError(f"{path}: no record in it; write one record a line, as `cat RUN/cells/*/{NAME}` does")
    for number, line in enumerate(lines, 1):
        yield parse(line, f"{path}, line {number}")


def read_all(paths: Iterable[Path]) -> dict[str, Record]:
    """One record of every cell by its id, in the order in which they are met.

    Of a cell that is there several times, the first record that ended well counts; where none did, the first.

    Raises:
        UserError: as `records_below`.
    """
    records: dict[str, Record] = {}
    for record in records_below(paths):
        first = records.setdefault(record.id, record)
        if not first.is_ok and record.is_ok:
            records[record.id] = record
    return records


def planned_cells(paths: Iterable[Path]) -> dict[str, Cell]:
    """The spec of every cell that run folders are to hold, by the cell's id.

    Raises:
        UserError: a damaged plan.
    """
    plans = [plan for path in map(Path, paths) if path.is_dir() for plan in sorted(path.rglob(PLAN))]
    return {entry.id: entry.spec for plan in plans for entry in read_plan(plan)}


def read_plan(path: Path) -> list[Planned]:
    """The cells that a run's folder is to hold.

    Raises:
        UserError: it is no strict JSON, or no plan.
    """
    remedy = "delete the file, and run the suite again or read the records alone"
    content = loads_json(path.read_bytes(), str(path), floats=True)
    if isinstance(content, list) and any(isinstance(e, dict) and "data" in (e.get("spec") or {}) for e in content):
        raise UserError(f"{path}: {OLD}")
    return convert(content, list[Planned], f"{path}: a plan of cells", remedy)


def write_plan(path: Path, planned: list[Planned]) -> None:
    """Write the plan of a run's folder."""
    write_atomic(path, dumps_json(msgspec.to_builtins(planned)) + "\n")
