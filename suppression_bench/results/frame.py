"""The long table of a study: a row per cell, layer, probe and feature; metrics and traces beside it."""

import numbers
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas

from generators.dataset import is_source
from suppression_bench.cell import Cell, PlugIn, settings_key, value_text
from suppression_bench.results import record as records
from suppression_bench.results.record import Record

TOPIC = ["dataset", "pictures", "variant", "strength_name"]  # what one table, or one row of panels, is about
METHOD = ["encoder", "method", "setting"]
NAMES = ["id", *TOPIC, "strength", *METHOD, "temperature", "seed"]  # of a cell, in front of its metrics and its trace
PROBES = ["lbfgs", "online", "sgd"]
FLOOR, CEILING = "untrained", "supervised"  # the methods that show what is there without training, and with labels
COLUMNS = [
    *(
        "dataset",
        "pictures",
        "variant",
        "digest",
        "method",
        "setting",
        "encoder",
        "recipe",
        "strength_name",
        "strength",
    ),
    *("batch_size", "temperature", "seed", "status", "error", "probe", "layer", "feature", "group", "accuracy"),
    *("train_accuracy", "n", "chance", "majority", "l2", "converged", "collapsed", "absent", "seconds", "steps"),
    *("device", "torch", "version", "commit", "id"),
]
LAYER_METRICS = ["alignment", "uniformity", "effective_rank"]
FEATURE_METRICS = ["knn", "tolerance", "sensitivity", "agreement"]
MEASURED = ["accuracy", "chance", "knn", "tolerance", "alignment", "uniformity"]


@dataclass(frozen=True)
class Study:
    """Records as tables.

    records: one of every cell, by the cell's id.
    planned: the specs of planned cells, by their ids; those without a record are missing.
    """

    records: dict[str, Record]
    planned: dict[str, Cell]

    @property
    def cells(self) -> dict[str, Cell]:
        """The spec of every cell, recorded or missing, by its id."""
        return self.planned | {key: record.spec for key, record in self.records.items()}

    @cached_property
    def long(self) -> pandas.DataFrame:
        """A row per cell, layer, probe and feature; a cell without probes (failed, diverged, missing) has one row.

        `group` is the feature group that a feature counts into, "" for a feature of its own.
        """
        rows = [row for record in self.records.values() for row in _probe_rows(record)]
        missing = [cell for key, cell in self.planned.items() if key not in self.records]
        rows += [{**_cell_columns(cell), "status": "missing"} for cell in missing]
        _tell_apart(rows)
        return pandas.DataFrame(rows, columns=COLUMNS)

    @cached_property
    def metrics(self) -> pandas.DataFrame:
        """A row per cell, layer, feature ("" for a layer's own metrics) and metric; a feature group has its mean."""
        rows = [row for record in self.records.values() for row in _metric_rows(record)]
        columns = ["id", "layer", "feature", "group", "metric", "value"]
        # Without the id: one cell that two suites name is one seed.
        keys = [name for name in [*NAMES, *columns] if name not in ("id", "temperature", "value")]
        return _means(self._named(rows, columns), keys, ["value"])

    @cached_property
    def measured(self) -> pandas.DataFrame:
        """A row per cell, layer, feature and probe: its accuracy beside metrics; a feature group has its mean.

        Alignment and uniformity are the layer's on the feature's own test split; what is undefined is NaN.
        """
        rows = [row for record in self.records.values() for row in _measured_rows(record)]
        columns = ["id", "layer", "feature", "group", "probe", *MEASURED]
        frame = self._named(rows, columns).astype(dict.fromkeys(("temperature", *MEASURED), float))
        return _means(frame, [name for name in frame.columns if name not in MEASURED], MEASURED)

    @cached_property
    def traces(self) -> pandas.DataFrame:
        """A row per cell, training step and feature of the records that have a trace; a feature group has its mean."""
        rows = [row for record in self.records.values() for row in _trace_rows(record)]
        columns = ["id", "probe", "step", "feature", "group", "accuracy", "chance"]
        frame = self._named(rows, columns)
        values = ["accuracy", "chance"]
        return _means(frame, [name for name in frame.columns if name not in values], values)

    def _named(self, rows: list[dict], columns: list[str]) -> pandas.DataFrame:
        # Every row gets what names its cell, with the setting that tells it apart, in front.
        names = self.long.drop_duplicates("id")[NAMES]
        return names.merge(pandas.DataFrame(rows, columns=columns), on="id")


def read(paths: Sequence[Path]) -> Study:
    """The study of run folders and study files.

    A cell that several of them hold counts once, by the first record that ended well.

    Arguments:
        paths: folders, each searched to any depth, and .jsonl files.

    Raises:
        UserError: no record below a path, or a damaged one.
    """
    return Study(records.read_all(paths), records.planned_cells(paths))


# ---- rows ----


def _cell_columns(cell: Cell) -> dict[str, Any]:
    dataset, strength = cell.dataset, cell.strength
    key = strength.key if strength else ""
    sources = [value for name, value in sorted(dataset.options.items()) if is_source(name) and value]
    variant = {
        name: value
        for name, value in dataset.options.items()
        if name != key and not is_source(name) and value is not None
    }
    if dataset.seed:
        variant["seed"] = dataset.seed
    return {
        "dataset": dataset.name,
        "pictures": "+".join(sources),
        "variant": " ".join(f"{name}={value_text(value)}" for name, value in variant.items()),
        "method": cell.method.name,
        "setting": cell.setting,
        "encoder": cell.encoder.name,
        "recipe": cell.recipe,
        "strength_name": key,
        "strength": strength_value(strength.value if strength else None),
        "batch_size": cell.train.batch_size,
        "temperature": _temperature((cell.loss, cell.method)),
        "seed": cell.seed,
        "id": cell.id,
        "settings": settings_key(cell, dataset=False),
    }


def strength_value(value: Any) -> Any:
    """A strength as tables have it: "20+80" for [20, 80], "" for none."""
    # A text where there is none: pandas would make 5 of [5, None] a 5.0.
    return "" if value is None else value_text(value) if isinstance(value, (list, tuple)) else value


def _temperature(plugins: Iterable[PlugIn | None]) -> float | None:
    # The loss's own, or that of a method which needs none of the losses (as swav).
    return next(
        (plugin.options["temperature"] for plugin in plugins if plugin and "temperature" in plugin.options), None
    )


def _tell_apart(rows: list[dict]) -> None:
    # Cells of one title but other settings: the title gets what tells them apart, so that nothing is pooled or hidden.
    titles: dict[tuple, list[dict]] = {}
    for row in rows:
        titles.setdefault((*(row[key] for key in TOPIC), row["method"], row["setting"]), []).append(row)
    for alike in titles.values():
        settings = {row["settings"]: row for row in alike}
        if len(settings) == 1:
            continue
        differing = [key for key in ("recipe", "encoder") if len({row[key] for row in alike}) > 1]
        labels = {key: " ".join(f"{name}={row[name]}" for name in differing) for key, row in settings.items()}
        if len(set(labels.values())) < len(labels):
            labels = {key: f"{label} #{key[:6]}".strip() for key, label in labels.items()}
        for row in alike:
            row["setting"] = f"{row['setting']} {labels[row['settings']]}".strip()


def _probe_rows(record: Record) -> list[dict]:
    run = record.run
    common = {
        **_cell_columns(record.spec),
        "id": record.id,
        "digest": record.data.digest,
        "status": run.status,
        "error": run.error,
        "seconds": run.seconds,
        "steps": run.steps,
        "device": record.environment.device,
        "torch": record.environment.torch,
        "version": record.code.version,
        "commit": record.code.commit,
    }
    return [
        {
            **common,
            **{key: getattr(probe, key) for key in ("probe", "layer", "n", "chance", "majority", "l2", "converged")},
            "feature": probe.feature,
            "group": _group(record, probe.feature),
            "accuracy": probe.accuracy,
            "train_accuracy": probe.train_correct / probe.train_n,
            "collapsed": probe.layer in run.collapsed,
            "absent": " ".join(map(str, probe.absent)),
        }
        for probe in record.probes
    ] or [common]


def _group(record: Record, feature: str) -> str:
    group = record.group_of(feature)
    return group if group in record.data.groups else ""


def _subject(record: Record, feature: str) -> dict[str, str]:
    # A feature group stands in a feature's place wherever values are pooled.
    return {"id": record.id, "feature": record.group_of(feature), "group": _group(record, feature)}


def _metric_rows(record: Record) -> Iterator[dict]:
    if record.metrics is None:
        return
    for layer in record.metrics.layers:
        values = {name: getattr(layer, name) for name in LAYER_METRICS}
        yield from _values({"id": record.id, "layer": layer.layer, "feature": "", "group": ""}, values)
    for entry in record.metrics.features:
        knn = None if entry.knn_correct is None else 100 * entry.knn_correct / entry.n
        values = {"knn": knn, **{name: getattr(entry, name) for name in FEATURE_METRICS if name != "knn"}}
        yield from _values({**_subject(record, entry.feature), "layer": entry.layer}, values)


def _values(names: dict, values: dict[str, float | None]) -> Iterator[dict]:
    return ({**names, "metric": name, "value": value} for name, value in values.items() if value is not None)


def _measured_rows(record: Record) -> Iterator[dict]:
    metrics = record.metrics
    layers = {(entry.layer, entry.splits): entry for entry in metrics.layers} if metrics else {}
    features = {(entry.layer, entry.feature): entry for entry in metrics.features} if metrics else {}
    for probe in record.probes:
        layer = layers.get((probe.layer, probe.splits))
        feature = features.get((probe.layer, probe.feature))
        yield {
            **_subject(record, probe.feature),
            "layer": probe.layer,
            "probe": probe.probe,
            "accuracy": probe.accuracy,
            "chance": probe.chance,
            "knn": None if feature is None or feature.knn_correct is None else feature.knn_correct / feature.n,
            "tolerance": feature and feature.tolerance,
            "alignment": layer and layer.alignment,
            "uniformity": layer and layer.uniformity,
        }


def _trace_rows(record: Record) -> Iterator[dict]:
    if record.trace is None:
        return
    chances = {probe.feature: probe.chance for probe in record.probes}
    points = {(point.step, point.feature): point for point in record.trace.points}  # of each step once
    for point in points.values():
        yield {
            **_subject(record, point.feature),
            "probe": record.trace.probe,
            "step": point.step,
            "accuracy": point.correct / point.n,
            "chance": chances.get(point.feature, float("nan")),
        }


def _means(frame: pandas.DataFrame, keys: list[str], values: list[str]) -> pandas.DataFrame:
    return frame.groupby(keys, dropna=False, sort=False)[values].mean().reset_index()


# ---- over seeds ----


def pooled(frame: pandas.DataFrame) -> pandas.DataFrame:
    """The rows with an accuracy; a feature group stands in place of its features."""
    rows = frame[frame["accuracy"].notna()].copy()
    rows["feature"] = rows["feature"].where(rows["group"] == "", rows["group"])
    return rows


def summarise(frame: pandas.DataFrame) -> pandas.DataFrame:
    """Mean, SD (ddof 1) and n over seeds of every method, setting, strength, probe, layer and feature.

    A feature group becomes one feature, the mean of its members; a seed that stands several times under one setting
    (the same cell of two suites) counts once, as the mean of its records. `values` holds the seeds' own accuracies.
    `floor` is the mean of the untrained encoder at the same strength by the same probe, and `below` says that the
    mean lies under it.

    Arguments:
        frame: of `Study.long`.
    """
    keys = [*TOPIC, "strength", *METHOD, "probe", "layer", "feature", "group"]
    per_seed = (
        pooled(frame)
        .groupby([*keys, "seed"], dropna=False, sort=False)
        .agg(accuracy=("accuracy", "mean"), chance=("chance", "first"), converged=("converged", "all"))
    )
    over_seeds = per_seed.groupby(keys, dropna=False, sort=False)
    summary = over_seeds.agg(
        mean=("accuracy", "mean"),
        deviation=("accuracy", "std"),
        n=("accuracy", "size"),
        chance=("chance", "first"),
        converged=("converged", "all"),
        values=("accuracy", tuple),
    ).reset_index()
    at = [*TOPIC, "strength", "encoder", "probe", "feature"]
    untrained = summary[(summary["method"] == FLOOR) & (summary["layer"] == "encoder")]
    floors = untrained.groupby(at, dropna=False)["mean"].mean().rename("floor").reset_index()
    summary = summary.merge(floors, on=at, how="left")
    # Below in the tables' tenth of a percent: less is neither visible nor worth a mark.
    summary["below"] = (summary["mean"].round(3) < summary["floor"].round(3)) & (summary["method"] != FLOOR)
    return summary


# ---- order ----


def strength_order(strength: Any) -> tuple:
    """Numbers by size, texts behind them."""
    return (0, float(strength)) if isinstance(strength, numbers.Real) else (1, str(strength))  # pandas' own ints too


def features_of(frame: pandas.DataFrame) -> list[str]:
    """The features of pooled rows by name, groups behind single ones."""
    return [feature for _, feature in sorted(set(zip(frame["group"], frame["feature"], strict=True)))]


def heading(topic: Sequence) -> str:
    """A dataset, its images and its variant: "randbit over mnist (train=200)"."""
    dataset, pictures, variant, _ = topic
    return dataset + f" over {pictures}" * bool(pictures) + f" ({variant})" * bool(variant)


def title(method: str, setting: str) -> str:
    """A method and its setting."""
    return f"{method} {setting}".strip()
