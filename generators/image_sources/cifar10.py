"""`cifar10:DIR`: the CIFAR-10 images from their original Python batches, which are checked by digest before all else."""

import hashlib
import io
import pickle
from functools import lru_cache
from pathlib import Path

import numpy as np

from generators import canvas
from generators.dataset import UserError
from generators.sources import ImageSource

FOLDER = "cifar-10-batches-py"
PAGE = "https://www.cs.toronto.edu/~kriz/cifar.html"
FILES = {  # name -> bytes, MD5 (the digest that is published)
    "data_batch_1": (31035704, "c99cafc152244af753f735de768cd75f"),
    "data_batch_2": (31035320, "d4bba439e000b95fd0a9bffe97cbabec"),
    "data_batch_3": (31035999, "54ebc095f3ab1f0389bbae665268c751"),
    "data_batch_4": (31035696, "634d18415352ddfa80567beed471001a"),
    "data_batch_5": (31035623, "482c414d41f54cd18b22e5b47cb7c3cb"),
    "test_batch": (31035526, "40351d587109b95175f43aff81a1287e"),
    "batches.meta": (158, "5ff9c542aee3614f3951f8cda6e48888"),
}
PARTS = {"train": [f"data_batch_{number}" for number in range(1, 6)], "test": ["test_batch"]}
CLASSES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
SIDE = 32
CHANNELS = 3


class Cifar10(ImageSource):
    """CIFAR-10 (Krizhevsky, 2009): 50,000 + 10,000 images of 32x32 pixels in ten classes, in their original order.

    Raises:
        UserError: no location, no such folder, or a file that is missing or not the original.
    """

    name = "cifar10"
    licence = "no licence stated (Krizhevsky, 2009)"
    classes = CLASSES
    side = SIDE

    def __init__(self, location: str = ""):
        if not location:
            raise UserError(
                f"the image source cifar10 needs a place: --image-source cifar10:DIR, where DIR is or holds {FOLDER}/; fetch the "
                f"Python version from {PAGE}"
            )
        folder = Path(location).absolute()
        self._images, self.labels, self.digest = _opened(folder / FOLDER if (folder / FOLDER).is_dir() else folder)

    def image(self, part: str, index: int, side: int) -> np.ndarray:
        """Image `index` of a part as (side, side, 3) uint8: a copy at 32, else each channel by `canvas.resize`."""
        original = self._images[part][index]
        if side == SIDE:
            return original.copy()
        return np.stack([canvas.resize(original[:, :, c], side, side) for c in range(CHANNELS)], axis=2)


@lru_cache(maxsize=2)
def _opened(folder: Path) -> tuple[dict, dict, str]:
    # Images and labels of both parts, read-only since every source of this process shares them, and their digest.
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder; name the one that is or holds {FOLDER}/ as cifar10:DIR ({PAGE})")
    batches = {name: _original(folder / name) for name in FILES}
    images, labels, digest = {}, {}, hashlib.sha256()
    for part, names in PARTS.items():
        contents = [_Batch(io.BytesIO(batches.pop(name)), encoding="latin-1").load() for name in names]
        rows = np.concatenate([content["data"] for content in contents])  # 3072 bytes each, channel by channel
        images[part] = np.ascontiguousarray(rows.reshape(-1, CHANNELS, SIDE, SIDE).transpose(0, 2, 3, 1))
        labels[part] = np.array([label for content in contents for label in content["labels"]], dtype=np.int64)
        digest.update(images[part])
        digest.update(labels[part].astype(np.uint8))
        images[part].flags.writeable = labels[part].flags.writeable = False
    return images, labels, digest.hexdigest()


def _original(path: Path) -> bytes:
    size, expected = FILES[path.name]
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise UserError(
            f"{path} is missing: name the folder that is or holds {FOLDER}/ as cifar10:DIR ({PAGE})"
        ) from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); fetch the file anew from {PAGE}") from None
    if len(data) != size:
        raise UserError(f"{path}: holds {len(data)} bytes, expected {size}; fetch the file anew from {PAGE}")
    digest = hashlib.md5(data, usedforsecurity=False).hexdigest()
    if digest != expected:
        raise UserError(
            f"{path}: not the original CIFAR-10 file (its MD5 is {digest[:12]}..., expected {expected[:12]}...); fetch "
            f"the file anew from {PAGE}"
        )
    return data


class _Batch(pickle.Unpickler):
    """Reads a batch: the only pickle of this project, and only behind its pinned digest.

    MD5 is no guard against malice, so nothing but numpy's own constructors of an array may be called.
    """

    ALLOWED = {
        ("numpy.core.multiarray", "_reconstruct"): lambda kind, shape, code: kind(shape, code),
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): np.dtype,
    }

    def find_class(self, module_name: str, global_name: str):
        if (module_name, global_name) not in self.ALLOWED:
            raise UserError(f"cifar10: a batch asks for {module_name}.{global_name}; fetch the files anew from {PAGE}")
        return self.ALLOWED[module_name, global_name]
