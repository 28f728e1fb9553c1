"""Optimizers and learning-rate schedules, by name."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from suppression_bench.cell import Train


class LARS(torch.optim.Optimizer):
    """SGD with momentum whose step is scaled, layer by layer, to the size of the weights.

    Reference: You, Gitman & Ginsburg (2017), Algorithm 1, as SimCLR uses it: parameters with one axis (biases, batch
    norm) have neither the scaling nor weight decay.

    Arguments:
        parameters: tensors or groups; a group with `adapt=False` is plain SGD.
        lr: learning rate.
        momentum: weight of the old velocity.
        weight_decay: coupled L2.
        trust: the trust coefficient.
    """

    def __init__(self, parameters, lr: float, momentum: float = 0.9, weight_decay: float = 0.0, trust: float = 0.001):
        super().__init__(parameters, dict(lr=lr, momentum=momentum, weight_decay=weight_decay, trust=trust, adapt=True))

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                direction = parameter.grad + group["weight_decay"] * parameter
                if group["adapt"]:
                    direction = direction * self._ratio(parameter, direction, group["trust"])
                state = self.state[parameter]
                velocity = state.setdefault("momentum", torch.zeros_like(parameter))
                velocity.mul_(group["momentum"]).add_(direction, alpha=group["lr"])
                parameter.sub_(velocity)

    @staticmethod
    def _ratio(parameter: Tensor, direction: Tensor, trust: float) -> Tensor:
        weight, change = parameter.norm(), direction.norm()
        return torch.where(
            (weight > 0) & (change > 0), trust * weight / change.clamp(min=1e-30), torch.ones_like(weight)
        )


def groups(module: nn.Module, weight_decay: float) -> list[dict]:
    """Parameters in two groups: kernels, which decay, and everything with one axis (biases, batch norm), which does not."""
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    return [
        {"params": [p for p in trained if p.ndim > 1], "weight_decay": weight_decay},
        {"params": [p for p in trained if p.ndim <= 1], "weight_decay": 0.0},
    ]


def build(module: nn.Module, train: Train, weight_decay: float) -> torch.optim.Optimizer:
    """The optimizer of a recipe: adam (coupled L2, as in Keras), adamw, sgd or lars.

    Arguments:
        module: whose parameters are trained.
        train: the recipe.
        weight_decay: of the kernels, in place of the recipe's.
    """
    parts = groups(module, weight_decay)
    trained = [parameter for part in parts for parameter in part["params"]]
    # One kernel for all parameters on a CUDA device; on the CPU torch's own choice, whose bits are published.
    fused = {"fused": True} if trained and all(p.is_cuda for p in trained) else {}
    if train.optimizer == "adam":
        return torch.optim.Adam(parts, lr=train.learning_rate, eps=train.epsilon, **fused)
    if train.optimizer == "adamw":
        return torch.optim.AdamW(parts, lr=train.learning_rate, eps=train.epsilon, **fused)
    if train.optimizer == "sgd":
        return torch.optim.SGD(parts, lr=train.learning_rate, momentum=train.momentum, **fused)
    parts[1]["adapt"] = False
    return LARS(parts, lr=train.learning_rate, momentum=train.momentum)


def rate(
    schedule: str, step: int, steps: int, warmup: int, milestones: Sequence[float] = (), decay: float = 0.1
) -> float:
    """Factor of the learning rate at `step` of `steps` (counted from 0), after a linear warm-up of `warmup` steps.

    Arguments:
        schedule: linear, cosine, constant or step.
        step, steps, warmup: of training.
        milestones: of `step`, shares of all steps (the warm-up's too) behind each of which the rate falls.
        decay: of `step`, what the rate is multiplied with at each.

    >>> rate("linear", 300, 600, 0), rate("cosine", 0, 10, 0), rate("constant", 1, 10, 4)
    (0.5, 1.0, 0.5)
    >>> [rate("step", epoch, 200, 0, milestones=[0.8, 0.95], decay=0.5) for epoch in (159, 160, 189, 190)]
    [1.0, 0.5, 0.5, 0.25]
    """
    if step < warmup:
        return (step + 1) / warmup
    if schedule == "step":
        # Rounded to whole steps, since .95 * 200 need not be 190 exactly in floating point.
        return decay ** sum(step >= round(milestone * steps) for milestone in milestones)
    done = (step - warmup) / max(1, steps - warmup)
    return {"linear": 1 - done, "cosine": (1 + math.cos(math.pi * done)) / 2, "constant": 1.0}[schedule]


def learning_rate(train: Train, step: int, steps: int, warmup: int) -> float:
    """A recipe's learning rate at `step` of `steps`, with `warmup` steps of warm-up."""
    return train.learning_rate * rate(train.schedule, step, steps, warmup, train.milestones, train.decay)


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate of every group."""
    for group in optimizer.param_groups:
        group["lr"] = rate


def glorot(module: nn.Module) -> None:
    """Keras' initialisation: Glorot-uniform kernels, zero biases (Glorot & Bengio, 2010, eq. 16)."""
    for layer in module.modules():
        if isinstance(layer, (nn.Linear, nn.Conv2d, nn.ConvTranspose2d)):
            nn.init.xavier_uniform_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
