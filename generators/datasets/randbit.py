"""RandBit: an image and up to 32 random bits as constant channels (Chen, Luo & Li, 2021, Fig. 7)."""

import numpy as np

from generators import canvas, sources
from generators.dataset import ConstantChannels, Dataset, Feature, UserError
from generators.sources import LARGE_SIDE, images, recipe_for

# One constant per decision: never renumber, a later decision takes the next number.
CODE = 0
BITS = 32
LARGE = 10_000  # samples that the notebook's 600 steps of 1000 are meant for
DIGITS = "optdigits"  # where neither source is named


class RandBit(Dataset):
    """Digits or natural images with a random 32-bit code each; the reader chooses how many bits compete.

    Reference: Chen, Luo & Li (NeurIPS 2021), section 3.3 and Fig. 7. The paper appends the n binary digits of a
    random integer to an image as n constant channels, the same in both augmented views. Here each sample stores
    one 32-bit integer (label `code`), and bit i is (code >> i) & 1, so that one dataset serves every n up to 32.
    The code belongs to the sample: it is the same in every epoch. The other feature is the image's class, `digit`
    or `image`. A limited number takes the first digits, or images evenly over a source that is sorted by class.

    Arguments:
        digit_source: optdigits (the default), mnist:DIR or mnist.
        image_source: instead of digits: leaves, folder:DIR or cifar10:DIR.
        image_size: side in pixels (default: the source's own; 224 for a folder).
        train: number of `pretrain` samples (default: all of the source's train split).
        test: number of `probe-test` samples (default: all of the source's test split).

    >>> RandBit(train=3).splits
    {'pretrain': 3, 'probe-test': 450}
    """

    version = 1
    strength = "bits"
    constant_channels = ConstantChannels(label="code", max=BITS)
    later_options = ("image_source", "image_size")

    def __init__(
        self,
        *,
        digit_source: str | None = None,
        image_source: str | None = None,
        image_size: int | None = None,
        train: int | None = None,
        test: int | None = None,
    ):
        if digit_source is not None and image_source is not None:
            raise UserError("randbit: --digit-source and --image-source exclude each other; give one of them")
        if image_source is not None:
            source, role = images(image_source), "image"
            self.recipe = recipe_for(source)
            native_side, channels, classes = source.side or LARGE_SIDE, 3, len(source.classes)
        else:
            digit_source = DIGITS if digit_source is None else digit_source
            source, role = sources.digits(digit_source), "digit"
            self.recipe = "randbit" if source.count("train") >= LARGE else "randbit-small"
            native_side, channels, classes = sources.DIGIT_SIDE, 1, sources.DIGIT_CLASSES
        self.source: sources.ImageSource | sources.DigitSource = source
        self.feature, self.side = role, native_side if image_size is None else image_size
        if not 8 <= self.side <= 1024:
            raise UserError(f"--image-size {image_size}: from 8 to 1024 pixels")
        # One dataset has one identity, whether a default is written out or not.
        defaults = {"image_size": (image_size, native_side), "train": (train, self.source.count("train"))}
        defaults["test"] = test, self.source.count("test")
        self.settled = {name: None for name, (value, default) in defaults.items() if value == default}
        self.settled |= {"digit_source": digit_source}
        self.sources = {f"{role}s": self.source}
        self.image_shape = (self.side, self.side, channels)
        self.features = {role: Feature(classes)}
        self.targets = [role, "code"]
        self.probes = dict.fromkeys(self.targets, ("pretrain", "probe-test"))
        self.splits = {"pretrain": self._count("train", train), "probe-test": self._count("test", test)}

    @classmethod
    def settle(cls, options):
        source = options["digit_source"] or options["image_source"]
        return options if source else {**options, "digit_source": DIGITS}

    def _count(self, part: str, count: int | None) -> int:
        available = self.source.count(part)
        if count is not None and not 1 <= count <= available:
            raise UserError(f"--{part} {count}: randbit over {self.source.name} has 1 to {available} {part} samples")
        return available if count is None else count

    def draw(self, split, index, stream):
        part = "train" if split == "pretrain" else "test"
        code = int(stream.below(CODE, 2**BITS, 1)[0])
        position = index
        if isinstance(self.source, sources.ImageSource):
            position = self.source.spread(part, self.splits[split], index)
        labels = {self.feature: int(self.source.labels[part][position]), "code": code}
        return labels, {"part": part, "source": position}

    def render(self, labels, factors, stream) -> np.ndarray:
        part, position = factors["part"], factors["source"]
        if isinstance(self.source, sources.ImageSource):
            return self.source.image(part, position, self.side)
        digit = self.source.images[part][position]
        if self.side != sources.DIGIT_SIDE:
            digit = canvas.resize(digit, self.side, self.side)
        return digit[:, :, None]
