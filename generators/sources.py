"""Digits by name: `optdigits` (embedded) and `mnist`, each checked by its digest."""

import gzip
import hashlib
import http.client
import importlib.util
import os
import urllib.request
import zlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from generators import canvas
from generators.dataset import UserError

MNIST_FILES = {  # name -> SHA-256 of the decompressed bytes
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
MNIST_MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
OPTDIGITS_SHA256 = "87ff0c9e40dc7e2c0e34e7257799c2e3f3aec1a016363bb11cad869ec428a826"
OPTDIGITS_TRAIN = 1347
DIGIT_SIDE = 28
DIGIT_CLASSES = 10


@dataclass(frozen=True)
class DigitSource:
    """Grey digits of 28x28 pixels in two splits that never mix.

    name, digest, licence: the identity that goes into a manifest (never a path).
    pictures: {"train", "test"} -> (n, 28, 28) uint8.   labels: the same -> (n,) uint8 in 0..9.
    """

    name: str
    digest: str
    licence: str
    pictures: dict[str, np.ndarray]
    labels: dict[str, np.ndarray]

    def count(self, split: str) -> int:
        return len(self.labels[split])


def data_root() -> Path:
    """Where generated and downloaded data is kept: $SUPPRESSION_BENCH_CACHE or ~/.cache/suppression-bench."""
    return Path(os.environ.get("SUPPRESSION_BENCH_CACHE") or Path.home() / ".cache" / "suppression-bench")


def digits(name: str) -> DigitSource:
    """The digit source of a name: `optdigits`, `mnist:DIR` (DIR holds MNIST/raw/) or `mnist` (downloads once).

    Raises:
        UserError: unknown name, missing folder, or a file that is not the original.

    >>> digits("optdigits").count("train")
    1347
    """
    kind, _, place = name.partition(":")
    if name == "optdigits":
        return _optdigits()
    if kind == "mnist":
        folder = Path(place) / "MNIST" / "raw" if place else download_mnist(data_root() / "MNIST" / "raw")
        return _mnist(folder.absolute())
    raise UserError(f"unknown digit source {name!r}: choose optdigits, mnist or mnist:DIR")


@lru_cache(maxsize=2)
def _optdigits() -> DigitSource:
    small, labels = _optdigits_table()
    digest = hashlib.sha256(small.tobytes() + labels.tobytes()).hexdigest()
    if digest != OPTDIGITS_SHA256:
        raise UserError(
            f"optdigits: scikit-learn's digits have the SHA-256 {digest[:12]}..., expected {OPTDIGITS_SHA256[:12]}...; "
            "install an unmodified scikit-learn"
        )
    # Grey levels 0..16 become 0..255 in integers before the 8x8 pictures grow to 28x28.
    grey = (small.astype(np.int64) * 255 // 16).astype(np.uint8)
    large = np.stack([canvas.resize(picture, DIGIT_SIDE, DIGIT_SIDE) for picture in grey])
    cut = OPTDIGITS_TRAIN
    return DigitSource(
        "optdigits", digest, "CC BY 4.0 (Alpaydin & Kaynak, 1998, UCI)",
        {"train": large[:cut], "test": large[cut:]}, {"train": labels[:cut], "test": labels[cut:]},
    )  # fmt: skip


def _optdigits_table() -> tuple[np.ndarray, np.ndarray]:
    # scikit-learn's file is read without importing scikit-learn, which takes a second in every worker.
    found = importlib.util.find_spec("sklearn")
    path = Path(found.submodule_search_locations[0]) / "datasets" / "data" / "digits.csv.gz" if found else None
    if path is None or not path.is_file():
        raise UserError(
            "optdigits: scikit-learn's digits.csv.gz is not where it should be; install scikit-learn anew, "
            "or use --digit-source mnist"
        )
    with gzip.open(path, "rt", encoding="ascii") as file:
        table = np.loadtxt(file, delimiter=",", dtype=np.int64)
    return table[:, :-1].reshape(-1, 8, 8).astype(np.uint8), table[:, -1].astype(np.uint8)


@lru_cache(maxsize=2)
def _mnist(folder: Path) -> DigitSource:
    arrays = {name: _idx(_mnist_bytes(folder, name)) for name in MNIST_FILES}
    digest = hashlib.sha256("".join(MNIST_FILES.values()).encode()).hexdigest()
    return DigitSource(
        "mnist", digest, "CC BY-SA 3.0 (LeCun, Cortes & Burges)",
        {"train": arrays["train-images-idx3-ubyte"], "test": arrays["t10k-images-idx3-ubyte"]},
        {"train": arrays["train-labels-idx1-ubyte"], "test": arrays["t10k-labels-idx1-ubyte"]},
    )  # fmt: skip


def _mnist_bytes(folder: Path, name: str) -> bytes:
    plain, packed = folder / name, folder / f"{name}.gz"
    try:
        if plain.is_file():
            data, found = plain.read_bytes(), plain
        elif packed.is_file():
            data, found = gzip.decompress(packed.read_bytes()), packed
        else:
            raise UserError(
                f"MNIST file {name} (or {name}.gz) is missing in {folder}: name the folder that holds MNIST/raw/, "
                "as mnist:DIR, or use --digit-source optdigits"
            )
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{packed}: cannot be read ({error}); fetch the file anew") from None
    digest = hashlib.sha256(data).hexdigest()
    if digest != MNIST_FILES[name]:
        raise UserError(
            f"{found}: not the original MNIST file (SHA-256 of its {len(data)} decompressed bytes is {digest[:12]}..., "
            f"expected {MNIST_FILES[name][:12]}...); fetch the file anew"
        )
    return data


def _idx(data: bytes) -> np.ndarray:
    # The IDX format: 0, 0, type 8 (uint8), number of axes, then big-endian axis lengths. The digest vouches for it.
    axes = data[3]
    shape = np.frombuffer(data, dtype=">u4", count=axes, offset=4).astype(int)
    return np.frombuffer(data, dtype=np.uint8, offset=4 + 4 * axes).reshape(shape)


def download_mnist(folder: Path, mirrors: tuple[str, ...] = MNIST_MIRRORS) -> Path:
    """Fetch the four MNIST files that `folder` lacks from the first mirror that answers; checked before kept.

    Raises:
        UserError: no mirror gave a file with the pinned digest.
    """
    for name, expected in MNIST_FILES.items():
        target = folder / f"{name}.gz"
        if target.is_file() or (folder / name).is_file():
            continue
        faults = []
        for mirror in mirrors:
            try:
                with urllib.request.urlopen(f"{mirror}{name}.gz", timeout=30) as answer:
                    packed = answer.read()
                if hashlib.sha256(gzip.decompress(packed)).hexdigest() != expected:
                    raise OSError("the file's SHA-256 is not MNIST's")
            except (OSError, EOFError, zlib.error, http.client.HTTPException) as error:
                faults.append(f"{mirror}: {error}")
                continue
            folder.mkdir(parents=True, exist_ok=True)
            partial = target.with_name(f"{target.name}.{os.getpid()}.tmp")
            partial.write_bytes(packed)
            partial.replace(target)
            break
        else:
            raise UserError(
                f"MNIST could not be downloaded ({'; '.join(faults)}). Put {name}.gz and the other three files into "
                f"{folder}, name a folder that has them as mnist:DIR, or use --digit-source optdigits"
            )
    return folder
