"""Predictions: what each probe said of every test sample, so that confusion matrices can be counted again."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from generators.dataset import UserError
from suppression_bench.results.record import Probe, write_atomic

NAME = "predictions.safetensors"
CELL = "cell"  # the header's one entry: the cell's id
LARGEST = 200_000_000  # bytes
Key = tuple[str, str, str]  # probe, layer, feature


def write(folder: Path, cell_id: str, predictions: dict[Key, np.ndarray]) -> None:
    """Write all predictions of a cell, whole or not at all; the same predictions give the same bytes.

    The true labels are not among them: they are the dataset's. The online probe stands as after the last step; what it
    said before is not kept, which would cost work in every step.

    Arguments:
        folder: of the cell.
        cell_id: the cell's id.
        predictions: (probe, layer, feature) -> (N,) classes, in the order of the test split.
    """
    from safetensors.numpy import save

    narrow = {"/".join(key): _narrow(classes) for key, classes in predictions.items()}
    # One entry only: the order of several is left to chance in the file.
    write_atomic(folder / NAME, save(narrow, metadata={CELL: cell_id}))


def _narrow(classes: np.ndarray) -> np.ndarray:
    small = classes.size == 0 or int(classes.max()) < 2**8
    return np.ascontiguousarray(classes.astype(np.uint8 if small else np.uint16))


def read(path: Path) -> tuple[str, dict[Key, np.ndarray]]:
    """The cell's id and the predictions of a file that anybody may have written.

    Raises:
        UserError: as `read_rows`.
    """
    header, rows = read_rows(path, "PROBE/LAYER/FEATURE")
    return header.get(CELL, ""), {(probe, layer, feature): row for (probe, layer, feature), row in rows.items()}


def read_rows(path: Path, naming: str) -> tuple[dict[str, str], dict[tuple[str, ...], np.ndarray]]:
    """The header and the rows of classes of a file that anybody may have written, by the parts of their names.

    Arguments:
        path: of the file.
        naming: the parts of a name, for errors, as in "PROBE/LAYER/FEATURE".

    Raises:
        UserError: too large, no safetensors file, or other tensors than rows of 8- or 16-bit classes.
    """
    from safetensors import SafetensorError, safe_open

    if path.stat().st_size > LARGEST:
        raise UserError(f"{path}: over {LARGEST} bytes are no predictions")
    rows = {}
    try:
        with safe_open(path, "np") as file:
            header = file.metadata() or {}
            for name in sorted(file.keys()):
                part = file.get_slice(name)
                key, shape, kind = tuple(name.split("/")), part.get_shape(), part.get_dtype()
                if len(key) != naming.count("/") + 1 or len(shape) != 1 or kind not in ("U8", "U16"):
                    raise UserError(
                        f"{path}: {name[:80]!a} is {kind} of {shape}; a row of U8 or U16 named {naming} is expected"
                    )
                rows[key] = file.get_tensor(name)
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path}: no safetensors file ({error})") from None
    return header, rows


def rescore(
    probes: list[Probe], predictions: dict[Key, np.ndarray], labels: Callable[[str, str], np.ndarray]
) -> list[str]:
    """Count confusion matrices again from predictions and true labels; every contradiction as a sentence.

    Arguments:
        probes: of a record.
        predictions: (probe, layer, feature) -> (N,) classes.
        labels: (test split, feature) -> (N,) true classes.
    """
    faults, unused = [], dict(predictions)
    for probe in probes:
        key = (probe.probe, probe.layer, probe.feature)
        what, predicted = " ".join(key), unused.pop(key, None)
        if predicted is None:
            faults.append(f"{what}: no predictions")
            continue
        truth, classes = np.asarray(labels(probe.splits[1], probe.feature)), len(probe.confusion)
        if len(predicted) != len(truth):
            faults.append(f"{what}: {len(predicted)} predictions for {len(truth)} test samples")
        elif len(predicted) and int(max(predicted.max(), truth.max())) >= classes:
            faults.append(f"{what}: a class beyond the {classes} of its confusion matrix")
        elif confusion(predicted, truth, classes) != probe.confusion:
            faults.append(f"{what}: its predictions give another confusion matrix than its record has")
    return faults + [f"{' '.join(key)}: predictions of a probe that the record does not have" for key in unused]


def confusion(predicted: np.ndarray, truth: np.ndarray, classes: int) -> list[list[int]]:
    """Counts [true class][predicted class].

    >>> confusion(np.array([0, 1, 1], dtype=np.uint8), np.array([0, 0, 1]), 2)
    [[1, 1], [0, 1]]
    """
    pairs = truth.astype(np.int64) * classes + predicted.astype(np.int64)
    return np.bincount(pairs, minlength=classes * classes).reshape(classes, classes).tolist()
