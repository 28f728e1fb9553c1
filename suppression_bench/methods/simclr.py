"""SimCLR: two views, a projection head and a contrastive loss between them."""

from collections.abc import Callable

from torch import Tensor

from suppression_bench.encoder import Encoder, mlp
from suppression_bench.method import Batch, Info, Method, Output


class SimCLR(Method):
    """Two augmented views through encoder and head, and any two-view loss on the projections.

    Reference: Chen, Kornblith, Norouzi & Hinton (ICML 2020). The views pass the network one after the other, so
    batch norm sees one view at a time, as in the RandBit notebook of Chen, Luo & Li (2021).

    Arguments:
        loss: the two-view loss.
        head: widths of the projection head's layers.
        loss_weight: factor of the loss against the weight decay (the notebook's loss is a sum of two means: 2).
    """

    def __init__(
        self, encoder: Encoder, info: Info, loss: Callable, *, head: list[int] = (512, 128), loss_weight: float = 1.0
    ):
        super().__init__(encoder, info)
        self.head = mlp(encoder.width, head, encoder.batch_norm)
        self.pair_loss, self.loss_weight = loss, loss_weight

    def loss(self, batch: Batch) -> Output:
        first, second = (self.encoder(view) for view in batch.views)
        value = self.pair_loss(self.head(first), self.head(second))
        return Output(self.loss_weight * value, first)

    def project(self, features: Tensor) -> Tensor:
        return self.head(features)
