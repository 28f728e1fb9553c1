"""What each probe said of every test sample, kept beside the record, so that its confusion matrices can be counted again."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from generators.dataset import UserError

NAME = "predictions.safetensors"
CELL = "cell"  # the header's one entry: the cell's id
LARGEST = 200_000_000
Place = tuple[str, str, str]  # probe, layer, feature


def write(folder: Path, identity: str, found: dict[Place, np.ndarray]) -> None:
    """Write all predictions of a cell, whole or not at all; the same predictions give the same bytes.

    The true labels are not among them: they are the dataset's. The online probe stands as after the last step; what it
    said before is not kept, which would cost work in every step.

    Arguments:
        folder: of the cell.
        identity: the cell's id.
        found: (probe, layer, feature) -> (N,) classes, in the order of the test split.
    """
    from safetensors.numpy import save

    narrow = {"/".join(place): _narrow(classes) for place, classes in found.items()}
    partial = folder / f"{NAME}.{os.getpid()}.tmp"
    with open(partial, "wb") as file:
        # One entry only: the order of several is left to chance in the file.
        file.write(save(narrow, metadata={CELL: identity}))
        file.flush()
        os.fsync(file.fileno())
    partial.replace(folder / NAME)


def _narrow(classes: np.ndarray) -> np.ndarray:
    small = classes.size == 0 or int(classes.max()) < 2**8
    return np.ascontiguousarray(classes.astype(np.uint8 if small else np.uint16))


def read(path: Path) -> tuple[str, dict[Place, np.ndarray]]:
    """The cell's id and the predictions of a file that anybody may have written.

    Raises:
        UserError: too large, no safetensors file, or other tensors than rows of 8- or 16-bit classes.
    """
    from safetensors import SafetensorError, safe_open

    if path.stat().st_size > LARGEST:
        raise UserError(f"{path}: over {LARGEST} bytes are no predictions")
    found = {}
    try:
        with safe_open(path, "np") as file:
            identity = (file.metadata() or {}).get(CELL, "")
            for name in sorted(file.keys()):
                part = file.get_slice(name)
                place, shape, kind = tuple(name.split("/")), part.get_shape(), part.get_dtype()
                if len(place) != 3 or len(shape) != 1 or kind not in ("U8", "U16"):
                    raise UserError(
                        f"{path}: {name[:80]!a} is {kind} of {shape}; a row of U8 or U16 named PROBE/LAYER/FEATURE is wanted"
                    )
                found[place] = file.get_tensor(name)
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path}: no safetensors file ({error})") from None
    return identity, found


def rescore(record: dict, found: dict[Place, np.ndarray], labels: Callable[[str, str], np.ndarray]) -> list[str]:
    """Count a record's confusion matrices again from predictions and true labels; every contradiction as a sentence.

    Arguments:
        record: of the cell.
        found: (probe, layer, feature) -> (N,) classes.
        labels: (test split, feature) -> (N,) true classes.
    """
    faults, left = [], dict(found)
    for probe in record["probes"]:
        place = (probe["probe"], probe["layer"], probe["feature"])
        what, predicted = f"{' '.join(place)}", left.pop(place, None)
        if predicted is None:
            faults.append(f"{what}: no predictions")
            continue
        truth, classes = np.asarray(labels(probe["splits"][1], probe["feature"])), len(probe["confusion"])
        if len(predicted) != len(truth):
            faults.append(f"{what}: {len(predicted)} predictions for {len(truth)} test samples")
        elif len(predicted) and int(max(predicted.max(), truth.max())) >= classes:
            faults.append(f"{what}: a class beyond the {classes} of its confusion matrix")
        elif confusion(predicted, truth, classes) != probe["confusion"]:
            faults.append(f"{what}: its predictions give another confusion matrix than its record has")
    return faults + [f"{' '.join(place)}: predictions of a probe that the record does not have" for place in left]


def confusion(predicted: np.ndarray, truth: np.ndarray, classes: int) -> list[list[int]]:
    """Counts [true class][predicted class].

    >>> confusion(np.array([0, 1, 1], dtype=np.uint8), np.array([0, 0, 1]), 2)
    [[1, 1], [0, 1]]
    """
    cells = truth.astype(np.int64) * classes + predicted.astype(np.int64)
    return np.bincount(cells, minlength=classes * classes).reshape(classes, classes).tolist()
