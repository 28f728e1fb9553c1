"""How long a cell will take: from finished records where there are some, otherwise from a short measurement."""

import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from generators import strict_json
from generators.dataset import UserError, is_source
from generators.pending import pending
from suppression_bench import provenance, runner, stand_in
from suppression_bench.results import record as records
from suppression_bench.spec import Cell
from suppression_bench.training.options import Training

FINISHED = "finished"
SETUP = "records of the same setup"
SIMILAR = "records of the same method, recipe and encoder"
MEASURED = "measured here on random pictures"


@dataclass(frozen=True)
class Estimate:
    """Seconds of a cell (None where nobody can say), and where they come from."""

    seconds: float | None
    source: str


class Estimator:
    """Estimates cells of a run; what has finished in its folder meanwhile is looked at anew at each question.

    Arguments:
        out: the run's folder, which need not be there.
        device: where cells train.
        threads: of torch in each worker.
        measure: the seconds of a cell from (cell, facts, counts, device); a test may hand in another.
    """

    def __init__(self, out: Path, device: torch.device, threads: int, measure: Callable | None = None):
        self.out, self.device, self.threads, self.measure = out, device, threads, measure or stand_in.seconds
        self.name = provenance.environment(device)["device"]
        self.records: dict[Path, dict] = {}
        self.finished: set[str] = set()
        self.places: dict[str, runner.Place | str] = {}
        self.measured: dict[str, Estimate] = {}

    def of(self, cell: Cell) -> Estimate:
        """A cell's estimate; a finished one costs nothing.

        Raises:
            UserError: options that the dataset or the loss refuses, or a batch larger than the training split.
        """
        place = self.place(cell)
        if isinstance(place, str):
            return Estimate(None, place)
        self._refresh()
        own = {**cell.spec, "data": _data(cell, place)}
        if _same_cell(own) in self.finished:
            return Estimate(0.0, FINISHED)
        timed = [one for one in self.records.values() if self._counts(one)]
        alike = [one["run"]["seconds"] for one in timed if _setup(one["spec"]) == _setup(own)]
        if alike:
            return Estimate(statistics.median(alike), SETUP)
        near = [one for one in timed if _kind(one["spec"]) == _kind(own)]
        if near:
            return Estimate(statistics.median(_scaled(one, own, place.counts["pretrain"]) for one in near), SIMILAR)
        return self._measured(cell, own, place)

    def place(self, cell: Cell) -> runner.Place | str:
        """Where a cell's data are or would be; what has to come first, where that is not known before."""
        key = runner.place_key(cell)
        if key not in self.places:
            options = cell.dataset[1] if cell.dataset else {}
            first = [pending(value) for name, value in options.items() if is_source(name) and value]
            self.places[key] = "; ".join(filter(None, first)) or runner.locate(cell)
        return self.places[key]

    def _refresh(self) -> None:
        for path in sorted((self.out / "cells").glob(f"*/{records.NAME}")):
            if path not in self.records:
                found = records.read(path)
                if found["run"]["status"] != "failed":  # the next run tries it again
                    self.records[path] = found
                    self.finished.add(_same_cell(found["spec"]))

    def _counts(self, record: dict) -> bool:
        # The time of a cell that was resumed is only that of its last part.
        run = record["run"]
        return run["status"] == "ok" and not run["resumes"] and record["environment"]["device"] == self.name

    def _measured(self, cell: Cell, own: dict, place: runner.Place) -> Estimate:
        key = _setup(own)
        if key not in self.measured:
            try:
                with _threads(self.threads):
                    found = Estimate(self.measure(cell, place.facts, place.counts, self.device), MEASURED)
            except UserError:
                raise
            except Exception as error:  # a user's own method may fail here as it would in its cell, which says so
                found = Estimate(None, f"its method failed on random pictures ({type(error).__name__}: {error})")
            self.measured[key] = found
        return self.measured[key]


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _data(cell: Cell, place: runner.Place) -> dict:
    return {
        **{key: place.facts[key] for key in ("dataset", "version", "options", "seed")},
        "bits": cell.spec["data"]["bits"],
    }


def _same_cell(spec: dict) -> str:
    # All of a spec but the data's digest, which is known only when they are there.
    return strict_json.dumps({**spec, "data": {key: value for key, value in spec["data"].items() if key != "digest"}})


def _setup(spec: dict) -> str:
    # All that makes a cell's time: it does not hang on seeds and names, nor on a temperature.
    parts = {key: value for key, value in spec.items() if key not in ("suite", "strength", "varied", "seed")}
    parts["data"] = {key: value for key, value in spec["data"].items() if key not in ("digest", "seed")}
    parts["loss"] = spec["loss"] and spec["loss"]["name"]
    return strict_json.dumps(parts)


def _kind(spec: dict) -> tuple:
    names = (spec["method"]["name"], spec["recipe"], spec["encoder"]["name"], spec["data"]["dataset"])
    return *names, spec["train"]["precision"], spec["train"].get("compile", "none")


def _scaled(record: dict, spec: dict, count: int) -> float:
    # Training in proportion to the samples it sees; the rest of a cell (probes, metrics) as it was.
    run, trained = record["run"], record["run"]["steps"] * record["spec"]["train"]["batch_size"]
    if not trained or not run["images_per_second"]:
        return run["seconds"]
    training = Training(**spec["train"])
    rest = max(0.0, run["seconds"] - trained / run["images_per_second"])
    return rest + training.total_steps(count) * training.batch_size / run["images_per_second"]


def together(seconds: list[float], workers: int) -> float:
    """Seconds until all cells are done, each given in its turn to the first worker that is free.

    >>> together([4, 1, 1, 1], 2), together([], 2)
    (4, 0)
    """
    free = [0] * workers
    for one in seconds:
        free.sort()
        free[0] += one
    return max(free)
