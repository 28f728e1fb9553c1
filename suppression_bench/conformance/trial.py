"""One call of a loss on small random projections: its value and its gradient."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from generators.options import parameters
from suppression_bench.loss import PASSED_IN

COUNT, WIDTH, EXTRA = 5, 3, 4
LABELS = (0, 1, 0, 2, 1)


class Broken(Exception):
    """A promise is not kept; the text says which and what was seen."""


def expect(holds: bool, otherwise: str) -> None:
    """Raise Broken unless it holds."""
    if not holds:
        raise Broken(otherwise)


@dataclass(frozen=True)
class Trial:
    """What a loss is called with.

    z1, z2: (N, d) projections of the two views.
    labels: (N,).
    negatives: (M, d) or none.
    """

    z1: Tensor
    z2: Tensor
    labels: Tensor
    negatives: Tensor | None = None

    def to(self, dtype: torch.dtype) -> "Trial":
        extra = None if self.negatives is None else self.negatives.to(dtype)
        return replace(self, z1=self.z1.to(dtype), z2=self.z2.to(dtype), negatives=extra)

    def passed_in(self, function: Callable) -> dict:
        """What is handed to the loss besides its options, as far as it takes it; a generator as if fresh."""
        known = parameters(function)
        everything = {"labels": self.labels, "negatives": self.negatives, "generator": torch.Generator().manual_seed(0)}
        return {name: value for name, value in everything.items() if name in known}


def trial(seed: int = 0, *, negatives: bool = False, count: int = COUNT, width: int = WIDTH) -> Trial:
    """Random projections in double precision, the second view related to the first."""
    generator = torch.Generator().manual_seed(seed)

    def draw(rows: int) -> Tensor:
        return torch.randn(rows, width, generator=generator, dtype=torch.float64)

    z1 = draw(count)
    labels = torch.tensor(LABELS).repeat(-(-count // len(LABELS)))[:count]
    return Trial(z1, z1 + draw(count), labels, draw(EXTRA) if negatives else None)


def call(function: Callable, given: Trial, **options) -> tuple[Tensor, Tensor, Tensor]:
    """The loss and its gradient with respect to both views."""
    views = [z.detach().clone().requires_grad_() for z in (given.z1, given.z2)]
    value = function(*views, **given.passed_in(function), **options)
    expect(isinstance(value, Tensor) and value.shape == (), f"it returned no scalar tensor but {_kind(value)}")
    expect(value.requires_grad, "its value carries no gradient")
    found = torch.autograd.grad(value, views, allow_unused=True)
    for name, gradient in zip(("z1", "z2"), found, strict=True):
        expect(gradient is not None, f"no gradient reaches {name}")
    return value.detach(), *found


def _kind(value) -> str:
    return f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__


def defaults(function: Callable) -> dict:
    """The options of a loss with their defaults."""
    return {name: p.default for name, p in parameters(function, PASSED_IN).items()}


def same(found: tuple, expected: tuple, tolerance: float, what: str) -> None:
    """Expect equal values and gradients, relative to the largest entry of each."""
    for name, a, b in zip(("value", "gradient of z1", "gradient of z2"), found, expected, strict=True):
        far = (a - b).abs().max().item()
        bound = tolerance * max(1.0, b.abs().max().item())
        # `not <=`, since a NaN is not the same as anything.
        expect(far <= bound, f"{what}: the {name} is off by {far:.3g} (allowed {bound:.1g})")
