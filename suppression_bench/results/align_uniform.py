"""Alignment against uniformity of every method's features, coloured by what a probe reads from them."""

from pathlib import Path

import pandas

from generators.dataset import UserError
from suppression_bench.results import style
from suppression_bench.results.figures import chosen_probe
from suppression_bench.results.frame import BITS, GROUP
from suppression_bench.results.labelling import label_points
from suppression_bench.results.measured import over_seeds
from suppression_bench.results.pivot import strength_order

NEEDS = "records with alignment and uniformity of two methods or more (probe.metric_samples above 0)"
COLUMNS = 2  # panels side by side at the most
MAP = "cividis"  # its lightness rises evenly: the same order for colour-blind eyes and in grey print


def can_draw(found: pandas.DataFrame) -> bool:
    """Whether two methods have both metrics on the same data."""
    return bool(_groups(found))


def align_uniform(found: pandas.DataFrame, path: Path, probe: str | None = None) -> None:
    """A panel per dataset and strength, a numbered point per method, its colour the accuracy of the first feature.

    Both are the encoder's, of features scaled to length 1. Bars: the standard deviation over seeds, both ways. Reference:
    Wang & Isola (2020), figure 5.

    Arguments:
        found: from `measured.measured`.
        path: a .png or .svg file.
        probe: lbfgs, online or sgd (default: the first of these that is there).

    Raises:
        UserError: nothing to draw, or no results by the probe.
    """
    if not can_draw(found):
        raise UserError(f"bench plot: no align-uniform; it needs {NEEDS}")
    probe = chosen_probe(found, probe)
    groups = _groups(found[found["probe"] == probe])
    if not groups:
        raise UserError(f"bench plot: no align-uniform by the probe {probe!r}; it needs {NEEDS}")
    titles = sorted(
        {title for _, points in groups for title in points["title"]}, key=lambda t: (t[:9] == "untrained", t)
    )
    columns = min(COLUMNS, len(groups))
    with style.canvas(path, -(-len(groups) // columns), columns, (5.2, 4.2)) as (figure, axes):
        for position, title in enumerate(titles):
            axes.flat[0].plot([], [], linestyle="none", label=f"{position + 1}  {title}")
        for axis, (key, points) in zip(axes.flat, groups, strict=False):
            shown = _panel(axis, points, titles)
            axis.set_title(style.heading(key[:-1], key[-1], [other for other, _ in groups]))
            bar = figure.colorbar(shown, ax=axis, pad=0.02)
            bar.set_label(f"test accuracy of {points['feature'].iloc[0]}, {probe} probe")
        for axis in axes.flat[len(groups) :]:
            axis.set_visible(False)
        several = max(points["n"].max() for _, points in groups) > 1
        style.legend(figure, style.note("points", "bars", several), length=0)
        for axis, (_, points) in zip(axes.flat, groups, strict=False):
            places = list(zip(points["alignment"], points["uniformity"], strict=True))
            numbers = [str(titles.index(title) + 1) for title in points["title"]]
            label_points(axis, places, numbers, ["black"] * len(numbers))


def _groups(found: pandas.DataFrame) -> list[tuple]:
    # (what, one line per method) of every dataset and strength with two methods or more; of the first feature.
    own = found[(found["layer"] == "encoder") & found["alignment"].notna() & found["uniformity"].notna()]
    groups = []
    for key, part in over_seeds(own).groupby([*GROUP, "strength"], dropna=False, sort=False):
        first = min(part["feature"], key=lambda name: (name == BITS, name))
        part = part[part["feature"] == first]
        part = part.assign(title=[f"{row.method} {row.setting}".strip() for row in part.itertuples()])
        if part["title"].nunique() > 1:
            groups.append((key, part))
    return sorted(groups, key=lambda group: (group[0][:-1], strength_order(group[0][-1])))


def _panel(axis, points: pandas.DataFrame, titles: list[str]):
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator, NullFormatter

    bounds = plt.Normalize(points["accuracy"].min(), points["accuracy"].max())
    x, y = points["alignment"], points["uniformity"]
    if points["n"].max() > 1:
        bars = [style.spread(points, f"{name}_sd") for name in ("alignment", "uniformity")]
        axis.errorbar(x, y, xerr=bars[0], yerr=bars[1], fmt="none", ecolor=style.GREY, elinewidth=0.8, zorder=1)
    shown = axis.scatter(x, y, c=points["accuracy"], cmap=MAP, norm=bounds, s=45, edgecolors="black", linewidths=0.6)
    if x.min() > 0:  # what is well aligned lies close together, and differs by factors
        axis.set_xscale("log")
        axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if x.max() < 100 * x.min() else (1,)))
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.xaxis.set_minor_formatter(NullFormatter())
    axis.set_xlabel("alignment (lower: the two views lie closer)")
    axis.set_ylabel("uniformity (higher: more evenly spread)")
    axis.margins(0.1)
    return shown
