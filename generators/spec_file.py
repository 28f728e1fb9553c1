"""A dataset's spec as a YAML file: dataset, options, seed and shard size; read strictly, written complete."""

from dataclasses import dataclass, field
from pathlib import Path

import yaml

from generators import catalog
from generators.catalog import check_options, convert, did_you_mean
from generators.dataset import Dataset, UserError
from generators.files import loads_yaml

ENDINGS = (".yaml", ".yml")
KEYS = {"dataset": (str, "a text"), "seed": (int, "an integer"), "shard_size": (int, "an integer")}


@dataclass
class Spec:
    """What to generate: a dataset by name or path, its options, and how it is cut into shards."""

    dataset: str
    options: dict = field(default_factory=dict)
    seed: int | None = None
    shard_size: int | None = None


def is_spec(name: str) -> bool:
    return name.endswith(ENDINGS)


def read(path: str | Path) -> Spec:
    """The spec of a YAML file; relative paths in it start from the working directory.

    Raises:
        UserError: no such file, no YAML, or every unknown key, missing key and wrong value at once.
    """
    content = _content(path)
    keys = [*KEYS, "options"]
    faults = [
        f"unknown key {key!r}, {did_you_mean(str(key), keys)}" + _belongs(key, content)
        for key in content
        if key not in keys
    ]
    if content.get("dataset") is None:
        faults.append("the key 'dataset' is missing: a dataset's name or the path of its .py file")
    values = {}
    for key, (kind, words) in KEYS.items():
        try:
            values |= {} if content.get(key) is None else {key: convert(content[key], kind)}
        except ValueError:
            faults.append(f"{key} must be {words}, got {content[key]!r}")
    options = content.get("options") or {}
    if not isinstance(options, dict) or not all(isinstance(name, str) for name in options):
        faults.append(f"options must be names and values, got {options!r}")
        options = {}
    if "dataset" in values:
        try:
            cls = catalog.load_class("generators.datasets", values["dataset"], Dataset)
            faults += check_options(cls, options, cls.name)[1]
        except UserError as error:
            faults.append(str(error))
    if faults:
        raise UserError("\n".join(f"{path}: {fault}" for fault in faults))
    return Spec(**values, options=options)


def _content(path: str | Path) -> dict:
    try:
        content = loads_yaml(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(
            f"{path}: no such file; `bench generate DATASET --print-config` prints one to start from"
        ) from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); name a YAML file") from None
    except ValueError as error:
        raise UserError(f"{path}: not valid YAML ({' '.join(str(error).split())})") from None
    if not isinstance(content, dict):
        raise UserError(
            f"{path}: a spec is a file of names and values (dataset, options, seed), got {type(content).__name__}"
        )
    return content


def _belongs(key, content: dict) -> str:
    # The likeliest slip: an option written beside `options` instead of below it.
    try:
        cls = catalog.load_class("generators.datasets", str(content.get("dataset")), Dataset)
    except UserError:
        return ""
    faults = check_options(cls, {key: content[key]}, cls.name)[1]
    return "" if any("unknown option" in fault for fault in faults) else "; it is an option: write it below `options:`"


def write(dataset: Dataset, reference: str, seed: int, shard_size: int) -> str:
    """A complete spec as YAML, every option with its value, that `read` takes back.

    >>> print(write(catalog.dataset("randbit", {"train": 5}), "randbit", 0, 2000).splitlines()[0])
    dataset: randbit
    """
    content = {"dataset": reference, "seed": seed, "shard_size": shard_size, "options": dict(dataset.open_options)}
    return yaml.safe_dump(content, sort_keys=False)
