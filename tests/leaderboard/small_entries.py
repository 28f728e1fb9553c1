"""Hand-made submissions of the leaderboard, in memory or as folders."""

from pathlib import Path

import msgspec
from small_cells import make_record, make_spec, probe_entry

from suppression_bench.cell import PlugIn
from suppression_bench.leaderboard import entry as entries
from suppression_bench.leaderboard import rank, tracks
from suppression_bench.leaderboard.entry import Check, Rerun, Submission
from suppression_bench.leaderboard.submission import Request, make_entry
from suppression_bench.results.record import Record

GRID = [0, 4, 8]
TRACK = msgspec.structs.replace(tracks.read("quick"), grid=GRID)
ENVIRONMENT = {
    "python": "3.11.7",
    "torch": "2.15.0",
    "numpy": "2.4.6",
    "platform": "Linux-x86_64",
    "device": "cpu",
    "cpu_capability": "AVX512",
    "threads": 1,
}
CODE = {"version": "0.1.0", "commit": "c" * 40, "sources": "5" * 64, "method": "e" * 64}


def cells(
    right: dict, seeds=(0, 1, 2), method: str = "simclr", bit: int = 96, jitter: int = 1, **changes
) -> list[Record]:
    """A record per strength and seed.

    Arguments:
        right: strength -> correct digits of 100 at seed 0; each further seed has `jitter` more.
        bit: correct bits of 100; all bits have the same.
    """
    records = []
    for strength, correct in right.items():
        for position, seed in enumerate(seeds):
            probes = [probe_entry(correct + jitter * position)]
            probes += [probe_entry(bit, feature=f"bit{n:02d}", classes=2) for n in range(strength)]
            records.append(make_record(probes, method, seed, strength, environment=ENVIRONMENT, code=CODE, **changes))
    return records


def rerun(slug: str, **changes) -> Rerun:
    """A finding of one number inside its interval."""
    number = {
        "strength": "0",
        "seed": 0,
        "fresh": False,
        "feature": "digit",
        "correct": 5,
        "n": 10,
        "claimed": [5, 6],
        "mean": 0.5,
        "low": 0.4,
        "high": 0.6,
        "inside": True,
        "far": False,
    }
    finding = {
        "slug": slug,
        "entry": "a" * 64,
        "track": "quick",
        "nonce": "n",
        "submitted_seeds": [0],
        "fresh_seeds": [7, 8],
        "sandbox": "bubblewrap",
        "code": CODE,
        "environment": ENVIRONMENT,
        "cells": [number],
        "failed": [],
        "allowed": 0,
    }
    return msgspec.convert({**finding, **changes}, Rerun)


def entry(
    slug: str,
    records: list[Record],
    level: int = 1,
    label_use: bool = False,
    method_file: bool = False,
    folder: Path | None = None,
    **request,
) -> Submission:
    """A submission that need not lie anywhere."""
    texts = {"name": f"Method {slug}", "url": "https://example.org/paper", "contact": "someone", "track": "quick"}
    setting = entries.without_strength(records[0].spec if records else make_spec(), "bits")
    if method_file:
        setting = msgspec.structs.replace(setting, method=PlugIn(name=setting.method.name, options={}, file="e" * 64))
    content = make_entry(records, Request(**{**texts, **request}), slug, setting, {}, label_use)
    check = Check(slug=slug, entry="a" * 64, level=min(level, 2))
    finding = rerun(slug) if level == 3 else None
    return Submission(folder or Path("entries") / slug, content, records, "a" * 64, check, finding)


def a_track() -> list[Submission]:
    """Two good entries that cannot be told apart, a bad one, a ceiling and a floor."""
    return [
        entry("alpha", cells({0: 90, 4: 80, 8: 60}, jitter=2), level=3),
        entry("beta", cells({0: 90, 4: 78, 8: 61}, jitter=2), method_file=True, level=0),
        entry("gamma", cells({0: 90, 4: 40, 8: 14})),
        entry("labels", cells({0: 92, 4: 90, 8: 88}, method="supervised"), label_use=True),
        entry("floor", cells({0: 88, 4: 70, 8: 50}, method="untrained")),
    ]


def write(root: Path, submissions: list[Submission]) -> Path:
    """Each as a folder below ROOT/entries; returns ROOT. Levels come from files of the maintainers, so they are 0."""
    for submission in submissions:
        folder = root / "entries" / submission.slug
        folder.mkdir(parents=True)
        (folder / entries.ENTRY).write_text(entries.to_text(submission.entry))
    return root


def board(submissions: list[Submission], track: tracks.Track = TRACK) -> rank.Board:
    return rank.board(track, submissions)
