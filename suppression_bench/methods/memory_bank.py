"""Memory bank: each sample against the moving average of its own earlier projections, all other samples as negatives."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from generators.dataset import UserError
from suppression_bench.encoder import Encoder, mlp
from suppression_bench.method import Batch, Info, Method, Output


class MemoryBank(Method):
    """One augmented view, its own entry of the bank as its positive and every other entry as a negative.

    Reference: Wu, Xiong, Yu & Lin (CVPR 2018), eq. 2, with the instance-wise exponential moving average that Wang & Liu
    (CVPR 2021) train with. Entries have length 1 and start as random directions. The loss gets the batch's
    own entries as the second view and the rest of the bank as `negatives`: where the other samples of a batch are
    negatives too, as in nt_xent with `pairs=cross`, each anchor meets the whole bank but its own entry. (That loss has
    the entries as anchors too, which eq. 2 has not.)

    Arguments:
        loss: a loss that takes `negatives` (M, d); it is called as loss(projection, own entry, negatives=the rest).
        head: widths of the projection head's layers.
        momentum: weight of the old entry, in [0, 1].
    """

    views = 1
    passes = ("negatives",)
    bank: Tensor

    def __init__(
        self, encoder: Encoder, info: Info, loss: Callable, *, head: tuple[int, ...] = (512, 128), momentum: float = 0.5
    ):
        super().__init__(encoder, info)
        if not 0 <= momentum <= 1:
            raise UserError(f"method.momentum must be in 0..1, got {momentum}")
        self.head = mlp(encoder.width, head, encoder.batch_norm)
        self.pair_loss, self.momentum = loss, momentum
        self.register_buffer("bank", F.normalize(torch.randn(info.count, head[-1]), dim=1))
        # Projections and ids of the step that is under way.
        self.waiting = self.bank[:0], torch.empty(0, dtype=torch.long)

    def loss(self, batch: Batch) -> Output:
        features = self.encoder(batch.views[0])
        projected = F.normalize(self.head(features).float(), dim=1)
        self.waiting = projected.detach(), batch.ids
        absent = torch.ones(len(self.bank), dtype=torch.bool, device=self.bank.device)
        absent[batch.ids] = False
        # How many there are is known, so nothing waits for the device to count them, as a boolean index does.
        (rest,) = torch.nonzero_static(absent, size=len(self.bank) - len(batch.ids)).T
        # Indexing copies, so the bank may change before the backward pass is over.
        value = self.pair_loss(projected, self.bank[batch.ids], negatives=self.bank[rest])
        return Output(value, features)

    @torch.no_grad()
    def after_step(self, progress: float) -> None:
        projected, ids = self.waiting
        self.bank[ids] = F.normalize(self.momentum * self.bank[ids] + (1 - self.momentum) * projected, dim=1)

    def project(self, features: Tensor) -> Tensor:
        return self.head(features)
