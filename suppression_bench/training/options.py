"""Options of training and of augmentation: types, defaults and limits, checked when a recipe is read."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from generators.dataset import UserError

METRIC_VIEWS = 2  # drawn to measure alignment, whatever the method


@dataclass(frozen=True, kw_only=True)
class Training:
    """How a method is trained.

    Arguments:
        batch_size: samples per step; an epoch's last, smaller batch is left out.
        steps: number of steps (or give epochs).
        epochs: passes over the training split.
        shuffle: a new order every epoch; otherwise the same batches in file order (as in the RandBit notebook).
        optimizer: adam (coupled L2), adamw, sgd or lars.
        learning_rate: at its highest.
        weight_decay: on kernels only, never on biases and batch norm.
        momentum: of sgd and lars.
        epsilon: of adam and adamw.
        schedule: of the learning rate after the warm-up: linear or cosine to 0, constant, or step.
        milestones: of the step schedule, shares of training behind each of which the rate falls.
        decay: of the step schedule, what the rate is multiplied with at each milestone.
        warmup_epochs: epochs of linear warm-up.
        initialisation: torch (its layers' own) or glorot (Keras').
        precision: fp32; tf32, the same with the short products that some CUDA devices have; or bf16 autocast for the
            network (losses stay in fp32).
        compile: torch.compile for the encoder: none, default, or reduce-overhead (CUDA graphs).
        micro_batch: samples that pass the network at once, 2 or more, with the whole batch's negatives (a gradient
            cache); the last part may be smaller, but no single sample.
        deterministic: refuse kernels that may give other bits in a second run (a CPU has none).
        checkpoint_seconds: time between two checkpoints.
    """

    batch_size: int = 256
    steps: int | None = None
    epochs: int | None = None
    shuffle: bool = True
    optimizer: Literal["adam", "adamw", "sgd", "lars"] = "adam"
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    momentum: float = 0.9
    epsilon: float = 1e-8
    schedule: Literal["linear", "cosine", "constant", "step"] = "cosine"
    milestones: list[float] = (0.8, 0.95)  # pyright: ignore[reportAssignmentType]
    decay: float = 0.1
    warmup_epochs: int = 0
    initialisation: Literal["torch", "glorot"] = "torch"
    precision: Literal["fp32", "tf32", "bf16"] = "fp32"
    compile: Literal["none", "default", "reduce-overhead"] = "none"
    micro_batch: int | None = None
    deterministic: bool = False
    checkpoint_seconds: float = 30.0

    # Younger than published records: left out of a spec while at their defaults, so that those cells keep their ids.
    later: ClassVar[tuple[str, ...]] = ("milestones", "decay", "compile", "micro_batch", "deterministic")

    def __post_init__(self):
        if (self.steps is None) == (self.epochs is None):
            raise UserError("train: give exactly one of steps and epochs")
        for name in ("batch_size", "steps", "epochs", "learning_rate", "epsilon", "micro_batch"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise UserError(f"train.{name} must be above 0, got {value}")
        if self.micro_batch is not None and self.micro_batch > self.batch_size:
            raise UserError(
                f"train.micro_batch must be at most train.batch_size ({self.batch_size}), got {self.micro_batch}"
            )
        if self.micro_batch is not None and (self.micro_batch == 1 or self.batch_size % self.micro_batch == 1):
            raise UserError(
                f"train.micro_batch {self.micro_batch} leaves a part of one sample of train.batch_size {self.batch_size}, "
                "which batch norm cannot normalise; it must be 2 or more, and the last part must not be one sample"
            )
        if not 0 < self.decay <= 1:
            raise UserError(f"train.decay must be above 0 and at most 1, got {self.decay}")
        milestones = list(self.milestones)
        if milestones != sorted(set(milestones)) or not all(0 < milestone < 1 for milestone in milestones):
            raise UserError(f"train.milestones must be rising shares of training between 0 and 1, got {milestones}")

    def steps_per_epoch(self, count: int) -> int:
        """Full batches in `count` samples.

        Raises:
            UserError: fewer samples than a batch has.
        """
        if count < self.batch_size:
            raise UserError(
                f"train.batch_size {self.batch_size} is larger than the {count} training samples; set it lower"
            )
        return count // self.batch_size

    def total_steps(self, count: int) -> int:
        """Steps of the whole training on `count` samples."""
        return self.steps or (self.epochs or 0) * self.steps_per_epoch(count)


@dataclass(frozen=True, kw_only=True)
class Augmentation:
    """What is drawn anew for each view.

    Arguments:
        crop: torchvision (area and log-aspect uniform), tensorflow (aspect and integer height uniform) or none.
        area: smallest and largest share of the image's area.
        aspect: smallest and largest ratio of width to height.
        antialias: whether shrinking averages (torchvision does, the notebook's `tf.image.resize` does not).
        flip: probability of mirroring left and right.
        jitter: probability of changing brightness, contrast, saturation and hue, in a random order.
        jitter_strength: factors lie within .8, .8, .8 and .2 times this around no change (SimCLR: 1, on CIFAR .5).
        grey: probability of taking the colour away.
        blur: probability of a Gaussian blur, for all views or one for each (BYOL: 1.0,0.1).
        solarize: probability of inverting pixels of .5 and more, for all views or one for each (BYOL: 0,0.2).
    """

    crop: Literal["torchvision", "tensorflow", "none"] = "torchvision"
    area: list[float] = (0.08, 1.0)  # pyright: ignore[reportAssignmentType]
    aspect: list[float] = (3 / 4, 4 / 3)  # pyright: ignore[reportAssignmentType]
    antialias: bool = True
    flip: float = 0.0
    jitter: float = 0.0
    jitter_strength: float = 1.0
    grey: float = 0.0
    blur: float | list[float] = 0.0
    solarize: float | list[float] = 0.0

    # Younger than published records: left out of a spec while at their defaults, so that those cells keep their ids.
    later: ClassVar[tuple[str, ...]] = ("flip", "jitter", "jitter_strength", "grey", "blur", "solarize")

    def __post_init__(self):
        for name, (low, high), top in (
            ("area", _pair("area", self.area), 1.0),
            ("aspect", _pair("aspect", self.aspect), 100.0),
        ):
            if not 0 < low <= high <= top:
                raise UserError(
                    f"augmentation.{name} must be two numbers with 0 < low <= high <= {top:g}, got {low}, {high}"
                )
        for name in ("flip", "jitter", "grey", "blur", "solarize"):
            values = _listed(getattr(self, name))
            if not values or not all(0 <= value <= 1 for value in values):
                raise UserError(f"augmentation.{name} is a probability, from 0 to 1, got {getattr(self, name)}")
        if not 0 < self.jitter_strength <= 2.5:  # beyond, the hue's .2 would go more than once round the circle
            raise UserError(f"augmentation.jitter_strength must be above 0, at most 2.5, got {self.jitter_strength}")

    def probability(self, name: str, view: int) -> float:
        """That of an option in a view, the last one where fewer are given than there are views.

        >>> Augmentation(blur=[1.0, 0.1]).probability("blur", 1)
        0.1
        """
        values = _listed(getattr(self, name))
        return values[min(view, len(values) - 1)]

    def uses(self, name: str) -> bool:
        """Whether any view may be changed so."""
        return any(_listed(getattr(self, name)))

    def check(self, shape: tuple[int, int, int], views: int) -> None:
        """Whether images of (height, width, channels) can be changed so.

        Arguments:
            shape: of an image.
            views: of the method. The metrics draw two of every method, so two values are never too many.

        Raises:
            UserError: more values than views, colour where the images have none, or a blur of images too small for it.
        """
        for name in ("blur", "solarize"):
            values = _listed(getattr(self, name))
            if len(values) > max(views, METRIC_VIEWS):
                raise UserError(
                    f"augmentation.{name} has {len(values)} values {values}, the method has {views} views; "
                    f"give one value for all views, or at most {max(views, METRIC_VIEWS)}"
                )
        for name in ("jitter", "grey"):
            if shape[2] != 3 and self.uses(name):
                raise UserError(
                    f"augmentation.{name} {getattr(self, name)} needs images with 3 channels, these have {shape[2]}; "
                    f"set augmentation.{name} to 0"
                )
        if self.uses("blur") and min(shape[:2]) < 20:
            raise UserError(
                f"augmentation.blur {self.blur} needs images of 20 pixels or more (its kernel is a tenth of them), "
                f"these have {min(shape[:2])}; set augmentation.blur to 0"
            )


def _listed(value) -> list[float]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _pair(name, values):
    if len(values) != 2:
        raise UserError(f"augmentation.{name} must be two numbers, got {values!r}")
    return values
