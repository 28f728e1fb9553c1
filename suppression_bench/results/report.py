"""One self-contained page about a study: what was run, its tables and figures, and how to make it again."""

import base64
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml

from generators.files import dumps_json, loads_json
from generators.manifest import registered_as
from suppression_bench.cell import Cell, value_text
from suppression_bench.results import figures, reproduce, tables
from suppression_bench.results.frame import FLOOR, TOPIC, Study, heading, strength_order, title
from suppression_bench.results.renderers import TEMPLATES, environment

ONE_PANEL = 400  # points: a figure no wider fits a phone whole; a wider one is scrolled, or its texts could not be read
STATUSES = ("ok", "diverged", "failed", "invalid_features", "missing")


def render(study: Study) -> str:
    """The page as text: the same records give the same bytes."""
    names = dict.fromkeys(study.long.columns, "")
    cells = [
        {
            **names,
            **{key: value for key, value in row.items() if value == value and value is not None},
        }  # NaN is not equal
        for row in study.long.drop_duplicates("id").astype(object).to_dict("records")
    ]
    for cell in cells:
        cell["title"] = title(cell["method"], cell["setting"])
    cells.sort(
        key=lambda cell: (cell["status"] == "ok", cell["title"], str(cell["strength"]), cell["seed"], cell["id"])
    )
    records = [msgspec.to_builtins(record) for record in study.records.values()]
    metrics, suppression = tables.metrics_tables(study), tables.suppression_tables(study)
    return (
        environment(TEMPLATES)
        .get_template("report.html")
        .render(
            probes=tables.accuracy_tables(study).html(),
            metrics=metrics.html() if metrics.tables else "",
            summary=suppression.html() if suppression.tables else "",
            figures=_figures(study),
            cells=cells,
            counts=_counts(cells),
            bad=[cell for cell in cells if cell["status"] != "ok"],
            headings=list(dict.fromkeys(heading((cell["dataset"], cell["pictures"], "", "")) for cell in cells)),
            suites=_suites(study.cells.values()),
            methods=_methods(study, cells),
            datasets=_datasets(study),
            code=_tally({key: text for key, text in record["code"].items() if key != "method"} for record in records),
            files=_tally(
                {"name": record["spec"]["method"]["name"], "digest": record["code"]["method"]} for record in records
            ),
            environments=_tally(record["environment"] for record in records),
            versions=sorted({record["code"]["version"] for record in records}),
        )
    )


def _figures(study: Study) -> list[dict[str, Any]]:
    # An <img> with a data URI: no script of an image can run, and its ids cannot meet those of another.
    images = []
    with tempfile.TemporaryDirectory() as folder:
        for name in figures.drawable(study):
            path = Path(folder) / f"{name}.svg"
            figures.draw(study, name, path)
            svg = path.read_bytes()
            uri = f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}"
            width = re.search(rb'<svg [^>]*?width="([\d.]+)pt"', svg)
            narrow = width is not None and float(width[1]) <= ONE_PANEL
            images.append({"name": name, "title": figures.KINDS[name].title, "uri": uri, "narrow": narrow})
    return images


def _counts(cells: list[dict]) -> dict[str, int]:
    counts = Counter(cell["status"] for cell in cells)
    return {status: counts[status] for status in STATUSES if counts[status]}


def _suites(cells: Iterable[Cell]) -> list[dict[str, Any]]:
    # A suite, its version and the command that runs all of it; cells of `bench run --data` have none.
    suites: dict[tuple, dict[str, Any]] = {}
    for cell in cells:
        name = f"{cell.suite.name} version {cell.suite.version}" if cell.suite else ""
        command = reproduce.suite(cell)
        suites.setdefault((name, command or ""), {"title": name, "command": command, "cells": 0})["cells"] += 1
    return [suites[key] for key in sorted(suites)]


def _methods(study: Study, cells: list[dict]) -> list[dict[str, Any]]:
    # One entry per dataset and title: what became of its cells, its settings, and the commands that run it again.
    groups: dict[tuple, list[dict]] = {}
    for cell in cells:
        about = heading([cell[name] for name in TOPIC])
        groups.setdefault((about, cell["method"] == FLOOR, cell["title"]), []).append(cell)
    methods = []
    for (about, _, name), rows in sorted(groups.items(), key=lambda item: item[0]):
        seeds = sorted({row["seed"] for row in rows})
        specs = {}  # one for each dataset setting
        for row in sorted(rows, key=lambda row: strength_order(row["strength"])):
            spec = study.cells[row["id"]]
            specs.setdefault((dumps_json(msgspec.to_builtins(spec.dataset)), row["digest"]), (spec, row["digest"]))
        methods.append(
            {
                "heading": about,
                "title": name,
                "counts": _counts(rows),
                "cells": len(rows),
                "seeds": seeds,
                "strengths": _strengths([spec for spec, _ in specs.values()]),
                "settings": _settings(next(iter(specs.values()))[0]),
                "commands": [
                    reproduce.run(alike, digest, max(seeds) + 1) for alike, digest in _by_data(list(specs.values()))
                ],
            }
        )
    return methods


def _by_data(specs: Sequence[tuple[Cell, str]]) -> list[tuple[list[Cell], str]]:
    # The number of bits is chosen when the data is read: those cells share a dataset, and a command.
    groups: dict[tuple, tuple[list[Cell], str]] = {}
    for spec, digest in specs:
        dataset = msgspec.structs.replace(spec.dataset, bits=0)
        key = dumps_json(msgspec.to_builtins(dataset)), _settings(spec), digest
        groups.setdefault(key, ([], digest))[0].append(spec)
    return list(groups.values())


def _strengths(specs: list[Cell]) -> str:
    values: dict[str, dict[str, None]] = {}
    for strength in (spec.strength for spec in specs if spec.strength):
        values.setdefault(strength.key, {})[value_text(strength.value)] = None
    return "; ".join(f"{key} {', '.join(texts)}" for key, texts in values.items())


def _settings(spec: Cell) -> str:
    names = ("recipe", "method", "loss", "encoder", "augmentation", "train", "probe", "probe_version")
    plain = msgspec.json.decode(msgspec.json.encode(spec))
    chosen = {name: plain[name] for name in names if plain[name] is not None}
    return yaml.safe_dump(chosen, sort_keys=False, allow_unicode=True, default_flow_style=None, width=100)


def _datasets(study: Study) -> list[dict[str, Any]]:
    datasets: dict[str, dict[str, Any]] = {}
    for key, cell in study.cells.items():
        dataset = msgspec.structs.replace(cell.dataset, bits=0)
        digest = study.records[key].data.digest if key in study.records else ""
        options = {name: value for name, value in sorted(dataset.options.items()) if value is not None}
        datasets[dumps_json([msgspec.to_builtins(dataset), digest])] = {
            "dataset": dataset.name,
            "version": dataset.version,
            "seed": dataset.seed,
            "options": " ".join(f"{name}={value}".replace(" ", "") for name, value in options.items()),
            "digest": digest,
            "command": reproduce.generate(dataset, digest),
            "known": registered_as(digest) if digest else "",
        }
    return [datasets[key] for key in sorted(datasets)]


def _tally(parts: Iterable[dict]) -> list[dict[str, Any]]:
    # Different mappings and how many cells have each, the most frequent first.
    counts = Counter(dumps_json(part) for part in parts)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [{"cells": count, **loads_json(text, "a record", floats=True)} for text, count in ordered]
