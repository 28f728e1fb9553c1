"""SupCon: the contrastive method with labels, where all samples of an anchor's class are its positives."""

from collections.abc import Callable

from torch import Tensor

from generators.catalog import did_you_mean
from generators.dataset import UserError
from suppression_bench.encoder import Encoder, mlp
from suppression_bench.method import Batch, Info, Method, Output


class SupCon(Method):
    """Two augmented views through encoder and head, and a loss that reads the labels of one target.

    Reference: Khosla et al. (NeurIPS 2020), Fig. 2; the loss is eq. 2 (supcon_out) unless another is named.

    Arguments:
        loss: a loss that takes `labels` (N,); it is called as loss(z1, z2, labels=labels).
        head: widths of the projection head's layers.
        target: name of the target whose labels are used; the first one without it.
    """

    needs_labels = True
    default_loss = "supcon_out"
    passes = ("labels",)

    def __init__(
        self,
        encoder: Encoder,
        info: Info,
        loss: Callable,
        *,
        head: tuple[int, ...] = (512, 128),
        target: str | None = None,
    ):
        super().__init__(encoder, info)
        self.target = next(iter(info.targets), "") if target is None else target
        if self.target not in info.targets:
            raise UserError(f"method.target: unknown target {self.target!r}, {did_you_mean(self.target, info.targets)}")
        if info.targets[self.target].many:
            raise UserError(
                f"method.target: {self.target} is a set of classes per sample, supcon needs one class; choose another"
            )
        self.head = mlp(encoder.width, head, encoder.batch_norm)
        self.pair_loss = loss

    def loss(self, batch: Batch) -> Output:
        projected, features = self.project_views(batch.views)
        return Output(self.loss_of(projected, batch), features)

    def project_views(self, views: list[Tensor]) -> tuple[list[Tensor], Tensor]:
        features = [self.encoder(view) for view in views]
        return [self.head(hidden) for hidden in features], features[0]

    def loss_of(self, projected: list[Tensor], batch: Batch) -> Tensor:
        return self.pair_loss(*projected, labels=(batch.labels or {})[self.target])

    def project(self, features: Tensor) -> Tensor:
        return self.head(features)
