"""What the temperature does: uniformity, tolerance, k-NN and probe accuracy against it."""

import re
from pathlib import Path

import pandas

from generators.dataset import UserError
from suppression_bench.results import style
from suppression_bench.results.figures import chosen_probe
from suppression_bench.results.frame import BITS, GROUP
from suppression_bench.results.measured import over_seeds

NEEDS = "records with metrics of one method at two temperatures or more; run one, such as `bench run temperature-quick`"
NAMES = {"uniformity": "uniformity", "tolerance": "tolerance", "knn": "k-NN accuracy", "accuracy": "test accuracy"}


def can_draw(found: pandas.DataFrame) -> bool:
    """Whether a method has metrics at two temperatures, all else equal."""
    return any(len(lines) for _, lines, _ in _groups(found))


def temperature(found: pandas.DataFrame, path: Path, probe: str | None = None) -> None:
    """A row of panels per dataset and strength: uniformity, then tolerance, k-NN and probe accuracy of every feature.

    A line per method and layer (the head's is dashed and hollow), the untrained encoder as a level. Reference: Wang & Liu
    (2021), figure 5 and table 1.

    Arguments:
        found: from `measured.measured`.
        path: a .png or .svg file.
        probe: lbfgs, online or sgd (default: the first of these that is there).

    Raises:
        UserError: nothing to draw, or no results by the probe.
    """
    if not can_draw(found):
        raise UserError(f"bench plot: no temperature; it needs {NEEDS}")
    probe = chosen_probe(found, probe)
    groups = [group for group in _groups(found[found["probe"] == probe]) if len(group[1])]
    if not groups:
        raise UserError(f"bench plot: no temperature by the probe {probe!r}; it needs {NEEDS}")
    panels = [_panels(lines) for _, lines, _ in groups]
    titles = sorted({title for _, lines, _ in groups for title in lines["title"]})
    with style.canvas(path, len(groups), max(map(len, panels)), (3.3, 3.1)) as (figure, axes):
        for row, (key, lines, floors), own in zip(axes, groups, panels, strict=True):
            for axis, (name, feature) in zip(row, own, strict=False):
                _panel(axis, *(part[part["feature"] == feature] for part in (lines, floors)), name, titles)
                axis.set_ylabel(NAMES[name] + (f", {probe} probe" if name == "accuracy" else ""))
                about = style.heading(key[:-1], key[-1], [other for other, _, _ in groups])
                axis.set_title(about if name == "uniformity" else f"{feature} ({about})", fontsize=style.SMALL)
            for axis in row[len(own) :]:
                axis.set_visible(False)
        several = max(lines["n"].max() for _, lines, _ in groups) > 1
        style.legend(figure, style.note("lines", "bands", several))


def _groups(found: pandas.DataFrame) -> list[tuple]:
    # (what, lines of methods at two temperatures or more, the untrained encoders' levels), values over seeds.
    groups = []
    for key, part in over_seeds(found).groupby([*GROUP, "strength"], dropna=False, sort=False):
        part = part.assign(title=[_title(row) for row in part.itertuples()])
        trained = part[part["temperature"].notna() & part["uniformity"].notna()]
        counts = trained.groupby(["title", "layer", "feature", "probe"])["temperature"].transform("nunique")
        floors = part[(part["method"] == "untrained") & (part["layer"] == "encoder")]
        groups.append((key, trained[counts > 1].sort_values("temperature"), floors))
    return groups


def _title(row) -> str:
    # The temperature is the axis: cells that differ in nothing else are one line.
    setting = re.sub(r"(^| )temperature=\S+", "", row.setting).strip()
    return f"{row.method} {setting}".strip()


def _panels(lines: pandas.DataFrame) -> list[tuple[str, str]]:
    features = sorted(set(lines["feature"]), key=lambda name: (name == BITS, name))
    more = [(name, feature) for feature in features for name in ("tolerance", "knn", "accuracy")]
    return [("uniformity", features[0]), *(p for p in more if lines[lines["feature"] == p[1]][p[0]].notna().any())]


def _panel(axis, lines: pandas.DataFrame, floors: pandas.DataFrame, name: str, titles: list[str]) -> None:
    for (title, layer), line in lines.groupby(["title", "layer"], sort=True):
        look, where = style.look(titles.index(title)), ""
        if layer != "encoder":
            look |= {"linestyle": "--", "markerfacecolor": "white"}
            where = f", {layer}"
        axis.plot(line["temperature"], line[name], label=title + where, **look)
        if line["n"].max() > 1:
            spread = style.spread(line, f"{name}_sd")
            low, high = line[name] - spread, line[name] + spread
            axis.fill_between(line["temperature"], low, high, color=look["color"], alpha=0.15, linewidth=0)
    values = floors[name].dropna()
    for dashes, value in zip(("--", ":"), values, strict=False):
        label = "untrained" if len(values) == 1 else None
        axis.axhline(
            value, color=style.GREY, linestyle=dashes, linewidth=1.4, label=label or "untrained (each encoder)"
        )
    ticks = sorted(set(lines["temperature"]))
    axis.set_xscale("log")
    axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.set_xticks([], minor=True)
    axis.set_xlabel("temperature")
