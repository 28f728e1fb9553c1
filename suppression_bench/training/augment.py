"""Augmentation: an epoch's draws for each sample and view as tables, and a batch of views made from them."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from itertools import permutations

import numpy as np
import torch
from torch import Tensor

from generators.randomness import below, random_words, uniform
from suppression_bench.cell import Augmentation
from suppression_bench.training import transforms

# One constant per decision: never renumber. View v draws with stream CROP + v, so there is room for 16 views.
CROP, FLIP, JITTER, GREY, BLUR, SOLARIZE = 16, 32, 48, 64, 80, 96
ATTEMPTS = 10  # at a crop's size: torchvision's number, before it falls back to a central crop
RANGES = (0.8, 0.8, 0.8, 0.2)  # of brightness, contrast, saturation and hue at strength 1 (Chen et al., SimCLR, 2020)
SIGMAS = (0.1, 2.0)  # of the blur, in pixels
ORDERS = np.array(list(permutations(range(4))))
BLOCK = 2**19  # numbers of a block of images that a core's cache holds


@dataclass(frozen=True)
class Draws:
    """What was drawn, None where nothing is: for V views of N samples, or in `rows` for one list of images.

    boxes: (V, N, 4) int64 crops: top, left, height, width.
    flip, grey, solarize: (V, N) booleans.
    factors: (V, N, 4) float32 of brightness, contrast, saturation and hue; 1, 1, 1, 0 where nothing changes.
    order: (V, N, 4) int64, the order in which those four are applied.
    sigma: (V, N) float32 of the blur, 0 where there is none.
    """

    boxes: Tensor | None = None
    flip: Tensor | None = None
    factors: Tensor | None = None
    order: Tensor | None = None
    grey: Tensor | None = None
    sigma: Tensor | None = None
    solarize: Tensor | None = None

    def map(self, function: Callable[[Tensor], Tensor]) -> "Draws":
        """The same draws with a function applied to each table."""
        tables = {field.name: getattr(self, field.name) for field in fields(self)}
        return Draws(**{name: None if table is None else function(table) for name, table in tables.items()})

    def rows(self, index: Tensor | slice) -> "Draws":
        """Those of a batch (B,): all of view 0, then all of view 1, and so on (V * B rows)."""
        return self.map(lambda table: table[:, index].flatten(0, 1))


def draw(
    augmentation: Augmentation, side: int, key: np.ndarray, views: range, epoch: int, count: int, device: torch.device
) -> Draws:
    """One epoch's draws of every sample: pure functions of the named axes, so that CPU and GPU see the same.

    Arguments:
        augmentation: what to draw.
        side: of the images, in pixels.
        key: of the split.
        views: their numbers.
        epoch: its number.
        count: samples N.
        device: where the tables go.

    >>> from generators.randomness import stream_key
    >>> key = stream_key("example", 1, "pretrain", 0)
    >>> draws = draw(Augmentation(flip=0.5), 28, key, range(2), 0, 100, torch.device("cpu"))
    >>> draws.boxes.shape, draws.flip.shape, draws.grey
    (torch.Size([2, 100, 4]), torch.Size([2, 100]), None)
    """

    def table(values) -> Tensor:
        return torch.from_numpy(np.stack(values)).to(device)

    def words(stream: int, view: int, each: int) -> np.ndarray:
        return random_words(key, stream + view, 0, epoch, count=count * each).reshape(count, each)

    def chosen(name: str, stream: int) -> list[np.ndarray]:
        return [uniform(words(stream, view, 1)[:, 0]) < augmentation.probability(name, view) for view in views]

    tables = {}
    if augmentation.crop != "none" or augmentation.uses("flip"):
        tables["boxes"] = table([crop_boxes(augmentation, side, key, CROP + view, epoch, count) for view in views])
    for name, stream in (("flip", FLIP), ("grey", GREY), ("solarize", SOLARIZE)):
        if augmentation.uses(name):
            tables[name] = table(chosen(name, stream))
    if augmentation.uses("jitter"):
        jitters = [_jitter(words(JITTER, view, 6), augmentation) for view in views]
        tables["factors"], tables["order"] = (table(values) for values in zip(*jitters, strict=True))
    if augmentation.uses("blur"):
        probabilities = [augmentation.probability("blur", view) for view in views]
        tables["sigma"] = table([_sigma(words(BLUR, view, 2), p) for view, p in zip(views, probabilities, strict=True)])
    return Draws(**tables)


def crop_boxes(
    augmentation: Augmentation, side: int, key: np.ndarray, stream: int, epoch: int, count: int
) -> np.ndarray:
    """One epoch's crop of every sample: (count, 4) int64 of top, left, height, width in pixels.

    A pure function of the named axes, so that CPU and GPU crop alike and a resumed run goes on exactly.
    """
    if augmentation.crop == "none":
        return np.tile(np.array([0, 0, side, side]), (count, 1))
    size_of = _torchvision_size if augmentation.crop == "torchvision" else _tensorflow_size
    words = random_words(key, stream, 0, epoch, count=count * 2 * (ATTEMPTS + 1)).reshape(count, ATTEMPTS + 1, 2)
    height, width, valid = size_of(words[:, 0], side, augmentation)
    again = np.flatnonzero(~valid)  # few: later attempts are looked at only where the first does not fit
    if len(again):
        heights, widths, fits = size_of(words[again, 1:-1], side, augmentation)
        rows, first = np.arange(len(again)), np.argmax(fits, axis=1)
        fits = fits[rows, first]  # where no attempt fits, the crop is the whole image
        height[again] = np.where(fits, heights[rows, first], side)
        width[again] = np.where(fits, widths[rows, first], side)
    # tf draws offsets below the room, torchvision up to it.
    extra = 0 if augmentation.crop == "tensorflow" else 1
    top = below(words[:, -1, 0], np.maximum(side - height + extra, 1))
    left = below(words[:, -1, 1], np.maximum(side - width + extra, 1))
    return np.stack([top, left, height, width], axis=1)


def _torchvision_size(words: np.ndarray, side: int, augmentation: Augmentation):
    # RandomResizedCrop.get_params; its fallback for a square image and aspects around 1 is the whole image.
    low, high = np.log(augmentation.aspect)
    area = (augmentation.area[0] + uniform(words[..., 0]) * (augmentation.area[1] - augmentation.area[0])) * side * side
    ratio = np.exp(low + uniform(words[..., 1]) * (high - low))
    width, height = np.rint(np.sqrt(area * ratio)).astype(int), np.rint(np.sqrt(area / ratio)).astype(int)
    return height, width, (0 < width) & (width <= side) & (0 < height) & (height <= side)


def _tensorflow_size(words: np.ndarray, side: int, augmentation: Augmentation):
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
    for step, outside, bound in ((1, np.less, smallest), (-1, np.greater, largest)):
        height = np.where(outside(height * np.rint(height * ratio).astype(int), bound), height + step, height)
    width = np.rint(height * ratio).astype(int)
    area = height * width
    inside = (0 < width) & (width <= side) & (0 < height) & (height <= side)
    return height, width, (area >= smallest) & (area <= largest) & inside


def _jitter(words: np.ndarray, augmentation: Augmentation) -> tuple[np.ndarray, np.ndarray]:
    # Whether, four factors, the order: (N, 4) float32 and (N, 4) int64.
    reach = np.array(RANGES) * augmentation.jitter_strength
    low, high = 1 - reach, 1 + reach
    low[:3] = np.maximum(low[:3], 0)
    low[3], high[3] = -reach[3], reach[3]
    factors = low + uniform(words[:, 1:5]) * (high - low)
    applied = uniform(words[:, :1]) < augmentation.jitter
    return np.where(applied, factors, [1, 1, 1, 0]).astype(np.float32), ORDERS[below(words[:, 5], len(ORDERS))]


def _sigma(words: np.ndarray, probability: float) -> np.ndarray:
    sigma = SIGMAS[0] + uniform(words[:, 1]) * (SIGMAS[1] - SIGMAS[0])
    return np.where(uniform(words[:, 0]) < probability, sigma, 0).astype(np.float32)


def augment(images: Tensor, bits: Tensor, draws: Draws, augmentation: Augmentation) -> Tensor:
    """Views of images by what was drawn for them, with their constant channels, which nothing touches.

    Arguments:
        images: (B, C, S, S) uint8.
        bits: (B, n) of 0 and 1.
        draws: B rows.
        augmentation: from which the draws are.

    Returns:
        (B, C + n, S, S) float32, channels last in memory.

    >>> augment(torch.zeros(2, 1, 4, 4, dtype=torch.uint8), torch.ones(2, 3), Draws(), Augmentation()).shape
    torch.Size([2, 4, 4, 4])
    """
    views, count = transforms.allocate_views(images, bits), len(images)
    # A CPU works block by block, so that what one step writes is still in its cache when the next one reads it.
    block = max(1, BLOCK // images[0].numel()) if images.device.type == "cpu" else count
    for start in range(0, count, block):
        rows = slice(start, start + block)
        changed = _transform(images[rows].float() / 255, draws.map(lambda table, rows=rows: table[rows]), augmentation)
        transforms.write_views(views[rows], changed, bits[rows])
    return views


def _transform(images: Tensor, draws: Draws, augmentation: Augmentation) -> Tensor:
    if draws.boxes is not None:
        images = transforms.resized_crop(images, draws.boxes, augmentation.antialias, draws.flip)
    if draws.factors is not None and draws.order is not None:
        images = transforms.colour_jitter(images, draws.factors, draws.order)
    if draws.grey is not None:
        images = transforms.apply_to(images, draws.grey, transforms.grey)
    if draws.sigma is not None:
        images = transforms.apply_to(images, draws.sigma > 0, transforms.blur, draws.sigma)
    if draws.solarize is not None:
        images = transforms.apply_to(images, draws.solarize, transforms.solarize)
    return images
