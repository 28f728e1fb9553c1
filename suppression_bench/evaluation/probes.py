"""Linear probes of a frozen encoder: its features once per split, then for each feature a linear classifier on them.

Three kinds, all weights fitted on train splits alone:

    lbfgs   logistic regression on standardised features, its ridge penalty chosen on a fifth of the train split
    sgd     softmax regression by plain SGD on the raw features, as in older papers: the weaker probe
    online  a dense layer that learned beside the method during training
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from generators.randomness import permutation, random_words, stream_key
from suppression_bench.cell import Augmentation, Probing, Train
from suppression_bench.evaluation import lbfgs, metrics
from suppression_bench.method import Method
from suppression_bench.training.augment import Draws, augment, draw
from suppression_bench.training.data import Data, Samples
from suppression_bench.training.optim import build_optimizer, learning_rate, set_learning_rate

VERSION = 1  # of the probes
METRICS_VERSION = 1
SMALLEST_DEVIATION = 1e-6
HELD_OUT = 5  # a fifth of the train split, the first of its shuffled order, chooses the L2 strength
# One constant per decision: never renumber, a later decision takes the next number.
SAMPLE_ROWS = 0  # training/augment.py has all from 16
VOTERS, NEIGHBOURS = 200, 10
TEMPERATURE, BINS = 0.1, 20  # of the gradient-ratio curve: one for all cells, so that the curves can be compared


@dataclass(frozen=True)
class Task:
    """A feature to probe: its name, number of classes and (N,) int64 labels of the train split."""

    feature: str
    classes: int
    labels: np.ndarray


@dataclass(frozen=True)
class Probe:
    """A fitted linear classifier of standardised features: class = argmax(((x - mean) / deviation) W + b).

    weights: (D + 1, classes), the bias b in the last row.
    mean, deviation: (D,); 0 and 1 for the kinds that take raw features.
    """

    feature: str
    kind: str
    weights: Tensor
    mean: Tensor
    deviation: Tensor
    l2: float | None
    converged: bool

    def predict(self, features: Tensor) -> Tensor:
        """(N, D) -> (N,) classes."""
        return scores((features - self.mean) / self.deviation, self.weights).argmax(1)


def scores(features: Tensor, weights: Tensor) -> Tensor:
    """Logits (N, classes) of (N, D) features under (D + 1, classes) weights, the bias in the last row."""
    return features @ weights[:-1] + weights[-1]


@torch.no_grad()
def extract(method: Method, samples: Samples, layers: Sequence[str], batch_size: int) -> dict[str, Tensor]:
    """Features of full, uncropped images with their constant channels, the network in evaluation mode.

    Arguments:
        method: trained; its training mode is restored.
        samples: a split on the method's device.
        layers: encoder (its output) and/or head (the method's projection of it).
        batch_size: images per forward pass.

    Returns:
        layer -> (N, D) float32.
    """
    was_training = method.training
    method.eval()
    blocks: dict[str, list[Tensor]] = {layer: [] for layer in layers}
    for start in range(0, len(samples), batch_size):
        hidden = method.encoder(samples.whole(slice(start, start + batch_size)))
        for layer in layers:
            blocks[layer].append((hidden if layer == "encoder" else method.project(hidden)).float())
    method.train(was_training)
    return {layer: torch.cat(parts) for layer, parts in blocks.items()}


# --- lbfgs -----------------------------------------------------------------------------------------------------------


def standardisation(features: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation (floored) of each train feature."""
    return features.mean(0), features.std(0, correction=0).clamp(min=SMALLEST_DEVIATION)


def split_train(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions to fit on and positions that choose the L2 strength: fixed by the probe's version alone."""
    order = permutation(random_words(stream_key("probe", VERSION, "train", 0), 0, count=count))
    return np.sort(order[count // HELD_OUT :]), np.sort(order[: count // HELD_OUT])


def fit_lbfgs(features: Tensor, tasks: list[Task], grid: Sequence[float]) -> list[Probe]:
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
    labels = [torch.from_numpy(task.labels).to(features.device) for task in tasks]
    strengths, start = [grid[0]] * len(tasks), None
    if len(grid) > 1:
        strengths, start = _choose_l2(standard, tasks, labels, sorted(grid, reverse=True))
    problems = [
        lbfgs.Problem(truth, task.classes, l2) for task, truth, l2 in zip(tasks, labels, strengths, strict=True)
    ]
    solutions = lbfgs.fit(standard, problems, start=start)
    return [
        Probe(task.feature, "lbfgs", solution.weights, mean, deviation, l2, solution.converged)
        for task, l2, solution in zip(tasks, strengths, solutions, strict=True)
    ]


def _choose_l2(
    standard: Tensor, tasks: list[Task], labels: list[Tensor], grid: Sequence[float]
) -> tuple[list[float], list[Tensor]]:
    # Each task's L2 strength, and the weights of the four fifths that it was chosen with: a start near the end.
    inner, outer = (torch.from_numpy(positions).to(standard.device) for positions in split_train(len(standard)))
    problems = [
        lbfgs.Problem(truth[inner], task.classes, l2) for task, truth in zip(tasks, labels, strict=True) for l2 in grid
    ]
    solutions = iter(lbfgs.fit(standard[inner], problems))
    held_out, strengths, start = standard[outer], [], []
    for truth in labels:
        candidates = [next(solutions).weights for _ in grid]
        correct = [int((scores(held_out, weights).argmax(1) == truth[outer]).sum()) for weights in candidates]
        best = correct.index(max(correct))
        strengths.append(grid[best])
        start.append(candidates[best])
    return strengths, start


# --- sgd -------------------------------------------------------------------------------------------------------------


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
    widths = [task.classes for task in tasks]
    weights = features.new_zeros(features.shape[1] + 1, sum(widths), requires_grad=True)
    optimizer = torch.optim.SGD([weights], lr=learning_rate, momentum=0.9)
    batch_size = min(batch_size, len(features))
    steps_per_epoch = len(features) // batch_size
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * steps_per_epoch)
    labels = [torch.from_numpy(task.labels).to(features.device) for task in tasks]
    key = stream_key("probe", VERSION, "sgd", seed)
    for epoch in range(epochs):
        order = torch.from_numpy(permutation(random_words(key, 0, 0, epoch, count=len(features)))).to(features.device)
        for step in range(steps_per_epoch):
            rows = order[step * batch_size : (step + 1) * batch_size]
            logits = scores(features[rows], weights).split(widths, dim=1)
            losses = (F.cross_entropy(part, truth[rows]) for part, truth in zip(logits, labels, strict=True))
            loss = sum(losses, features.new_zeros(()))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    columns = weights.detach().split(widths, dim=1)
    return [_raw(task, "sgd", part) for task, part in zip(tasks, columns, strict=True)]


def _raw(task: Task, kind: str, weights: Tensor) -> Probe:
    """A probe of features that are neither centred nor scaled."""
    mean = torch.zeros_like(weights[:-1, 0])
    return Probe(task.feature, kind, weights, mean, torch.ones_like(mean), None, True)


# --- online ----------------------------------------------------------------------------------------------------------


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
        # Made empty: its own initialisation would take random numbers of the method's.
        self.layer = nn.Linear(width, sum(self.classes), device="meta").to_empty(device="cpu")
        for rows in self.layer.weight.data.split(self.classes):
            bound = (6 / (width + len(rows))) ** 0.5
            rows.uniform_(-bound, bound, generator=generator)
        self.layer.bias.data.zero_()
        self.layer.to(device)
        self.labels = [torch.from_numpy(np.asarray(task.labels)).to(device) for task in tasks]
        self.training, self.steps, self.warmup = training, steps, warmup
        self.optimizer = build_optimizer(self.layer, training, 0.0)

    def __call__(self, step: int, features: Tensor, index: Tensor) -> None:
        set_learning_rate(self.optimizer, learning_rate(self.training, step, self.steps, self.warmup))
        logits = self.layer(features.float()).split(self.classes, dim=1)
        losses = (F.cross_entropy(part, truth[index]) for part, truth in zip(logits, self.labels, strict=True))
        loss = sum(losses, torch.zeros((), device=features.device))
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def state_dict(self) -> dict:
        return {"layer": self.layer.state_dict(), "optimizer": self.optimizer.state_dict()}

    def load_state_dict(self, state: dict) -> None:
        self.layer.load_state_dict(state["layer"])
        self.optimizer.load_state_dict(state["optimizer"])

    def probes(self) -> list[Probe]:
        """The layers as they stand, as probes of raw features."""
        weights = torch.cat([self.layer.weight.detach().T, self.layer.bias.detach()[None]])
        parts = (part.contiguous() for part in weights.split(self.classes, dim=1))
        return [_raw(task, "online", part) for task, part in zip(self.tasks, parts, strict=True)]


# --- every probe of a trained method ---------------------------------------------------------------------------------


def pairs_of_splits(data: Data) -> dict[tuple[str, str], list[str]]:
    """(train split, test split) -> the features that are probed on them: their features are computed once."""
    pairs: dict[tuple[str, str], list[str]] = {}
    for feature, splits in data.probes().items():
        pairs.setdefault(splits, []).append(feature)
    return pairs


def measure(
    data: Data,
    method: Method,
    options: Probing,
    online: dict[str, Probe],
    seed: int,
    device: torch.device,
    describe: Callable | None = None,
    keep: dict[tuple[str, str, str], np.ndarray] | None = None,
) -> tuple[list[dict], list[str], bool]:
    """Every probe of every feature: fitted on train splits alone, then confronted with the test splits.

    Arguments:
        data: the dataset.
        method: trained, on `device`.
        options: which probes.
        online: feature -> the probe that learned beside the method.
        seed: of the sgd probe's order.
        device: where the features are computed.
        describe: called after the probes of a pair of splits with (splits, features, train, test), where train and
            test are layer -> (N, D): the metrics, which need the same features.
        keep: filled with (probe, layer, feature) -> (N,) predicted classes of the test split.

    Returns:
        The record's entries, the layers whose features are constant, and whether all features are finite.
    """
    entries, collapsed = [], set()
    for (train_split, test_split), features in pairs_of_splits(data).items():
        train = extract(method, data.samples(train_split, device), options.layers, options.block_size)
        if not all(bool(torch.isfinite(values).all()) for values in train.values()):
            return [], sorted(collapsed), False  # numbers of other splits would look like a result
        tasks = {name: Task(name, data.classes(name), data.labels(train_split, name)) for name in features}
        fitted = []
        for layer, values in train.items():
            if bool((values.std(0, correction=0) <= SMALLEST_DEVIATION).all()):
                collapsed.add(layer)
            if "lbfgs" in options.kinds:
                fitted += [(layer, probe) for probe in fit_lbfgs(values, [*tasks.values()], options.l2)]
            if "sgd" in options.kinds:
                fitted += [(layer, probe) for probe in fit_sgd(values, [*tasks.values()], seed=seed)]
        if "encoder" in train:
            fitted += [("encoder", online[name]) for name in features if name in online]
        # Only now is anything of the test split read.
        test = extract(method, data.samples(test_split, device), options.layers, options.block_size)
        labels = {name: data.labels(test_split, name) for name in features}
        for layer, probe in fitted:
            predicted = probe.predict(test[layer])
            entry = _entry(probe, tasks[probe.feature], train[layer], predicted, labels[probe.feature])
            if keep is not None:
                keep[probe.kind, layer, probe.feature] = predicted.cpu().numpy()
            entries.append({**entry, "layer": layer, "splits": [train_split, test_split]})
        if describe:
            describe((train_split, test_split), features, train, test)
    return entries, sorted(collapsed), True


def _entry(probe: Probe, task: Task, train: Tensor, predicted: Tensor, labels: np.ndarray) -> dict:
    return {
        "feature": task.feature,
        "probe": probe.kind,
        "confusion": confusion(predicted, labels, task.classes),
        "n": len(labels),
        "chance": 1 / task.classes,
        "majority": float(np.bincount(labels).max() / len(labels)),
        "train_correct": int((probe.predict(train).cpu().numpy() == task.labels).sum()),
        "train_n": len(task.labels),
        "l2": probe.l2,
        "converged": probe.converged,
        "absent": sorted(set(range(task.classes)) - set(np.unique(task.labels).tolist())),
    }


def confusion(predicted: Tensor, labels: np.ndarray, classes: int) -> list[list[int]]:
    """Counts [true class][predicted class].

    >>> confusion(torch.tensor([0, 1, 1]), np.array([0, 0, 1]), 2)
    [[1, 1], [0, 1]]
    """
    truth = torch.from_numpy(np.asarray(labels)).to(predicted.device)
    return torch.bincount(truth * classes + predicted, minlength=classes * classes).reshape(classes, classes).tolist()


# --- metrics of the same features ------------------------------------------------------------------------------------


def sample_rows(split: str, count: int, most: int) -> Tensor:
    """At most `most` of a split's samples, in file order: fixed by the metrics' version and the split alone.

    >>> sample_rows("probe-test", 5, 9).tolist()
    [0, 1, 2, 3, 4]
    """
    order = permutation(random_words(stream_key("metrics", METRICS_VERSION, split, 0), SAMPLE_ROWS, count=count))
    return torch.from_numpy(np.sort(order[:most]))


@dataclass(frozen=True)
class View(Samples):
    """Samples each seen through its own draws: one view of N samples."""

    draws: Draws
    augmentation: Augmentation

    def whole(self, index: Tensor | slice) -> Tensor:
        """The augmented images with their constant channels: (B, C + n, H, W) float32."""
        images, bits = self.take(index)
        return augment(images, bits, self.draws.rows(index), self.augmentation)


def two_views(samples: Samples, rows: Tensor, split: str, augmentation: Augmentation, seed: int) -> list[View]:
    """Two augmented views of some samples, as in training; a sample's draws do not depend on which others are taken.

    Arguments:
        samples: the whole split.
        rows: (n,) which of them.
        split: its name.
        augmentation: the recipe's.
        seed: of the method.
    """
    device = samples.device
    rows = rows.to(device)
    images, bits = samples.take(rows)
    key, side = stream_key("metrics", METRICS_VERSION, split, seed), images.shape[-1]
    draws = [draw(augmentation, side, key, range(view, view + 1), 0, len(samples), device) for view in range(2)]
    return [View(images, bits, drawn.map(lambda table: table[:, rows]), augmentation) for drawn in draws]


class Representation:
    """Collects the metrics of every pair of splits that is probed; what is undefined is None.

    Arguments:
        data: the dataset.
        method: trained.
        options: layers, block size and the most samples (`metric_samples`).
        augmentation: of the two views.
        seed: of their draws.
    """

    def __init__(self, data: Data, method: Method, options: Probing, augmentation: Augmentation, seed: int):
        self.data, self.method, self.options, self.augmentation, self.seed = data, method, options, augmentation, seed
        self.layers: list[dict] = []
        self.features: list[dict] = []

    def __call__(self, splits: tuple[str, str], names: list[str], train: dict[str, Tensor], test: dict[str, Tensor]):
        """Describe the test split, with the train split as its neighbours.

        Arguments:
            splits: names of the train and the test split.
            names: the features that are probed on them.
            train, test: layer -> (M, D) and (N, D) float32 features of whole images.
        """
        samples = self.data.samples(splits[1], next(iter(test.values())).device)
        rows = sample_rows(splits[1], len(samples), self.options.metric_samples)
        labels = {name: [torch.from_numpy(self.data.labels(split, name)) for split in splits] for name in names}
        views = [
            extract(self.method, view, self.options.layers, self.options.block_size)
            for view in two_views(samples, rows, splits[1], self.augmentation, self.seed)
        ]
        for layer, values in test.items():
            keys = {"layer": layer, "splits": list(splits), "n": len(rows)}
            unit = metrics.normalised(values[rows.to(values.device)])
            first, second = (metrics.normalised(view[layer]) for view in views)
            self.layers.append({**keys, **_of_layer(unit, first, second)})
            train_unit = None if unit is None else metrics.normalised(train[layer])
            voters = None if unit is None or train_unit is None else metrics.nearest(unit, train_unit, k=VOTERS)
            neighbours = None if unit is None or len(rows) == 1 else metrics.nearest(unit, k=NEIGHBOURS)
            for name, (train_labels, test_labels) in labels.items():
                numbers = _of_feature(unit, voters, neighbours, train_labels, test_labels[rows])
                self.features.append({"feature": name, **keys, **numbers})

    def metrics(self) -> dict:
        """The record's `metrics`."""
        return {
            "version": METRICS_VERSION,
            "temperature": TEMPERATURE,
            "voters": VOTERS,
            "neighbours": NEIGHBOURS,
            "layers": self.layers,
            "features": self.features,
        }


def _of_layer(unit: Tensor | None, first: Tensor | None, second: Tensor | None) -> dict:
    numbers: dict = dict.fromkeys(("alignment", "uniformity", "effective_rank", "positive_similarity"))
    numbers |= {"negative_similarities": [], "gradient_ratios": []}
    if first is not None and second is not None:
        numbers["alignment"] = metrics.alignment(first, second)
        positive, negatives = metrics.local_separation(first, second)
        numbers["positive_similarity"], numbers["negative_similarities"] = positive, negatives
        numbers["gradient_ratios"] = metrics.gradient_ratio_curve(first, second, temperature=TEMPERATURE, bins=BINS)
    if unit is not None:
        numbers["uniformity"] = metrics.uniformity(unit)
        numbers["effective_rank"] = metrics.effective_rank(unit)
    return numbers


def _of_feature(
    unit: Tensor | None, voters: Tensor | None, neighbours: Tensor | None, train_labels: Tensor, labels: Tensor
) -> dict:
    return {
        "tolerance": None if unit is None else metrics.tolerance(unit, labels),
        "sensitivity": None if unit is None else metrics.semantic_sensitivity(unit, labels),
        "knn_correct": None if voters is None else int((metrics.vote(voters, train_labels) == labels).sum()),
        "agreement": None if neighbours is None else metrics.agreement(neighbours, labels),
    }
