"""Tables of what frozen features look like - k-NN, alignment, uniformity, tolerance - beside those of the probes."""

from pathlib import Path

import pandas

from suppression_bench.results import published
from suppression_bench.results import record as records
from suppression_bench.results.found import records_below
from suppression_bench.results.frame import BITS, GROUP, long_table
from suppression_bench.results.pivot import brackets, row_order, strength_order
from suppression_bench.results.published import Place, Published, find
from suppression_bench.results.summary import absent
from suppression_bench.results.tables import as_markdown

# Column -> (key of a layer's or a feature's metrics, digits shown); k-NN in percent, as the probes.
LAYER = {"alignment": 3, "uniformity": 2, "effective_rank": 1}
FEATURE = {"knn": 1, "tolerance": 3, "sensitivity": 3, "agreement": 3}
PAPER_ONLY = "sensitivity"  # shown where it stands beside a published value
KEYS = ["method", "setting", "layer", "metric", "feature"]
HEADS = {"knn": "k-NN %", "effective_rank": "effective rank", "agreement": "neighbours that agree"}


def long_metrics(folders: list[Path]) -> pandas.DataFrame:
    """One line per cell, layer, feature ("" for a layer's own) and metric; the bits are one feature, their mean.

    Raises:
        UserError: no record below a folder, or a damaged one.
    """
    frame = long_table(folders)
    cells = frame.drop_duplicates("id").set_index("id")
    rows = []
    for key, record in records_below(folders).items():
        place = {name: cells.loc[key][name] for name in (*GROUP, "strength", "encoder", "method", "setting", "seed")}
        rows += [{**place, **line} for line in _lines(record["metrics"])]
    found = pandas.DataFrame(rows)
    if found.empty:
        return found
    found["setting"] = found["setting"].fillna("")
    keys = [name for name in found.columns if name != "value"]
    return found.groupby(keys, dropna=False, sort=False)["value"].mean().reset_index()


def _lines(metrics: dict) -> list[dict]:
    lines = []
    for entry in metrics.get("layers", []):
        lines += [{"layer": entry["layer"], "feature": "", "metric": name, "value": entry[name]} for name in LAYER]
    for entry in metrics.get("features", []):
        knn = None if entry["knn_correct"] is None else 100 * entry["knn_correct"] / entry["n"]
        feature = BITS if records.is_bit(entry["feature"]) else entry["feature"]
        values = {"knn": knn, **{name: entry[name] for name in FEATURE if name != "knn"}}
        lines += [{"layer": entry["layer"], "feature": feature, "metric": n, "value": v} for n, v in values.items()]
    return [line for line in lines if line["value"] is not None]


def pivot(found: pandas.DataFrame, paper: bool = False) -> list[tuple[str, pandas.DataFrame]]:
    """One table per dataset and strength: rows by method and layer, columns by metric and feature, means over seeds.

    Arguments:
        found: from `long_metrics`.
        paper: with the published value and the difference beside ours.
    """
    tables = []
    groups = list(found.groupby([*GROUP, "strength"], dropna=False, sort=False))
    sources = sorted({number.source for number in beside(found)}) if paper else []
    for group, part in sorted(groups, key=lambda item: (item[0][:-1], strength_order(item[0][-1]))):
        dataset, pictures, variant, name, strength = group
        rows: dict[tuple, dict] = {}
        for (method, setting, layer, metric, feature), values in part.groupby(KEYS, sort=False)["value"]:
            place = Place(dataset, pictures, variant, method, setting, "", feature, strength, metric)
            numbers = find(place) if paper else []
            if metric == PAPER_ONLY and not numbers:
                continue
            column = f"{HEADS.get(metric, metric)} {feature}".strip()
            digits = {**LAYER, **FEATURE}[metric]
            texts = [_text(values, digits), brackets(values.mean(), numbers, sources, digits)]
            rows.setdefault((f"{method} {setting}".strip(), "", layer), {})[column] = " ".join(filter(None, texts))
        columns = sorted({column for entry in rows.values() for column in entry}, key=_column_order)
        lines = [
            {"method": title, "layer": layer, **{column: entry.get(column, "") for column in columns}}
            for (title, _, layer), entry in sorted(rows.items(), key=lambda item: row_order(item[0]))
        ]
        over = f" over {pictures}" * bool(pictures) + f" ({variant})" * bool(variant)
        over += f", {name} {strength}" if name else ""
        tables.append((f"{dataset}{over}: the features on the test split", pandas.DataFrame(lines)))
    return tables


def beside(found: pandas.DataFrame) -> list[Published]:
    """The published numbers that stand for any of these."""
    names = ["dataset", "pictures", "variant", "method", "setting", "feature", "strength", "metric"]
    places = {
        Place(probe="", **dict(zip(names, row, strict=True))) for row in found[names].itertuples(index=False, name=None)
    }
    return [number for place in places for number in find(place)]


def _text(values: pandas.Series, digits: int) -> str:
    spread = f" ± {values.std(ddof=1):.{digits}f} (n={len(values)})" if len(values) > 1 else ""
    return f"{values.mean():.{digits}f}{spread}"


def _column_order(column: str) -> tuple:
    order = [HEADS.get(name, name) for name in (*FEATURE, *LAYER)]
    return next(i for i, head in enumerate(order) if column.startswith(head)), column.endswith(BITS), column


def render(folders: list[Path], paper: bool = False) -> str:
    """The tables as markdown, with what the columns mean and which cells are not in them."""
    found, frame = long_metrics(folders), long_table(folders)
    if found.empty:
        return "\n".join([NOTHING, *(f"- {note}" for note in absent(frame))])
    parts = [as_markdown(heading, table) for heading, table in pivot(found, paper)]
    notes = [*NOTES]
    numbers = beside(found) if paper else []
    if numbers:
        sources = sorted({number.source for number in numbers})
        named = "; ".join(f"[{i}] {source}" for i, source in enumerate(sources, 1)) if len(sources) > 1 else sources[0]
        notes += [f"In brackets: the published value, and ours minus it ({named}).", *published.notes(numbers)]
    elif paper:
        notes.append("No published metric is known for any of these cells.")
    return "\n\n".join([*parts, "\n".join(f"- {note}" for note in [*notes, *absent(frame)])])


NOTES = ["Features of length 1. k-NN: 200 train neighbours by cosine, fewer where there are fewer. docs/protocol.md."]
NOTHING = "No metrics in these records (cells failed, probe.metric_samples was 0, or they are older than the metrics)."
