"""A net of four convolutions for images of 32 to 112 pixels, small enough to train on two processor cores."""

from torch import Tensor, nn

from generators.dataset import UserError
from suppression_bench.encoder import Encoder


class Conv4(Encoder):
    """Four 3x3 convolutions of stride 2 with batch norm and ReLU; the mean of the last map is probed.

    A choice of this suite for its CPU-sized tiers, where a ResNet-18 would take hours. The mean over places forgets
    where a digit stood, as ResNet's does.

    Arguments:
        width: filters of the last convolution; each before has half as many as the next. A multiple of 8.

    Raises:
        UserError: another width.

    >>> import torch
    >>> Conv4(56, 1)(torch.zeros(2, 1, 56, 56)).shape
    torch.Size([2, 128])
    """

    def __init__(self, side: int, channels: int, *, width: int = 128):
        super().__init__()
        if width < 8 or width % 8:
            raise UserError(f"encoder.width {width}: conv4 takes a multiple of 8, such as 128")
        self.width = width
        convolutions: list[nn.Module] = []
        for filters in (width // 8, width // 4, width // 2, width):
            convolutions.append(
                nn.Sequential(
                    nn.Conv2d(channels, filters, 3, stride=2, padding=1, bias=False),
                    nn.BatchNorm2d(filters),
                    nn.ReLU(),
                )
            )
            channels = filters
        self.convolutions = nn.ModuleList(convolutions)

    def forward(self, images: Tensor) -> Tensor:
        return self.stages(images)[-1].mean((2, 3))

    def stages(self, images: Tensor) -> list[Tensor]:
        """What the four convolutions give: 16, 32, 64 and 128 channels (28, 14, 7 and 4 a side at 56 pixels).

        >>> import torch
        >>> [tuple(maps.shape[1:]) for maps in Conv4(56, 1).stages(torch.zeros(2, 1, 56, 56))]
        [(16, 28, 28), (32, 14, 14), (64, 7, 7), (128, 4, 4)]
        """
        maps = []
        for convolution in self.convolutions:
            images = convolution(images)
            maps.append(images)
        return maps
