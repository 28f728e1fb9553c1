"""An entry: what entry.json holds, typed and strictly read, and what maintainers noted about it.

An entry is a folder: entry.json with the setting once and a line per cell, the predictions of all cells in one file,
the method's own file where it has one. Checks and reruns, which give its level, lie beside the entries.
"""

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from generators.dataset import UserError
from generators.files import loads_json
from suppression_bench.cell import Cell, Strength, strength_text, value_text
from suppression_bench.leaderboard import tracks
from suppression_bench.results import predictions
from suppression_bench.results import record as records
from suppression_bench.results.record import Code, Count, Data, Digest, Environment, Probe, Record, Run, Struct

ROOT = Path("leaderboard/entries")
SCHEMA = 2
ENTRY, PREDICTIONS, METHOD, LOSS = "entry.json", "predictions.safetensors", "method.py", "loss.py"
ENCODERS = "encoders"  # a folder of weights, one file per cell, where the submitter adds them
CHECKS, RERUNS = "checks", "reruns"  # folders of findings beside the entries
FILES = {"method": METHOD, "loss": LOSS}  # a plug-in's own file
LARGEST = 20_000_000  # bytes of entry.json
REPORTED, RESCORED, REPROBED, RETRAINED = range(4)  # V0 to V3
LEVELS = ("V0 reported", "V1 rescored", "V2 re-probed", "V3 retrained")
BIT = re.compile(r"bit\d\d")


class CellResult(Struct, frozen=True, kw_only=True):
    """One cell: a line of entry.json. code, environment: positions in the entry's lists; data: their content digest."""

    strength: int | float | str | list[int | float]
    seed: Count
    data: Digest
    code: Count = 0
    environment: Count = 0
    run: Run
    probes: list[Probe]


class Entry(Struct, frozen=True, kw_only=True):
    """What entry.json holds.

    name, url, contact: of the method and its authors, as they wrote them (foreign text: escape it).
    label_use: whether the method was trained with labels.
    supersedes: slug of an older entry that this one replaces, or None.
    files: relative name -> SHA-256 of every other file.
    setting: the spec that all cells share, its strength and seed left open.
    """

    schema: Literal[2]
    slug: str
    name: str
    url: str
    contact: str | None
    track: str
    label_use: bool
    supersedes: str | None
    files: dict[str, Digest]
    setting: Cell
    code: list[Code]
    environment: list[Environment]
    cells: list[CellResult]

    def __post_init__(self):
        for cell in self.cells:
            if cell.code >= len(self.code) or cell.environment >= len(self.environment):
                raise ValueError(f"cell of seed {cell.seed}: its code or environment is not in the list")

    @property
    def own_files(self) -> dict[str, str]:
        """Plug-in kind -> its own file, for a method or loss that is not the package's."""
        parts = {"method": self.setting.method, "loss": self.setting.loss}
        return {kind: FILES[kind] for kind, part in parts.items() if part is not None and part.file is not None}

    def records(self, key: str) -> list[Record]:
        """The records of its cells, ordered by strength and seed.

        Arguments:
            key: the setting that is the track's strength.
        """
        expanded = []
        for cell in sorted(self.cells, key=lambda cell: (value_text(cell.strength), cell.seed)):
            spec = with_strength(self.setting, key, cell.strength, cell.seed)
            # By their names, whatever else is said: a group may not hide a feature that is lost.
            bits = sorted({probe.feature for probe in cell.probes if BIT.fullmatch(probe.feature)})
            expanded.append(
                Record(
                    schema=records.SCHEMA,
                    id=spec.id,
                    spec=spec,
                    data=Data(digest=cell.data, groups={tracks.BITS: bits} if bits else {}),
                    code=self.code[cell.code],
                    environment=self.environment[cell.environment],
                    run=cell.run,
                    probes=cell.probes,
                )
            )
        return expanded


def with_strength(setting: Cell, key: str, value: Any, seed: int) -> Cell:
    """The spec of one cell of an entry."""
    if key == tracks.BITS:
        dataset = msgspec.structs.replace(setting.dataset, bits=value if type(value) is int else -1)
    else:
        dataset = msgspec.structs.replace(setting.dataset, options={**setting.dataset.options, key: value})
    return msgspec.structs.replace(setting, dataset=dataset, strength=Strength(key=key, value=value), seed=seed)


def without_strength(cell: Cell, key: str) -> Cell:
    """The setting of a cell: its strength and seed left open."""
    options = {name: value for name, value in cell.dataset.options.items() if name != key}
    dataset = msgspec.structs.replace(cell.dataset, options=options)
    if key == tracks.BITS:
        dataset = msgspec.structs.replace(dataset, bits=0)
    return msgspec.structs.replace(cell, dataset=dataset, strength=None, seed=0)


def cell_name(record: Record) -> str:
    """What a cell is called in predictions, weights and faults, as in "bits=4-seed=0"."""
    strength = record.spec.strength
    key = strength.key if strength else "none"
    return f"{key}={strength_text(strength)}-seed={record.spec.seed}"


def to_text(entry: Entry) -> str:
    """JSON that people and diffs can read: a line per cell and per part of the setting.

    Raises:
        ValueError: a number that is not finite.
    """

    def line(value: Any) -> str:
        return json.dumps(value, separators=(",", ":"), allow_nan=False)

    content = msgspec.to_builtins(entry)
    cells = ",\n".join(f"  {line(cell)}" for cell in content.pop("cells"))
    setting = ",\n".join(f'  "{key}": {line(part)}' for key, part in content.pop("setting").items())
    head = json.dumps(content, indent=1, allow_nan=False)[:-2]
    return f'{head},\n "setting": {{\n{setting}\n }},\n "cells": [\n{cells}\n ]\n}}\n'


# ---- what maintainers found ----


class Check(Struct, frozen=True, kw_only=True):
    """What `bench leaderboard check --keep` noted. entry: digest of the folder that was judged."""

    schema: Literal[2] = 2
    slug: str
    entry: Digest
    level: Annotated[int, msgspec.Meta(ge=REPORTED, le=REPROBED)]


class RerunCell(Struct, frozen=True, kw_only=True):
    """A retrained number beside its claim.

    correct of n: test decisions; claimed: right ones of each submitted seed; low, high: ends of the 99 % interval;
    far: outside the interval in which all cells lie together with 99 %.
    """

    strength: str
    seed: Count
    fresh: bool
    feature: str
    correct: Count
    n: Count
    claimed: list[Count]
    mean: float
    low: float
    high: float
    inside: bool
    far: bool


class Rerun(Struct, frozen=True, kw_only=True):
    """What `bench leaderboard rerun` noted.

    sandbox: what foreign code ran in; package: the entry has none. allowed: cells that may lie outside by chance.
    """

    schema: Literal[2] = 2
    slug: str
    entry: Digest
    track: str
    nonce: str
    submitted_seeds: list[Count]
    fresh_seeds: list[Count]
    sandbox: Literal["bubblewrap", "container", "package", "unsandboxed"]
    code: Code
    environment: Environment
    cells: list[RerunCell]
    failed: list[str]
    allowed: Count

    @property
    def passed(self) -> bool:
        """Whether the claim holds: no failed cell, no more outside than chance explains, and none far outside."""
        outside = sum(not cell.inside for cell in self.cells)
        far = any(cell.far for cell in self.cells)
        return bool(self.cells) and not self.failed and outside <= self.allowed and not far


def finding_path(folder: Path, kind: type) -> Path:
    """Where a finding about a submission's folder lies: `leaderboard/checks/SLUG.json` or `reruns/SLUG.json`."""
    return folder.parent.parent / (CHECKS if kind is Check else RERUNS) / f"{folder.name}.json"


def read_finding(path: Path, kind: type) -> Any:
    """A finding, or None where there is none.

    Raises:
        UserError: a damaged file, or one of another slug.
    """
    if not path.is_file():
        return None
    content = loads_json(path.read_bytes(), str(path), floats=True)
    finding = records.convert(content, kind, str(path), "restore the file")
    if finding.slug != path.stem:
        raise UserError(f"{path}: slug {finding.slug!a} is not the file's name; restore the file")
    return finding


def write_finding(folder: Path, finding: Check | Rerun) -> Path:
    """Write a finding beside the entries, whole or not at all."""
    path = finding_path(folder, type(finding))
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(msgspec.to_builtins(finding), indent=1, sort_keys=True, allow_nan=False)
    records.write_atomic(path, text + "\n")
    return path


@dataclass(frozen=True)
class Submission:
    """An entry in its folder.

    records: of all cells. digest: SHA-256 over all files; maintainers' findings are about this very content.
    check, rerun: their findings, None where there is none or it is about other content.
    """

    folder: Path
    entry: Entry
    records: list[Record]
    digest: str = ""
    check: Check | None = None
    rerun: Rerun | None = None

    @property
    def slug(self) -> str:
        return self.entry.slug

    @property
    def level(self) -> int:
        """0 reported, 1 rescored, 2 re-probed, 3 retrained by the maintainers."""
        if self.rerun and self.rerun.passed and self.rerun.sandbox != "unsandboxed":
            return RETRAINED
        return self.check.level if self.check else REPORTED


# ---- reading ----


def read(folder: Path) -> Entry:
    """The entry of a folder, its schema checked and nothing more.

    Raises:
        UserError: no such file, too large, no strict JSON, not the schema, or values that no run writes.
    """
    path = folder / ENTRY
    if not path.is_file() or path.is_symlink():
        raise UserError(f"{path}: no such file; a submission is a folder that `bench submit` wrote")
    if path.stat().st_size > LARGEST:
        raise UserError(f"{path}: over {LARGEST} bytes")
    content = loads_json(path.read_bytes(), str(path), floats=True)
    typed_by_hand = ("slug", "name", "url", "contact", "supersedes")  # `text_faults` judges these
    rest = (
        {key: value for key, value in content.items() if key not in typed_by_hand} if isinstance(content, dict) else {}
    )
    if faults := list(dict.fromkeys(_value_faults(rest))):
        raise UserError("\n".join(f"{path}: {fault}" for fault in faults))
    return records.convert(content, Entry, str(path), "write it with `bench submit`")


def load(folder: Path) -> Submission:
    """A submission as ranking and page need it; `bench leaderboard check` judges whether it is in order.

    Raises:
        UserError: a damaged entry or finding, an unknown track, or a folder that is not called as its slug.
    """
    folder = Path(folder)
    entry = read(folder)
    if entry.slug != folder.name or not is_slug(entry.slug):
        raise UserError(f"{folder / ENTRY}: slug {entry.slug!r} must be the folder's name, small letters and hyphens")
    try:
        track = tracks.read(entry.track)
    except UserError as error:
        raise UserError(f"{folder}: {error}") from None
    current = digest(folder)
    check, rerun = (
        finding if (finding := read_finding(finding_path(folder, kind), kind)) and finding.entry == current else None
        for kind in (Check, Rerun)
    )
    return Submission(folder, entry, entry.records(track.strength), current, check, rerun)  # type: ignore[arg-type]


def folders(root: Path) -> list[Path]:
    """Every folder of a submission, by slug; a name with a dot is one that `bench submit` was stopped in.

    >>> folders(Path("no/such/folder"))
    []
    """
    if not root.is_dir():
        return []
    return [path for path in sorted(root.iterdir()) if path.name[0] != "." and (path / ENTRY).is_file()]


def digest(folder: Path) -> str:
    """SHA-256 over the relative names and bytes of all files of a submission."""
    lines = (f"{name}\0{of_file}\n" for name, of_file in file_digests(folder).items())
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def file_digests(folder: Path) -> dict[str, str]:
    """Relative name -> SHA-256 of every file of a submission."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def read_predictions(path: Path) -> dict[str, dict[predictions.Key, np.ndarray]]:
    """Cell's name -> (probe, layer, feature) -> (N,) classes.

    Raises:
        UserError: too large, no safetensors file, or other tensors than rows of classes.
    """
    by_cell: dict[str, dict] = {}
    for (cell, *key), row in predictions.read_rows(path, "CELL/PROBE/LAYER/FEATURE")[1].items():
        by_cell.setdefault(cell, {})[tuple(key)] = row
    return by_cell


def listed(folder: Path) -> dict[str, str]:
    """Relative name -> SHA-256 of every file but entry.json, which lists them."""
    return {name: of_file for name, of_file in file_digests(folder).items() if name != ENTRY}


def newer_versions(entries: Sequence[Entry]) -> tuple[dict[str, str], list[str]]:
    """Slug of each entry that a newer one supersedes -> slug of that one, and every impossible link as a sentence.

    Arguments:
        entries: of all tracks; where two supersede the same one, the fault is the later one's.
    """
    tracks_of = {entry.slug: entry.track for entry in entries}
    newer: dict[str, str] = {}
    faults = []
    for entry in entries:
        old = entry.supersedes
        if old is None:
            continue
        start = f"{entry.slug} supersedes {old[:80]!a}"
        if old not in tracks_of:
            faults.append(f"{start}, which is no entry here")
        elif tracks_of[old] != entry.track:
            faults.append(f"{start}, an entry of the track {tracks_of[old]!a}, not {entry.track!a}")
        elif old in newer:
            faults.append(f"{start}, which {newer[old]} supersedes already; supersede the newest one")
        else:
            newer[old] = entry.slug
    for slug in sorted(newer):
        following = [slug]
        while (following[-1] in newer) and len(following) <= len(newer):
            following.append(newer[following[-1]])
        if slug in following[1:]:
            faults.append(f"{slug} and the entries after it supersede each other in a circle; one of them must stand")
    return newer, faults


# ---- values and texts that strangers write ----

LONGEST = 500  # characters of a text
HIGHEST = 2**63 - 1  # of whole numbers: beyond it not every later calculation is possible
DEEPEST = 20  # objects and lists inside each other; our own entries have seven
# Printable ASCII and Latin letters with accents: no other alphabet, nothing that cannot be seen.
LETTER = "!-~\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u0130\u0132-\u0137\u0139-\u017e\u1e00-\u1eff"
PLAIN = re.compile(f"[{LETTER} ]{{0,{LONGEST}}}")
WORDS = f"[{LETTER}]+( [{LETTER}]+)*"  # single blanks, none at the ends
SLUG = r"(?=.{1,64}$)[a-z0-9]+(-[a-z0-9]+)*"
LINK = r"(?=.{1,300}$)https://[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+(:(\d{1,4}|[1-5]\d{4}))?([/?#][^\x00-\x20\x7f-\U0010ffff<>\"'\\`{}|^]*)?"
ALPHABET = "printable ASCII and Latin letters with accents, single blanks between words"
RULES = {
    "name": (rf"(?=.*[^\W_])(?=.{{2,60}}$){WORDS}", f"2 to 60 characters, one a letter or digit: {ALPHABET}"),
    "contact": (rf"(?=.{{2,200}}$){WORDS}", f"2 to 200 characters: {ALPHABET}"),
    "url": (LINK, "at most 300 visible ASCII characters, as https://example.org/paper, without a user's name"),
    "slug": (SLUG, "small letters, digits and single hyphens, at most 64 characters"),
    "supersedes": (SLUG, "small letters, digits and single hyphens, at most 64 characters"),
}


def text_faults(entry: Entry) -> list[str]:
    """What is wrong with the texts that a submitter chose, each as a sentence."""
    values = {key: getattr(entry, key) for key in RULES}
    return [
        f"{key} {value[:80]!a}: must be {rule}"
        for key, (pattern, rule) in RULES.items()
        if (value := values[key]) is not None and not re.fullmatch(pattern, value)
    ]


def is_slug(text: str) -> bool:
    """Whether a text may be an entry's folder.

    >>> is_slug("simclr-quick"), is_slug("-simclr"), is_slug("../simclr")
    (True, False, False)
    """
    return bool(re.fullmatch(SLUG, text))


def is_link(url: str) -> bool:
    """Whether a text may be a link: https with a host, and no name or password before it.

    >>> is_link("https://example.org/a"), is_link("javascript:alert(1)"), is_link("https://me@example.org")
    (True, False, False)
    """
    return bool(re.fullmatch(LINK, url))


def skeleton(name: str) -> str:
    """A name without case, accents, blanks and marks: two names of one skeleton may be taken for each other.

    >>> skeleton("Sim-CLR") == skeleton("simclr") == skeleton("Sím CLR")
    True
    """
    return "".join(letter for letter in unicodedata.normalize("NFKD", name).casefold() if letter.isalnum())


def visible(sentence: str) -> str:
    """A sentence that may quote foreign text, for a terminal: what is not printable stands as its escape.

    >>> print(visible("a \\x1b[31m\\nb, Café"))
    a \\x1b[31m\\nb, Café
    """
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in sentence)


def _value_faults(value: Any, depth: int = 0) -> Iterator[str]:
    """Texts, numbers and nesting that no run writes, anywhere in a JSON value."""
    if depth > DEEPEST:
        yield f"holds objects or lists nested more than {DEEPEST} deep"
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _value_faults(key, depth)
            yield from _value_faults(inner, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            yield from _value_faults(inner, depth + 1)
    elif isinstance(value, int) and abs(value) > HIGHEST:
        yield f"holds a whole number beyond {HIGHEST}"
    elif isinstance(value, str) and len(value) > LONGEST:
        yield f"the text {value[:40]!a}... has {len(value)} characters, at most {LONGEST} are allowed"
    elif isinstance(value, str) and not PLAIN.fullmatch(value):
        yield f"the text {value[:40]!a} holds other characters than {ALPHABET}"
