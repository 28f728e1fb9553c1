"""One self-contained page from the records of a study: what was run, its tables and figures, and how to make it again."""

import base64
import re
import tempfile
from collections import Counter
from pathlib import Path

import jinja2
import pandas
import yaml
from markupsafe import Markup

from generators import registry, strict_json
from suppression_bench.results import drawings, html_tables, metric_tables, reproduce, summary
from suppression_bench.results import record as records
from suppression_bench.results.found import planned, records_below
from suppression_bench.results.frame import long_table

TEMPLATES = Path(__file__).parent / "templates"
ONE_PANEL = 400  # points: a figure no wider fits a phone whole; a wider one is scrolled, or its texts could not be read
STATUSES = (*records.STATUSES, "missing")


def render(folders: list[Path]) -> str:
    """The page as text: the same records give the same bytes.

    Arguments:
        folders: run folders, as for `frame.long_table`.

    Raises:
        UserError: no record below a folder, or a damaged one.
    """
    frame = long_table(folders)
    found = records_below(folders)
    specs = planned(folders) | {key: record["spec"] for key, record in found.items()}
    cells = [row._asdict() for row in frame.drop_duplicates("id").astype(object).fillna("").itertuples(index=False)]
    cells.sort(key=lambda cell: (cell["status"] == "ok", _title(cell), str(cell["strength"]), cell["seed"], cell["id"]))
    made = list(found.values())
    return _environment().get_template("report.html").render(
        **_tables(folders, frame), figures=_figures(folders), cells=cells, counts=_counts(cells), title_of=_title,
        bad=[cell for cell in cells if cell["status"] != "ok"], headings=list(dict.fromkeys(map(_pictures, cells))),
        suites=_suites(specs), methods=_methods(cells, specs), data=_data(specs),
        code=_tally({key: value for key, value in one["code"].items() if key != "method"} for one in made),
        files=_tally({"name": one["spec"]["method"]["name"], "digest": one["code"]["method"]} for one in made),
        environments=_tally(one["environment"] for one in made), versions=sorted({one["code"]["version"] for one in made}),
    )  # fmt: skip


def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip


def _tables(folders: list[Path], frame: pandas.DataFrame) -> dict:
    fragment = _environment().get_template("frames.html").render
    parts = {"metrics": metric_tables.pivot(found) if len(found := metric_tables.long_metrics(folders)) else []}
    parts["summary"] = summary.pivot(frame)
    notes = {"metrics": metric_tables.NOTES, "summary": summary.notes(frame)}
    made = {key: Markup(fragment(tables=parts[key], notes=notes[key])) if parts[key] else "" for key in parts}
    return {"probes": Markup(html_tables.fragment(frame)), **made}


def _figures(folders: list[Path]) -> list[dict]:
    # An <img> with a data URI: no script of a picture can run, and its ids cannot meet those of another.
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for drawing in drawings.drawings(folders):
            path = Path(folder) / f"{drawing.name}.svg"
            drawing.draw(path)
            svg = path.read_bytes()
            uri = f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}"
            narrow = float(re.search(rb'<svg [^>]*?width="([\d.]+)pt"', svg)[1]) <= ONE_PANEL
            found.append({"name": drawing.name, "title": drawing.title, "uri": uri, "narrow": narrow})
    return found


def _title(cell: dict) -> str:
    return f"{cell['method']} {cell['setting']}".strip()


def _pictures(cell: dict) -> str:
    return f"{cell['dataset']} over {cell['pictures']}" if cell["pictures"] else cell["dataset"]


def _heading(cell: dict) -> str:
    return _pictures(cell) + (f" ({cell['variant']})" if cell["variant"] else "")


def _counts(cells: list[dict]) -> dict:
    found = Counter(cell["status"] for cell in cells)
    return {status: found[status] for status in STATUSES if found[status]}


def _suites(specs: dict[str, dict]) -> list[dict]:
    # A suite, its version and the command that runs all of it; cells of `bench run --data` have none.
    known: dict[str, dict] = {}
    for spec in specs.values():
        own = spec["suite"] or {}
        title = " ".join(f"{value}" if key == "name" else f"{key} {value}" for key, value in sorted(own.items()))
        command = reproduce.suite(spec)
        entry = known.setdefault(f"{title} {command}", {"title": title, "command": command, "cells": 0})
        entry["cells"] += 1
    return [known[key] for key in sorted(known)]


def _methods(cells: list[dict], specs: dict[str, dict]) -> list[dict]:
    """One entry per dataset and title: what became of its cells, its settings, and the commands that run it again."""
    groups: dict[tuple, list[dict]] = {}
    for cell in cells:
        groups.setdefault((_heading(cell), cell["method"] == "untrained", _title(cell)), []).append(cell)
    found = []
    for (heading, _, title), own in sorted(groups.items(), key=lambda item: item[0]):
        seeds = sorted({cell["seed"] for cell in own})
        by_place = {strict_json.dumps([specs[cell["id"]]["data"], cell["strength"]]): specs[cell["id"]] for cell in own}
        ordered = sorted(by_place.values(), key=_strength_key)
        settings = yaml.safe_dump(
            _settings(ordered[0]), sort_keys=False, allow_unicode=True, default_flow_style=None, width=100
        )
        found.append({
            "heading": heading, "title": title, "counts": _counts(own), "cells": len(own), "seeds": seeds,
            "strengths": _strengths(ordered), "settings": settings,
            "commands": [reproduce.run(alike, max(seeds) + 1) for alike in _by_data(ordered)],
        })  # fmt: skip
    return found


def _by_data(ordered: list[dict]) -> list[list[dict]]:
    # The number of bits is chosen when the data is read: those cells share a dataset, and a command.
    found: dict[str, list[dict]] = {}
    for spec in ordered:
        key = strict_json.dumps([{**spec["data"], "bits": 0}, _settings(spec)])
        found.setdefault(key, []).append(spec)
    return list(found.values())


def _strengths(ordered: list[dict]) -> str:
    found: dict[str, dict] = {}
    for own in (spec["strength"] for spec in ordered if spec["strength"]):
        value = own["value"]
        found.setdefault(own["key"], {})["+".join(map(str, value)) if isinstance(value, list) else str(value)] = None
    return "; ".join(f"{key} {', '.join(values)}" for key, values in found.items())


def _strength_key(spec: dict) -> tuple:
    value = (spec["strength"] or {"value": None})["value"]
    numbers = value if isinstance(value, list) else [value]
    plain = all(isinstance(number, (int, float)) for number in numbers)
    return (not plain, numbers if plain else [], str(value))


def _settings(spec: dict) -> dict:
    names = ("recipe", "method", "loss", "encoder", "augmentation", "train", "probe", "probe_version")
    return {name: spec[name] for name in names if spec[name] is not None}


def _data(specs: dict[str, dict]) -> list[dict]:
    known: dict[str, dict] = {}
    for spec in specs.values():
        own = {key: value for key, value in spec["data"].items() if key != "bits"}
        options = {key: value for key, value in (own.get("options") or {}).items() if value is not None}
        known[strict_json.dumps(own)] = {
            "dataset": own["dataset"], "version": own.get("version", ""), "seed": own["seed"],
            "options": " ".join(f"{key}={value}".replace(" ", "") for key, value in sorted(options.items())),
            "digest": own.get("digest", ""), "command": reproduce.generate(own),
            "known": registry.describe(own["digest"]) if own.get("digest") else "",
        }  # fmt: skip
    return [known[key] for key in sorted(known)]


def _tally(found) -> list[dict]:
    """Different mappings and how many cells have each, the most frequent first."""
    counts = Counter(strict_json.dumps(one) for one in found)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [{"cells": count, **strict_json.loads(text.encode(), "a record", floats=True)} for text, count in ordered]
