"""Local worker processes: run a function over specs, survive a dead worker, stop cleanly."""

import multiprocessing
import multiprocessing.connection
import os
import signal
import traceback
from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import dataclass
from typing import Any

from generators.dataset import UserError


@dataclass
class Outcome:
    """What became of the spec at `position`: a value, or an error (with its traceback as text)."""

    position: int
    value: Any = None
    error: Exception | None = None
    trace: str = ""


class WorkerDied(RuntimeError):
    """A worker process ended without an answer (killed, out of memory, crashed in native code)."""


def cores() -> int:
    """The processor cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run(function: Callable, specs: Iterable, workers: int = 1, note: Callable | None = None) -> Iterator[Outcome]:
    """Call `function(spec, note)` for each spec and yield the outcomes as they end.

    With one worker the calls happen in this process, in order. With more, each worker is a fresh process
    (spawned, so threads of this process cannot hang it); one that dies fails its own spec only.

    Arguments:
        function: a module-level function of (spec, note).
        specs: picklable arguments; one is taken only when a worker is free for it.
        workers: number of processes.
        note: called in this process with (position, message) for whatever the function notes on its way.

    >>> [outcome.value for outcome in run(lambda spec, note: spec + 1, [1, 2])]
    [2, 3]
    """
    if workers <= 1 or (isinstance(specs, Sized) and len(specs) <= 1):
        for position, spec in enumerate(specs):
            yield _call(function, position, spec, lambda message, at=position: note and note(at, message))
        return
    yield from _run_processes(function, specs, workers, note)


def _call(function, position, spec, note) -> Outcome:
    try:
        return Outcome(position, value=function(spec, note))
    except Exception as error:  # handed to the caller, who decides
        return Outcome(position, error=error, trace=traceback.format_exc())


def _serve(function, pipe) -> None:
    # A worker's life: take a spec, answer, until the pipe closes. Ctrl-C is the parent's business.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        try:
            position, spec = pipe.recv()
        except (EOFError, ConnectionError):
            return
        outcome = _call(function, position, spec, lambda message, at=position: pipe.send((at, message)))
        if outcome.error is not None and not isinstance(outcome.error, (UserError, OSError)):
            outcome.error = RuntimeError(f"{type(outcome.error).__name__}: {outcome.error}")  # always picklable
        try:
            pipe.send(outcome)
        except ConnectionError:  # the parent was stopped meanwhile; nobody waits for the answer
            return


class _Worker:
    def __init__(self, function):
        context = multiprocessing.get_context("spawn")
        self.pipe, worker_end = context.Pipe()
        self.process = context.Process(target=_serve, args=(function, worker_end), daemon=True)
        self.process.start()
        worker_end.close()
        self.position = None

    def start_on(self, position, spec):
        self.position = position
        self.pipe.send((position, spec))

    def stop(self):
        self.pipe.close()
        self.process.terminate()
        self.process.join()


def _run_processes(function, specs, workers, note) -> Iterator[Outcome]:
    waiting, team = enumerate(specs), []
    try:
        while len(team) < workers and (task := next(waiting, None)):
            team.append(_Worker(function))
            team[-1].start_on(*task)
        busy = list(team)
        while busy:
            ready = multiprocessing.connection.wait([worker.pipe for worker in busy])
            for worker in [worker for worker in busy if worker.pipe in ready]:
                try:
                    message = worker.pipe.recv()
                except (EOFError, ConnectionResetError):
                    worker.process.join()
                    fault = WorkerDied(f"the worker process ended with code {worker.process.exitcode} and no answer")
                    message = Outcome(worker.position, error=fault)
                    busy.remove(worker)
                    worker = _Worker(function)
                    team.append(worker)
                    busy.append(worker)
                if not isinstance(message, Outcome):
                    if note:
                        note(*message)
                    continue
                if task := next(waiting, None):
                    worker.start_on(*task)
                else:
                    busy.remove(worker)
                yield message
    finally:
        for worker in team:
            worker.stop()
