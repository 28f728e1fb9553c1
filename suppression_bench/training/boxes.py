"""Where the crops lie: each sample's own box, all of an epoch's at once."""

import numpy as np

from generators.randomness import below, random_words, uniform
from suppression_bench.cell import Augmentation

ATTEMPTS = 10  # torchvision's, before it falls back to a central crop


def boxes(augmentation: Augmentation, side: int, key: np.ndarray, stream: int, epoch: int, count: int) -> np.ndarray:
    """One epoch's crop of every sample: (count, 4) int64 of top, left, height, width in pixels.

    A pure function of the named axes, so that CPU and GPU crop alike and a resumed run goes on exactly.
    """
    if augmentation.crop == "none":
        return np.tile(np.array([0, 0, side, side]), (count, 1))
    draw = _torchvision if augmentation.crop == "torchvision" else _tensorflow
    words = random_words(key, stream, 0, epoch, count=count * 2 * (ATTEMPTS + 1)).reshape(count, ATTEMPTS + 1, 2)
    height, width, valid = draw(words[:, 0], side, augmentation)
    again = np.flatnonzero(~valid)  # few: later attempts are looked at only where the first does not fit
    if len(again):
        more = draw(words[again, 1:-1], side, augmentation)
        first = np.argmax(more[2], axis=1)[:, None]
        found = [np.take_along_axis(values, first, axis=1)[:, 0] for values in more]
        height[again], width[again] = (np.where(found[2], values, side) for values in found[:2])
    # tf draws offsets below the room, torchvision up to it.
    extra = 0 if augmentation.crop == "tensorflow" else 1
    top = below(words[:, -1, 0], np.maximum(side - height + extra, 1))
    left = below(words[:, -1, 1], np.maximum(side - width + extra, 1))
    return np.stack([top, left, height, width], axis=1)


def _torchvision(words, side, augmentation):
    # RandomResizedCrop.get_params; its fallback for a square picture and aspects around 1 is the whole picture.
    low, high = np.log(augmentation.aspect)
    area = (augmentation.area[0] + uniform(words[..., 0]) * (augmentation.area[1] - augmentation.area[0])) * side * side
    ratio = np.exp(low + uniform(words[..., 1]) * (high - low))
    width, height = np.rint(np.sqrt(area * ratio)).astype(int), np.rint(np.sqrt(area / ratio)).astype(int)
    return height, width, (0 < width) & (width <= side) & (0 < height) & (height <= side)


def _tensorflow(words, side, augmentation):
    # tf.image.sample_distorted_bounding_box: uniform aspect, then a uniform integer height between the two that give
    # the smallest and the largest area, then one step up or down if rounding left the allowed areas.
    (low, high), total = augmentation.aspect, side * side
    smallest, largest = augmentation.area[0] * total, augmentation.area[1] * total
    ratio = low + uniform(words[..., 0]) * (high - low)
    height = np.rint(np.sqrt(smallest / ratio)).astype(int)
    tallest = np.rint(np.sqrt(largest / ratio)).astype(int)
    tallest = np.where(np.rint(tallest * ratio) > side, ((side + 0.5 - 1e-7) / ratio).astype(int), tallest)
    tallest = np.minimum(tallest, side)
    height = np.minimum(height, tallest)
    height = height + below(words[..., 1], tallest - height + 1)
    for step, wrong in ((1, np.less), (-1, np.greater)):
        bound = smallest if step == 1 else largest
        height = np.where(wrong(height * np.rint(height * ratio).astype(int), bound), height + step, height)
    width = np.rint(height * ratio).astype(int)
    area = height * width
    return (
        height,
        width,
        (area >= smallest) & (area <= largest) & (0 < width) & (width <= side) & (0 < height) & (height <= side),
    )
