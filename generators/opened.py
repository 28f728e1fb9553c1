"""A generated dataset folder opened from Python: checked first, then indexed like a list, one shard at a time."""

import mmap
import operator
from bisect import bisect_right
from collections.abc import Iterator
from functools import partial
from itertools import accumulate
from pathlib import Path

import numpy as np

from generators import manifest as manifests
from generators import shards
from generators.checked import check_folder
from generators.dataset import UserError
from generators.options import did_you_mean

# Each mapped shard holds a file handle, and 1024 of them is a common limit; mapping one again costs 20 microseconds.
MOST_MAPS = 256


def open_folder(folder: str | Path, split: str = "pretrain", *, verify: bool = True) -> "Opened":
    """Open a folder that `bench generate` wrote; `generators.open` is this function.

    Arguments:
        folder: the dataset folder.
        split: the split to serve; `Opened.to` gives the others.
        verify: check all shards of the folder (size and SHA-256) before the first sample is served. A folder that
            has not changed since its last opening is not read again.

    Returns:
        The split as a map-style dataset of (picture (H, W, C) uint8, labels).

    Raises:
        UserError: no dataset, damaged, missing or foreign shards (all named), or an unknown split.

    >>> import tempfile
    >>> from generators import build, catalog
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = build.build(catalog.dataset("randbit", {"train": 3, "test": 2}), folder)
    ...     data = open_folder(folder, verify=False)
    ...     len(data), data[0][0].shape, data.labels()["digit"]
    (3, (28, 28, 1), [0, 1, 2])
    """
    folder = Path(folder)
    manifest = manifests.read(folder)
    opened = Opened(folder, manifest, split)
    if verify:
        check_folder(folder, manifest)
    return opened


class Opened:
    """One split of a dataset folder: `len`, index, iterate; made by `open_folder`.

    Works as it is in a `torch.utils.data.DataLoader` with any number of workers, forked or spawned. Pictures are
    fresh (H, W, C) uint8 arrays, labels fresh dicts: both may be changed in place. Constant channels are not appended:
    the labels hold their code.

    Arguments:
        folder: the dataset folder.
        manifest: its manifest.
        split: one of its splits.

    Raises:
        UserError: an unknown split.
    """

    def __init__(self, folder: Path, manifest: dict, split: str):
        if split not in manifest["splits"]:
            raise UserError(f"{folder}: no split {split!r}, {did_you_mean(split, manifest['splits'])}")
        # Absolute, so that workers and later changes of the working directory find the same files.
        self.folder, self.manifest, self.split = Path(folder).absolute(), manifest, split
        self._shape = tuple(manifest["picture_shape"])
        described = manifest["splits"][split]["shards"]
        self._paths = [self.folder / entry["name"] for entry in described]
        self._counts = [entry["count"] for entry in described]
        self._starts = [0, *accumulate(self._counts)]
        self._maps: dict[int, mmap.mmap] = {}
        self._places: dict[int, np.ndarray] = {}

    @property
    def splits(self) -> list[str]:
        """The names of all splits of the folder: the training split, then each probe's train and test split."""
        pairs = [split for pair in self.manifest["probes"].values() for split in pair]
        return list(
            dict.fromkeys(
                [
                    *sorted(self.manifest["splits"], key=lambda name: name != "pretrain")[:1],
                    *pairs,
                    *self.manifest["splits"],
                ]
            )
        )

    def to(self, split: str) -> "Opened":
        """Another split of the same folder, without checking again.

        Raises:
            UserError: an unknown split.
        """
        return Opened(self.folder, self.manifest, split)

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, i: int) -> tuple[np.ndarray, dict]:
        """Picture (H, W, C) uint8 and labels of sample `i`; negative from the end.

        Raises:
            IndexError: past the end.   TypeError: no integer.   UserError: a damaged sample.
        """
        picture, record, _ = shards.read_sample(*self._find(i), self._shape)
        return picture, record["labels"]

    def __iter__(self) -> Iterator[tuple[np.ndarray, dict]]:
        return (self[i] for i in range(len(self)))

    def record(self, i: int) -> dict:
        """Id, labels and factors of sample `i`, as {"id": int, "labels": dict, "factors": dict}; no picture is decoded."""
        return shards.read_record(*self._find(i))[0]

    def png(self, i: int) -> bytes:
        """The PNG file of sample `i`, as it stands in the shard."""
        _, data, place = self._find(i)
        return bytes(data[place.picture])

    def labels(self) -> dict[str, list]:
        """Every label of the whole split: name -> list of values in order, None where a sample lacks it.

        No picture is decoded.
        """
        return self._columns("labels")

    def factors(self) -> dict[str, list]:
        """Every factor of the whole split, like `labels`."""
        return self._columns("factors")

    def as_webdataset(self, **options):
        """The split as a `webdataset.WebDataset` pipeline of (picture (H, W, C) uint8, labels), in order.

        For shuffled training this class itself, in a `DataLoader(shuffle=True)`, is the safe choice. What webdataset
        does instead (measured with 1.0.2): `shardshuffle=N` repeats one order every epoch, `resampled=True` ignores
        its `seed`, more `DataLoader` workers than shards raise a ValueError, several workers interleave the shards,
        and training on several nodes needs `nodesplitter=webdataset.split_by_node`.

        Arguments:
            options: for `webdataset.WebDataset`; `shardshuffle` is False unless given.

        Raises:
            UserError: a path that webdataset would cut off.
        """
        import webdataset  # here and not above: it brings torch

        odd = sorted(set("#?;") & set(str(self.folder)))
        if odd:
            raise UserError(f"{self.folder}: webdataset takes {odd[0]!r} for the end of the path; rename the folder")
        urls = [str(path) for path in self._paths]
        pipeline = webdataset.WebDataset(urls, **{"shardshuffle": False, **options})
        return pipeline.map(partial(_from_webdataset, self._shape))

    def __repr__(self) -> str:
        height, width, channels = self._shape
        return f"<{self.folder}: {self.split}, {len(self)} pictures of {height}x{width}x{channels}>"

    def __getstate__(self) -> dict:
        # A memory map cannot travel to another process; the places can, and save the worker the indexing.
        return {**vars(self), "_maps": {}}

    def _columns(self, part: str) -> dict[str, list]:
        columns: dict[str, list] = {}
        for i in range(len(self)):
            for name, value in self.record(i)[part].items():
                if name not in columns:
                    columns[name] = [None] * len(self)
                columns[name][i] = value
        return columns

    def _find(self, i: int) -> tuple[Path, memoryview, shards.Place]:
        try:
            position = operator.index(i)
        except TypeError:
            what = "slices are not supported" if isinstance(i, slice) else f"{type(i).__name__} is no index"
            raise TypeError(
                f"{what}: give one integer at a time, or use torch.utils.data.Subset(data, range(...))"
            ) from None
        if not -len(self) <= position < len(self):
            raise IndexError(f"sample {position} of {len(self)} in split {self.split}")
        position %= len(self)
        number = bisect_right(self._starts, position) - 1
        path, data = self._mapped(number)
        if number not in self._places:
            self._places[number] = self._index(number, path, data)
        start, middle, begin, end = self._places[number][position - self._starts[number]].tolist()
        return path, data, shards.Place(position, slice(start, middle), slice(begin, end))

    def _mapped(self, number: int) -> tuple[Path, memoryview]:
        path = self._paths[number]
        data = self._maps.get(number)
        if data is None:
            if len(self._maps) >= MOST_MAPS:
                self._maps.clear()
            try:
                with open(path, "rb") as file:
                    data = self._maps[number] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            except (FileNotFoundError, ValueError) as error:  # ValueError: an empty file cannot be mapped
                state = "missing" if isinstance(error, FileNotFoundError) else "empty"
                raise UserError(f"{path}: the shard is {state}; run `bench verify {self.folder}`") from None
        return path, memoryview(data)

    def _index(self, number: int, path: Path, data: memoryview) -> np.ndarray:
        # (count, 4) byte positions: 32 bytes a sample, where a Place takes ten times that.
        first, count = self._starts[number], self._counts[number]
        found = list(shards.index_shard(path, data, count))
        if [place.index for place in found] != list(range(first, first + count)):
            raise UserError(f"{path}: its samples are not {first} to {first + count - 1} in order; it is another shard")
        ranges = [(p.picture.start, p.picture.stop, p.record.start, p.record.stop) for p in found]
        return np.array(ranges, dtype=np.int64).reshape(count, 4)


def _from_webdataset(shape: tuple[int, int, int], sample: dict) -> tuple[np.ndarray, dict]:
    # The members as they came, read by the project's own strict reader instead of webdataset's decoders.
    picture, text = sample["png"], sample["json"]
    place = shards.Place(int(sample["__key__"]), slice(0, len(picture)), slice(len(picture), len(picture) + len(text)))
    data = memoryview(picture + text)
    decoded, record, _ = shards.read_sample(Path(sample["__url__"]), data, place, shape)
    return decoded, record["labels"]
