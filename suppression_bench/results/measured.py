"""What was measured of each cell's features: the probes' accuracies beside the metrics, in one table."""

from pathlib import Path

import pandas

from suppression_bench.results import record as records
from suppression_bench.results.found import records_below
from suppression_bench.results.frame import BITS, GROUP, long_table

PLACE = [*GROUP, "strength", "encoder", "method", "setting", "temperature", "seed"]
VALUES = ["accuracy", "chance", "knn", "tolerance", "alignment", "uniformity"]
KEYS = [*GROUP, "strength", "encoder", "method", "setting", "temperature", "layer", "feature", "probe"]


def measured(folders: list[Path]) -> pandas.DataFrame:
    """One line per cell, layer, feature and probe; the bits are one feature, their mean.

    Alignment and uniformity are the layer's on the feature's own test split; what is undefined is NaN.

    Raises:
        UserError: no record below a folder, or a damaged one.
    """
    titles = long_table(folders).drop_duplicates("id").set_index("id")
    lines = []
    for key, record in records_below(folders).items():
        place = {name: titles.loc[key][name] for name in PLACE}
        lines += [{"id": key, **place, **line} for line in _lines(record)]
    found = pandas.DataFrame(lines, columns=["id", *PLACE, "layer", "feature", "probe", *VALUES])
    found["setting"] = found["setting"].fillna("")
    found = found.astype(dict.fromkeys(("temperature", *VALUES), float))
    keys = [name for name in found.columns if name not in VALUES]
    return found.groupby(keys, dropna=False, sort=False)[VALUES].mean().reset_index()


def over_seeds(found: pandas.DataFrame) -> pandas.DataFrame:
    """Of lines of `measured`: each value's mean, its standard deviation as VALUE_sd, and the number n of cells."""
    groups = found.groupby(KEYS, dropna=False, sort=False)
    spread = groups[VALUES].std().add_suffix("_sd")
    return pandas.concat([groups[VALUES].mean(), spread, groups.size().rename("n")], axis=1).reset_index()


def _lines(record: dict) -> list[dict]:
    metrics = record["metrics"]
    layers = {(entry["layer"], *entry["splits"]): entry for entry in metrics.get("layers", [])}
    features = {(entry["layer"], entry["feature"]): entry for entry in metrics.get("features", [])}
    lines = []
    for probe in record["probes"]:
        layer = layers.get((probe["layer"], *probe["splits"]), {})
        feature = features.get((probe["layer"], probe["feature"]), {})
        correct = feature.get("knn_correct")
        lines.append(
            {
                "layer": probe["layer"],
                "feature": BITS if records.is_bit(probe["feature"]) else probe["feature"],
                "probe": probe["probe"],
                "accuracy": records.accuracy(probe),
                "chance": probe["chance"],
                "knn": None if correct is None else correct / feature["n"],
                "tolerance": feature.get("tolerance"),
                "alignment": layer.get("alignment"),
                "uniformity": layer.get("uniformity"),
            }
        )
    return lines
