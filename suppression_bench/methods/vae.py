"""Variational autoencoder: keeps what it needs to draw the picture and its constant channels again."""

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from suppression_bench.encoder import Encoder
from suppression_bench.method import Batch, Info, Method, Output

SMALLEST = 6  # the decoder starts from a map below this side


class VAE(Method):
    """One augmented view with its bits in, that same input reconstructed, Bernoulli likelihood.

    Reference: Kingma & Welling (ICLR 2014), eq. 10; in Chen, Luo & Li (2021), Fig. 7, extra bits hurt it far less
    than a contrastive method. A constant bit fills a whole plane of pixels: `planes="once"` counts it as one binary
    variable (weight 1 / (H W)), `planes="every-pixel"` counts all its copies, which drives the picture out of the
    representation. The posterior mean is the head's output.

    Arguments:
        latent: number of latent variables.
        beta: weight of the divergence (Higgins et al., 2017).
        warmup: share of training over which that weight rises linearly from 0.
        planes: how often a constant channel counts in the likelihood.
    """

    views = 1

    def __init__(
        self,
        encoder: Encoder,
        info: Info,
        *,
        latent: int = 64,
        beta: float = 1.0,
        warmup: float = 0.1,
        planes: Literal["once", "every-pixel"] = "once",
    ):
        super().__init__(encoder, info)
        self.mean = nn.Linear(encoder.width, latent)
        self.log_variance = nn.Linear(encoder.width, latent)
        height, width, channels = info.picture_shape
        self.pixels, self.picture_channels = height * width, channels
        self.decoder = _decoder(latent, height, width, channels + info.constant_channels, encoder.batch_norm)
        self.beta, self.warmup, self.planes = beta, warmup, planes
        self.register_buffer("progress", torch.zeros(()))

    def loss(self, batch: Batch) -> Output:
        (view,) = batch.views
        features = self.encoder(view)
        mean, log_variance = self.mean(features).float(), self.log_variance(features).float()
        code = mean + torch.randn_like(mean) * (log_variance / 2).exp()
        surprise = F.binary_cross_entropy_with_logits(self.decoder(code).float(), view.float(), reduction="none")
        surprise = surprise.sum((2, 3))  # nats per sample and channel
        picture, planes = surprise[:, : self.picture_channels].sum(1), surprise[:, self.picture_channels :].sum(1)
        if self.planes == "once":
            planes = planes / self.pixels
        divergence = 0.5 * (mean**2 + log_variance.exp() - 1 - log_variance).sum(1)
        weight = self.beta * (self.progress / self.warmup).clamp(max=1) if self.warmup > 0 else self.beta
        return Output((picture + planes + weight * divergence).mean(), features)

    def after_step(self, progress: float) -> None:
        self.progress.fill_(progress)

    def project(self, features: Tensor) -> Tensor:
        return self.mean(features)


def _decoder(latent: int, height: int, width: int, channels: int, batch_norm: dict) -> nn.Sequential:
    # Mirrors the RandBit encoder: 3x3 convolutions of stride 2 without padding, walked back by transposed ones.
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
