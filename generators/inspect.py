"""A generated dataset folder, read: opened like a list, verified file by file, or drawn anew and compared."""

import mmap
import operator
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import partial
from itertools import accumulate
from pathlib import Path

import numpy as np

from generators import catalog, shards
from generators import manifest as manifests
from generators.catalog import did_you_mean
from generators.dataset import Dataset, UserError, draw_sample, is_source
from generators.manifest import Manifest

# Each mapped shard holds a file handle, and 1024 of them is a common limit; mapping one again costs 20 microseconds.
MOST_MAPS = 256
REDRAWN_SAMPLES = 64  # per split
NEED_FOLDER = ("folder", "cifar10")  # sources that a manifest names without saying where they lie


def open_folder(folder: str | Path, split: str = "pretrain", *, verify: bool = True) -> "Opened":
    """Open a folder that `bench generate` wrote; `generators.open` is this function.

    Arguments:
        folder: the dataset folder.
        split: the split to serve; `Opened.to` gives the others.
        verify: check all shards of the folder (size and SHA-256) before the first sample is served.

    Returns:
        The split as a map-style dataset of (image (H, W, C) uint8, labels).

    Raises:
        UserError: no dataset, damaged, missing or foreign shards (all named), or an unknown split.

    >>> import tempfile
    >>> from generators.build import build
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = build(catalog.dataset("randbit", {"train": 3, "test": 2}), folder)
    ...     data = open_folder(folder)
    ...     len(data), data[0][0].shape, data.labels()["digit"]
    (3, (28, 28, 1), [0, 1, 2])
    """
    folder = Path(folder)
    opened = Opened(folder, manifests.read(folder), split)
    if verify:
        check_shards(folder, opened.manifest)
    return opened


class Opened:
    """One split of a dataset folder: `len`, index, iterate; made by `open_folder`.

    Works as it is in a `torch.utils.data.DataLoader` with any number of workers, forked or spawned. Images are
    fresh (H, W, C) uint8 arrays, labels fresh dicts: both may be changed in place. Constant channels are not appended:
    the labels hold their code.

    Arguments:
        folder: the dataset folder.
        manifest: its manifest.
        split: one of its splits.

    Raises:
        UserError: an unknown split.
    """

    def __init__(self, folder: Path, manifest: Manifest, split: str):
        if split not in manifest.splits:
            raise UserError(f"{folder}: no split {split!r}, {did_you_mean(split, manifest.splits)}")
        # Absolute, so that workers and later changes of the working directory find the same files.
        self.folder, self.manifest, self.split = Path(folder).absolute(), manifest, split
        entries = manifest.splits[split].shards
        self._paths = [self.folder / entry.name for entry in entries]
        self._counts = [entry.count for entry in entries]
        self._starts = [0, *accumulate(self._counts)]
        self._maps: dict[int, mmap.mmap] = {}
        self._spans: dict[int, np.ndarray] = {}

    @property
    def splits(self) -> list[str]:
        """The names of all splits of the folder: the training split, then each probe's train and test split."""
        pairs = [split for pair in self.manifest.probes.values() for split in pair]
        first = sorted(self.manifest.splits, key=lambda name: name != "pretrain")[:1]
        return list(dict.fromkeys([*first, *pairs, *self.manifest.splits]))

    def to(self, split: str) -> "Opened":
        """Another split of the same folder, without checking again.

        Raises:
            UserError: an unknown split.
        """
        return Opened(self.folder, self.manifest, split)

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, i: int) -> tuple[np.ndarray, dict]:
        """Image (H, W, C) uint8 and labels of sample `i`; negative from the end.

        Raises:
            IndexError: past the end.   TypeError: no integer.   UserError: a damaged sample.
        """
        image, record, _ = shards.read_sample(*self._find(i), self.manifest.image_shape)
        return image, record["labels"]

    def __iter__(self) -> Iterator[tuple[np.ndarray, dict]]:
        return (self[i] for i in range(len(self)))

    def record(self, i: int) -> dict:
        """Id, labels and factors of sample `i`, as {"id": int, "labels": dict, "factors": dict}; no image is decoded."""
        return shards.read_record(*self._find(i))[0]

    def png(self, i: int) -> bytes:
        """The PNG file of sample `i`, as it stands in the shard."""
        _, data, span = self._find(i)
        return bytes(data[span.image])

    def labels(self) -> dict[str, list]:
        """Every label of the whole split: name -> list of values in order, None where a sample lacks it.

        No image is decoded.
        """
        return self._columns("labels")

    def factors(self) -> dict[str, list]:
        """Every factor of the whole split, like `labels`."""
        return self._columns("factors")

    def as_webdataset(self, **options):
        """The split as a `webdataset.WebDataset` pipeline of (image (H, W, C) uint8, labels), in order.

        For shuffled training this class itself, in a `DataLoader(shuffle=True)`, is the safe choice. What webdataset
        does instead (measured with 1.0.2): `shardshuffle=N` repeats one order every epoch, `resampled=True` ignores
        its `seed`, more `DataLoader` workers than shards raise a ValueError, several workers interleave the shards,
        and training on several nodes needs `nodesplitter=webdataset.split_by_node`.

        Arguments:
            options: for `webdataset.WebDataset`; `shardshuffle` is False unless set.

        Raises:
            UserError: a path that webdataset would cut off.
        """
        import webdataset  # here and not above: it brings torch

        odd = sorted(set("#?;") & set(str(self.folder)))
        if odd:
            raise UserError(f"{self.folder}: webdataset takes {odd[0]!r} for the end of the path; rename the folder")
        urls = [str(path) for path in self._paths]
        wrapped = webdataset.WebDataset(urls, **{"shardshuffle": False, **options})  # pyright: ignore[reportAttributeAccessIssue]
        return wrapped.map(partial(_from_webdataset, self.manifest.image_shape))

    def __repr__(self) -> str:
        height, width, channels = self.manifest.image_shape
        return f"<{self.folder}: {self.split}, {len(self)} images of {height}x{width}x{channels}>"

    def __getstate__(self) -> dict:
        # A memory map cannot travel to another process; the spans can, and save the worker the indexing.
        return {**vars(self), "_maps": {}}

    def _columns(self, part: str) -> dict[str, list]:
        columns: dict[str, list] = {}
        for i in range(len(self)):
            for name, value in self.record(i)[part].items():
                columns.setdefault(name, [None] * len(self))[i] = value
        return columns

    def _find(self, i: int) -> tuple[Path, memoryview, shards.Span]:
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
        if number not in self._spans:
            self._spans[number] = self._index(number, path, data)
        start, middle, begin, end = self._spans[number][position - self._starts[number]].tolist()
        return path, data, shards.Span(position, slice(start, middle), slice(begin, end))

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
        # (count, 4) byte positions: 32 bytes a sample, where a Span takes ten times that.
        first, count = self._starts[number], self._counts[number]
        spans = list(shards.index_shard(path, data, count))
        if [span.index for span in spans] != list(range(first, first + count)):
            raise UserError(f"{path}: its samples are not {first} to {first + count - 1} in order; it is another shard")
        ranges = [(s.image.start, s.image.stop, s.record.start, s.record.stop) for s in spans]
        return np.array(ranges, dtype=np.int64).reshape(count, 4)


def _from_webdataset(shape: shards.Shape, sample: dict) -> tuple[np.ndarray, dict]:
    # The members as they came, read by the project's own strict reader instead of webdataset's decoders.
    image, text = sample["png"], sample["json"]
    span = shards.Span(int(sample["__key__"]), slice(0, len(image)), slice(len(image), len(image) + len(text)))
    decoded, record, _ = shards.read_sample(Path(sample["__url__"]), memoryview(image + text), span, shape)
    return decoded, record["labels"]


# Verified


def check_shards(folder: Path, manifest: Manifest) -> None:
    """Check the size and SHA-256 of every shard of every split, and that no foreign `*.tar` lies beside them.

    Raises:
        UserError: all faults at once, each with its shard and the remedy.
    """
    faults = _extra_shards(folder, manifest)
    for shard in manifest.shards:
        try:
            shards.check_shard(folder, shard)
        except UserError as error:
            faults.append(str(error))
    if faults:
        raise UserError("\n".join(faults))


def _extra_shards(folder: Path, manifest: Manifest) -> list[str]:
    extra = sorted({path.name for path in folder.glob("*.tar")} - {shard.name for shard in manifest.shards})
    return [
        f"{folder / name}: the manifest does not list this shard; remove the file, or give it back the name it had"
        for name in extra
    ]


def verify(folder: str | Path, progress: Callable[[int, int], None] | None = None) -> Manifest:
    """Check every shard's size, SHA-256, samples and content digest, and that no foreign shard lies beside them.

    Arguments:
        folder: a dataset folder.
        progress: called with (samples done, samples in all).

    Returns:
        The manifest.

    Raises:
        UserError: all faults at once.
    """
    folder = Path(folder)
    manifest = manifests.read(folder)
    classes = {name: feature.classes for name, feature in manifest.features.items()}
    faults = _extra_shards(folder, manifest)
    total, done = sum(shard.count for shard in manifest.shards), 0
    for name, split in manifest.splits.items():
        results, first = [], 0
        for shard in split.shards:
            path = folder / shard.name
            try:
                shards.check_shard(folder, shard)
                results.append(shards.read_back(path, manifest.image_shape, classes, first, shard.count))
                if results[-1].entry.content_digest != shard.content_digest:
                    raise UserError(f"{path}: its samples are not those of the manifest")
            except UserError as error:
                faults.append(str(error))
            first += shard.count
            done += shard.count
            if progress:
                progress(done, total)
        if not faults:
            actual = manifests.split_entry(results)
            if actual.content_digest != split.content_digest:
                faults.append(f"{folder}: the content digest of split {name} does not follow from its samples")
            if actual.class_counts != split.class_counts:
                faults.append(f"{folder}: the class_counts of split {name} are not those of its samples")
    if faults:
        raise UserError("\n".join(faults))
    return manifest


# Drawn anew


def dataset_of(
    name: str, options: dict, reference: str | None = None, sources: dict[str, str] | None = None
) -> Dataset:
    """The dataset that a manifest describes, ready to draw.

    Arguments:
        name: the manifest's dataset.
        options: the manifest's options.
        reference: the .py file of a user's own dataset (default: the package's dataset of that name).
        sources: option -> name with its path ("folder:DIR"), since a manifest holds no paths.

    Raises:
        UserError: a source that the dataset does not have, or one that is needed and not there.
    """
    if reference is None and name not in catalog.names("generators.datasets"):
        # Never taken as a path: a manifest must not choose the code that runs.
        raise UserError(f"{name!r} is no dataset of this package; name its own file with --dataset FILE.py")
    options, sources = dict(options), sources or {}
    for option, value in sources.items():
        if not options.get(option) or not is_source(option):
            named = [key for key, present in options.items() if is_source(key) and present]
            raise UserError(
                f"--{option.replace('_', '-')}: this dataset has no such source, {did_you_mean(option, named)}"
            )
        options[option] = value
    for option, kind in options.items():
        if is_source(option) and kind in NEED_FOLDER:
            flag = f"--{option.replace('_', '-')}"
            raise UserError(f"the manifest says {kind!r}, not where it lies: add {flag} {kind}:DIR")
    dataset = catalog.dataset(reference or name, options)
    dataset.name = name  # streams hang on the name, wherever the file lies now
    return dataset


def redraw(folder: str | Path, manifest: Manifest, dataset: Dataset, samples: int = REDRAWN_SAMPLES) -> int:
    """Draw samples of every split anew, evenly spaced with the last one, and compare labels, factors and pixels.

    Arguments:
        folder: a dataset folder whose files are good (`verify`).
        manifest: its manifest.
        dataset: from `dataset_of`.
        samples: how many of each split.

    Returns:
        How many were compared.

    Raises:
        UserError: all differences at once.
    """
    fresh = manifests.identity(dataset, manifest.seed).builtins() | {"splits": dict(dataset.splits)}
    stored = manifest.builtins() | {"splits": {name: split.count for name, split in manifest.splits.items()}}
    keys = [key for key in fresh if key not in ("recipe", "strength")]
    if differing := manifests.differences({key: stored[key] for key in keys}, {key: fresh[key] for key in keys}):
        raise UserError(
            f"{folder}: the spec does not give this dataset ({differing}); name its own sources and version"
        )
    compared, faults = 0, []
    for split in manifest.splits:
        opened = Opened(Path(folder), manifest, split)
        chosen = sorted({i * (len(opened) - 1) // max(1, samples - 1) for i in range(samples)})
        bad = [index for index in chosen if not _is_same(opened, dataset, index)]
        compared += len(chosen)
        if bad:
            faults.append(f"{folder}: {len(bad)} of {len(chosen)} samples of {split} differ, first sample {bad[0]}")
    if faults:
        there, here = manifest.environment, manifests.environment()
        changed = [f"{key} {there[key]} there, {here.get(key)} here" for key in there if there[key] != here.get(key)]
        because = f" (made with other versions: {'; '.join(changed)})" if changed else ""
        raise UserError("\n".join(fault + because for fault in faults))
    return compared


def _is_same(opened: Opened, dataset: Dataset, index: int) -> bool:
    sample, record = draw_sample(dataset, opened.split, index, opened.manifest.seed), opened.record(index)
    image, _ = opened[index]
    return (
        np.array_equal(sample.image, image)
        and record["labels"] == sample.labels
        and record["factors"] == sample.factors
    )
