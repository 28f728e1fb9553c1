"""ResNet-50 with a stem chosen by the image's side, for any number of input channels."""

from typing import Any

import torchvision
from torch import Tensor, nn

from suppression_bench.encoder import Encoder


class ResNet50(Encoder):
    """torchvision's ResNet-50 without its classifier; the pooled 2048 values are probed.

    Reference: He, Zhang, Ren & Sun (CVPR 2016), with the stride in the 3x3 convolutions; small images as in Chen et
    al. (ICML 2020), appendix B.9: up to 32 pixels the stem is a 3x3 convolution of stride 1 without max-pooling, above
    that the ImageNet stem.

    >>> import torch
    >>> ResNet50(32, 3)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 2048])
    """

    width = 2048

    def __init__(self, side: int, channels: int):
        super().__init__()
        self.net: Any = torchvision.models.resnet50(weights=None)
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
        """The outputs of the four residual stages: 256, 512, 1024 and 2048 channels; the mean of the last is `forward`.

        Their sides are those of ResNet-18's stages: 56, 28, 14 and 7 at 224 pixels.

        >>> import torch
        >>> [tuple(maps.shape[1:]) for maps in ResNet50(64, 3).stages(torch.zeros(2, 3, 64, 64))]
        [(256, 16, 16), (512, 8, 8), (1024, 4, 4), (2048, 2, 2)]
        """
        net = self.net
        maps = [net.maxpool(net.relu(net.bn1(net.conv1(images))))]
        for stage in (net.layer1, net.layer2, net.layer3, net.layer4):
            maps.append(stage(maps[-1]))
        return maps[1:]
