"""Many cells: their data built once, each cell run wherever a worker is free, progress shown, nothing lost."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from generators import build, catalog, executor, manifest, strict_json
from generators.dataset import Dataset, UserError
from generators.sources import data_root
from suppression_bench import cell as cells
from suppression_bench.results import record as records
from suppression_bench.results.found import read_plan
from suppression_bench.spec import Cell, data_facts
from suppression_bench.training import precision
from suppression_bench.training.data import Data


@dataclass(frozen=True)
class Job:
    """What a worker gets."""

    cell: Cell
    folder: str
    device: str
    threads: int


def prepare(found: list[Cell], workers: int, say: Callable[[str], None]) -> None:
    """Build the data that the cells need and do not have yet, note its digest in each cell, and check each cell.

    Raises:
        UserError: a fault that would stop a cell later.
    """
    folders: dict[str, dict] = {}
    for cell in found:
        if cell.dataset is None:
            cells.check(cell)
            continue
        key = place_key(cell)
        if key not in folders:
            place = locate(cell)
            if not place.is_there:
                say(f"generating {place.dataset.name} ({sum(place.counts.values())} samples)")
            made = build.build(
                place.dataset, place.folder, seed=cell.spec["data"]["seed"], workers=workers,
                reference=cell.dataset[0], say=say,
            )  # fmt: skip
            folders[key] = {"folder": str(place.folder), "manifest": made}
        entry = folders[key]
        cell.spec["data"] = {**data_facts(entry["manifest"]), "bits": cell.spec["data"]["bits"]}
        cell.folder = entry["folder"]
        cells.check(cell)
    for folder, bits in dict.fromkeys((cell.folder, cell.spec["data"]["bits"]) for cell in found):
        Data(folder, bits).decode(workers)  # here, so that no two cells decode the same


@dataclass(frozen=True)
class Place:
    """A cell's data, there or still to be generated.

    dataset: opened with its options, None for a folder of the user's.
    facts: the manifest's, or as much of them as is known before a sample is drawn.
    counts: samples of each split.
    folder: where the data are or would be.
    """

    dataset: Dataset | None
    facts: dict
    counts: dict[str, int]
    folder: Path

    @property
    def is_there(self) -> bool:
        return (self.folder / manifest.NAME).exists()


def place_key(cell: Cell) -> str:
    """The same text for cells on the same data."""
    return cell.folder if cell.dataset is None else strict_json.dumps([*cell.dataset, cell.spec["data"]["seed"]])


def locate(cell: Cell) -> Place:
    """Where a cell's data are or would be; nothing is generated, but its sources are opened.

    Raises:
        UserError: options that the dataset refuses, or a source that is not there.
    """
    if cell.dataset is None:
        found = manifest.read(Path(cell.folder))
        counts = {name: split["count"] for name, split in found["splits"].items()}
        return Place(None, found, counts, Path(cell.folder))
    name, options = cell.dataset
    dataset = catalog.dataset(name, options)
    facts = manifest.identity(dataset, cell.spec["data"]["seed"])
    what = dict(facts)
    if catalog.is_path(name):  # a user's file may change without a new version: then its data are made anew
        what["file"] = catalog.file_digest("generators.datasets", name)
    short = hashlib.sha256(strict_json.dumps(what).encode()).hexdigest()[:12]
    return Place(dataset, facts, dataset.splits, data_root() / "datasets" / f"{dataset.name}-{short}")


def run_cells(
    found: list[Cell],
    out: Path,
    *,
    device: torch.device,
    workers: int,
    threads: int,
    watch: Callable,
    say: Callable[[str], None],
    admit: Callable[[Cell], bool] = lambda cell: True,
) -> list[dict | None]:
    """Run every cell that has no record yet and return all records in the cells' order.

    A cell that fails, or whose worker dies, gets a record that says so; the others go on.

    Arguments:
        found: prepared cells.
        out: the run's folder; each cell has a folder of its own below `cells/`.
        device: where to train.
        workers: cells at once.
        threads: of torch in each worker.
        watch: called with (position of the cell, steps done, steps in all) while cells train.
        say: prints a line.
        admit: asked about each cell in its turn, when a worker is free for it; one that is not admitted has None in
            place of a record.
    """
    build.make_folder(out / "cells")
    _write_plan(out, found)
    folders = [out / "cells" / cell.folder_name for cell in found]
    started: list[int] = []  # positions of the admitted cells, which the executor counts from 0

    def jobs() -> Iterator[Job]:
        for position, (cell, folder) in enumerate(zip(found, folders, strict=True)):
            if admit(cell):
                started.append(position)
                yield Job(cell, str(folder), str(device), threads)

    results: dict[int, dict] = {}
    for outcome in executor.run(run_job, jobs(), workers, lambda turn, message: watch(started[turn], *message)):
        position = started[outcome.position]
        cell, folder, where = found[position], folders[position], ""
        if outcome.error is None:
            results[position] = outcome.value
        elif isinstance(outcome.error, UserError):
            raise UserError(f"{cell.label}: {outcome.error}")
        else:
            results[position] = cells.failure(cell, folder, _first_line(outcome.error))
            where = _keep_trace(folder, outcome.trace)
        say(f"[{len(results)}/{len(found)}] {cell.label}: {brief(results[position])}{where}")
    return [results.get(position) for position in range(len(found))]


def _keep_trace(folder: Path, trace: str) -> str:
    # For the method's author; a worker that died has left none.
    if not trace:
        return ""
    (folder / "traceback.txt").write_text(trace)
    return f"; traceback: {folder / 'traceback.txt'}"


def _first_line(error: Exception) -> str:
    # A worker's error comes as a RuntimeError that names its own type already.
    name = "" if type(error) is RuntimeError else f"{type(error).__name__}: "
    return (name + str(error)).split("\n")[0][:500]


def run_job(job: Job, note: Callable) -> dict:
    """One cell in a worker process."""
    torch.set_num_threads(job.threads)
    precision.prepare_process()
    try:
        return cells.run(job.cell, Path(job.folder), torch.device(job.device), lambda done, steps: note((done, steps)))
    except torch.OutOfMemoryError as error:
        raise RuntimeError(f"the device's memory is full; set train.batch_size lower ({error})") from None


def brief(record: dict) -> str:
    """A finished cell in one line: each feature's accuracy by the first kind of probe."""
    if record["run"]["status"] != "ok":
        return f"{record['run']['status']} ({record['run']['error']})"
    first = record["probes"][0]["probe"] if record["probes"] else ""
    shown, bits = [], []
    for probe in record["probes"]:
        if probe["probe"] == first and probe["layer"] == "encoder":
            (bits if records.is_bit(probe["feature"]) else shown).append((probe["feature"], records.accuracy(probe)))
    if bits:
        shown.append(("bits", sum(value for _, value in bits) / len(bits)))
    values = ", ".join(f"{name} {value:.3f}" for name, value in shown)
    return f"{values} ({first} probe, {record['run']['seconds']:.1f} s)"


def _write_plan(out: Path, found: list[Cell]) -> None:
    # Every cell that this folder is to hold, so that a table can name those that are missing.
    path = out / records.PLAN
    planned = read_plan(path) if path.exists() else []
    known = {entry["id"] for entry in planned}
    planned += [{"id": c.identity, "folder": c.folder_name, "spec": c.spec} for c in found if c.identity not in known]
    partial = path.with_suffix(".tmp")
    partial.write_text(strict_json.dumps(planned) + "\n")
    partial.replace(path)
