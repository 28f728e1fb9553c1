"""All probes of a trained method: what the record says of each feature."""

from collections.abc import Callable

import numpy as np
import torch

from suppression_bench.cell import Probing
from suppression_bench.evaluation.features import extract
from suppression_bench.evaluation.probe import (
    SMALLEST_DEVIATION,
    Probe,
    Task,
    confusion,
    fit_lbfgs,
    fit_sgd,
)
from suppression_bench.method import Method
from suppression_bench.training.data import Data


def measure(
    data: Data,
    method: Method,
    options: Probing,
    online: dict[str, Probe],
    seed: int,
    device: torch.device,
    describe: Callable | None = None,
    keep: dict[tuple[str, str, str], np.ndarray] | None = None,
) -> tuple[list[dict], list[str], bool]:
    """Every probe of every feature: fitted on train splits alone, then confronted with the test splits.

    Arguments:
        data: the dataset.
        method: trained, on `device`.
        options: which probes.
        online: feature -> the probe that learned beside the method.
        seed: of the sgd probe's order.
        device: where the features are computed.
        describe: called after the probes of a pair of splits with (splits, features, train, test), where train and
            test are layer -> (N, D): the metrics, which need the same features.
        keep: filled with (probe, layer, feature) -> (N,) predicted classes of the test split.

    Returns:
        The record's entries, the layers whose features are constant, and whether all features are finite.
    """
    pairs: dict[tuple[str, str], list[str]] = {}
    for feature, pair in data.probes().items():
        pairs.setdefault(pair, []).append(feature)
    found, collapsed = [], set()
    for (train_split, test_split), features in pairs.items():
        train = extract(method, data.samples(train_split, device), options.layers, options.block_size)
        if not all(bool(torch.isfinite(values).all()) for values in train.values()):
            return [], sorted(collapsed), False  # numbers of other splits would look like a result
        tasks = [Task(f, data.classes(f), data.labels(train_split, f)) for f in features]
        fitted = []
        for layer, values in train.items():
            if bool((values.std(0, correction=0) <= SMALLEST_DEVIATION).all()):
                collapsed.add(layer)
            if "lbfgs" in options.kinds:
                fitted += [(layer, probe) for probe in fit_lbfgs(values, tasks, options.l2)]
            if "sgd" in options.kinds:
                fitted += [(layer, probe) for probe in fit_sgd(values, tasks, seed=seed)]
        if "encoder" in train:
            fitted += [("encoder", online[feature]) for feature in features if feature in online]
        # Only now is anything of the test split read.
        test = extract(method, data.samples(test_split, device), options.layers, options.block_size)
        labels = {feature: data.labels(test_split, feature) for feature in features}
        by_name = {task.feature: task for task in tasks}
        for layer, probe in fitted:
            predicted = probe.predict(test[layer])
            entry = _entry(probe, by_name[probe.feature], train[layer], predicted, labels[probe.feature])
            if keep is not None:
                keep[probe.kind, layer, probe.feature] = predicted.cpu().numpy()
            found.append({**entry, "layer": layer, "splits": [train_split, test_split]})
        if describe:
            describe((train_split, test_split), features, train, test)
    return found, sorted(collapsed), True


def _entry(probe: Probe, task: Task, train, predicted, labels: np.ndarray) -> dict:
    counts = confusion(predicted, labels, task.classes)
    right = int((probe.predict(train).cpu().numpy() == task.labels).sum())
    return {
        "feature": task.feature,
        "probe": probe.kind,
        "confusion": counts,
        "n": len(labels),
        "chance": 1 / task.classes,
        "majority": float(np.bincount(labels).max() / len(labels)),
        "train_correct": right,
        "train_n": len(task.labels),
        "l2": probe.l2,
        "converged": probe.converged,
        "absent": sorted(set(range(task.classes)) - set(np.unique(task.labels).tolist())),
    }
