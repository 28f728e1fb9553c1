"""The contract of an encoder, and the networks that methods build around one: a head, and a decoder of its input."""

from collections.abc import Sequence

from torch import Tensor, nn

SMALLEST = 6  # the decoder starts from a map below this side


class Encoder(nn.Module):
    """An encoder; its options are the keyword arguments of its constructor after `side` and `channels`.

    Every subclass is built as `Subclass(side, channels, **options)`:
        side: height and width of the square image in pixels.
        channels: image channels plus constant channels in use.

    It sets `width`, the length of the feature vector, and may set `batch_norm`, keyword arguments that heads use for
    their own batch normalisation, so that a head follows its encoder's framework. `version` rises when a change moves
    its numbers: records of one version are compared with each other.
    """

    name: str  # the file's stem, set by the catalog
    version = 1
    width: int
    batch_norm: dict = {}

    def forward(self, images: Tensor) -> Tensor:
        """(B, channels, side, side) in [0, 1] -> (B, width)."""
        raise NotImplementedError

    def stages(self, images: Tensor) -> list[Tensor]:
        """Intermediate feature maps, from the first stage (number 1) to the last; an encoder without any has none: [].

        Arguments:
            images: (B, channels, side, side) in [0, 1].

        Returns:
            per stage, (B, C, s, s): C values at each of s x s positions, which cover the image evenly.
        """
        return []


def mlp(width_in: int, widths: Sequence[int], batch_norm: dict) -> nn.Sequential:
    """A head of dense layers without bias, batch norm and ReLU behind each but the last (Chen et al., 2020).

    Arguments:
        width_in: length of the input vectors.
        widths: length after each layer, e.g. [256, 64]; empty gives the identity.
        batch_norm: keyword arguments of `nn.BatchNorm1d`.

    >>> mlp(128, [256, 64], {})[0].weight.shape
    torch.Size([256, 128])
    """
    layers: list[nn.Module] = []
    for position, width in enumerate(widths):
        layers.append(nn.Linear(width_in, width, bias=False))
        if position + 1 < len(widths):
            layers += [nn.BatchNorm1d(width, **batch_norm), nn.ReLU()]
        width_in = width
    return nn.Sequential(*layers)


def decoder(latent: int, shape: tuple[int, int, int], batch_norm: dict) -> nn.Sequential:
    """A network from (B, latent) to (B, channels, height, width), without a last nonlinearity.

    It mirrors the RandBit encoder: 3x3 convolutions of stride 2 without padding, walked back by transposed ones.

    Arguments:
        latent: length of the code.
        shape: (channels, height, width) of what is drawn, the constant channels counted in.
        batch_norm: keyword arguments of the batch normalisation.

    >>> decoder(5, (3, 28, 28), {})[-1].out_channels
    3
    """
    channels, height, width = shape
    sizes = [(height, width)]
    while len(sizes) == 1 or max(sizes[0]) >= SMALLEST:
        height, width = ((side - 3) // 2 + 1 for side in sizes[0])
        sizes.insert(0, (height, width))
    filters = [64] * max(1, len(sizes) - 2) + [32] * (len(sizes) > 2) + [channels]
    first = filters[0] * sizes[0][0] * sizes[0][1]
    layers: list[nn.Module] = []
    for wide, narrow in ((latent, 128), (128, first)):
        layers += [nn.Linear(wide, narrow, bias=False), nn.BatchNorm1d(narrow, **batch_norm), nn.ReLU()]
    layers.append(nn.Unflatten(1, (filters[0], *sizes[0])))
    for position, (size, wide, narrow) in enumerate(zip(sizes[1:], filters[:-1], filters[1:], strict=True)):
        # A side that lost a pixel to rounding on the way down gets it back.
        down, across = (side - ((small - 1) * 2 + 3) for side, small in zip(size, sizes[position], strict=True))
        last = position + 2 == len(sizes)
        layers.append(nn.ConvTranspose2d(wide, narrow, 3, stride=2, output_padding=(down, across), bias=last))
        layers += [] if last else [nn.BatchNorm2d(narrow, **batch_norm), nn.ReLU()]
    return nn.Sequential(*layers)
