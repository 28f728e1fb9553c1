"""Autoencoder: keeps what it needs to draw the image and its constant channels again, without noise."""

from torch import Tensor, nn

from suppression_bench.encoder import Encoder, decoder
from suppression_bench.loss import Likelihood, Planes, reconstruction_error
from suppression_bench.method import Batch, Info, Method, Output


class Autoencoder(Method):
    """One augmented view with its bits in, that same input reconstructed through a narrow code.

    Reference: Hinton & Salakhutdinov (Science 2006), the loss of p. 504 with `likelihood="bernoulli"`. It is the
    `vae` with its posterior mean as code and no divergence; decoder and likelihood are the same. The code is the
    head's output.

    Arguments:
        latent: length of the code.
        likelihood: cross entropy per pixel (bernoulli), or squared-error.
        planes: how often a constant channel counts: once (weight 1 / (H W)) or at every-pixel.
    """

    views = 1

    def __init__(
        self,
        encoder: Encoder,
        info: Info,
        *,
        latent: int = 64,
        likelihood: Likelihood = "bernoulli",
        planes: Planes = "once",
    ):
        super().__init__(encoder, info)
        self.code = nn.Linear(encoder.width, latent)
        self.decoder = decoder(latent, info.input_shape, encoder.batch_norm)
        self.likelihood: Likelihood = likelihood
        self.planes: Planes = planes

    def loss(self, batch: Batch) -> Output:
        (view,) = batch.views
        features = self.encoder(view)
        drawn, channels = self.decoder(self.code(features)), self.info.image_shape[2]
        error = reconstruction_error(drawn, view, channels, planes=self.planes, likelihood=self.likelihood)
        return Output(error.mean(), features)

    def project(self, features: Tensor) -> Tensor:
        return self.code(features)
