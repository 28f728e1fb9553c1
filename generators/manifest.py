"""The manifest of a dataset folder: written last, read strictly; a folder without one is not a dataset."""

import hashlib
import os
import platform
import zlib
from pathlib import Path

from generators import shards, strict_json
from generators.dataset import Dataset, UserError, is_source
from generators.options import parameters

NAME = "manifest.json"
JOURNAL = "journal.jsonl"  # of an unfinished build
SCHEMA = 1
REMEDY = "delete it and run the same `bench generate` again"
KEYS = {
    "schema": int, "dataset": str, "version": int, "options": dict, "seed": int, "sources": dict, "features": dict,
    "targets": list, "probes": dict, "recipe": str, "strength": (str, type(None)),
    "constant_channels": (dict, type(None)), "picture_shape": list,
    "splits": dict, "content_digest": str, "environment": dict,
}  # fmt: skip
# Not part of a dataset's identity: how it is used, how it is cut up, where it was made.
DESCRIPTIVE = ("recipe", "strength", "splits", "content_digest", "environment")
SOURCE_KEYS = {"name": str, "digest": str, "licence": str}
SPLIT_KEYS = {"count": int, "class_counts": dict, "content_digest": str, "shards": list}
SHARD_KEYS = {"name": str, "bytes": int, "sha256": str, "count": int, "content_digest": str}


def identity(dataset: Dataset, seed: int) -> dict:
    """What a dataset folder is, before any sample is drawn: everything of the manifest but splits and digests.

    Paths of sources stay outside: a source is known by its name and digest.
    """
    constant = dataset.constant_channels
    return {
        "schema": SCHEMA,
        "dataset": dataset.name,
        "version": dataset.version,
        "options": public_options(type(dataset), dataset.options),
        "seed": seed,
        "sources": {role: _source(source) for role, source in dataset.sources.items()},
        "features": {name: {"classes": f.classes, "many": f.many} for name, f in dataset.features.items()},
        "targets": list(dataset.targets),
        "probes": {name: list(pair) for name, pair in dataset.probes.items()},
        "recipe": dataset.recipe,
        "strength": dataset.strength,
        "constant_channels": None if constant is None else {"label": constant.label, "max": constant.max},
        "picture_shape": list(dataset.image_shape),
    }


def public_options(cls: type[Dataset], options: dict) -> dict:
    """Resolved options as a manifest has them: sources without their paths, younger options only off their defaults."""
    options = cls.settle(options)
    defaults = {name: p.default for name, p in parameters(cls).items() if name in cls.later_options}
    return {
        name: value.partition(":")[0] if value and is_source(name) else _no_floats(value)
        for name, value in options.items()
        if name not in defaults or value != defaults[name]
    }


def _source(source) -> dict:
    found = {"name": source.name, "digest": source.digest, "licence": source.licence}
    return {**found, "classes": list(source.classes)} if hasattr(source, "classes") else found


def differences(found: dict, asked: dict) -> str:
    """What differs between two identities, name by name, for an error.

    >>> differences({"seed": 1, "options": {"a": 1, "b": 2}}, {"seed": 1, "options": {"a": 1, "b": 3}})
    'options.b: 2 there, 3 here'
    """
    old, new = _flat(found), _flat(asked)
    return "; ".join(
        f"{name}: {_short(old.get(name, ABSENT))} there, {_short(new.get(name, ABSENT))} here"
        for name in sorted({*old, *new})
        if old.get(name, ABSENT) != new.get(name, ABSENT)
    )


ABSENT = object()  # equal to no value that an option may have


def _flat(value: dict, before: str = "") -> dict:
    found = {}
    for key, inner in value.items():
        found.update(
            _flat(inner, f"{before}{key}.") if isinstance(inner, dict) and inner else {f"{before}{key}": inner}
        )
    return found


def _short(value) -> str:
    if value is ABSENT:
        return "nothing"
    text = value if isinstance(value, str) else strict_json.dumps(value)
    return text if len(text) <= 100 else f"{text[:100]}..."


def _no_floats(value):
    # The manifest holds no floats: a fraction is written as its shortest exact text.
    if isinstance(value, list):
        return [_no_floats(one) for one in value]
    return repr(value) if isinstance(value, float) else value


def assemble(identity: dict, results: dict[str, list[shards.ShardResult]]) -> dict:
    """The whole manifest from the identity and each split's shard results in order."""
    splits = {}
    for split, parts in results.items():
        counts = {
            name: [sum(c) for c in zip(*(p.class_counts[name] for p in parts), strict=True)]
            for name in parts[0].class_counts
        }
        splits[split] = {
            "count": sum(part.count for part in parts),
            "class_counts": {name: column for name, column in counts.items() if any(column)},
            "content_digest": hashlib.sha256(b"".join(part.digests for part in parts)).hexdigest(),
            "shards": [part.entry() for part in parts],
        }
    manifest = {**identity, "splits": splits, "environment": environment()}
    return {**manifest, "content_digest": overall_digest(manifest)}


def overall_digest(manifest: dict) -> str:
    """The dataset's identity: SHA-256 over what it is and each split's content, whatever the shards look like.

    The default recipe, the knob's name and the environment are not part of it.
    """
    content = {key: manifest[key] for key in KEYS if key not in DESCRIPTIVE}
    content["splits"] = {name: [split["count"], split["content_digest"]] for name, split in manifest["splits"].items()}
    return hashlib.sha256(strict_json.dumps(content).encode()).hexdigest()


def environment() -> dict:
    """Versions and platform, informative only."""
    import numpy
    import PIL.features

    return {
        "python": platform.python_version(), "numpy": numpy.__version__, "pillow": PIL.__version__,
        "jpeg": PIL.features.version("jpg") or "", "zlib": zlib.ZLIB_RUNTIME_VERSION,
        "platform": f"{platform.system()}-{platform.machine()}",
    }  # fmt: skip


def write(folder: Path, manifest: dict) -> None:
    """Write the manifest atomically: it appears whole or not at all."""
    partial = folder / f"{NAME}.{os.getpid()}.tmp"
    try:
        with open(partial, "w", encoding="ascii") as file:
            file.write(strict_json.dumps(manifest) + "\n")
            file.flush()
            os.fsync(file.fileno())
        partial.replace(folder / NAME)
    finally:
        partial.unlink(missing_ok=True)
    shards.sync_folder(folder)


def read(folder: Path) -> dict:
    """The manifest of a folder, its schema and its digest checked.

    Raises:
        UserError: no folder, no manifest, or one that does not agree with itself.
    """
    path = Path(folder) / NAME
    if not path.is_file():
        if (Path(folder) / JOURNAL).is_file():
            raise UserError(f"{folder}: an unfinished build; run the same `bench generate` again, and it goes on")
        state = (
            "is not there" if not Path(folder).exists() else f"has no {NAME}" if Path(folder).is_dir() else "is a file"
        )
        raise UserError(f"{folder}: the dataset folder {state}; make it with `bench generate NAME --out {folder}`")
    try:
        manifest = strict_json.loads(path.read_bytes(), str(path))
    except UserError as error:
        raise UserError(f"{error}; or {REMEDY}") from None
    faults = strict_json.faults(manifest, KEYS, "the manifest")
    if not faults and manifest["schema"] != SCHEMA:
        faults = [f"schema {manifest['schema']} is not {SCHEMA}, the one this version reads"]
    if not faults:
        faults = _shape_faults(manifest)
    if not faults:
        for name, split in manifest["splits"].items():
            faults += strict_json.faults(split, SPLIT_KEYS, f"split {name}")
            for feature, column in split.get("class_counts", {}).items() if not faults else []:
                if feature not in manifest["features"] or not _naturals(
                    column, manifest["features"][feature]["classes"]
                ):
                    faults.append(f"split {name}: the class_counts of {feature} are no counts of its classes")
            for shard in split.get("shards", []) if not faults else []:
                faults += strict_json.faults(shard, SHARD_KEYS, f"a shard of {name}")
                faults += (
                    [] if faults or _safe(shard["name"], name) else [f"{shard['name']!r} is no shard name of {name}"]
                )
            if not faults and split["count"] != sum(shard["count"] for shard in split["shards"]):
                faults.append(f"split {name}: the shards' counts do not add up to {split['count']}")
    if not faults and manifest["content_digest"] != overall_digest(manifest):
        faults.append("its content_digest does not follow from its contents")
    if faults:
        raise UserError(f"{path}: {'; '.join(faults)}. Restore the manifest, or {REMEDY}")
    return manifest


def _shape_faults(manifest: dict) -> list[str]:
    shape, faults = manifest["picture_shape"], []
    if not _naturals(shape, 3) or 0 in shape or shape[2] not in (1, 3):
        faults.append(f"picture_shape {shape} is not height, width and 1 or 3 channels")
    for name, feature in manifest["features"].items():
        faults += strict_json.faults(feature, {"classes": int, "many": bool}, f"feature {name}")
        if not faults and not 1 <= feature["classes"] <= 2**20:
            faults.append(f"feature {name}: {feature['classes']} classes")
    for role, source in manifest["sources"].items():
        with_classes = isinstance(source, dict) and "classes" in source  # pictures have names for them, digits none
        known = {**SOURCE_KEYS, "classes": list} if with_classes else SOURCE_KEYS
        faults += strict_json.faults(source, known, f"source {role}")
    constant = manifest["constant_channels"]
    if constant is not None:
        faults += strict_json.faults(constant, {"label": str, "max": int}, "constant_channels")
        if not faults and constant["max"] < 1:
            faults.append(f"constant_channels: max {constant['max']} is not at least 1")
    for name, pair in manifest["probes"].items():
        if (
            not isinstance(pair, list)
            or len(pair) != 2
            or not all(isinstance(s, str) and s in manifest["splits"] for s in pair)
        ):
            faults.append(f"the probe {name} must name two splits, got {pair}")
    return faults


def _naturals(value, length: int) -> bool:
    return isinstance(value, list) and len(value) == length and all(type(one) is int and one >= 0 for one in value)


def _safe(name: str, split: str) -> bool:
    # A shard is a plain file beside the manifest: no path, no other split.
    number = name.removeprefix(f"{split}-").removesuffix(".tar")
    return name == f"{split}-{number}.tar" and number.isdigit() and "/" not in split
