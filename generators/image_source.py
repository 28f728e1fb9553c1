"""The contract of an image source: labelled colour pictures in two parts, in any size, the same at every reading."""

from abc import ABC, abstractmethod
from pathlib import Path

import numpy as np

from generators import catalog
from generators.dataset import UserError
from generators.options import did_you_mean

LARGE_SIDE = 224  # pixels: what networks for natural pictures are trained on
MANY = 100_000  # train pictures, from which on the paper's batches of 1024 make sense


class ImageSource(ABC):
    """Labelled RGB pictures in two parts, `train` and `test`, that never mix. One file in `image_sources/` each.

    The constructor takes `place`, the text behind the colon of its name (`folder:DIR`), and sets:
        name: the source's kind, which goes into manifests; never a path.
        digest: SHA-256 (hex) of everything that the pictures follow from.
        licence: one line.
        classes: the classes' names, in the labels' order.
        labels: {"train", "test"} -> (n,) int64 class of each picture; the order is part of the identity.
        side: the side in pixels that the pictures come in, or None where they have many.
    """

    name: str
    digest: str
    licence: str
    classes: list[str]
    labels: dict[str, np.ndarray]
    side: int | None

    @abstractmethod
    def __init__(self, place: str = ""): ...

    @classmethod
    def pending(cls, place: str) -> str:
        """What the constructor would have to do at length, as half a sentence; "" where it opens at once."""
        return ""

    @abstractmethod
    def picture(self, part: str, index: int, side: int) -> np.ndarray:
        """Picture `index` of a part, resized to (side, side, 3) uint8 whatever its aspect; a new array."""

    def count(self, part: str) -> int:
        return len(self.labels[part])

    def spread(self, part: str, count: int, index: int) -> int:
        """The picture of sample `index` among `count`: evenly over the part, since folders are sorted by class."""
        return index * self.count(part) // count


def recipe_for(source: ImageSource) -> str:
    """The default recipe for natural pictures, by their number."""
    return "natural" if source.count("train") >= MANY else "natural-small"


def images(name: str) -> ImageSource:
    """The image source of a name: `leaves` (embedded), `folder:DIR` or `cifar10:DIR`.

    Raises:
        UserError: unknown name, missing folder, or files that are not what they should be.

    >>> images("leaves").count("train") >= 1000
    True
    """
    kind, colon, place = name.partition(":")
    known = catalog.names("generators.image_sources")
    if kind.replace("_", "-") not in known:
        if Path(name).is_dir():
            raise UserError(f"unknown image source {name!r}: an image folder is named folder:{name}")
        raise UserError(
            f"unknown image source {name!r}, {did_you_mean(kind, known)}: leaves, folder:DIR or cifar10:DIR"
        )
    cls = catalog.load_class("generators.image_sources", kind, ImageSource)
    return cls(place) if colon else cls()
