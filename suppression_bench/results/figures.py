"""Suppression curves: accuracy against the competitor's strength, drawn from records."""

import math
import re
from pathlib import Path

import pandas

from generators.dataset import UserError
from suppression_bench.results import style
from suppression_bench.results.frame import BITS, GROUP, KINDS, summarise

NEEDS = "a suite with results at two strengths or more; run one, such as `bench run quick`"
COLUMNS = 3  # panels side by side at the most
DECADES = 100  # strengths that differ by such a factor, as Fig. 6's numbers of digits, stand on a logarithmic axis
BATCHES = 3  # saturation lines at the most: more of them say nothing


def can_draw(frame: pandas.DataFrame) -> bool:
    """Whether any dataset has results at two strengths."""
    good = frame[frame["accuracy"].notna() & (frame["strength_name"] != "")]
    return bool(len(good)) and good.groupby(GROUP)["strength"].nunique().max() > 1


def suppression_curves(frame: pandas.DataFrame, path: Path, probe: str | None = None) -> None:
    """Accuracy against the competitor's strength: a panel per feature, a line per method, untrained and chance drawn.

    Where the strength is a number of random bits, a line marks log2(batch size): from there on the codes alone tell
    the samples of a batch apart.

    Arguments:
        frame: from `frame.long_table`.
        path: a .png or .svg file.
        probe: lbfgs, online or sgd (default: the first of these that is there).

    Raises:
        UserError: fewer than two strengths, or no results by the probe.
    """
    if not can_draw(frame):
        raise UserError(f"bench plot: no curves; they need {NEEDS}")
    found = summarise(frame)
    probe = chosen_probe(found, probe)
    found = found[(found["probe"] == probe) & (found["layer"] == "encoder") & (found["strength_name"] != "")]
    groups = [(key, part) for key, part in found.groupby(GROUP, sort=False)]
    features = {key: sorted(set(part["feature"]), key=lambda f: (f == BITS, f)) for key, part in groups}
    titles = methods(found)
    columns = min(COLUMNS, max(len(names) for names in features.values()))
    rows = {key: math.ceil(len(names) / columns) for key, names in features.items()}
    with style.canvas(path, sum(rows.values()), columns, (4.2, 3.4), sharey=True) as (figure, axes):
        top = 0
        for key, part in groups:
            batches = _batches(frame, key)
            panels = list(axes[top : top + rows[key]].flat)
            top += rows[key]
            for axis, feature in zip(panels, features[key], strict=False):
                _panel(axis, part[part["feature"] == feature], titles, _places(part["strength"]))
                title = axis.set_title(f"{feature} ({style.heading(key, among=rows)})")
                axis.set_xlabel(f"strength of the competitor: {key[3]}")
                axis.set_ylabel(f"test accuracy, {probe} probe")
                axis.tick_params(labelleft=True)
                if batches:
                    _saturation(axis, batches)
                    title.set_position((0.5, 1))
                    axis.set_title(title.get_text(), pad=18)
            if len({axis.get_xlim() for axis in panels[: len(features[key])]}) > 1:
                _same_range(panels[: len(features[key])])
            for axis in panels[len(features[key]) :]:
                axis.set_visible(False)
        style.legend(figure, style.note("lines", "bands", found["n"].max() > 1) + style.without(frame))


def chosen_probe(found: pandas.DataFrame, probe: str | None) -> str:
    """The probe to draw: the one asked for, or the first kind that there are results of.

    Raises:
        UserError: no results by the one asked for.
    """
    kinds = [kind for kind in KINDS if kind in set(found["probe"])]
    if probe and probe not in kinds:
        raise UserError(f"bench plot: no results by the probe {probe!r}; there are {', '.join(kinds)}")
    return probe or kinds[0]


def methods(found: pandas.DataFrame) -> list[tuple[str, str]]:
    """The (method, setting) pairs but the untrained ones, in the order of their looks."""
    pairs = dict.fromkeys(zip(found["method"], found["setting"], strict=True))
    return sorted(pair for pair in pairs if pair[0] != "untrained")


def _panel(axis, part: pandas.DataFrame, titles: list[tuple[str, str]], places: tuple[dict, list[str]]) -> None:
    chance = part["chance"].iloc[0]
    place, ticks = places
    part = part.assign(x=part["strength"].map(place)).sort_values("x")
    if ticks:
        axis.set_xticks(range(len(ticks)), ticks)
    elif min(place) > 0 and max(place) >= DECADES * min(place):
        axis.set_xscale("log")
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.xaxis.set_minor_formatter(lambda value, _: "")
    else:
        axis.xaxis.get_major_locator().set_params(integer=True)
    for position, (method, setting) in enumerate(titles):
        line = part[(part["method"] == method) & (part["setting"] == setting)]
        if len(line):
            look = style.look(position)
            axis.plot(line["x"], line["mean"], label=f"{method} {setting}".strip(), **look)
            _band(axis, line, look["color"])
    floors = part[part["method"] == "untrained"]
    for marker, (setting, floor) in zip("*x+1234", floors.groupby("setting", sort=True), strict=False):
        _band(axis, floor, style.GREY)
        label = f"untrained {setting}".strip() + f" (mean of {int(floor['n'].min())})"
        look = dict(color=style.GREY, linestyle="--", linewidth=1.4, marker=marker, markersize=6)
        axis.plot(floor["x"], floor["mean"], label=label, **look)
    axis.axhline(chance, color=style.GREY, linestyle=":", linewidth=1.2, label="chance")
    axis.set_ylim(-0.02, 1.03)


def _band(axis, line: pandas.DataFrame, colour: str) -> None:
    # The spread over seeds, where there are several; at a single strength a band has no width.
    mean, spread = line["mean"], style.spread(line, "deviation")
    if line["n"].max() > 1 and len(line) > 1:
        axis.fill_between(line["x"], mean - spread, mean + spread, color=colour, alpha=0.15, linewidth=0)
    elif line["n"].max() > 1:
        axis.errorbar(line["x"], mean, yerr=spread, fmt="none", ecolor=colour, elinewidth=1, capsize=3)


def _batches(frame: pandas.DataFrame, key: tuple) -> list[int]:
    # Sizes of the batches that were trained with, where the competitor is a number of bits.
    if key[3] != BITS:
        return []
    own = frame[(frame[GROUP] == list(key)).all(axis=1) & frame["accuracy"].notna() & (frame["steps"] > 0)]
    sizes = sorted({int(size) for size in own["batch_size"].dropna()})
    return sizes if len(sizes) <= BATCHES else []


def _saturation(axis, batches: list[int]) -> None:
    places = [math.log2(size) for size in batches]
    for place in places:
        axis.axvline(place, color=style.GREY, linestyle="-.", linewidth=0.9)
    text = ", ".join(f"log₂({size})" for size in batches)
    axis.text(
        sum(places) / len(places), 1.0, text, fontsize=style.SMALL, ha="center", va="bottom",
        transform=axis.get_xaxis_transform(),
    )  # fmt: skip


def _same_range(panels: list) -> None:
    # A feature without results at a strength keeps its place beside the others.
    limits = [axis.get_xlim() for axis in panels]
    for axis in panels:
        axis.set_xlim(min(low for low, _ in limits), max(high for _, high in limits))


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
