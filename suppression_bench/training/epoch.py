"""One epoch of training: its order of the samples and what is drawn for each view, as tables made before it begins."""

import numpy as np
import torch
from torch import Tensor

from generators.randomness import permutation, random_words
from suppression_bench.training.data import Samples
from suppression_bench.training.views import Augmentation, append_constant, boxes, resized_crop

# One constant per decision: never renumber; training/loop.py has 0, 1 and 3.
ORDER, CROP = 2, 16  # view v crops with stream CROP + v


class Epoch:
    """The tables of one epoch: order of the samples and each view's crops, on the device."""

    def __init__(
        self, number: int, samples: Samples, views: int, shuffle: bool, augmentation: Augmentation, key: np.ndarray
    ):
        count, side, device = len(samples), samples.side, samples.device
        order = permutation(random_words(key, ORDER, 0, number, count=count)) if shuffle else np.arange(count)
        self.order = samples.follow(order)
        tables = [boxes(augmentation, side, key, CROP + view, number, count) for view in range(views)]
        self.boxes = [torch.from_numpy(table).to(device) for table in tables]

    def views(self, samples: Samples, index: Tensor, augmentation: Augmentation) -> list[Tensor]:
        """Each view of a batch: its own crop of the picture, the same bits."""
        pictures, bits = samples.take(index)
        pictures = pictures.float() / 255
        if augmentation.crop == "none":
            return [append_constant(pictures, bits) for _ in self.boxes]
        crops = [resized_crop(pictures, table[index], augmentation.antialias) for table in self.boxes]
        return [append_constant(crop, bits) for crop in crops]
