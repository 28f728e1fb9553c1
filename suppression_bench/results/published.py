"""The papers' numbers as data (published.csv), and which of them stand for a cell of ours."""

import csv
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_suffix(".csv")
CANVAS, DIGIT = "canvas=112", "digit_size=28?"  # pixels, of the papers' MultiDigits; DIGIT where digits are of one size
HALF = ", at twice the size"


@dataclass(frozen=True)
class Subject:
    """What a number of ours is about, in the words of the long table's columns."""

    dataset: str
    pictures: str
    variant: str
    method: str
    setting: str
    probe: str
    feature: str
    strength: Any
    metric: str = "accuracy"


@dataclass(frozen=True)
class Published:
    """One published number; accuracies and k-NN in percent, other metrics in their own unit.

    `variant` and `setting` hold conditions: `key=value` must be ours, `key=value?` may be left out by us, `key=*` is any
    or none, `key=-` must be absent. An empty probe and the strength `*` are any.
    """

    source: str
    dataset: str
    pictures: str
    variant: str
    method: str
    setting: str
    probe: str
    metric: str
    feature: str
    strength: str
    value: float

    def stands_for(self, subject: Subject) -> bool:
        """Whether this is the number that the paper has for a cell of ours.

        >>> subject = Subject("randbit", "mnist", "", "simclr", "temperature=0.05", "online", "digit", 5)
        >>> [number.value for number in all_numbers() if number.stands_for(subject)]
        [70.63]
        """
        same = ("dataset", "pictures", "method", "feature", "metric")
        return (
            all(getattr(self, name) == getattr(subject, name) for name in same)
            and self.strength in ("*", str(subject.strength))
            and self.probe in ("", subject.probe)
            and _holds(self.variant, subject.variant, closed=False)
            and _holds(self.setting, subject.setting, closed=True)
        )


def _holds(conditions: str, ours: str, closed: bool) -> bool:
    # `closed`: nothing of ours may go unmentioned, since every setting that was varied can move a number.
    settings, mentioned = dict(_pairs(ours)), set()
    for key, condition in _pairs(conditions):
        mentioned.add(key)
        value = settings.get(key)
        if condition == "*" or (condition.endswith("?") and value in (None, condition[:-1])):
            continue
        if value != (None if condition == "-" else condition):
            return False
    return not closed or (set(settings) <= mentioned and len(settings) == len(ours.split()))


def _pairs(text: str) -> list[tuple[str, str]]:
    return [(key, value) for key, _, value in (word.partition("=") for word in text.split())]


@lru_cache(maxsize=1)
def all_numbers() -> tuple[Published, ...]:
    """Every published number, and those of MultiDigits again for digits and canvas half as large."""
    with FILE.open(newline="") as file:
        numbers = [Published(**{**row, "value": float(row["value"])}) for row in csv.DictReader(file)]
    return (*numbers, *(half for number in numbers if (half := _half(number))))


def _half(number: Published) -> Published | None:
    # The same ratios of digit and canvas, so that a small run has something to stand beside; the source says so.
    if CANVAS not in number.variant.split():
        return None
    feature, strength = number.feature, number.strength
    if size := re.fullmatch(r"digit_(\d+)", feature):
        sizes = [int(text) for text in strength.split("+")]
        if any(pixels % 2 for pixels in sizes):
            return None
        feature, strength = f"digit_{int(size[1]) // 2}", "+".join(str(pixels // 2) for pixels in sizes)
    variant = number.variant.replace(CANVAS, "canvas=56").replace(DIGIT, "digit_size=14")
    return replace(number, source=number.source + HALF, variant=variant, feature=feature, strength=strength)


def numbers_of(subject: Subject) -> list[Published]:
    """The numbers that stand for a cell, one a source; the one that names the probe before one that does not."""
    by_source: dict[str, Published] = {}
    for number in sorted((n for n in all_numbers() if n.stands_for(subject)), key=lambda n: n.probe == ""):
        by_source.setdefault(number.source, number)
    return list(by_source.values())


def notes(numbers: Iterable[Published]) -> list[str]:
    """What a reader must know of published numbers: what the papers leave open, and where geometries differ."""
    numbers = list(numbers)
    probeless = {number.source for number in numbers if not number.probe and number.metric == "accuracy"}
    sentences = [
        f"{source}: the paper does not describe its probe; its value stands for each of ours."
        for source in sorted(probeless)
    ]
    unset = {(number.source, key) for number in numbers for key, value in _pairs(number.setting) if value == "*"}
    sentences += [
        f"{source}: no {key} is published; its value stands for each of ours." for source, key in sorted(unset)
    ]
    if any(number.source.endswith(HALF) for number in numbers):
        sentences.append(
            "At twice the size: published for digits and a canvas of twice as many pixels, the same ratios."
        )
    if any(number.metric != "accuracy" for number in numbers):
        sentences.append(
            "Published metrics stand beside each of our layers: which one the paper measured is our reading to make."
        )
    return sentences
