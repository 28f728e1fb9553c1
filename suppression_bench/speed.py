"""How fast a cell trains here, where its time goes, and how near that is to the network alone on random tensors."""

import os
import statistics
from collections.abc import Callable
from contextlib import AbstractContextManager

import msgspec
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from generators.dataset import UserError
from suppression_bench.cell import Train
from suppression_bench.evaluation import probes as probing
from suppression_bench.evaluation.probes import OnlineProbe, extract
from suppression_bench.method import Batch, Method
from suppression_bench.results import provenance
from suppression_bench.run import Prepared, build_method
from suppression_bench.stopwatch import Turns, peak, timed
from suppression_bench.training import loop, precision
from suppression_bench.training.data import Data, Samples, Streamed
from suppression_bench.training.gradient_cache import GradientCache
from suppression_bench.training.loop import Epoch
from suppression_bench.training.optim import build_optimizer, set_learning_rate

WARM_UP = 2  # steps before the clock starts: memory is allocated, kernels are chosen
TURN = (
    10  # steps of one side in a row on a GPU, which is waited for only between turns; on a CPU sides change each step
)
PROBED = 1000  # samples of the timed probe, at most
EXECUTION = ("compile", "micro_batch", "deterministic")  # settings named where they are not at their default
PARTS = ("epoch tables", "data", "augmentation", "forward and backward", "optimizer", "online probe")


class Bench:
    """One cell, ready to be timed.

    Arguments:
        prepared: the cell, its data generated and decoded.
        device: where to train.
        steps: of each side.
        say: prints a line.

    Raises:
        UserError: a method that does not train, or a batch larger than the split.
    """

    def __init__(self, prepared: Prepared, device: torch.device, steps: int, say: Callable[[str], None]):
        cell = prepared.cell
        self.ready, self.device, self.steps, self.seed = prepared, device, steps, cell.seed
        self.data = Data(prepared.folder, cell.dataset.bits, say)
        self.training = msgspec.structs.replace(cell.train, steps=WARM_UP + steps, epochs=None)
        self.augmentation, self.probing = cell.augmentation, cell.probe
        self.samples = self.data.samples("pretrain", device)
        self.method, self.alone = self._method(), self._method()
        if not self.method.trains:
            raise UserError(f"bench speed: the method {cell.method.name} does not train; name one that does")
        self.per_epoch = self.training.steps_per_epoch(len(self.samples))
        targets = self.method.info.targets
        self.labels = {name: torch.from_numpy(self.data.labels("pretrain", name)).to(device) for name in targets}
        self.optimizer = build_optimizer(self.alone, self.training, self.training.weight_decay)
        set_learning_rate(self.optimizer, 1e-6)  # a step costs the same at any rate, and stays finite at a small one
        self.random = self._random_batch()
        rows = self.training.micro_batch
        self.network = GradientCache(self.alone, rows) if rows else self.alone

    @property
    def views(self) -> int:
        """Views in one step."""
        return self.training.batch_size * self.method.views

    def sides(self, tables: float) -> tuple[list[float], list[float]]:
        """Seconds of a step in each turn: of the real training loop, and of its ceiling.

        The ceiling is the same network, loss and optimizer on random tensors that are already on the device. An
        epoch's tables are counted at their share, whether or not an epoch begins in a turn.

        Arguments:
            tables: seconds that an epoch's tables take.
        """
        every = 1 if self.device.type == "cpu" else min(self.steps, TURN)
        ceiling: list[float] = []

        def other() -> None:
            seconds = timed(self.device, lambda: [self._step(self.random) for _ in range(every)])
            ceiling.append(seconds / every)

        turns = Turns(self.device, WARM_UP, every, other)
        loop.train(
            self.method, self.samples, self.training, self.augmentation, seed=self.seed,
            labels=self.labels or None, observers=[*self._online(), turns],
        )  # fmt: skip
        training = []
        for first, end, seconds in turns.blocks:
            held = sum(step % self.per_epoch == 0 for step in range(first, end))
            training.append((seconds - held * tables) / every + tables / self.per_epoch)
        return training, ceiling[1:]  # the first warmed it up

    def prepared(self, mode: str | None = None) -> AbstractContextManager[None]:
        """What the loop sets up around its own network, for the one that stands alone.

        Arguments:
            mode: of compilation, or None for the cell's.
        """
        mode = self.training.compile if mode is None else mode
        return precision.configured(self.alone, self.training.precision, mode, self.training.deterministic)

    def tables_seconds(self) -> float:
        """Seconds that the tables of one epoch take."""
        return timed(self.device, lambda: self._epoch(0))

    def parts(self, tables: float) -> dict[str, float]:
        """Median seconds of each part of a step, the device waited for between them.

        Data (gathering a batch and making it float) is timed on its own and taken from the time of the views, of
        which it is the first half.
        """
        epoch, found = self._epoch(0), {name: [] for name in PARTS}
        online, size = self._online(), self.training.batch_size
        for step in range(WARM_UP + self.steps):
            index = epoch.batch(step % self.per_epoch, size)
            made: dict = {}
            taken = timed(self.device, lambda index=index: self.samples.take(index)[0].float() / 255)
            seen = timed(
                self.device,
                lambda index=index, made=made: made.update(views=epoch.views(index), labels=self._labels_of(index)),
            )
            batch = Batch(made["views"], index, made["labels"])
            worked = timed(self.device, lambda batch=batch, made=made: made.update(features=self._backward(batch)))
            updated = timed(self.device, self._update)
            watched = timed(
                self.device, lambda index=index, made=made: [probe(0, made["features"], index) for probe in online]
            )
            row = (tables / self.per_epoch, taken, max(0.0, seen - taken), worked, updated, watched)
            if step >= WARM_UP:
                for name, value in zip(PARTS, row, strict=True):
                    found[name].append(value)
        return {name: statistics.median(values) for name, values in found.items() if name != PARTS[-1] or online}

    def flops(self) -> int:
        """Floating-point operations of the products and convolutions of a step, forward and backward.

        A gradient cache's second forward pass is counted. Not compiled: the counter sees only torch's own operations.
        """
        with self.prepared("none"), FlopCounterMode(display=False) as counter:
            self._backward(self.random)
        self.optimizer.zero_grad(set_to_none=True)
        return counter.get_total_flops()

    def probe_seconds(self) -> dict:
        """Seconds of the probes of the first pair of splits on at most `PROBED` samples."""
        (split, _), names = self._first_pair()
        whole = self.data.samples(split, self.device)
        count = min(len(whole), PROBED)
        some = Samples(*whole.take(torch.arange(count, device=self.device)))
        tasks = [probing.Task(f, self.data.classes(f), self.data.labels(split, f)[:count]) for f in names]
        features: dict = {}
        layers, block = self.probing.layers, self.probing.block_size
        seconds = {
            "features": timed(self.device, lambda: features.update(extract(self.method, some, layers, block))),
        }
        values = features[layers[0]]
        fits = {
            "lbfgs": lambda: probing.fit_lbfgs(values, tasks, self.probing.l2),
            "sgd": lambda: probing.fit_sgd(values, tasks, seed=self.seed),
        }
        seconds |= {kind: timed(self.device, fits[kind]) for kind in self.probing.kinds if kind in fits}
        return {"samples": count, "probes": len(tasks), "seconds": seconds}

    def describe(self) -> dict:
        """What is timed, and where."""
        cell, held = self.ready.cell, "mapped" if self.device.type == "cpu" else "resident"
        return {
            "dataset": cell.dataset.name, "samples": len(self.samples), "channels": self.data.channels,
            "side": self.samples.side, "recipe": cell.recipe, "method": cell.method.name,
            "encoder": cell.encoder.name, "batch_size": self.training.batch_size, "views": self.method.views,
            "precision": self.training.precision,
            "execution": {
                name: getattr(self.training, name)
                for name in EXECUTION
                if getattr(self.training, name) != getattr(Train(steps=1), name)
            },
            "pictures": "streamed" if isinstance(self.samples, Streamed) and self.device.type != "cpu" else held,
            "environment": provenance.environment(self.device),
        }  # fmt: skip

    def _method(self) -> Method:
        made = build_method(self.ready.located, self.data, len(self.samples))
        return made.to(self.device, memory_format=torch.channels_last).train()

    def _epoch(self, number: int) -> Epoch:
        key = loop.training_key(self.seed)
        return Epoch(number, self.samples, self.method.views, self.training.shuffle, self.augmentation, key)

    def _random_batch(self) -> Batch:
        size, side = self.training.batch_size, self.samples.side
        shape, generator = (size, self.data.channels, side, side), torch.Generator().manual_seed(0)
        views = [torch.rand(shape, generator=generator).to(self.device) for _ in range(self.method.views)]
        index = torch.arange(size, device=self.device)
        views = [view.contiguous(memory_format=torch.channels_last) for view in views]
        return Batch(views, index, self._labels_of(index))

    def _labels_of(self, index: Tensor) -> dict[str, Tensor] | None:
        return {name: values[index] for name, values in self.labels.items()} or None

    def _backward(self, batch: Batch) -> Tensor:
        self.optimizer.zero_grad(set_to_none=True)
        precision.begin_step(self.training.compile)
        with precision.autocast(self.device, self.training.precision):
            output = self.network.loss(batch)
        output.loss.backward()
        return output.features.detach()

    def _update(self) -> None:
        self.optimizer.step()
        self.alone.after_step(0.5)

    def _step(self, batch: Batch) -> None:
        self._backward(batch)
        self._update()

    def _online(self) -> list[OnlineProbe]:
        if "online" not in self.probing.kinds:
            return []
        names = [name for name in self.data.probes() if self.data.has_label("pretrain", name)]
        tasks = [probing.Task(name, self.data.classes(name), self.data.labels("pretrain", name)) for name in names]
        width = self.method.encoder.width
        return [OnlineProbe(width, tasks, self.training, self.training.steps, 0, 0, self.device)] if tasks else []

    def _first_pair(self) -> tuple[tuple[str, str], list[str]]:
        probes = self.data.probes()
        pair = next(iter(probes.values()))
        return pair, [name for name, other in probes.items() if other == pair]


def measure(prepared: Prepared, device: torch.device, steps: int, say: Callable[[str], None]) -> dict:
    """Everything that `bench speed` prints.

    Arguments:
        prepared: the cell, its data generated and decoded.
        device: where.
        steps: of training, and of its ceiling.
        say: prints a line.
    """
    bench = Bench(prepared, device, steps, say)
    tables = statistics.median(bench.tables_seconds() for _ in range(3))
    peaks = [peak(device, bench.training.precision)]
    with bench.prepared():
        sides = dict(zip(("training", "ceiling"), bench.sides(tables), strict=True))
        parts = bench.parts(tables)
    probe, flops = bench.probe_seconds(), bench.flops()
    peaks.append(peak(device, bench.training.precision))
    best = max(peaks, key=lambda found: found["flops_per_second"])
    middle = {name: statistics.median(found) for name, found in sides.items()}
    return {
        **bench.describe(),
        "steps": steps, "turns": len(sides["training"]), "warm_up": WARM_UP,
        "views_per_second": {name: bench.views / seconds for name, seconds in middle.items()},
        "range": {name: [bench.views / max(found), bench.views / min(found)] for name, found in sides.items()},
        "of_ceiling": statistics.median(b / a for a, b in zip(*sides.values(), strict=True)),
        "parts": parts, "peak": best, "flops_per_step": flops,
        "of_peak": {name: flops / seconds / best["flops_per_second"] for name, seconds in middle.items()},
        "probe": probe, "load_average": os.getloadavg()[0],
    }  # fmt: skip
