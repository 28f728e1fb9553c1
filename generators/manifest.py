"""The manifest of a dataset folder: written last, read strictly; a folder without one is not a dataset."""

import hashlib
import platform
import zlib
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy
import PIL.features

from generators.catalog import parameters
from generators.dataset import Dataset, UserError, is_source
from generators.files import dumps_json, loads_json, write_atomic
from generators.shards import Entry, Natural, ShardEntry, ShardResult

NAME = "manifest.json"
UNFINISHED = "unfinished.json"  # stands in a folder while it is built: what is being built there
REGISTRY = Path(__file__).with_name("registry.json")
REMEDY = "delete it and run the same `bench generate` again"

Positive = Annotated[int, msgspec.Meta(ge=1)]


class Source(Entry, frozen=True, kw_only=True):
    name: str
    digest: str
    licence: str
    classes: list[str] | msgspec.UnsetType = msgspec.UNSET  # images have names for them, digits none


class FeatureEntry(Entry, frozen=True, kw_only=True):
    classes: Annotated[int, msgspec.Meta(ge=1, le=2**20)]
    many: bool


class ConstantEntry(Entry, frozen=True, kw_only=True):
    label: str
    max: Positive


class Split(Entry, frozen=True, kw_only=True):
    count: Natural
    class_counts: dict[str, list[Natural]]
    content_digest: str
    shards: Annotated[list[ShardEntry], msgspec.Meta(min_length=1)]


class Identity(Entry, frozen=True, kw_only=True):
    """What a dataset folder is, before any sample is drawn: everything of the manifest but splits and digests."""

    schema: Literal[1] = 1
    dataset: str
    version: int
    options: dict[str, Any]
    seed: int
    sources: dict[str, Source]
    features: dict[str, FeatureEntry]
    targets: list[str]
    probes: dict[str, tuple[str, str]]
    recipe: str
    strength: str | None
    constant_channels: ConstantEntry | None
    image_shape: tuple[Positive, Positive, Literal[1, 3]] = msgspec.field(name="picture_shape")

    def builtins(self) -> dict:
        """As plain dictionaries, lists and tuples, under the JSON's keys."""
        return msgspec.to_builtins(self)

    @property
    def class_names(self) -> dict[str, list[str]]:
        """Feature -> its classes' names, where a source has them."""
        return {role.removesuffix("s"): source.classes for role, source in self.sources.items() if source.classes}


class Manifest(Identity, frozen=True, kw_only=True):
    """A finished dataset folder."""

    splits: dict[str, Split]
    environment: dict[str, Any]
    content_digest: str = ""

    @property
    def shards(self) -> list[ShardEntry]:
        """The shards of all splits."""
        return [shard for split in self.splits.values() for shard in split.shards]


# Not part of a dataset's identity: how it is used, how it is cut up, where it was made.
DESCRIPTIVE = ("recipe", "strength", "splits", "content_digest", "environment")


def identity(dataset: Dataset, seed: int) -> Identity:
    """The identity of a dataset under a seed.

    Paths of sources stay outside: a source is known by its name and digest.
    """
    constant = dataset.constant_channels
    return Identity(
        dataset=dataset.name,
        version=dataset.version,
        options=public_options(type(dataset), dataset.options),
        seed=seed,
        sources={role: _source(source) for role, source in dataset.sources.items()},
        features={name: FeatureEntry(classes=f.classes, many=f.many) for name, f in dataset.features.items()},
        targets=list(dataset.targets),
        probes={name: (train, test) for name, (train, test) in dataset.probes.items()},
        recipe=dataset.recipe,
        strength=dataset.strength,
        constant_channels=constant and ConstantEntry(label=constant.label, max=constant.max),
        image_shape=tuple(dataset.image_shape),  # type: ignore[arg-type]
    )


def public_options(cls: type[Dataset], options: dict[str, Any]) -> dict[str, Any]:
    """Resolved options as a manifest has them: sources without their paths, younger options only off their defaults."""
    signature = parameters(cls)
    return {
        name: value.partition(":")[0] if value and is_source(name) else _without_floats(value)
        for name, value in cls.settle(options).items()
        if name not in cls.later_options or value != signature[name].default
    }


def _source(source) -> Source:
    classes = list(source.classes) if hasattr(source, "classes") else msgspec.UNSET
    return Source(name=source.name, digest=source.digest, licence=source.licence, classes=classes)


def _without_floats(value):
    # The manifest holds no floats: a fraction is written as its shortest exact text.
    if isinstance(value, list):
        return [_without_floats(item) for item in value]
    return repr(value) if isinstance(value, float) else value


def assemble(identity: Identity, results: dict[str, list[ShardResult]]) -> Manifest:
    """The whole manifest from the identity and each split's shards in order."""
    manifest = Manifest(
        **msgspec.structs.asdict(identity),
        splits={split: split_entry(shards) for split, shards in results.items()},
        environment=environment(),
    )
    return msgspec.structs.replace(manifest, content_digest=overall_digest(manifest.builtins()))


def split_entry(results: list[ShardResult]) -> Split:
    """A split's part of the manifest from its shards in order."""
    counts = {
        name: [sum(column) for column in zip(*(result.class_counts[name] for result in results), strict=True)]
        for name in results[0].class_counts
    }
    return Split(
        count=sum(result.count for result in results),
        class_counts={name: column for name, column in counts.items() if any(column)},
        content_digest=hashlib.sha256(b"".join(result.digests for result in results)).hexdigest(),
        shards=[result.entry for result in results],
    )


def overall_digest(manifest: dict) -> str:
    """The dataset's identity: SHA-256 over what it is and each split's content, whatever the shards look like.

    The default recipe, the knob's name and the environment are not part of it.

    Arguments:
        manifest: as plain dictionaries, under the JSON's keys.
    """
    content = {key: value for key, value in manifest.items() if key not in DESCRIPTIVE}
    content["splits"] = {name: [split["count"], split["content_digest"]] for name, split in manifest["splits"].items()}
    return hashlib.sha256(dumps_json(content).encode()).hexdigest()


def environment() -> dict[str, str]:
    """Versions and platform, informative only."""
    return {
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "pillow": PIL.__version__,
        "jpeg": PIL.features.version("jpg") or "",
        "zlib": zlib.ZLIB_RUNTIME_VERSION,
        "platform": f"{platform.system()}-{platform.machine()}",
    }


def differences(before: dict, after: dict) -> str:
    """What differs between two identities as plain dictionaries, name by name, for an error.

    >>> differences({"seed": 1, "options": {"a": 1, "b": 2}}, {"seed": 1, "options": {"a": 1, "b": 3}})
    'options.b: 2 there, 3 here'
    """
    absent = object()  # equal to no value that an option may have

    def text(value) -> str:
        shown = "nothing" if value is absent else value if isinstance(value, str) else dumps_json(value)
        return shown if len(shown) <= 100 else f"{shown[:100]}..."

    old, new = _flat(before), _flat(after)
    return "; ".join(
        f"{name}: {text(old.get(name, absent))} there, {text(new.get(name, absent))} here"
        for name in sorted({*old, *new})
        if old.get(name, absent) != new.get(name, absent)
    )


def _flat(value: dict, before: str = "") -> dict:
    flat = {}
    for key, inner in value.items():
        nested = isinstance(inner, dict) and inner
        flat.update(_flat(inner, f"{before}{key}.") if nested else {f"{before}{key}": inner})
    return flat


# The file


def write(folder: Path, manifest: Manifest) -> None:
    """Write the manifest: it appears whole or not at all."""
    with write_atomic(folder / NAME) as file:
        file.write(dumps_json(manifest.builtins()).encode() + b"\n")


def read(folder: str | Path) -> Manifest:
    """The manifest of a folder, its schema and its digest checked.

    Raises:
        UserError: no folder, no manifest, or one that does not agree with itself.
    """
    folder = Path(folder)
    path = folder / NAME
    if not path.is_file():
        if (folder / UNFINISHED).is_file():
            raise UserError(f"{folder}: an unfinished build; run the same `bench generate` again, and it goes on")
        state = "is not there" if not folder.exists() else f"has no {NAME}" if folder.is_dir() else "is a file"
        raise UserError(f"{folder}: the dataset folder {state}; make it with `bench generate NAME --out {folder}`")
    try:
        manifest = msgspec.convert(loads_json(path.read_bytes(), str(path)), Manifest)
    except UserError as error:
        raise UserError(f"{error}; or {REMEDY}") from None
    except msgspec.ValidationError as error:
        raise UserError(f"{path}: {error}. Restore the manifest, or {REMEDY}") from None
    faults = _faults(manifest)
    if not faults and manifest.content_digest != overall_digest(manifest.builtins()):
        faults = ["its content_digest does not follow from its contents"]
    if faults:
        raise UserError(f"{path}: {'; '.join(faults)}. Restore the manifest, or {REMEDY}")
    return manifest


def _faults(manifest: Manifest) -> list[str]:
    # What the types leave open: names that must agree, counts that must add up.
    faults = [
        f"the probe {name} must name two splits, got {list(pair)}"
        for name, pair in manifest.probes.items()
        if not set(pair) <= set(manifest.splits)
    ]
    for name, split in manifest.splits.items():
        for feature, column in split.class_counts.items():
            if feature not in manifest.features or len(column) != manifest.features[feature].classes:
                faults.append(f"split {name}: the class_counts of {feature} are no counts of its classes")
        faults += [
            f"{shard.name!r} is no shard name of {name}" for shard in split.shards if not _is_shard(shard.name, name)
        ]
        if split.count != sum(shard.count for shard in split.shards):
            faults.append(f"split {name}: the shards' counts do not add up to {split.count}")
    return faults


def _is_shard(name: str, split: str) -> bool:
    # A shard is a plain file beside the manifest: no path, no other split.
    number = name.removeprefix(f"{split}-").removesuffix(".tar")
    return name == f"{split}-{number}.tar" and number.isdigit() and "/" not in split


# The registry


class Registered(Entry, frozen=True, kw_only=True):
    """A dataset that the package vouches for; the options are those of its manifest."""

    title: str
    dataset: str
    version: int
    options: dict[str, Any]
    seed: int
    content_digest: str


@lru_cache(maxsize=1)
def registered() -> list[Registered]:
    """The datasets whose content digests this package vouches for: "official" is decided here, never by a manifest.

    >>> len(registered()) >= 12
    True
    """
    return msgspec.convert(loads_json(REGISTRY.read_bytes(), str(REGISTRY), floats=True), list[Registered])


def registered_as(digest: str) -> str:
    """Whether a content digest is a registered one, in words.

    >>> registered_as("0" * 64)
    'not a registered dataset'
    """
    titles = [entry.title for entry in registered() if entry.content_digest == digest]
    return f"registered: {titles[0]}" if titles else "not a registered dataset"
