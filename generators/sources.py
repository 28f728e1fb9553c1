"""Sources of images by name, each checked by its digest: grey digits here, colour images in `image_sources/`."""

import gzip
import hashlib
import http.client
import importlib.util
import os
import urllib.request
import zlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from generators import canvas, catalog
from generators.catalog import did_you_mean
from generators.dataset import UserError
from generators.files import write_atomic

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
IMAGE_SOURCES = "generators.image_sources"
LARGE_SIDE = 224  # pixels: what networks for natural images are trained on
MANY = 100_000  # train images, from which on the paper's batches of 1024 make sense


def data_root() -> Path:
    """Where generated and downloaded data is kept: $SUPPRESSION_BENCH_CACHE or ~/.cache/suppression-bench."""
    return Path(os.environ.get("SUPPRESSION_BENCH_CACHE") or Path.home() / ".cache" / "suppression-bench")


def pending(name: str) -> str:
    """What would come before the first image of a source, as half a sentence; "" where nothing would.

    Arguments:
        name: as of `--digit-source` or `--image-source`.

    >>> pending("optdigits"), pending("leaves")
    ('', '')
    """
    kind, _, location = name.partition(":")
    if name == "mnist":
        folder = data_root() / "MNIST" / "raw"
        complete = all((folder / file).is_file() or (folder / f"{file}.gz").is_file() for file in MNIST_FILES)
        return "" if complete else "MNIST would be downloaded first (12 MB; mnist:DIR names a folder that has it)"
    if location and kind.replace("_", "-") in catalog.names(IMAGE_SOURCES):
        return catalog.load_class(IMAGE_SOURCES, kind, ImageSource).pending(location)
    return ""


# Colour images


class ImageSource(ABC):
    """Labelled RGB images in two parts, `train` and `test`, that never mix. One file in `image_sources/` each.

    The constructor takes `location`, the text behind the colon of its name (`folder:DIR`), and sets:
        name: the source's kind, which goes into manifests; never a path.
        digest: SHA-256 (hex) of everything that the images follow from.
        licence: one line.
        classes: the classes' names, in the labels' order.
        labels: {"train", "test"} -> (n,) int64 class of each image; the order is part of the identity.
        side: the side in pixels that the images come in, or None where they have many.
    """

    name: str
    digest: str
    licence: str
    classes: list[str]
    labels: dict[str, np.ndarray]
    side: int | None

    @abstractmethod
    def __init__(self, location: str = ""): ...

    @classmethod
    def pending(cls, location: str) -> str:
        """What the constructor would have to do at length, as half a sentence; "" where it opens at once."""
        return ""

    @abstractmethod
    def image(self, part: str, index: int, side: int) -> np.ndarray:
        """Image `index` of a part, resized to (side, side, 3) uint8 whatever its aspect; a new array."""

    def count(self, part: str) -> int:
        return len(self.labels[part])

    def spread(self, part: str, count: int, index: int) -> int:
        """The image of sample `index` among `count`: evenly over the part, since folders are sorted by class."""
        return index * self.count(part) // count


def recipe_for(source: ImageSource) -> str:
    """The default recipe for natural images, by their number."""
    return "natural" if source.count("train") >= MANY else "natural-small"


def images(name: str) -> ImageSource:
    """The image source of a name: `leaves` (embedded), `folder:DIR` or `cifar10:DIR`.

    Raises:
        UserError: unknown name, missing folder, or files that are not what they should be.

    >>> images("leaves").count("train") >= 1000
    True
    """
    kind, colon, location = name.partition(":")
    kinds = catalog.names(IMAGE_SOURCES)
    if kind.replace("_", "-") not in kinds:
        if Path(name).is_dir():
            raise UserError(f"unknown image source {name!r}: an image folder is named folder:{name}")
        raise UserError(
            f"unknown image source {name!r}, {did_you_mean(kind, kinds)}: leaves, folder:DIR or cifar10:DIR"
        )
    cls = catalog.load_class(IMAGE_SOURCES, kind, ImageSource)
    return cls(location) if colon else cls()


# Digits


@dataclass(frozen=True)
class DigitSource:
    """Grey digits of 28x28 pixels in two splits that never mix.

    name, digest, licence: the identity that goes into a manifest (never a path).
    images: {"train", "test"} -> (n, 28, 28) uint8.   labels: the same -> (n,) uint8 in 0..9.
    """

    name: str
    digest: str
    licence: str
    images: dict[str, np.ndarray]
    labels: dict[str, np.ndarray]

    def count(self, split: str) -> int:
        return len(self.labels[split])


def digits(name: str) -> DigitSource:
    """The digit source of a name: `optdigits`, `mnist:DIR` (DIR holds MNIST/raw/) or `mnist` (downloads once).

    Raises:
        UserError: unknown name, missing folder, or a file that is not the original.

    >>> digits("optdigits").count("train")
    1347
    """
    kind, _, location = name.partition(":")
    if name == "optdigits":
        return _optdigits()
    if kind == "mnist":
        folder = Path(location) / "MNIST" / "raw" if location else download_mnist(data_root() / "MNIST" / "raw")
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
    # Grey levels 0..16 become 0..255 in integers before the 8x8 images grow to 28x28.
    grey = (small.astype(np.int64) * 255 // 16).astype(np.uint8)
    large = np.stack([canvas.resize(digit, DIGIT_SIDE, DIGIT_SIDE) for digit in grey])
    cut = OPTDIGITS_TRAIN
    return DigitSource(
        name="optdigits",
        digest=digest,
        licence="CC BY 4.0 (Alpaydin & Kaynak, 1998, UCI)",
        images={"train": large[:cut], "test": large[cut:]},
        labels={"train": labels[:cut], "test": labels[cut:]},
    )


def _optdigits_table() -> tuple[np.ndarray, np.ndarray]:
    # scikit-learn's file is read without importing scikit-learn, which takes a second in every worker.
    spec = importlib.util.find_spec("sklearn")
    folders = spec.submodule_search_locations if spec else None
    path = Path(folders[0]) / "datasets" / "data" / "digits.csv.gz" if folders else None
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
    return DigitSource(
        name="mnist",
        digest=hashlib.sha256("".join(MNIST_FILES.values()).encode()).hexdigest(),
        licence="CC BY-SA 3.0 (LeCun, Cortes & Burges)",
        images={"train": arrays["train-images-idx3-ubyte"], "test": arrays["t10k-images-idx3-ubyte"]},
        labels={"train": arrays["train-labels-idx1-ubyte"], "test": arrays["t10k-labels-idx1-ubyte"]},
    )


def _mnist_bytes(folder: Path, name: str) -> bytes:
    plain, packed = folder / name, folder / f"{name}.gz"
    path = plain if plain.is_file() else packed
    try:
        data = path.read_bytes() if path is plain else gzip.decompress(path.read_bytes())
    except FileNotFoundError:
        raise UserError(
            f"MNIST file {name} (or {name}.gz) is missing in {folder}: name the folder that holds MNIST/raw/, "
            "as mnist:DIR, or use --digit-source optdigits"
        ) from None
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path}: cannot be read ({error}); fetch the file anew") from None
    digest = hashlib.sha256(data).hexdigest()
    if digest != MNIST_FILES[name]:
        raise UserError(
            f"{path}: not the original MNIST file (SHA-256 of its {len(data)} decompressed bytes is {digest[:12]}..., "
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
            with write_atomic(target) as file:
                file.write(packed)
            break
        else:
            raise UserError(
                f"MNIST could not be downloaded ({'; '.join(faults)}). Put {name}.gz and the other three files into "
                f"{folder}, name a folder that has them as mnist:DIR, or use --digit-source optdigits"
            )
    return folder
