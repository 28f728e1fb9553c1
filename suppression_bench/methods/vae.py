"""Variational autoencoder: keeps what it needs to draw the image and its constant channels again."""

import torch
from torch import Tensor, nn

from suppression_bench.encoder import Encoder, decoder
from suppression_bench.loss import Planes, reconstruction_error
from suppression_bench.method import Batch, Info, Method, Output


class VAE(Method):
    """One augmented view with its bits in, that same input reconstructed, Bernoulli likelihood.

    Reference: Kingma & Welling (ICLR 2014), eq. 10; in Chen, Luo & Li (2021), Fig. 7, extra bits hurt it far less
    than a contrastive method. A constant bit fills a whole plane of pixels: `planes="once"` counts it as one binary
    variable (weight 1 / (H W)), `planes="every-pixel"` counts all its copies, which drives the image out of the
    representation. The posterior mean is the head's output.

    Arguments:
        latent: number of latent variables.
        beta: weight of the divergence (Higgins et al., 2017).
        warmup: share of training over which that weight rises linearly from 0.
        planes: how often a constant channel counts in the likelihood.
    """

    views = 1
    progress: Tensor

    def __init__(
        self,
        encoder: Encoder,
        info: Info,
        *,
        latent: int = 64,
        beta: float = 1.0,
        warmup: float = 0.1,
        planes: Planes = "once",
    ):
        super().__init__(encoder, info)
        self.mean = nn.Linear(encoder.width, latent)
        self.log_variance = nn.Linear(encoder.width, latent)
        self.decoder = decoder(latent, info.input_shape, encoder.batch_norm)
        self.beta, self.warmup = beta, warmup
        self.planes: Planes = planes
        self.register_buffer("progress", torch.zeros(()))

    def loss(self, batch: Batch) -> Output:
        (view,) = batch.views
        features = self.encoder(view)
        mean, log_variance = self.mean(features).float(), self.log_variance(features).float()
        code = mean + torch.randn_like(mean) * (log_variance / 2).exp()
        drawn, channels = self.decoder(code), self.info.image_shape[2]
        error = reconstruction_error(drawn, view, channels, planes=self.planes, likelihood="bernoulli")
        divergence = 0.5 * (mean**2 + log_variance.exp() - 1 - log_variance).sum(1)
        weight = self.beta * (self.progress / self.warmup).clamp(max=1) if self.warmup > 0 else self.beta
        return Output((error + weight * divergence).mean(), features)

    def after_step(self, progress: float) -> None:
        self.progress.fill_(progress)

    def project(self, features: Tensor) -> Tensor:
        return self.mean(features)
