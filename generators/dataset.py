"""The contract of a dataset: features first, image second, from randomness that is passed in."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from generators.randomness import Stream, Streams, stream_key

TOGETHER = 2000  # samples whose random numbers are computed at once: a huge shard must not take more memory


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
    """What a label says: one of `classes` classes, or (`many`) a list of them.

    `group` names features that are judged together, such as the digits of several sizes; None for one by itself.
    """

    classes: int
    many: bool = False
    group: str | None = None


@dataclass(frozen=True)
class ConstantChannels:
    """Binary channels that are constant over the image: bit i of the integer `label` is channel i.

    Each channel in use is a feature of two classes; together they are the feature group `group`.
    """

    label: str
    max: int
    group: ClassVar[str] = "bits"

    @staticmethod
    def feature_names(count: int) -> list[str]:
        """The features that the first `count` channels are probed as.

        >>> ConstantChannels.feature_names(2)
        ['bit00', 'bit01']
        """
        return [f"bit{channel:02d}" for channel in range(count)]


@dataclass(frozen=True)
class Sample:
    """One drawn and rendered sample: image (H, W, C) uint8, labels and factors as integers, texts or lists of them."""

    index: int
    image: np.ndarray
    labels: dict
    factors: dict


class Dataset(ABC):
    """A dataset with competing features; its options are the keyword arguments of its constructor.

    A subclass sets, in its constructor or on the class:
        version: raised whenever the same options would give other samples.
        splits: name -> number of samples; the first is `pretrain`.
        image_shape: (height, width, channels).
        features: name -> Feature, for everything that a label can say.
        targets: the features that a supervised method may see on `pretrain`.
        probes: feature -> (train split, test split) for its linear probe.
        recipe: name of the default training recipe.
        strength: the option that makes the competitor stronger ("bits" for constant channels), or None.
        sources: name -> source (with name, digest, licence), where images come from. Options that name one end
            in `_source`; what stands behind their colon (a path) is no part of the dataset's identity.
        constant_channels: binary channels to append after augmentation, or None.
        later_options: options that joined after version 1; at their default they are left out of the manifest, so
            that the digests of older datasets stay.
        settled: options whose default follows from the others, as the constructor settled them.
    """

    name: str  # the file's stem, set by the catalog
    options: dict  # the resolved options, set by the catalog
    open_options: dict  # the same before `settled`: what was left open stays open
    version: int = 1
    splits: dict[str, int]
    image_shape: tuple[int, int, int]
    features: dict[str, Feature]
    targets: list[str]
    probes: dict[str, tuple[str, str]]
    recipe: str
    strength: str | None = None
    sources: dict
    constant_channels: ConstantChannels | None = None
    later_options: tuple[str, ...] = ()
    settled: dict = {}

    @classmethod
    def settle(cls, options: dict) -> dict:
        """Resolved options with those filled in that follow from others, known before a source is opened."""
        return options

    @abstractmethod
    def draw(self, split: str, index: int, stream: Stream) -> tuple[dict, dict]:
        """Labels and factors of one sample, before any pixel exists."""

    @abstractmethod
    def render(self, labels: dict, factors: dict, stream: Stream) -> np.ndarray:
        """The uint8 image (H, W, C) of drawn labels and factors."""

    def faults(self) -> list[str]:
        """What its declarations contradict, each as a sentence; slips that would otherwise show in a run, hours later."""
        constant = self.constant_channels
        features = [*self.features, *([constant.label] if constant else [])]
        faults = []
        for role, names in (("target", self.targets), ("probe", self.probes)):
            faults += [
                f"the {role} {name!r} is no feature ({', '.join(features)})" for name in names if name not in features
            ]
        for feature, pair in self.probes.items():
            faults += [
                f"the probe of {feature} names the split {split!r}, which is none of {', '.join(self.splits)}"
                for split in pair
                if split not in self.splits
            ]
        if next(iter(self.splits), None) != "pretrain":
            faults.append("the first split must be 'pretrain'")
        faults += [f"the split {name} has {count} samples" for name, count in self.splits.items() if count < 1]
        if self.strength not in (None, *self.options, *([constant.group] if constant else [])):
            faults.append(f"the strength {self.strength!r} is no option ({', '.join(self.options)})")
        return faults

    def missing_labels(self, split: str, labels: dict) -> list[str]:
        """The features that are probed on a split although a sample of it has no label for them."""
        return [feature for feature, pair in self.probes.items() if split in pair and feature not in labels]

    def sample(self, split: str, index: int, seed: int) -> Sample:
        """Sample `index` of a split, a pure function of the dataset, its options, split, index and seed."""
        return self._sample(split, Stream(stream_key(self.name, self.version, split, seed), index))

    def samples(self, split: str, start: int, stop: int, seed: int) -> Iterator[Sample]:
        """The samples `start` to `stop` of a split: the same as one by one, faster."""
        for stream in self.streams(split, start, stop, seed):
            yield self._sample(split, stream)

    def streams(self, split: str, start: int, stop: int, seed: int) -> Iterator[Stream]:
        """The random numbers of the samples `start` to `stop` of a split, some thousands of samples at a time."""
        key = stream_key(self.name, self.version, split, seed)
        for first in range(start, stop, TOGETHER):
            yield from Streams(key, first, min(first + TOGETHER, stop))

    def _sample(self, split: str, stream: Stream) -> Sample:
        labels, factors = self.draw(split, stream.index, stream)
        image = self.render(labels, factors, stream)
        if image.dtype != np.uint8 or image.shape != tuple(self.image_shape):
            raise UserError(
                f"{self.name}: sample {stream.index} of {split}: render gave {image.dtype} of {image.shape}, "
                f"image_shape promises uint8 of {self.image_shape}"
            )
        for fields in (labels, factors):
            for name, value in fields.items():
                if not _is_plain(value):
                    raise UserError(
                        f"{self.name}: sample {stream.index} of {split}: {name} must be a Python integer, a text or a "
                        "list of them"
                    )
        return Sample(stream.index, image, labels, factors)


def draw_sample(dataset: Dataset, split: str, index: int, seed: int) -> Sample:
    """A sample, where a fault in the dataset's own file must become a sentence.

    Raises:
        UserError: the dataset fails on this sample, in whatever way.
    """
    try:
        return dataset.sample(split, index, seed)
    except (UserError, OSError):
        raise
    except Exception as error:
        raise UserError(
            f"{dataset.name}: {type(error).__name__}: {error} while drawing sample {index} of {split}; mend it and run again"
        ) from error


def is_source(option: str) -> bool:
    """Whether an option names a source of images.

    >>> is_source("digit_source")
    True
    """
    return option.endswith("_source")


def _is_plain(value) -> bool:
    return type(value) in (int, str) or (type(value) is list and all(map(_is_plain, value)))
