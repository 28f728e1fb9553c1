"""The learning order: every feature's probe at log-spaced steps of training, which goes on as if nobody had looked."""

import time

import numpy as np
import torch
from torch import Tensor

from suppression_bench.cell import Probing
from suppression_bench.evaluation.probes import (
    OnlineProbe,
    Probe,
    Task,
    extract,
    fit_lbfgs,
    fit_sgd,
    pairs_of_splits,
    sample_rows,
)
from suppression_bench.method import Method
from suppression_bench.training import precision
from suppression_bench.training.data import Data, Samples

VERSION = 1
MOST = 5000  # samples of a split at the most: a trace costs many probes
L2 = 1e-3  # one strength for all points: a curve must not jump because another one was chosen


def trace_steps(steps: int, count: int) -> list[int]:
    """At most `count` steps from 1 to the last, evenly spaced on a log axis; close ones fall together at the start.

    >>> trace_steps(600, 12)
    [1, 2, 3, 6, 10, 18, 33, 59, 105, 188, 335, 600]
    >>> trace_steps(3, 12), trace_steps(600, 1)
    ([1, 2, 3], [600])
    """
    if count == 1:
        return [steps]
    return sorted({int(step) for step in np.rint(np.geomspace(1, steps, count))})


class Trace:
    """An observer of training that probes the encoder as it stands after some of the steps.

    By the cell's first kind of probe: lbfgs with one fixed L2 strength, sgd, or the online probe as it stands (lbfgs
    where that has nothing to learn). Fitted and tested on at most 5000 samples of each probe split, always the same.

    Arguments:
        data: the dataset.
        method: in training, on its device; weights, batch statistics and training modes stay as they are.
        options: the probes.
        steps: number of training steps in all.
        seed: of the sgd probe's order.
        online: the online probe, called before this observer, or None.
    """

    def __init__(
        self, data: Data, method: Method, options: Probing, steps: int, seed: int, online: OnlineProbe | None = None
    ):
        self.data, self.method, self.options, self.seed = data, method, options, seed
        self.kind = options.kinds[0] if options.kinds[0] != "online" or online else "lbfgs"
        self.online = online if self.kind == "online" else None
        self.steps = set(trace_steps(steps, options.trace))
        self.points: list[dict] = []
        self.seconds = 0.0  # they are no part of training's speed

    def __call__(self, step: int, features: Tensor, index: Tensor) -> None:
        if step + 1 in self.steps:
            began = time.monotonic()
            with precision.interrupted(self.method):
                self.points += self._measure(step + 1, index.device)
            self.seconds += time.monotonic() - began

    def state_dict(self) -> dict:
        return {"points": list(self.points), "seconds": self.seconds}

    def load_state_dict(self, state: dict) -> None:
        self.points, self.seconds = list(state["points"]), state["seconds"]

    def record(self) -> dict:
        """The record's `trace`."""
        l2 = L2 if self.kind == "lbfgs" else None
        return {"version": VERSION, "probe": self.kind, "l2": l2, "points": self.points}

    def _measure(self, step: int, device: torch.device) -> list[dict]:
        points = []
        for splits, names in pairs_of_splits(self.data).items():
            (train, train_rows), (test, test_rows) = (self._features(split, device) for split in splits)
            if not (bool(torch.isfinite(train).all()) and bool(torch.isfinite(test).all())):
                return []  # training ends as diverged, or its last point is missing
            tasks = [Task(f, self.data.classes(f), self.data.labels(splits[0], f)[train_rows]) for f in names]
            for probe in self._fit(train, tasks):
                truth = self.data.labels(splits[1], probe.feature)[test_rows]
                right = int((probe.predict(test).cpu().numpy() == truth).sum())
                points.append(
                    {
                        "step": step,
                        "feature": probe.feature,
                        "splits": list(splits),
                        "correct": right,
                        "n": len(truth),
                        "train_n": len(train_rows),
                        "converged": probe.converged,
                    }
                )
        return points

    def _fit(self, train: Tensor, tasks: list[Task]) -> list[Probe]:
        if self.online:
            names = {task.feature for task in tasks}
            return [probe for probe in self.online.probes() if probe.feature in names]
        return fit_lbfgs(train, tasks, [L2]) if self.kind == "lbfgs" else fit_sgd(train, tasks, seed=self.seed)

    def _features(self, split: str, device: torch.device) -> tuple[Tensor, np.ndarray]:
        samples = self.data.samples(split, device)
        rows = sample_rows(split, len(samples), MOST)
        part = Samples(*samples.take(rows.to(device)))
        return extract(self.method, part, ["encoder"], self.options.block_size)["encoder"], rows.numpy()
