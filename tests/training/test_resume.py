"""Killed at any moment and started again, a cell ends with the very weights of the undisturbed run."""

import json
import random
import signal
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

import pytest
from small_cells import run

from generators.dataset import UserError
from suppression_bench.results import provenance
from suppression_bench.training import loop

STEPS = 9
SETTINGS = dict(
    data__bits=3,
    train__steps=STEPS,
    train__batch_size=50,
    train__checkpoint_seconds=0.0,
    train__warmup_epochs=1,
    probe__kinds=["lbfgs", "online"],
)

# Imports torch once, then runs each cell in a fork of its own: {"method", "data", "out", "settings", "kill", "at"}.
SERVER = """
import json, os, signal, sys
from pathlib import Path
import torch
torch.set_num_threads(1)
sys.path.insert(0, sys.argv[1])
from small_cells import run
from suppression_bench.training import loop

def die(owner, name, at, after=False):
    original, calls = getattr(owner, name), [0]
    def wrapped(*arguments, **more):
        calls[0] += 1
        answer = original(*arguments, **more) if after else None
        if calls[0] == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer if after else original(*arguments, **more)
    setattr(owner, name, wrapped)

warm = json.loads(sys.stdin.readline())  # what the first run loads, the forks need not load again
run("simclr", Path(warm["data"]), Path(warm["out"]), **warm["settings"])
print("ready", flush=True)
for line in sys.stdin:
    job = json.loads(line)
    child = os.fork()
    if not child:
        if job["kill"] == "step":
            die(loop, "set_learning_rate", job["at"])
        elif job["kill"] == "write":
            die(loop.os, "fsync", job["at"])  # the bytes lie under the temporary name
        elif job["kill"] == "probes":
            from suppression_bench import run as running
            die(running, "measure", 1)
        elif job["kill"] == "record":
            from suppression_bench import run as running
            die(running.records, "write", 1)  # all other files are there
        run(job["method"], Path(job["data"]), Path(job["out"]), **job["settings"])
        os._exit(0)
    _, status = os.waitpid(child, 0)
    print(json.dumps([os.WTERMSIG(status), os.WEXITSTATUS(status)]), flush=True)
"""


@pytest.fixture(scope="module")
def server(randbit, tmp_path_factory):
    here = str(Path(__file__).parents[1])
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER, here], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )

    def send(**job):
        process.stdin.write(json.dumps(job, default=str) + "\n")
        process.stdin.flush()
        return process.stdout.readline()

    assert send(data=randbit, out=tmp_path_factory.mktemp("warm"), settings={"train__steps": 1}) == "ready\n"
    yield lambda **job: json.loads(send(**job))
    process.stdin.close()
    process.wait(timeout=30)


@pytest.fixture(scope="module")
def whole(randbit, tmp_path_factory):
    """Method -> (folder, record) of its undisturbed run."""

    @lru_cache
    def get(method):
        folder = tmp_path_factory.mktemp(method)
        return folder, run(method, randbit, folder, **SETTINGS)

    return get


def weights(folder):
    return (folder / "encoder.safetensors").read_bytes()


def kept(folder):
    return (folder / "predictions.safetensors").read_bytes()


def kills():
    rng = random.Random()
    for method in ("simclr", "byol", "vae", "moco", "swav"):
        yield pytest.param(method, "step", rng.randint(1, STEPS), id=f"{method}-step")
    yield pytest.param("simclr", "write", rng.randint(1, STEPS), id="write")
    yield pytest.param("simclr", "probes", 1, id="probes")
    yield pytest.param("simclr", "record", 1, id="record")


@pytest.mark.parametrize(("method", "kill", "at"), list(kills()))
@pytest.mark.slow
def test_sigkill_and_restart_end_with_the_undisturbed_weights(server, randbit, tmp_path, whole, method, kill, at):
    undisturbed, expected = whole(method)
    job = dict(method=method, data=randbit, out=tmp_path / "out", settings=SETTINGS)
    assert server(**job, kill=kill, at=at)[0] == signal.SIGKILL, f"{kill} {at}"
    assert not (tmp_path / "out" / "result.json").exists()
    if kill == "step":  # once more, in the rest of the run
        assert server(**job, kill="step", at=max(1, (STEPS - at) // 2))[0] == signal.SIGKILL
    again = run(method, randbit, tmp_path / "out", **SETTINGS)
    assert weights(tmp_path / "out") == weights(undisturbed), f"killed at {kill} {at}"
    assert kept(tmp_path / "out") == kept(undisturbed)
    assert again.probes == expected.probes and again.run.loss == expected.run.loss
    assert again.run.steps == STEPS
    assert not [path.name for path in (tmp_path / "out").iterdir() if path.name.startswith("checkpoint")]


def test_an_undisturbed_run_in_another_process_is_the_same(server, randbit, tmp_path, whole):
    job = dict(method="vae", data=randbit, out=tmp_path / "there", settings=SETTINGS)
    assert server(**job, kill=None, at=0) == [0, 0]
    assert weights(whole("vae")[0]) == weights(tmp_path / "there")


@pytest.fixture
def killed(server, randbit, tmp_path):
    """A folder whose run was killed in step 6, with the checkpoints of steps 4 and 5."""
    job = dict(method="simclr", data=randbit, out=tmp_path / "out", settings=SETTINGS)
    assert server(**job, kill="step", at=6)[0] == signal.SIGKILL
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "checkpoint-00000004.pt",
        "checkpoint-00000005.pt",
    ]
    return tmp_path / "out"


def resumed_at(monkeypatch):
    """The step of every checkpoint that is loaded from now on."""
    steps, original = [], loop.load_checkpoint

    def load(*arguments):
        found = original(*arguments)
        steps.append(found and found["step"])
        return found

    monkeypatch.setattr(loop, "load_checkpoint", load)
    return steps


def test_a_resume_goes_on_where_it_stopped(killed, randbit, monkeypatch):
    steps = resumed_at(monkeypatch)
    assert run("simclr", randbit, killed, **SETTINGS).run.resumes == 1
    assert steps == [5]


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "short"])
def test_a_corrupt_last_checkpoint_falls_back_to_the_one_before(killed, randbit, whole, monkeypatch, damage):
    undisturbed, _ = whole("simclr")
    path = killed / "checkpoint-00000005.pt"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes({"truncated": content[:-100], "flipped": content, "empty": b"", "short": content[:20]}[damage])
    steps = resumed_at(monkeypatch)
    run("simclr", randbit, killed, **SETTINGS)
    assert steps == [4] and weights(killed) == weights(undisturbed)


def test_without_a_valid_checkpoint_it_starts_anew(killed, randbit, whole):
    undisturbed, _ = whole("simclr")
    for path in killed.glob("checkpoint-*"):
        path.write_bytes(b"nothing")
    assert run("simclr", randbit, killed, **SETTINGS).run.resumes == 0
    assert weights(killed) == weights(undisturbed)


def test_a_changed_setting_is_refused_by_name(killed, randbit):
    changed = {**SETTINGS, "train__learning_rate": 0.5, "data__bits": 2}
    with pytest.raises(UserError) as caught:
        run("simclr", randbit, killed, **changed, seed=1)
    text = str(caught.value)
    assert "train.learning_rate: 0.001 then, 0.5 now" in text and "data.bits: 3 then, 2 now" in text
    assert "seed: 0 then, 1 now" in text and "train.batch_size" not in text and str(killed) in text


def test_changed_code_or_torch_is_refused_by_name(killed, randbit, monkeypatch):
    original, environment = provenance.code, provenance.environment
    monkeypatch.setattr(provenance, "code", lambda method: {**original(method), "sources": "edited"})
    monkeypatch.setattr(provenance, "environment", lambda device: {**environment(device), "torch": "9.9"})
    with pytest.raises(UserError, match=r"code\.sources.*'edited' now.*torch.*'9\.9' now"):
        run("simclr", randbit, killed, **SETTINGS)
    monkeypatch.undo()
    assert run("simclr", randbit, killed, **SETTINGS).run.status == "ok"


def test_checkpoints_do_not_change_the_weights(randbit, tmp_path, whole):
    run("byol", randbit, tmp_path / "never", **{**SETTINGS, "train__checkpoint_seconds": 1e9})
    assert weights(whole("byol")[0]) == weights(tmp_path / "never")
