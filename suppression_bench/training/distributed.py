"""Distributed training: the rows of all processes gathered as one batch, with gradient."""

import torch
from torch import Tensor, distributed


def gather(rows: Tensor) -> Tensor:
    """The rows of every process, in the order of the ranks; the same tensor where there is one process only.

    A loss over the gathered rows of both views is the loss of the joined batch. Every process computes it whole, so
    that a row's gradient is the sum over the processes; averaged over them, as DistributedDataParallel does, it is that
    of one process with the joined batch.

    Arguments:
        rows: (N, d), the same shape in every process.

    Returns:
        (processes * N, d)

    >>> rows = torch.eye(2)
    >>> gather(rows) is rows
    True
    """
    if not (distributed.is_available() and distributed.is_initialized()) or distributed.get_world_size() == 1:
        return rows
    return _Gather.apply(rows)


class _Gather(torch.autograd.Function):
    """All-gather whose backward sums the gradients of all processes; torch's own all_gather has none."""

    @staticmethod
    def forward(ctx, rows: Tensor) -> Tensor:
        parts = [
            torch.empty_like(rows, memory_format=torch.contiguous_format) for _ in range(distributed.get_world_size())
        ]
        distributed.all_gather(parts, rows.contiguous())
        return torch.cat(parts)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        # gloo has no reduce_scatter: sum all gradients, keep this process's rows.
        total = gradient.contiguous().clone()
        distributed.all_reduce(total)
        return total.chunk(distributed.get_world_size())[distributed.get_rank()]
