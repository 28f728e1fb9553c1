"""The record of a cell: one strict JSON file, from which everything that people look at is rendered."""

import hashlib
import os
from pathlib import Path

from generators import strict_json
from generators.dataset import UserError
from suppression_bench.results.identity import provenance_faults, spec_faults

NAME = "result.json"
PLAN = "cells.json"  # every cell that a run's folder is to hold
SCHEMA = 1
LARGEST = 2_000_000
STATUSES = ("ok", "diverged", "failed", "invalid_features")

NUMBER = (int, float)
KEYS = {
    "schema": int,
    "id": str,
    "spec": dict,
    "code": dict,
    "environment": dict,
    "run": dict,
    "probes": list,
    "metrics": dict,
}
RUN_KEYS = {
    "status": str, "error": (str, type(None)), "steps": int, "resumes": int, "seconds": NUMBER, "images_per_second": NUMBER,
    "peak_memory_bytes": int, "loss": (*NUMBER, type(None)), "collapsed": list,
}  # fmt: skip
PROBE_KEYS = {
    "feature": str, "probe": str, "layer": str, "splits": list, "confusion": list, "n": int, "chance": NUMBER,
    "majority": NUMBER, "train_correct": int, "train_n": int, "l2": (*NUMBER, type(None)), "converged": bool, "absent": list,
}  # fmt: skip

# What the features look like, from the test split's normalised features; {} in a record that has none of it. Undefined
# is null, and a list is then empty. `n` test samples; neighbours vote (`voters` of the train split) or agree (`neighbours`
# of the test split).
METRICS_KEYS = {
    "version": int,
    "temperature": NUMBER,
    "voters": int,
    "neighbours": int,
    "layers": list,
    "features": list,
}
PLACE_KEYS = {"layer": str, "splits": list, "n": int}
MAYBE = (*NUMBER, type(None))
LAYER_KEYS = {
    **PLACE_KEYS, "alignment": MAYBE, "uniformity": MAYBE, "effective_rank": MAYBE, "positive_similarity": MAYBE,
    "negative_similarities": list, "gradient_ratios": list,
}  # fmt: skip
FEATURE_KEYS = {
    **PLACE_KEYS, "feature": str, "tolerance": MAYBE, "sensitivity": MAYBE, "knn_correct": (int, type(None)), "agreement": MAYBE,
}  # fmt: skip

# Optional: how many test samples each feature's probe got right after some training steps (docs/protocol.md).
TRACE = "trace"
TRACE_KEYS = {"version": int, "probe": str, "l2": MAYBE, "points": list}
POINT_KEYS = {
    "step": int, "feature": str, "splits": list, "correct": int, "n": int, "train_n": int, "converged": bool,
}  # fmt: skip


def write(folder: Path, record: dict) -> None:
    """Write the record atomically and last: its presence says that the cell is done.

    Raises:
        UserError: the record breaks its own schema (a fault of this program).
    """
    check(record, str(folder / NAME))
    partial = folder / f"{NAME}.{os.getpid()}.tmp"
    with open(partial, "w", encoding="ascii") as file:
        file.write(strict_json.dumps(record) + "\n")
        file.flush()
        os.fsync(file.fileno())
    partial.replace(folder / NAME)


def read(path: Path) -> dict:
    """A record, strictly read; its accuracies follow from its integers.

    Raises:
        UserError: too large, no strict JSON, unknown or missing keys, or numbers that contradict each other.
    """
    if path.exists() and not path.is_file():  # a folder, or a pipe, which would be waited for
        raise UserError(f"{path}: no plain file; delete it and run the cell again")
    if path.stat().st_size > LARGEST:
        raise UserError(f"{path}: over {LARGEST} bytes is no record")
    record = strict_json.loads(path.read_bytes(), str(path), floats=True)
    try:
        check(record, str(path))
    except (ArithmeticError, RecursionError) as error:  # a whole number beyond any float, a value too deep
        raise UserError(f"{path}: not a valid record ({error}); delete the file and run the cell again") from None
    return record


def check(record: dict, what: str) -> None:
    keys = {**KEYS, TRACE: dict} if isinstance(record, dict) and TRACE in record else KEYS
    faults = strict_json.faults(record, keys, "the record")
    if not faults and record["schema"] != SCHEMA:
        faults.append(f"schema {record['schema']} is not {SCHEMA}")
    if not faults:
        faults += strict_json.faults(record["run"], RUN_KEYS, "run")
        faults += spec_faults(record["spec"]) + provenance_faults(record["code"], record["environment"])
        if record["run"].get("status") not in STATUSES:
            faults.append(f"run.status {record['run'].get('status')!r} is not one of {', '.join(STATUSES)}")
        if record["id"] != hashlib.sha256(strict_json.dumps(record["spec"]).encode()).hexdigest():
            faults.append("id is not the hash of spec")
        for probe in record["probes"]:
            faults += strict_json.faults(probe, PROBE_KEYS, "a probe") or _contradictions(probe)
        faults += _metric_faults(record["metrics"])
        faults += _trace_faults(record[TRACE]) if TRACE in record else []
    if faults:
        raise UserError(f"{what}: not a valid record ({'; '.join(faults[:5])}); delete the file and run the cell again")


def accuracy(probe: dict) -> float:
    """Share of the test samples on the diagonal of the confusion matrix."""
    return sum(row[i] for i, row in enumerate(probe["confusion"])) / probe["n"]


def is_bit(feature: str) -> bool:
    """Whether a probed feature is one of the constant channels: bit00, bit01, ...

    >>> is_bit("bit07"), is_bit("bitten")
    (True, False)
    """
    return feature[:3] == "bit" and feature[3:].isdigit()


def majority(confusion: list[list[int]]) -> float:
    """Share of the largest true class."""
    return max(map(sum, confusion)) / sum(map(sum, confusion))


def _contradictions(probe: dict) -> list[str]:
    name, rows = f"probe {probe['probe']} of {probe['feature']}", probe["confusion"]
    square = rows and all(isinstance(row, list) and len(row) == len(rows) for row in rows)
    if not square or any(type(count) is not int or count < 0 for row in rows for count in row):
        return [f"{name}: the confusion matrix is no square of counts"]
    if sum(map(sum, rows)) != probe["n"] or probe["n"] == 0:
        return [f"{name}: the confusion matrix does not add up to n"]
    faults = []
    if abs(probe["chance"] - 1 / len(rows)) > 1e-9:
        faults.append(f"{name}: chance is not 1 / {len(rows)}")
    if abs(probe["majority"] - majority(rows)) > 1e-9:
        faults.append(f"{name}: majority does not follow from the confusion matrix")
    if probe["train_n"] < 1 or not 0 <= probe["train_correct"] <= probe["train_n"]:
        faults.append(f"{name}: train_correct lies outside 0..train_n, or train_n is 0")
    return faults


def _metric_faults(metrics: dict) -> list[str]:
    if not metrics:
        return []
    faults = strict_json.faults(metrics, METRICS_KEYS, "metrics")
    if faults:
        return faults
    for layer in metrics["layers"]:
        own = strict_json.faults(layer, LAYER_KEYS, "metrics of a layer") or _place_faults(layer)
        if not own and not all(_is_number(value) for value in layer["negative_similarities"]):
            own.append(f"metrics of {layer['layer']}: negative_similarities holds something else than numbers")
        if not own and not all(value is None or _is_number(value) for value in layer["gradient_ratios"]):
            own.append(f"metrics of {layer['layer']}: gradient_ratios holds something else than numbers and null")
        faults += own
    for feature in metrics["features"]:
        own = strict_json.faults(feature, FEATURE_KEYS, "metrics of a feature") or _place_faults(feature)
        if not own and not 0 <= (feature["knn_correct"] or 0) <= feature["n"]:
            own.append(f"metrics of {feature['feature']}: knn_correct lies outside 0..n")
        faults += own
    return faults


def _trace_faults(trace: dict) -> list[str]:
    faults = strict_json.faults(trace, TRACE_KEYS, TRACE)
    for point in [] if faults else trace["points"]:
        own = strict_json.faults(point, POINT_KEYS, "a point of the trace")
        if not own and not (0 <= point["correct"] <= point["n"] and point["n"] > 0):
            own.append(f"trace of {point['feature']}: correct lies outside 0..n, or n is 0")
        if not own and (point["step"] < 1 or point["train_n"] < 1):
            own.append(f"trace of {point['feature']}: step and train_n must be above 0")
        faults += own
    return faults


def _place_faults(entry: dict) -> list[str]:
    splits = entry["splits"]
    if len(splits) != 2 or not all(isinstance(split, str) for split in splits) or entry["n"] < 1:
        return [f"metrics of {entry['layer']}: splits must name the train and the test split, and n be above 0"]
    return []


def _is_number(value) -> bool:
    return isinstance(value, NUMBER) and not isinstance(value, bool)
