"""An epoch's augmentation as tables of what is drawn for each sample and view, and a batch of views made from them."""

from dataclasses import dataclass, fields
from itertools import permutations

import numpy as np
import torch
from torch import Tensor

from generators.randomness import below, random_words, uniform
from suppression_bench.cell import Augmentation
from suppression_bench.training import colour
from suppression_bench.training.boxes import boxes
from suppression_bench.training.views import resized_crop, with_room, write

# One constant per decision: never renumber. View v draws with stream CROP + v, so there is room for 16 views.
CROP, FLIP, JITTER, GREY, BLUR, SOLARIZE = 16, 32, 48, 64, 80, 96
RANGES = (0.8, 0.8, 0.8, 0.2)  # of brightness, contrast, saturation and hue at strength 1 (Chen et al., SimCLR, 2020)
SIGMAS = (0.1, 2.0)  # of the blur, in pixels
ORDERS = np.array(list(permutations(range(4))))
BLOCK = 2**19  # numbers of a picture block that a core keeps at hand


@dataclass(frozen=True)
class Draws:
    """What was drawn, None where nothing is: for V views of N samples, or in `rows` for one list of pictures.

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

    def map(self, function) -> "Draws":
        """Each table that there is, changed."""
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
        side: of the pictures, in pixels.
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

    def table(values):
        return torch.from_numpy(np.stack(values)).to(device)

    def words(stream, view, each):
        return random_words(key, stream + view, 0, epoch, count=count * each).reshape(count, each)

    def chosen(name, stream):
        return [uniform(words(stream, view, 1)[:, 0]) < augmentation.probability(name, view) for view in views]

    found = {}
    if augmentation.crop != "none" or augmentation.uses("flip"):
        found["boxes"] = table([boxes(augmentation, side, key, CROP + view, epoch, count) for view in views])
    for name, stream in (("flip", FLIP), ("grey", GREY), ("solarize", SOLARIZE)):
        if augmentation.uses(name):
            found[name] = table(chosen(name, stream))
    if augmentation.uses("jitter"):
        drawn = [_jitter(words(JITTER, view, 6), augmentation) for view in views]
        found["factors"], found["order"] = (table(values) for values in zip(*drawn, strict=True))
    if augmentation.uses("blur"):
        found["sigma"] = table([_sigma(words(BLUR, view, 2), augmentation.probability("blur", view)) for view in views])
    return Draws(**found)


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


def augment(pictures: Tensor, bits: Tensor, draws: Draws, augmentation: Augmentation) -> Tensor:
    """Views of pictures by what was drawn for them, with their constant channels, which nothing touches.

    Arguments:
        pictures: (B, C, S, S) uint8.
        bits: (B, n) of 0 and 1.
        draws: B rows.
        augmentation: the draws' own.

    Returns:
        (B, C + n, S, S) float32, channels last in memory.

    >>> augment(torch.zeros(2, 1, 4, 4, dtype=torch.uint8), torch.ones(2, 3), Draws(), Augmentation()).shape
    torch.Size([2, 4, 4, 4])
    """
    whole = with_room(pictures, bits)
    count = len(pictures)
    # A CPU works block by block, so that what one step writes is still in its cache when the next one reads it.
    block = max(1, BLOCK // pictures[0].numel()) if pictures.device.type == "cpu" else count
    for start in range(0, count, block):
        rows = slice(start, start + block)
        part = draws.map(lambda table, rows=rows: table[rows])
        write(whole[rows], _changed(pictures[rows].float() / 255, part, augmentation), bits[rows])
    return whole


def _changed(pictures: Tensor, draws: Draws, augmentation: Augmentation) -> Tensor:
    if draws.boxes is not None:
        pictures = resized_crop(pictures, draws.boxes, augmentation.antialias, draws.flip)
    if draws.factors is not None:
        pictures = colour.colour_jitter(pictures, draws.factors, draws.order)
    if draws.grey is not None:
        pictures = colour.changed(pictures, draws.grey, colour.grey)
    if draws.sigma is not None:
        pictures = colour.changed(pictures, draws.sigma > 0, colour.blur, draws.sigma)
    if draws.solarize is not None:
        pictures = colour.changed(pictures, draws.solarize, colour.solarize)
    return pictures
