"""A submission's records against each other and against its track: every strength and seed once, one setting, all probes."""

import re
from collections import Counter

import yaml

from generators import catalog
from suppression_bench.leaderboard import tracks
from suppression_bench.leaderboard.submission import strength_text
from suppression_bench.leaderboard.tracks import Track

METHODS, LOSSES = "suppression_bench.methods", "suppression_bench.losses"
PLUGIN_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,59}")


def file_name(record: dict) -> str:
    """What a cell's files are called, without ending.

    >>> file_name({"spec": {"strength": {"key": "bits", "value": 4}, "seed": 0}})
    'bits=4-seed=0'
    """
    strength = record["spec"]["strength"] or {"key": "none"}
    return f"{strength['key']}={strength_text(record)}-seed={record['spec']['seed']}"


def faults(named: dict[str, dict], track: Track) -> list[str]:
    """What is wrong with the records, each of which is in order for itself.

    Arguments:
        named: file name without ending -> record.
        track: that they compete in.
    """
    found = []
    for name, record in named.items():
        spec, run = record["spec"], record["run"]
        if name != file_name(record):
            found.append(f"{name}: its record is of {file_name(record)}")
        if run["status"] != "ok":
            found.append(f"{name}: its status is {run['status']}, only finished cells can be ranked")
        found += [f"{name}: {fault}" for fault in tracks.faults(track, spec)]
        found += [f"{name}: {fault}" for fault in _probe_faults(record, track)]
    return found + _seed_faults(named, track) + _setting_faults(named) + _split_faults(named)


def _probe_faults(record: dict, track: Track) -> list[str]:
    spec = record["spec"]
    strength = (spec["strength"] or {}).get("value")
    if not tracks.has(track, strength) or record["run"]["status"] != "ok":
        return []  # said elsewhere
    kinds, layers = (_listed(spec["probe"].get(key)) for key in ("kinds", "layers"))
    trained = [kind for kind in kinds if kind != "online"]
    wanted = {(kind, layer, one) for kind in trained for layer in layers for one in track.features(strength)}
    there = {(probe["probe"], probe["layer"], probe["feature"]) for probe in record["probes"]}
    # An untrained network has no online probe; the others have one of the encoder alone.
    online = {("online", "encoder", one) for one in track.features(strength)} if "online" in kinds else set()
    extra = there - wanted - online
    found = [f"the probe {' '.join(place)} is missing" for place in sorted(wanted - there)]
    return found + [f"the probe {' '.join(place)[:100]!a} is none of the track's" for place in sorted(extra)]


def _listed(value) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def _seed_faults(named: dict[str, dict], track: Track) -> list[str]:
    found, seeds = [], {}
    for record in named.values():
        seeds.setdefault(strength_text(record), []).append(record["spec"]["seed"])
    grid = [tracks.text(value) for value in track.grid]
    every = sorted({seed for own in seeds.values() for seed in own})
    found += [f"{track.strength}={value}: no cell, the track asks for each of {', '.join(grid)}" for value in grid if value
              not in seeds]  # fmt: skip
    if len(every) < track.least:
        found.append(f"it has {len(every)} seeds, the track {track.name} asks for at least {track.least}")
    if every != list(range(len(every))):
        found.append(
            f"its seeds are {_short(every)}; they must be 0, 1, 2 and so on without a gap: to choose seeds is to choose on "
            "test data"
        )
    for value, own in seeds.items():
        twice = sorted(seed for seed, count in Counter(own).items() if count > 1)
        missing = sorted(set(every) - set(own))
        found += [f"{track.strength}={value[:40]}: seed {seed} stands twice" for seed in twice[:5]]
        found += [
            f"{track.strength}={value[:40]}: seed {seed} is missing, other strengths have it" for seed in missing[:5]
        ]
    return found


def _short(seeds: list[int]) -> str:
    return ", ".join(map(str, seeds[:12])) + (" and more" if len(seeds) > 12 else "")


def _setting_faults(named: dict[str, dict]) -> list[str]:
    # One method with one set of options at every strength and seed: options chosen per strength would be another contest.
    found, first = [], None
    for name, record in named.items():
        own = {**common(record), "the method's file": record["code"]["method"]}
        if first is None:
            first, where = own, name
        differing = sorted(key for key in own.keys() | first.keys() if own.get(key) != first.get(key))
        found += [f"{name}: {key} is {own.get(key)!r:.80}, in {where} {first.get(key)!r:.80}; an entry has one setting"
                  for key in differing[:3]]  # fmt: skip
    return found


def common(record: dict) -> dict:
    """The settings that all cells of an entry share: all but the strength and the seed."""
    spec = record["spec"]
    strength = f"data.{spec['strength']['key']}" if spec["strength"] else ""
    loose = ("train.checkpoint_seconds", "probe.block_size", strength)
    return {key: value for key, value in tracks.settings(spec).items() if key not in loose}


def recipe_text(records: list[dict]) -> str:
    """The resolved settings of an entry as YAML: what one needs to run it again."""
    sections: dict[str, dict] = {}
    for name, value in common(records[0]).items():
        section, _, key = name.partition(".")
        sections.setdefault(section, {})[key] = value
    return yaml.safe_dump(sections, sort_keys=True, default_flow_style=None, allow_unicode=False, width=100)


def _split_faults(named: dict[str, dict]) -> list[str]:
    # One test split has one number of samples of each class, whoever looks at it.
    found, known = [], {}
    for name, record in named.items():
        for probe in record["probes"]:
            place = (*probe["splits"], probe["feature"], record["spec"]["data"]["digest"])
            counts = [sum(row) for row in probe["confusion"]]
            if known.setdefault(place, counts) != counts:
                found.append(
                    f"{name}: the confusion matrix of {probe['feature']} by {probe['probe']} has other class counts than in "
                    "other cells on the same test split"
                )
    return found


def plugin_faults(form: dict, records: list[dict], there: dict[str, dict]) -> tuple[list[str], list[str]]:
    """Whether the form's method and loss are those of the records; faults, and notes on what has changed since.

    Arguments:
        form: `submission.json`.
        records: all of them, at least one.
        there: relative name -> size and SHA-256 of the submission's files.
    """
    found, notes = [], []
    for kind, package in (("method", METHODS), ("loss", LOSSES)):
        said, own = form[kind], f"{kind}.py"
        wanted = None if said is None else {"name": said["name"], **({"file": said["sha256"]} if said["file"] else {})}
        if any(_named(record["spec"][kind]) != wanted for record in records):
            found.append(f"{kind}: the records were run with another one than the form names")
        if said is None or said["file"] is None:
            found += [f"{own} is there, the form names no {kind} of its own"] if own in there else []
        if said is None:
            continue
        known = said["name"] in catalog.names(package)
        if said["file"] is not None:
            found += _own_file_faults(kind, said, known, there)
        elif not known:
            found.append(f"{kind} {said['name'][:80]!a} is none of the package's, and no file of its own is there")
        elif catalog.file_digest(package, said["name"]) != said["sha256"]:
            notes.append(f"the package's {kind} {said['name']} has changed since it was run")
    if {record["code"]["method"] for record in records} != {form["method"]["sha256"]}:
        found.append("method: the digest of its file is not the one in the records")
    return found, notes


def _named(part: dict | None) -> dict | None:
    return None if part is None else {key: value for key, value in part.items() if key != "options"}


def _own_file_faults(kind: str, said: dict, known: bool, there: dict[str, dict]) -> list[str]:
    found, own = [], f"{kind}.py"
    if said["file"] != own:
        found.append(f"{kind}: file must be {own!r} or null, got {said['file'][:80]!a}")
    if known:
        found.append(f"{kind} {said['name']!a} is called like one of the package's; rename its file and run it again")
    if not PLUGIN_NAME.fullmatch(said["name"]):
        found.append(f"{kind} {said['name'][:80]!a}: a file's name is small letters, digits and underscores")
    if said["sha256"] != there.get(own, {}).get("sha256"):
        found.append(f"{kind}: {own} is missing or not the file that the form names")
    return found
