"""The tiny data set and encoder on which methods are checked: a second's work, and every feature of the contract."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from generators import catalog
from suppression_bench.config import takes_loss
from suppression_bench.encoder import Encoder
from suppression_bench.method import Batch, Info, Method, Output, Target

SIDE, COUNT, BITS = 12, 32, 2
TARGETS = {"shape": Target(3), "marks": Target(4, many=True)}


class TinyEncoder(Encoder):
    """One convolution, batch norm and a dense layer."""

    width = 16

    def __init__(self, side: int, channels: int):
        super().__init__()
        self.convolution = nn.Conv2d(channels, 8, 3, stride=2)
        self.norm = nn.BatchNorm2d(8)
        self.dense = nn.Linear(8 * ((side - 3) // 2 + 1) ** 2, self.width)

    def forward(self, pictures: Tensor) -> Tensor:
        return self.dense(self.norm(self.convolution(pictures)).relu().flatten(1)).relu()


class Forbidden(dict):
    """Labels that remember being touched, even where the error is caught."""

    touched = False

    def _touch(self, *arguments, **more):
        self.touched = True
        raise AttributeError("this method reads labels, but does not declare needs_labels")

    __getitem__ = __iter__ = __len__ = __contains__ = __eq__ = get = keys = values = items = pop = copy = _touch
    __hash__ = None


@dataclass
class Toy:
    """A method's class with its loss and options, ready to be built and fed.

    calls: the arguments of every call of the loss, of methods that are handed one.
    """

    cls: type[Method]
    loss: Callable | None = None
    options: dict = field(default_factory=dict)
    calls: list[tuple[Tensor, Tensor, dict]] = field(default_factory=list)

    def build(self, seed: int = 0, *, bits: int = BITS, channels: int = 1) -> Method:
        """The method with initial weights from a seed, in training mode."""
        torch.manual_seed(seed)
        info = Info((SIDE, SIDE, channels), bits, COUNT, TARGETS if self.cls.needs_labels else {})
        arguments = [self._spied()] if takes_loss(self.cls) else []
        made = self.cls(TinyEncoder(SIDE, channels + bits), info, *arguments, **self.options)
        made.after_build()
        return made.train()

    def _spied(self) -> Callable:
        loss = self.loss or catalog.load_function("suppression_bench.losses", self.cls.default_loss)

        @functools.wraps(loss)  # keeps the signature, from which a method may read the temperature
        def spied(z1, z2, **more):
            self.calls.append((z1, z2, more))
            return loss(z1, z2, **more)

        return spied

    def batch(self, ids: list[int], *, bits: int = BITS, channels: int = 1) -> Batch:
        """Views of some of the samples: the picture, then mirrored and a little brighter; the same bits."""
        generator = torch.Generator().manual_seed(1)
        pictures = torch.rand(COUNT, channels, SIDE, SIDE, generator=generator)
        marks = torch.randint(0, 2, (COUNT, bits, 1, 1), generator=generator).float().expand(-1, -1, SIDE, SIDE)
        chosen = torch.tensor(ids)
        views = [
            torch.cat([(pictures.flip(3) * 0.9 + 0.1 if view % 2 else pictures), marks], 1)[chosen]
            for view in range(self.cls.views)
        ]
        if not self.cls.needs_labels:
            return Batch(views, chosen, Forbidden())
        sets = (torch.arange(COUNT)[:, None] % torch.arange(2, 6) == 0).float()
        return Batch(views, chosen, {"shape": chosen % 3, "marks": sets[chosen]})

    def train(self, method: Method, batches: list[list[int]], *, start: int = 0, steps: int = 0, rate: float = 1e-3):
        """The losses of plain gradient steps from step `start` on, noise drawn by step; no state but the method's."""
        losses = []
        parameters = [parameter for parameter in method.parameters() if parameter.requires_grad]
        for step, ids in enumerate(batches, start):
            torch.manual_seed(1000 + step)
            output: Output = method.loss(self.batch(ids))
            gradients = torch.autograd.grad(output.loss, parameters, allow_unused=True)
            with torch.no_grad():
                for parameter, gradient in zip(parameters, gradients, strict=True):
                    if gradient is not None:
                        parameter -= (
                            rate * gradient.sign()
                        )  # a step of one size for every loss's scale, as Adam's first
            method.after_step((step + 1) / (steps or start + len(batches)))
            losses.append(output.loss.item())
        return losses
