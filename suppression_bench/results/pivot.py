"""The table before it is written: rows by method and probe, columns by feature and strength, a cell at each crossing."""

import numbers
from dataclasses import dataclass, field

import pandas

from suppression_bench.results import significance
from suppression_bench.results.frame import BITS, GROUP, KINDS, summarise
from suppression_bench.results.published import Place, Published, find

BELOW = "▼"
NOT_CONVERGED = "†"
FLOOR, CEILING = "untrained", "supervised"
PUBLISHED = "published"


@dataclass
class Cell:
    """One method's number at one place: shares right over seeds, what is missing of it, what the papers have."""

    values: tuple[float, ...] = ()
    mean: float | None = None
    deviation: float | None = None
    below: bool = False
    converged: bool = True
    absent: dict[str, list[int]] = field(default_factory=dict)  # status -> seeds
    best: bool = False
    published: list[Published] = field(default_factory=list)

    def value(self) -> str:
        """Mean, SD and n in percent; "" where there is no number."""
        if self.mean is None:
            return ""
        spread = f" ± {100 * self.deviation:.1f} (n={len(self.values)})" if len(self.values) > 1 else ""
        return f"{100 * self.mean:.1f}{spread}"

    def marks(self) -> str:
        return (BELOW if self.below else "") + ("" if self.converged else NOT_CONVERGED)

    def beside(self, sources: list[str]) -> str:
        """The published values and the differences, numbered where there is more than one source."""
        return brackets(None if self.mean is None else 100 * self.mean, self.published, sources, 1)

    def lost(self) -> str:
        """Seeds without a number, by status: "failed (seed 2)"."""
        return "; ".join(
            f"{status} ({'seeds' if len(set(seeds)) > 1 else 'seed'} {', '.join(map(str, sorted(set(seeds))))})"
            for status, seeds in sorted(self.absent.items())
        )


@dataclass
class Row:
    title: str
    probe: str
    layer: str  # or, in a row of published values, their source
    cells: dict[tuple, Cell]


@dataclass
class Table:
    """What one dataset's table shows."""

    heading: str
    strength_name: str
    columns: list[tuple]  # (feature, strength)
    rows: list[Row]
    tests: int = 0  # how many comparisons of a best with a second were possible
    missing: dict[str, str] = field(default_factory=dict)  # floor or ceiling that is not there -> how to get it

    def head(self, column: tuple) -> str:
        feature, strength = column
        return f"{feature} @{strength}" if self.strength_name else feature

    def numbers(self) -> list[Published]:
        """Every published number in it."""
        return [number for row in self.rows for cell in row.cells.values() for number in cell.published]


def brackets(ours: float | None, numbers: list[Published], sources: list[str], digits: int) -> str:
    """`(18.7, +0.5)`: published value and ours minus it; `(18.7)` where there is no number of ours."""
    texts = []
    for number in numbers:
        mark = f"[{sources.index(number.source) + 1}] " if len(sources) > 1 else ""
        difference = "" if ours is None else f", {ours - number.value:+.{digits}f}"
        texts.append(f"{mark}{number.value:.{digits}f}{difference}")
    return f"({'; '.join(texts)})" if texts else ""


def build(frame: pandas.DataFrame, probe: str = "all") -> list[Table]:
    """One table per dataset, ceiling and floor last, the best of each column tested against the second.

    Arguments:
        frame: from `frame.long_table`.
        probe: lbfgs, online, sgd or all.
    """
    found = summarise(frame)
    if probe != "all":
        found = found[found["probe"] == probe]
    tables = []
    for group, part in frame.groupby(GROUP, dropna=False, sort=False):
        dataset, pictures, variant, name = group
        rows: dict[tuple, Row] = {}
        for line in found[(found[GROUP] == list(group)).all(axis=1)].itertuples():
            key = _title(line.method, line.setting), line.probe, line.layer
            row = rows.setdefault(key, Row(*key, {}))
            row.cells[line.feature, line.strength] = Cell(
                line.values, line.mean, line.deviation, line.below, line.converged
            )
        columns = sorted({column for row in rows.values() for column in row.cells}, key=_column_order)
        _mark_absent(part, rows, columns)
        ordered = sorted(rows.values(), key=lambda row: row_order((row.title, row.probe, row.layer)))
        over = f" over {pictures}" * bool(pictures) + f" ({variant})" * bool(variant)
        heading = f"{dataset}{over}: linear-probe top-1 % on the test split" + (f", by {name}" if name else "")
        table = Table(heading, name, columns, ordered, missing=_missing(part, rows, probe))
        _add_published(table, (dataset, pictures, variant))
        table.tests = _mark_best(table)
        tables.append(table)
    return tables


def _title(method: str, setting) -> str:
    return f"{method} {setting if isinstance(setting, str) else ''}".strip()


def strength_order(strength):
    """Numbers by size, texts behind them."""
    return (0, float(strength)) if isinstance(strength, numbers.Real) else (1, str(strength))  # pandas' own ints too


def _column_order(key):
    feature, strength = key
    return (feature == BITS, feature, strength_order(strength))


def row_order(key):
    """Methods by name, ceiling and floor last; a published row below ours."""
    title, kind, layer = key
    own = kind.partition(",")[0]
    place = KINDS.index(own) if own in KINDS else len(KINDS) if own == PUBLISHED else -1
    return (last(title), title.split(" ")[0], title, place, own != kind, layer)


def last(title: str) -> int:
    """0 for a method, 1 for the ceiling, 2 for the floor."""
    return {FLOOR: 2, CEILING: 1}.get(title.split(" ")[0], 0)


def _mark_absent(part: pandas.DataFrame, rows: dict[tuple, Row], columns: list[tuple]) -> None:
    # A cell without numbers is named where its numbers would stand, in every row of its method.
    for line in part[part["accuracy"].isna()].itertuples():
        title = _title(line.method, line.setting)
        own = [row for row in rows.values() if row.title == title]
        if not own:
            own = [rows.setdefault((title, "", ""), Row(title, "", "", {}))]
        places = [column for column in columns if column[1] == line.strength]
        if not places:
            places = [("status", line.strength)]
            columns += places
        for row in own:
            for column in places:
                row.cells.setdefault(column, Cell()).absent.setdefault(line.status, []).append(line.seed)


def _missing(part: pandas.DataFrame, rows: dict[tuple, Row], probe: str) -> dict[str, str]:
    shown = {row.title.split(" ")[0] for row in rows.values()}
    there = set(part["method"])
    recipes = sorted(set(part["recipe"].dropna()))
    more = f" --recipe {recipes[0]}" if len(recipes) == 1 else ""
    # The number of bits is chosen when data is read; every other strength is in the data.
    more += " --set bits=N" if set(part["strength_name"]) == {"bits"} else ""
    found = {}
    for what, method in (("floor", FLOOR), ("ceiling", CEILING)):
        if method not in there:
            seeds = " --seeds 3" if method == FLOOR else ""
            command = f"bench run --data DIR --method {method}{more}{seeds} --out OUT"
            found[what] = (
                f"no {method} encoder was run; `{command}` adds one (DIR: the generated data; with the run's own --set)."
            )
        elif method not in shown:
            found[what] = f"the {method} encoder has no {probe} probe."
    floors = {row.probe for row in rows.values() if row.title.split(" ")[0] == FLOOR}
    without = [kind for kind in KINDS if kind in {row.probe for row in rows.values()} - floors]
    if floors and without:
        found[f"floor by {' and '.join(without)}"] = (
            f"the untrained encoder has no such probe; {BELOW} is not given there."
        )
    return found


def _add_published(table: Table, where: tuple[str, str, str]) -> None:
    for row in table.rows:
        if row.layer in ("encoder", ""):
            method, _, setting = row.title.partition(" ")
            for feature, strength in table.columns:
                place = Place(*where, method, setting, row.probe, feature, strength)
                numbers = find(place)
                if numbers:
                    row.cells.setdefault((feature, strength), Cell()).published = numbers


def with_published_rows(table: Table) -> Table:
    """The table with the papers' values in rows of their own: below our row by the same probe, or below the method's last."""
    found: dict[tuple, Row] = {}
    for row in table.rows:
        for column, cell in row.cells.items():
            for number in cell.published:
                kind = f"{row.probe}, {PUBLISHED}" if number.probe else PUBLISHED
                key = row.title, kind, number.source
                found.setdefault(key, Row(*key, {})).cells[column] = Cell(published=[number])
    rows = sorted([*table.rows, *found.values()], key=lambda row: row_order((row.title, row.probe, row.layer)))
    return Table(table.heading, table.strength_name, table.columns, rows, table.tests, table.missing)


def _mark_best(table: Table) -> int:
    # Of each probe and layer, one test a column; Holm's correction counts them all. A method whose seeds are not all there
    # is in no test: the ones that are lost may be the bad ones.
    tests = 0
    for place in dict.fromkeys((row.probe, row.layer) for row in table.rows):
        methods = [row for row in table.rows if (row.probe, row.layer) == place and not last(row.title)]
        found = []
        for column in table.columns:
            cells = [row.cells[column] for row in methods if column in row.cells]
            best = sorted((cell for cell in cells if cell.mean is not None), key=lambda cell: -cell.mean)[:2]
            if len(best) == 2 and not any(cell.absent for cell in best):
                found.append((significance.welch(best[0].values, best[1].values), best[0]))
        tested = [(p, cell) for p, cell in found if p is not None]
        for (_, cell), kept in zip(tested, significance.holm([p for p, _ in tested]), strict=True):
            cell.best = kept
        tests += len(tested)
    return tests
