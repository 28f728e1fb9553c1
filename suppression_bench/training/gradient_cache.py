"""A gradient cache: the loss of a whole batch, the network in parts of it, so that the batch need not fit."""

from collections.abc import Callable
from contextlib import AbstractContextManager

import torch
from torch import Tensor

from generators.dataset import UserError
from suppression_bench.method import Batch, Method, Output


def require(method: type[Method], name: str) -> None:
    """Refuse a method whose loss is not one of its projections alone.

    Raises:
        UserError: it has no `project_views`.
    """
    if method.project_views is Method.project_views:
        raise UserError(
            f"train.micro_batch: the method {name} needs its whole batch at once (it has no project_views); "
            "leave the option out and set train.batch_size lower"
        )


def backward(method: Method, batch: Batch, rows: int, autocast: Callable[[], AbstractContextManager]) -> Output:
    """The loss of a batch and its gradients, added to the parameters', with the network's memory for `rows` samples.

    Reference: Gao, Zhang, Han & Callan, "Scaling deep contrastive learning batch size under memory limited setup"
    (RepL4NLP 2021), section 3. The parts pass the network once without a graph, the loss gives the gradients of all
    projections, and the parts pass again, with the same noise, to carry these on to the parameters. The negatives are
    those of the whole batch. Batch norm, though, sees one part at a time: with it the result is not that of the whole
    batch, without it the same up to rounding.

    Arguments:
        method: it has `project_views`.
        batch: of any size; the last part may be smaller.
        rows: samples per part.
        autocast: makes the context in which network and loss run.
    """
    parts = [slice(start, start + rows) for start in range(0, len(batch.ids), rows)]
    device = batch.ids.device
    buffers = {name: value.clone() for name, value in method.named_buffers()}
    noise, projected, features = [], [], []
    # One context for each pass: autocast keeps the weights it converted, and those of the first pass have no graph.
    with torch.no_grad(), autocast():
        for part in parts:
            noise.append(_noise(device))
            views, seen = method.project_views([view[part] for view in batch.views])
            projected.append(views)
            features.append(seen)
    leaves = [torch.cat(views).requires_grad_() for views in zip(*projected, strict=True)]
    with autocast():
        loss = method.loss_of(leaves, batch)
    loss.backward()
    with torch.no_grad():
        for name, value in method.named_buffers():  # running statistics count a sample once
            value.copy_(buffers[name])
    after = _noise(device)
    for part, state in zip(parts, noise, strict=True):
        _replay(device, state)
        with autocast():
            views, _ = method.project_views([view[part] for view in batch.views])
        torch.autograd.backward(views, [leaf.grad[part] for leaf in leaves])
    _replay(device, after)
    return Output(loss.detach(), torch.cat(features))


def _noise(device: torch.device) -> list[Tensor]:
    # The generators' states; those of a CUDA device lie in the host's memory.
    return [torch.get_rng_state()] + ([torch.cuda.get_rng_state(device)] if device.type == "cuda" else [])


def _replay(device: torch.device, states: list[Tensor]) -> None:
    torch.set_rng_state(states[0])
    if device.type == "cuda":
        torch.cuda.set_rng_state(states[1], device)
