"""The small convolutional net of the RandBit-MNIST notebook: three strided convolutions and a dense layer."""

from torch import Tensor, nn

from suppression_bench.encoder import Encoder


class RandBitConv(Encoder):
    """Three 3x3 convolutions (stride 2, no padding, no bias) of 32, 64, 64 filters and a dense layer of 128.

    Reference: Chen, Luo & Li (NeurIPS 2021), the authors' RandBit-MNIST notebook. Batch norm and ReLU behind every
    layer; Keras' batch norm (momentum .99 on the old value, eps 1e-3). 28 pixels become 13, 6, 2, so 256 values
    reach the dense layer, whose output is probed.

    >>> import torch
    >>> RandBitConv(28, 1 + 10)(torch.zeros(2, 11, 28, 28)).shape
    torch.Size([2, 128])
    """

    width = 128
    batch_norm = {"momentum": 0.01, "eps": 1e-3}

    def __init__(self, side: int, channels: int):
        super().__init__()
        layers: list[nn.Module] = []
        for filters in (32, 64, 64):
            layers += [
                nn.Conv2d(channels, filters, 3, stride=2, bias=False),
                nn.BatchNorm2d(filters, **self.batch_norm),
                nn.ReLU(),
            ]
            channels, side = filters, (side - 3) // 2 + 1
        self.convolutions = nn.Sequential(*layers, nn.Flatten())
        self.dense = nn.Sequential(
            nn.Linear(channels * side * side, self.width, bias=False),
            nn.BatchNorm1d(self.width, **self.batch_norm),
            nn.ReLU(),
        )

    def forward(self, images: Tensor) -> Tensor:
        return self.dense(self.convolutions(images))

    def stages(self, images: Tensor) -> list[Tensor]:
        """What the three convolutions give behind their ReLU: 32, 64 and 64 channels (13, 6 and 2 a side at 28 pixels).

        >>> import torch
        >>> [tuple(maps.shape[1:]) for maps in RandBitConv(28, 1).stages(torch.zeros(2, 1, 28, 28))]
        [(32, 13, 13), (64, 6, 6), (64, 2, 2)]
        """
        maps = []
        for layer in self.convolutions:
            images = layer(images)
            if isinstance(layer, nn.ReLU):
                maps.append(images)
        return maps
