"""DigitOnImageNet: one digit over a natural image, the number of different digits as the knob (Chen, Luo & Li, 2021)."""

from typing import Literal

import numpy as np

from generators import canvas, sources
from generators.dataset import Dataset, Feature, UserError
from generators.randomness import shuffled
from generators.sources import LARGE_SIDE, images, recipe_for

# One constant per decision: never renumber, a later decision takes the next number.
DIGIT, PROBE_ORDER = 0, 1
CORNERS = (0.15, 0.45, 0.75)  # top-left corners on both axes, as shares of the side


class DigitOnImageNet(Dataset):
    """Natural images with one digit laid over them at nine places; image class and digit class compete.

    Reference: Chen, Luo & Li (NeurIPS 2021), section 3.2 and Fig. 6, and the authors' notebook. The same digit stands
    at nine fixed places, so that every crop shows one; at 224 pixels it is 28 pixels large and its corners lie at
    33, 100 and 168; other sides scale both. The knob is the number of *different* digits in `pretrain`: the first k of
    the source's train digits, in file order. `probe-train` (the same images) and `probe-test` (the test images)
    show every digit of the source's train and test split whatever k is, so that the probes measure the encoder, not k.

    Arguments:
        image_source: leaves, folder:DIR (of ImageNet, say) or cifar10:DIR.
        digit_source: optdigits, mnist:DIR or mnist.
        unique_digits: how many different train digits `pretrain` shows (default: all).
        image_size: side in pixels; images are resized to a square whatever their aspect.
        digit_size: side of a digit in pixels, at most a quarter of the image's (default: the paper's eighth, which
            images much smaller than 224 pixels make illegible).
        blend: max (the brighter of image and digit, as in the notebook) or add (the paper's sum, saturating).
        digits: fixed (image i shows digit i modulo k, always) or redraw (each sample's digit is drawn at random).
        rounds: with redraw, how often each image occurs in `pretrain`, each time with another draw; the notebook
            redraws at every reading, which files can only offer so often.
        probe_on: probe-train, or pretrain for the literal reading: probes are then fitted on the k digits alone, and
            digit classes that do not occur among them are reported.
        train: number of train images, evenly over the source (default: all).
        test: number of test images, evenly over the source (default: all).
        probe_train: number of `probe-train` images, evenly over the source (default: as `train`).

    >>> DigitOnImageNet(unique_digits=16, train=100, image_size=64).splits["pretrain"]
    100
    """

    version = 1
    later_options = ("digit_size",)
    strength = "unique_digits"
    targets = ["image", "digit"]

    def __init__(
        self,
        *,
        image_source: str = "leaves",
        digit_source: str = "optdigits",
        unique_digits: int | None = None,
        image_size: int = LARGE_SIDE,
        digit_size: int | None = None,
        blend: Literal["max", "add"] = "max",
        digits: Literal["fixed", "redraw"] = "fixed",
        rounds: int = 1,
        probe_on: Literal["probe-train", "pretrain"] = "probe-train",
        train: int | None = None,
        test: int | None = None,
        probe_train: int | None = None,
    ):
        self.digits, self.images = sources.digits(digit_source), images(image_source)
        available = {part: self.images.count(part) for part in ("train", "test")}
        counts = {"train": (train, available["train"]), "test": (test, available["test"])}
        counts["probe-train"] = probe_train, available["train"]
        idle = probe_on == "pretrain" and probe_train is not None
        _check((image_size, digit_size), digits, rounds, (unique_digits, self.digits), idle, counts)
        self.side, self.blend, self.redraw = image_size, blend, digits == "redraw"
        self.unique_digits = self.digits.count("train") if unique_digits is None else unique_digits
        # One dataset has one identity, whether a default is written out or not.
        self.settled = {"unique_digits": self.unique_digits}
        self.settled |= {name: None for name, count in (("train", train), ("test", test)) if count == available[name]}
        self.settled |= {"probe_train": None} if probe_train == (train or available["train"]) else {}
        scaled = round(sources.DIGIT_SIDE * image_size / LARGE_SIDE)
        self.digit_side = digit_size or scaled
        self.settled |= {"digit_size": None} if self.digit_side == scaled else {}
        self.corners = [int(image_size * share) for share in CORNERS]
        self.recipe = recipe_for(self.images)
        self.sources = {"images": self.images, "digits": self.digits}
        self.image_shape = (image_size, image_size, 3)
        self.features = {"image": Feature(len(self.images.classes)), "digit": Feature(sources.DIGIT_CLASSES)}
        train, test = train or available["train"], test or available["test"]
        self.image_counts = {"pretrain": train, "probe-train": probe_train or train, "probe-test": test}
        self.splits = {**self.image_counts, "pretrain": train * rounds}
        if probe_on == "pretrain":
            del self.splits["probe-train"]
        self.probes = dict.fromkeys(self.features, (probe_on, "probe-test"))

    def draw(self, split, index, stream):
        part = "test" if split == "probe-test" else "train"
        image = self.images.spread(part, self.image_counts[split], index % self.image_counts[split])
        if split != "pretrain":
            turn, position = divmod(index, self.digits.count(part))
            digit = int(shuffled(stream.key.tobytes(), PROBE_ORDER, turn, self.digits.count(part))[position])
        elif self.redraw:
            digit = int(stream.below(DIGIT, self.unique_digits, 1)[0])
        else:
            digit = index % self.unique_digits
        labels = {"image": int(self.images.labels[part][image]), "digit": int(self.digits.labels[part][digit])}
        return labels, {"part": part, "picture": image, "source": digit}

    def render(self, labels, factors, stream) -> np.ndarray:
        image = self.images.image(factors["part"], factors["picture"], self.side)
        digit = self.digits.images[factors["part"]][factors["source"]]
        if self.digit_side != sources.DIGIT_SIDE:
            digit = canvas.resize(digit, self.digit_side, self.digit_side)
        lay = canvas.lay_over if self.blend == "max" else canvas.add
        for top in self.corners:
            for left in self.corners:
                lay(image, digit, top, left)
        return image


def _check(sides, digits, rounds, unique, idle, counts) -> None:
    faults = []
    image_size, digit_size = sides
    if not 32 <= image_size <= 1024:
        faults.append(f"--image-size {image_size}: from 32 to 1024 pixels")
    elif digit_size is not None and not 4 <= digit_size <= image_size // 4:
        faults.append(f"--digit-size {digit_size}: from 4 to {image_size // 4} pixels (a quarter of the image)")
    unique_digits, source = unique
    if unique_digits is not None and not 1 <= unique_digits <= source.count("train"):
        faults.append(f"--unique-digits {unique_digits}: {source.name} has 1 to {source.count('train')} train digits")
    if rounds < 1 or (rounds > 1 and digits == "fixed"):
        faults.append(f"--rounds {rounds}: at least 1, and more than 1 only with --digits redraw")
    if idle:
        faults.append("--probe-train goes with --probe-on probe-train; with pretrain there is no such split")
    for name, (number, available) in counts.items():
        if number is not None and not 1 <= number <= available:
            faults.append(f"--{name} {number}: the image source has 1 to {available} such images")
    if faults:
        raise UserError("digit-on-imagenet: " + "; ".join(faults))
