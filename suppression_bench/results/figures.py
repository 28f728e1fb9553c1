"""Figures drawn from records: suppression curves."""

import re
from pathlib import Path

import pandas

from generators.dataset import UserError
from suppression_bench.results.frame import BITS, GROUP, KINDS, summarise

# Okabe & Ito's palette, with a marker each: told apart by colour-blind eyes and in grey print.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
MARKERS = ["o", "s", "^", "D", "v", "P", "X"]


def can_draw(frame: pandas.DataFrame) -> bool:
    """Whether any dataset has results at two strengths."""
    good = frame[frame["accuracy"].notna() & (frame["strength_name"] != "")]
    return bool(len(good)) and good.groupby(GROUP)["strength"].nunique().max() > 1


def suppression_curves(frame: pandas.DataFrame, path: Path, probe: str | None = None) -> None:
    """Accuracy against the competitor's strength: a panel per feature, a line per method, untrained and chance drawn.

    Arguments:
        frame: from `frame.long_table`.
        path: a .png or .svg file.
        probe: lbfgs, online or sgd (default: the first of these that is there).

    Raises:
        UserError: fewer than two strengths.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    if not can_draw(frame):
        raise UserError(
            "bench plot: no suite with results at two strengths or more; run one, such as `bench run quick`"
        )
    found = summarise(frame)
    kinds = [kind for kind in KINDS if kind in set(found["probe"])]
    if probe and probe not in kinds:
        raise UserError(f"bench plot: no results by the probe {probe!r}; there are {', '.join(kinds)}")
    probe = probe or kinds[0]
    found = found[(found["probe"] == probe) & (found["layer"] == "encoder") & (found["strength_name"] != "")]
    groups = [(key, part) for key, part in found.groupby(GROUP, sort=False)]
    features = {key: sorted(set(part["feature"]), key=lambda f: (f == BITS, f)) for key, part in groups}
    columns = max(len(names) for names in features.values())
    with plt.rc_context(
        {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "curves"}
    ):
        size = (4.2 * columns, 3.4 * len(groups))
        figure, axes = plt.subplots(
            len(groups), columns, figsize=size, squeeze=False, layout="constrained", sharex="row", sharey=True
        )
        for row, (key, part) in zip(axes, groups, strict=True):
            titles, places = _titles(part), _places(part["strength"])
            for axis, feature in zip(row, features[key], strict=False):
                _panel(axis, part[part["feature"] == feature], titles, places)
                axis.set_title(f"{feature} ({key[0]}{' over ' + key[1] if key[1] else ''})", fontsize=9)
                axis.set_xlabel(f"strength of the competitor: {key[3]}")
                axis.set_ylabel(f"test accuracy, {probe} probe")
            for axis in row[len(features[key]) :]:
                axis.set_visible(False)
            handles, labels = row[0].get_legend_handles_labels()
            row[len(features[key]) - 1].legend(
                handles, labels, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False
            )
        metadata = {"Date": None} if path.suffix == ".svg" else {"Software": None}
        figure.savefig(path, dpi=150, metadata=metadata)
        plt.close(figure)


def _titles(part: pandas.DataFrame) -> list[tuple[str, str]]:
    pairs = dict.fromkeys(zip(part["method"], part["setting"], strict=True))
    return sorted(pair for pair in pairs if pair[0] != "untrained")


def _panel(axis, part: pandas.DataFrame, titles: list[tuple[str, str]], places: tuple[dict, list[str]]) -> None:
    chance = part["chance"].iloc[0]
    place, ticks = places
    part = part.assign(x=part["strength"].map(place)).sort_values("x")
    if ticks:
        axis.set_xticks(range(len(ticks)), ticks)
    else:
        axis.xaxis.get_major_locator().set_params(integer=True)
    for position, (method, setting) in enumerate(titles):
        line = part[(part["method"] == method) & (part["setting"] == setting)]
        if len(line):
            style = dict(color=COLOURS[position % len(COLOURS)], marker=MARKERS[position % len(MARKERS)], markersize=5)
            x, mean = line["x"], line["mean"]
            axis.plot(x, mean, label=f"{method} {setting}".strip(), linewidth=1.6, **style)
            if line["n"].max() > 1:
                spread = line["deviation"].fillna(0)
                axis.fill_between(x, mean - spread, mean + spread, color=style["color"], alpha=0.15, linewidth=0)
    floors = part[part["method"] == "untrained"]
    for setting, floor in floors.groupby("setting", sort=True):
        label = f"untrained {setting}".strip() + f" (mean of {int(floor['n'].min())})"
        axis.plot(floor["x"], floor["mean"], color="#777777", linestyle="--", linewidth=1.4, marker=".", label=label)
    axis.axhline(chance, color="#777777", linestyle=":", linewidth=1.2, label="chance")
    axis.set_ylim(-0.02, 1.03)
    axis.grid(alpha=0.25, linewidth=0.5)


def _places(strengths: pandas.Series) -> tuple[dict, list[str]]:
    # Numbers stand where they are; other strengths (lists of sizes) side by side, with their names as ticks.
    values = list(dict.fromkeys(strengths))
    if all(isinstance(value, (int, float)) for value in values):
        return {value: float(value) for value in values}, []
    values = sorted(values, key=_natural)
    return {value: position for position, value in enumerate(values)}, [str(value) for value in values]


def _natural(value) -> list[tuple]:
    # 20+80 before 20+100: parts that are numbers compare as numbers.
    parts = re.split(r"(\d+\.?\d*)", str(value))
    return [(0, float(part), "") if part[:1].isdigit() else (1, 0.0, part) for part in parts if part]
