"""Training speed on this machine: the real loop beside its ceiling, the parts of a step, the device's peak, the probes.

The ceiling is the same network, loss and optimizer on random tensors that are already on the device: no change to data,
augmentation or the loop can make training faster than that.
"""

import os
import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

import msgspec
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from generators.dataset import UserError
from generators.describe import table
from suppression_bench.cell import Train
from suppression_bench.evaluation import probes as probing
from suppression_bench.evaluation.probes import OnlineProbe, extract
from suppression_bench.method import Batch, Method
from suppression_bench.results import provenance
from suppression_bench.run import Prepared, build_method
from suppression_bench.training import loop, precision
from suppression_bench.training.data import Data, Samples, Streamed
from suppression_bench.training.gradient_cache import GradientCache
from suppression_bench.training.optim import build_optimizer, set_learning_rate

WARM_UP = 2  # steps before the clock starts: memory is allocated, kernels are chosen
TURN = 10  # steps of a side in a row on a GPU, which is waited for only between turns; on a CPU sides change each step
PROBED = 1000  # samples of the timed probe, at most
PRODUCTS = 6  # matrix products, of which the fastest is the device's peak
EXECUTION = ("compile", "micro_batch", "deterministic")  # settings named where they are not at their default
PARTS = ("epoch tables", "data", "augmentation", "forward and backward", "optimizer", "online probe")


def measure(prepared: Prepared, device: torch.device, steps: int, say: Callable[[str], None]) -> dict:
    """Everything that `bench speed` prints.

    Arguments:
        prepared: the cell, its data generated and decoded.
        device: where to train.
        steps: of training, and of its ceiling.
        say: prints a line.

    Raises:
        UserError: a method that does not train, or a batch larger than the split.
    """
    timer = CellTimer(prepared, device, steps, say)
    tables = statistics.median(timed(device, lambda: timer.epoch(0)) for _ in range(3))
    peaks = [peak(device, timer.training.precision)]
    with timer.ceiling.configured():
        sides = dict(zip(("training", "ceiling"), timer.sides(tables), strict=True))
        parts = timer.parts(tables)
    probe, flops = timer.probe_seconds(), timer.ceiling.flops()
    peaks.append(peak(device, timer.training.precision))
    best = max(peaks, key=lambda measured: measured["flops_per_second"])
    seconds = {name: statistics.median(times) for name, times in sides.items()}
    return {
        **timer.describe(),
        "steps": steps,
        "turns": len(sides["training"]),
        "warm_up": WARM_UP,
        "views_per_second": {name: timer.views / middle for name, middle in seconds.items()},
        "range": {name: [timer.views / max(times), timer.views / min(times)] for name, times in sides.items()},
        "of_ceiling": statistics.median(
            ceiling / training for training, ceiling in zip(sides["training"], sides["ceiling"], strict=True)
        ),
        "parts": parts,
        "peak": best,
        "flops_per_step": flops,
        "of_peak": {name: flops / middle / best["flops_per_second"] for name, middle in seconds.items()},
        "probe": probe,
        "load_average": os.getloadavg()[0],
    }


class CellTimer:
    """One cell, ready to be timed; its arguments are those of `measure`."""

    def __init__(self, prepared: Prepared, device: torch.device, steps: int, say: Callable[[str], None]):
        cell = prepared.cell
        self.prepared, self.device, self.steps, self.seed = prepared, device, steps, cell.seed
        self.data = Data(prepared.folder, cell.dataset.bits, say)
        self.training = msgspec.structs.replace(cell.train, steps=WARM_UP + steps, epochs=None)
        self.augmentation, self.probing = cell.augmentation, cell.probe
        self.samples = self.data.samples("pretrain", device)
        self.method = self._method()
        if not self.method.trains:
            raise UserError(f"bench speed: the method {cell.method.name} does not train; name one that does")
        self.per_epoch = self.training.steps_per_epoch(len(self.samples))
        targets = self.method.info.targets
        self.labels = {name: torch.from_numpy(self.data.labels("pretrain", name)).to(device) for name in targets}
        self.ceiling = Ceiling(self._method(), self.training, self.data.channels, self.samples.side, self.labels)

    @property
    def views(self) -> int:
        """Views in one step."""
        return self.training.batch_size * self.method.views

    def epoch(self, number: int) -> loop.Epoch:
        """The tables of an epoch."""
        key = loop.training_key(self.seed)
        return loop.Epoch(number, self.samples, self.method.views, self.training.shuffle, self.augmentation, key)

    def sides(self, tables: float) -> tuple[list[float], list[float]]:
        """Seconds of a step in each turn: of the real training loop, and of its ceiling.

        An epoch's tables are counted at their share, whether or not an epoch begins in a turn.

        Arguments:
            tables: seconds that an epoch's tables take.
        """
        every = 1 if self.device.type == "cpu" else min(self.steps, TURN)
        ceiling: list[float] = []

        def run_ceiling() -> None:
            seconds = timed(self.device, lambda: [self.ceiling.step() for _ in range(every)])
            ceiling.append(seconds / every)

        turns = Turns(self.device, WARM_UP, every, run_ceiling)
        loop.train(
            self.method,
            self.samples,
            self.training,
            self.augmentation,
            seed=self.seed,
            labels=self.labels or None,
            observers=[*self._online(), turns],
        )
        training = []
        for first, end, seconds in turns.blocks:
            epochs = sum(step % self.per_epoch == 0 for step in range(first, end))
            training.append((seconds - epochs * tables) / every + tables / self.per_epoch)
        return training, ceiling[1:]  # the first warmed it up

    def parts(self, tables: float) -> dict[str, float]:
        """Median seconds of each part of a step, the device waited for between them.

        Data (gathering a batch and making it float) is timed by itself and taken from the time of the views, of
        which it is the first half.
        """
        epoch, online, size = self.epoch(0), self._online(), self.training.batch_size
        rows = []
        for step in range(WARM_UP + self.steps):
            index = epoch.batch(step % self.per_epoch, size)
            clock = Clock(self.device)
            clock.time(lambda index=index: self.samples.take(index)[0].float() / 255)
            views = clock.time(lambda index=index: epoch.views(index))
            batch = Batch(views, index, _rows(self.labels, index))
            features = clock.time(lambda batch=batch: self.ceiling.forward_backward(batch))
            clock.time(self.ceiling.update)
            clock.time(lambda index=index, features=features: [probe(0, features, index) for probe in online])
            data, augmented, *rest = clock.seconds
            rows.append((tables / self.per_epoch, data, max(0.0, augmented - data), *rest))
        columns = dict(zip(PARTS, zip(*rows[WARM_UP:], strict=True), strict=True))
        return {name: statistics.median(times) for name, times in columns.items() if name != PARTS[-1] or online}

    def probe_seconds(self) -> dict:
        """Seconds of the probes of the first pair of splits on at most `PROBED` samples."""
        probes = self.data.probes()
        split, _ = pair = next(iter(probes.values()))
        names = [name for name, splits in probes.items() if splits == pair]
        samples = self.data.samples(split, self.device)
        count = min(len(samples), PROBED)
        some = Samples(*samples.take(torch.arange(count, device=self.device)))
        tasks = [probing.Task(name, self.data.classes(name), self.data.labels(split, name)[:count]) for name in names]
        layers, clock = self.probing.layers, Clock(self.device)
        features = clock.time(lambda: extract(self.method, some, layers, self.probing.block_size))[layers[0]]
        fits = {
            "lbfgs": lambda: probing.fit_lbfgs(features, tasks, self.probing.l2),
            "sgd": lambda: probing.fit_sgd(features, tasks, seed=self.seed),
        }
        kinds = [kind for kind in self.probing.kinds if kind in fits]
        for kind in kinds:
            clock.time(fits[kind])
        seconds = dict(zip(["features", *kinds], clock.seconds, strict=True))
        return {"samples": count, "probes": len(tasks), "seconds": seconds}

    def describe(self) -> dict:
        """What is timed, and where."""
        cell, training = self.prepared.cell, self.training
        on_device = "mapped" if self.device.type == "cpu" else "resident"
        streamed = isinstance(self.samples, Streamed) and self.device.type != "cpu"
        execution = {name: getattr(training, name) for name in EXECUTION}
        return {
            "dataset": cell.dataset.name,
            "samples": len(self.samples),
            "channels": self.data.channels,
            "side": self.samples.side,
            "recipe": cell.recipe,
            "method": cell.method.name,
            "encoder": cell.encoder.name,
            "batch_size": training.batch_size,
            "views": self.method.views,
            "precision": training.precision,
            "execution": {name: value for name, value in execution.items() if value != getattr(Train(steps=1), name)},
            "images": "streamed" if streamed else on_device,
            "environment": provenance.environment(self.device),
        }

    def _method(self) -> Method:
        method = build_method(self.prepared.located, self.data, len(self.samples)).train()
        return method.to(device=self.device, memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]

    def _online(self) -> list[OnlineProbe]:
        if "online" not in self.probing.kinds:
            return []
        names = [name for name in self.data.probes() if self.data.has_label("pretrain", name)]
        tasks = [probing.Task(name, self.data.classes(name), self.data.labels("pretrain", name)) for name in names]
        width, steps = self.method.encoder.width, WARM_UP + self.steps
        return [OnlineProbe(width, tasks, self.training, steps, 0, 0, self.device)] if tasks else []


class Ceiling:
    """A network with its loss and optimizer, trained on one random batch that is already on the device.

    Arguments:
        method: initialised, in training mode, on its device.
        training: batch size, optimizer and how arithmetic runs.
        channels, side: of an image with its constant channels.
        labels: target -> labels of all samples; the batch takes the first.
    """

    def __init__(self, method: Method, training: Train, channels: int, side: int, labels: dict[str, Tensor]):
        self.method, self.training = method, training
        self.network = GradientCache(method, training.micro_batch) if training.micro_batch else method
        self.optimizer = build_optimizer(method, training, training.weight_decay)
        set_learning_rate(self.optimizer, 1e-6)  # a step costs the same at any rate, and stays finite at a small one
        self.device, size = next(method.parameters()).device, training.batch_size
        shape, generator = (size, channels, side, side), torch.Generator().manual_seed(0)
        views = [torch.rand(shape, generator=generator).to(self.device) for _ in range(method.views)]
        index = torch.arange(size, device=self.device)
        self.batch = Batch([view.to(memory_format=torch.channels_last) for view in views], index, _rows(labels, index))

    def configured(self, compile_mode: str | None = None) -> AbstractContextManager[None]:
        """What the loop sets up around its network; `compile_mode` in place of the recipe's."""
        training = self.training
        mode = training.compile if compile_mode is None else compile_mode
        return precision.configured(self.method, training.precision, mode, training.deterministic)

    def forward_backward(self, batch: Batch) -> Tensor:
        """The network's features of a batch, its gradients in place."""
        self.optimizer.zero_grad(set_to_none=True)
        precision.begin_step(self.training.compile)
        with precision.autocast(self.device, self.training.precision):
            output = self.network.loss(batch)
        output.loss.backward()
        return output.features.detach()

    def update(self) -> None:
        """The optimizer's step, and what the method does after it."""
        self.optimizer.step()
        self.method.after_step(0.5)

    def step(self) -> None:
        """One whole step on the random batch."""
        self.forward_backward(self.batch)
        self.update()

    def flops(self) -> int:
        """Floating-point operations of the products and convolutions of a step, forward and backward.

        A gradient cache's second forward pass is counted. Not compiled: the counter sees only torch's own operations.
        """
        with self.configured("none"), FlopCounterMode(display=False) as counter:
            self.forward_backward(self.batch)
        self.optimizer.zero_grad(set_to_none=True)
        return counter.get_total_flops()


def _rows(labels: dict[str, Tensor], index: Tensor) -> dict[str, Tensor] | None:
    return {name: values[index] for name, values in labels.items()} or None


class Turns:
    """An observer of training that stops its clock every few steps to let another side run.

    So a machine that is busy with something else slows both sides alike. The device is waited for only at a turn.

    Arguments:
        device: of training.
        first: steps before the first turn: memory is allocated, kernels are chosen.
        every: steps between two turns.
        run_side: runs the other side once.
        clock: seconds, for tests.

    >>> turns = Turns(torch.device("cpu"), 1, 2, lambda: None, clock=iter([0.0, 6.0, 7.0, 9.0, 9.0]).__next__)
    >>> for step in range(5):
    ...     turns(step, None, None)
    >>> turns.blocks
    [(1, 3, 6.0), (3, 5, 2.0)]
    """

    def __init__(
        self, device: torch.device, first: int, every: int, run_side: Callable[[], object], clock=time.perf_counter
    ):
        self.device, self.first, self.every, self.run_side, self.clock = device, first, every, run_side, clock
        self.began: float | None = None
        self.blocks: list[tuple[int, int, float]] = []  # first step, step behind the last, seconds

    def __call__(self, step: int, features: Tensor | None, index: Tensor | None) -> None:
        end = step + 1
        if end < self.first or (end - self.first) % self.every:
            return
        wait(self.device)
        if self.began is not None:
            self.blocks.append((end - self.every, end, self.clock() - self.began))
        self.run_side()
        wait(self.device)
        self.began = self.clock()

    def state_dict(self) -> dict:
        """Nothing that a checkpoint needs."""
        return {}

    def load_state_dict(self, state: dict) -> None:
        """Nothing to load."""


class Clock:
    """Times pieces of work one after the other, each with all that it leaves to the device."""

    def __init__(self, device: torch.device):
        self.device, self.seconds = device, []

    def time(self, work: Callable):
        """The answer of some work; its seconds are noted."""
        answers = []
        self.seconds.append(timed(self.device, lambda: answers.append(work())))
        return answers[0]


def timed(device: torch.device, work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """Seconds that some work takes, with all that it leaves to the device.

    >>> timed(torch.device("cpu"), lambda: time.sleep(0.01)) >= 0.01
    True
    """
    wait(device)
    began = clock()
    work()
    wait(device)
    return clock() - began


def wait(device: torch.device) -> None:
    """Return when the device has done all that was asked of it."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def peak(device: torch.device, number_format: str) -> dict:
    """Floating-point operations a second of a large matrix product, the fastest of a few.

    Arguments:
        device: where.
        number_format: the precision of `Training`; a CPU takes tf32 as fp32, as training there does.

    >>> peak(torch.device("cpu"), "fp32")["flops_per_second"] > 1e6
    True
    """
    size = 8192 if device.type == "cuda" else 1024
    dtype = torch.bfloat16 if number_format == "bf16" else torch.float32
    left, right = (torch.rand(size, size, device=device, dtype=dtype) for _ in range(2))
    with precision.number_format(number_format):
        seconds = min(timed(device, lambda: left @ right) for _ in range(PRODUCTS))
    name = "fp32" if device.type == "cpu" and number_format == "tf32" else number_format
    return {"flops_per_second": 2 * size**3 / seconds, "size": size, "type": name}


def markdown(measured: dict) -> str:
    """A measurement as `bench speed` prints it: rates, the parts of a step, the peak and the probe."""
    machine, probe, best = measured["environment"], measured["probe"], measured["peak"]
    sides = {"training": "training, as `bench run` does it", "ceiling": "the same network on random tensors"}
    rows = []
    for name, words in sides.items():
        rate, (low, high) = measured["views_per_second"][name], measured["range"][name]
        milliseconds = 1000 * measured["batch_size"] * measured["views"] / rate
        share = f"{100 * measured['of_peak'][name]:.1f} %"
        rows.append([words, f"{rate:.0f}", f"{low:.0f} - {high:.0f}", f"{milliseconds:.2f}", share])
    total = sum(measured["parts"].values())
    parts = [[name, f"{1000 * value:.2f}", f"{100 * value / total:.1f} %"] for name, value in measured["parts"].items()]
    execution = ", ".join(
        [measured["precision"], *(f"{name} {value}" for name, value in measured["execution"].items())]
    )
    seconds = ", ".join(f"{name} {value:.2f} s" for name, value in probe["seconds"].items())
    return "\n".join(
        [
            f"{measured['method']} with {measured['encoder']} on {measured['dataset']}: {measured['samples']} samples of "
            f"{measured['side']} x {measured['side']} x {measured['channels']}, recipe {measured['recipe']}, batch "
            f"{measured['batch_size']}, {measured['views']} views, {execution}, images {measured['images']}",
            f"{machine['device']} ({machine['platform']}, {machine['cpu_capability']}), {machine['threads']} threads, "
            f"torch {machine['torch']}, numpy {machine['numpy']}, python {machine['python']}",
            "",
            table(["what", "views/s", "lowest - highest", "ms per step", "of the peak"], rows),
            "",
            f"Training runs at {100 * measured['of_ceiling']:.0f} % of its ceiling. Medians of {measured['turns']} turns, "
            f"{measured['steps']} steps of each side after {measured['warm_up']} of warm-up.",
            f"Peak: {best['flops_per_second'] / 1e9:.0f} GFLOP/s, the fastest {best['type']} product of two {best['size']} "
            f"x {best['size']} matrices; the network takes {measured['flops_per_step'] / 1e9:.2f} GFLOP a step.",
            "",
            table(["part of a step", "ms", "share"], parts),
            "",
            f"Each part timed alone, the device waited for in between: together {1000 * total:.2f} ms.",
            f"Load average {measured['load_average']:.1f} for {machine['threads']} threads: what is above them slows both "
            "sides.",
            f"Probe of {probe['probes']} features on {probe['samples']} samples: {seconds}.",
        ]
    )
