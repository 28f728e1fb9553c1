"""What may be drawn for a view; the crop of a whole batch, each sample its own; constant channels appended untouched."""

from functools import lru_cache

import torch
from torch import Tensor

FEW_PIXELS = 32  # up to this side all filters fit a table of at most 8 MiB; 112 pixels would take 1.3 GB


def _filter(start: Tensor, length: Tensor, flip: Tensor | None, side: int, antialias: bool) -> Tensor:
    # (B, side, side) weights of a triangle filter that maps pixels start..start+length to `side` pixels.
    grid = torch.arange(side, device=start.device, dtype=torch.float32)
    start, length = start.float()[:, None, None], length.float()[:, None, None]
    scale = length / side
    target = grid[None, :, None]
    if flip is not None:
        target = torch.where(flip[:, None, None], side - 1 - target, target)
    centre = start + (target + 0.5) * scale
    pixel = grid[None, None, :]
    weights = (pixel + 0.5).sub(centre)
    weights = weights.div_(scale.clamp(min=1)) if antialias else weights
    weights = weights.abs_().neg_().add_(1).clamp_(min=0)
    weights = weights.mul_((pixel >= start) & (pixel < start + length))
    return weights.div_(weights.sum(2, keepdim=True))


@lru_cache(maxsize=4)
def _all_filters(side: int, antialias: bool, device: torch.device) -> Tensor:
    # (2 * side * side, side, side): every filter that a crop can ask for, by (flip, start, length - 1).
    flip, start, length = torch.cartesian_prod(*(torch.arange(n, device=device) for n in (2, side, side))).unbind(1)
    return _filter(start, length + 1, flip == 1, side, antialias)


def _filters(start: Tensor, length: Tensor, flip: Tensor | None, side: int, antialias: bool) -> Tensor:
    if side > FEW_PIXELS:
        return _filter(start, length, flip, side, antialias)
    place = start * side + length - 1
    place = place if flip is None else place + flip * side * side
    return _all_filters(side, antialias, start.device).index_select(0, place)


def separable(rows: Tensor, pictures: Tensor, columns: Tensor) -> Tensor:
    """Each picture between two matrices of its own: rows @ channel @ columns.T, as two batched products.

    Arguments:
        rows, columns: (B, S, S) float.
        pictures: (B, C, S, S) float.

    Returns:
        (B, C, S, S) float, in memory (B, S, C, S): so all channels of a sample are one product.

    >>> turned = separable(torch.eye(2)[None], torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]]), torch.eye(2).flip(0)[None])
    >>> turned[0, 0].tolist()
    [[2.0, 1.0], [4.0, 3.0]]
    """
    count, channels, side, _ = pictures.shape
    wide = pictures.permute(0, 2, 1, 3).reshape(count, side, channels * side)
    tall = torch.bmm(rows, wide).view(count, side * channels, side)
    return torch.bmm(tall, columns.transpose(1, 2)).view(count, side, channels, side).permute(0, 2, 1, 3)


def resized_crop(pictures: Tensor, boxes: Tensor, antialias: bool = True, flip: Tensor | None = None) -> Tensor:
    """Crop each picture to its own box, resize it back and mirror some, as two batched matrix products.

    Bilinear, half-pixel centres; equals torchvision's `resized_crop` on each sample to float precision.

    Arguments:
        pictures: (B, C, S, S) float.
        boxes: (B, 4) integers: top, left, height, width in pixels.
        antialias: average when shrinking.
        flip: (B,) booleans: which to mirror left and right.

    Returns:
        (B, C, S, S) float.

    >>> resized_crop(torch.ones(1, 1, 4, 4), torch.tensor([[0, 1, 2, 3]])).sum().item()
    16.0
    """
    side = pictures.shape[-1]
    rows = _filters(boxes[:, 0], boxes[:, 2], None, side, antialias).to(pictures.dtype)
    columns = _filters(boxes[:, 1], boxes[:, 3], flip, side, antialias).to(pictures.dtype)
    return separable(rows, pictures, columns)


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
    whole = with_room(pictures, bits)
    write(whole, pictures, bits)
    return whole


def with_room(pictures: Tensor, bits: Tensor) -> Tensor:
    """Memory for float views of pictures and their bits, not yet written."""
    channels = pictures.shape[1] + bits.shape[1]
    dtype = pictures.dtype if pictures.is_floating_point() else torch.float32
    # With one channel both layouts are one and the same memory.
    layout = torch.channels_last if channels > 1 else torch.contiguous_format
    shape = (len(pictures), channels, *pictures.shape[2:])
    return torch.empty(shape, dtype=dtype, device=pictures.device, memory_format=layout)


def write(whole: Tensor, pictures: Tensor, bits: Tensor) -> None:
    """Write pictures (B, C, H, W) and bits (B, n) into `whole` (B, C + n, H, W)."""
    channels, width = pictures.shape[1], pictures.shape[3]
    if bits.shape[1]:
        # One row of pixels first, then whole rows: single numbers strewn over memory take five times as long.
        line = whole.new_zeros(len(bits), 1, width, whole.shape[1])
        line[..., channels:] = bits[:, None, None, :]
        whole.permute(0, 2, 3, 1).copy_(line)
    whole[:, :channels] = pictures
