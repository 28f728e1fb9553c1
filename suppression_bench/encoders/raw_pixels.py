"""No encoder at all: the pixels themselves, averaged to at most 28x28, for the method `untrained`."""

import torch
from torch import Tensor, nn

from suppression_bench.encoder import Encoder

SIDE = 28


class RawPixels(Encoder):
    """Each channel averaged to at most 28x28 cells; a channel that is constant over the image stays so.

    >>> RawPixels(112, 1)(torch.ones(2, 1, 112, 112)).shape
    torch.Size([2, 784])
    """

    def __init__(self, side: int, channels: int):
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2d(min(side, SIDE))
        self.width = channels * min(side, SIDE) ** 2

    def forward(self, images: Tensor) -> Tensor:
        return torch.flatten(self.pool(images), 1)
