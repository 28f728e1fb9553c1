"""Tables rendered from records as HTML: a fragment for a larger page, and a small page of its own."""

from pathlib import Path

import jinja2
import pandas

from suppression_bench.results.pivot import CEILING, FLOOR, PUBLISHED, Cell, Row, build, with_published_rows
from suppression_bench.results.tables import legend, require_probe, sources_of

TEMPLATES = Path(__file__).parent / "templates"


def fragment(frame: pandas.DataFrame, probe: str = "all", paper: bool = False) -> str:
    """The tables and their legend, everything that records hold escaped, without styles and scripts.

    Classes: of a row `ceiling`, `floor`, `published`; of a cell `best`, `below`, `unconverged`, `failed` (some or all of
    its seeds have no number).

    Arguments:
        frame: from `frame.long_table`.
        probe: lbfgs, online, sgd or all.
        paper: published values beside ours, with the difference, in place of rows of their own.

    Raises:
        UserError: a probe that no cell has.
    """
    if probe != "all":
        require_probe(frame, probe)
    tables = [table if paper else with_published_rows(table) for table in build(frame, probe)]
    sources = sources_of(tables)
    shown = [
        {
            "heading": table.heading,
            "columns": [table.head(column) for column in table.columns],
            "rows": [_row(row, table.columns, paper, sources) for row in table.rows],
        }
        for table in tables
    ]
    return _environment().get_template("tables.html").render(tables=shown, notes=legend(frame, tables, paper))


def page(frame: pandas.DataFrame, probe: str = "all", paper: bool = False) -> str:
    """A whole page around the fragment, self-contained.

    Raises:
        UserError: a probe that no cell has.
    """
    return _environment().get_template("tables_page.html").render(fragment=fragment(frame, probe, paper))


def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, undefined=jinja2.StrictUndefined
    )


def _row(row: Row, columns: list[tuple], paper: bool, sources: list[str]) -> dict:
    kind = {FLOOR: "floor", CEILING: "ceiling"}.get(row.title.split(" ")[0], "")
    theirs = row.probe.endswith(PUBLISHED)
    cells = [_cell(row.cells.get(column, Cell()), paper, sources, theirs) for column in columns]
    classes = " ".join(filter(None, [kind, PUBLISHED * theirs]))
    return {"title": row.title, "probe": row.probe, "layer": row.layer, "classes": classes, "cells": cells}


def _cell(cell: Cell, paper: bool, sources: list[str], theirs: bool) -> dict:
    classes = {
        "best": cell.best, "below": cell.below, "unconverged": not cell.converged, "failed": bool(cell.absent),
    }  # fmt: skip
    return {
        "value": "; ".join(f"{number.value:.1f}" for number in cell.published) if theirs else cell.value(),
        "marks": cell.marks(), "beside": cell.beside(sources) if paper and not theirs else "", "lost": cell.lost(),
        "best": cell.best, "classes": " ".join(name for name, holds in classes.items() if holds),
    }  # fmt: skip
