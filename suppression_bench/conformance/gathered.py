"""Two processes that gather their rows must compute what one process computes on the joined batch."""

import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import torch
from torch import Tensor, distributed

from generators import catalog
from suppression_bench.conformance.check import Check
from suppression_bench.conformance.trial import Trial, trial
from suppression_bench.training.distributed import gather as own_gather

PROCESSES, ROWS = 2, 3
TITLE = "Two gathered processes equal one with the joined batch"
CLOSE = 1e-6


def check_gathered(references: list[str]) -> dict[str, Check]:
    """The check of every loss, given by name or by the path of a file; all in one pair of processes."""
    return dict(zip(references, run([(reference, own_gather) for reference in references]), strict=True))


def run(jobs: list[tuple[str, Callable[[Tensor], Tensor]]]) -> list[Check]:
    """Run losses in a pair of gloo processes on the CPU and compare value and mean gradient with one process.

    Arguments:
        jobs: a loss, by name or by the path of a file, and the gather (rows of one process -> rows of all) for it, a
            function of a module, since the processes import it.
    """
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(_process, (folder, jobs), nprocs=PROCESSES)
        ranks = [torch.load(Path(folder, f"{rank}.pt")) for rank in range(PROCESSES)]
    return [_compare(reference, [*found]) for (reference, _), *found in zip(jobs, *ranks, strict=True)]


def _compare(reference: str, found: list) -> Check:
    expected = _value_and_gradient(reference, _joined(), lambda rows: rows)
    for rank, one in enumerate([*found, expected]):
        if isinstance(one, str):
            return Check(TITLE, False, f"process {rank}: {one}" if rank < PROCESSES else one)
    mean = sum(gradient for _, gradient in found) / PROCESSES
    far = max((value - expected[0]).abs().item() for value, _ in found)
    off = ((mean - expected[1]).abs().max() / expected[1].abs().max()).item()
    if far <= CLOSE * max(1, expected[0].abs().item()) and off <= CLOSE:
        return Check(TITLE, True)
    return Check(TITLE, False, f"the value is off by {far:.3g}, the gradient by {off:.3g} of its largest entry")


def _joined() -> Trial:
    return trial(5, negatives=True, count=PROCESSES * ROWS)


def _process(rank: int, folder: str, jobs: list[tuple[str, Callable]]) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=PROCESSES, timeout=timedelta(seconds=60)
    )
    joined, own = _joined(), slice(rank * ROWS, (rank + 1) * ROWS)
    part = Trial(joined.z1[own], joined.z2[own], joined.labels[own], joined.negatives)
    found = [_value_and_gradient(reference, part, gather) for reference, gather in jobs]
    torch.save(found, Path(folder, f"{rank}.pt"))
    distributed.barrier()
    distributed.destroy_process_group()


def _value_and_gradient(reference: str, given: Trial, gather: Callable) -> tuple[Tensor, Tensor] | str:
    """The loss of a linear encoder on the gathered rows, its weights' gradient; or what went wrong."""
    function = catalog.load_function("suppression_bench.losses", reference)
    width = given.z1.shape[1]
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(width, width, generator=generator, dtype=torch.float64).requires_grad_()
    gathered = Trial(*(gather(z @ weights) for z in (given.z1, given.z2)), gather(given.labels), given.negatives)
    try:
        value = function(gathered.z1, gathered.z2, **gathered.passed_in(function))
        return value.detach(), torch.autograd.grad(value, weights)[0]
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())}"
