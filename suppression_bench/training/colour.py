"""What a view does to colours: each sample by its own factors, a whole batch at once, equal to torchvision's functions."""

from functools import lru_cache

import torch
from torch import Tensor

from suppression_bench.training.views import separable

BRIGHTNESS, CONTRAST, SATURATION, HUE = range(4)
RED, GREEN, BLUE = 0.2989, 0.587, 0.114


def lightness(pictures: Tensor) -> Tensor:
    """ITU-R 601 grey values as torchvision rounds the weights: (B, 3, H, W) -> (B, H, W).

    >>> lightness(torch.tensor([1.0, 0.0, 0.0]).view(1, 3, 1, 1)).flatten()
    tensor([0.2989])
    """
    red, green, blue = pictures.unbind(1)
    return red.mul(RED).add_(green, alpha=GREEN).add_(blue, alpha=BLUE)


def grey(pictures: Tensor) -> Tensor:
    """Pictures without their colour: (B, 3, H, W), all three channels the lightness.

    >>> grey(torch.tensor([0.0, 1.0, 0.0]).view(1, 3, 1, 1)).flatten()
    tensor([0.5870, 0.5870, 0.5870])
    """
    return lightness(pictures)[:, None].expand_as(pictures)


def blend(pictures: Tensor, factor: Tensor, kind: Tensor) -> Tensor:
    """Brightness, contrast or saturation, each sample its own: factor * picture + (1 - factor) * other, within 0 and 1.

    The other is black (brightness), the mean lightness (contrast) or the lightness (saturation).

    Arguments:
        pictures: (B, 3, H, W) in [0, 1].
        factor: (B,) 0 or more; 1 changes nothing.
        kind: (B,) BRIGHTNESS, CONTRAST or SATURATION.

    >>> blend(torch.full((1, 3, 1, 1), 0.25), torch.tensor([3.0]), torch.tensor([BRIGHTNESS])).flatten().tolist()
    [0.75, 0.75, 0.75]
    """
    rest = 1 - factor
    other = lightness(pictures)
    mean = other.mean((1, 2)) * rest * (kind == CONTRAST)
    other = other.mul_((rest * (kind == SATURATION))[:, None, None]).add_(mean[:, None, None])
    return torch.addcmul(other[:, None], pictures, factor[:, None, None, None]).clamp_(0, 1)


def hue(pictures: Tensor, shift: Tensor) -> Tensor:
    """Turn the hue: to hue, saturation and value, and back (Smith, SIGGRAPH 1978; the way back after A. van Dam).

    Arguments:
        pictures: (B, 3, H, W) in [0, 1].
        shift: (B,) in turns, -.5 to .5.

    >>> hue(torch.tensor([1.0, 0.0, 0.0]).view(1, 3, 1, 1), torch.tensor([1 / 3])).round(decimals=4).flatten().tolist()
    [0.0, 1.0, 0.0]
    """
    red, green, blue = pictures.unbind(1)
    value = torch.maximum(torch.maximum(red, green), blue)
    chroma = value - torch.minimum(torch.minimum(red, green), blue)
    # The hue in sixths of a turn, times the chroma: one way of writing it for each largest channel. A `lerp` with weight
    # 0 or 1 chooses exactly, and takes a tenth of what `where` takes on a CPU.
    sixths = (red - green).add_(chroma, alpha=4)
    sixths = torch.lerp(sixths, (blue - red).add_(chroma, alpha=2), _equal(green, value))
    sixths = torch.lerp(sixths, green - blue, _equal(red, value))
    sixths = sixths.div_(chroma.clamp(min=1e-12)).add_(6 * shift[:, None, None])
    turned = torch.empty_like(pictures)
    for channel, offset in enumerate((5, 3, 1)):
        place = sixths + offset
        place = place.sub_((place / 6).floor_().mul_(6))
        # A channel stays at the value for half the circle, falls by the chroma, and rises again.
        fall = torch.minimum(place, 4 - place).clamp_(0, 1)
        turned[:, channel] = torch.addcmul(value, fall, chroma, value=-1)
    return turned


def _equal(channel: Tensor, largest: Tensor) -> Tensor:
    return (channel - largest).sign_().add_(1)  # 1 where equal, 0 where below


def colour_jitter(pictures: Tensor, factors: Tensor, order: Tensor) -> Tensor:
    """Brightness, contrast, saturation and hue in each sample's own order, as torchvision's ColorJitter.

    Arguments:
        pictures: (B, 3, H, W) in [0, 1].
        factors: (B, 4) of brightness, contrast and saturation (1 changes nothing) and the hue's shift (0 changes nothing).
        order: (B, 4) which comes first, second, third and last, a permutation of 0 to 3.

    >>> pictures = torch.rand(2, 3, 4, 4)
    >>> same = colour_jitter(pictures, torch.tensor([[1.0, 1.0, 1.0, 0.0]]).expand(2, 4), torch.arange(4).expand(2, 4))
    >>> torch.equal(same, pictures)
    True
    """
    turn = (order == HUE).long().argmax(1)
    shift = factors[:, HUE]
    turn = torch.where(shift == 0, -1, turn)
    # The other three in their order: the hue is left out, so what follows it moves up.
    three = torch.arange(3, device=order.device)
    blends = order.gather(1, three + (three >= (order == HUE).long().argmax(1, keepdim=True)))
    for number in range(4):
        pictures = changed(pictures, turn == number, hue, shift)
        if number < 3:
            kind = blends[:, number]
            pictures = blend(pictures, factors.gather(1, kind[:, None])[:, 0], kind)
    return pictures


def changed(pictures: Tensor, chosen: Tensor, change, *parameters: Tensor) -> Tensor:
    """The pictures, those of them that are chosen changed in place.

    Arguments:
        pictures: (B, C, H, W), written into.
        chosen: (B,) booleans.
        change: a function of pictures and parameters.
        parameters: one row for each picture.
    """
    rows = chosen.nonzero()[:, 0]
    if len(rows) > 0:
        pictures[rows] = change(pictures[rows], *(parameter[rows] for parameter in parameters))
    return pictures


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


def blur(pictures: Tensor, sigma: Tensor) -> Tensor:
    """Gaussian blur with a kernel of a tenth of the side, edges reflected, as two batched matrix products.

    Arguments:
        pictures: (B, C, S, S) float.
        sigma: (B,) standard deviation in pixels, above 0.

    >>> blur(torch.ones(1, 1, 40, 40), torch.tensor([2.0])).std().item() < 1e-6
    True
    """
    count, _, side, _ = pictures.shape
    half = kernel_size(side) // 2
    distance = torch.arange(-half, half + 1, device=pictures.device, dtype=torch.float32)
    weights = torch.softmax(-0.5 * (distance / sigma[:, None]).square(), dim=1)
    matrices = (weights @ _taps(side, pictures.device)).view(count, side, side)
    return separable(matrices, pictures, matrices)


def solarize(pictures: Tensor) -> Tensor:
    """Pixels of .5 and more inverted (Grill et al., BYOL, 2020, appendix B).

    >>> solarize(torch.tensor([0.25, 0.5, 1.0])).tolist()
    [0.25, 0.5, 0.0]
    """
    return torch.where(pictures >= 0.5, 1 - pictures, pictures)
