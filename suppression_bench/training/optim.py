"""Optimizers, learning-rate schedules and initialisation of a recipe, by name."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from suppression_bench.cell import Train


def build_optimizer(module: nn.Module, training: Train, weight_decay: float) -> torch.optim.Optimizer:
    """The optimizer of a recipe: adam (coupled L2, as in Keras), adamw, sgd or lars.

    Arguments:
        module: what to train.
        training: names the optimizer, its learning rate, momentum and epsilon.
        weight_decay: of the kernels; a probe beside the method has none.
    """
    groups = parameter_groups(module, weight_decay)
    parameters = [parameter for group in groups for parameter in group["params"]]
    # One kernel for all parameters on a CUDA device; on the CPU torch's own choice, whose bits are published.
    fused = True if parameters and all(parameter.is_cuda for parameter in parameters) else None
    rate = training.learning_rate
    if training.optimizer == "adam":
        return torch.optim.Adam(groups, lr=rate, eps=training.epsilon, fused=fused)
    if training.optimizer == "adamw":
        return torch.optim.AdamW(groups, lr=rate, eps=training.epsilon, fused=fused)
    if training.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=rate, momentum=training.momentum, fused=fused)
    groups[1]["adapt"] = False
    return LARS(groups, lr=rate, momentum=training.momentum)


def parameter_groups(module: nn.Module, weight_decay: float) -> list[dict]:
    """Two groups: kernels, which decay, and everything with one axis (biases, batch norm), which does not."""
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    return [
        {"params": [parameter for parameter in trained if parameter.ndim > 1], "weight_decay": weight_decay},
        {"params": [parameter for parameter in trained if parameter.ndim <= 1], "weight_decay": 0.0},
    ]


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
    def step(self, closure: None = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """One step of every parameter that has a gradient."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                direction = parameter.grad + group["weight_decay"] * parameter
                if group["adapt"]:
                    direction = direction * _trust_ratio(parameter, direction, group["trust"])
                velocity = self.state[parameter].setdefault("momentum", torch.zeros_like(parameter))
                velocity.mul_(group["momentum"]).add_(direction, alpha=group["lr"])
                parameter.sub_(velocity)


def _trust_ratio(parameter: Tensor, direction: Tensor, trust: float) -> Tensor:
    weight, change = parameter.norm(), direction.norm()
    return torch.where((weight > 0) & (change > 0), trust * weight / change.clamp(min=1e-30), torch.ones_like(weight))


def learning_rate(training: Train, step: int, steps: int, warmup: int) -> float:
    """The learning rate at `step` of `steps`, after `warmup` steps of linear warm-up.

    >>> learning_rate(Train(steps=10, learning_rate=0.5, schedule="linear"), 5, 10, 0)
    0.25
    """
    factor = schedule_factor(training.schedule, step, steps, warmup, training.milestones, training.decay)
    return training.learning_rate * factor


def schedule_factor(
    schedule: str, step: int, steps: int, warmup: int, milestones: Sequence[float] = (), decay: float = 0.1
) -> float:
    """Factor of the learning rate at `step` of `steps` (counted from 0), after a linear warm-up of `warmup` steps.

    Arguments:
        schedule: linear, cosine, constant or step.
        step, steps, warmup: of training.
        milestones: of `step`, shares of all steps (the warm-up's too) behind each of which the rate falls.
        decay: of `step`, what the rate is multiplied with at each.

    >>> schedule_factor("linear", 300, 600, 0), schedule_factor("cosine", 0, 10, 0), schedule_factor("constant", 1, 10, 4)
    (0.5, 1.0, 0.5)
    >>> [schedule_factor("step", epoch, 200, 0, milestones=[0.8, 0.95], decay=0.5) for epoch in (159, 160, 189, 190)]
    [1.0, 0.5, 0.5, 0.25]
    """
    if step < warmup:
        return (step + 1) / warmup
    if schedule == "step":
        # Rounded to whole steps, since .95 * 200 need not be 190 exactly in floating point.
        return decay ** sum(step >= round(milestone * steps) for milestone in milestones)
    progress = (step - warmup) / max(1, steps - warmup)
    return {"linear": 1 - progress, "cosine": (1 + math.cos(math.pi * progress)) / 2, "constant": 1.0}[schedule]


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
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
