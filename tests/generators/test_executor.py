"""The executor: order, errors, notes and workers that die."""

import os
import signal
import time

import pytest

from generators import executor
from generators.dataset import UserError


def work(spec, note):
    kind, value = spec
    if kind == "note":
        note(f"half of {value}")
        note(f"whole of {value}")
    if kind == "exit":
        os._exit(7)
    if kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "user error":
        raise UserError("mend it", exit_code=4)
    if kind == "os error":
        raise PermissionError(13, "Permission denied", "a file")
    if kind == "error":
        raise ZeroDivisionError("by zero")
    if kind == "slow":
        time.sleep(value)
    return kind, value, os.getpid()


def outcomes(specs, workers, note=None):
    found = list(executor.run(work, specs, workers, note))
    assert sorted(outcome.position for outcome in found) == list(range(len(specs)))
    return found


def test_one_worker_is_this_process_in_order():
    found = outcomes([("plain", value) for value in range(4)], 1)
    assert [outcome.position for outcome in found] == [0, 1, 2, 3]
    assert {outcome.value for outcome in found} == {("plain", value, os.getpid()) for value in range(4)}


def test_results_belong_to_their_specs_whatever_the_order():
    specs = [("slow", 0.6)] + [("plain", value) for value in range(6)]
    found = outcomes(specs, 2)
    assert all(outcome.value[:2] == specs[outcome.position] for outcome in found)
    processes = {outcome.value[2] for outcome in found}
    assert 1 <= len(processes) <= 2 and os.getpid() not in processes
    assert found[0].position != 0  # the slow one does not hold up the others


def test_a_dead_worker_fails_its_own_spec_only():
    specs = [("exit", 0), ("plain", 1), ("kill", 2), ("plain", 3), ("plain", 4), ("exit", 5)]
    found = {outcome.position: outcome for outcome in outcomes(specs, 2)}
    for position, (kind, _) in enumerate(specs):
        error = found[position].error
        if kind == "plain":
            assert error is None and found[position].value[1] == position
        else:
            assert isinstance(error, executor.WorkerDied)
            assert f"code {7 if kind == 'exit' else -9} " in str(error)


@pytest.mark.parametrize("workers", [1, 2])
def test_errors_come_as_outcomes(workers):
    specs = [("user error", 0), ("os error", 1), ("error", 2), ("plain", 3)]
    found = {outcome.position: outcome for outcome in outcomes(specs, workers)}
    assert isinstance(found[0].error, UserError) and found[0].error.exit_code == 4 and str(found[0].error) == "mend it"
    assert isinstance(found[1].error, PermissionError) and found[1].error.errno == 13
    assert isinstance(found[2].error, ZeroDivisionError if workers == 1 else RuntimeError)
    assert "by zero" in str(found[2].error) and "in work" in found[2].trace
    assert found[3].error is None


@pytest.mark.parametrize("workers", [1, 2])
def test_notes_reach_the_parent_before_their_outcome(workers):
    seen = []
    for outcome in executor.run(
        work, [("note", 0), ("note", 1), ("plain", 2)], workers, lambda *note: seen.append(note)
    ):
        if outcome.position < 2:
            own = [message for position, message in seen if position == outcome.position]
            assert own == [f"half of {outcome.position}", f"whole of {outcome.position}"]
    assert len(seen) == 4


def test_nobody_listening_is_fine():
    assert len(outcomes([("note", 0), ("note", 1)], 2)) == 2


def test_leaving_early_stops_the_workers():
    run = executor.run(work, [("plain", 0), ("slow", 60), ("slow", 60)], 2)
    process = next(run).value[2]
    start = time.monotonic()
    run.close()
    assert time.monotonic() - start < 10
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_cores():
    assert 1 <= executor.cores() <= (os.cpu_count() or 1)
