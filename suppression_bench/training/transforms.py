"""Transforms of a whole batch at once, each sample by its own parameters, equal to torchvision's functions.

Crop, colour jitter, grey, blur, solarize; and the constant channels, which nothing touches.
"""

from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor

FEW_PIXELS = 32  # up to this side all filters fit a table of at most 8 MiB; 112 pixels would take 1.3 GB
BRIGHTNESS, CONTRAST, SATURATION, HUE = range(4)
RED, GREEN, BLUE = 0.2989, 0.587, 0.114


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
    row = start * side + length - 1
    row = row if flip is None else row + flip * side * side
    return _all_filters(side, antialias, start.device).index_select(0, row)


def separable(rows: Tensor, images: Tensor, columns: Tensor) -> Tensor:
    """Separable linear maps, another one for each image: rows @ channel @ columns.T, as two batched products.

    Arguments:
        rows, columns: (B, S, S) float.
        images: (B, C, S, S) float.

    Returns:
        (B, C, S, S) float, in memory (B, S, C, S): so all channels of a sample are one product.

    >>> turned = separable(torch.eye(2)[None], torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]]), torch.eye(2).flip(0)[None])
    >>> turned[0, 0].tolist()
    [[2.0, 1.0], [4.0, 3.0]]
    """
    count, channels, side, _ = images.shape
    wide = images.permute(0, 2, 1, 3).reshape(count, side, channels * side)
    tall = torch.bmm(rows, wide).view(count, side * channels, side)
    return torch.bmm(tall, columns.transpose(1, 2)).view(count, side, channels, side).permute(0, 2, 1, 3)


def resized_crop(images: Tensor, boxes: Tensor, antialias: bool = True, flip: Tensor | None = None) -> Tensor:
    """Crop each image to its own box, resize it back and mirror some, as two batched matrix products.

    Bilinear, half-pixel centres; equals torchvision's `resized_crop` on each sample to float precision.

    Arguments:
        images: (B, C, S, S) float.
        boxes: (B, 4) integers: top, left, height, width in pixels.
        antialias: average when shrinking.
        flip: (B,) booleans: which to mirror left and right.

    Returns:
        (B, C, S, S) float.

    >>> resized_crop(torch.ones(1, 1, 4, 4), torch.tensor([[0, 1, 2, 3]])).sum().item()
    16.0
    """
    side = images.shape[-1]
    rows = _filters(boxes[:, 0], boxes[:, 2], None, side, antialias).to(images.dtype)
    columns = _filters(boxes[:, 1], boxes[:, 3], flip, side, antialias).to(images.dtype)
    return separable(rows, images, columns)


def append_constant(images: Tensor, bits: Tensor) -> Tensor:
    """Append each sample's bits as channels that are constant over the image.

    Arguments:
        images: (B, C, H, W) float.
        bits: (B, n) of 0 and 1.

    Returns:
        (B, C + n, H, W), channels last in memory: convolutions on CPU and GPU are faster so.

    >>> append_constant(torch.zeros(1, 1, 2, 2), torch.tensor([[1, 0]]))[0, :, 0, 0].tolist()
    [0.0, 1.0, 0.0]
    """
    views = allocate_views(images, bits)
    write_views(views, images, bits)
    return views


def allocate_views(images: Tensor, bits: Tensor) -> Tensor:
    """Memory for float views of images and their bits, not yet written."""
    channels = images.shape[1] + bits.shape[1]
    dtype = images.dtype if images.is_floating_point() else torch.float32
    # With one channel both layouts are one and the same memory.
    layout = torch.channels_last if channels > 1 else torch.contiguous_format
    shape = (len(images), channels, *images.shape[2:])
    return torch.empty(shape, dtype=dtype, device=images.device, memory_format=layout)


def write_views(views: Tensor, images: Tensor, bits: Tensor) -> None:
    """Write images (B, C, H, W) and bits (B, n) into `views` (B, C + n, H, W)."""
    channels, width = images.shape[1], images.shape[3]
    if bits.shape[1]:
        # One row of pixels first, then whole rows: single numbers strewn over memory take five times as long.
        line = views.new_zeros(len(bits), 1, width, views.shape[1])
        line[..., channels:] = bits[:, None, None, :]
        views.permute(0, 2, 3, 1).copy_(line)
    views[:, :channels] = images


def lightness(images: Tensor) -> Tensor:
    """ITU-R 601 grey values as torchvision rounds the weights: (B, 3, H, W) -> (B, H, W).

    >>> lightness(torch.tensor([1.0, 0.0, 0.0]).view(1, 3, 1, 1)).flatten()
    tensor([0.2989])
    """
    red, green, blue = images.unbind(1)
    return red.mul(RED).add_(green, alpha=GREEN).add_(blue, alpha=BLUE)


def grey(images: Tensor) -> Tensor:
    """Images without their colour: (B, 3, H, W), all three channels the lightness.

    >>> grey(torch.tensor([0.0, 1.0, 0.0]).view(1, 3, 1, 1)).flatten()
    tensor([0.5870, 0.5870, 0.5870])
    """
    return lightness(images)[:, None].expand_as(images)


def blend(images: Tensor, factor: Tensor, kind: Tensor) -> Tensor:
    """Brightness, contrast or saturation, each sample its own: factor * image + (1 - factor) * base, within 0 and 1.

    The base is black (brightness), the mean lightness (contrast) or the lightness (saturation).

    Arguments:
        images: (B, 3, H, W) in [0, 1].
        factor: (B,) 0 or more; 1 changes nothing.
        kind: (B,) BRIGHTNESS, CONTRAST or SATURATION.

    >>> blend(torch.full((1, 3, 1, 1), 0.25), torch.tensor([3.0]), torch.tensor([BRIGHTNESS])).flatten().tolist()
    [0.75, 0.75, 0.75]
    """
    rest = 1 - factor
    base = lightness(images)
    mean = base.mean((1, 2)) * rest * (kind == CONTRAST)
    base = base.mul_((rest * (kind == SATURATION))[:, None, None]).add_(mean[:, None, None])
    return torch.addcmul(base[:, None], images, factor[:, None, None, None]).clamp_(0, 1)


def hue(images: Tensor, shift: Tensor) -> Tensor:
    """Turn the hue: to hue, saturation and value, and back (Smith, SIGGRAPH 1978; the way back after A. van Dam).

    Arguments:
        images: (B, 3, H, W) in [0, 1].
        shift: (B,) in turns, -.5 to .5.

    >>> hue(torch.tensor([1.0, 0.0, 0.0]).view(1, 3, 1, 1), torch.tensor([1 / 3])).round(decimals=4).flatten().tolist()
    [0.0, 1.0, 0.0]
    """
    red, green, blue = images.unbind(1)
    value = torch.maximum(torch.maximum(red, green), blue)
    chroma = value - torch.minimum(torch.minimum(red, green), blue)
    # The hue in sixths of a turn, times the chroma: one way of writing it for each largest channel. A `lerp` with weight
    # 0 or 1 chooses exactly, and takes a tenth of what `where` takes on a CPU.
    sixths = (red - green).add_(chroma, alpha=4)
    sixths = torch.lerp(sixths, (blue - red).add_(chroma, alpha=2), _equal(green, value))
    sixths = torch.lerp(sixths, green - blue, _equal(red, value))
    sixths = sixths.div_(chroma.clamp(min=1e-12)).add_(6 * shift[:, None, None])
    turned = torch.empty_like(images)
    for channel, offset in enumerate((5, 3, 1)):
        angle = sixths + offset
        angle = angle.sub_((angle / 6).floor_().mul_(6))
        # A channel stays at the value for half the circle, falls by the chroma, and rises again.
        fall = torch.minimum(angle, 4 - angle).clamp_(0, 1)
        turned[:, channel] = torch.addcmul(value, fall, chroma, value=-1)
    return turned


def _equal(channel: Tensor, largest: Tensor) -> Tensor:
    return (channel - largest).sign_().add_(1)  # 1 where equal, 0 where below


def colour_jitter(images: Tensor, factors: Tensor, order: Tensor) -> Tensor:
    """Brightness, contrast, saturation and hue in an order drawn for each sample, as torchvision's ColorJitter.

    Arguments:
        images: (B, 3, H, W) in [0, 1].
        factors: (B, 4) of brightness, contrast and saturation (1 changes nothing) and the hue's shift (0 changes nothing).
        order: (B, 4) which comes first, second, third and last, a permutation of 0 to 3.

    >>> images = torch.rand(2, 3, 4, 4)
    >>> same = colour_jitter(images, torch.tensor([[1.0, 1.0, 1.0, 0.0]]).expand(2, 4), torch.arange(4).expand(2, 4))
    >>> torch.equal(same, images)
    True
    """
    turn = (order == HUE).long().argmax(1)
    shift = factors[:, HUE]
    turn = torch.where(shift == 0, -1, turn)
    # The three blends in their order: the hue is left out, so what follows it moves up.
    three = torch.arange(3, device=order.device)
    blends = order.gather(1, three + (three >= (order == HUE).long().argmax(1, keepdim=True)))
    for number in range(4):
        images = apply_to(images, turn == number, hue, shift)
        if number < 3:
            kind = blends[:, number]
            images = blend(images, factors.gather(1, kind[:, None])[:, 0], kind)
    return images


def apply_to(images: Tensor, chosen: Tensor, change: Callable[..., Tensor], *parameters: Tensor) -> Tensor:
    """Change the chosen images in place; the rest stay as they are.

    Arguments:
        images: (B, C, H, W), written into.
        chosen: (B,) booleans.
        change: a function of images and parameters.
        parameters: one row for each image.
    """
    rows = chosen.nonzero()[:, 0]
    if len(rows) > 0:
        images[rows] = change(images[rows], *(parameter[rows] for parameter in parameters))
    return images


def kernel_size(side: int) -> int:
    """A tenth of the side, odd, as SimCLR's.

    >>> kernel_size(224), kernel_size(112), kernel_size(32)
    (23, 11, 3)
    """
    return side // 20 * 2 + 1


@lru_cache(maxsize=4)
def _taps(side: int, device: torch.device) -> Tensor:
    # (K, side * side): where each tap of the kernel reads, reflected at the edges without repeating them.
    size = kernel_size(side)
    pixel = torch.arange(side, device=device)
    read = (pixel + torch.arange(-(size // 2), size // 2 + 1, device=device)[:, None]).abs()
    read = torch.where(read > side - 1, 2 * (side - 1) - read, read)
    return torch.nn.functional.one_hot(read, side).float().view(size, side * side)


def blur(images: Tensor, sigma: Tensor) -> Tensor:
    """Gaussian blur with a kernel of a tenth of the side, edges reflected, as two batched matrix products.

    Arguments:
        images: (B, C, S, S) float.
        sigma: (B,) standard deviation in pixels, above 0.

    >>> blur(torch.ones(1, 1, 40, 40), torch.tensor([2.0])).std().item() < 1e-6
    True
    """
    count, _, side, _ = images.shape
    half = kernel_size(side) // 2
    distance = torch.arange(-half, half + 1, device=images.device, dtype=torch.float32)
    weights = torch.softmax(-0.5 * (distance / sigma[:, None]).square(), dim=1)
    matrices = (weights @ _taps(side, images.device)).view(count, side, side)
    return separable(matrices, images, matrices)


def solarize(images: Tensor) -> Tensor:
    """Pixels of .5 and more inverted (Grill et al., BYOL, 2020, appendix B).

    >>> solarize(torch.tensor([0.25, 0.5, 1.0])).tolist()
    [0.25, 0.5, 0.0]
    """
    return torch.where(images >= 0.5, 1 - images, images)
