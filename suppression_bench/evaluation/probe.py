"""Linear probes on a frozen encoder: L-BFGS on standardised features, and plain SGD on raw ones."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from generators.randomness import permutation, random_words, stream_key
from suppression_bench.evaluation import lbfgs

VERSION = 1
SMALLEST_DEVIATION = 1e-6
MOST_TRACED = 100  # a record stays small
HELD_OUT = 5  # every fifth sample of the shuffled train split chooses the L2 strength


@dataclass(frozen=True)
class Task:
    """A feature to probe: its name, number of classes and (N,) int64 labels of the train split."""

    feature: str
    classes: int
    labels: np.ndarray


@dataclass(frozen=True)
class Probe:
    """A fitted linear classifier of standardised features: class = argmax(((x - mean) / deviation) W + b)."""

    feature: str
    kind: str
    weights: Tensor
    mean: Tensor
    deviation: Tensor
    l2: float | None
    converged: bool

    def predict(self, features: Tensor) -> Tensor:
        """(N, D) -> (N,) classes."""
        scores = ((features - self.mean) / self.deviation) @ self.weights[:-1] + self.weights[-1]
        return scores.argmax(1)


def confusion(predicted: Tensor, labels: np.ndarray, classes: int) -> list[list[int]]:
    """Counts [true class][predicted class].

    >>> confusion(torch.tensor([0, 1, 1]), np.array([0, 0, 1]), 2)
    [[1, 1], [0, 1]]
    """
    truth = torch.from_numpy(np.asarray(labels)).to(predicted.device)
    return torch.bincount(truth * classes + predicted, minlength=classes * classes).reshape(classes, classes).tolist()


def standardisation(features: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation (floored) of each train feature."""
    return features.mean(0), features.std(0, correction=0).clamp(min=SMALLEST_DEVIATION)


def split_train(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions to fit on and positions that choose the L2 strength: fixed by the probe's version alone."""
    order = permutation(random_words(stream_key("probe", VERSION, "train", 0), 0, count=count))
    return np.sort(order[count // HELD_OUT :]), np.sort(order[: count // HELD_OUT])


def fit_lbfgs(features: Tensor, tasks: list[Task], grid: list[float]) -> list[Probe]:
    """One logistic regression per feature; nothing but the train split is seen.

    Each L2 strength is fitted on four fifths of the train split and judged on the last fifth; the most accurate one
    (the strongest among equals) is fitted again on all of it.

    Arguments:
        features: (N, D) of the train split.
        tasks: what to predict.
        grid: L2 strengths, of mean cross entropy + l2 / 2 ||W||^2.
    """
    mean, deviation = standardisation(features)
    standard = (features - mean) / deviation
    grid = sorted(grid, reverse=True)
    labels = [torch.from_numpy(task.labels).to(features.device) for task in tasks]
    chosen, start = [grid[0]] * len(tasks), None
    if len(grid) > 1:
        chosen, start = _choose(standard, tasks, labels, grid)
    problems = [lbfgs.Problem(label, task.classes, l2) for task, label, l2 in zip(tasks, labels, chosen, strict=True)]
    return [
        Probe(task.feature, "lbfgs", solution.weights, mean, deviation, l2, solution.converged)
        for task, l2, solution in zip(tasks, chosen, lbfgs.fit(standard, problems, start=start), strict=True)
    ]


def _choose(standard: Tensor, tasks: list[Task], labels: list[Tensor], grid: list[float]):
    # Each task's L2 strength, and the weights of the four fifths that it was chosen with: a start near the end.
    inner, outer = (torch.from_numpy(part).to(standard.device) for part in split_train(len(standard)))
    problems = [
        lbfgs.Problem(label[inner], task.classes, l2) for task, label in zip(tasks, labels, strict=True) for l2 in grid
    ]
    solutions = iter(lbfgs.fit(standard[inner], problems))
    held_out, chosen, start = standard[outer], [], []
    for label in labels:
        found = [next(solutions).weights for _ in grid]
        right = [int((((held_out @ weights[:-1]) + weights[-1]).argmax(1) == label[outer]).sum()) for weights in found]
        best = right.index(max(right))
        chosen.append(grid[best])
        start.append(found[best])
    return chosen, start


def fit_sgd(
    features: Tensor,
    tasks: list[Task],
    *,
    seed: int = 0,
    epochs: int = 30,
    batch_size: int = 250,
    learning_rate: float = 0.1,
) -> list[Probe]:
    """Plain softmax regression on the raw features: SGD, momentum .9, cosine to 0, from zero, no weight decay.

    The weaker probe of older papers: features are neither centred nor scaled, and nothing is chosen.
    """
    owner = [task.classes for task in tasks]
    weights = features.new_zeros(features.shape[1] + 1, sum(owner), requires_grad=True)
    optimizer = torch.optim.SGD([weights], lr=learning_rate, momentum=0.9)
    batch_size = min(batch_size, len(features))
    per_epoch = len(features) // batch_size
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * per_epoch)
    labels = [torch.from_numpy(task.labels).to(features.device) for task in tasks]
    key = stream_key("probe", VERSION, "sgd", seed)
    for epoch in range(epochs):
        order = torch.from_numpy(permutation(random_words(key, 0, 0, epoch, count=len(features)))).to(features.device)
        for step in range(per_epoch):
            rows = order[step * batch_size : (step + 1) * batch_size]
            logits = features[rows] @ weights[:-1] + weights[-1]
            parts = zip(logits.split(owner, dim=1), labels, strict=True)
            loss = sum(torch.nn.functional.cross_entropy(part, label[rows]) for part, label in parts)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    zero, one = features.new_zeros(features.shape[1]), features.new_ones(features.shape[1])
    parts = weights.detach().split(owner, dim=1)
    return [Probe(task.feature, "sgd", part, zero, one, None, True) for task, part in zip(tasks, parts, strict=True)]
