"""ResNet-18 with a stem chosen by the image's side, for any number of input channels."""

from typing import Any

import torchvision
from torch import Tensor, nn

from suppression_bench.encoder import Encoder


class ResNet18(Encoder):
    """torchvision's ResNet-18 without its classifier; the pooled 512 values are probed.

    Reference: He, Zhang, Ren & Sun (CVPR 2016); small images as in Chen et al. (ICML 2020), appendix B.9: up to 32
    pixels the stem is a 3x3 convolution of stride 1 without max-pooling, above that the ImageNet stem.

    >>> import torch
    >>> ResNet18(32, 1)(torch.zeros(2, 1, 32, 32)).shape
    torch.Size([2, 512])
    """

    width = 512

    def __init__(self, side: int, channels: int):
        super().__init__()
        self.net: Any = torchvision.models.resnet18(weights=None)
        self.net.fc = nn.Identity()
        if side <= 32:
            self.net.conv1 = nn.Conv2d(channels, 64, 3, stride=1, padding=1, bias=False)
            self.net.maxpool = nn.Identity()
        else:
            self.net.conv1 = nn.Conv2d(channels, 64, 7, stride=2, padding=3, bias=False)
        nn.init.kaiming_normal_(self.net.conv1.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: Tensor) -> Tensor:
        return self.net(images)

    def stages(self, images: Tensor) -> list[Tensor]:
        """The outputs of the four residual stages: 64, 128, 256 and 512 channels; the mean of the last is `forward`.

        Up to 32 pixels stage 1 has the image's side (32, 16, 8, 4 at 32 pixels), above that a quarter of it (16, 8,
        4, 2 at 64 pixels; 28, 14, 7, 4 at 112); each further stage has half the side, rounded up.

        >>> import torch
        >>> [tuple(maps.shape[1:]) for maps in ResNet18(64, 3).stages(torch.zeros(2, 3, 64, 64))]
        [(64, 16, 16), (128, 8, 8), (256, 4, 4), (512, 2, 2)]
        """
        net = self.net
        maps = [net.maxpool(net.relu(net.bn1(net.conv1(images))))]
        for stage in (net.layer1, net.layer2, net.layer3, net.layer4):
            maps.append(stage(maps[-1]))
        return maps[1:]
