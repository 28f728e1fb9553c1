"""The command lines that make a record's cell again, from the record's spec alone."""

import json
import shlex

from generators.dataset import is_source

SECTIONS = ("augmentation", "train", "probe")
DOWNLOADED = ("mnist", "cifar10")  # sources that live in a folder of the user's


def generate(data: dict) -> str:
    """The command that writes the dataset of a spec.

    >>> generate({"dataset": "randbit", "digest": "59c6", "seed": 1, "options": {"digit_source": "mnist", "train": None}})
    'bench generate randbit --digit-source mnist:DIR --seed 1 --out data/randbit-59c6'
    """
    parts = ["bench", "generate", data["dataset"]]
    for name, value in sorted((data.get("options") or {}).items()):
        if value is None:
            continue
        flag = f"--{name.replace('_', '-')}"
        if is_source(name) and value in DOWNLOADED:
            value = f"{value}:DIR"
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
    pictures = (spec["data"].get("options") or {}).get("digit_source")
    source = ["--digit-source", f"{pictures}:DIR"] if pictures in DOWNLOADED else []
    return shlex.join(["bench", "run", own["name"], *tier, *source, "--out", f"runs/{own['name']}"])


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
