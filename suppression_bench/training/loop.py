"""The training loop: batches by index, views on the device, one step after the other; killed at any moment it resumes."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, Literal, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from generators.dataset import UserError
from generators.randomness import permutation, random_words, stream_key
from suppression_bench.method import Batch, Method, Output
from suppression_bench.training import checkpoint, execution, gradient_cache, optimizers
from suppression_bench.training.data import Samples
from suppression_bench.training.epoch import Epoch
from suppression_bench.training.views import Augmentation

# One constant per decision: never renumber, a later decision takes the next number.
INITIAL, STEP, IDS = 0, 1, 3  # ORDER = 2 and CROP = 16 live in epoch.py
READ_BACK = 50  # steps between two looks at the losses: each look waits for the device


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


class Observer(Protocol):
    """Watches training without touching it; its state travels in the checkpoints."""

    def __call__(self, step: int, features: Tensor, ids: Tensor) -> None: ...

    def state_dict(self) -> dict: ...

    def load_state_dict(self, state: dict) -> None: ...


@dataclass
class Outcome:
    """How training ended: status ok or diverged, steps done, and the mean loss of the last steps."""

    status: str
    steps: int
    loss: float
    resumes: int
    seconds: float


def training_key(seed: int) -> np.ndarray:
    return stream_key("training", 1, "pretrain", seed)


def seed_torch(key: np.ndarray, stream: int, step: int = 0) -> None:
    """Seed torch's generators from named axes, so that noise inside a method resumes exactly too."""
    torch.manual_seed(int(random_words(key, stream, step, count=1)[0] >> np.uint64(1)))


def sample_ids(key: np.ndarray, count: int) -> Tensor:
    """The number by which a method knows each sample: a permutation, since files are often sorted by class."""
    return torch.from_numpy(permutation(random_words(key, IDS, count=count)))


class _Run:
    """All that changes while a method trains, and its way to a checkpoint and back."""

    def __init__(self, method, optimizer, observers, steps, device, folder, identity):
        self.parts = {"method": method, "optimizer": optimizer, **{f"observer{i}": o for i, o in enumerate(observers)}}
        self.losses = torch.zeros(steps, device=device)
        self.folder, self.identity = folder, identity or {}
        self.start, self.resumes, self.before = 0, 0, 0.0
        found = checkpoint.load(folder, self.identity, device) if folder else None
        if found:
            state = found["state"]
            for name, part in self.parts.items():
                part.load_state_dict(state[name])
            self.start, self.resumes, self.before = found["step"], state["resumes"] + 1, state["seconds"]
            self.losses[: self.start] = state["losses"]
        self.began = self.saved = time.monotonic()

    def seconds(self) -> float:
        return self.before + time.monotonic() - self.began

    def save(self, done: int, every: float = 0.0) -> None:
        """Write a checkpoint if `every` seconds have passed since the last one."""
        # Only the host's clock is read, so this waits for the device only when it is time to save.
        if self.folder is None or time.monotonic() - self.saved < every:
            return
        state = {name: part.state_dict() for name, part in self.parts.items()}
        state |= {"losses": self.losses[:done].clone(), "resumes": self.resumes, "seconds": self.seconds()}
        checkpoint.save(self.folder, done, state, self.identity)
        self.saved = time.monotonic()

    def first_bad_step(self, done: int) -> int | None:
        """The first step (from 1) whose loss is not finite; waits for the device."""
        bad = torch.nonzero(~torch.isfinite(self.losses[:done]))
        return int(bad[0]) + 1 if len(bad) else None

    def outcome(self, status: str, steps: int) -> Outcome:
        last = self.losses[max(0, steps - READ_BACK) : steps].mean().item() if status == "ok" else float("nan")
        return Outcome(status, steps, last, self.resumes, self.seconds())


def train(
    method: Method,
    samples: Samples,
    training: Training,
    augmentation: Augmentation,
    *,
    seed: int,
    labels: dict[str, Tensor] | None = None,
    observers: Sequence[Observer] = (),
    folder: Path | None = None,
    identity: dict | None = None,
    note: Callable[[int, int], None] | None = None,
) -> Outcome:
    """Train a method on a split; no label exists on this path unless `labels` is given.

    Arguments:
        method: initialised, on the samples' device.
        samples: the training split.
        training, augmentation: the recipe.
        seed: names the order, the crops and the noise.
        labels: only for a method that declares `needs_labels`.
        observers: called with (step, the encoder's detached output on the first view, sample numbers).
        folder: where checkpoints go (none without it).
        identity: what must not change before a checkpoint is resumed.
        note: called now and then with (steps done, steps in all).
    """
    key, device = training_key(seed), samples.device
    per_epoch, steps = training.steps_per_epoch(len(samples)), training.total_steps(len(samples))
    warmup = training.warmup_epochs * per_epoch
    if training.micro_batch:
        gradient_cache.require(type(method), method.name)
    optimizer = training.build_optimizer(method, training.weight_decay)
    ids = sample_ids(key, len(samples)).to(device)
    run = _Run(method, optimizer, observers, steps, device, folder, identity)
    method.train()
    epoch = None
    with execution.prepared(method, training.precision, training.compile, training.deterministic):
        for step in range(run.start, steps):
            number, place = divmod(step, per_epoch)
            if epoch is None or place == 0:
                epoch = Epoch(number, samples, method.views, training.shuffle, augmentation, key)
            seed_torch(key, STEP, step)
            optimizers.set_rate(optimizer, training.rate(step, steps, warmup))
            index = epoch.order[place * training.batch_size : (place + 1) * training.batch_size]
            own_labels = None if labels is None else {name: values[index] for name, values in labels.items()}
            batch = Batch(epoch.views(samples, index, augmentation), ids[index], own_labels)
            optimizer.zero_grad(set_to_none=True)
            output = gradients(method, batch, training)
            optimizer.step()
            method.after_step((step + 1) / steps)
            run.losses[step] = output.loss.detach()
            for observer in observers:
                observer(step, output.features.detach(), index)
            if (step + 1) % READ_BACK == 0 or step + 1 == steps:
                bad = run.first_bad_step(step + 1)
                if bad:
                    return run.outcome("diverged", bad)
                if note:
                    note(step + 1, steps)
            run.save(step + 1, training.checkpoint_seconds)
    run.save(steps)  # a kill while the probes are fitted costs no training
    return run.outcome("ok", steps)


def gradients(method: Method, batch: Batch, training: Training) -> Output:
    """The method's answer to a batch, its gradients added to the parameters'."""
    autocast = partial(torch.autocast, batch.ids.device.type, torch.bfloat16, enabled=training.precision == "bf16")
    if training.compile == "reduce-overhead":
        torch.compiler.cudagraph_mark_step_begin()  # the graphs may write over what the step before left
    if training.micro_batch:
        return gradient_cache.backward(method, batch, training.micro_batch, autocast)
    with autocast():
        output = method.loss(batch)
    if not isinstance(output, Output):
        name = type(method).__name__
        raise TypeError(f"{name}.loss must return Output(loss, features), it returned {type(output).__name__}")
    output.loss.backward()
    return output
