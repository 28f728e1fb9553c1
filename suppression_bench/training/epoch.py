"""One epoch of training: its order of the samples and what is drawn for each view, as tables made before it begins."""

import numpy as np
from torch import Tensor

from generators.randomness import permutation, random_words
from suppression_bench.cell import Augmentation
from suppression_bench.training.augment import augment, draw
from suppression_bench.training.data import Samples

ORDER = 2  # never renumber: training/loop.py has 0, 1 and 3, training/augment.py all from 16


class Epoch:
    """The tables of one epoch: order of the samples and each view's draws, on the device."""

    def __init__(
        self, number: int, samples: Samples, views: int, shuffle: bool, augmentation: Augmentation, key: np.ndarray
    ):
        count, side, device = len(samples), samples.side, samples.device
        order = permutation(random_words(key, ORDER, 0, number, count=count)) if shuffle else np.arange(count)
        self.order = samples.follow(order)
        self.draws = draw(augmentation, side, key, range(views), number, count, device)
        self.count = views

    def views(self, samples: Samples, index: Tensor, augmentation: Augmentation) -> list[Tensor]:
        """Each view of a batch: its own crop and colours of the picture, the same bits; all views in one pass."""
        pictures, bits = samples.take(index)
        pictures, bits = pictures.repeat(self.count, 1, 1, 1), bits.repeat(self.count, 1)
        return list(augment(pictures, bits, self.draws.rows(index), augmentation).split(len(index)))
