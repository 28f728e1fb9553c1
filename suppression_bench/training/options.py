"""How a method is trained: batches, steps, optimizer, schedule and precision, checked when they are given."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import nn

from generators.dataset import UserError
from suppression_bench.training import optimizers


@dataclass(frozen=True, kw_only=True)
class Training:
    """How a method is trained.

    Arguments:
        batch_size: samples per step; an epoch's last, smaller batch is left out.
        steps: number of steps (or give epochs).
        epochs: passes over the training split.
        shuffle: a new order every epoch; otherwise the same batches in file order (as in the RandBit notebook).
        optimizer: adam (coupled L2), adamw, sgd or lars.
        learning_rate: at its highest.
        weight_decay: on kernels only, never on biases and batch norm.
        momentum: of sgd and lars.
        epsilon: of adam and adamw.
        schedule: of the learning rate after the warm-up: linear or cosine to 0, constant, or step.
        milestones: of the step schedule, shares of training behind each of which the rate falls.
        decay: of the step schedule, what the rate is multiplied with at each milestone.
        warmup_epochs: epochs of linear warm-up.
        initialisation: torch (its layers' own) or glorot (Keras').
        precision: fp32; tf32, the same with the short products that some CUDA devices have; or bf16 autocast for the
            network (losses stay in fp32).
        compile: torch.compile for the encoder: none, default, or reduce-overhead (CUDA graphs).
        micro_batch: samples that pass the network at once, 2 or more, with the whole batch's negatives (a gradient
            cache); the last part may be smaller, but no single sample.
        deterministic: refuse kernels that may give other bits in a second run (a CPU has none).
        checkpoint_seconds: time between two checkpoints.
    """

    batch_size: int = 256
    steps: int | None = None
    epochs: int | None = None
    shuffle: bool = True
    optimizer: Literal["adam", "adamw", "sgd", "lars"] = "adam"
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    momentum: float = 0.9
    epsilon: float = 1e-8
    schedule: Literal["linear", "cosine", "constant", "step"] = "cosine"
    milestones: list[float] = (0.8, 0.95)
    decay: float = 0.1
    warmup_epochs: int = 0
    initialisation: Literal["torch", "glorot"] = "torch"
    precision: Literal["fp32", "tf32", "bf16"] = "fp32"
    compile: Literal["none", "default", "reduce-overhead"] = "none"
    micro_batch: int | None = None
    deterministic: bool = False
    checkpoint_seconds: float = 30.0

    # Younger than published records: left out of a spec while at their defaults, so that those cells keep their ids.
    later: ClassVar[tuple[str, ...]] = ("milestones", "decay", "compile", "micro_batch", "deterministic")

    def __post_init__(self):
        if (self.steps is None) == (self.epochs is None):
            raise UserError("train: give exactly one of steps and epochs")
        for name in ("batch_size", "steps", "epochs", "learning_rate", "epsilon", "micro_batch"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise UserError(f"train.{name} must be above 0, got {value}")
        if self.micro_batch is not None and self.micro_batch > self.batch_size:
            raise UserError(
                f"train.micro_batch must be at most train.batch_size ({self.batch_size}), got {self.micro_batch}"
            )
        if self.micro_batch is not None and (self.micro_batch == 1 or self.batch_size % self.micro_batch == 1):
            raise UserError(
                f"train.micro_batch {self.micro_batch} leaves a part of one sample of train.batch_size {self.batch_size}, "
                "which batch norm cannot normalise; it must be 2 or more, and the last part must not be one sample"
            )
        if not 0 < self.decay <= 1:
            raise UserError(f"train.decay must be above 0 and at most 1, got {self.decay}")
        milestones = list(self.milestones)
        if milestones != sorted(set(milestones)) or not all(0 < milestone < 1 for milestone in milestones):
            raise UserError(f"train.milestones must be rising shares of training between 0 and 1, got {milestones}")

    def steps_per_epoch(self, count: int) -> int:
        if count < self.batch_size:
            raise UserError(
                f"train.batch_size {self.batch_size} is larger than the {count} training samples; set it lower"
            )
        return count // self.batch_size

    def total_steps(self, count: int) -> int:
        return self.steps or self.epochs * self.steps_per_epoch(count)

    def rate(self, step: int, steps: int, warmup: int) -> float:
        """The learning rate at `step` of `steps`, with `warmup` steps of warm-up."""
        factor = optimizers.rate(self.schedule, step, steps, warmup, self.milestones, self.decay)
        return self.learning_rate * factor

    def build_optimizer(self, module: nn.Module, weight_decay: float) -> torch.optim.Optimizer:
        return optimizers.build(
            module, self.optimizer, learning_rate=self.learning_rate, weight_decay=weight_decay,
            momentum=self.momentum, epsilon=self.epsilon,
        )  # fmt: skip
