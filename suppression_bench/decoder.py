"""The decoder of methods that draw their input again, and how far the drawing is from it."""

from typing import Literal

from torch import Tensor, nn
from torch.nn import functional as F

from suppression_bench.method import Info

SMALLEST = 6  # the decoder starts from a map below this side


def decoder(latent: int, info: Info, batch_norm: dict) -> nn.Sequential:
    """A network from (B, latent) to (B, picture and constant channels, height, width), without a last nonlinearity.

    It mirrors the RandBit encoder: 3x3 convolutions of stride 2 without padding, walked back by transposed ones.

    Arguments:
        latent: length of the code.
        info: sizes the drawing.
        batch_norm: keyword arguments of the batch normalisation.

    >>> decoder(5, Info((28, 28, 1), 2, 10, {}), {})[-1].out_channels
    3
    """
    height, width, channels = info.image_shape
    channels += info.constant_channels
    sizes = [(height, width)]
    while len(sizes) == 1 or max(sizes[0]) >= SMALLEST:
        sizes.insert(0, tuple((side - 3) // 2 + 1 for side in sizes[0]))
    filters = [64] * max(1, len(sizes) - 2) + [32] * (len(sizes) > 2) + [channels]
    first = filters[0] * sizes[0][0] * sizes[0][1]
    layers: list[nn.Module] = []
    for wide, narrow in ((latent, 128), (128, first)):
        layers += [nn.Linear(wide, narrow, bias=False), nn.BatchNorm1d(narrow, **batch_norm), nn.ReLU()]
    layers.append(nn.Unflatten(1, (filters[0], *sizes[0])))
    for position, (size, wide, narrow) in enumerate(zip(sizes[1:], filters[:-1], filters[1:], strict=True)):
        # A side that lost a pixel to rounding on the way down gets it back.
        missing = tuple(side - ((small - 1) * 2 + 3) for side, small in zip(size, sizes[position], strict=True))
        last = position + 2 == len(sizes)
        layers.append(nn.ConvTranspose2d(wide, narrow, 3, stride=2, output_padding=missing, bias=last))
        layers += [] if last else [nn.BatchNorm2d(narrow, **batch_norm), nn.ReLU()]
    return nn.Sequential(*layers)


def misfit(
    drawn: Tensor,
    view: Tensor,
    info: Info,
    *,
    planes: Literal["once", "every-pixel"],
    likelihood: Literal["bernoulli", "squared-error"],
) -> Tensor:
    """How far each drawing is from its input, (B,): summed over pixels and channels.

    Reference: bernoulli is -log p(x | z) in nats as in Kingma & Welling (ICLR 2014), appendix C.1.

    Arguments:
        drawn: (B, C, H, W) output of the decoder: logits for bernoulli.
        view: (B, C, H, W) in [0, 1], the constant channels last.
        info: number of picture channels and of pixels.
        planes: whether a constant channel counts as one variable (weight 1 / (H W)) or as H W of them.
        likelihood: bernoulli, or the squared difference.
    """
    drawn, view = drawn.float(), view.float()
    if likelihood == "bernoulli":
        each = F.binary_cross_entropy_with_logits(drawn, view, reduction="none")
    else:
        each = (drawn - view).square()
    each = each.sum((2, 3))  # per sample and channel
    height, width, channels = info.image_shape
    picture, constant = each[:, :channels].sum(1), each[:, channels:].sum(1)
    return picture + (constant / (height * width) if planes == "once" else constant)
