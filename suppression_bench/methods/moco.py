"""MoCo: keys from a slowly moving encoder, kept in a queue, are the negatives of the next batches."""

import copy
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from generators.dataset import UserError
from suppression_bench.encoder import Encoder, mlp
from suppression_bench.method import Batch, Info, Method, Output, follow


class MoCo(Method):
    """The first view's query against the second view's key, and a queue of earlier keys as further negatives.

    Reference: He, Fan, Wu, Xie & Girshick (CVPR 2020), Algorithm 1 and eq. 2 (the moving average); the head is that of
    Chen, Fan, Girshick & He (2020), section 3. Queries, keys and the queue have length 1. The key encoder is in
    training mode, so it normalises with the batch; batch norm is not shuffled over devices. A batch's keys enter the
    queue after the step. With a small data set the queue would hold earlier keys of the batch's own samples, which
    are no negatives: those are left out of the step. The queue starts with random directions. Which other pairs the
    loss forms is the loss's matter: `pairs=given` is eq. 1, the queue alone; with `cross` or `all` the batch's other
    samples are negatives too and the keys anchors as well.

    Arguments:
        loss: a loss that takes `negatives` (M, d); it is called as loss(query, key, negatives=queue).
        head: widths of the projection head's layers.
        momentum: weight of the old average, in [0, 1].
        queue: number of keys that are kept.
    """

    passes = ("negatives",)
    no_gradient = ("key_encoder", "key_head")
    queue: Tensor
    queue_ids: Tensor
    position: Tensor

    def __init__(
        self,
        encoder: Encoder,
        info: Info,
        loss: Callable,
        *,
        head: tuple[int, ...] = (512, 128),
        momentum: float = 0.999,
        queue: int = 4096,
    ):
        super().__init__(encoder, info)
        if not 0 <= momentum <= 1:
            raise UserError(f"method.momentum must be in 0..1, got {momentum}")
        if queue < 1:
            raise UserError(f"method.queue must be above 0, got {queue}")
        self.head = mlp(encoder.width, head, encoder.batch_norm)
        self.key_encoder = copy.deepcopy(self.encoder).requires_grad_(False)
        self.key_head = copy.deepcopy(self.head).requires_grad_(False)
        self.pair_loss, self.momentum = loss, momentum
        self.register_buffer("queue", F.normalize(torch.randn(queue, head[-1]), dim=1))
        self.register_buffer("queue_ids", torch.full((queue,), -1))  # whose key it is, -1 of nobody
        self.register_buffer("position", torch.zeros((), dtype=torch.long))  # where the next key goes
        self.waiting = self.queue[:0], self.queue_ids[:0]  # keys and ids of the step that is under way

    def after_build(self) -> None:
        self.key_encoder.load_state_dict(self.encoder.state_dict())
        self.key_head.load_state_dict(self.head.state_dict())

    def loss(self, batch: Batch) -> Output:
        first, second = batch.views
        features = self.encoder(first)
        query = F.normalize(self.head(features).float(), dim=1)
        with torch.no_grad():
            key = F.normalize(self.key_head(self.key_encoder(second)).float(), dim=1)
        self.waiting = key, batch.ids
        negatives = self.queue[~torch.isin(self.queue_ids, batch.ids)]
        return Output(self.pair_loss(query, key, negatives=negatives), features)

    @torch.no_grad()
    def after_step(self, progress: float) -> None:
        follow(self.key_encoder, self.encoder, 1 - self.momentum)
        follow(self.key_head, self.head, 1 - self.momentum)
        size = len(self.queue)
        keys, ids = (values[-size:] for values in self.waiting)  # of a batch larger than the queue its end
        rows = (self.position + torch.arange(len(keys), device=keys.device)) % size
        self.queue[rows], self.queue_ids[rows] = keys, ids
        self.position.add_(len(keys)).remainder_(size)

    def project(self, features: Tensor) -> Tensor:
        return self.head(features)
