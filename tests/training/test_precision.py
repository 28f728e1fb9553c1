"""How training is executed: the same bits twice, no wait for the device in a step, settings undone, compilation."""

import os

import numpy as np
import pytest
import torch
from small_cells import CPU, Recorder, make_cell
from torch.utils._python_dispatch import TorchDispatchMode

from generators import catalog
from generators.dataset import UserError
from suppression_bench import run as running
from suppression_bench.cell import Train
from suppression_bench.cli import main
from suppression_bench.conformance.toy import trial
from suppression_bench.method import Method
from suppression_bench.training import loop, precision
from suppression_bench.training.data import Data
from suppression_bench.training.loop import train
from suppression_bench.training.optim import build_optimizer

TRAINED = [
    name
    for name in catalog.names("suppression_bench.methods")
    if catalog.load_class("suppression_bench.methods", name, Method).trains
]
# A key's negatives are the queue without the batch's own samples: how many those are only the device knows.
COUNTS_ON_THE_DEVICE = {"moco": 1}


class Waits(TorchDispatchMode):
    """Counts what makes the host wait for a CUDA device: numbers that are read back, shapes that depend on values."""

    READ = ("_local_scalar_dense", "nonzero", "masked_select", "equal", "_unique2", "unique_dim", "unique_consecutive")

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, function, types, given=(), named=None):
        name = function.overloadpacket.__name__
        indices = given[1] if name in ("index", "index_put", "index_put_", "_index_put_impl_") else ()
        picked = [one for one in indices if one is not None and one.dtype in (torch.bool, torch.uint8)]
        if name in self.READ or picked:
            self.seen.append(name)
        return function(*given, **(named or {}))


@pytest.mark.parametrize(
    "read", [lambda x: x[0].item(), lambda x: bool(x[0] > 0), lambda x: x[x > 0], lambda x: torch.nonzero(x)]
)
def test_waits_are_seen(read):
    x = torch.ones(3)
    with Waits() as waits:
        _ = x[torch.tensor([0, 2])] * 2
        assert not waits.seen
        read(x)
    assert waits.seen


def waits_of(randbit, method, steps, **settings):
    """The names of the waits while a cell trains, the online probe beside it."""
    cell = make_cell(
        method,
        randbit,
        data__bits=2,
        train__steps=steps,
        train__batch_size=20,
        train__optimizer="lars",
        probe__kinds=["online"],
        **settings,
    )
    data, training = Data(cell.folder, 2), cell.cell.train
    samples = data.samples("pretrain")
    built = running.build_method(cell.located, data, len(samples))
    labels = {name: torch.from_numpy(data.labels("pretrain", name)) for name in built.info.targets} or None
    observers = running._online_probes(data, built, cell.cell, len(samples), CPU)
    with Waits() as waits, pytest.MonkeyPatch.context() as patch:
        for name in ("cpu", "numpy", "tolist"):  # on a CPU these pass the dispatcher by
            patch.setattr(torch.Tensor, name, lambda self, *given, name=name: waits.seen.append(name))
        train(built, samples, training, cell.cell.augmentation, seed=0, labels=labels, observers=observers)
    return waits.seen


@pytest.mark.parametrize("method", TRAINED)
def test_no_step_waits_for_the_device(randbit, method):
    # Losses are looked at once, behind the last step: more steps must not mean more waits. (LARS, since Adam counts
    # its steps in tensors of the host.)
    few, many = (waits_of(randbit, method, steps) for steps in (2, 6))
    assert few and len(many) - len(few) == 4 * COUNTS_ON_THE_DEVICE.get(method, 0), many


def test_nor_does_a_temperature_that_changes(randbit):
    few, many = (waits_of(randbit, "simclr", steps, method__temperature_end=0.5) for steps in (2, 6))
    assert few == many


@pytest.mark.parametrize("name", catalog.names("suppression_bench.losses"))
def test_no_loss_waits_for_the_device(name):
    function = catalog.load_function("suppression_bench.losses", name)
    given = trial(count=8, width=4, negatives=function.negatives)
    views = [view.clone().requires_grad_() for view in (given.z1, given.z2)]
    more = given.passed_in(function)
    with Waits() as waits:
        function(*views, **more).backward()
    assert not waits.seen


def trained(randbit, folder, method="simclr", **settings):
    running.run(make_cell(method, randbit, data__bits=2, **settings), folder, CPU)
    return (folder / "encoder.safetensors").read_bytes()


@pytest.mark.parametrize("method", ["simclr", "vae"])
def test_two_runs_end_with_the_same_bits(randbit, tmp_path, method):
    first, second, other = (
        trained(randbit, tmp_path / name, method, train__deterministic=name == "other")
        for name in ("first", "second", "other")
    )
    assert first == second == other  # on a CPU the deterministic kernels are the usual ones
    assert first != trained(randbit, tmp_path / "seed", method, seed=1)


def test_the_process_is_left_as_it_was():
    def state():
        return (
            torch.backends.cuda.matmul.allow_tf32,
            torch.backends.cudnn.allow_tf32,
            torch.backends.cudnn.benchmark,
            torch.are_deterministic_algorithms_enabled(),
            torch.utils.deterministic.fill_uninitialized_memory,
        )

    before, method = state(), Recorder()
    with pytest.raises(KeyError), precision.configured(method, "tf32", "default", True):
        assert torch.backends.cuda.matmul.allow_tf32 and torch.backends.cudnn.allow_tf32
        assert torch.are_deterministic_algorithms_enabled() and method.encoder._compiled_call_impl
        raise KeyError
    assert state() == before and method.encoder._compiled_call_impl is None
    with precision.configured(method, "fp32", "none", False):
        assert not torch.backends.cuda.matmul.allow_tf32 and not torch.backends.cudnn.allow_tf32
    assert state() == before


def test_waiting_threads_sleep_unless_the_user_says_otherwise(monkeypatch, capsys):
    for given, expected in ((None, "PASSIVE"), ("ACTIVE", "ACTIVE")):
        monkeypatch.setenv("OMP_WAIT_POLICY", given or "")
        if not given:
            monkeypatch.delenv("OMP_WAIT_POLICY")
        assert main(["run", "no-such-suite"]) == 2 and "no-such-suite" in capsys.readouterr().err
        assert os.environ["OMP_WAIT_POLICY"] == expected


def test_the_deterministic_mode_refuses_a_kernel_that_is_not():
    index = torch.tensor([0, 0])
    with precision.deterministic_kernels(), pytest.raises(RuntimeError, match="deterministic"):
        torch.zeros(2).put_(index, torch.ones(2))
    torch.zeros(2).put_(index, torch.ones(2))


@pytest.mark.parametrize("setting", [{"train__compile": "fast"}, {"train__precision": "fp8"}])
def test_unknown_words_are_refused(randbit, setting):
    with pytest.raises(UserError, match=r"train: (compile|precision) must be one of"):
        make_cell("simclr", randbit, **setting)


@pytest.mark.parametrize("method", ["simclr", "vae", "supervised"])
def test_half_precision_trains_and_its_weights_stay_float32(randbit, tmp_path, method):
    from safetensors.torch import load

    full = load(trained(randbit, tmp_path / "full", method))
    half = load(trained(randbit, tmp_path / "half", method, train__precision="bf16"))
    assert all(value.dtype == full[name].dtype for name, value in half.items())
    kernels = [name for name, value in full.items() if value.ndim > 1]
    far = max((full[name] - half[name]).abs().max().item() for name in kernels)
    assert 0 < far < 4 * 2e-3  # four steps of Adam, each at most about the learning rate, either way


def test_the_cpus_optimizer_is_torchs_own_choice():
    for name in ("adam", "adamw", "sgd"):
        made = build_optimizer(torch.nn.Linear(2, 2), Train(steps=1, optimizer=name), 0.0)
        assert not made.defaults["fused"]


def test_cuda_the_same_bits_twice_and_fused_as_unfused(cuda, randbit):
    data = Data(randbit, 2)
    samples, found = data.samples("pretrain", cuda), []
    for _ in range(2):
        cell = make_cell("simclr", randbit, data__bits=2, train__deterministic=True)
        method = running.build_method(cell.located, data, len(samples)).to(cuda, memory_format=torch.channels_last)
        loop.train(method, samples, cell.cell.train, cell.cell.augmentation, seed=0)
        found.append([p.detach().cpu().numpy() for p in method.parameters()])
    assert all(np.array_equal(a, b) for a, b in zip(*found, strict=True))
    nets = [torch.nn.Linear(8, 8).to(cuda) for _ in range(2)]
    nets[1].load_state_dict(nets[0].state_dict())
    ours = build_optimizer(nets[0], Train(steps=1, learning_rate=0.1), 0.0)
    theirs = torch.optim.Adam(nets[1].parameters(), lr=0.1)
    for net, optimizer in zip(nets, (ours, theirs), strict=True):
        for seed in range(3):
            torch.manual_seed(seed)
            net(torch.randn(4, 8, device=cuda)).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    torch.testing.assert_close(nets[0].weight, nets[1].weight)
