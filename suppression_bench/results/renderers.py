"""A table of results and its formats: Markdown, CSV, LaTeX with booktabs' rules, and HTML."""

import csv
import io
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2
import pandas
from markupsafe import Markup

TEMPLATES = Path(__file__).parent / "templates"
BELOW, NOT_CONVERGED = "▼", "†"
LATEX = {character: "\\" + character for character in "&%_#${}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    BELOW: r"$\blacktriangledown$",
    NOT_CONVERGED: r"$\dagger$",
}
LATEX_NEEDS = "% needs \\usepackage{booktabs,amssymb,adjustbox}\n"
FORMULA = ("=", "+", "-", "@", "\t")  # first characters that make a spreadsheet compute a cell
FORMATS = ("markdown", "csv", "latex", "html")
Form = Callable[[str], str]


@dataclass
class Entry:
    """What stands where a row and a column cross.

    value: the number with its spread, as text; "" where there is none.
    marks: behind it, BELOW and NOT_CONVERGED.
    beside: published values in brackets.
    lost: the seeds without a number, by status.
    best: whether it is ahead of the second of its column.
    """

    value: str = ""
    marks: str = ""
    beside: str = ""
    lost: str = ""
    best: bool = False

    def text(self, form: Form = str, bold: Form = str) -> str:
        """All of it in one text.

        Arguments:
            form: how a format writes plain text.
            bold: how it writes the best.
        """
        value = form(self.value)
        words = [bold(value) if self.best else value, form(self.marks), form(self.beside)]
        return "; ".join(filter(None, [" ".join(filter(None, words)), form(self.lost)]))

    @property
    def classes(self) -> str:
        """Of the HTML cell; `failed` says that some or all of its seeds have no number."""
        flags = {
            "best": self.best,
            "below": BELOW in self.marks,
            "unconverged": NOT_CONVERGED in self.marks,
            "failed": bool(self.lost),
        }
        return " ".join(name for name, holds in flags.items() if holds)


@dataclass
class Row:
    """A row: its names, one for each head, an entry for each column, and its kind (ceiling, floor, published) or ""."""

    names: tuple[str, ...]
    entries: list[Entry]
    kind: str = ""


@dataclass
class Table:
    """A table: its heading, the heads over the rows' names, its columns and rows.

    tests: how many comparisons of a column's best with its second were possible.
    """

    heading: str
    heads: tuple[str, ...]
    columns: list[str]
    rows: list[Row]
    tests: int = 0

    def frame(self, form: Form = str, bold: Form = str) -> pandas.DataFrame:
        """The texts, as `Entry.text` writes them."""
        lines = [[*map(form, row.names), *(entry.text(form, bold) for entry in row.entries)] for row in self.rows]
        return pandas.DataFrame(lines, columns=[form(name) for name in (*self.heads, *self.columns)])


@dataclass
class Tables:
    """Tables and the notes below the last one.

    empty: the sentence in place of the tables where there are none.
    """

    tables: list[Table]
    notes: list[str] = field(default_factory=list)
    empty: str = ""

    def text(self, form: str) -> str:
        """The tables in one of FORMATS; html is a page."""
        return {"markdown": self.markdown, "csv": self.csv, "latex": self.latex, "html": self.page}[form]()

    def markdown(self) -> str:
        """A heading and a table each; what a record holds ends no cell and opens no HTML tag."""
        parts = []
        for table in self.tables:
            cells = table.frame(_markdown, lambda text: f"**{text}**")
            parts.append(f"**{_markdown(table.heading)}**\n\n{cells.to_markdown(index=False, disable_numparse=True)}\n")
        return "\n".join(parts or [self.empty]) + "\n" + "".join(f"- {note}\n" for note in self.notes)

    def csv(self) -> str:
        """One block a table, without headings and notes."""
        return "\n".join(csv_of(table.frame()) for table in self.tables)

    def latex(self) -> str:
        """One `table` environment each, never wider than a page's text.

        The notes stand inside the last environment: outside they would stay behind when the table floats.
        """
        blocks = [_latex_table(table) for table in self.tables]
        notes = "\n".join(rf"\par\noindent{{\footnotesize {_latex_commands(note)}}}" for note in self.notes)
        blocks[-1] += f"\n\n\\raggedright\\smallskip\n{notes}"
        return LATEX_NEEDS + "\n\n".join(f"\\begin{{table}}[ht]\n{block}\n\\end{{table}}" for block in blocks) + "\n"

    def html(self) -> Markup:
        """Tables and notes as a fragment, everything that records hold escaped, without styles and scripts.

        Classes: of a row `ceiling`, `floor`, `published`; of a cell those of `Entry.classes`.
        """
        return Markup(environment(TEMPLATES).get_template("tables.html").render(tables=self.tables, notes=self.notes))

    def page(self) -> str:
        """A whole HTML page around the fragment, self-contained."""
        return environment(TEMPLATES).get_template("tables_page.html").render(fragment=self.html())


def environment(folder: Path) -> jinja2.Environment:
    """The templates of a folder, by the rules of every page: all is escaped, and an unknown name is an error."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _markdown(text: str) -> str:
    return re.sub(r"\||<(?=[a-zA-Z/!?])", r"\\\g<0>", text)


def latex(text: str) -> str:
    r"""The text with LaTeX's own characters made harmless.

    >>> latex("50 %")
    '50 \\%'
    """
    return text.translate(str.maketrans(LATEX))


def _latex_table(table: Table) -> str:
    cells = table.frame(latex, lambda text: rf"\textbf{{{text}}}")
    columns = "l" * len(table.heads) + "r" * len(table.columns)
    tabular = cells.style.hide(axis="index").to_latex(hrules=True, column_format=columns)
    # Twelve columns are wider than any page: the box shrinks those and leaves the narrow ones alone.
    box = f"\\begin{{adjustbox}}{{max width=\\textwidth}}\n{tabular}\\end{{adjustbox}}"
    return f"\\caption{{{latex(table.heading)}}}\n\\centering\n{box}"


def _latex_commands(note: str) -> str:
    return re.sub(r"`([^`]*)`", r"\\texttt{\1}", latex(note))


def csv_of(frame: pandas.DataFrame) -> str:
    """A frame as CSV; no text in it starts a formula in a spreadsheet."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(frame.columns)
    writer.writerows([_csv_value(value) for value in row] for row in frame.itertuples(index=False))
    return buffer.getvalue()


def _csv_value(value: Any) -> Any:
    if isinstance(value, str):
        text = value.replace("\r", " ")
        return "'" + text if text.startswith(FORMULA) else text
    return "" if value is None or value is pandas.NA or (isinstance(value, float) and value != value) else value
