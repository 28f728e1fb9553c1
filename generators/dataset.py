"""The contract of a dataset: features first, picture second, from randomness that is passed in."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from generators.randomness import Stream, stream_key


class UserError(Exception):
    """A fault that the user can mend: one sentence on what, which value, what is allowed, what to do.

    The command line prints it without a traceback and exits with `exit_code`
    (2: bad input or data, 4: the machine, such as a full disk).
    """

    def __init__(self, message: str, exit_code: int = 2):
        super().__init__(message)
        self.exit_code = exit_code


@dataclass(frozen=True)
class Feature:
    """What a label says: one of `classes` classes, or (`many`) a list of them."""

    classes: int
    many: bool = False


@dataclass(frozen=True)
class ConstantChannels:
    """Binary channels that are constant over the picture: bit i of the integer `label` is channel i."""

    label: str
    max: int


@dataclass(frozen=True)
class Sample:
    """One drawn and rendered sample: picture (H, W, C) uint8, labels and factors as integers, texts or lists of them."""

    index: int
    picture: np.ndarray
    labels: dict
    factors: dict


class Dataset(ABC):
    """A dataset with competing features; its options are the keyword arguments of its constructor.

    A subclass sets, in its constructor or on the class:
        version: raised whenever the same options would give other samples.
        splits: name -> number of samples; the first is `pretrain`.
        picture_shape: (height, width, channels).
        features: name -> Feature, for everything that a label can say.
        targets: the features that a supervised method may see on `pretrain`.
        probes: feature -> (train split, test split) for its linear probe.
        recipe: name of the default training recipe.
        strength: the option that makes the competitor stronger ("bits" for constant channels), or None.
        sources: name -> Source, where pictures come from; options in `source_options` name them.
        constant_channels: binary channels to append after augmentation, or None.
    """

    name: str  # the file's stem, set by the catalog
    options: dict  # the resolved options, set by the catalog
    version: int = 1
    splits: dict[str, int]
    picture_shape: tuple[int, int, int]
    features: dict[str, Feature]
    targets: list[str]
    probes: dict[str, tuple[str, str]]
    recipe: str
    strength: str | None = None
    sources: dict
    source_options: tuple[str, ...] = ()
    constant_channels: ConstantChannels | None = None

    @abstractmethod
    def draw(self, split: str, index: int, stream: Stream) -> tuple[dict, dict]:
        """Labels and factors of one sample, before any pixel exists."""

    @abstractmethod
    def render(self, labels: dict, factors: dict, stream: Stream) -> np.ndarray:
        """The uint8 picture (H, W, C) of drawn labels and factors."""

    def sample(self, split: str, index: int, seed: int) -> Sample:
        """Sample `index` of a split, a pure function of the dataset, its options, split, index and seed."""
        stream = Stream(stream_key(self.name, self.version, split, seed), index)
        labels, factors = self.draw(split, index, stream)
        picture = self.render(labels, factors, stream)
        what = f"{self.name}: sample {index} of {split}"
        if picture.dtype != np.uint8 or picture.shape != tuple(self.picture_shape):
            raise UserError(
                f"{what}: render gave {picture.dtype} of {picture.shape}, picture_shape promises uint8 of {self.picture_shape}"
            )
        odd = [name for name, value in {**labels, **factors}.items() if not _plain(value)]
        if odd:
            raise UserError(f"{what}: {odd[0]} must be a Python integer, a text or a list of them")
        return Sample(index, picture, labels, factors)


def _plain(value) -> bool:
    return type(value) in (int, str) or (type(value) is list and all(map(_plain, value)))
