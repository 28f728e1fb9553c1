"""The papers' numbers as data, and which of them stand for a cell of ours."""

import csv
import re
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

REFERENCE = Path(__file__).parent / "reference"
CANVAS, DIGIT = "canvas=112", "digit_size=28?"  # pixels, of the papers' MultiDigits; DIGIT where digits are of one size
HALF = ", at twice the size"


@dataclass(frozen=True)
class Place:
    """What a number of ours is about, in the words of the frame's columns."""

    dataset: str
    pictures: str
    variant: str
    method: str
    setting: str
    probe: str
    feature: str
    strength: object
    metric: str = "accuracy"


@dataclass(frozen=True)
class Published:
    """One published number; accuracies and k-NN in percent, other metrics in their own unit.

    `variant` and `setting` hold conditions: `key=value` must be ours, `key=value?` may be left out by us, `key=*` is any
    or none, `key=-` must not be given. An empty probe and the strength `*` are any.
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

    def stands_for(self, place: Place) -> bool:
        """Whether this is the number that the paper has for a cell of ours.

        >>> place = Place("randbit", "mnist", "", "simclr", "temperature=0.05", "online", "digit", 5)
        >>> [number.value for number in reference() if number.stands_for(place)]
        [70.63]
        """
        same = ("dataset", "pictures", "method", "feature", "metric")
        return (
            all(getattr(self, name) == getattr(place, name) for name in same)
            and self.strength in ("*", str(place.strength))
            and self.probe in ("", place.probe)
            and _holds(self.variant, place.variant, closed=False)
            and _holds(self.setting, place.setting, closed=True)
        )


def _holds(conditions: str, ours: str, closed: bool) -> bool:
    # `closed`: nothing of ours may go unmentioned, since every setting that was varied can move a number.
    given, mentioned = dict(_pairs(ours)), set()
    for key, wanted in _pairs(conditions):
        mentioned.add(key)
        value = given.get(key)
        if wanted == "*" or (wanted.endswith("?") and value in (None, wanted[:-1])):
            continue
        if value != (None if wanted == "-" else wanted):
            return False
    return not closed or (set(given) <= mentioned and len(given) == len(ours.split()))


def _pairs(text: str) -> list[tuple[str, str]]:
    return [(key, value) for key, _, value in (word.partition("=") for word in text.split())]


@lru_cache(maxsize=1)
def reference() -> tuple[Published, ...]:
    """Every published number, and those of MultiDigits again for digits and canvas half as large."""
    found = []
    for path in sorted(REFERENCE.glob("*.csv")):
        with path.open(newline="") as file:
            found += [Published(**{**row, "value": float(row["value"])}) for row in csv.DictReader(file)]
    return (*found, *(half for number in found if (half := _half(number))))


def _half(number: Published) -> Published | None:
    # The same ratios of digit and canvas, so that a small run has something to stand beside; the source says so.
    if CANVAS not in number.variant.split():
        return None
    feature, strength = number.feature, number.strength
    if size := re.fullmatch(r"digit_(\d+)", feature):
        sizes = [int(one) for one in strength.split("+")]
        if any(one % 2 for one in sizes):
            return None
        feature, strength = f"digit_{int(size[1]) // 2}", "+".join(str(one // 2) for one in sizes)
    variant = number.variant.replace(CANVAS, "canvas=56").replace(DIGIT, "digit_size=14")
    return replace(number, source=number.source + HALF, variant=variant, feature=feature, strength=strength)


def find(place: Place) -> list[Published]:
    """The numbers that stand for a cell, one per source and probe; the one that names the probe before one that does not."""
    found: dict[str, Published] = {}
    for number in sorted((n for n in reference() if n.stands_for(place)), key=lambda n: n.probe == ""):
        found.setdefault(number.source, number)
    return list(found.values())


def notes(numbers: list[Published]) -> list[str]:
    """What a reader must know of published numbers: what the papers leave open, and where geometries differ."""
    said = []
    for source in sorted({number.source for number in numbers if not number.probe and number.metric == "accuracy"}):
        said.append(f"{source}: the paper does not describe its probe; its value stands for each of ours.")
    open_settings = {
        (number.source, key) for number in numbers for key, value in _pairs(number.setting) if value == "*"
    }
    said += [
        f"{source}: no {key} is published; its value stands for each of ours." for source, key in sorted(open_settings)
    ]
    if any(number.source.endswith(HALF) for number in numbers):
        said.append("At twice the size: published for digits and a canvas of twice as many pixels, the same ratios.")
    if any(number.metric != "accuracy" for number in numbers):
        said.append(
            "Published metrics stand beside each of our layers: which one the paper measured is our reading to make."
        )
    return said
