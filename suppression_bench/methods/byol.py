"""BYOL: an online network predicts the slowly moving average of itself, without negatives."""

import copy
import math

import torch
from torch import Tensor
from torch.nn import functional as F

from suppression_bench.encoder import Encoder, mlp
from suppression_bench.method import Batch, Info, Method, Output, follow


class BYOL(Method):
    """Mean squared error between normalised prediction and target projection, both directions.

    Reference: Grill et al. (NeurIPS 2020), eq. 2; the moving average's rate rises from `momentum` to 1 by a cosine
    (section 3.2). The target network is in training mode, so it normalises with the batch.

    Arguments:
        head: widths of the projection head's layers.
        predictor: widths of the predictor's layers; the last must equal the head's last.
        momentum: weight of the old average at the start, in [0, 1].
    """

    no_gradient = ("target_encoder", "target_head")

    def __init__(
        self,
        encoder: Encoder,
        info: Info,
        *,
        head: tuple[int, ...] = (512, 128),
        predictor: tuple[int, ...] = (512, 128),
        momentum: float = 0.99,
    ):
        super().__init__(encoder, info)
        self.head = mlp(encoder.width, head, encoder.batch_norm)
        self.predictor = mlp(head[-1], predictor, encoder.batch_norm)
        self.momentum = momentum
        self.target_encoder = copy.deepcopy(self.encoder).requires_grad_(False)
        self.target_head = copy.deepcopy(self.head).requires_grad_(False)

    def after_build(self) -> None:
        self.target_encoder.load_state_dict(self.encoder.state_dict())
        self.target_head.load_state_dict(self.head.state_dict())

    def loss(self, batch: Batch) -> Output:
        online = [self.encoder(view) for view in batch.views]
        predicted = [self.predictor(self.head(features)) for features in online]
        with torch.no_grad():
            targets = [self.target_head(self.target_encoder(view)) for view in batch.views]
        first = 2 - 2 * F.cosine_similarity(predicted[0].float(), targets[1].float()).mean()
        second = 2 - 2 * F.cosine_similarity(predicted[1].float(), targets[0].float()).mean()
        return Output(first + second, online[0])

    @torch.no_grad()
    def after_step(self, progress: float) -> None:
        rate = 1 - (1 - self.momentum) * (math.cos(math.pi * progress) + 1) / 2
        follow(self.target_encoder, self.encoder, 1 - rate)
        follow(self.target_head, self.head, 1 - rate)

    def project(self, features: Tensor) -> Tensor:
        return self.head(features)
