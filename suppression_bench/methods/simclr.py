"""SimCLR: two views, a projection head and a contrastive loss between them."""

import inspect
from collections.abc import Callable

import torch
from torch import Tensor

from generators.dataset import UserError
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
        temperature_end: the loss's temperature goes linearly from its own to this one over training (Huang et al.,
            "Model-aware contrastive learning", ICML 2023, Table 1); without it the temperature stays.
    """

    def __init__(
        self,
        encoder: Encoder,
        info: Info,
        loss: Callable,
        *,
        head: tuple[int, ...] = (512, 128),
        loss_weight: float = 1.0,
        temperature_end: float | None = None,
    ):
        super().__init__(encoder, info)
        self.head = mlp(encoder.width, head, encoder.batch_norm)
        self.pair_loss, self.loss_weight = loss, loss_weight
        self.temperatures = None if temperature_end is None else (_temperature(loss), temperature_end)
        if temperature_end is not None and temperature_end <= 0:
            raise UserError(f"method.temperature_end must be above 0, got {temperature_end}")
        self.progress = 0.0  # a number of the host: reading a buffer would wait for the device in every step

    def loss(self, batch: Batch) -> Output:
        projected, features = self.project_views(batch.views)
        return Output(self.loss_of(projected, batch), features)

    def project_views(self, views: list[Tensor]) -> tuple[list[Tensor], Tensor]:
        features = [self.encoder(view) for view in views]
        return [self.head(hidden) for hidden in features], features[0]

    def loss_of(self, projected: list[Tensor], batch: Batch) -> Tensor:
        changed = {}
        if self.temperatures:
            start, end = self.temperatures
            changed["temperature"] = start + (end - start) * self.progress
        return self.loss_weight * self.pair_loss(*projected, **changed)

    def after_step(self, progress: float) -> None:
        self.progress = progress

    def get_extra_state(self) -> Tensor:
        return torch.tensor(self.progress, dtype=torch.float64)

    def set_extra_state(self, state: Tensor) -> None:
        self.progress = float(state)

    def project(self, features: Tensor) -> Tensor:
        return self.head(features)


def _temperature(loss: Callable) -> float:
    # A loss with its options filled in still shows them in its signature.
    parameter = inspect.signature(loss).parameters.get("temperature")
    if parameter is None or not isinstance(parameter.default, (int, float)):
        raise UserError("method.temperature_end: this loss has no temperature; leave the option out")
    return parameter.default
