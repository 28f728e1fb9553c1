"""Tables rendered from records: the pivot that people paste, as markdown, csv, latex or json."""

import csv
import io
import re
from collections.abc import Callable
from pathlib import Path

import pandas

from generators.dataset import UserError
from suppression_bench.results import latex, published
from suppression_bench.results.frame import KINDS
from suppression_bench.results.pivot import (
    BELOW,
    NOT_CONVERGED,
    PUBLISHED,
    Cell,
    Row,
    Table,
    build,
    with_published_rows,
)
from suppression_bench.results.pivot import row_order as row_order  # the order of every table, here for its users
from suppression_bench.results.pivot import strength_order as strength_order


def pivot(frame: pandas.DataFrame, probe: str = "all", paper: bool = False) -> list[tuple[str, pandas.DataFrame]]:
    """One table per dataset: a heading, and rows by method and probe against columns by feature and strength.

    Values are top-1 percent, mean and SD over n seeds where n > 1; failed, diverged and missing cells say so in place.

    Arguments:
        frame: from `frame.long_table`.
        probe: lbfgs, online, sgd or all.
        paper: published values beside ours, with the difference, in place of rows of their own.
    """
    tables = [table if paper else with_published_rows(table) for table in build(frame, probe)]
    sources = sources_of(tables)
    return [(table.heading, _texts(table, paper, sources)) for table in tables]


def sources_of(tables: list[Table]) -> list[str]:
    """The papers' tables that numbers come from, in the order in which they are numbered."""
    return sorted({number.source for table in tables for number in table.numbers()})


def _texts(
    table: Table, paper: bool, sources: list[str], form: Callable = str, bold: Callable = str
) -> pandas.DataFrame:
    lines = []
    for row in table.rows:
        cells = {
            form(table.head(column)): text(row, row.cells.get(column, Cell()), paper, sources, form, bold)
            for column in table.columns
        }
        lines.append({"method": form(row.title), "probe": form(row.probe), "layer": form(row.layer), **cells})
    return pandas.DataFrame(lines)


def text(row: Row, cell: Cell, paper: bool, sources: list[str], form: Callable = str, bold: Callable = str) -> str:
    """A cell as text.

    Arguments:
        row: where it stands.
        cell: what it holds.
        paper: with the published values in brackets.
        sources: all sources of the tables, by which they are numbered.
        form: how a format writes plain text.
        bold: how it writes the best.
    """
    if row.probe.endswith(PUBLISHED):
        return form("; ".join(f"{number.value:.1f}" for number in cell.published))
    value = form(cell.value())
    beside = cell.beside(sources) if paper else ""
    words = [bold(value) if cell.best else value, form(cell.marks()), form(beside)]
    return "; ".join(filter(None, [" ".join(filter(None, words)), form(cell.lost())]))


def render(frame: pandas.DataFrame, form: str, probe: str = "all", long: bool = False, paper: bool = False) -> str:
    """The tables as text: markdown, csv, latex (booktabs) or json.

    Raises:
        UserError: a probe that no cell has, or the long form in a format that has none.
    """
    if probe != "all":
        require_probe(frame, probe)
    if long and form not in ("csv", "json"):
        raise UserError(f"the long table is csv or json, not {form}")
    if long or form == "json":
        return _long(frame, form, probe, paper)
    if form == "csv":
        return "\n".join(_csv(table) for _, table in pivot(frame, probe, paper))
    tables = [table if paper else with_published_rows(table) for table in build(frame, probe)]
    sources = sources_of(tables)
    notes = legend(frame, tables, paper)
    if form == "latex":
        texts = [_texts(table, paper, sources, latex.escape, latex.bold) for table in tables]
        return latex.document([table.heading for table in tables], texts, notes)
    parts = []
    for table in tables:
        shown = _texts(table, paper, sources, bold=lambda part: f"**{part}**")
        parts.append(as_markdown(table.heading, shown) + "\n")
    return "\n".join(parts) + "\n" + "".join(f"- {note}\n" for note in notes)


def as_markdown(heading: str, table: pandas.DataFrame) -> str:
    """A table below its heading; what a record holds ends no cell and opens no HTML tag.

    >>> print(as_markdown("one", pandas.DataFrame({"method": ["<b>|</b>"]})))
    **one**
    <BLANKLINE>
    | method      |
    |:------------|
    | \\<b>\\|\\</b> |
    """
    safe = table.rename(columns=_plain).map(_plain)
    return f"**{_plain(heading)}**\n\n{safe.to_markdown(index=False, disable_numparse=True)}"


def _plain(text):
    return re.sub(r"\||<(?=[a-zA-Z/!?])", r"\\\g<0>", text) if isinstance(text, str) else text


def require_probe(frame: pandas.DataFrame, probe: str) -> None:
    """Refuse a probe that no cell has.

    Raises:
        UserError: naming those that are there.
    """
    there = [kind for kind in KINDS if kind in set(frame["probe"])]
    if probe not in there:
        raise UserError(f"no cell has results by the probe {probe!r}; there are: {', '.join(there) or 'none'}")


def legend(frame: pandas.DataFrame, tables: list[Table], paper: bool = False) -> list[str]:
    """The footnotes that the tables need: what the marks mean, and where the numbers come from."""
    cells = [cell for table in tables for row in table.rows for cell in row.cells.values()]
    marks = "".join(cell.marks() for cell in cells)
    notes = ["bits: mean over the bits' own probes."] * any(t.strength_name == "bits" and _has_bits(t) for t in tables)
    if BELOW in marks:
        notes.append(f"{BELOW} below the mean of the untrained encoders at the same strength.")
    if NOT_CONVERGED in marks:
        notes.append(f"{NOT_CONVERGED} the probe did not converge.")
    if any(table.tests for table in tables):
        notes.append(
            "Bold: the best of its column by one probe and layer, ceiling and floor left out, where it is ahead of the second "
            "by Welch's t-test over seeds (two-sided, p < .05, Holm over the columns)"
            + ("." if any(cell.best for cell in cells) else "; none is.")
        )
    notes += _published_notes(tables, paper)
    absent = frame[frame["absent"].astype(object).fillna("") != ""]
    for feature, classes in sorted(set(zip(absent["feature"], absent["absent"], strict=True))):
        notes.append(f"{feature}: classes {classes} are absent from the probe's train split.")
    collapsed = sorted(set(frame[frame["collapsed"].eq(True)]["method"]))
    notes += [f"{name}: collapsed, its features are constant in a cell." for name in collapsed]
    if any("planes=" in row.title for table in tables for row in table.rows):
        notes.append(
            "vae planes: once counts each constant bit as one binary variable (default), every-pixel counts all its copies."
        )
    if any(re.search(r"#[0-9a-f]{6}$", row.title) for table in tables for row in table.rows):
        notes.append("#: cells of one name that differ in other settings; `bench report` shows them.")
    for table in tables:
        where = f" ({table.heading.partition(':')[0]})" if len(tables) > 1 else ""
        notes += [f"No {what}{where}: {why}" for what, why in table.missing.items()]
    return [*notes, *_provenance(frame)]


def _has_bits(table: Table) -> bool:
    return any(feature == "bits" for feature, _ in table.columns)


def _published_notes(tables: list[Table], paper: bool) -> list[str]:
    sources, numbers = sources_of(tables), [number for table in tables for number in table.numbers()]
    if not numbers:
        return ["No published number is known for any of these cells."] if paper else []
    if not paper:
        return published.notes(numbers)
    named = "; ".join(f"[{i}] {source}" for i, source in enumerate(sources, 1)) if len(sources) > 1 else sources[0]
    return [f"In brackets: the published value, and ours minus it, in points ({named}).", *published.notes(numbers)]


def _provenance(frame: pandas.DataFrame) -> list[str]:
    versions = sorted(
        {f"torch {row.torch} on {row.device}" for row in frame.itertuples() if isinstance(row.torch, str)}
    )
    digests = sorted({digest[:12] for digest in frame["digest"].dropna() if digest})
    seeds = ", ".join(map(str, sorted(set(frame["seed"]))))
    return [
        "lbfgs: logistic regression on standardised features, L2 chosen on held-out train samples. online: a dense layer "
        "trained beside the method. sgd: plain SGD on raw features. Last training step, nothing chosen on test data.",
        "; ".join([f"Seeds {seeds}", f"data {', '.join(digests) or 'not there'}", *versions]) + ".",
    ]


def _long(frame: pandas.DataFrame, form: str, probe: str, paper: bool) -> str:
    # Cells without numbers belong to every probe: choosing one must not hide them.
    chosen = frame if probe == "all" else frame[(frame["probe"] == probe) | frame["accuracy"].isna()]
    if paper:
        found = [_places(line) for line in chosen.itertuples()]
        lists = [[{"source": number.source, "percent": number.value} for number in numbers] for numbers in found]
        texts = ["; ".join(f"{number.value} ({number.source})" for number in numbers) for numbers in found]
        chosen = chosen.assign(published=lists if form == "json" else texts)
    return chosen.to_json(orient="records", indent=1) if form == "json" else _csv(chosen)


def _places(line) -> list[published.Published]:
    if line.layer != "encoder":
        return []
    setting = line.setting if isinstance(line.setting, str) else ""
    place = (line.dataset, line.pictures, line.variant, line.method, setting, line.probe, line.feature, line.strength)
    return published.find(published.Place(*place))


def _csv(table: pandas.DataFrame) -> str:
    # A text cell must not start a formula in a spreadsheet.
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(table.columns)
    for row in table.itertuples(index=False):
        writer.writerow([_guard(value) for value in row])
    return buffer.getvalue()


def _guard(value):
    value = value.replace("\r", " ") if isinstance(value, str) else value
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t"):
        return "'" + value
    return "" if value is None or value is pandas.NA or (isinstance(value, float) and value != value) else value


def write_csv(frame: pandas.DataFrame, path: Path) -> None:
    """The long table as a file."""
    path.write_text(_csv(frame), encoding="utf-8")
