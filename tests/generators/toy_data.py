"""A dataset in one small file that needs no digits, and second, slow writings to compare with."""

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from generators import files, manifest
from generators.build import build
from generators.catalog import dataset
from generators.dataset import Dataset, Sample, UserError
from generators.manifest import Manifest
from generators.randomness import Stream, stream_key

SOURCE = '''
"""Toy: coloured noise with a parity and a pair of letters."""
import numpy as np
from generators.dataset import Dataset, Feature

class Toy(Dataset):
    image_shape = (5, 4, 3)
    features = {"parity": Feature(2), "letters": Feature(5, many=True)}
    targets = ["parity"]
    probes = {"parity": ("pretrain", "probe-test")}
    recipe = "toy"
    sources = {}

    def __init__(self, *, train: int = 41, test: int = 9, noise: float | None = None):
        self.splits = {"pretrain": train, "probe-test": test}

    def draw(self, split, index, stream):
        letters = stream.below(1, 5, 2).tolist()
        return {"parity": sum(letters) % 2, "letters": letters}, {"row": int(stream.below(2, 5, 1)[0])}

    def render(self, labels, factors, stream):
        picture = (stream.words(3, 60) >> np.uint64(56)).astype(np.uint8).reshape(5, 4, 3)
        picture[factors["row"]] = 255
        return picture
'''


def write_toy(folder: Path, *edits: tuple[str, str]) -> str:
    """The path of a toy.py in `folder`; each edit replaces one text of the source."""
    text = SOURCE
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "toy.py").write_text(text)
    return str(folder / "toy.py")


def make(path: str, out: Path, options: dict | None = None, **arguments) -> Manifest:
    """Build a dataset file into a folder."""
    return build(dataset(path, options or {}), out, reference=path, **arguments)


def forge(folder: Path, change: Callable[[dict], object]) -> None:
    """Edit a manifest so that its own digest agrees again."""
    found = json.loads((folder / manifest.NAME).read_text())
    change(found)
    found["content_digest"] = manifest.overall_digest(found)
    (folder / manifest.NAME).write_text(files.dumps_json(found))


def draw(made: Dataset, split: str, index: int, seed: int = 0) -> tuple[dict, dict]:
    """Labels and factors without the cost of rendering."""
    return made.draw(split, index, Stream(stream_key(made.name, made.version, split, seed), index))


def drawn(made: Dataset, split: str) -> list[Sample]:
    """All samples of a split."""
    return list(made.samples(split, 0, made.splits[split], 0))


def interrupted(folder: Path, out: Path) -> str:
    """A build whose dataset file raised at sample 33; the path of the file, mended."""
    head = "def draw(self, split, index, stream):\n"
    broken = write_toy(folder, (head, f"{head}        1 / (index - 33)\n"))
    with pytest.raises(UserError, match="ZeroDivisionError"):
        make(broken, out, shard_size=10)
    assert not (out / "manifest.json").exists() and not list(out.glob("*.tmp"))
    return write_toy(folder)


class Usage(NamedTuple):
    """What shutil.disk_usage says."""

    total: int
    used: int
    free: int


def folder_bytes(folder: Path, pattern: str = "*") -> dict[str, bytes]:
    """Every file of a folder: name -> bytes."""
    return {path.name: path.read_bytes() for path in sorted(Path(folder).glob(pattern))}


def naive_resize(picture: np.ndarray, height: int, width: int) -> np.ndarray:
    """The triangle filter in fractions, straight from its definition, halves rounded up."""

    def weights(size_in, size_out):
        scale = max(Fraction(1), Fraction(size_in, size_out))
        table = []
        for target in range(size_out):
            centre = (target + Fraction(1, 2)) * size_in / size_out
            row = [max(Fraction(0), 1 - abs(s + Fraction(1, 2) - centre) / scale) for s in range(size_in)]
            table.append({s: w / sum(row) for s, w in enumerate(row) if w})
        return table

    rows, columns = weights(picture.shape[0], height), weights(picture.shape[1], width)
    pixels = picture.tolist()
    lines = [[sum(w * line[s] for s, w in column.items()) for column in columns] for line in pixels]
    return np.array(
        [[int(sum(w * lines[s][x] for s, w in row.items()) + Fraction(1, 2)) for x in range(width)] for row in rows],
        dtype=np.uint8,
    )
