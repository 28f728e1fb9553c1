"""The command lines that make a record's cell again, from its spec alone."""

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from generators import catalog
from generators.dataset import is_source
from suppression_bench.cell import Cell, DatasetSetting, PlugIn

SUITES = Path(__file__).parents[1] / "suites"
IN_A_FOLDER = ("mnist", "cifar10", "folder")  # sources that live in a folder of the user's


def generate(dataset: DatasetSetting, digest: str) -> str:
    """The command that writes a dataset.

    Arguments:
        dataset: its name, options and seed.
        digest: of its content, "" where it is not known.

    >>> setting = DatasetSetting(name="randbit", version=1, seed=1, options={"digit_source": "mnist", "train": None})
    >>> generate(setting, "59c6")
    'bench generate randbit --digit-source mnist:DIR --seed 1 --out data/randbit-59c6'
    """
    parts = ["bench", "generate", _reference(dataset.name, catalog.names("generators.datasets"))]
    for name, value in sorted(dataset.options.items()):
        if value is not None:
            value = _source(value) if is_source(name) else value
            parts += [_flag(name), *map(str, value if isinstance(value, (list, tuple)) else [value])]
    seed = ["--seed", str(dataset.seed)] if dataset.seed else []
    return shlex.join([*parts, *seed, "--out", folder(dataset, digest)])


def folder(dataset: DatasetSetting, digest: str) -> str:
    """Where `generate` puts it: told apart by its digest."""
    return f"data/{dataset.name}-{digest[:8]}".rstrip("-")


def run(cells: Sequence[Cell], digest: str, seeds: int) -> str:
    """The command that runs cells on that dataset, with every setting spelled out, whatever recipe or suite say today.

    Arguments:
        cells: that differ in the number of bits alone.
        digest: of their data.
        seeds: how many, from 0.
    """
    cell = cells[0]
    bits = sorted({cell.dataset.bits for cell in cells})
    settings = {key: value for key, value in cell.settings().items() if not key.startswith("data.")}
    del settings["method.name"]
    for kind in ("loss", "encoder"):
        if plugin := getattr(cell, kind):
            settings[f"{kind}.name"] = _plugin(plugin)
    words = [f"{key}={_value(value)}" for key, value in settings.items() if value is not None]
    start = ["bench", "run", "--data", folder(cell.dataset, digest), "--method", _plugin(cell.method)]
    command = shlex.join([*start, "--recipe", cell.recipe, "--seeds", str(seeds), "--set"])
    rest = f"{shlex.join(words)} --out runs/again".strip()
    if len(bits) > 1:
        return f"for bits in {' '.join(map(str, bits))}; do {command} bits=$bits {rest}; done"
    return f"{command} bits={bits[0]} {rest}"


def suite(cell: Cell) -> str | None:
    """The command that runs the whole suite that a cell comes from, None where it comes from none."""
    if cell.suite is None:
        return None
    sources = {key: value for key, value in sorted(cell.dataset.options.items()) if is_source(key)}
    folders = [part for key, value in sources.items() if value in IN_A_FOLDER for part in (_flag(key), _source(value))]
    name = cell.suite.name
    reference = name if name in {path.stem for path in SUITES.glob("*.yaml")} else f"./{name}.yaml"
    return shlex.join(["bench", "run", reference, *folders, "--out", f"runs/{name}"])


def _flag(option: str) -> str:
    return f"--{option.replace('_', '-')}"


def _source(source: str) -> str:
    # A record holds no path.
    return f"{source}:DIR" if source in IN_A_FOLDER else source


def _plugin(plugin: PlugIn) -> str:
    return _reference(plugin.name, [plugin.name] if plugin.file is None else [])


def _reference(name: str, packaged: Sequence[str]) -> str:
    # A file of the user's is named in the record by its stem, never by its path.
    return name if name in packaged else f"./{name.replace('-', '_')}.py"


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
