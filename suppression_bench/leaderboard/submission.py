"""A submission: from finished runs to an entry's folder, written whole or not at all; nothing is sent anywhere."""

import ast
import io
import re
import shutil
import tokenize
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from generators import catalog
from generators.dataset import UserError
from suppression_bench import config
from suppression_bench import suite as suites
from suppression_bench.cell import Cell, settings_key, strength_text
from suppression_bench.leaderboard import entry as entries
from suppression_bench.leaderboard import tracks
from suppression_bench.leaderboard.entry import ENCODERS, ENTRY, FILES, PREDICTIONS, CellResult, Entry
from suppression_bench.leaderboard.tracks import Track
from suppression_bench.method import Method
from suppression_bench.results import predictions, weights
from suppression_bench.results import record as records
from suppression_bench.results.record import Record


@dataclass(frozen=True)
class Request:
    """What the submitter says, beside the runs.

    name, url, contact, track, supersedes, slug: as in `entry.json`; slug "" makes one from name and track.
    files: "method" and "loss" -> path of their own .py file.
    with_encoder: whether the trained encoders go along.
    """

    name: str
    url: str
    contact: str | None = None
    track: str = "quick"
    supersedes: str | None = None
    slug: str = ""
    files: dict[str, str] = field(default_factory=dict)
    with_encoder: bool = False


def gather(runs: list[Path], only: dict[str, list]) -> dict[Path, Record]:
    """Folder -> record of the cells to submit.

    Arguments:
        runs: folders that `bench run` wrote.
        only: setting -> allowed values, as in `bench run --only`.

    Raises:
        UserError: no record, damaged ones, or a setting that no cell has.
    """
    by_folder = {}
    for run in runs:
        if not run.is_dir():
            raise UserError(f"{run}: no such folder; name one that `bench run` wrote")
        paths = sorted(run.rglob(records.NAME))
        if not paths:
            raise UserError(f"{run}: no {records.NAME} in it; name a folder in which `bench run` has finished a cell")
        by_folder |= {path.parent: records.read(path) for path in paths}
    located = [config.LocatedCell(record.spec, {}, None, folder) for folder, record in by_folder.items()]
    return {cell.folder: by_folder[cell.folder] for cell in suites.select(located, only) if cell.folder}


def write(cells: dict[Path, Record], request: Request, out: Path) -> Path:
    """A submission's folder below `out`, under its slug.

    Arguments:
        cells: folder -> record.
        request: what the submitter says.
        out: the folder of entries.

    Raises:
        UserError: several settings among the cells, a folder of that slug, or a file of the method that is not given.
    """
    track = tracks.read(request.track)
    _require_one_setting(list(cells.values()), track)
    named: dict[str, Path] = {}
    for folder, record in cells.items():
        if named.setdefault(entries.cell_name(record), folder) != folder:
            raise UserError(
                f"{folder}: a second cell of {entries.cell_name(record)}; name only the run folders that belong to the entry"
            )
    without = [folder for folder in cells if not (folder / predictions.NAME).is_file()]
    if without and len(without) < len(cells):
        raise UserError(
            f"{len(without)} of {len(cells)} cells have no {predictions.NAME} ({without[0]}, ...); "
            "delete their folders and run them again"
        )
    slug = request.slug or make_slug(f"{request.name} {request.track}")
    if not entries.is_slug(slug):
        raise UserError(f"--slug {slug!r}: {entries.RULES['slug'][1]}")
    target = out / slug
    if target.exists():
        raise UserError(
            f"{target} is there, and entries never change; name another --slug (a correction has --supersedes {slug} too)"
        )
    first = next(iter(cells.values())).spec
    sources = {kind: _own_source(kind, getattr(first, kind), request.files.get(kind)) for kind in FILES}
    unfinished = out / f".{slug}.partial"
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    if not without:
        write_predictions(
            unfinished / PREDICTIONS,
            {name: predictions.read(path / predictions.NAME)[1] for name, path in named.items()},
        )
    if request.with_encoder:
        _copy_encoders(named, unfinished / ENCODERS)
    for kind, source in sources.items():
        if source:
            shutil.copyfile(source, unfinished / FILES[kind])
    setting = entries.without_strength(first, track.strength)
    entry = make_entry(
        cells.values(), request, slug, setting, entries.listed(unfinished), reads_labels(setting, unfinished)
    )
    (unfinished / ENTRY).write_text(entries.to_text(entry), encoding="ascii")
    unfinished.rename(target)
    return target


def make_entry(
    cells: Iterable[Record], request: Request, slug: str, setting: Cell, files: dict[str, str], label_use: bool
) -> Entry:
    """The content of entry.json: setting, code and environment once, the cells by strength and seed."""
    ordered = sorted(cells, key=lambda record: (strength_text(record.spec.strength), record.spec.seed))
    codes, environments = (
        list(dict.fromkeys(getattr(record, name) for record in ordered)) for name in ("code", "environment")
    )
    return Entry(
        schema=entries.SCHEMA,
        slug=slug,
        name=request.name,
        url=request.url,
        contact=request.contact,
        track=request.track,
        label_use=label_use,
        supersedes=request.supersedes,
        files=files,
        setting=setting,
        code=codes,
        environment=environments,
        cells=[
            CellResult(
                strength=record.spec.strength.value if record.spec.strength else "",
                seed=record.spec.seed,
                data=record.data.digest,
                code=codes.index(record.code),
                environment=environments.index(record.environment),
                run=record.run,
                probes=record.probes,
            )
            for record in ordered
        ],
    )


def write_predictions(path: Path, by_cell: dict[str, dict[predictions.Key, np.ndarray]]) -> None:
    """All cells' predictions in one file; the same predictions give the same bytes."""
    from safetensors.numpy import save

    rows = {"/".join((cell, *key)): row for cell, keyed in by_cell.items() for key, row in keyed.items()}
    records.write_atomic(path, save(rows))


def make_slug(name: str) -> str:
    """A folder's name from a method's.

    >>> make_slug("SimCLR, τ = 0.1 (ours)")
    'simclr-0-1-ours'
    """
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain)[:64].strip("-")


def _require_one_setting(cells: list[Record], track: Track) -> None:
    settings = {
        settings_key(entries.without_strength(record.spec, track.strength)) + record.code.method: record.spec
        for record in cells
    }
    if len(settings) > 1:
        titles = sorted({f"{spec.method.name} {spec.setting}".strip() for spec in settings.values()})
        raise UserError(
            f"these are cells of {len(settings)} settings ({'; '.join(titles[:8])}), and an entry has one; choose with --only, "
            "as in --only method=simclr temperature=0.1"
        )


def _copy_encoders(named: dict[str, Path], target: Path) -> None:
    target.mkdir()
    for name, folder in named.items():
        if not (folder / weights.NAME).is_file():
            raise UserError(f"{folder}: no {weights.NAME}; leave --with-encoder out, or run the cell again")
        shutil.copyfile(folder / weights.NAME, target / f"{name}.safetensors")


def _own_source(kind: str, plugin: Any, path: str | None) -> Path | None:
    """The .py file of a method or loss that is not the package's, None for one that is."""
    package = config.PACKAGES[kind]
    if plugin is None or plugin.file is None:
        if path:
            raise UserError(
                f"--{kind} {path}: the {kind} of these runs is {plugin and plugin.name}, of the package; leave it out"
            )
        return None
    if not path:
        raise UserError(f"the {kind} {plugin.name} of these runs is a file of your own; name it with --{kind} PATH.py")
    if not catalog.is_path(path) or catalog.file_digest(package, path) != plugin.file:
        raise UserError(f"--{kind} {path}: not the file that the cells were run with (SHA-256 {plugin.file[:12]}...)")
    return catalog.source_file(package, path)


# ---- the method's own file, parsed and never run ----


def source_of(folder: Path, kind: str) -> str | None:
    """The text of a submission's method.py or loss.py; None where there is none, or it is no UTF-8."""
    try:
        return (folder / FILES[kind]).read_bytes().decode() if (folder / FILES[kind]).is_file() else None
    except UnicodeDecodeError:
        return None


def source_faults(folder: Path, kind: str) -> list[str]:
    """Why a method.py or loss.py cannot be read by a reviewer as Python reads it."""
    name, text = FILES[kind], source_of(folder, kind)
    if text is None:
        return [f"{name}: is no UTF-8 text"] if (folder / name).is_file() else []
    if unseen := [char for char in text if not char.isprintable() and char not in "\n\t"]:
        return [f"{name}: holds the character U+{ord(unseen[0]):04X}, which cannot be seen"]
    try:
        if tokenize.detect_encoding(io.BytesIO(text.encode()).readline)[0] not in ("utf-8", "utf-8-sig"):
            return [
                f"{name}: names another encoding than utf-8, in which Python would read other code than stands there"
            ]
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return [f"{name}: is no Python ({str(error)[:100]})"]
    return []


def imports(text: str) -> list[str]:
    """The modules that a file imports, for its reviewer.

    >>> imports("import torch.nn as nn\\nfrom os import path")
    ['os', 'torch.nn']
    """
    nodes = list(ast.walk(ast.parse(text)))
    modules = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    modules |= {"." * node.level + (node.module or "") for node in nodes if isinstance(node, ast.ImportFrom)}
    return sorted(modules)


def reads_labels(setting: Cell, folder: Path) -> bool:
    """Whether a method or loss reads labels: by the package's own declaration, or by the text of its own file."""
    for kind, plugin in (("method", setting.method), ("loss", setting.loss)):
        text, package = source_of(folder, kind), config.PACKAGES[kind]
        if text is not None and any(_names_labels(node) for node in ast.walk(ast.parse(text))):
            return True
        if plugin is not None and plugin.file is None and plugin.name in catalog.names(package):
            load = catalog.load_function if kind == "loss" else partial(catalog.load_class, contract=Method)
            if getattr(load(package, plugin.name), "needs_labels", False):
                return True
    return False


def _names_labels(node: ast.AST) -> bool:
    words = ("labels", "needs_labels")
    if isinstance(node, ast.Attribute):
        return node.attr in (*words, "targets")
    if isinstance(node, ast.Name):
        return node.id == "needs_labels"
    if isinstance(node, (ast.arg, ast.keyword)):
        return node.arg in words
    return isinstance(node, ast.Constant) and node.value in words
