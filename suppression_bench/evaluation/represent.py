"""What the record says of the features themselves: how they lie on the sphere, and which feature neighbours share."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from generators.randomness import permutation, random_words, stream_key
from suppression_bench.cell import Augmentation, Probing
from suppression_bench.evaluation import metrics, separation
from suppression_bench.evaluation.features import extract
from suppression_bench.evaluation.neighbours import agreement, nearest, vote
from suppression_bench.method import Method
from suppression_bench.training.augment import Draws, augment, draw
from suppression_bench.training.data import Data, Samples

VERSION = 1
# One constant per decision: never renumber, a later decision takes the next number.
CHOICE = 0  # training/augment.py has all from 16
VOTERS, NEIGHBOURS = 200, 10
TEMPERATURE, PARTS = 0.1, 20  # of the gradient-ratio curve: one for all cells, so that the curves can be compared


@dataclass(frozen=True)
class View(Samples):
    """Samples each seen through its own draws: one view of N samples."""

    draws: Draws
    augmentation: Augmentation

    def whole(self, index: Tensor | slice) -> Tensor:
        """The augmented pictures with their constant channels: (B, C + n, H, W) float32."""
        pictures, bits = self.take(index)
        return augment(pictures, bits, self.draws.rows(index), self.augmentation)


def chosen(split: str, count: int, most: int) -> Tensor:
    """At most `most` of a split's samples, in file order: fixed by the metrics' version and the split alone.

    >>> chosen("probe-test", 5, 9).tolist()
    [0, 1, 2, 3, 4]
    """
    order = permutation(random_words(stream_key("metrics", VERSION, split, 0), CHOICE, count=count))
    return torch.from_numpy(np.sort(order[:most]))


def views(samples: Samples, rows: Tensor, split: str, augmentation: Augmentation, seed: int) -> list[Samples]:
    """Two augmented views of some samples, as in training; a sample's draws do not depend on which others are chosen.

    Arguments:
        samples: the whole split.
        rows: (n,) the chosen ones.
        split: its name.
        augmentation: the recipe's.
        seed: of the method.
    """
    device = samples.device
    rows = rows.to(device)
    pictures, bits = samples.take(rows)
    key, side = stream_key("metrics", VERSION, split, seed), pictures.shape[-1]
    draws = [draw(augmentation, side, key, range(view, view + 1), 0, len(samples), device) for view in range(2)]
    return [View(pictures, bits, one.map(lambda table: table[:, rows]), augmentation) for one in draws]


def normalised(features: Tensor) -> Tensor | None:
    """Each row divided by its length, or None where that cannot be: a row of zeros, NaN or Infinity.

    >>> normalised(torch.tensor([[3e30, 4e30]])), normalised(torch.zeros(1, 2))
    (tensor([[0.6000, 0.8000]]), None)
    """
    largest = features.abs().amax(1, keepdim=True)  # the square of a large number has no float32
    if not bool(torch.isfinite(largest).all()) or not bool((largest > 0).all()):
        return None
    return torch.nn.functional.normalize(features / largest, dim=1)


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
            train, test: layer -> (M, D) and (N, D) float32 features of whole pictures.
        """
        samples = self.data.samples(splits[1], next(iter(test.values())).device)
        rows = chosen(splits[1], len(samples), self.options.metric_samples)
        labels = {name: [torch.from_numpy(self.data.labels(split, name)) for split in splits] for name in names}
        both = [
            extract(self.method, view, self.options.layers, self.options.block_size)
            for view in views(samples, rows, splits[1], self.augmentation, self.seed)
        ]
        for layer, values in test.items():
            place = {"layer": layer, "splits": list(splits), "n": len(rows)}
            own = normalised(values[rows.to(values.device)])
            first, second = (normalised(view[layer]) for view in both)
            self.layers.append({**place, **_of_layer(own, first, second)})
            voters = None if own is None else normalised(train[layer])
            voters = None if voters is None else nearest(own, voters, k=VOTERS)
            near = None if own is None or len(rows) == 1 else nearest(own, k=NEIGHBOURS)
            for name, (train_labels, test_labels) in labels.items():
                found = _of_feature(own, voters, near, train_labels, test_labels[rows])
                self.features.append({"feature": name, **place, **found})

    def found(self) -> dict:
        """The record's `metrics`."""
        return {
            "version": VERSION, "temperature": TEMPERATURE, "voters": VOTERS, "neighbours": NEIGHBOURS,
            "layers": self.layers, "features": self.features,
        }  # fmt: skip


def _of_layer(own: Tensor | None, first: Tensor | None, second: Tensor | None) -> dict:
    viewed = first is not None and second is not None
    positive, negatives = separation.local_separation(first, second) if viewed else (None, [])
    return {
        "alignment": metrics.alignment(first, second) if viewed else None,
        "uniformity": None if own is None else metrics.uniformity(own),
        "effective_rank": None if own is None else metrics.effective_rank(own),
        "positive_similarity": positive,
        "negative_similarities": negatives,
        "gradient_ratios": (
            separation.gradient_ratio_curve(first, second, temperature=TEMPERATURE, bins=PARTS) if viewed else []
        ),
    }


def _of_feature(own: Tensor | None, voters: Tensor | None, near: Tensor | None, train_labels: Tensor, labels: Tensor):
    return {
        "tolerance": None if own is None else metrics.tolerance(own, labels),
        "sensitivity": None if own is None else metrics.semantic_sensitivity(own, labels),
        "knn_correct": None if voters is None else int((vote(voters, train_labels) == labels).sum()),
        "agreement": None if near is None else agreement(near, labels),
    }
