"""A gradient cache: the loss of a whole batch, the network in parts of it, so that the batch need not fit in memory."""

from collections.abc import Callable

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


class GradientCache:
    """A method whose `loss` has the network's memory for `rows` samples, whatever the batch.

    Reference: Gao, Zhang, Han & Callan, "Scaling deep contrastive learning batch size under memory limited setup"
    (RepL4NLP 2021), section 3. `loss` lets the parts pass the network once without a graph and takes the loss of all
    projections; its `backward` gives the projections' gradients, lets the parts pass again, with the same noise, and
    carries these gradients on to the parameters. The negatives are those of the whole batch. Batch norm, though, sees
    one part at a time: with it the result is not that of the whole batch, without it the same up to rounding.

    Arguments:
        method: it has `project_views`.
        rows: samples per part; the last part may be smaller.
    """

    def __init__(self, method: Method, rows: int):
        require(type(method), method.name)
        self.method, self.rows = method, rows

    def loss(self, batch: Batch) -> Output:
        """The method's answer to the whole batch, for one call of the loss's `backward`."""
        method, device = self.method, batch.ids.device
        parts = [slice(start, start + self.rows) for start in range(0, len(batch.ids), self.rows)]
        buffers = {name: value.clone() for name, value in method.named_buffers()}
        noise, projected, features = [], [], []
        with torch.no_grad():
            for part in parts:
                noise.append(_noise(device))
                views, hidden = method.project_views([view[part] for view in batch.views])
                projected.append(views)
                features.append(hidden)
        torch.clear_autocast_cache()  # older versions of torch keep weights from this pass there, which have no graph
        leaves = [torch.cat(views).requires_grad_() for views in zip(*projected, strict=True)]
        loss = method.loss_of(leaves, batch)
        kind = device.type
        enabled, dtype = torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)

        def backward(gradient: Tensor) -> None:
            loss.backward(gradient)
            with torch.no_grad():
                for name, value in method.named_buffers():  # running statistics count a sample once
                    value.copy_(buffers[name])
            after = _noise(device)
            for part, states in zip(parts, noise, strict=True):
                _replay(device, states)
                with torch.enable_grad(), torch.autocast(kind, dtype, enabled):
                    views, _ = method.project_views([view[part] for view in batch.views])
                torch.autograd.backward(views, [leaf.grad[part] for leaf in leaves if leaf.grad is not None])
            _replay(device, after)

        start = torch.zeros((), device=device, requires_grad=True)  # a graph needs something that wants a gradient
        return Output(_Deferred.apply(start, loss.detach(), backward), torch.cat(features))


class _Deferred(torch.autograd.Function):
    """A value whose backward pass is a function of our own."""

    @staticmethod
    def forward(ctx, start: Tensor, value: Tensor, backward: Callable[[Tensor], None]) -> Tensor:
        ctx.deferred = backward
        return value.clone()

    @staticmethod
    def backward(ctx, gradient: Tensor):  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx.deferred(gradient)
        return None, None, None


def _noise(device: torch.device) -> list[Tensor]:
    # The generators' states; those of a CUDA device lie in the host's memory.
    return [torch.get_rng_state()] + ([torch.cuda.get_rng_state(device)] if device.type == "cuda" else [])


def _replay(device: torch.device, states: list[Tensor]) -> None:
    torch.set_rng_state(states[0])
    if device.type == "cuda":
        torch.cuda.set_rng_state(states[1], device)
