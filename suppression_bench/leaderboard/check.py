"""Is a submission in order, and which level does it reach? Nothing in it is imported, executed or unpickled."""

import os
import re
import stat
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from generators import catalog
from generators.dataset import UserError
from suppression_bench import config
from suppression_bench.cell import strength_text, value_text
from suppression_bench.leaderboard import entry as entries
from suppression_bench.leaderboard import tracks, twins
from suppression_bench.leaderboard.entry import (
    ENCODERS,
    ENTRY,
    FILES,
    LOSS,
    METHOD,
    PREDICTIONS,
    Entry,
    cell_name,
)
from suppression_bench.leaderboard.submission import imports, reads_labels, source_faults, source_of
from suppression_bench.leaderboard.tracks import Official, Track
from suppression_bench.results import predictions
from suppression_bench.results.record import Record

MOST = 40  # faults of one submission that are printed
LONGEST = 400  # characters of each
PACKAGES = config.PACKAGES
PLUGIN_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,59}")


@dataclass
class Report:
    """What a check has found.

    slug: of the submission, or its folder's name.
    faults: sentences; a submission with any is refused.
    notes: what a maintainer should know.
    level: that it reaches if it has no faults.
    reason: why it reaches no higher one.
    """

    slug: str
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    level: int = entries.REPORTED
    reason: str = ""


def check(folder: Path, accepted: Path, sources: dict[str, str] | None = None) -> Report:
    """Every check that needs no training; all faults at once.

    Arguments:
        folder: of the submission.
        accepted: the folder of all entries, among which this one may already be.
        sources: option -> source of the data with its folder, as "mnist:DIR".
    """
    report = _check(Path(folder), Path(accepted), sources)
    report.notes = list(map(entries.visible, report.notes))
    report.reason = entries.visible(report.reason)
    sentences = dict.fromkeys(map(entries.visible, report.faults))
    report.faults = _few([fault if len(fault) <= LONGEST else f"{fault[:LONGEST]}..." for fault in sentences])
    return report


def _few(faults: list[str]) -> list[str]:
    return faults[:MOST] + ([f"and {len(faults) - MOST} more faults"] if len(faults) > MOST else [])


def _check(folder: Path, accepted: Path, sources: dict[str, str] | None) -> Report:
    report = Report(folder.name)
    report.faults += file_faults(folder)
    if report.faults:
        return report  # links and strange files are not even opened
    unreadable = [fault for kind in FILES for fault in source_faults(folder, kind)]
    report.faults += unreadable
    try:
        entry = entries.read(folder)
    except UserError as error:
        report.faults += [line.replace(f"{folder}/", "") for line in str(error).split("\n")]
        return report
    report.faults += digest_faults(folder, entry) + entries.text_faults(entry)
    if entry.slug != folder.name:
        report.faults.append(f"slug {entry.slug[:80]!a} is not the folder's name")
    report.faults += _immutable(folder, accepted)
    faults = plugin_faults(folder, entry)
    report.faults += faults
    if not unreadable:
        report.notes += [
            f"{name} imports {', '.join(imports(text)) or 'nothing'}: read it before it is run"
            for kind, name in entry.own_files.items()
            if (text := source_of(folder, kind)) is not None
        ]
    if not faults and not unreadable:
        if not entry.label_use and reads_labels(entry.setting, folder):
            report.faults.append("label_use is false, but its method or loss reads labels")
        method, digests = entry.setting.method, {code.method for code in entry.code}
        if method.file is None and digests != {catalog.file_digest(PACKAGES["method"], method.name)}:
            report.notes.append(f"the package's method {method.name} has changed since it was run")
    try:
        track = tracks.read(entry.track)
    except UserError as error:
        report.faults.append(str(error))
        return report
    records = entry.records(track.strength)
    report.faults += twins.faults(entry, records, twins.accepted_entries(accepted, entry.slug))
    report.faults += tracks.faults(track, entry.setting) + cell_faults(records, track)
    _rescore(report, folder, records, track, sources)
    if len(entry.code) > 1:
        versions = ", ".join(sorted({code.sources[:12] for code in entry.code}))
        report.notes.append(f"its cells were run by {len(entry.code)} versions of the program ({versions})")
    if entry.supersedes:
        report.notes.append(f"it supersedes {entry.supersedes[:80]!a}: see that both are of the same authors")
    return report


def _immutable(folder: Path, accepted: Path) -> list[str]:
    previous = accepted / folder.name
    if not previous.is_dir() or previous.resolve() == folder.resolve():
        return []
    if entries.digest(previous) == entries.digest(folder):
        return []
    return ["an entry of this slug is there, and entries never change: submit the correction with --supersedes"]


# ---- files ----

CELL = re.compile(r"[a-z_]{1,40}=[0-9+]{1,40}-seed=(0|[1-9][0-9]{0,8})")  # the name of a cell's weights
LARGEST = {  # bytes; of ENCODERS, of each
    ENTRY: entries.LARGEST,
    PREDICTIONS: 50_000_000,
    METHOD: 100_000,
    LOSS: 100_000,
    ENCODERS: 60_000_000,
}
MOST_FILES = 3000
LARGEST_ALL = 2_000_000_000


def file_faults(folder: Path) -> list[str]:
    """What is wrong with the files of a folder, by name, kind and size; none is opened.

    >>> file_faults(Path("no/such/folder"))
    ['it is no folder']
    """
    if folder.is_symlink() or not folder.is_dir():
        return ["it is no folder"]
    faults, total = [], 0
    for count, (name, file) in enumerate(_walk(folder), 1):
        if count > MOST_FILES:
            return [f"it holds more than {MOST_FILES} files"]
        status = file.stat(follow_symlinks=False)
        total += status.st_size
        if file.is_symlink():
            faults.append(f"{name!a} is a link; only plain files are allowed")
        elif not stat.S_ISREG(status.st_mode):
            faults.append(f"{name!a} is no plain file")
        elif not is_allowed(name):
            faults.append(f"{name!a} is no file of a submission")
        elif status.st_size > (most := LARGEST[name.partition("/")[0]]):
            faults.append(f"{name} has {status.st_size} bytes, at most {most} are allowed")
    if not (folder / ENTRY).is_file():
        faults.append(f"{ENTRY} is missing")
    if total > LARGEST_ALL:
        faults.append(f"its files have {total} bytes together, at most {LARGEST_ALL} are allowed")
    return faults


def _walk(folder: Path, above: str = "") -> Iterator[tuple[str, os.DirEntry]]:
    # os.scandir and not rglob: a link to a folder is shown as a link and never entered.
    with os.scandir(folder) as files:
        for file in sorted(files, key=lambda file: file.name):
            name = above + file.name
            if file.is_dir(follow_symlinks=False) and name == ENCODERS:
                yield from _walk(Path(file.path), f"{name}/")
            else:
                yield name, file


def is_allowed(name: str) -> bool:
    """Whether a relative name may stand in a submission.

    >>> is_allowed("entry.json"), is_allowed("encoders/bits=4-seed=0.safetensors"), is_allowed("setup.py")
    (True, True, False)
    """
    part, slash, rest = name.partition("/")
    if not slash:
        return name in (ENTRY, PREDICTIONS, METHOD, LOSS)
    stem, ending = rest.removesuffix(".safetensors"), rest.endswith(".safetensors")
    return part == ENCODERS and ending and bool(CELL.fullmatch(stem))


def digest_faults(folder: Path, entry: Entry) -> list[str]:
    """Where the files are not those that entry.json lists."""
    present = entries.listed(folder)
    faults = [f"{name} is not listed in {ENTRY}" for name in present if name not in entry.files]
    faults += [f"{name[:100]!a} is listed in {ENTRY} and missing" for name in entry.files if name not in present]
    faults += [
        f"{name} is not the file that {ENTRY} lists (SHA-256 {present[name][:12]}, listed {entry.files[name][:12]})"
        for name in present.keys() & entry.files.keys()
        if present[name] != entry.files[name]
    ]
    return faults


def read_changed(path: Path) -> list[str]:
    """The names of a file that `git diff --name-only -z` wrote.

    Raises:
        UserError: no such file, or names that are no UTF-8.
    """
    try:
        return [name for name in path.read_bytes().decode().split("\0") if name]
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not a list of names separated by zero bytes ({error})") from None


def judge_changed(files: list[str], root: Path = entries.ROOT) -> tuple[str | None, list[str]]:
    """The slug of the one submission that a pull request's files belong to, and what is wrong with them.

    Arguments:
        files: names from the repository's root.
        root: the folder of entries in it.

    >>> judge_changed(["leaderboard/entries/mine/entry.json"])
    ('mine', [])
    >>> judge_changed(["leaderboard/entries/mine/entry.json", "setup.py"])[1]
    ["the pull request changes 'setup.py'; a submission's pull request only adds files of its own folder"]
    """
    prefix, faults, slugs = f"{root.as_posix()}/", [], {}
    for name in files:
        slug, slash, rest = name.removeprefix(prefix).partition("/")
        if name.startswith(prefix) and slash and entries.is_slug(slug) and is_allowed(rest):
            slugs[slug] = True
        else:
            faults.append(
                f"the pull request changes {name[:200]!a}; a submission's pull request only adds files of its own folder"
            )
    if len(slugs) > 1:
        faults.append(
            f"the pull request changes the folders of {len(slugs)} submissions ({', '.join(slugs)}); one at a time"
        )
    if not files:
        faults.append("the pull request changes no file")
    return next(iter(slugs)) if len(slugs) == 1 else None, _few(faults)


# ---- the method's own file: read by people, parsed here, run in a sandbox only ----


def plugin_faults(folder: Path, entry: Entry) -> list[str]:
    """Where the method's and the loss's own files are not those of the setting."""
    faults = []
    for kind, plugin in (("method", entry.setting.method), ("loss", entry.setting.loss)):
        name, package = FILES[kind], PACKAGES[kind]
        is_packages = plugin is not None and plugin.name in catalog.names(package)
        if plugin is None or plugin.file is None:
            faults += [f"{name} is there, the setting names no {kind} of its own"] if (folder / name).exists() else []
            if plugin is not None and not is_packages:
                faults.append(f"{kind} {plugin.name[:80]!a} is none of the package's, and names no file of its own")
            continue
        if is_packages:
            faults.append(
                f"{kind} {plugin.name!a} is called like one of the package's; rename its file and run it again"
            )
        if not PLUGIN_NAME.fullmatch(plugin.name):
            faults.append(f"{kind} {plugin.name[:80]!a}: a file's name is small letters, digits and underscores")
        if plugin.file != entry.files.get(name):
            faults.append(f"{kind}: {name} is missing or not the file that the setting names")
    digests = {code.method for code in entry.code}
    if len(digests) > 1 or entry.setting.method.file not in (None, *digests):
        faults.append("method: the digest of its file is not the one in the cells' code")
    return faults


# ---- cells: every strength and seed once, all probes ----


def cell_faults(records: list[Record], track: Track) -> list[str]:
    """What is wrong with the cells, whose schema is in order."""
    if not records:
        return ["it has no cell"]
    faults = []
    for record in records:
        name, strength = cell_name(record), record.spec.strength.value if record.spec.strength else None
        digest = track.digest(strength_text(record.spec.strength))
        if not track.has(strength):
            faults.append(f"{name}: {track.strength} {strength!r} is not in the track's grid {track.grid}")
        elif digest and record.data.digest != digest:
            faults.append(f"{name}: its data {record.data.digest[:12]} are not the track's, {digest[:12]}")
        if not record.is_ok:
            faults.append(f"{name}: its status is {record.run.status}, only finished cells can be ranked")
        elif track.has(strength):
            faults += [f"{name}: {fault}" for fault in _probe_faults(record, track)]
    return faults + _seed_faults(records, track) + _split_faults(records)


def _probe_faults(record: Record, track: Track) -> list[str]:
    probe, features = record.spec.probe, track.features(record.spec.strength.value if record.spec.strength else None)
    trained = [kind for kind in probe.kinds if kind != "online"]
    expected = {(kind, layer, feature) for kind in trained for layer in probe.layers for feature in features}
    present = Counter((entry.probe, entry.layer, entry.feature) for entry in record.probes)
    # An untrained network has no online probe; the others have one of the encoder alone.
    online = {("online", "encoder", feature) for feature in features} if "online" in probe.kinds else set()
    faults = [f"the probe {' '.join(key)} is missing" for key in sorted(expected - present.keys())]
    faults += [f"the probe {' '.join(key)} stands twice" for key, count in present.items() if count > 1]
    extra = sorted(present.keys() - expected - online)
    return faults + [f"the probe {' '.join(key)[:100]!a} is none of the track's" for key in extra]


def _seed_faults(records: list[Record], track: Track) -> list[str]:
    faults, seeds = [], {}
    for record in records:
        seeds.setdefault(strength_text(record.spec.strength), []).append(record.spec.seed)
    grid = [value_text(value) for value in track.grid]
    every = sorted({seed for present in seeds.values() for seed in present})
    faults += [
        f"{track.strength}={value}: no cell, the track asks for each of {', '.join(grid)}"
        for value in grid
        if value not in seeds
    ]
    if len(every) < track.seeds.least:
        faults.append(f"it has {len(every)} seeds, the track {track.name} asks for at least {track.seeds.least}")
    if every != list(range(len(every))):
        few = ", ".join(map(str, every[:12])) + (" and more" if len(every) > 12 else "")
        faults.append(
            f"its seeds are {few}; they must be 0, 1, 2 and so on without a gap: to choose seeds is to choose on test data"
        )
    for value, present in seeds.items():
        what = f"{track.strength}={value[:40]}"
        twice = sorted(seed for seed, count in Counter(present).items() if count > 1)
        missing = sorted(set(every) - set(present))
        faults += [f"{what}: seed {seed} stands twice" for seed in twice[:5]]
        faults += [f"{what}: seed {seed} is missing, other strengths have it" for seed in missing[:5]]
    return faults


def _split_faults(records: list[Record]) -> list[str]:
    # One test split has one number of samples of each class, whoever looks at it.
    faults, counts_of = [], {}
    for record in records:
        for probe in record.probes:
            key = (*probe.splits, probe.feature, record.data.digest)
            counts = [sum(row) for row in probe.confusion]
            if counts_of.setdefault(key, counts) != counts:
                faults.append(
                    f"{cell_name(record)}: the confusion matrix of {probe.feature} by {probe.probe} has other class counts "
                    "than in other cells on the same test split"
                )
    return faults


# ---- predictions, counted against the official labels ----


def _rescore(report: Report, folder: Path, records: list[Record], track: Track, sources) -> None:
    if not track.digests:
        report.notes.append(f"the data of the track {track.name} are {tracks.NOT_PINNED}: no digest was compared")
    if not (folder / PREDICTIONS).is_file():
        report.reason = "it brings no predictions"
        return
    try:
        rows = entries.read_predictions(folder / PREDICTIONS)
    except UserError as error:
        report.faults.append(str(error).replace(f"{folder}/", ""))
        return
    official, faults = Official(track, sources), []
    for record in records:
        name, strength = cell_name(record), record.spec.strength.value if record.spec.strength else None
        keyed = rows.pop(name, None)
        if not track.has(strength):
            continue  # said already
        if keyed is None:
            faults.append(f"{name}: no predictions; all cells have some, or none has")
            continue
        try:
            labels = official.labels(strength)
        except (UserError, OSError) as error:
            report.reason = f"the data's labels cannot be had here ({error})"
            continue
        features = track.features(strength)
        wrong = [
            p for p in record.probes if p.feature not in features or official.splits(strength, p.feature) != p.splits
        ]
        faults += [f"{name}: {probe.feature[:40]!a} is not probed on {list(probe.splits)}" for probe in wrong]
        faults += [f"{name}: {fault}" for fault in ([] if wrong else predictions.rescore(record.probes, keyed, labels))]
    faults += [f"{PREDICTIONS}: {name[:80]!a} is no cell of the entry" for name in rows]
    report.faults += faults
    if not faults and not report.reason:
        report.level = entries.RESCORED
        report.reason = "features are not probed again by this check"
