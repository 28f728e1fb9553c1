"""From finished runs to a submission's folder: the records, what the probes said, the method's file, the settings."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from generators import catalog, strict_json
from generators.dataset import UserError
from generators.options import did_you_mean
from suppression_bench.leaderboard import cells, folder, texts, tracks
from suppression_bench.leaderboard.submission import (
    ENCODERS,
    FORM,
    PREDICTIONS,
    RECIPE,
    RECORDS,
    SCHEMA,
)
from suppression_bench.results import predictions
from suppression_bench.results import record as records
from suppression_bench.trained import WEIGHTS


@dataclass(frozen=True)
class Wish:
    """What the submitter says, beside the runs.

    name, url, contact, track, supersedes, slug: as in `submission.json`; slug "" makes one from name and track.
    files: "method" and "loss" -> path of their own .py file.
    with_encoder: whether the trained encoders go along.
    """

    name: str
    url: str
    contact: str | None = None
    track: str = "quick"
    supersedes: str | None = None
    slug: str = ""
    files: dict[str, str] | None = None
    with_encoder: bool = False


def gather(runs: list[Path], only: dict[str, list]) -> list[Path]:
    """The folders of the cells to submit.

    Arguments:
        runs: folders that `bench run` wrote.
        only: setting (dotted or short, and `method`, `loss`) -> allowed values; a cell that has none of them is left out.

    Raises:
        UserError: no record, damaged ones, or a setting that no cell has.
    """
    found = {}
    for run in runs:
        if not run.is_dir():
            raise UserError(f"{run}: no such folder; name one that `bench run` wrote")
        paths = sorted(run.rglob(records.NAME))
        if not paths:
            raise UserError(f"{run}: no {records.NAME} in it; name a folder that `bench run` wrote")
        found.update({path.parent: records.read(path) for path in paths})
    for key, values in only.items():
        having = {place: _value(record, key) for place, record in found.items()}
        if all(value is None for value in having.values()):
            known = {name.partition(".")[2] for record in found.values() for name in tracks.settings(record["spec"])}
            raise UserError(f"--only {key}: no cell has it, {did_you_mean(key, known | {'method', 'loss', 'seed'})}")
        texts_of = {str(value).replace("_", "-") for value in values}
        found = {place: record for place, record in found.items() if having[place] is not None
                 and tracks.text(having[place]).replace("_", "-") in texts_of}  # fmt: skip
        if not found:
            raise UserError(f"--only {key}={','.join(map(str, values))}: no cell left")
    return list(found)


def _value(record: dict, key: str):
    spec = record["spec"]
    if key in ("method", "loss", "encoder"):
        return spec[key]["name"] if spec[key] else None
    values = {**tracks.settings(spec), "seed": spec["seed"]}
    key = key.replace("-", "_")
    if key in values:
        return values[key]
    return next((value for name, value in values.items() if name.partition(".")[2] == key), None)


def write(places: list[Path], wish: Wish, out: Path) -> Path:
    """A submission's folder below `out`, under its slug.

    Arguments:
        places: folders of the cells.
        wish: what the submitter says.
        out: the folder of submissions.

    Raises:
        UserError: several settings among the cells, a folder of that slug, or a file of the method that is not given.
    """
    tracks.read(wish.track)
    found = {place: records.read(place / records.NAME) for place in places}
    _require_one_setting(list(found.values()))
    old = [place for place in found if not (place / predictions.NAME).is_file()]
    if old and len(old) < len(found):
        raise UserError(
            f"{len(old)} of {len(found)} cells have no {predictions.NAME}, an older version ran them ({old[0]}, ...); "
            "delete their folders and run them again"
        )
    slug = wish.slug or texts.make_slug(f"{wish.name} {wish.track}")
    if not texts.is_slug(slug):
        raise UserError(f"--slug {slug!r}: small letters, digits and single hyphens, at most 64 characters")
    target = out / slug
    if target.exists():
        raise UserError(
            f"{target} is there, and entries never change; name another --slug (a correction has --supersedes {slug} too)"
        )
    first = next(iter(found.values()))
    plugins = {kind: _plugin(kind, first, wish.files or {}) for kind in ("method", "loss")}
    partial = out / f".{slug}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    for part in (RECORDS, PREDICTIONS, *([ENCODERS] if wish.with_encoder else [])):
        (partial / part).mkdir(parents=True)
    for place, record in found.items():
        _copy_cell(place, record, partial, wish.with_encoder)
    if not any((partial / PREDICTIONS).iterdir()):
        (partial / PREDICTIONS).rmdir()
    for kind, (_, source) in plugins.items():
        if source:
            shutil.copyfile(source, partial / f"{kind}.py")
    (partial / RECIPE).write_text(cells.recipe_text(list(found.values())), encoding="ascii")
    form = {
        "schema": SCHEMA, "slug": slug, "name": wish.name, "url": wish.url, "contact": wish.contact, "track": wish.track,
        "label_use": _labels(plugins, partial), "supersedes": wish.supersedes, "method": plugins["method"][0],
        "loss": plugins["loss"][0], "files": folder.listed(partial),
    }  # fmt: skip
    strict_json.dumps(form)
    (partial / FORM).write_text(json.dumps(form, indent=1, sort_keys=True) + "\n", encoding="ascii")
    partial.rename(target)
    return target


def remove(made: Path) -> None:
    """Take a folder away that `write` has just made and its check refuses."""
    shutil.rmtree(made)


def _require_one_setting(found: list[dict]) -> None:
    settings = {strict_json.dumps({**cells.common(record), "code": record["code"]["method"]}) for record in found}
    if len(settings) > 1:
        named = sorted({" ".join([record["spec"]["method"]["name"], *(f"{key.partition('.')[2]}={tracks.text(value)}"
                        for key, value in record["spec"]["varied"].items())]) for record in found})  # fmt: skip
        raise UserError(
            f"these are cells of {len(settings)} settings ({'; '.join(named[:8])}), and an entry has one; choose with --only, "
            "as in --only method=simclr temperature=0.1"
        )


def _copy_cell(place: Path, record: dict, partial: Path, with_encoder: bool) -> None:
    name = cells.file_name(record)
    target = partial / RECORDS / f"{name}.json"
    if target.exists():
        raise UserError(f"{place}: a second cell of {name}; name the run folders that belong to the entry, no others")
    shutil.copyfile(place / records.NAME, target)
    if (place / predictions.NAME).is_file():
        shutil.copyfile(place / predictions.NAME, partial / PREDICTIONS / f"{name}.safetensors")
    if with_encoder:
        if not (place / WEIGHTS).is_file():
            raise UserError(f"{place}: no {WEIGHTS}; leave --with-encoder out, or run the cell again")
        shutil.copyfile(place / WEIGHTS, partial / ENCODERS / f"{name}.safetensors")


def _plugin(kind: str, record: dict, files: dict[str, str]) -> tuple[dict | None, Path | None]:
    """The form's entry of a method or loss, and its own file, if it has one."""
    package = {"method": cells.METHODS, "loss": cells.LOSSES}[kind]
    spec, given = record["spec"][kind], files.get(kind)
    if spec is None or "file" not in spec:
        if given:
            raise UserError(
                f"--{kind} {given}: the {kind} of these runs is {spec and spec['name']}, of the package; leave it out"
            )
        if spec is None:
            return None, None
        return {"name": spec["name"], "file": None, "sha256": catalog.file_digest(package, spec["name"])}, None
    if not given:
        raise UserError(f"the {kind} {spec['name']} of these runs is a file of your own; name it with --{kind} PATH.py")
    if not catalog.is_path(given) or catalog.file_digest(package, given) != spec["file"]:
        raise UserError(f"--{kind} {given}: not the file that the cells were run with (SHA-256 {spec['file'][:12]}...)")
    return {"name": spec["name"], "file": f"{kind}.py", "sha256": spec["file"]}, catalog.source_file(package, given)


def _labels(plugins: dict, partial: Path) -> bool:
    from suppression_bench.leaderboard import check

    return check.reads_labels({kind: said for kind, (said, _) in plugins.items()}, partial)
