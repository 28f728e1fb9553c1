"""The training loop: batches by index, views on the device, one step after the other; killed at any moment it resumes."""

import hashlib
import io
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from generators.dataset import UserError
from generators.randomness import permutation, random_words, stream_key
from suppression_bench.cell import Augmentation, Train
from suppression_bench.method import Batch, Method, Output
from suppression_bench.training import precision
from suppression_bench.training.augment import augment, draw
from suppression_bench.training.data import Samples
from suppression_bench.training.gradient_cache import GradientCache
from suppression_bench.training.optim import build_optimizer, learning_rate, set_learning_rate

# One constant per decision: never renumber, a later decision takes the next number; augment.py has all from 16.
INITIAL, STEP, ORDER, IDS = 0, 1, 2, 3
READ_BACK = 50  # steps between two looks at the losses: each look waits for the device
CHECKPOINTS_KEPT = 2


class Observer(Protocol):
    """Watches training without touching it; its state travels in the checkpoints."""

    def __call__(self, step: int, features: Tensor, index: Tensor) -> None: ...

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

    Raises:
        UserError: a batch larger than the split, or a checkpoint of a run that has changed.
    """
    key, device = training_key(seed), samples.device
    per_epoch, steps = training.steps_per_epoch(len(samples)), training.total_steps(len(samples))
    warmup = training.warmup_epochs * per_epoch
    network = GradientCache(method, training.micro_batch) if training.micro_batch else method
    optimizer = build_optimizer(method, training, training.weight_decay)
    ids = sample_ids(key, len(samples)).to(device)
    run = _Run(method, optimizer, observers, steps, device, folder, identity or {})
    epoch = None
    method.train()
    with precision.configured(method, training.precision, training.compile, training.deterministic):
        for step in range(run.start, steps):
            number, position = divmod(step, per_epoch)
            if epoch is None or position == 0:
                epoch = Epoch(number, samples, method.views, training.shuffle, augmentation, key)
            seed_torch(key, STEP, step)
            set_learning_rate(optimizer, learning_rate(training, step, steps, warmup))
            index = epoch.batch(position, training.batch_size)
            batch = Batch(epoch.views(index), ids[index], labels and {name: y[index] for name, y in labels.items()})
            optimizer.zero_grad(set_to_none=True)
            precision.begin_step(training.compile)
            with precision.autocast(device, training.precision):
                output = network.loss(batch)
            _require_output(output, method)
            output.loss.backward()
            optimizer.step()
            method.after_step((step + 1) / steps)
            run.losses[step] = output.loss.detach()
            for observer in observers:
                observer(step, output.features.detach(), index)
            if (step + 1) % READ_BACK == 0 or step + 1 == steps:
                if bad := run.first_bad_step(step + 1):
                    return run.outcome("diverged", bad)
                if note:
                    note(step + 1, steps)
            run.save(step + 1, training.checkpoint_seconds)
    run.save(steps)  # a kill while the probes are fitted costs no training
    return run.outcome("ok", steps)


def training_key(seed: int) -> np.ndarray:
    """The key of all random numbers of a training run."""
    return stream_key("training", 1, "pretrain", seed)


def seed_torch(key: np.ndarray, stream: int, step: int = 0) -> None:
    """Seed torch's generators from named axes, so that noise inside a method resumes exactly too."""
    torch.manual_seed(int(random_words(key, stream, step, count=1)[0] >> np.uint64(1)))


def sample_ids(key: np.ndarray, count: int) -> Tensor:
    """The number by which a method knows each sample: a permutation, since files are often sorted by class."""
    return torch.from_numpy(permutation(random_words(key, IDS, count=count)))


class Epoch:
    """One epoch's tables on the device: the order of the samples and what is drawn for each of their views.

    Arguments:
        number: of the epoch, from 0.
        samples: the training split.
        views: per sample.
        shuffle: a new order, or that of the file.
        augmentation: what to draw.
        key: of the run's random numbers.
    """

    def __init__(
        self, number: int, samples: Samples, views: int, shuffle: bool, augmentation: Augmentation, key: np.ndarray
    ):
        count = len(samples)
        order = permutation(random_words(key, ORDER, 0, number, count=count)) if shuffle else np.arange(count)
        self.order = samples.follow(order)
        self.draws = draw(augmentation, samples.side, key, range(views), number, count, samples.device)
        self.samples, self.augmentation, self.count = samples, augmentation, views

    def batch(self, position: int, size: int) -> Tensor:
        """The sample numbers (B,) of the batch at a position of the epoch."""
        return self.order[position * size : (position + 1) * size]

    def views(self, index: Tensor) -> list[Tensor]:
        """Each view of a batch: its own crop and colours of the image, the same bits; all views in one pass."""
        images, bits = self.samples.take(index)
        images, bits = images.repeat(self.count, 1, 1, 1), bits.repeat(self.count, 1)
        return list(augment(images, bits, self.draws.rows(index), self.augmentation).split(len(index)))


def _require_output(output: Output, method: Method) -> None:
    # For the author of a method: an attribute error in the loop would not name it.
    if not isinstance(output, Output):
        name = type(method).__name__
        raise TypeError(f"{name}.loss must return Output(loss, features), it returned {type(output).__name__}")


class _Run:
    """All that changes while a method trains, and its way to a checkpoint and back."""

    def __init__(self, method, optimizer, observers, steps: int, device: torch.device, folder, identity: dict):
        self.parts = {"method": method, "optimizer": optimizer}
        self.parts |= {f"observer{number}": observer for number, observer in enumerate(observers)}
        self.losses = torch.zeros(steps, device=device)
        self.folder, self.identity = folder, identity
        self.start, self.resumes, self.seconds_before = 0, 0, 0.0
        checkpoint = load_checkpoint(folder, identity, device) if folder else None
        if checkpoint:
            self.start, state = checkpoint["step"], checkpoint["state"]
            for name, part in self.parts.items():
                part.load_state_dict(state[name])
            self.resumes, self.seconds_before = state["resumes"] + 1, state["seconds"]
            self.losses[: self.start] = state["losses"]
        self.began = self.saved = time.monotonic()

    def seconds(self) -> float:
        return self.seconds_before + time.monotonic() - self.began

    def save(self, step: int, every: float = 0.0) -> None:
        """Write a checkpoint if `every` seconds have passed since the last one."""
        # Only the host's clock is read, so this waits for the device only when it is time to save.
        if self.folder is None or time.monotonic() - self.saved < every:
            return
        state = {name: part.state_dict() for name, part in self.parts.items()}
        state |= {"losses": self.losses[:step].clone(), "resumes": self.resumes, "seconds": self.seconds()}
        save_checkpoint(self.folder, step, state, self.identity)
        self.saved = time.monotonic()

    def first_bad_step(self, step: int) -> int | None:
        """The first step (from 1) whose loss is not finite; waits for the device."""
        bad = torch.nonzero(~torch.isfinite(self.losses[:step]))
        return int(bad[0]) + 1 if len(bad) else None

    def outcome(self, status: str, steps: int) -> Outcome:
        loss = self.losses[max(0, steps - READ_BACK) : steps].mean().item() if status == "ok" else float("nan")
        return Outcome(status, steps, loss, self.resumes, self.seconds())


def save_checkpoint(folder: Path, step: int, state: dict, identity: dict) -> None:
    """Write one checkpoint and keep the last two; a kill at any moment leaves the ones before it whole.

    Arguments:
        folder: the cell's folder.
        step: number of steps done.
        state: tensors, numbers and texts in dicts and lists.
        identity: flat name -> value of everything that must not change before the run goes on.
    """
    buffer = io.BytesIO()
    torch.save({"step": step, "state": state, "identity": identity}, buffer)
    body = buffer.getvalue()
    partial = folder / f"checkpoint.{os.getpid()}.tmp"
    with open(partial, "wb") as file:
        file.write(hashlib.sha256(body).digest() + body)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(folder / f"checkpoint-{step:08d}.pt")
    for path in _newest_first(folder)[CHECKPOINTS_KEPT:]:
        path.unlink()


def load_checkpoint(folder: Path, identity: dict, device: torch.device | str = "cpu") -> dict | None:
    """The newest valid checkpoint ({step, state}), or None.

    Raises:
        UserError: the run has changed since (each differing field is named).
    """
    for path in _newest_first(folder):
        content = path.read_bytes()
        if hashlib.sha256(content[32:]).digest() != content[:32]:
            continue
        checkpoint = torch.load(io.BytesIO(content[32:]), map_location=device, weights_only=True)
        before = checkpoint["identity"]
        changed = [
            f"{name}: {before.get(name)!r} then, {identity.get(name)!r} now"
            for name in sorted(before.keys() | identity.keys())
            if before.get(name) != identity.get(name)
        ]
        if changed:
            raise UserError(
                f"{path}: the run has changed since this checkpoint ({'; '.join(changed)}); "
                f"undo the change, or delete the folder {folder} to start the cell anew"
            )
        return checkpoint
    return None


def clear_checkpoints(folder: Path) -> None:
    """Remove the checkpoints of a finished run."""
    for path in folder.glob("checkpoint*"):
        path.unlink()


def _newest_first(folder: Path) -> list[Path]:
    return sorted(folder.glob("checkpoint-*.pt"), reverse=True)
