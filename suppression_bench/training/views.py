"""Augmented views: each sample's own random crop, a whole batch at once; constant channels appended untouched."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from generators.dataset import UserError
from generators.randomness import below, random_words, uniform

ATTEMPTS = 10  # torchvision's, before it falls back to a central crop


@dataclass(frozen=True, kw_only=True)
class Augmentation:
    """What is drawn anew for each view.

    Arguments:
        crop: torchvision (area and log-aspect uniform), tensorflow (aspect and integer height uniform) or none.
        area: smallest and largest share of the picture's area.
        aspect: smallest and largest ratio of width to height.
        antialias: whether shrinking averages (torchvision does, the notebook's `tf.image.resize` does not).
    """

    crop: Literal["torchvision", "tensorflow", "none"] = "torchvision"
    area: list[float] = (0.08, 1.0)
    aspect: list[float] = (3 / 4, 4 / 3)
    antialias: bool = True

    def __post_init__(self):
        for name, (low, high), top in (
            ("area", _pair("area", self.area), 1.0),
            ("aspect", _pair("aspect", self.aspect), 100.0),
        ):
            if not 0 < low <= high <= top:
                raise UserError(
                    f"augmentation.{name} must be two numbers with 0 < low <= high <= {top:g}, got {low}, {high}"
                )


def _pair(name, values):
    if len(values) != 2:
        raise UserError(f"augmentation.{name} must be two numbers, got {values!r}")
    return values


def boxes(augmentation: Augmentation, side: int, key: np.ndarray, stream: int, epoch: int, count: int) -> np.ndarray:
    """One epoch's crop of every sample: (count, 4) int64 of top, left, height, width in pixels.

    A pure function of the named axes, so that CPU and GPU crop alike and a resumed run goes on exactly.
    """
    if augmentation.crop == "none":
        return np.tile(np.array([0, 0, side, side]), (count, 1))
    draw = _torchvision if augmentation.crop == "torchvision" else _tensorflow
    words = random_words(key, stream, 0, epoch, count=count * 2 * (ATTEMPTS + 1)).reshape(count, ATTEMPTS + 1, 2)
    height, width, valid = draw(words[:, :-1], side, augmentation)
    first = np.argmax(valid, axis=1)
    rows = np.arange(count)
    height = np.where(valid.any(1), height[rows, first], side)
    width = np.where(valid.any(1), width[rows, first], side)
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


def _filter(start: Tensor, length: Tensor, side: int, antialias: bool) -> Tensor:
    # (B, side, side) weights of a triangle filter that maps pixels start..start+length to `side` pixels.
    grid = torch.arange(side, device=start.device, dtype=torch.float32)
    start, length = start.float()[:, None, None], length.float()[:, None, None]
    scale = length / side
    centre = start + (grid[None, :, None] + 0.5) * scale
    reach = scale.clamp(min=1) if antialias else torch.ones_like(scale)
    pixel = grid[None, None, :]
    weights = (1 - ((pixel + 0.5 - centre) / reach).abs()).clamp(min=0)
    weights = weights * ((pixel >= start) & (pixel < start + length))
    return weights / weights.sum(2, keepdim=True)


def resized_crop(pictures: Tensor, boxes: Tensor, antialias: bool = True) -> Tensor:
    """Crop each picture to its own box and resize it back, as two batched matrix products.

    Bilinear, half-pixel centres; equals torchvision's `resized_crop` on each sample to float precision.

    Arguments:
        pictures: (B, C, S, S) float.
        boxes: (B, 4) integers: top, left, height, width in pixels.
        antialias: average when shrinking.

    Returns:
        (B, C, S, S) float.

    >>> resized_crop(torch.ones(1, 1, 4, 4), torch.tensor([[0, 1, 2, 3]])).sum().item()
    16.0
    """
    side = pictures.shape[-1]
    rows = _filter(boxes[:, 0], boxes[:, 2], side, antialias).to(pictures.dtype)
    columns = _filter(boxes[:, 1], boxes[:, 3], side, antialias).to(pictures.dtype)
    return torch.matmul(torch.matmul(rows[:, None], pictures), columns[:, None].transpose(-1, -2))


def append_constant(pictures: Tensor, bits: Tensor) -> Tensor:
    """Append each sample's bits as channels that are constant over the picture.

    Arguments:
        pictures: (B, C, H, W) float.
        bits: (B, n) of 0 and 1.

    Returns:
        (B, C + n, H, W), channels last in memory: convolutions on CPU and GPU are faster so.

    >>> append_constant(torch.zeros(1, 1, 2, 2), torch.tensor([[1, 0]]))[0, :, 0, 0].tolist()
    [0.0, 1.0, 0.0]
    """
    planes = bits.to(pictures.dtype)[:, :, None, None].expand(-1, -1, *pictures.shape[2:])
    return torch.cat([pictures, planes], dim=1).contiguous(memory_format=torch.channels_last)
