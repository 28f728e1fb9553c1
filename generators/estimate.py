"""How large a dataset will be on disk, from a few samples of each split."""

from generators import png, shards
from generators.dataset import Dataset, UserError, drawn

SAMPLES = 8  # per split


def expected_bytes(dataset: Dataset, seed: int = 0) -> int:
    """The expected bytes of all shards: each split's mean over a few samples, evenly spaced, times its length.

    Raises:
        UserError: the dataset fails on one of them.

    >>> from generators import catalog
    >>> 1e6 < expected_bytes(catalog.dataset("randbit", {})) < 5e6
    True
    """
    total = 0
    for split, count in dataset.splits.items():
        few = range(0, count, max(1, -(-count // SAMPLES)))
        samples = [drawn(dataset, split, index, seed) for index in few]
        missing = [feature for one in samples for feature in dataset.missing_labels(split, one.labels)]
        if missing:
            labels = ", ".join(samples[0].labels) or "none"
            raise UserError(
                f"{dataset.name}: {missing[0]!r} is probed on {split}, but `draw` gives it no such label (it gives {labels})"
            )
        sizes = [len(shards.members(one.index, png.encode(one.picture), shards.record_text(one))) for one in samples]
        total += count * sum(sizes) // len(sizes)
    return total


def words(size: float) -> str:
    """A size in bytes for people.

    >>> words(1.3e9), words(2_345_678), words(130e9), words(999_600)
    ('1.3 GB', '2.3 MB', '130 GB', '1 MB')
    """
    for unit in ("B", "kB", "MB", "GB", "TB"):
        shown = float(f"{size:.3g}" if size >= 100 or unit == "B" else f"{size:.2g}")
        if shown < 1000 or unit == "TB":
            return f"{shown:.15g} {unit}"
        size /= 1000


def files(dataset: Dataset, shard_size: int) -> int:
    """The number of shards."""
    return sum(-(-count // shard_size) for count in dataset.splits.values())
