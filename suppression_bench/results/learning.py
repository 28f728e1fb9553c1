"""The learning order: every feature's accuracy against the training step, from the traces in records."""

import math
from pathlib import Path

import pandas

from generators.dataset import UserError
from suppression_bench.results import record as records
from suppression_bench.results import style
from suppression_bench.results.found import records_below
from suppression_bench.results.frame import BITS, GROUP, long_table
from suppression_bench.results.pivot import strength_order

NEEDS = "records with a trace; run cells with `bench run ... --trace`"
COLUMNS = 3  # panels side by side at the most
PLACE = [*GROUP, "strength", "encoder", "method", "setting"]
LINES = ["id", *PLACE, "seed", "probe", "step", "feature", "accuracy", "chance"]


def traced(folders: list[Path]) -> pandas.DataFrame:
    """One line per cell, step and feature of the records that have a trace; the bits are one feature, their mean.

    Raises:
        UserError: no record below a folder, or a damaged one.
    """
    titles = long_table(folders).drop_duplicates("id").set_index("id")
    lines = {}
    for record in records_below(folders).values():
        if records.TRACE not in record:
            continue
        chances = {probe["feature"]: probe["chance"] for probe in record["probes"]}
        place = {key: titles.loc[record["id"]][key] for key in (*PLACE, "seed")}
        place |= {"id": record["id"], "probe": record[records.TRACE]["probe"]}
        for point in record[records.TRACE]["points"]:
            name = point["feature"]
            found = {
                **place,
                "step": point["step"],
                "feature": BITS if records.is_bit(name) else name,
                "accuracy": point["correct"] / point["n"],
                "chance": chances.get(name, float("nan")),
            }
            lines[record["id"], point["step"], name] = found
    found = pandas.DataFrame(list(lines.values()), columns=LINES)
    found["setting"] = found["setting"].fillna("")
    keys = [name for name in LINES if name not in ("accuracy", "chance")]
    return found.groupby(keys, dropna=False, sort=False)[["accuracy", "chance"]].mean().reset_index()


def can_draw(found: pandas.DataFrame) -> bool:
    """Whether any record has a trace of two steps or more."""
    return bool(len(found)) and found.groupby("id")["step"].nunique().max() > 1


def learning(found: pandas.DataFrame, path: Path) -> None:
    """A panel per method and strength, a line per feature; its chance level is dotted in its colour.

    Arguments:
        found: from `traced`.
        path: a .png or .svg file.

    Raises:
        UserError: no trace to draw.
    """
    if not can_draw(found):
        raise UserError(f"bench plot: no learning order; it needs {NEEDS}")
    features = sorted(set(found["feature"]), key=lambda name: (name == BITS, name))
    panels = list(found.groupby([*PLACE, "probe"], dropna=False, sort=False))
    panels.sort(key=lambda panel: (panel[0][:4], panel[0][6:], strength_order(panel[0][4])))
    columns = min(COLUMNS, len(panels))
    with style.canvas(path, math.ceil(len(panels) / columns), columns, (4.0, 3.1), sharey=True) as (figure, axes):
        for axis, (key, part) in zip(axes.flat, panels, strict=False):
            _panel(axis, part, features)
            method = f"{key[6]} {key[7]}".strip()
            axis.set_title(f"{method}\n({style.heading(key[:4], key[4], [other for other, _ in panels])})")
            axis.set_ylabel(f"test accuracy, {key[-1]} probe")
        for axis in axes.flat[len(panels) :]:
            axis.set_visible(False)
        several = found.groupby([*PLACE, "probe"], dropna=False)["id"].nunique().max() > 1
        style.legend(figure, style.note("lines", "bands", several) + "; dotted: chance")


def _panel(axis, part: pandas.DataFrame, features: list[str]) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    for position, feature in enumerate(features):
        own = part[part["feature"] == feature]
        if not len(own):
            continue
        look = style.look(position)
        steps = own.groupby("step")["accuracy"]
        mean, spread = steps.mean(), steps.std().fillna(0)
        axis.plot(mean.index, mean, label=feature, **look)
        if steps.size().max() > 1:
            axis.fill_between(mean.index, mean - spread, mean + spread, color=look["color"], alpha=0.15, linewidth=0)
        if own["chance"].notna().any():
            axis.axhline(own["chance"].iloc[0], color=look["color"], linestyle=":", linewidth=1.2)
    axis.set_xscale("log")
    steps = part["step"]
    axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if steps.max() < 100 * steps.min() else (1,)))
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.set_xlabel("training step")
    axis.set_ylim(-0.02, 1.03)
    axis.tick_params(labelleft=True)
