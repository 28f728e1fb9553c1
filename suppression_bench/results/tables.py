"""The tables of a study: accuracies of the probes, metrics of the features, and numbers of suppression."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas

from generators.dataset import UserError
from suppression_bench.cell import Cell
from suppression_bench.results import published, renderers, significance, suppression
from suppression_bench.results.frame import (
    CEILING,
    FLOOR,
    PROBES,
    TOPIC,
    Study,
    heading,
    strength_order,
    summarise,
    title,
)
from suppression_bench.results.published import Published, Subject
from suppression_bench.results.renderers import BELOW, NOT_CONVERGED, Entry, Row, Table, Tables
from suppression_bench.results.suppression import Curves, number_of

PUBLISHED = "published"
FEWEST_FLOORS = 3  # initialisations that the protocol asks of a floor
DIGITS = {"knn": 1, "tolerance": 3, "sensitivity": 3, "agreement": 3}  # of the metrics, in the order of their columns
DIGITS |= {"alignment": 3, "uniformity": 2, "effective_rank": 1}
PAPER_ONLY = "sensitivity"  # shown where it stands beside a published value
HEADS = {"knn": "k-NN %", "effective_rank": "effective rank", "agreement": "neighbours that agree"}


# ---- accuracies ----

Column = tuple[str, str, Any]  # feature group or "", feature, strength: sorted, groups stand behind single features


@dataclass
class Accuracy:
    """One method's accuracy at one strength: of each seed, what is missing of it, and what the papers have."""

    values: tuple[float, ...] = ()
    mean: float | None = None
    deviation: float = 0.0
    below: bool = False
    converged: bool = True
    lost: dict[str, list[int]] = field(default_factory=dict)  # status -> seeds
    published: list[Published] = field(default_factory=list)
    best: bool = False

    def entry(self, paper: bool, sources: list[str]) -> Entry:
        """Mean, SD and n in percent, with the published values in brackets if `paper`."""
        value = "" if self.mean is None else f"{100 * self.mean:.1f}"
        if len(self.values) > 1:
            value += f" ± {100 * self.deviation:.1f} (n={len(self.values)})"
        marks = BELOW * self.below + NOT_CONVERGED * (not self.converged)
        ours = None if self.mean is None else 100 * self.mean
        lost = "; ".join(
            f"{status} ({'seeds' if len(set(seeds)) > 1 else 'seed'} {', '.join(map(str, sorted(set(seeds))))})"
            for status, seeds in sorted(self.lost.items())
        )
        return Entry(value, marks, _brackets(ours, self.published, sources, 1) if paper else "", lost, self.best)


@dataclass
class Grid:
    """The accuracies of one dataset: by row - title, probe and layer - and column.

    tests: how many comparisons of a best with a second were possible.
    missing: floor or ceiling that is not there -> how to get it.
    """

    topic: tuple[str, str, str, str]
    rows: dict[tuple[str, str, str], dict[Column, Accuracy]]
    columns: list[Column] = field(default_factory=list)
    tests: int = 0
    missing: dict[str, str] = field(default_factory=dict)

    @property
    def accuracies(self) -> list[Accuracy]:
        return [accuracy for accuracies in self.rows.values() for accuracy in accuracies.values()]

    @property
    def published(self) -> list[Published]:
        return [number for accuracy in self.accuracies for number in accuracy.published]

    def table(self, paper: bool, sources: list[str]) -> Table:
        """The table, published values beside ours if `paper`, else in rows of their own."""
        rows = {
            key: {column: accuracy.entry(paper, sources) for column, accuracy in accuracies.items()}
            for key, accuracies in self.rows.items()
        }
        kinds = {key: {FLOOR: "floor", CEILING: "ceiling"}.get(key[0].partition(" ")[0], "") for key in rows}
        for (name, probe, _), accuracies in self.rows.items() if not paper else ():
            for column, accuracy in accuracies.items():
                for number in accuracy.published:
                    key = name, f"{probe}, {PUBLISHED}" if number.probe else PUBLISHED, number.source
                    rows.setdefault(key, {})[column] = Entry(f"{number.value:.1f}")
                    kinds[key] = f"{kinds[name, probe, _]} {PUBLISHED}".strip()
        by = self.topic[3]
        return Table(
            f"{heading(self.topic)}: linear-probe top-1 % on the test split" + (f", by {by}" if by else ""),
            ("method", "probe", "layer"),
            [f"{feature} @{strength}" if by else feature for _, feature, strength in self.columns],
            [
                Row(key, [rows[key].get(column, Entry()) for column in self.columns], kinds[key])
                for key in sorted(rows, key=lambda key: row_order(*key))
            ],
            self.tests,
        )


def accuracy_tables(study: Study, probe: str = "all", paper: bool = False) -> Tables:
    """One table per dataset: rows by method and probe, columns by feature and strength; ceiling and floor last.

    Values are top-1 percent, mean and SD over n seeds where n > 1; failed, diverged and missing cells say so where
    their numbers would stand. The best of each column is tested against the second.

    Arguments:
        study: of any records.
        probe: lbfgs, online, sgd or all.
        paper: published values beside ours, with the difference, in place of rows of their own.

    Raises:
        UserError: a probe that no cell has.
    """
    grids = _grids(study, probe)
    sources = _sources([number for grid in grids for number in grid.published])
    tables = [grid.table(paper, sources) for grid in grids]
    return Tables(tables, _accuracy_notes(study.long, grids, tables, paper))


def _grids(study: Study, probe: str) -> list[Grid]:
    summary = summarise(_by_probe(study.long, probe))
    grids = []
    for topic, part in study.long.groupby(TOPIC, dropna=False, sort=False):
        grid = Grid(topic, {})
        for row in summary[(summary[TOPIC] == list(topic)).all(axis=1)].itertuples():
            accuracies = grid.rows.setdefault((title(row.method, row.setting), row.probe, row.layer), {})
            accuracies[row.group, row.feature, row.strength] = Accuracy(
                row.values, row.mean, row.deviation, row.below, row.converged
            )
        grid.columns = list({column: None for accuracies in grid.rows.values() for column in accuracies})
        _note_lost(grid, part)
        grid.columns.sort(key=lambda column: (*column[:2], strength_order(column[2])))
        grid.rows = dict(sorted(grid.rows.items(), key=lambda item: row_order(*item[0])))
        grid.missing = _missing(grid, part, probe, [study.cells[key] for key in part["id"]])
        _note_published(grid)
        grid.tests = _mark_best(grid)
        grids.append(grid)
    return grids


def _by_probe(frame: pandas.DataFrame, probe: str) -> pandas.DataFrame:
    """The rows of a probe; cells without numbers belong to every probe: choosing one must not hide them."""
    if probe == "all":
        return frame
    present = [kind for kind in PROBES if kind in set(frame["probe"])]
    if probe not in present:
        raise UserError(f"no cell has results by the probe {probe!r}; there are: {', '.join(present) or 'none'}")
    return frame[(frame["probe"] == probe) | frame["accuracy"].isna()]


def row_order(name: str, probe: str, layer: str) -> tuple:
    """Methods by name, ceiling and floor last; of a method the probes in their order, published values below ours."""
    method, kind = name.partition(" ")[0], probe.partition(",")[0]
    kinds = ["", *PROBES, PUBLISHED]
    return _is_reference(name), method, name, kinds.index(kind) if kind in kinds else 0, kind != probe, layer


def _is_reference(name: str) -> int:
    # 0 for a method, 1 for the ceiling, 2 for the floor.
    return {FLOOR: 2, CEILING: 1}.get(name.partition(" ")[0], 0)


def _note_lost(grid: Grid, part: pandas.DataFrame) -> None:
    # A cell without numbers is named where its numbers would stand, in every row of its method.
    for row in part[part["accuracy"].isna()].itertuples():
        name = title(row.method, row.setting)
        rows = [accuracies for key, accuracies in grid.rows.items() if key[0] == name]
        columns = [column for column in grid.columns if column[2] == row.strength]
        if not columns:
            columns = [("", "status", row.strength)]
            grid.columns += columns
        for accuracies in rows or [grid.rows.setdefault((name, "", ""), {})]:
            for column in columns:
                accuracies.setdefault(column, Accuracy()).lost.setdefault(row.status, []).append(row.seed)


def _missing(grid: Grid, part: pandas.DataFrame, probe: str, cells: list[Cell]) -> dict[str, str]:
    methods = {name.partition(" ")[0] for name, _, _ in grid.rows}
    recipes = sorted(set(part["recipe"]))
    settings = f" --recipe {recipes[0]}" if len(recipes) == 1 else ""
    key = grid.topic[3]
    if key and not any(key in cell.dataset.options for cell in cells):  # it is chosen when data is read
        settings += f" --set {key}=N"
    missing = {}
    for reference, method in (("floor", FLOOR), ("ceiling", CEILING)):
        if method not in set(part["method"]):
            seeds = f" --seeds {FEWEST_FLOORS}" if method == FLOOR else ""
            command = f"bench run --data DIR --method {method}{settings}{seeds} --out OUT"
            missing[reference] = (
                f"no {method} encoder was run; `{command}` adds one (DIR: the generated data; with the run's own --set)."
            )
        elif method not in methods:
            missing[reference] = f"the {method} encoder has no {probe} probe."
    floors = {kind for name, kind, _ in grid.rows if name.partition(" ")[0] == FLOOR}
    without = [kind for kind in PROBES if kind in {kind for _, kind, _ in grid.rows} - floors]
    if floors and without:
        kinds = " and ".join(without)
        missing[f"floor by {kinds}"] = f"the untrained encoder has no such probe; {BELOW} is not given there."
    return missing


def _note_published(grid: Grid) -> None:
    dataset, pictures, variant, _ = grid.topic
    for (name, probe, layer), accuracies in grid.rows.items():
        if layer not in ("encoder", ""):
            continue
        method, _, setting = name.partition(" ")
        for column in grid.columns:
            _, feature, strength = column
            subject = Subject(dataset, pictures, variant, method, setting, probe, feature, strength)
            if numbers := published.numbers_of(subject):
                accuracies.setdefault(column, Accuracy()).published = numbers


def _mark_best(grid: Grid) -> int:
    # Of each probe and layer, one test a column; Holm's correction counts them all. A method whose seeds are not all
    # there is in no test: the ones that are lost may be the bad ones.
    tests = 0
    for kind in dict.fromkeys(key[1:] for key in grid.rows):
        rows = [row for key, row in grid.rows.items() if key[1:] == kind and not _is_reference(key[0])]
        tested = []
        for column in grid.columns:
            accuracies = [row[column] for row in rows if column in row and row[column].mean is not None]
            best = sorted(accuracies, key=lambda accuracy: -(accuracy.mean or 0.0))[:2]
            if len(best) == 2 and not any(accuracy.lost for accuracy in best):
                p = significance.welch(best[0].values, best[1].values)
                tested += [(p, best[0])] if p is not None else []
        kept = significance.holm([p for p, _ in tested])
        for (_, accuracy), is_best in zip(tested, kept, strict=True):
            accuracy.best = is_best
        tests += len(tested)
    return tests


def _accuracy_notes(frame: pandas.DataFrame, grids: list[Grid], tables: list[Table], paper: bool) -> list[str]:
    # The footnotes that the tables need: what the marks mean, and where the numbers come from.
    accuracies = [accuracy for grid in grids for accuracy in grid.accuracies]
    titles = {name for grid in grids for name, _, _ in grid.rows}
    groups = sorted({group for grid in grids for group, _, _ in grid.columns} - {""})
    notes = [f"{group}: mean over the {group}' own probes." for group in groups]
    if any(accuracy.below for accuracy in accuracies):
        notes.append(f"{BELOW} below the mean of the untrained encoders at the same strength.")
    if not all(accuracy.converged for accuracy in accuracies):
        notes.append(f"{NOT_CONVERGED} the probe did not converge.")
    if any(table.tests for table in tables):
        notes.append(
            "Bold: the best of its column by one probe and layer, ceiling and floor left out, where it is ahead of the "
            "second by Welch's t-test over seeds (two-sided, p < .05, Holm over the columns)"
            + ("." if any(accuracy.best for accuracy in accuracies) else "; none is.")
        )
    numbers = [number for grid in grids for number in grid.published]
    if paper:
        notes += _beside_notes(numbers, ", in points") or ["No published number is known for any of these cells."]
    notes += published.notes(numbers)
    absent = frame[frame["absent"].astype(object).fillna("") != ""]
    for feature, classes in sorted(set(zip(absent["feature"], absent["absent"], strict=True))):
        notes.append(f"{feature}: classes {classes} are absent from the probe's train split.")
    collapsed = sorted(set(frame[frame["collapsed"].eq(True)]["method"]))
    notes += [f"{name}: collapsed, its features are constant in a cell." for name in collapsed]
    if any("planes=" in name for name in titles):
        notes.append(
            "vae planes: once counts each constant bit as one binary variable (default), every-pixel counts all its copies."
        )
    if any(re.search(r"#[0-9a-f]{6}$", name) for name in titles):
        notes.append("#: cells of one name that differ in other settings; `bench report` shows them.")
    for grid in grids:
        where = f" ({heading(grid.topic)})" if len(grids) > 1 else ""
        notes += [f"No {reference}{where}: {why}" for reference, why in grid.missing.items()]
    return [*notes, *_provenance(frame)]


def _provenance(frame: pandas.DataFrame) -> list[str]:
    pairs = set(zip(frame["torch"], frame["device"], strict=True))
    versions = sorted(f"torch {torch} on {device}" for torch, device in pairs if isinstance(torch, str))
    digests = sorted({digest[:12] for digest in frame["digest"].dropna()})
    seeds = ", ".join(map(str, sorted(set(frame["seed"]))))
    return [
        "lbfgs: logistic regression on standardised features, L2 chosen on held-out train samples. online: a dense layer "
        "trained beside the method. sgd: plain SGD on raw features. Last training step, nothing chosen on test data.",
        "; ".join([f"Seeds {seeds}", f"data {', '.join(digests) or 'not there'}", *versions]) + ".",
    ]


# ---- published values ----


def _sources(numbers: Sequence[Published]) -> list[str]:
    # The papers' tables that numbers come from, in the order in which they are numbered.
    return sorted({number.source for number in numbers})


def _brackets(ours: float | None, numbers: list[Published], sources: list[str], digits: int) -> str:
    # `(18.7, +0.5)`: published value and ours minus it; `(18.7)` where there is no number of ours.
    texts = []
    for number in numbers:
        mark = f"[{sources.index(number.source) + 1}] " if len(sources) > 1 else ""
        difference = "" if ours is None else f", {ours - number.value:+.{digits}f}"
        texts.append(f"{mark}{number.value:.{digits}f}{difference}")
    return f"({'; '.join(texts)})" if texts else ""


def _beside_notes(numbers: list[Published], unit: str) -> list[str]:
    sources = _sources(numbers)
    if not sources:
        return []
    numbered = [f"[{position}] {source}" for position, source in enumerate(sources, 1)] if len(sources) > 1 else sources
    return [f"In brackets: the published value, and ours minus it{unit} ({'; '.join(numbered)})."]


# ---- metrics ----


def metrics_tables(study: Study, paper: bool = False) -> Tables:
    """One table per dataset and strength: rows by method and layer, columns by metric and feature, means over seeds.

    Arguments:
        study: of any records.
        paper: with the published value and the difference beside ours.
    """
    metrics = study.metrics
    if metrics.empty:
        return Tables([], _absent_notes(study.long), NO_METRICS)
    names = [*TOPIC[:3], "method", "setting", "feature", "strength", "metric"]
    subjects = [
        Subject(probe="", **dict(zip(names, values, strict=True)))
        for values in metrics[names].itertuples(index=False, name=None)
    ]
    numbers = {subject: published.numbers_of(subject) if paper else [] for subject in set(subjects)}
    sources = _sources([number for beside in numbers.values() for number in beside])
    metrics = metrics.assign(subject=subjects)
    metrics = metrics[[row.metric != PAPER_ONLY or bool(numbers[row.subject]) for row in metrics.itertuples()]]
    groups = list(metrics.groupby([*TOPIC, "strength"], dropna=False, sort=False))
    groups.sort(key=lambda group: (group[0][:-1], strength_order(group[0][-1])))
    tables = [_metrics_table(key, part, numbers, sources) for key, part in groups]
    everything = list({number: None for beside in numbers.values() for number in beside})
    notes = [METRICS_NOTE, *_beside_notes(everything, ""), *published.notes(everything)]
    if paper and not everything:
        notes.append("No published metric is known for any of these cells.")
    return Tables(tables, [*notes, *_absent_notes(study.long)])


def _metrics_table(key: tuple, part: pandas.DataFrame, numbers: dict, sources: list[str]) -> Table:
    *topic, strength = key
    order = list(DIGITS)
    columns = sorted(
        set(zip(part["metric"], part["group"], part["feature"], strict=True)),
        key=lambda column: (order.index(column[0]), *column[1:]),
    )
    entries: dict[tuple, dict[tuple, Entry]] = {}
    keys = ["method", "setting", "layer", "metric", "group", "feature", "subject"]
    for (method, setting, layer, metric, group, feature, subject), values in part.groupby(keys, sort=False)["value"]:
        digits = DIGITS[metric]
        text = f"{values.mean():.{digits}f}"
        if len(values) > 1:
            text += f" ± {values.std(ddof=1):.{digits}f} (n={len(values)})"
        beside = _brackets(values.mean(), numbers[subject], sources, digits)
        entries.setdefault((title(method, setting), layer), {})[metric, group, feature] = Entry(text, beside=beside)
    by = f", {topic[3]} {strength}" if topic[3] else ""
    return Table(
        f"{heading(topic)}{by}: the features on the test split",
        ("method", "layer"),
        [f"{HEADS.get(metric, metric)} {feature}".strip() for metric, _, feature in columns],
        [
            Row((name, layer), [entries[name, layer].get(column, Entry()) for column in columns])
            for name, layer in sorted(entries, key=lambda names: row_order(names[0], "", names[1]))
        ],
    )


METRICS_NOTE = (
    "Features of length 1. k-NN: 200 train neighbours by cosine, fewer where there are fewer. docs/protocol.md."
)
NO_METRICS = (
    "No metrics in these records (cells failed, probe.metric_samples was 0, or they are older than the metrics)."
)


def _absent_notes(frame: pandas.DataFrame) -> list[str]:
    # A sentence for every cell that has no numbers: failed, diverged or missing, by name.
    notes = []
    for row in frame[frame["accuracy"].isna()].itertuples():
        strength = f"{row.strength_name}={row.strength}" if row.strength_name else ""
        name = " ".join(filter(None, [row.method, row.setting, strength, f"seed={row.seed}"]))
        notes.append(f"Not in these numbers: {name}, {row.status}.")
    return sorted(notes)


# ---- suppression ----


def suppression_tables(study: Study, probe: str = "all") -> Tables:
    """One table per dataset: rows by method, probe and feature; retention by strength, index, half point and score.

    Raises:
        UserError: a probe that no cell has.
    """
    frame = _by_probe(study.long, probe)
    curves = {key: curve for key, curve in suppression.curves(frame).items() if curve.strengths()}
    topics: dict[tuple, list[tuple[str, str, Curves]]] = {}
    for (*topic, name, _, kind), curve in curves.items():
        topics.setdefault(tuple(topic), []).append((name, kind, curve))
    tables = []
    for topic, entries in topics.items():
        strengths = sorted({s for *_, curve in entries for s in curve.strengths()}, key=strength_order)
        entries.sort(key=lambda entry: row_order(*entry[:2], ""))
        tables.append(
            Table(
                f"{heading(topic)}: what is kept, by {topic[3]}",
                ("method", "probe", "feature", "ceiling"),
                [*(f"R @{strength}" for strength in strengths), "SI", "s50", "score", "n"],
                [row for name, kind, curve in entries for row in _suppression_rows(name, kind, curve, strengths)],
            )
        )
    notes = [*(LEGEND if curves else []), *_floor_notes(curves), *_absent_notes(frame)]
    return Tables(tables, notes, NOTHING)


def _suppression_rows(name: str, probe: str, curve: Curves, strengths: list) -> list[Row]:
    rows = []
    for position, feature in enumerate(sorted(curve.values, key=lambda feature: (feature in curve.groups, feature))):
        kept = [Entry()] * len(strengths)
        for column, strength in enumerate(strengths):
            if strength in curve.values[feature]:
                text = _number(curve.retention(feature, strength), curve.retention_interval(feature, strength))
                kept[column] = Entry(text, BELOW * ((feature, strength) in curve.below))
        counts = [len(seeds) for seeds in curve.values[feature].values()]
        texts = [
            _number(curve.index(feature), curve.index_interval(feature)),
            _half(curve, feature),
            _number(curve.score(), curve.score_interval()) if position == 0 else "",
            str(counts[0]) if len(set(counts)) == 1 else f"{min(counts)}-{max(counts)}",
        ]
        rows.append(Row((name, probe, feature, curve.source(feature)), [*kept, *map(Entry, texts)]))
    return rows


def _number(value: float | None, interval: tuple | None) -> str:
    if value is None:
        return "undefined"
    # + 0.0: no -0.00
    low_high = [f"{round(end, 2) + 0.0:.2f}" for end in interval or ()]
    return f"{round(value, 2) + 0.0:.2f}" + (f" [{', '.join(low_high)}]" if interval else "")


def _half(curve: Curves, feature: str) -> str:
    half, interval = curve.half(feature), curve.half_interval(feature)
    if half is None:
        return "undefined"
    strengths = curve.strengths(feature)

    def text(value: float) -> str:
        if math.isinf(value):
            return f"> {strengths[-1]}"
        # A curve that begins at its first strength may have fallen anywhere before it.
        begins = value == number_of(strengths[0]) and curve.source(feature) != "own"
        return f"<= {strengths[0]}" if begins else f"{value:.1f}"

    return text(half) + (f" [{', '.join(map(text, interval))}]" if interval else "")


def _floor_notes(curves: dict[tuple, Curves]) -> list[str]:
    # The floors that are missing or thin.
    none, few, marked = set(), set(), False
    for (dataset, pictures, _, key, name, _, probe), curve in curves.items():
        for feature in curve.values if _is_reference(name) < 2 else ():
            for strength in curve.strengths(feature):
                count = curve.floors.get((feature, strength), 0)
                marked |= (feature, strength) in curve.below
                where = f"{heading((dataset, pictures, '', key))} {key}={strength} by {probe}"
                if count == 0:
                    none.add(where)
                elif count < FEWEST_FLOORS:
                    few.add(f"{where} (n={count})")
    notes = []
    if marked:
        notes.append(
            f"{BELOW} below untrained: the mean lies below that of the untrained encoders at the same strength."
        )
    if none:
        notes.append(f"No untrained encoder, so nothing can be marked {BELOW}: {', '.join(sorted(none))}.")
    if few:
        listed = ", ".join(sorted(few))
        notes.append(f"Fewer than {FEWEST_FLOORS} untrained encoders, so {BELOW} says less: {listed}.")
    return notes


NOTHING = "Nothing to summarise: no cell has numbers at a strength of a competitor above 0."
LEGEND = [
    "R: retention, (accuracy - chance) / (ceiling - chance). The ceiling is 1 for the constant bits; for another feature its "
    "own accuracy without competitor (strength 0), or where no such cell is there, the supervised encoder's at the same "
    "strength.",
    "SI: suppression index, 1 - mean over the strengths above 0 of R cut to [0, 1]. s50: where R first falls to one half. "
    "score: mean over those strengths of the worst feature's R. Only rows with values at the same strengths can be compared.",
    "In brackets: 95 % interval over n seeds, the bootstrap standard error times Student's t (s50: the strengths where the "
    "interval of R holds one half). With n=1 there is none, nor where the strengths do not all have the same seeds.",
    "undefined: no ceiling (a supervised encoder is none for itself, and two that differ are none), or one that clears chance by "
    "less than .05.",
]


# ---- the long table ----


def long_text(study: Study, form: str, probe: str = "all", paper: bool = False) -> str:
    """One line per cell, layer, probe and feature as csv or json; with the published values if `paper`.

    Raises:
        UserError: a probe that no cell has, or another format.
    """
    if form not in ("csv", "json"):
        raise UserError(f"the long table is csv or json, not {form}")
    frame = _by_probe(study.long, probe)
    if paper:
        names = (*TOPIC[:3], "method", "setting", "probe", "feature", "strength", "layer")
        lists = [
            published.numbers_of(Subject(*subject)) if layer == "encoder" else []
            for *subject, layer in zip(*(frame[name] for name in names), strict=True)
        ]
        if form == "json":
            values = [[{"source": number.source, "percent": number.value} for number in numbers] for numbers in lists]
        else:
            values = ["; ".join(f"{number.value} ({number.source})" for number in numbers) for numbers in lists]
        frame = frame.assign(published=values)
    return frame.to_json(orient="records", indent=1) if form == "json" else renderers.csv_of(frame)
