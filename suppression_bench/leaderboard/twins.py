"""Twins: entries that are, or look like, another one - the same cells, the same numbers, the same name to the eye."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from generators.dataset import UserError
from generators.files import dumps_json
from suppression_bench.cell import settings_key, strength_text, value_text
from suppression_bench.leaderboard import entry as entries
from suppression_bench.leaderboard import tracks
from suppression_bench.leaderboard.entry import Entry, skeleton
from suppression_bench.results.record import Record

FEWEST = 2  # equal cells that are no chance
ERRORS = 10  # two cells with so many do not make the same ones by chance


@dataclass(frozen=True)
class Accepted:
    """What is compared of an accepted entry.

    cells: (hash of the setting, strength, seed).
    prints: (strength, seed) -> hash of all confusion matrices of a cell; cells that are alike by nature are left out.
    """

    entry: Entry
    cells: set[tuple]
    prints: dict[tuple[str, int], str]


def accepted_entries(root: Path, without: str = "") -> list[Accepted]:
    """All entries below a folder that can be read, but one; the others' own check says why they cannot.

    Arguments:
        root: the folder of entries.
        without: the slug of the entry that is being checked.
    """
    accepted = []
    for folder in entries.folders(root):
        if folder.name == without or folder.is_symlink():
            continue
        try:
            entry = entries.read(folder)
            records = entry.records(tracks.read(entry.track).strength)
        except UserError:
            continue
        accepted.append(Accepted(entry, _cells(entry), prints(records)))
    return accepted


def _cells(entry: Entry) -> set[tuple]:
    key = settings_key(entry.setting)
    return {(key, value_text(cell.strength), cell.seed) for cell in entry.cells}


def prints(records: list[Record]) -> dict[tuple[str, int], str]:
    """(strength, seed) -> hash of a cell's confusion matrices, where some probe makes errors of more than one kind."""
    hashes = {}
    for record in records:
        if any(_says_something(probe.confusion) for probe in record.probes):
            parts = sorted([probe.probe, probe.layer, probe.feature, probe.confusion] for probe in record.probes)
            text = dumps_json(parts)
            hashes[strength_text(record.spec.strength), record.spec.seed] = hashlib.sha256(text.encode()).hexdigest()
    return hashes


def _says_something(confusion: list[list[int]]) -> bool:
    # Probes that say the same of all samples are all alike, and so are those that are (nearly) always right.
    wrong = sum(sum(row) - row[position] for position, row in enumerate(confusion))
    return wrong >= ERRORS and sum(any(column) for column in zip(*confusion, strict=True)) > 1


def faults(entry: Entry, records: list[Record], others: list[Accepted]) -> list[str]:
    """What makes an entry a twin of another one, or of itself.

    Arguments:
        entry: that is checked.
        records: its cells.
        others: the accepted entries.
    """
    matrices, cells, family = prints(records), _cells(entry), _family(entry, others)
    sentences = _own_twins(matrices)
    for rival in others:
        slug = rival.entry.slug
        if slug in family:
            continue  # a correction may keep the name, and every number that was right
        if skeleton(slug) == skeleton(entry.slug):
            sentences.append(f"slug {entry.slug} looks like the entry {slug}'s; take another one")
        if rival.entry.track != entry.track:
            continue
        if skeleton(rival.entry.name) == skeleton(entry.name):
            sentences.append(
                f"name {entry.name!a} looks like the entry {slug}'s, {rival.entry.name!a}; take another one"
            )
        if shared := cells & rival.cells:
            sentences.append(f"{len(shared)} of its cells are cells of the entry {slug}: same settings, same seeds")
            continue
        both = matrices.keys() & rival.prints.keys()
        equal = [key for key in both if matrices[key] == rival.prints[key]]
        if len(equal) >= FEWEST and 2 * len(equal) > len(both):
            sentences.append(f"{len(equal)} of its cells have the very confusion matrices of the entry {slug}")
    _, impossible = entries.newer_versions([*(rival.entry for rival in others), entry])
    return sentences + [fault for fault in impossible if fault.startswith(f"{entry.slug} ")]


def _family(entry: Entry, others: list[Accepted]) -> set[str]:
    """The slugs of an entry's earlier and later versions."""
    every = [entry, *(rival.entry for rival in others)]
    links = {(version.slug, version.supersedes) for version in every if version.supersedes}
    family = {entry.slug}
    while more := {slug for link in links if set(link) & family for slug in link} - family:
        family |= more
    return family


def _own_twins(matrices: dict[tuple[str, int], str]) -> list[str]:
    faults, seen = [], {}
    for (strength, seed), text in sorted(matrices.items()):
        if (first := seen.setdefault((strength, text), seed)) != seed:
            faults.append(f"strength {strength}: seed {seed} has the very confusion matrices of seed {first}")
    return faults
