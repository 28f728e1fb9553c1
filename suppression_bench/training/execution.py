"""How the arithmetic of training is executed: number format, compilation, deterministic kernels."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import nn

from suppression_bench.encoder import Encoder


@contextmanager
def prepared(method: nn.Module, precision: str, mode: str, deterministic: bool) -> Iterator[None]:
    """All of the below while a method trains; afterwards the process is as it was."""
    with ExitStack() as stack:
        stack.enter_context(number_format(precision))
        stack.enter_context(deterministic_kernels(deterministic))
        stack.enter_context(compiled(method, mode))
        yield


@contextmanager
def number_format(precision: str) -> Iterator[None]:
    """float32 products of a CUDA device in full (fp32, bf16) or with TF32's ten bits (tf32); the CPU has no TF32.

    Torch's own default is mixed: full in matrix products, TF32 in convolutions.
    """
    # The newer switches, fp32_precision, make whoever reads these older ones fail: torch's compiler does.
    places = torch.backends.cuda.matmul, torch.backends.cudnn
    before = [place.allow_tf32 for place in places]
    try:
        for place in places:
            place.allow_tf32 = precision == "tf32"
        yield
    finally:
        for place, old in zip(places, before, strict=True):
            place.allow_tf32 = old


@contextmanager
def deterministic_kernels(wanted: bool) -> Iterator[None]:
    """Only kernels that give the same bits twice; an operation that has none raises an error.

    On a CPU with a fixed number of threads that is so anyway.
    """
    if not wanted:
        yield
        return
    before = torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.benchmark
    filled = torch.utils.deterministic.fill_uninitialized_memory
    try:
        torch.use_deterministic_algorithms(True)
        torch.backends.cudnn.benchmark = False
        torch.utils.deterministic.fill_uninitialized_memory = False  # a search for bugs that costs time
        yield
    finally:
        torch.use_deterministic_algorithms(before[0])
        torch.backends.cudnn.benchmark = before[1]
        torch.utils.deterministic.fill_uninitialized_memory = filled


def prepare_process() -> None:
    """What has to stand before a process first uses a CUDA device: cuBLAS reads its workspace's size only then."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


@contextmanager
def compiled(module: nn.Module, mode: str) -> Iterator[None]:
    """Compile every encoder in a module for one shape of batch, and undo it: names in the state stay as they were.

    Arguments:
        module: a method.
        mode: none, or torch.compile's default or reduce-overhead (CUDA graphs, for nets that wait for launches).
    """
    encoders = [] if mode == "none" else [part for part in module.modules() if isinstance(part, Encoder)]
    try:
        for encoder in encoders:
            encoder.compile(mode=mode, dynamic=False)
        yield
    finally:
        for encoder in encoders:
            encoder._compiled_call_impl = None  # torch offers no other way back


@contextmanager
def interrupted(module: nn.Module) -> Iterator[None]:
    """Inside `prepared`, for a look at the network: uncompiled, free to use any kernel; afterwards all is as it was.

    A compiled encoder would be compiled again for the look's batches, and a CUDA graph would write over its own answers.
    """
    encoders = [(part, part._compiled_call_impl) for part in module.modules() if isinstance(part, Encoder)]
    modes = [(part, part.training) for part in module.modules()]
    deterministic = torch.are_deterministic_algorithms_enabled()
    try:
        for encoder, _ in encoders:
            encoder._compiled_call_impl = None
        torch.use_deterministic_algorithms(False)
        yield
    finally:
        for encoder, call in encoders:
            encoder._compiled_call_impl = call
        for part, mode in modes:
            part.training = mode
        torch.use_deterministic_algorithms(deterministic)
