"""The command lines that make a record's cell again, from the record's spec alone."""

import json
import shlex
from pathlib import Path

from generators import catalog
from generators.dataset import is_source

SECTIONS = ("augmentation", "train", "probe")
PLACED = ("mnist", "cifar10", "folder")  # sources that live in a folder of the user's
PACKAGE = Path(__file__).parents[1]


def generate(data: dict) -> str:
    """The command that writes the dataset of a spec.

    >>> generate({"dataset": "randbit", "digest": "59c6", "seed": 1, "options": {"digit_source": "mnist", "train": None}})
    'bench generate randbit --digit-source mnist:DIR --seed 1 --out data/randbit-59c6'
    """
    parts = ["bench", "generate", _own(data["dataset"], catalog.names("generators.datasets"), ".py")]
    for name, value in sorted((data.get("options") or {}).items()):
        if value is None:
            continue
        flag = f"--{name.replace('_', '-')}"
        value = _placed(value) if is_source(name) else value
        parts += [flag, *map(str, value)] if isinstance(value, list) else [flag, str(value)]
    seed = ["--seed", str(data["seed"])] if data["seed"] else []
    return shlex.join([*parts, *seed, "--out", folder(data)])


def folder(data: dict) -> str:
    """Where `generate` puts it: told apart by its digest."""
    return f"data/{data['dataset']}-{data.get('digest', '')[:8]}".rstrip("-")


def run(specs: list[dict], seeds: int) -> str:
    """The command that runs cells on that dataset, with every setting spelled out, whatever recipe or suite say today.

    Arguments:
        specs: of records that differ in the number of bits alone.
        seeds: how many, from 0.
    """
    spec = specs[0]
    bits = sorted({one["data"].get("bits", 0) for one in specs})
    chosen = {**_named(spec), **{f"{part}.{key}": value for part in SECTIONS for key, value in spec[part].items()}}
    settings = [f"{key}={_value(value)}" for key, value in chosen.items() if value is not None]
    method = _reference(spec["method"])
    start = ["bench", "run", "--data", folder(spec["data"]), "--method", method, "--recipe", spec["recipe"]]
    rest = f"{shlex.join(settings)} --out runs/again".strip()
    start = shlex.join([*start, "--seeds", str(seeds), "--set"])
    if len(bits) > 1:
        return f"for bits in {' '.join(map(str, bits))}; do {start} bits=$bits {rest}; done"
    return f"{start} bits={bits[0]} {rest}"


def suite(spec: dict) -> str | None:
    """The command that runs the whole suite that a spec comes from, None where it comes from none.

    >>> suite({"suite": {"name": "quick", "version": 1}, "data": {"options": {"digit_source": "optdigits"}}})
    'bench run quick --out runs/quick'
    """
    own = spec["suite"]
    if not own:
        return None
    tier = ["--tier", str(own["tier"])] if own.get("tier") else []
    sources = {key: value for key, value in (spec["data"].get("options") or {}).items() if is_source(key)}
    places = [
        part for key, value in sorted(sources.items()) if value in PLACED
        for part in (f"--{key.replace('_', '-')}", _placed(value))
    ]  # fmt: skip
    suites = [path.stem for path in (PACKAGE / "suites").glob("*.yaml")]
    start = ["bench", "run", _own(own["name"], suites, ".yaml")]
    return shlex.join([*start, *tier, *places, "--out", f"runs/{own['name']}"])


def _placed(source: str) -> str:
    # A record holds no path.
    return f"{source}:DIR" if source in PLACED else source


def _own(name: str, known: list[str], ending: str) -> str:
    # A file of the user's is named in the record by its stem, never by its place.
    return name if name in known else f"./{name.replace('-', '_') if ending == '.py' else name}{ending}"


def _named(spec: dict) -> dict:
    found = {}
    for kind in ("method", "loss", "encoder"):
        own = spec[kind] or {"options": {}}
        found |= {f"{kind}.name": _reference(own)} if kind != "method" and spec[kind] else {}
        found |= {f"{kind}.{key}": value for key, value in own["options"].items()}
    return found


def _reference(own: dict) -> str:
    # A user's own file is named in the record by its stem and its digest, never by its place.
    return f"./{own['name'].replace('-', '_')}.py" if own.get("file") else own["name"]


def _value(value) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
