"""The contract of a cell: one dataset setting x method x seed, frozen and typed; the hash of its spec is its id."""

import hashlib
from typing import Any, Literal

import msgspec

from generators.dataset import UserError
from generators.files import dumps_json

METRIC_VIEWS = 2  # drawn to measure alignment, whatever the method
MOST_TRACED = 100  # steps of a trace: a record stays small


class Struct(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of all parts of a cell: immutable, and an unknown key is an error."""


class DatasetSetting(Struct, frozen=True):
    """A dataset by name, version and options, as its manifest has them: no path of a source, no digest.

    bits: how many of the constant channels are in use; they are a knob of reading, not of the files.
    file: SHA-256 of a user's own dataset file, else None.
    """

    name: str
    version: int
    options: dict[str, Any]
    seed: int = 0
    bits: int = 0
    file: str | None = None


class PlugIn(Struct, frozen=True):
    """A method, loss or encoder with all its options resolved.

    version: of a built-in one, raised when its numbers change. file: SHA-256 of a user's own file. One of them is None.
    """

    name: str
    options: dict[str, Any]
    version: int | None = None
    file: str | None = None


class Strength(Struct, frozen=True):
    """The dataset setting that makes the competitor stronger, and its value in this cell."""

    key: str
    value: Any


class SuiteName(Struct, frozen=True):
    """The suite that a cell belongs to."""

    name: str
    version: int


class Augmentation(Struct, frozen=True):
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
    area: tuple[float, ...] = (0.08, 1.0)
    aspect: tuple[float, ...] = (3 / 4, 4 / 3)
    antialias: bool = True
    flip: float = 0.0
    jitter: float = 0.0
    jitter_strength: float = 1.0
    grey: float = 0.0
    blur: float | tuple[float, ...] = 0.0
    solarize: float | tuple[float, ...] = 0.0

    def __post_init__(self):
        for name, most in (("area", 1.0), ("aspect", 100.0)):
            values = getattr(self, name)
            if len(values) != 2 or not 0 < values[0] <= values[1] <= most:
                raise UserError(
                    f"augmentation.{name} must be two numbers with 0 < low <= high <= {most:g}, got {list(values)}"
                )
        for name in ("flip", "jitter", "grey", "blur", "solarize"):
            values = self.per_view(name)
            if not values or not all(0 <= value <= 1 for value in values):
                raise UserError(f"augmentation.{name} is a probability, from 0 to 1, got {getattr(self, name)}")
        if not 0 < self.jitter_strength <= 2.5:  # beyond, the hue's .2 would go more than once round the circle
            raise UserError(f"augmentation.jitter_strength must be above 0, at most 2.5, got {self.jitter_strength}")

    def per_view(self, name: str) -> list[float]:
        """A probability as a list: one value for all views, or one for each."""
        value = getattr(self, name)
        return list(value) if isinstance(value, (list, tuple)) else [value]

    def probability(self, name: str, view: int) -> float:
        """That of an option in a view, the last one where fewer are given than there are views.

        >>> Augmentation(blur=(1.0, 0.1)).probability("blur", 1)
        0.1
        """
        values = self.per_view(name)
        return values[min(view, len(values) - 1)]

    def uses(self, name: str) -> bool:
        """Whether any view may be changed so."""
        return any(self.per_view(name))

    def check(self, shape: tuple[int, int, int], views: int) -> None:
        """Whether images of (height, width, channels) can be changed so.

        Arguments:
            shape: of an image.
            views: of the method. The metrics draw two of every method, so two values are never too many.

        Raises:
            UserError: more values than views, colour where the images have none, or a blur of images too small for it.
        """
        for name in ("blur", "solarize"):
            values = self.per_view(name)
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


class Train(Struct, frozen=True):
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
    milestones: tuple[float, ...] = (0.8, 0.95)
    decay: float = 0.1
    warmup_epochs: int = 0
    initialisation: Literal["torch", "glorot"] = "torch"
    precision: Literal["fp32", "tf32", "bf16"] = "fp32"
    compile: Literal["none", "default", "reduce-overhead"] = "none"
    micro_batch: int | None = None
    deterministic: bool = False
    checkpoint_seconds: float = 30.0

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
                f"train.micro_batch {self.micro_batch} leaves a part of one sample of train.batch_size "
                f"{self.batch_size}, which batch norm cannot normalise; it must be 2 or more, and the last part must "
                "not be one sample"
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
        return self.steps if self.steps is not None else (self.epochs or 0) * self.steps_per_epoch(count)


class Probing(Struct, frozen=True):
    """Which probes measure the encoder.

    Arguments:
        kinds: lbfgs, sgd and online (trained beside the method on its first view, only to watch).
        layers: encoder, and head for the method's own projection (a VAE's posterior mean).
        l2: the grid from which a held-out part of the train split chooses.
        block_size: images per forward pass.
        metric_samples: the most test samples whose features are described by alignment, uniformity and so on; 0: none.
        trace: at how many log-spaced training steps, at most, every feature is probed (the learning order); 0: none.
    """

    kinds: tuple[str, ...] = ("lbfgs",)
    layers: tuple[str, ...] = ("encoder",)
    l2: tuple[float, ...] = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
    block_size: int = 1000
    metric_samples: int = 10_000
    trace: int = 0

    def __post_init__(self):
        for name, allowed in (("kinds", {"lbfgs", "sgd", "online"}), ("layers", {"encoder", "head"})):
            unknown = sorted(set(getattr(self, name)) - allowed)
            if unknown:
                raise UserError(f"probe.{name}: {', '.join(unknown)} is not one of {', '.join(sorted(allowed))}")
        if self.metric_samples < 0:
            raise UserError(f"probe.metric_samples must be 0 (no metrics) or more, got {self.metric_samples}")
        if not 0 <= self.trace <= MOST_TRACED:
            raise UserError(
                f"probe.trace must be a number of steps from 0 (no trace) to {MOST_TRACED}, got {self.trace}"
            )


class Cell(Struct, frozen=True):
    """One dataset setting x method x seed: everything that names it, and nothing of this machine.

    varied: dotted name -> value of the settings that are shown beside the method's name.
    """

    suite: SuiteName | None
    recipe: str
    dataset: DatasetSetting
    method: PlugIn
    loss: PlugIn | None
    encoder: PlugIn
    augmentation: Augmentation
    train: Train
    probe: Probing
    probe_version: int
    strength: Strength | None
    varied: dict[str, Any]
    seed: int

    @property
    def id(self) -> str:
        """SHA-256 of the canonical JSON of the spec."""
        return digest_of(msgspec.to_builtins(self))

    @property
    def setting(self) -> str:
        """The varied settings as text: "temperature=0.1 head=64"."""
        return " ".join(f"{key.partition('.')[2]}={value_text(value)}" for key, value in self.varied.items())

    @property
    def title(self) -> str:
        """Method, varied settings and strength."""
        parts = [self.method.name, self.setting]
        if self.strength and f"data.{self.strength.key}" not in self.varied:
            parts.append(f"{self.strength.key}={value_text(self.strength.value)}")
        return " ".join(filter(None, parts))

    @property
    def label(self) -> str:
        """The title and the seed."""
        return f"{self.title} seed={self.seed}"

    @property
    def folder_name(self) -> str:
        """The label and the first digits of the id, as a folder's name."""
        return f"{self.label.replace(' ', '-').replace('/', '_')}-{self.id[:8]}"

    def settings(self) -> dict[str, Any]:
        """Every setting under its dotted name.

        Sections: data (the dataset's seed, bits and options), method, loss, encoder, augmentation, train, probe.
        """
        dataset = self.dataset
        # Options first: in a foreign record none may hide what the harness used.
        values: dict[str, Any] = {f"data.{key}": value for key, value in dataset.options.items()}
        values |= {"data.dataset": dataset.name, "data.seed": dataset.seed, "data.bits": dataset.bits}
        for section in ("method", "loss", "encoder"):
            if plugin := getattr(self, section):
                values |= {f"{section}.{key}": value for key, value in plugin.options.items()}
                values[f"{section}.name"] = plugin.name
        for section in ("augmentation", "train", "probe"):
            options = msgspec.to_builtins(getattr(self, section))
            values |= {f"{section}.{key}": value for key, value in options.items()}
        return values


def digest_of(spec: Any) -> str:
    """SHA-256 of the canonical JSON of plain values."""
    return hashlib.sha256(dumps_json(spec).encode()).hexdigest()


def value_text(value: Any) -> str:
    """A setting's value as text without spaces.

    >>> value_text([20, 80]), value_text(0.1)
    ('20+80', '0.1')
    """
    return "+".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def strength_text(strength: Strength | None) -> str:
    """A competitor's strength as text, "" where there is none.

    >>> strength_text(Strength(key="sizes", value=[20, 80])), strength_text(None)
    ('20+80', '')
    """
    return "" if strength is None or strength.value is None else value_text(strength.value)


def settings_key(cell: Cell, *, dataset: bool = True, code: bool = True) -> str:
    """Hash of everything that can move a number but the seed: equal keys are seeds of the same setting.

    Names (suite, what is varied or the strength) and what cannot move a number (the time between checkpoints, the
    probe's block size) stay outside.

    Arguments:
        cell: its spec.
        dataset: whether the dataset belongs to the setting; without it cells of one method on other data are equal.
        code: whether versions and files of plug-ins do; a check of changed code compares without them.
    """
    spec = msgspec.to_builtins(cell)
    for name in ("suite", "strength", "varied", "seed"):
        del spec[name]
    del spec["train"]["checkpoint_seconds"], spec["probe"]["block_size"]
    if not dataset:
        del spec["dataset"]
    if not code:
        for section in ("dataset", "method", "loss", "encoder"):
            for name in ("version", "file"):
                (spec.get(section) or {}).pop(name, None)
    return digest_of(spec)
