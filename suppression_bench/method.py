"""The contract of a method: an encoder and batches of views in, a loss out, and never a label unless it says so."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from suppression_bench.encoder import Encoder


@dataclass(frozen=True)
class Target:
    """What a supervised method may predict: one of `classes` classes, or (`many`) the set of classes present."""

    classes: int
    many: bool = False


@dataclass(frozen=True)
class Info:
    """What a method may know of the data before it sees a batch.

    image_shape: (height, width, image channels).
    constant_channels: number of binary channels appended to the image.
    count: number of training samples.
    targets: name -> Target; empty unless the method declares `needs_labels`.
    """

    image_shape: tuple[int, int, int]
    constant_channels: int
    count: int
    targets: dict[str, Target]

    @property
    def input_shape(self) -> tuple[int, int, int]:
        """(channels, height, width) of a view: the image's channels, then the constant ones."""
        height, width, channels = self.image_shape
        return channels + self.constant_channels, height, width


@dataclass(frozen=True)
class Batch:
    """One batch of a method's views.

    views: each (B, channels, H, W) in [0, 1].
    ids: (B,), a fixed permutation of the samples' numbers, none of them twice.
    labels: target -> (B,) int64 classes, or (B, classes) float32 0/1 for a set; None unless `needs_labels`.
    """

    views: list[Tensor]
    ids: Tensor
    labels: dict[str, Tensor] | None = None


@dataclass(frozen=True)
class Output:
    """A method's answer to a batch: the scalar loss and the encoder's output (B, width) on the first view."""

    loss: Tensor
    features: Tensor


class Method(nn.Module, ABC):
    """A representation-learning method; its options are the keyword-only arguments of its constructor.

    It is built as `Subclass(encoder, info, **options)`, or `Subclass(encoder, info, loss, **options)` where its
    constructor has an argument `loss`: then the harness resolves the loss and hands it over as `loss(z1, z2)`, and
    `loss(z1, z2, negatives=...)` or `labels=...` where `passes` says so.

    Class flags:
        needs_labels: the method sees the labels of the training split (it is shown apart from the others).
        trains: whether there is anything to train.
        views: number of augmented views per sample and step.
        default_loss: the loss that is handed over where nothing names another.
        passes: what else it hands to its loss, of `negatives` and `labels`.
        no_gradient: names of its submodules that no gradient may pass; each is used in every step.
        version: rises when a change moves the method's numbers: records of one version are compared with each other.
    """

    name: str  # the file's stem, set by the catalog
    needs_labels = False
    trains = True
    views = 2
    default_loss = "nt_xent"
    passes: tuple[str, ...] = ()
    no_gradient: tuple[str, ...] = ()
    version = 1

    def __init__(self, encoder: Encoder, info: Info):
        super().__init__()
        self.encoder = encoder
        self.info = info

    @abstractmethod
    def loss(self, batch: Batch) -> Output:
        """The training loss of a batch."""

    def project_views(self, views: list[Tensor]) -> tuple[list[Tensor], Tensor]:
        """Each view's projection (B, d), and the encoder's output (B, width) on the first view.

        Only for a method whose loss is `loss_of` of the whole batch's projections and nothing else: then
        `train.micro_batch` can run the network on parts of the batch.
        """
        raise NotImplementedError

    def loss_of(self, projected: list[Tensor], batch: Batch) -> Tensor:
        """The scalar loss of a whole batch's projections, where there is `project_views`."""
        raise NotImplementedError

    def project(self, features: Tensor) -> Tensor:
        """The head's output (B, d) for the encoder's output (B, width)."""
        return features

    def after_build(self) -> None:
        """Called once when the weights have their initial values, e.g. to copy them into a moving average."""

    def after_step(self, progress: float) -> None:
        """Called after each optimizer step with the share of training done, in (0, 1]."""


@torch.no_grad()
def follow(moving: nn.Module, online: nn.Module, share: float) -> None:
    """Move every parameter of a network by `share` of the way to another's: its moving average, step by step."""
    torch._foreach_lerp_([*moving.parameters()], [*online.parameters()], share)  # pyright: ignore[reportPrivateImportUsage]
