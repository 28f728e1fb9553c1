"""The notebook's online probe: a dense layer that learns beside the method, on its detached features."""

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from suppression_bench.cell import Train
from suppression_bench.evaluation.probe import Probe, Task
from suppression_bench.training import optimizers


class OnlineProbe:
    """An observer of training with its own labels, weights and optimizer (the recipe's, without weight decay).

    Reference: the RandBit-MNIST notebook of Chen, Luo & Li (2021). Glorot-initialised from its own generator, so the
    method's random numbers and weights are the same with it or without it.

    Arguments:
        width: length of the encoder's output.
        tasks: features with their labels on the training split.
        training: the recipe.
        steps, warmup: number of steps in all and of the warm-up, for the schedule.
        seed: names the initial weights.
        device: where training happens.
    """

    def __init__(
        self,
        width: int,
        tasks: list[Task],
        training: Train,
        steps: int,
        warmup: int,
        seed: int,
        device: torch.device,
    ):
        self.tasks, self.classes = tasks, [task.classes for task in tasks]
        generator = torch.Generator().manual_seed(seed)
        # All features' layers side by side in one: their gradients do not meet, and Adam works entry by entry.
        self.layer = nn.utils.skip_init(nn.Linear, width, sum(self.classes))
        for rows in self.layer.weight.data.split(self.classes):
            bound = (6 / (width + len(rows))) ** 0.5
            rows.uniform_(-bound, bound, generator=generator)
        self.layer.bias.data.zero_()
        self.layer.to(device)
        self.labels = [torch.from_numpy(np.asarray(task.labels)).to(device) for task in tasks]
        self.training, self.steps, self.warmup = training, steps, warmup
        self.optimizer = optimizers.build(self.layer, training, 0.0)

    def __call__(self, step: int, features: Tensor, index: Tensor) -> None:
        optimizers.set_rate(self.optimizer, optimizers.learning_rate(self.training, step, self.steps, self.warmup))
        parts = self.layer(features.float()).split(self.classes, dim=1)
        loss = sum(F.cross_entropy(part, labels[index]) for part, labels in zip(parts, self.labels, strict=True))
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def state_dict(self) -> dict:
        return {"layer": self.layer.state_dict(), "optimizer": self.optimizer.state_dict()}

    def load_state_dict(self, state: dict) -> None:
        self.layer.load_state_dict(state["layer"])
        self.optimizer.load_state_dict(state["optimizer"])

    def probes(self) -> list[Probe]:
        """The fitted layers as probes of unscaled features."""
        made = []
        pairs = zip(
            self.layer.weight.detach().split(self.classes), self.layer.bias.detach().split(self.classes), strict=True
        )
        for task, (weight, bias) in zip(self.tasks, pairs, strict=True):
            weights = torch.cat([weight.T, bias[None]])
            zero, one = torch.zeros_like(weights[:-1, 0]), torch.ones_like(weights[:-1, 0])
            made.append(Probe(task.feature, "online", weights, zero, one, None, True))
        return made
