"""How the arithmetic of training runs: number format, autocast, compilation, deterministic kernels."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn

from suppression_bench.encoder import Encoder


def prepare_process() -> None:
    """Set what cuBLAS reads when a process first uses a CUDA device: the size of its workspace."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


@contextmanager
def configured(method: nn.Module, precision: str, compile_mode: str, deterministic: bool) -> Iterator[None]:
    """Number format, kernels and compilation while a method trains; afterwards the process is as it was.

    Arguments:
        method: whose encoders may be compiled.
        precision: fp32, tf32 or bf16.
        compile_mode: none, default or reduce-overhead.
        deterministic: refuse kernels that may give other bits the next time.
    """
    with ExitStack() as stack:
        stack.enter_context(number_format(precision))
        if deterministic:
            stack.enter_context(deterministic_kernels())
        stack.enter_context(compiled(method, compile_mode))
        yield


def autocast(device: torch.device, precision: str) -> torch.autocast:
    """The context of the network's forward pass: bfloat16 products for bf16, else nothing changed."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16")


def begin_step(compile_mode: str) -> None:
    """Let CUDA graphs write over what the step before has left."""
    if compile_mode == "reduce-overhead":
        torch.compiler.cudagraph_mark_step_begin()


@contextmanager
def number_format(precision: str) -> Iterator[None]:
    """float32 products of a CUDA device in full (fp32, bf16) or with TF32's ten bits (tf32); the CPU has no TF32.

    Torch's own default is mixed: full in matrix products, TF32 in convolutions.
    """
    # The newer switches, fp32_precision, make whoever reads these older ones fail: torch's compiler does.
    backends: tuple[Any, ...] = torch.backends.cuda.matmul, torch.backends.cudnn
    before = [backend.allow_tf32 for backend in backends]
    try:
        for backend in backends:
            backend.allow_tf32 = precision == "tf32"
        yield
    finally:
        for backend, allowed in zip(backends, before, strict=True):
            backend.allow_tf32 = allowed


@contextmanager
def deterministic_kernels() -> Iterator[None]:
    """Only kernels that give the same bits twice; an operation that has none raises an error.

    On a CPU with a fixed number of threads that is so anyway.
    """
    memory: Any = torch.utils.deterministic
    before = torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.benchmark
    filled = memory.fill_uninitialized_memory
    try:
        torch.use_deterministic_algorithms(True)
        torch.backends.cudnn.benchmark = False
        memory.fill_uninitialized_memory = False  # a search for bugs that costs time
        yield
    finally:
        torch.use_deterministic_algorithms(before[0])
        torch.backends.cudnn.benchmark = before[1]
        memory.fill_uninitialized_memory = filled


@contextmanager
def compiled(method: nn.Module, mode: str) -> Iterator[None]:
    """Compile every encoder of a method for one shape of batch, and undo it: names in the state stay as they were.

    Arguments:
        method: its encoders are found among its modules.
        mode: none, or torch.compile's default or reduce-overhead (CUDA graphs, for nets that wait for launches).
    """
    encoders = [] if mode == "none" else _encoders(method)
    try:
        for encoder in encoders:
            encoder.compile(mode=mode, dynamic=False)
        yield
    finally:
        for encoder in encoders:
            encoder._compiled_call_impl = None  # torch offers no other way back


@contextmanager
def interrupted(method: nn.Module) -> Iterator[None]:
    """Inside `configured`, for a look at the network: uncompiled, free to use any kernel; afterwards all is as it was.

    A compiled encoder would be compiled again for the look's batches, and a CUDA graph would write over its own answers.
    """
    calls = [(encoder, encoder._compiled_call_impl) for encoder in _encoders(method)]
    modes = [(module, module.training) for module in method.modules()]
    deterministic = torch.are_deterministic_algorithms_enabled()
    try:
        for encoder, _ in calls:
            encoder._compiled_call_impl = None
        torch.use_deterministic_algorithms(False)
        yield
    finally:
        for encoder, call in calls:
            encoder._compiled_call_impl = call
        for module, training in modes:
            module.training = training
        torch.use_deterministic_algorithms(deterministic)


def _encoders(method: nn.Module) -> list[Encoder]:
    return [module for module in method.modules() if isinstance(module, Encoder)]
