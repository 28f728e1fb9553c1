"""SimSiam: each view predicts the other's projection, which is held fixed, without negatives or moving average."""

from torch import Tensor, nn
from torch.nn import functional as F

from suppression_bench.encoder import Encoder, mlp
from suppression_bench.method import Batch, Info, Method, Output


class StopGradient(nn.Module):
    """Hands its input on as a constant; a module, so that it can be found and checked."""

    def forward(self, projected: Tensor) -> Tensor:
        return projected.detach()


class SimSiam(Method):
    """Negative cosine similarity between prediction and the other view's constant projection, mean of both directions.

    Reference: Chen & He (CVPR 2021), eq. 4; the projection ends in batch norm without scale and shift, as in the
    authors' code, the predictor does not (section 4.4).

    Arguments:
        head: widths of the projection head's layers.
        predictor: widths of the predictor's layers, narrower in the middle; the last must equal the head's last.
    """

    no_gradient = ("stop_gradient",)

    def __init__(
        self,
        encoder: Encoder,
        info: Info,
        *,
        head: tuple[int, ...] = (512, 512, 512),
        predictor: tuple[int, ...] = (128, 512),
    ):
        super().__init__(encoder, info)
        last = nn.BatchNorm1d(head[-1], affine=False, **encoder.batch_norm)
        self.head = nn.Sequential(*mlp(encoder.width, head, encoder.batch_norm), last)
        self.predictor = mlp(head[-1], predictor, encoder.batch_norm)
        self.stop_gradient = StopGradient()

    def loss(self, batch: Batch) -> Output:
        features = [self.encoder(view) for view in batch.views]
        projected = [self.head(hidden) for hidden in features]
        predicted = [self.predictor(z).float() for z in projected]
        first, second = (self.stop_gradient(z).float() for z in projected)
        similarity = F.cosine_similarity(predicted[0], second) + F.cosine_similarity(predicted[1], first)
        return Output(-similarity.mean() / 2, features[0])

    def project(self, features: Tensor) -> Tensor:
        return self.head(features)
