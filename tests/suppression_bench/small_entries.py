"""Hand-made submissions of the leaderboard, in memory or as folders."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

from small_cells import make_record, probe_entry

from generators import strict_json
from suppression_bench.leaderboard import tracks
from suppression_bench.leaderboard.submission import Submission

GRID = [0, 4, 8]
TRACK = replace(tracks.read("quick"), grid=GRID)
ENVIRONMENT = {
    "python": "3.11.7", "torch": "2.15.0", "numpy": "2.4.6", "platform": "Linux-x86_64", "device": "cpu",
    "cpu_capability": "AVX512", "threads": 1,
}  # fmt: skip
CODE = {"version": "0.1.0", "commit": "c" * 40, "sources": "5" * 64, "method": "e" * 64}


def cells(
    right: dict, seeds=(0, 1, 2), method: str = "simclr", bit: int = 96, jitter: int = 1, **changes
) -> list[dict]:
    """A record per strength and seed.

    Arguments:
        right: strength -> correct digits of 100 at seed 0; each further seed has `jitter` more.
        bit: correct bits of 100; all bits have the same.
    """
    made = []
    for strength, correct in right.items():
        for place, seed in enumerate(seeds):
            probes = [probe_entry(correct + jitter * place)]
            probes += [probe_entry(bit, feature=f"bit{n:02d}", classes=2) for n in range(strength)]
            made.append(
                {**make_record(probes, method, seed, strength, **changes), "environment": ENVIRONMENT, "code": CODE}
            )
    return made


def entry(slug: str, records: list[dict], **changes) -> Submission:
    """A submission that lies nowhere."""
    known = {
        "folder": Path("submissions") / slug, "slug": slug, "name": f"Method {slug}", "url": "https://example.org/paper",
        "contact": "someone", "track": "quick", "label_use": False, "supersedes": None, "method_file": None,
        "records": records, "level": 1, "digest": "a" * 64,
    }  # fmt: skip
    return Submission(**{**known, **changes})


def a_track() -> list[Submission]:
    """Two good entries that cannot be told apart, a bad one, a ceiling and a floor."""
    return [
        entry("alpha", cells({0: 90, 4: 80, 8: 60}, jitter=2), level=3),
        entry("beta", cells({0: 90, 4: 78, 8: 61}, jitter=2), method_file="method.py", level=0),
        entry("gamma", cells({0: 90, 4: 40, 8: 14})),
        entry("labels", cells({0: 92, 4: 90, 8: 88}, method="supervised"), label_use=True),
        entry("floor", cells({0: 88, 4: 70, 8: 50}, method="untrained")),
    ]


def write(root: Path, submissions: list[Submission]) -> Path:
    """Each as a folder below ROOT/submissions; returns ROOT. Levels come from files of the maintainers, so they are 0."""
    for one in submissions:
        folder = root / "submissions" / one.slug
        (folder / "records").mkdir(parents=True)
        files = {}
        for record in one.records:
            strength = record["spec"]["strength"]
            name = f"records/{strength['key']}={strength['value']}-seed={record['spec']['seed']}.json"
            text = strict_json.dumps(record) + "\n"
            (folder / name).write_text(text)
            files[name] = {"bytes": len(text), "sha256": hashlib.sha256(text.encode()).hexdigest()}
        form = {
            "schema": 1, "slug": one.slug, "name": one.name, "url": one.url, "contact": one.contact, "track": one.track,
            "label_use": one.label_use, "supersedes": one.supersedes, "loss": None, "files": files,
            "method": {"name": "simclr", "file": one.method_file, "sha256": "a" * 64},
        }  # fmt: skip
        (folder / "submission.json").write_text(json.dumps(form))
    return root
