"""SwAV: each view predicts to which prototypes the other was assigned, with all prototypes equally used."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from generators.dataset import UserError
from suppression_bench.encoder import Encoder, mlp
from suppression_bench.method import Batch, Info, Method, Output


class Assignment(nn.Module):
    """Soft assignments (B, K) of a batch to the prototypes from their cosine similarities (B, K), a constant.

    Reference: Caron et al. (NeurIPS 2020), eq. 3-5: Sinkhorn-Knopp, after which each prototype has about the share
    1 / K of the batch and each sample's assignments add up to 1.

    Arguments:
        epsilon: entropy regularisation; smaller is harder.
        iterations: rounds of normalising prototypes, then samples.
    """

    def __init__(self, epsilon: float, iterations: int):
        super().__init__()
        self.epsilon, self.iterations = epsilon, iterations

    @torch.no_grad()
    def forward(self, similarity: Tensor) -> Tensor:
        count, prototypes = similarity.shape
        shares = ((similarity - similarity.max()) / self.epsilon).exp()  # the shift cancels, and nothing overflows
        for _ in range(self.iterations):
            shares = shares / (shares.sum(0, keepdim=True).clamp(min=1e-30) * prototypes)
            shares = shares / (shares.sum(1, keepdim=True).clamp(min=1e-30) * count)
        return shares * count


class SwAV(Method):
    """Cross entropy between one view's assignment to prototypes and the other's softmax over them, both directions.

    Reference: Caron, Misra, Mairal, Goyal, Bojanowski & Joulin (NeurIPS 2020), eq. 1 and 2, with two views (no
    multi-crop), no queue of earlier samples, and prototypes scaled to length 1 after each step. A batch should be
    larger than the number of prototypes.

    Arguments:
        head: widths of the projection head's layers.
        prototypes: number of prototypes, K.
        temperature: divides the similarities in the prediction.
        epsilon: entropy regularisation of the assignments.
        iterations: of Sinkhorn-Knopp.
    """

    no_gradient = ("assignment",)

    def __init__(
        self,
        encoder: Encoder,
        info: Info,
        *,
        head: tuple[int, ...] = (512, 128),
        prototypes: int = 300,
        temperature: float = 0.1,
        epsilon: float = 0.05,
        iterations: int = 3,
    ):
        super().__init__(encoder, info)
        options = {"prototypes": prototypes, "temperature": temperature, "epsilon": epsilon, "iterations": iterations}
        for name, value in options.items():
            if value <= 0:
                raise UserError(f"method.{name} must be above 0, got {value}")
        self.head = mlp(encoder.width, head, encoder.batch_norm)
        self.prototypes = nn.Linear(head[-1], prototypes, bias=False)
        self.assignment = Assignment(epsilon, iterations)
        self.temperature = temperature

    @torch.no_grad()
    def after_build(self) -> None:
        self.prototypes.weight.copy_(F.normalize(self.prototypes.weight, dim=1))

    def loss(self, batch: Batch) -> Output:
        features = [self.encoder(view) for view in batch.views]
        projected = [F.normalize(self.head(hidden).float(), dim=1) for hidden in features]
        with torch.autocast(projected[0].device.type, enabled=False):
            first, second = (self.prototypes(z) for z in projected)
        value = self._predict(first, self.assignment(second)) + self._predict(second, self.assignment(first))
        return Output(value / 2, features[0])

    def _predict(self, similarity: Tensor, assigned: Tensor) -> Tensor:
        return -(assigned * F.log_softmax(similarity / self.temperature, dim=1)).sum(1).mean()

    def after_step(self, progress: float) -> None:
        self.after_build()  # back to length 1

    def project(self, features: Tensor) -> Tensor:
        return self.head(features)
