"""MultiDigits: several digits on one canvas, many of one size or a few of several sizes (Chen, Luo & Li, 2021)."""

from typing import Literal

import numpy as np

from generators import canvas as drawing
from generators import sources
from generators.dataset import Dataset, Feature, UserError
from generators.randomness import below, permutation, shuffled

# One constant per decision: never renumber, a later decision takes the next number.
DIGIT, PLACE, PROBE_ORDER, CLASS = 0, 1, 2, 3


class MultiDigits(Dataset):
    """Digits that compete by their number (`count`) or by their size (`sizes`) on a black canvas.

    Reference: Chen, Luo & Li (NeurIPS 2021), section 3.1, Tables 3 and 4. Digits lie fully inside the canvas, and add
    up where they overlap (saturating at 255). The probe splits hold exactly one digit per canvas, placed like in
    pretraining; each digit of the source is used once before any is used again, train digits for `probe-train`,
    test digits for `probe-test`.

    Arguments:
        count: number of digits of one size per canvas (default 2, unless sizes are given).
        sizes: one digit of each of these sides in pixels, e.g. 20 80 (instead of count).
        placement: random (anywhere) or grid (cells of a digit's size, no two digits in one cell; needs count).
        distinct: what never occurs twice on a `pretrain` canvas: none (digits are drawn with repetition), instances (of
            the source) or classes.
        canvas: side of the square canvas in pixels.
        digit_size: side in pixels of the digits that `count` counts.
        train: number of `pretrain` samples.
        probe_train: samples of each probe's train split (default: each train digit of the source once).
        probe_test: samples of each probe's test split (default: each test digit of the source once).
        digit_source: optdigits, mnist:DIR or mnist.

    >>> MultiDigits(sizes=[20, 80], train=10).probes["digit_80"]
    ('probe-train-80', 'probe-test-80')
    """

    version = 1
    later_options = ("distinct", "digit_size")
    targets = ["digits"]
    recipe = "multidigits"

    def __init__(
        self,
        *,
        count: int | None = None,
        sizes: list[int] | None = None,
        placement: Literal["random", "grid"] = "random",
        distinct: Literal["none", "instances", "classes"] = "none",
        canvas: int = 112,
        digit_size: int = sources.DIGIT_SIDE,
        train: int = 60_000,
        probe_train: int | None = None,
        probe_test: int | None = None,
        digit_source: str = "optdigits",
    ):
        count = 2 if count is None and not sizes else count
        numbers = {"train": train, "probe_train": probe_train, "probe_test": probe_test}
        _check(count, sizes, placement, canvas, digit_size, numbers)
        self.canvas, self.placement, self.distinct, self.digit_size = canvas, placement, distinct, digit_size
        self.settled = {"count": count}
        self.strength = "sizes" if sizes else "count"
        self.sizes = list(sizes) if sizes else [digit_size] * (count or 0)
        self.digits = sources.digits(digit_source)
        most = {"instances": self.digits.count("train"), "classes": sources.DIGIT_CLASSES}.get(
            distinct, len(self.sizes)
        )
        if len(self.sizes) > most:
            raise UserError(
                f"multidigits: --distinct {distinct} allows {most} digits per canvas, got {len(self.sizes)}"
            )
        self._of_class = [np.flatnonzero(self.digits.labels["train"] == c) for c in range(sources.DIGIT_CLASSES)]
        self.sources = {"digits": self.digits}
        self._classes = {part: column.tolist() for part, column in self.digits.labels.items()}
        self.image_shape = (canvas, canvas, 1)
        digit = Feature(classes=sources.DIGIT_CLASSES)
        # Probed features: "digit" where all digits have one size by construction, else one feature per size.
        self.probe_sizes = {f"digit_{side}": side for side in sizes} if sizes else {"digit": digit_size}
        self.features = {"digits": Feature(sources.DIGIT_CLASSES, many=True), **dict.fromkeys(self.probe_sizes, digit)}
        self.splits, self.probes, self._split_size = {"pretrain": train}, {}, {}
        for feature, side in self.probe_sizes.items():
            ending = f"-{side}" if sizes else ""
            self.probes[feature] = (f"probe-train{ending}", f"probe-test{ending}")
            counts = (probe_train or self.digits.count("train"), probe_test or self.digits.count("test"))
            self.splits.update(zip(self.probes[feature], counts, strict=True))
            self._split_size.update(dict.fromkeys(self.probes[feature], side))

    @classmethod
    def settle(cls, options):
        return {**options, "count": 2} if options["count"] is None and not options["sizes"] else options

    def draw(self, split, index, stream):
        probe = split != "pretrain"
        part = "test" if split.startswith("probe-test") else "train"
        sides = [self._split_size[split]] if probe else self.sizes
        available = self.digits.count(part)
        if probe:
            turn, position = divmod(index, available)
            chosen = [int(shuffled(stream.key.tobytes(), PROBE_ORDER, turn, available)[position])]
        else:
            chosen = self._choose(stream, available, len(sides))
        classes = [self._classes[part][source] for source in chosen]
        labels = {"digits": classes}
        for feature, side in self.probe_sizes.items():
            if sides.count(side) == 1:  # with two digits of one size "the" digit of that size does not exist
                labels[feature] = classes[sides.index(side)]
        tops, lefts = self._corners(stream, sides)
        return labels, {"part": part, "source": chosen, "size": sides, "top": tops, "left": lefts}

    def _choose(self, stream, available: int, count: int) -> list[int]:
        if self.distinct == "none":
            return stream.below(DIGIT, available, count).tolist()
        if self.distinct == "instances":
            # Of the digits not drawn yet; the last of them takes the number of the drawn one.
            moved: dict[int, int] = {}
            chosen = []
            bounds = tuple(range(available, available - count, -1))
            for pick, bound in zip(stream.below(DIGIT, bounds, count).tolist(), bounds, strict=True):
                chosen.append(moved.get(pick, pick))
                moved[pick] = moved.get(bound - 1, bound - 1)
            return chosen
        classes = permutation(stream.words(CLASS, sources.DIGIT_CLASSES))[:count].tolist()
        digits = [self._of_class[label] for label in classes]
        picks = stream.words(DIGIT, count)
        return [int(numbers[below(word, len(numbers))]) for numbers, word in zip(digits, picks, strict=True)]

    def _corners(self, stream, sides) -> tuple[list[int], list[int]]:
        if self.placement == "grid":
            across = self.canvas // self.digit_size
            cells = permutation(stream.words(PLACE, across * across))[: len(sides)]
            return (cells // across * self.digit_size).tolist(), (cells % across * self.digit_size).tolist()
        room = tuple(self.canvas - side + 1 for side in sides for _ in range(2))
        corners = stream.below(PLACE, room, len(room)).tolist()
        return corners[0::2], corners[1::2]

    def render(self, labels, factors, stream) -> np.ndarray:
        canvas = np.zeros((self.canvas, self.canvas), dtype=np.uint8)
        rows = zip(factors["source"], factors["size"], factors["top"], factors["left"], strict=True)
        for source, side, top, left in rows:
            patch = self.digits.images[factors["part"]][source]
            if side != sources.DIGIT_SIDE:
                patch = drawing.resize(patch, side, side)
            drawing.add(canvas, patch, top, left)
        return canvas[:, :, None]


def _check(count, sizes, placement, canvas, digit_size, numbers) -> None:
    faults = []
    if count is not None and sizes:
        faults.append("count and sizes exclude each other: give --count N or --sizes S S ...")
    if not sources.DIGIT_SIDE <= canvas <= 1024:
        faults.append(f"--canvas {canvas}: from {sources.DIGIT_SIDE} to 1024 pixels")
    if sizes and digit_size != sources.DIGIT_SIDE:
        faults.append(f"--digit-size {digit_size} goes with --count; --sizes names each digit's own size")
    elif not 4 <= digit_size <= canvas:
        faults.append(f"--digit-size {digit_size}: a digit has 4 to {canvas} pixels here")
    elif placement == "grid" and not sizes and count > (cells := (canvas // digit_size) ** 2):
        faults.append(
            f"--count {count} --placement grid: a canvas of {canvas} pixels has {cells} cells of {digit_size} pixels"
        )
    if count is not None and not 1 <= count <= 1024:
        faults.append(f"--count {count}: from 1 to 1024 digits")
    faults += [
        f"--sizes {side}: a digit has 4 to {canvas} pixels here" for side in sizes or [] if not 4 <= side <= canvas
    ]
    if placement == "grid" and sizes:
        faults.append("--placement grid has cells of one size: it goes with --count, not with --sizes")
    for name, number in numbers.items():
        if number is not None and number < 1:
            faults.append(f"--{name.replace('_', '-')} {number}: at least 1")
    if faults:
        raise UserError("multidigits: " + "; ".join(faults))
