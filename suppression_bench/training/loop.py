"""The training loop: batches by index, views on the device, one step after the other; killed at any moment it resumes."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from generators.randomness import permutation, random_words, stream_key
from suppression_bench.cell import Augmentation, Train
from suppression_bench.method import Batch, Method, Output
from suppression_bench.training import checkpoint, execution, gradient_cache, optimizers
from suppression_bench.training.data import Samples
from suppression_bench.training.epoch import Epoch

# One constant per decision: never renumber, a later decision takes the next number.
INITIAL, STEP, IDS = 0, 1, 3  # ORDER = 2 and CROP = 16 live in epoch.py
READ_BACK = 50  # steps between two looks at the losses: each look waits for the device


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
    training: Train,
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
    optimizer = optimizers.build(method, training, training.weight_decay)
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
            optimizers.set_rate(optimizer, optimizers.learning_rate(training, step, steps, warmup))
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


def gradients(method: Method, batch: Batch, training: Train) -> Output:
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
