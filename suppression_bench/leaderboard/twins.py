"""Entries that are, or look like, another one: the same cells, the same numbers, a name that the eye takes for another's."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from generators import strict_json
from generators.dataset import UserError
from suppression_bench.leaderboard.submission import FORM, RECORDS, read_form, strength_text
from suppression_bench.leaderboard.texts import skeleton
from suppression_bench.results import record as records

FEWEST = 2  # equal cells that are no chance
ERRORS = 10  # two cells with so many do not make the same ones by chance


@dataclass(frozen=True)
class Known:
    """What is compared of an entry that is there.

    form: its `submission.json`.
    ids: of its cells.
    prints: (strength, seed) -> hash of all confusion matrices of a cell; cells that are alike by nature are left out.
    """

    form: dict
    ids: set[str]
    prints: dict[tuple[str, int], str]


def known(root: Path, without: str = "") -> list[Known]:
    """All entries below a folder that can be read, but one; the others are said by their own check.

    Arguments:
        root: the folder of submissions.
        without: the slug of the entry that is being checked.
    """
    found = []
    for folder in sorted(Path(root).iterdir()) if Path(root).is_dir() else []:
        if folder.name == without or folder.is_symlink() or not (folder / FORM).is_file():
            continue
        try:
            form = read_form(folder)
            own = [records.read(path) for path in sorted((folder / RECORDS).glob("*.json")) if not path.is_symlink()]
            found.append(Known(form, {record["id"] for record in own}, prints(own)))
        except UserError:
            continue  # its own check says why
    return found


def prints(found: list[dict]) -> dict[tuple[str, int], str]:
    """(strength, seed) -> hash of a cell's confusion matrices, where some probe makes errors of more than one kind."""
    made = {}
    for record in found:
        if any(_says_something(probe["confusion"]) for probe in record["probes"]):
            parts = sorted(
                [probe["probe"], probe["layer"], probe["feature"], probe["confusion"]] for probe in record["probes"]
            )
            text = strict_json.dumps(parts)
            made[strength_text(record), record["spec"].get("seed")] = hashlib.sha256(text.encode()).hexdigest()
    return made


def _says_something(confusion: list[list[int]]) -> bool:
    # Probes that say the same of all samples are all alike, and so are those that are (nearly) always right.
    wrong = sum(sum(row) - row[i] for i, row in enumerate(confusion))
    return wrong >= ERRORS and sum(any(column) for column in zip(*confusion, strict=True)) > 1


def faults(form: dict, own: list[dict], others: list[Known]) -> list[str]:
    """What makes an entry a twin of another one, or of itself.

    Arguments:
        form: `submission.json`.
        own: its records.
        others: the entries that are there.
    """
    found = _own_twins(own)
    shared, ids = prints(own), {record["id"] for record in own}
    family = _family(form, others)
    for other in others:
        slug = other.form["slug"]
        if slug in family:
            continue  # a correction may keep the name, and every number that was right
        if skeleton(slug) == skeleton(form["slug"]):
            found.append(f"slug {form['slug']} looks like the entry {slug}'s; take another one")
        if other.form["track"] == form["track"] and skeleton(other.form["name"]) == skeleton(form["name"]):
            found.append(
                f"name {form['name']!a} looks like the entry {slug}'s, {other.form['name']!a}; take another one"
            )
        if ids & other.ids:
            found.append(
                f"{len(ids & other.ids)} of its cells are cells of the entry {slug}: same settings, same seeds"
            )
            continue
        both = shared.keys() & other.prints.keys()
        equal = [place for place in both if shared[place] == other.prints[place]]
        if len(equal) >= FEWEST and 2 * len(equal) > len(both) and other.form["track"] == form["track"]:
            found.append(f"{len(equal)} of its cells have the very confusion matrices of the entry {slug}")
    return found + _superseding(form, others)


def _family(form: dict, others: list[Known]) -> set[str]:
    """The slugs of an entry's earlier and later versions."""
    links = {(one["slug"], one["supersedes"]) for one in [form, *(other.form for other in others)] if one["supersedes"]}
    found = {form["slug"]}
    while more := {slug for link in links if set(link) & found for slug in link} - found:
        found |= more
    return found


def _own_twins(own: list[dict]) -> list[str]:
    found, seen = [], {}
    for (strength, seed), text in sorted(prints(own).items(), key=str):
        if (first := seen.setdefault((strength, text), seed)) != seed:
            found.append(f"strength {strength}: seed {seed} has the very confusion matrices of seed {first}")
    return found


def _superseding(form: dict, others: list[Known]) -> list[str]:
    wanted = form["supersedes"]
    if wanted is None:
        return []
    old = [other.form for other in others if other.form["slug"] == wanted]
    if not old:
        return [f"supersedes {wanted[:80]!a}, which is no entry here"]
    found = (
        [] if old[0]["track"] == form["track"] else [f"supersedes {wanted}, which is on the track {old[0]['track']}"]
    )
    by = [other.form["slug"] for other in others if other.form["supersedes"] == wanted]
    return found + [f"supersedes {wanted}, which {slug} has superseded already" for slug in by]
