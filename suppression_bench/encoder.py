"""The contract of an encoder: pictures with their constant channels in, one feature vector each out."""

from torch import Tensor, nn


class Encoder(nn.Module):
    """An encoder; its options are the keyword arguments of its constructor after `side` and `channels`.

    Every subclass is built as `Subclass(side, channels, **options)`:
        side: height and width of the square picture in pixels.
        channels: picture channels plus constant channels in use.

    It sets `width`, the length of the feature vector, and may set `batch_norm`, keyword arguments that heads use for
    their own batch normalisation, so that a head follows its encoder's framework.
    """

    name: str  # the file's stem, set by the catalog
    width: int
    batch_norm: dict = {}

    def forward(self, pictures: Tensor) -> Tensor:
        """(B, channels, side, side) in [0, 1] -> (B, width)."""
        raise NotImplementedError

    def stages(self, pictures: Tensor) -> list[Tensor]:
        """Intermediate feature maps, from the first stage (number 1) to the last; an encoder without any has none: [].

        Arguments:
            pictures: (B, channels, side, side) in [0, 1].

        Returns:
            per stage, (B, C, s, s): C values at each of s x s positions, which cover the picture evenly.
        """
        return []


def mlp(width_in: int, widths: list[int], batch_norm: dict) -> nn.Sequential:
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
