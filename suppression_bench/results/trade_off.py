"""The trade-off of two features: one's accuracy against the other's, a path per method through the strengths."""

from pathlib import Path

import pandas

from generators.dataset import UserError
from suppression_bench.results import style
from suppression_bench.results.figures import chosen_probe, methods
from suppression_bench.results.frame import BITS, GROUP, summarise
from suppression_bench.results.labelling import label_points
from suppression_bench.results.pivot import strength_order

NEEDS = "a method with results at two strengths or more on a dataset with two probed features beside bits"
SUPERVISED = "supervised"


def can_draw(frame: pandas.DataFrame) -> bool:
    """Whether any dataset has such a path."""
    return bool(frame["accuracy"].notna().any()) and bool(_groups(_points(summarise(frame))))


def trade_off(frame: pandas.DataFrame, path: Path, probe: str | None = None) -> None:
    """Accuracy of the second feature against the first's (in alphabetical order): a panel per dataset, a path per method.

    Each path runs through the strengths in order and has them as labels; untrained and supervised encoders are marks.
    Bars: the standard deviation over seeds, both ways. Reference: Chen, Luo & Li (2021), figure 6.

    Arguments:
        frame: from `frame.long_table`.
        path: a .png or .svg file.
        probe: lbfgs, online or sgd (default: the first of these that is there).

    Raises:
        UserError: nothing to draw, or no results by the probe.
    """
    if not can_draw(frame):
        raise UserError(f"bench plot: no trade-off; it needs {NEEDS}")
    found = summarise(frame)
    probe = chosen_probe(found, probe)
    groups = _groups(_points(found[found["probe"] == probe]))
    if not groups:
        raise UserError(f"bench plot: no trade-off by the probe {probe!r}; it needs {NEEDS}")
    titles = methods(pandas.concat([points for _, _, points in groups]))
    with style.canvas(path, 1, len(groups), (5.4, 4.6)) as (figure, axes):
        labels = []
        for axis, (key, names, points) in zip(axes.flat, groups, strict=True):
            labels.append(_panel(axis, points, titles))
            axis.set_xlabel(f"test accuracy of {names[0]}, {probe} probe")
            axis.set_ylabel(f"test accuracy of {names[1]}, {probe} probe")
            axis.set_title(style.heading(key, among=[other for other, _, _ in groups]))
            axis.margins(0.12)
        several = any((points["n"] > 1).any() for _, _, points in groups)
        names = ", ".join(dict.fromkeys(key[3] for key, _, _ in groups))
        numbers = f"\nnumbers at the points: {names}"
        style.legend(figure, style.note("points", "bars", several) + numbers + style.without(frame))
        for axis, found in zip(axes.flat, labels, strict=True):
            label_points(axis, **found)


def _points(found: pandas.DataFrame) -> pandas.DataFrame:
    # One row per dataset, strength, method and probe, both features side by side.
    found = found[(found["layer"] == "encoder") & (found["feature"] != BITS) & (found["strength_name"] != "")]
    parts = []
    for _, part in found.groupby([*GROUP, "probe"], sort=False):
        names = sorted(set(part["feature"]))
        if len(names) == 2:
            keys = [*GROUP, "probe", "strength", "encoder", "method", "setting"]
            values = ["mean", "deviation", "n", "chance"]
            first, second = (part[part["feature"] == name][[*keys, *values]] for name in names)
            both = first.merge(second, on=keys, suffixes=("_x", "_y"))
            parts.append(both.assign(first=names[0], second=names[1], n=both[["n_x", "n_y"]].min(axis=1)))
    return pandas.concat(parts) if parts else pandas.DataFrame()


def _groups(points: pandas.DataFrame) -> list[tuple]:
    # (what, names of both features, points) of every dataset where some trained method has two strengths.
    groups = []
    for key, part in points.groupby(GROUP, sort=False) if len(points) else []:
        trained = part[~part["method"].isin(["untrained", SUPERVISED])]
        if len(trained) and trained.groupby(["method", "setting", "probe"])["strength"].nunique().max() > 1:
            groups.append((key, (part["first"].iloc[0], part["second"].iloc[0]), part))
    return groups


def _panel(axis, points: pandas.DataFrame, titles: list[tuple[str, str]]) -> dict:
    # Draws all but the strengths, and answers with what `label_points` needs for them.
    labels = {"places": [], "texts": [], "colours": [], "lines": []}
    for position, (method, setting) in enumerate(titles):
        own = points[(points["method"] == method) & (points["setting"] == setting)]
        if len(own):
            own = own.loc[sorted(own.index, key=lambda row, own=own: strength_order(own.loc[row, "strength"]))]
            look = style.look(position)
            if method == SUPERVISED:
                look |= {"linestyle": "none", "marker": "*", "markersize": 11}
            _mark(axis, own, f"{method} {setting}".strip(), look)
            path = list(zip(own["mean_x"], own["mean_y"], strict=True))
            labels["places"] += path
            labels["texts"] += map(str, own["strength"])
            labels["colours"] += [look["color"]] * len(own)
            labels["lines"] += [] if method == SUPERVISED else [path]
    floors = points[points["method"] == "untrained"]
    for marker, (setting, floor) in zip("X*P", floors.groupby("setting", sort=True), strict=False):
        look = {"color": style.GREY, "linestyle": "none", "marker": marker, "markersize": 8}
        _mark(axis, floor, f"untrained {setting}".strip() + f" (mean of {int(floor['n'].min())})", look)
    chance = points.iloc[0]
    axis.axvline(chance["chance_x"], color=style.GREY, linestyle=":", linewidth=1.2, label="chance")
    axis.axhline(chance["chance_y"], color=style.GREY, linestyle=":", linewidth=1.2)
    return labels


def _mark(axis, own: pandas.DataFrame, label: str, look: dict) -> None:
    axis.plot(own["mean_x"], own["mean_y"], label=label, **look)
    if own["n"].max() > 1:
        x, y = (style.spread(own, name) for name in ("deviation_x", "deviation_y"))
        axis.errorbar(
            own["mean_x"], own["mean_y"], xerr=x, yerr=y, fmt="none", ecolor=look["color"], elinewidth=0.8, capsize=2
        )
