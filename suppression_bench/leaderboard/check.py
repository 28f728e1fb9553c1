"""Is a submission in order, and which level does it reach? Nothing in it is imported, executed or unpickled."""

from dataclasses import dataclass, field
from pathlib import Path

from generators import catalog
from generators.dataset import UserError
from suppression_bench.leaderboard import cells, code, levels, shape, texts, tracks, twins
from suppression_bench.leaderboard import folder as folders
from suppression_bench.leaderboard.official import Official
from suppression_bench.leaderboard.submission import (
    ENCODERS,
    LOSS,
    METHOD,
    PREDICTIONS,
    RECIPE,
    RECORDS,
    digest,
    read_form,
)
from suppression_bench.leaderboard.tracks import Track
from suppression_bench.results import predictions
from suppression_bench.results import record as records

MOST = 40  # faults of one submission that are printed
LONGEST = 400  # characters of each


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
    level: int = levels.REPORTED
    reason: str = ""


def check(folder: Path, accepted: Path, sources: dict[str, str] | None = None) -> Report:
    """Every check that needs no training; all faults at once.

    Arguments:
        folder: of the submission.
        accepted: the folder of all entries, among which this one may already be.
        sources: option -> source of the data with its place, as "mnist:DIR".
    """
    report = _check(Path(folder), Path(accepted), sources)
    report.notes = list(map(texts.visible, report.notes))
    report.reason = texts.visible(report.reason)
    found = map(texts.visible, report.faults)
    shown = [fault if len(fault) <= LONGEST else f"{fault[:LONGEST]}..." for fault in dict.fromkeys(found)]
    report.faults = shown[:MOST] + ([f"and {len(shown) - MOST} more faults"] if len(shown) > MOST else [])
    return report


def _check(folder: Path, accepted: Path, sources: dict[str, str] | None) -> Report:
    report = Report(folder.name)
    report.faults += folders.faults(folder)
    if report.faults:
        return report  # links and strange files are not even opened
    try:
        form = read_form(folder)
    except UserError as error:
        report.faults += str(error).split("\n")
        return report
    report.faults += folders.digest_faults(folder, form) + texts.faults(form)
    if form["slug"] != folder.name:
        report.faults.append(f"slug {form['slug'][:80]!a} is not the folder's name")
    report.faults += _immutable(folder, accepted)
    named, more = _read_records(folder)
    report.faults += more + _code_faults(folder, form)
    try:
        track = tracks.read(form["track"])
    except UserError as error:
        report.faults.append(str(error))
        track = None
    if named and not more:
        others = twins.known(accepted, form["slug"])
        _check_cells(report, folder, form, named, others)
        if track:
            report.faults += cells.faults(named, track)
            _rescore(report, folder, named, track, sources)
    if form["supersedes"]:
        report.notes.append(f"it supersedes {form['supersedes'][:80]!a}: see that both are of the same authors")
    return report


def _immutable(folder: Path, accepted: Path) -> list[str]:
    old = accepted / folder.name
    if not old.is_dir() or old.resolve() == folder.resolve() or digest(old) == digest(folder):
        return []
    return ["an entry of this slug is there, and entries never change: submit the correction with --supersedes"]


def _read_records(folder: Path) -> tuple[dict[str, dict], list[str]]:
    found, faults = {}, []
    for path in sorted((folder / RECORDS).glob("*.json")):
        try:
            record = records.read(path)
            faults += [f"{RECORDS}/{path.name}: {fault}" for fault in shape.faults(record)]
            found[path.stem] = record
        except UserError as error:
            faults.append(str(error).replace(f"{folder}/", ""))
        except (
            ArithmeticError,
            ValueError,
            TypeError,
            KeyError,
            RecursionError,
        ) as error:  # numbers that no program wrote
            faults.append(f"{RECORDS}/{path.name}: not a valid record ({type(error).__name__})")
    return found, faults if found or faults else ["it has no record"]


def _code_faults(folder: Path, form: dict) -> list[str]:
    found = []
    for name in (METHOD, LOSS):
        text = _text(folder / name)
        if text is None and (folder / name).is_file():
            found.append(f"{name}: is no UTF-8 text")
        found += code.faults(text, name) if text is not None else []
    if not found and reads_labels(form, folder) and not form["label_use"]:
        found.append("label_use is false, but its method or loss reads labels")
    return found


def _text(path: Path) -> str | None:
    try:
        return path.read_bytes().decode() if path.is_file() else None
    except UnicodeDecodeError:
        return None


def reads_labels(form: dict, folder: Path) -> bool:
    """Whether an entry's method or loss reads labels: by the package's own declaration, or by the text of its own file.

    Arguments:
        form: with the keys `method` and `loss`.
        folder: of the submission.
    """
    for kind, name, package in (("method", METHOD, cells.METHODS), ("loss", LOSS, cells.LOSSES)):
        text = _text(folder / name)
        if text is not None and code.uses_labels(text):
            return True
        known = text is None and form[kind] and form[kind]["name"] in catalog.names(package)
        if known and _declares_labels(kind, form[kind]["name"]):
            return True
    return False


def _declares_labels(kind: str, name: str) -> bool:
    # Of the package's own plug-ins, which may be imported.
    if kind == "loss":
        return catalog.load_function(cells.LOSSES, name).needs_labels
    from suppression_bench.method import Method

    return catalog.load_class(cells.METHODS, name, Method).needs_labels


def _check_cells(report: Report, folder: Path, form: dict, named: dict[str, dict], others: list) -> None:
    own = list(named.values())
    faults, notes = cells.plugin_faults(form, own, folders.listed(folder))
    report.faults += faults + twins.faults(form, own, others)
    report.notes += notes
    if not faults and (folder / RECIPE).read_bytes() != cells.recipe_text(own).encode():
        report.faults.append(f"{RECIPE} does not say what the records say")
    versions = sorted({record["code"]["sources"][:12] for record in own})
    if len(versions) > 1:
        report.notes.append(f"its cells were run by {len(versions)} versions of the program ({', '.join(versions)})")
    for kind in (PREDICTIONS, ENCODERS):
        there = {path.stem for path in (folder / kind).glob("*.safetensors")}
        if there and there != named.keys():
            report.faults.append(f"{kind}: {len(there)} files for {len(named)} cells; all cells have one, or none has")


def _rescore(report: Report, folder: Path, named: dict[str, dict], track: Track, sources) -> None:
    if not track.digests:
        report.notes.append(f"the data of the track {track.name} are {tracks.NOT_PINNED}: no digest was compared")
    if not (folder / PREDICTIONS).is_dir():
        report.reason = "it brings no predictions"
        return
    official, faults = Official(track, sources), []
    for name, record in named.items():
        path = folder / PREDICTIONS / f"{name}.safetensors"
        strength = (record["spec"]["strength"] or {}).get("value")
        if not path.is_file() or not tracks.has(track, strength):
            continue  # said already
        try:
            identity, found = predictions.read(path)
            if identity != record["id"]:
                faults.append(f"{PREDICTIONS}/{path.name}: it is of another cell")
        except UserError as error:
            faults.append(str(error).replace(f"{folder}/", ""))
            continue
        try:
            labels = official.labels(strength)
        except (UserError, OSError) as error:
            report.reason = f"the data's labels cannot be had here ({error})"
            continue
        wrong = [probe for probe in record["probes"] if not _is_official(official, strength, probe)]
        faults += [f"{name}: {probe['feature'][:40]!a} is not probed on {probe['splits']}" for probe in wrong]
        faults += [f"{name}: {fault}" for fault in ([] if wrong else predictions.rescore(record, found, labels))]
    report.faults += faults
    if not faults and not report.reason:
        report.level = levels.RESCORED
        report.reason = "features are not probed again by this check"


def _is_official(official: Official, strength, probe: dict) -> bool:
    known = official.track.features(strength)
    return probe["feature"] in known and official.splits(strength, probe["feature"]) == probe["splits"]
