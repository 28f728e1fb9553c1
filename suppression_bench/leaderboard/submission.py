"""A submission: a folder of plain files, read strictly; nothing in it is imported or executed."""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from generators import strict_json
from generators.dataset import UserError
from suppression_bench.leaderboard import levels, shape
from suppression_bench.results import record as records

ROOT = Path("leaderboard/submissions")
FORM = "submission.json"
SCHEMA = 1
LARGEST_FORM = 200_000
SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
MOST = 64  # characters of a slug
RECORDS, PREDICTIONS, ENCODERS = "records", "predictions", "encoders"
METHOD, LOSS, RECIPE = "method.py", "loss.py", "recipe.yaml"

TEXT_OR_NONE = (str, type(None))
FORM_KEYS = {
    "schema": int, "slug": str, "name": str, "url": str, "contact": TEXT_OR_NONE, "track": str, "label_use": bool,
    "supersedes": TEXT_OR_NONE, "method": dict, "loss": (dict, type(None)), "files": dict,
}  # fmt: skip
PLUGIN_KEYS = {"name": str, "file": TEXT_OR_NONE, "sha256": str}
FILE_KEYS = {"bytes": int, "sha256": str}


@dataclass(frozen=True)
class Submission:
    """One entry of the leaderboard.

    folder: where it lies.
    slug: the folder's name.
    name, url, contact: of the method and its authors, as they wrote them (foreign text: escape it).
    track: what it competes in.
    label_use: whether the method was trained with labels.
    supersedes: slug of an older entry that this one replaces, or None.
    method_file: name of the method's own file in the folder, None for a method of the package.
    records: of all cells, as `results.record.read` gives them, by strength's text and seed.
    level: 0 reported, 1 rescored, 2 re-probed, 3 retrained by the maintainers.
    digest: SHA-256 over all its files; maintainers' findings are about this very content.
    loss_file: name of the loss's own file, None for a loss of the package or none at all.
    """

    folder: Path
    slug: str
    name: str
    url: str
    contact: str | None
    track: str
    label_use: bool
    supersedes: str | None
    method_file: str | None
    records: list[dict]
    level: int
    digest: str = ""
    loss_file: str | None = None


def read_form(folder: Path) -> dict:
    """A folder's `submission.json`, its schema checked and nothing more.

    Raises:
        UserError: no such file, too large, no strict JSON, or keys and types that are not the schema's.
    """
    path = Path(folder) / FORM
    if not path.is_file() or path.is_symlink():
        raise UserError(f"{path}: no such file; a submission is a folder that `bench submit` wrote")
    if path.stat().st_size > LARGEST_FORM:
        raise UserError(f"{path}: over {LARGEST_FORM} bytes")
    form = strict_json.loads(path.read_bytes(), str(path))
    if faults := form_faults(form):
        raise UserError("\n".join(f"{path}: {fault}" for fault in faults))
    return form


def form_faults(form) -> list[str]:
    """How the content of `submission.json` departs from its schema."""
    faults = strict_json.faults(form, FORM_KEYS, "it")
    if not faults and form["schema"] != SCHEMA:
        faults.append(f"schema {form['schema']} is not {SCHEMA}")
    for kind in () if faults else ("method", "loss"):
        if form[kind] is not None:
            faults += strict_json.faults(form[kind], PLUGIN_KEYS, kind)
    if not faults:
        for name, entry in form["files"].items():
            faults += strict_json.faults(entry, FILE_KEYS, f"files: {name!r}")
    return faults


def load(folder: Path) -> Submission:
    """A submission as the ranking and the page need it; `bench leaderboard check` judges whether it is in order.

    Raises:
        UserError: a damaged form, record or finding.
    """
    folder = Path(folder)
    form = read_form(folder)
    if form["slug"] != folder.name or not SLUG.fullmatch(form["slug"]):
        raise UserError(f"{folder / FORM}: slug {form['slug']!r} must be the folder's name, small letters and hyphens")
    found = [_record(path) for path in sorted((folder / RECORDS).glob("*.json"))]
    found.sort(key=lambda record: (strength_text(record), record["spec"]["seed"]))
    own = digest(folder)
    return Submission(
        folder, form["slug"], form["name"], form["url"], form["contact"], form["track"], form["label_use"],
        form["supersedes"], form["method"]["file"], found, levels.level(folder.parent, form["slug"], own), own,
        form["loss"]["file"] if form["loss"] else None,
    )  # fmt: skip


def load_all(root: Path = ROOT) -> list[Submission]:
    """Every submission below a folder, by slug; none where the folder is not there.

    Raises:
        UserError: a damaged one.

    >>> load_all(Path("no/such/folder"))
    []
    """
    if not Path(root).is_dir():
        return []
    # A name with a dot is a folder that `bench submit` was stopped in.
    return [
        load(folder) for folder in sorted(Path(root).iterdir()) if folder.name[0] != "." and (folder / FORM).is_file()
    ]


def _record(path: Path) -> dict:
    record = records.read(path)
    if faults := shape.faults(record):
        raise UserError(f"{path}: {'; '.join(faults[:3])}")
    return record


def strength_text(record: dict) -> str:
    """A record's strength as text without spaces, "" where there is none.

    >>> strength_text({"spec": {"strength": {"key": "sizes", "value": [20, 80]}}})
    '20+80'
    """
    strength = record["spec"].get("strength")
    value = strength.get("value") if isinstance(strength, dict) else None
    return "" if value is None else "+".join(map(str, value)) if isinstance(value, list) else str(value)


def digest(folder: Path) -> str:
    """SHA-256 over the relative names and bytes of all files of a submission."""
    found = hashlib.sha256()
    for path in sorted(path for path in Path(folder).rglob("*") if path.is_file()):
        own = hashlib.sha256(path.read_bytes()).hexdigest()
        found.update(f"{path.relative_to(folder).as_posix()}\0{own}\n".encode())
    return found.hexdigest()
