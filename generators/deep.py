"""Is a dataset what its spec draws? Samples are drawn again and compared with the shards, pixel by pixel."""

from pathlib import Path

import numpy as np

from generators import catalog, manifest
from generators.dataset import Dataset, UserError, drawn, is_source
from generators.opened import Opened
from generators.options import did_you_mean

SAMPLES = 64  # per split
NEED_PLACE = ("folder", "cifar10")


def dataset_of(found: dict, reference: str | None = None, sources: dict[str, str] | None = None) -> Dataset:
    """The dataset that a manifest describes, ready to draw.

    Arguments:
        found: the manifest.
        reference: the .py file of a user's own dataset (default: the package's dataset of that name).
        sources: option -> name with its path ("folder:DIR"), since a manifest holds no paths.

    Raises:
        UserError: a source that the dataset does not have, or one that is needed and not there.
    """
    if reference is None and found["dataset"] not in catalog.names("generators.datasets"):
        # Never taken as a path: a manifest must not choose the code that runs.
        raise UserError(f"{found['dataset']!r} is no dataset of this package; name its own file with --dataset FILE.py")
    options, sources = dict(found["options"]), sources or {}
    for option, value in sources.items():
        if not options.get(option) or not is_source(option):
            known = [name for name, given in options.items() if is_source(name) and given]
            raise UserError(
                f"--{option.replace('_', '-')}: this dataset has no such source, {did_you_mean(option, known)}"
            )
        options[option] = value
    for option in [name for name in options if is_source(name) and options[name] in NEED_PLACE and name not in sources]:
        flag, kind = f"--{option.replace('_', '-')}", options[option]
        raise UserError(f"the manifest says {kind!r}, not where it lies: add {flag} {kind}:DIR")
    made = catalog.dataset(reference or found["dataset"], options)
    made.name = found["dataset"]  # streams hang on the name, wherever the file lies now
    return made


def redraw(folder: str | Path, found: dict, dataset: Dataset, samples: int = SAMPLES) -> int:
    """Draw samples of every split anew, evenly spaced with the last one, and compare labels, factors and pixels.

    Arguments:
        folder: a dataset folder whose files are good (`verify.verify`).
        found: its manifest.
        dataset: from `dataset_of`.
        samples: how many of each split.

    Returns:
        How many were compared.

    Raises:
        UserError: all differences at once.
    """
    fresh = manifest.identity(dataset, found["seed"])
    fresh["splits"] = dict(dataset.splits)
    there = {**found, "splits": {name: split["count"] for name, split in found["splits"].items()}}
    kept = [key for key in fresh if key not in ("recipe", "strength")]
    differing = manifest.differences({key: there[key] for key in kept}, {key: fresh[key] for key in kept})
    if differing:
        raise UserError(
            f"{folder}: the spec does not give this dataset ({differing}); name its own sources and version"
        )
    compared, faults = 0, []
    for split in found["splits"]:
        opened = Opened(Path(folder), found, split)
        chosen = sorted({i * (len(opened) - 1) // max(1, samples - 1) for i in range(samples)})
        bad = [index for index in chosen if not _same(opened, dataset, split, index, found["seed"])]
        compared += len(chosen)
        if bad:
            faults.append(f"{folder}: {len(bad)} of {len(chosen)} samples of {split} differ, first sample {bad[0]}")
    if faults:
        made, here = found["environment"], manifest.environment()
        other = [f"{key} {made[key]} there, {here.get(key)} here" for key in made if made[key] != here.get(key)]
        because = f" (made with other versions: {'; '.join(other)})" if other else ""
        raise UserError("\n".join(fault + because for fault in faults))
    return compared


def _same(opened: Opened, dataset: Dataset, split: str, index: int, seed: int) -> bool:
    sample, record = drawn(dataset, split, index, seed), opened.record(index)
    picture, _ = opened[index]
    return (
        np.array_equal(sample.picture, picture)
        and record["labels"] == sample.labels
        and record["factors"] == sample.factors
    )
