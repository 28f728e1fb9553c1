"""Toys that the checks run on: random projections for a loss, a tiny dataset and encoder for a method."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from generators import catalog
from generators.catalog import parameters
from suppression_bench.config import takes_loss
from suppression_bench.encoder import Encoder
from suppression_bench.loss import PASSED_IN
from suppression_bench.method import Batch, Info, Method, Output, Target

# --- the outcome of a check ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Check:
    """One line of the conformance table.

    name: what must hold, in a few words.
    passed: whether it does.
    detail: what was seen where it does not.
    """

    name: str
    passed: bool
    detail: str = ""


class Broken(Exception):
    """A promise is not kept; the text says which and what was seen."""


def expect(holds: bool, otherwise: str) -> None:
    """Raise Broken unless it holds."""
    if not holds:
        raise Broken(otherwise)


def outcome(check: Callable, *arguments) -> Check:
    """Run a check, a function whose docstring says what must hold; any error is a failed check, not the table's end."""
    name = (check.__doc__ or check.__name__).split("\n")[0].rstrip(".")
    random_state = torch.get_rng_state()
    try:
        check(*arguments)
    except Exception as error:
        text = " ".join(str(error).split()) or "no message"
        return Check(name, False, text if isinstance(error, Broken) else f"{type(error).__name__}: {text}")
    finally:
        torch.set_rng_state(random_state)
    return Check(name, True)


# --- for a loss ------------------------------------------------------------------------------------------------------

ROWS, WIDTH, EXTRA = 5, 3, 4
LABELS = (0, 1, 0, 2, 1)


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
        """The same projections in another precision."""
        negatives = None if self.negatives is None else self.negatives.to(dtype)
        return replace(self, z1=self.z1.to(dtype), z2=self.z2.to(dtype), negatives=negatives)

    def passed_in(self, function: Callable) -> dict:
        """What is handed to the loss besides its options, as far as it takes it; a generator as if fresh."""
        everything = {"labels": self.labels, "negatives": self.negatives, "generator": torch.Generator().manual_seed(0)}
        return {name: value for name, value in everything.items() if name in parameters(function)}


def trial(seed: int = 0, *, negatives: bool = False, count: int = ROWS, width: int = WIDTH) -> Trial:
    """Random projections in double precision, the second view related to the first."""
    generator = torch.Generator().manual_seed(seed)

    def draw(rows: int) -> Tensor:
        return torch.randn(rows, width, generator=generator, dtype=torch.float64)

    z1 = draw(count)
    labels = torch.tensor(LABELS).repeat(-(-count // len(LABELS)))[:count]
    return Trial(z1, z1 + draw(count), labels, draw(EXTRA) if negatives else None)


def call(function: Callable, inputs: Trial, **options) -> tuple[Tensor, Tensor, Tensor]:
    """The loss and its gradient with respect to both views."""
    views = [z.detach().clone().requires_grad_() for z in (inputs.z1, inputs.z2)]
    value = function(*views, **inputs.passed_in(function), **options)
    kind = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
    expect(isinstance(value, Tensor) and value.shape == (), f"it returned no scalar tensor but {kind}")
    expect(value.requires_grad, "its value carries no gradient")
    first, second = torch.autograd.grad(value, views, allow_unused=True)
    for name, gradient in (("z1", first), ("z2", second)):
        expect(gradient is not None, f"no gradient reaches {name}")
    return value.detach(), first, second


def defaults(function: Callable) -> dict:
    """The options of a loss with their defaults."""
    return {name: parameter.default for name, parameter in parameters(function, PASSED_IN).items()}


# --- for a method ----------------------------------------------------------------------------------------------------

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

    def forward(self, images: Tensor) -> Tensor:
        return self.dense(self.norm(self.convolution(images)).relu().flatten(1)).relu()


class Forbidden(dict):
    """Labels that remember being touched, even where the error is caught."""

    touched = False

    def _touch(self, *arguments, **options):
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
        method = self.cls(TinyEncoder(SIDE, channels + bits), info, *arguments, **self.options)
        method.after_build()
        return method.train()

    def _spied(self) -> Callable:
        loss = self.loss or catalog.load_function("suppression_bench.losses", self.cls.default_loss)

        @functools.wraps(loss)  # keeps the signature, from which a method may read the temperature
        def spied(z1, z2, **options):
            self.calls.append((z1, z2, options))
            return loss(z1, z2, **options)

        return spied

    def batch(self, ids: list[int], *, bits: int = BITS, channels: int = 1) -> Batch:
        """Views of some of the samples: the image, then mirrored and a little brighter; the same bits."""
        generator = torch.Generator().manual_seed(1)
        images = torch.rand(COUNT, channels, SIDE, SIDE, generator=generator)
        marks = torch.randint(0, 2, (COUNT, bits, 1, 1), generator=generator).float().expand(-1, -1, SIDE, SIDE)
        rows = torch.tensor(ids)
        views = [
            torch.cat([(images.flip(3) * 0.9 + 0.1 if view % 2 else images), marks], 1)[rows]
            for view in range(self.cls.views)
        ]
        if not self.cls.needs_labels:
            return Batch(views, rows, Forbidden())
        sets = (torch.arange(COUNT)[:, None] % torch.arange(2, 6) == 0).float()
        return Batch(views, rows, {"shape": rows % 3, "marks": sets[rows]})

    def train(self, method: Method, batches: list[list[int]], *, start: int = 0, steps: int = 0, rate: float = 1e-3):
        """The losses of plain gradient steps from step `start` on, noise drawn by step; no state but the method's."""
        losses = []
        weights = [parameter for parameter in method.parameters() if parameter.requires_grad]
        for step, ids in enumerate(batches, start):
            torch.manual_seed(1000 + step)
            output: Output = method.loss(self.batch(ids))
            gradients = torch.autograd.grad(output.loss, weights, allow_unused=True)
            with torch.no_grad():
                for parameter, gradient in zip(weights, gradients, strict=True):
                    if gradient is not None:
                        # A step of one size for every loss's scale, as Adam's first.
                        parameter -= rate * gradient.sign()
            method.after_step((step + 1) / (steps or start + len(batches)))
            losses.append(output.loss.item())
        return losses
