"""Taking the time on a device: one piece of work, two sides in turns, and what the device can do at most."""

import time
from collections.abc import Callable

import torch
from torch import Tensor

from suppression_bench.training import precision as precisions

PRODUCTS = 6  # matrix products, of which the fastest is the device's peak


def wait(device: torch.device) -> None:
    """Return when the device has done all that was asked of it."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def timed(device: torch.device, work: Callable[[], object]) -> float:
    """Seconds that some work takes, with all that it leaves to the device.

    >>> timed(torch.device("cpu"), lambda: time.sleep(0.01)) >= 0.01
    True
    """
    wait(device)
    began = time.perf_counter()
    work()
    wait(device)
    return time.perf_counter() - began


class Turns:
    """An observer of training that stops its clock every few steps to let the other side run.

    So a machine that is busy with something else slows both sides alike. The device is waited for only at a turn.

    Arguments:
        device: of training.
        first: steps before the first turn: memory is allocated, kernels are chosen.
        every: steps between two turns.
        other: runs the other side once.
        clock: seconds, for tests.

    >>> turns = Turns(torch.device("cpu"), 1, 2, lambda: None, clock=iter([0.0, 6.0, 7.0, 9.0, 9.0]).__next__)
    >>> for step in range(5):
    ...     turns(step, None, None)
    >>> turns.blocks
    [(1, 3, 6.0), (3, 5, 2.0)]
    """

    def __init__(
        self, device: torch.device, first: int, every: int, other: Callable[[], object], clock=time.perf_counter
    ):
        self.device, self.first, self.every, self.other, self.clock = device, first, every, other, clock
        self.began: float | None = None
        self.blocks: list[tuple[int, int, float]] = []  # first step, step behind the last, seconds

    def __call__(self, step: int, features: Tensor, index: Tensor) -> None:
        done = step + 1
        if done < self.first or (done - self.first) % self.every:
            return
        wait(self.device)
        if self.began is not None:
            self.blocks.append((done - self.every, done, self.clock() - self.began))
        self.other()
        wait(self.device)
        self.began = self.clock()

    def state_dict(self) -> dict:
        return {}

    def load_state_dict(self, state: dict) -> None:
        pass


def peak(device: torch.device, precision: str) -> dict:
    """Floating-point operations a second of a large matrix product, the fastest of a few.

    Arguments:
        device: where.
        precision: that of `Training`, in which the product is taken; a CPU takes tf32 as fp32, as training there does.

    >>> peak(torch.device("cpu"), "fp32")["flops_per_second"] > 1e6
    True
    """
    size = 8192 if device.type == "cuda" else 1024
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    one, other = (torch.rand(size, size, device=device, dtype=dtype) for _ in range(2))
    with precisions.number_format(precision):
        seconds = min(timed(device, lambda: one @ other) for _ in range(PRODUCTS))
    name = "fp32" if device.type == "cpu" and precision == "tf32" else precision
    return {"flops_per_second": 2 * size**3 / seconds, "size": size, "type": name}
