"""A cell timed without its data: a few real steps and small probes on random pictures of the right shape."""

import dataclasses
import time
from types import SimpleNamespace

import numpy as np
import torch

from suppression_bench import cell as cells
from suppression_bench.evaluation.probes import Probing, Representation, measure
from suppression_bench.method import Method
from suppression_bench.spec import Cell
from suppression_bench.speed import Turns, timed
from suppression_bench.training import loop
from suppression_bench.training.data import Data
from suppression_bench.training.options import Augmentation, Training

FIRST = 16  # samples of the first timed step, from which the batch of the second follows
PATIENCE = 1.0  # seconds that a timed step, or the forward passes for the probes, should take at most
STEPS = 2  # timed ones, behind one of warm-up
FEWEST, MOST = 100, 500  # samples of each split that the probes are timed on


class StandIn(Data):
    """Random pictures with labels, of a dataset's shape; what they show follows a little from the first feature.

    Arguments:
        facts: the dataset's manifest, or what is known of it before a sample is drawn.
        bits: constant channels in use.
        count: samples of every split.

    >>> facts = {"constant_channels": None, "picture_shape": [8, 8, 1], "targets": ["digit"],
    ...     "features": {"digit": {"classes": 10, "many": False}}, "probes": {"digit": ["pretrain", "probe-test"]}}
    >>> StandIn(facts, 0, 5).samples("pretrain").images.shape
    torch.Size([5, 1, 8, 8])
    """

    def __init__(self, facts: dict, bits: int, count: int):
        constant = facts["constant_channels"]
        self.manifest, self.bits, self.count = facts, bits, count
        self.code = constant["label"] if constant else None
        self.image_shape = tuple(facts["picture_shape"])
        self._splits: dict = {}
        self._samples: dict = {}
        self._reported = {"pretrain", *self.splits_in_use()}  # nothing is said of splits that do not fit on the device

    def _split(self, name: str):
        if name not in self._splits:
            chance = np.random.default_rng(len(self._splits))
            columns = {}
            for label, feature in self.manifest["features"].items():
                drawn = chance.integers(0, feature["classes"], self.count)
                columns[label] = [[value] for value in drawn.tolist()] if feature["many"] else drawn
            if self.code:
                columns[self.code] = chance.integers(0, 2**32, self.count)
            first = next((name for name, feature in self.manifest["features"].items() if not feature["many"]), None)
            # Labels that nothing tells would take a probe far longer than real ones.
            seen = columns[first] * 200 // self.manifest["features"][first]["classes"] if first else 100
            pictures = chance.integers(0, 56, (self.count, *self.image_shape))
            pictures = (pictures + np.reshape(seen, (-1, 1, 1, 1))).astype(np.uint8)
            self._splits[name] = SimpleNamespace(images=pictures, labels=columns, check=lambda rows: None)
        return self._splits[name]


def seconds(cell: Cell, facts: dict, counts: dict[str, int], device: torch.device) -> float:
    """About how long a cell takes on this machine, its data ready.

    Training is counted by steps of a batch that takes about a second at most, in proportion to the samples; probes and
    metrics by small splits, in proportion to the largest of their real ones.

    Arguments:
        cell: resolved; its data need not be there.
        facts: the dataset's manifest, or what is known of it before a sample is drawn.
        counts: samples of each split.
        device: where to train.
    """
    bits, training = cell.spec["data"]["bits"], Training(**cell.spec["train"])
    count = counts["pretrain"]
    method = cells.build(cell, StandIn(facts, bits, 1), count).to(device, memory_format=torch.channels_last)
    total, each = 0.0, None
    if method.trains:
        batch = min(FIRST, training.batch_size)
        each = _step(cell, method, StandIn(facts, bits, batch), device) / batch
        larger = min(training.batch_size, int(PATIENCE / each))
        if larger > batch:
            each = _step(cell, method, StandIn(facts, bits, larger), device) / larger
        total = each * training.batch_size * training.total_steps(count)
    return total + _probes(cell, method, facts, counts, device)


def _step(cell: Cell, method: Method, data: StandIn, device: torch.device) -> float:
    # Seconds of a step over all samples of the stand-in, with its share of the epoch's tables.
    changes = {"steps": 1 + STEPS, "epochs": None, "batch_size": data.count, "warmup_epochs": 0, "compile": "none"}
    changes["micro_batch"] = None
    training = dataclasses.replace(Training(**cell.spec["train"]), **changes)
    names = method.info.targets
    labels = {name: torch.from_numpy(data.labels("pretrain", name)).to(device) for name in names} if names else None
    turns = Turns(device, 1, STEPS, lambda: None)
    loop.train(
        method, data.samples("pretrain", device), training, Augmentation(**cell.spec["augmentation"]),
        seed=cell.spec["seed"], labels=labels, observers=[turns],
    )  # fmt: skip
    [(_, _, found)] = turns.blocks
    return found / STEPS


def _probes(cell: Cell, method: Method, facts: dict, counts: dict[str, int], device: torch.device) -> float:
    options, bits = Probing(**cell.spec["probe"]), cell.spec["data"]["bits"]
    augmentation, seed = Augmentation(**cell.spec["augmentation"]), cell.spec["seed"]
    small = StandIn(facts, bits, FIRST)
    method.eval()
    with torch.no_grad():
        some = small.samples("pretrain", device).whole(slice(0, FIRST))
        method.encoder(some)
        forward = timed(device, lambda: method.encoder(some)) / FIRST
    largest = max(counts[split] for split in small.splits_in_use())
    wanted = min(largest, MOST, max(FEWEST, int(PATIENCE / max(forward, 1e-9))))
    data = StandIn(facts, bits, wanted)
    describe = Representation(data, method, options, augmentation, seed) if options.metric_samples else None
    began = time.perf_counter()
    measure(data, method, options, {}, seed, device, describe)
    return (time.perf_counter() - began) * largest / wanted
