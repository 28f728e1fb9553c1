"""Forecast of a run: its cells, data and time, from finished records; and the budget that admits cells by it."""

import math
import re
import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import torch

from generators.build import expected_bytes, size_text
from generators.dataset import UserError, is_source
from generators.describe import table
from generators.sources import pending
from suppression_bench import run
from suppression_bench.cell import Cell, settings_key, value_text
from suppression_bench.config import LocatedCell
from suppression_bench.results import provenance
from suppression_bench.results import record as records
from suppression_bench.results.record import Record
from suppression_bench.training import loop
from suppression_bench.training.data import Data

FINISHED = "finished"
RECORDED = "finished records of the same setting"
MEASURED = "first steps measured, without probes"
UNTRAINED = "nothing to train, the probes' time is unknown"
UNKNOWN = "unknown; add --measure"
WARM_UP, TIMED = 2, 8  # steps of a measurement
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


# ---- durations ----


def seconds_of(text: str, flag: str = "--budget") -> float:
    """The seconds of a duration: 90s, 30m, 1.5h, 1h30m.

    Raises:
        UserError: it is no duration, or none at all.

    >>> seconds_of("90s"), seconds_of("30m"), seconds_of("1h30m")
    (90.0, 1800.0, 5400.0)
    """
    if not re.fullmatch(r"(\d+(\.\d+)?[smhd])+", text):
        raise UserError(f"{flag} {text!r} is no duration: write a number and s, m, h or d, as in 90s, 30m or 1h30m")
    duration = sum(float(number) * UNITS[unit] for number, unit in re.findall(r"([\d.]+)([smhd])", text))
    if not 0 < duration < math.inf:
        raise UserError(f"{flag} {text!r}: it must be longer than nothing")
    return duration


def words(duration: float) -> str:
    """A duration for people.

    >>> [words(seconds) for seconds in (0.4, 59.6, 95, 3540, 7300, 400_000)]
    ['1 s', '60 s', '2 min', '59 min', '2.0 h', '4.6 days']
    """
    if duration < 90:
        return f"{max(1, math.ceil(duration))} s"
    if duration < 5400:
        return f"{round(duration / 60)} min"
    return f"{duration / 3600:.1f} h" if duration < 172_800 else f"{duration / 86400:.1f} days"


# ---- a cell's time ----


@dataclass(frozen=True)
class Estimate:
    """Seconds of a cell (None where nobody can say), and where they come from."""

    seconds: float | None
    source: str


class Forecast:
    """Estimates cells of a run; what finishes in its folder meanwhile is read at the next question.

    Arguments:
        out: the run's folder, which need not be there.
        others: further run folders or study files whose records count (--records).
        device: where cells train.
        threads: of torch in each worker.
        measured: whether the first steps of an unknown cell are trained to time them (--measure), where its data are
            there.
    """

    def __init__(self, out: Path, others: Sequence[Path], device: torch.device, threads: int, measured: bool):
        self.out, self.device, self.threads, self.measured = out, device, threads, measured
        self.environment = {**provenance.environment(device), "threads": threads}
        self.finished: set[str] = set()
        self.seconds: dict[str, list[float]] = {}
        self.measurements: dict[str, Estimate] = {}
        self._read_paths: set[Path] = set()
        for record in records.records_below(others):
            self._note(record)

    def of(self, located: LocatedCell) -> Estimate:
        """A cell's estimate; a finished one costs nothing."""
        for path in sorted((self.out / "cells").glob(f"*/{records.NAME}")):
            if path not in self._read_paths:
                self._read_paths.add(path)
                record = records.read(path)
                self._note(record)
                if record.run.status != "failed":  # the next run tries it again
                    self.finished.add(record.id)
        if located.cell.id in self.finished:
            return Estimate(0.0, FINISHED)
        key = settings_key(located.cell)
        if key in self.seconds:
            return Estimate(statistics.median(self.seconds[key]), RECORDED)
        if not self.measured:
            return Estimate(None, UNKNOWN)
        if key not in self.measurements:
            self.measurements[key] = self._measure(located)
        return self.measurements[key]

    def _note(self, record: Record) -> None:
        # The time of a cell that was resumed is only that of its last part.
        same = all(getattr(record.environment, key) == self.environment[key] for key in ("device", "torch", "threads"))
        if record.is_ok and not record.run.resumes and same:
            self.seconds.setdefault(settings_key(record.spec), []).append(record.run.seconds)

    def _measure(self, located: LocatedCell) -> Estimate:
        plan = run.plan_data(located)
        if not plan.is_there:
            return Estimate(None, "unknown; its data are to be generated first")
        try:
            seconds = first_steps(located, plan.folder, self.device, self.threads)
        except UserError:
            raise
        except Exception as error:  # a user's own method fails here as it will in its cell, which says so
            return Estimate(None, f"its method failed in the first steps ({type(error).__name__}: {error})")
        return Estimate(seconds, UNTRAINED if seconds is None else MEASURED)


def first_steps(located: LocatedCell, folder: Path, device: torch.device, threads: int) -> float | None:
    """Seconds that a cell's training will take, from a few of its own steps, or None where nothing is trained.

    Arguments:
        located: the cell.
        folder: its data.
        device: where to train.
        threads: of torch.
    """
    cell, before = located.cell, torch.get_num_threads()
    data = Data(folder, cell.dataset.bits)
    samples = data.samples("pretrain", device)
    method = run.build_method(located, data, len(samples)).to(device=device, memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
    if not method.trains:
        return None
    steps = cell.train.total_steps(len(samples))
    few = min(steps, WARM_UP + TIMED)
    train = msgspec.structs.replace(cell.train, steps=few, epochs=None, warmup_epochs=0)
    clock = _Clock(device)
    torch.set_num_threads(threads)
    try:
        loop.train(
            method,
            samples,
            train,
            cell.augmentation,
            seed=cell.seed,
            labels=run.labels_of(data, method, device) if method.needs_labels else None,
            observers=[clock],
        )
    finally:
        torch.set_num_threads(before)
    return clock.seconds_per_step() * steps


class _Clock:
    """An observer that notes when each step ends."""

    def __init__(self, device: torch.device):
        self.device, self.times = device, [time.perf_counter()]

    def __call__(self, step: int, features: torch.Tensor, index: torch.Tensor) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        self.times.append(time.perf_counter())

    def state_dict(self) -> dict:
        return {}

    def load_state_dict(self, state: dict) -> None:
        self.times = [time.perf_counter()]

    def seconds_per_step(self) -> float:
        """Mean of the steps behind the warm-up."""
        start = min(WARM_UP, len(self.times) - 2)
        return (self.times[-1] - self.times[start]) / (len(self.times) - 1 - start)


# ---- the text of a dry run ----


def describe(cells: Sequence[LocatedCell], forecast: Forecast, workers: int, budget: float | None) -> str:
    """The cells with their estimates, the data, and the time in all, as Markdown.

    Arguments:
        cells: in the order in which they would run.
        forecast: of their times.
        workers: cells at once.
        budget: seconds that the run may take, or None.
    """
    estimates = [forecast.of(located) for located in cells]
    lines: dict[tuple[str, Estimate], list[int]] = {}
    for located, estimate in zip(cells, estimates, strict=True):
        lines.setdefault((located.cell.title, estimate), []).append(located.cell.seed)
    rows = [
        [title, ", ".join(map(str, seeds)), _time_text(estimate), estimate.source]
        for (title, estimate), seeds in lines.items()
    ]
    text = table(["cell", "seeds", "about, each", "by"], rows)
    return "\n".join([text, "", *_data_lines(cells), *_time_lines(estimates, workers, budget)])


def _time_text(estimate: Estimate) -> str:
    return "?" if estimate.seconds is None else "-" if estimate.source == FINISHED else words(estimate.seconds)


def _data_lines(cells: Sequence[LocatedCell]) -> list[str]:
    lines, missing_bytes = [], 0
    for located in {run.data_key(located): located for located in cells}.values():
        options = located.dataset[1] if located.dataset else {}
        first = [pending(value) for name, value in options.items() if is_source(name) and value]
        if any(first):
            lines.append(f"data: {located.cell.dataset.name}: {'; '.join(filter(None, first))}")
            continue
        plan = run.plan_data(located)
        pairs = plan.facts.options.items()
        shown = " ".join(f"{key}={value_text(value)}" for key, value in pairs if value is not None)
        name = f"{plan.facts.dataset} {shown} ({sum(plan.counts.values())} samples)"
        if plan.dataset is None or plan.is_there:
            lines.append(f"data: {name}: there")
        else:
            size = expected_bytes(plan.dataset, located.cell.dataset.seed)
            missing_bytes += size
            lines.append(f"data: {name}: would be generated, about {size_text(size)}")
    if missing_bytes and len(lines) > 1:
        lines.append(f"data: about {size_text(missing_bytes)} to generate in all")
    return lines


def _time_lines(estimates: list[Estimate], workers: int, budget: float | None) -> list[str]:
    durations = [estimate.seconds for estimate in estimates if estimate.seconds is not None]
    counts = Counter(estimate.source for estimate in estimates)
    lines = []
    if sum(durations):
        at_once = f", {words(makespan(durations, workers))} with {workers} at once" if workers > 1 else ""
        lines.append(f"time: about {words(sum(durations))}{at_once}, without the time to generate data")
    lines.append("cells: " + ", ".join(f"{count} {source}" for source, count in counts.items()))
    if budget is not None:
        fitting = _count_fitting(estimates, workers, budget)
        lines.append(f"budget: {fitting} of {len(estimates)} cells would fit into {words(budget)}")
    return lines


def makespan(durations: Sequence[float], workers: int) -> float:
    """Seconds until all cells are done, each given in its turn to the first worker that is free.

    >>> makespan([4, 1, 1, 1], 2), makespan([], 2)
    (4.0, 0.0)
    """
    free = [0.0] * workers
    for duration in durations:
        free.sort()
        free[0] += duration
    return max(free)


def _count_fitting(estimates: list[Estimate], workers: int, budget: float) -> int:
    free, fitting = [0.0] * workers, 0
    for estimate in estimates:
        free.sort()
        duration = estimate.seconds or 0
        if free[0] + duration <= budget:
            free[0] += duration
            fitting += 1
    return fitting


def other_suites(out: Path, cells: Sequence[LocatedCell]) -> str:
    """A sentence on the cells of other suites in a run's folder, "" where there are none.

    Arguments:
        out: the folder, which need not be there.
        cells: those that are about to run.
    """
    path = out / records.PLAN
    if not path.exists():
        return ""
    suites = {_suite_text(located.cell) for located in cells}
    names = (_suite_text(entry.spec) for entry in records.read_plan(path))
    counts = Counter(name for name in names if name not in suites)
    listed = ", ".join(f"{count} of {name}" for name, count in counts.items())
    return f"{out} holds other cells too ({listed}): its tables show them all" if counts else ""


def _suite_text(cell: Cell) -> str:
    return f"suite {cell.suite.name}" if cell.suite else "no suite"


# ---- the budget ----


@dataclass
class Budget:
    """Admits a cell while the time gone plus its estimate fits; a shorter one may still fit behind one that did not.

    A cell whose time nobody can say is admitted as long as there is time left.

    Arguments:
        most: seconds in all.
        estimate: the seconds of a cell, or None.
        began: on the clock.
        clock: seconds; a test hands in its own.

    >>> budget = Budget(10, lambda cell: cell, began=0, clock=iter([0, 7, 7]).__next__)
    >>> [budget.admits(cell) for cell in (6, 4, 3)], budget.skipped
    ([True, False, True], [(4, 4)])
    """

    most: float
    estimate: Callable
    began: float
    clock: Callable[[], float] = time.monotonic
    skipped: list[tuple] = field(default_factory=list)  # cells with their estimates

    def admits(self, cell) -> bool:
        """Whether a cell may start now; noted if it may not."""
        duration, gone = self.estimate(cell), self.clock() - self.began
        fits = gone < self.most if duration is None else gone + duration <= self.most or duration == 0
        if not fits:
            self.skipped.append((cell, duration))
        return fits

    def report(self, total: int, text: str, ran: bool) -> str:
        """The cells that were skipped, and how to go on.

        Arguments:
            total: cells of the run.
            text: the budget as the user gave it.
            ran: whether any cell was run or finished; else the same command would not get further.
        """
        lines = [
            f"not run: {cell.label}" + (f" (about {words(duration)})" if duration else "")
            for cell, duration in self.skipped
        ]
        if ran:
            lines.append(f"{len(self.skipped)} of {total} cells did not fit into {text}; the same command goes on")
        else:
            gone = words(self.clock() - self.began)
            lines.append(f"none of {total} cells fits into {text}, of which preparation took {gone}: raise --budget")
        return "\n".join(lines)
