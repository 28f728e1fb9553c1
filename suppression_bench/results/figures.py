"""The figures of a study, five kinds: suppression curves, trade-off, learning order, temperature, alignment-uniformity."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas

from generators.dataset import UserError
from suppression_bench.results import style
from suppression_bench.results.frame import (
    CEILING,
    FLOOR,
    MEASURED,
    METHOD,
    PROBES,
    TOPIC,
    Study,
    features_of,
    strength_order,
    summarise,
    title,
)

LIMITS = (-0.02, 1.03)  # of an axis of accuracies
DECADES = 100  # strengths that differ by such a factor, as numbers of different digits, stand on a logarithmic axis
MOST_BATCHES = 3  # saturation lines at the most: more of them say nothing
COLOUR_MAP = "cividis"  # its lightness rises evenly: the same order for colour-blind eyes and in grey print


@dataclass(frozen=True)
class Kind:
    """A kind of figure.

    title: for people.
    needs: what the records must hold, for the error.
    frame: the table of a study that it is drawn from.
    groups: the panels, or rows of panels, that the rows by one probe allow; none where there is nothing to draw.
    paint: draws them: of the study, the groups, the file and the probe.
    by_probe: whether it shows one probe that can be chosen; a trace names its own.
    """

    title: str
    needs: str
    frame: Callable[[Study], pandas.DataFrame]
    groups: Callable[[pandas.DataFrame], list]
    paint: Callable[[Study, list, Path, str], None]
    by_probe: bool = True


def drawable(study: Study) -> list[str]:
    """The kinds that can be drawn from a study, `curves` first."""
    return [name for name in KINDS if _panels(study, name, None)[1]]


def draw(study: Study, name: str, path: Path, probe: str | None = None) -> None:
    """Draw a figure of one kind.

    Arguments:
        study: of any records.
        name: of KINDS.
        path: a .png or .svg file.
        probe: lbfgs, online or sgd (default: the first of these by which it can be drawn).

    Raises:
        UserError: nothing to draw, or no results by the probe.
    """
    chosen, groups = _panels(study, name, probe)
    if not groups:
        by = f" by the probe {probe!r}" if probe else ""
        raise UserError(f"bench plot: no {name}{by}; it needs {KINDS[name].needs}")
    KINDS[name].paint(study, groups, path, chosen)


def _panels(study: Study, name: str, probe: str | None) -> tuple[str, list]:
    kind = KINDS[name]
    frame = kind.frame(study)
    if not kind.by_probe:
        return "", kind.groups(frame)
    probes = [kind for kind in PROBES if kind in set(frame["probe"])]
    if probe and probes and probe not in probes:
        raise UserError(f"bench plot: no results by the probe {probe!r}; there are {', '.join(probes)}")
    for chosen in [probe] if probe else probes:
        if groups := kind.groups(frame[frame["probe"] == chosen]):
            return chosen, groups
    return "", []


# ---- suppression curves ----


def _curve_groups(summary: pandas.DataFrame) -> list[tuple]:
    # (topic, its rows) of every dataset, if any has results at two strengths.
    summary = summary[summary["strength_name"] != ""]
    if summary.empty or summary.groupby(TOPIC)["strength"].nunique().max() < 2:
        return []
    return list(summary[summary["layer"] == "encoder"].groupby(TOPIC, sort=False))


def _paint_curves(study: Study, groups: list, path: Path, probe: str) -> None:
    # Accuracy against the competitor's strength: a panel per feature, a line per method, untrained and chance drawn.
    names = [features_of(part) for _, part in groups]
    titles = _titles(pandas.concat([part for _, part in groups]))
    columns = min(3, max(map(len, names)))
    heights = [math.ceil(len(features) / columns) for features in names]
    with style.canvas(path, sum(heights), columns, (4.2, 3.4), sharey=True) as (figure, axes):
        top = 0
        for (topic, part), features, height in zip(groups, names, heights, strict=True):
            batches = _batch_sizes(study, topic)
            panels = list(axes[top : top + height].flat)
            top += height
            for axis, feature in zip(panels, features, strict=False):
                _paint_curve(axis, part[part["feature"] == feature], titles, _positions(part["strength"]))
                text = axis.set_title(f"{feature} ({style.panel_title(topic, among=[topic for topic, _ in groups])})")
                axis.set_xlabel(f"strength of the competitor: {topic[3]}")
                axis.set_ylabel(f"test accuracy, {probe} probe")
                axis.tick_params(labelleft=True)
                if batches:
                    _mark_saturation(axis, batches)
                    text.set_position((0.5, 1))
                    axis.set_title(text.get_text(), pad=18)
            _same_range(panels[: len(features)])
            _hide(panels[len(features) :])
        several = max(part["n"].max() for _, part in groups) > 1
        style.legend(figure, style.seeds_note("lines", "bands", several) + style.lost_note(study.long))


def _paint_curve(axis: Any, part: pandas.DataFrame, titles: list, positions: tuple[dict, list[str]]) -> None:
    by_strength, ticks = positions
    part = part.assign(x=part["strength"].map(by_strength)).sort_values("x")
    if ticks:
        axis.set_xticks(range(len(ticks)), ticks)
    elif min(by_strength) > 0 and max(by_strength) >= DECADES * min(by_strength):
        axis.set_xscale("log")
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.xaxis.set_minor_formatter(lambda value, _: "")
    else:
        axis.xaxis.get_major_locator().set_params(integer=True)
    for position, (method, setting) in enumerate(titles):
        line = part[(part["method"] == method) & (part["setting"] == setting)]
        if len(line):
            _line(axis, line, ("x", "mean", "deviation"), title(method, setting), style.look(position))
    floors = part[part["method"] == FLOOR]
    for marker, (setting, floor) in zip("*x+1234", floors.groupby("setting", sort=True), strict=False):
        _band(axis, floor, ("x", "mean", "deviation"), style.GREY)  # below its marks, which are thin
        look = {"color": style.GREY, "linestyle": "--", "linewidth": 1.4, "marker": marker, "markersize": 6}
        axis.plot(floor["x"], floor["mean"], label=_floor_label(setting, floor), **look)
    axis.axhline(part["chance"].iloc[0], color=style.GREY, linestyle=":", linewidth=1.2, label="chance")
    axis.set_ylim(*LIMITS)


def _batch_sizes(study: Study, topic: tuple) -> list[int]:
    # Sizes of the batches that were trained with, where the competitor's strength counts the members of a group.
    rows = study.long[(study.long[TOPIC] == list(topic)).all(axis=1) & study.long["accuracy"].notna()]
    if topic[3] not in set(rows["group"]):
        return []
    sizes = sorted({int(size) for size in rows[rows["steps"] > 0]["batch_size"]})
    return sizes if len(sizes) <= MOST_BATCHES else []


def _mark_saturation(axis: Any, batches: list[int]) -> None:
    # From log2(batch size) random bits on the codes alone tell the samples of a batch apart.
    positions = [math.log2(size) for size in batches]
    for position in positions:
        axis.axvline(position, color=style.GREY, linestyle="-.", linewidth=0.9)
    axis.text(
        sum(positions) / len(positions),
        1.0,
        ", ".join(f"log₂({size})" for size in batches),
        fontsize=style.SMALL,
        ha="center",
        va="bottom",
        transform=axis.get_xaxis_transform(),
    )


def _same_range(panels: list) -> None:
    # A feature without results at a strength keeps its range beside the others.
    limits = {axis.get_xlim() for axis in panels}
    for axis in panels if len(limits) > 1 else ():
        axis.set_xlim(min(low for low, _ in limits), max(high for _, high in limits))


def _positions(strengths: pandas.Series) -> tuple[dict, list[str]]:
    # Numbers stand where they are; other strengths (lists of sizes) side by side, with their names as ticks.
    values = list(dict.fromkeys(strengths))
    if all(isinstance(value, (int, float)) for value in values):
        return {value: float(value) for value in values}, []
    values = sorted(values, key=_natural_order)
    return {value: position for position, value in enumerate(values)}, [str(value) for value in values]


def _natural_order(value: Any) -> list[tuple]:
    # 20+80 before 20+100: parts that are numbers compare as numbers.
    parts = re.split(r"(\d+\.?\d*)", str(value))
    return [(0, float(part), "") if part[:1].isdigit() else (1, 0.0, part) for part in parts if part]


# ---- trade-off ----


def _trade_off_groups(summary: pandas.DataFrame) -> list[tuple]:
    # (topic, names of both features, points) of every dataset with two single features on which a method has two strengths.
    rows = summary[(summary["layer"] == "encoder") & (summary["group"] == "") & (summary["strength_name"] != "")]
    keys, values = ["probe", "strength", *METHOD], ["mean", "deviation", "n", "chance"]
    groups = []
    for topic, part in rows.groupby(TOPIC, sort=False):
        names = features_of(part)
        if len(names) == 2:
            first, second = (part[part["feature"] == name][[*keys, *values]] for name in names)
            points = first.merge(second, on=keys, suffixes=("_x", "_y"))
            trained = points[~points["method"].isin([FLOOR, CEILING])]
            if len(trained) and trained.groupby(["method", "setting", "probe"])["strength"].nunique().max() > 1:
                groups.append((topic, names, points.assign(n=points[["n_x", "n_y"]].min(axis=1))))
    return groups


def _paint_trade_off(study: Study, groups: list, path: Path, probe: str) -> None:
    # Accuracy of the second feature against the first's: a panel per dataset, a path per method through the strengths,
    # which stand beside its points. Reference: Chen, Luo & Li (2021), figure 6.
    titles = _titles(pandas.concat([points for _, _, points in groups]))
    with style.canvas(path, 1, len(groups), (5.4, 4.6)) as (figure, axes):
        labels = []
        for axis, (topic, names, points) in zip(axes.flat, groups, strict=True):
            labels.append(_paint_paths(axis, points, titles))
            axis.set_xlabel(f"test accuracy of {names[0]}, {probe} probe")
            axis.set_ylabel(f"test accuracy of {names[1]}, {probe} probe")
            axis.set_title(style.panel_title(topic, among=[topic for topic, _, _ in groups]))
            axis.margins(0.12)
        note = style.seeds_note("points", "bars", any((points["n"] > 1).any() for _, _, points in groups))
        note += f"\nnumbers at the points: {', '.join(dict.fromkeys(topic[3] for topic, _, _ in groups))}"
        style.legend(figure, note + style.lost_note(study.long))
        for axis, arguments in zip(axes.flat, labels, strict=True):
            style.label_points(axis, **arguments)


def _paint_paths(axis: Any, points: pandas.DataFrame, titles: list) -> dict[str, list]:
    # Draws all but the strengths, and answers with what `label_points` needs for them.
    labels = {"positions": [], "texts": [], "colours": [], "lines": []}
    for position, (method, setting) in enumerate(titles):
        rows = points[(points["method"] == method) & (points["setting"] == setting)]
        if len(rows):
            rows = rows.sort_values("strength", key=lambda strengths: strengths.map(strength_order), kind="stable")
            look = style.look(position)
            if method == CEILING:
                look |= {"linestyle": "none", "marker": "*", "markersize": 11}
            _mark_points(axis, rows, title(method, setting), look)
            path = list(zip(rows["mean_x"], rows["mean_y"], strict=True))
            labels["positions"] += path
            labels["texts"] += map(str, rows["strength"])
            labels["colours"] += [look["color"]] * len(rows)
            labels["lines"] += [] if method == CEILING else [path]
    floors = points[points["method"] == FLOOR]
    for marker, (setting, floor) in zip("X*P", floors.groupby("setting", sort=True), strict=False):
        look = {"color": style.GREY, "linestyle": "none", "marker": marker, "markersize": 8}
        _mark_points(axis, floor, _floor_label(setting, floor), look)
    chance = points.iloc[0]
    axis.axvline(chance["chance_x"], color=style.GREY, linestyle=":", linewidth=1.2, label="chance")
    axis.axhline(chance["chance_y"], color=style.GREY, linestyle=":", linewidth=1.2)
    return labels


def _mark_points(axis: Any, rows: pandas.DataFrame, label: str, look: dict) -> None:
    axis.plot(rows["mean_x"], rows["mean_y"], label=label, **look)
    if rows["n"].max() > 1:
        bars = {"xerr": rows["deviation_x"].fillna(0), "yerr": rows["deviation_y"].fillna(0)}
        axis.errorbar(
            rows["mean_x"], rows["mean_y"], **bars, fmt="none", ecolor=look["color"], elinewidth=0.8, capsize=2
        )


# ---- learning order ----


def _learning_groups(traces: pandas.DataFrame) -> list[tuple]:
    # ((*topic, strength, encoder, method, setting, probe), its points) of every panel, if a trace has two steps.
    if traces.empty or traces.groupby("id")["step"].nunique().max() < 2:
        return []
    panels = list(traces.groupby([*TOPIC, "strength", *METHOD, "probe"], dropna=False, sort=False))
    return sorted(panels, key=lambda panel: (panel[0][:4], panel[0][6:], strength_order(panel[0][4])))


def _paint_learning(study: Study, groups: list, path: Path, probe: str) -> None:
    # A panel per method and strength, a line per feature; its chance level is dotted in its colour.
    features = features_of(study.traces)
    columns = min(3, len(groups))
    with style.canvas(path, math.ceil(len(groups) / columns), columns, (4.0, 3.1), sharey=True) as (figure, axes):
        for axis, (key, part) in zip(axes.flat, groups, strict=False):
            *topic, strength, _, method, setting, probe = key
            _paint_steps(axis, part, features)
            about = style.panel_title(topic, strength, [key[:4] for key, _ in groups])
            axis.set_title(f"{title(method, setting)}\n({about})")
            axis.set_ylabel(f"test accuracy, {probe} probe")
        _hide(axes.flat[len(groups) :])
        several = max(part["id"].nunique() for _, part in groups) > 1
        style.legend(figure, style.seeds_note("lines", "bands", several) + "; dotted: chance")


def _paint_steps(axis: Any, part: pandas.DataFrame, features: list[str]) -> None:
    for position, feature in enumerate(features):
        rows = part[part["feature"] == feature]
        if len(rows):
            look, steps = style.look(position), rows.groupby("step")["accuracy"]
            points = pandas.DataFrame({"mean": steps.mean(), "deviation": steps.std(), "n": steps.size()}).reset_index()
            _line(axis, points, ("step", "mean", "deviation"), feature, look)
            if rows["chance"].notna().any():
                axis.axhline(rows["chance"].iloc[0], color=look["color"], linestyle=":", linewidth=1.2)
    _log_axis(axis, part["step"])
    axis.set_xlabel("training step")
    axis.set_ylim(*LIMITS)
    axis.tick_params(labelleft=True)


# ---- temperature ----

AXES = {"uniformity": "uniformity", "tolerance": "tolerance", "knn": "k-NN accuracy", "accuracy": "test accuracy"}


def _temperature_groups(measured: pandas.DataFrame) -> list[tuple]:
    # (topic and strength, lines of methods at two temperatures, the untrained encoders' levels), values over seeds.
    groups = []
    for key, part in _over_seeds(measured).groupby([*TOPIC, "strength"], dropna=False, sort=False):
        # The temperature is the axis: cells that differ in nothing else are one line.
        settings = part["setting"].str.replace(r"(^| )temperature=\S+", "", regex=True).str.strip()
        part = part.assign(title=[title(*names) for names in zip(part["method"], settings, strict=True)])
        trained = part[part["temperature"].notna() & part["uniformity"].notna()]
        counts = trained.groupby(["title", "layer", "feature", "probe"])["temperature"].transform("nunique")
        lines = trained[counts > 1].sort_values("temperature")
        if len(lines):
            groups.append((key, lines, part[(part["method"] == FLOOR) & (part["layer"] == "encoder")]))
    return groups


def _paint_temperature(study: Study, groups: list, path: Path, probe: str) -> None:
    # A row of panels per dataset and strength: uniformity, then tolerance, k-NN and probe accuracy of every feature. A
    # line per method and layer, the untrained encoder as a level. Reference: Wang & Liu (2021), figure 5 and table 1.
    panels = [_temperature_panels(lines) for _, lines, _ in groups]
    titles = sorted({name for _, lines, _ in groups for name in lines["title"]})
    with style.canvas(path, len(groups), max(map(len, panels)), (3.3, 3.1)) as (figure, axes):
        for row, (key, lines, floors), shown in zip(axes, groups, panels, strict=True):
            about = style.panel_title(key[:-1], key[-1], [key[:-1] for key, _, _ in groups])
            for axis, (name, feature) in zip(row, shown, strict=False):
                levels = floors[floors["feature"] == feature][name].dropna()
                _paint_temperatures(axis, lines[lines["feature"] == feature], levels, name, titles)
                axis.set_ylabel(AXES[name] + (f", {probe} probe" if name == "accuracy" else ""))
                axis.set_title(about if name == "uniformity" else f"{feature} ({about})", fontsize=style.SMALL)
            _hide(row[len(shown) :])
        several = max(lines["n"].max() for _, lines, _ in groups) > 1
        style.legend(figure, style.seeds_note("lines", "bands", several))


def _temperature_panels(lines: pandas.DataFrame) -> list[tuple[str, str]]:
    features = features_of(lines)
    pairs = [(name, feature) for feature in features for name in ("tolerance", "knn", "accuracy")]
    return [
        ("uniformity", features[0]),
        *((name, feature) for name, feature in pairs if lines[lines["feature"] == feature][name].notna().any()),
    ]


def _paint_temperatures(
    axis: Any, lines: pandas.DataFrame, levels: pandas.Series, name: str, titles: list[str]
) -> None:
    for (label, layer), line in lines.groupby(["title", "layer"], sort=True):
        look = style.look(titles.index(label))
        if layer != "encoder":
            look |= {"linestyle": "--", "markerfacecolor": "white"}
            label += f", {layer}"
        _line(axis, line, ("temperature", name, f"{name}_sd"), label, look)
    label = FLOOR if len(levels) == 1 else f"{FLOOR} (each encoder)"
    for dashes, level in zip(("--", ":"), levels, strict=False):
        axis.axhline(level, color=style.GREY, linestyle=dashes, linewidth=1.4, label=label)
    ticks = sorted(set(lines["temperature"]))
    axis.set_xscale("log")
    axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.set_xticks([], minor=True)
    axis.set_xlabel("temperature")


# ---- alignment and uniformity ----


def _align_groups(measured: pandas.DataFrame) -> list[tuple]:
    # (topic and strength, a point per method) of every dataset and strength with two methods; of the first feature.
    rows = measured[(measured["layer"] == "encoder") & measured["alignment"].notna() & measured["uniformity"].notna()]
    groups = []
    for key, part in _over_seeds(rows).groupby([*TOPIC, "strength"], dropna=False, sort=False):
        part = part[part["feature"] == features_of(part)[0]]
        part = part.assign(title=[title(*names) for names in zip(part["method"], part["setting"], strict=True)])
        if part["title"].nunique() > 1:
            groups.append((key, part))
    return sorted(groups, key=lambda group: (group[0][:-1], strength_order(group[0][-1])))


def _paint_align_uniform(study: Study, groups: list, path: Path, probe: str) -> None:
    # A panel per dataset and strength, a numbered point per method, its colour the accuracy of the first feature; of
    # features scaled to length 1. Reference: Wang & Isola (2020), figure 5.
    names = {name for _, points in groups for name in points["title"]}
    titles = sorted(names, key=lambda name: (name.startswith(FLOOR), name))
    columns = min(2, len(groups))
    with style.canvas(path, math.ceil(len(groups) / columns), columns, (5.2, 4.2)) as (figure, axes):
        for position, name in enumerate(titles, 1):
            axes.flat[0].plot([], [], linestyle="none", label=f"{position}  {name}")
        for axis, (key, points) in zip(axes.flat, groups, strict=False):
            bar = figure.colorbar(_paint_methods(axis, points), ax=axis, pad=0.02)
            axis.set_title(style.panel_title(key[:-1], key[-1], [key[:-1] for key, _ in groups]))
            bar.set_label(f"test accuracy of {points['feature'].iloc[0]}, {probe} probe")
        _hide(axes.flat[len(groups) :])
        several = max(points["n"].max() for _, points in groups) > 1
        style.legend(figure, style.seeds_note("points", "bars", several), length=0)
        for axis, (_, points) in zip(axes.flat, groups, strict=False):
            positions = list(zip(points["alignment"], points["uniformity"], strict=True))
            numbers = [str(titles.index(name) + 1) for name in points["title"]]
            style.label_points(axis, positions, numbers, ["black"] * len(numbers))


def _paint_methods(axis: Any, points: pandas.DataFrame) -> Any:
    from matplotlib.colors import Normalize

    x, y = points["alignment"], points["uniformity"]
    if points["n"].max() > 1:
        bars = {"xerr": points["alignment_sd"].fillna(0), "yerr": points["uniformity_sd"].fillna(0)}
        axis.errorbar(x, y, **bars, fmt="none", ecolor=style.GREY, elinewidth=0.8, zorder=1)
    shown = axis.scatter(
        x,
        y,
        c=points["accuracy"],
        cmap=COLOUR_MAP,
        norm=Normalize(points["accuracy"].min(), points["accuracy"].max()),
        s=45,
        edgecolors="black",
        linewidths=0.6,
    )
    if x.min() > 0:  # what is well aligned lies close together, and differs by factors
        _log_axis(axis, x)
    axis.set_xlabel("alignment (lower: the two views lie closer)")
    axis.set_ylabel("uniformity (higher: more evenly spread)")
    axis.margins(0.1)
    return shown


# ---- shared ----


def _titles(rows: pandas.DataFrame) -> list[tuple[str, str]]:
    # The (method, setting) pairs but the untrained ones, in the order of their looks.
    return sorted({pair for pair in zip(rows["method"], rows["setting"], strict=True) if pair[0] != FLOOR})


def _floor_label(setting: str, floor: pandas.DataFrame) -> str:
    return f"{title(FLOOR, setting)} (mean of {int(floor['n'].min())})"


def _over_seeds(measured: pandas.DataFrame) -> pandas.DataFrame:
    # Each value's mean, its standard deviation as VALUE_sd, and the number n of cells.
    keys = [*TOPIC, "strength", *METHOD, "temperature", "layer", "feature", "group", "probe"]
    groups = measured.groupby(keys, dropna=False, sort=False)
    spread = groups[MEASURED].std().add_suffix("_sd")
    return pandas.concat([groups[MEASURED].mean(), spread, groups.size().rename("n")], axis=1).reset_index()


def _line(axis: Any, points: pandas.DataFrame, columns: tuple[str, str, str], label: str, look: dict) -> None:
    axis.plot(points[columns[0]], points[columns[1]], label=label, **look)
    _band(axis, points, columns, look["color"])


def _band(axis: Any, points: pandas.DataFrame, columns: tuple[str, str, str], colour: str) -> None:
    # The spread over seeds, where there are several; at a single point a band has no width.
    x, mean, deviation = (points[name] for name in columns)
    spread = deviation.fillna(0)
    if points["n"].max() > 1 and len(points) > 1:
        axis.fill_between(x, mean - spread, mean + spread, color=colour, alpha=0.15, linewidth=0)
    elif points["n"].max() > 1:
        axis.errorbar(x, mean, yerr=spread, fmt="none", ecolor=colour, elinewidth=1, capsize=3)


def _log_axis(axis: Any, values: pandas.Series) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    axis.set_xscale("log")
    axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if values.max() < 100 * values.min() else (1,)))
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.xaxis.set_minor_formatter(NullFormatter())


def _hide(axes: Sequence) -> None:
    for axis in axes:
        axis.set_visible(False)


def _summary(study: Study) -> pandas.DataFrame:
    return summarise(study.long)


KINDS = {
    "curves": Kind(
        "Suppression curves: accuracy against the competitor's strength",
        "a suite with results at two strengths or more; run one, such as `bench run quick`",
        _summary,
        _curve_groups,
        _paint_curves,
    ),
    "trade-off": Kind(
        "Trade-off of two features, a path per method through the strengths",
        "a method with results at two strengths or more on a dataset with two probed features beside bits",
        _summary,
        _trade_off_groups,
        _paint_trade_off,
    ),
    "learning": Kind(
        "Learning order: accuracy of every feature against the training step",
        "records with a trace; run cells with `bench run ... --trace`",
        lambda study: study.traces,
        _learning_groups,
        _paint_learning,
        by_probe=False,
    ),
    "temperature": Kind(
        "Uniformity, tolerance and accuracy against the temperature",
        "records with metrics of one method at two temperatures or more; run one, such as `bench run temperature-quick`",
        lambda study: study.measured,
        _temperature_groups,
        _paint_temperature,
    ),
    "align-uniform": Kind(
        "Alignment against uniformity, coloured by accuracy",
        "records with alignment and uniformity of two methods or more (probe.metric_samples above 0)",
        lambda study: study.measured,
        _align_groups,
        _paint_align_uniform,
    ),
}
