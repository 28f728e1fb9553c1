"""`cifar10:DIR`: the CIFAR-10 pictures from their original Python batches, checked by digest and read without pickle."""

import hashlib
import pickletools
from functools import lru_cache
from pathlib import Path

import numpy as np

from generators import canvas
from generators.dataset import UserError
from generators.image_source import ImageSource

FOLDER = "cifar-10-batches-py"
PAGE = "https://www.cs.toronto.edu/~kriz/cifar.html"
FILES = {  # name -> bytes, MD5 (the digest that is published; it guards against faults, the parser against malice)
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
    """CIFAR-10 (Krizhevsky, 2009): 50,000 + 10,000 pictures of 32x32 pixels in ten classes, in their original order.

    Raises:
        UserError: no place, no such folder, or a file that is missing or not the original.
    """

    name = "cifar10"
    licence = "no licence stated (Krizhevsky, 2009)"
    classes = CLASSES
    side = SIDE

    def __init__(self, place: str = ""):
        if not place:
            raise UserError(
                f"the image source cifar10 needs a place: --image-source cifar10:DIR, where DIR is or holds {FOLDER}/; fetch the "
                f"Python version from {PAGE}"
            )
        folder = Path(place).absolute()
        self._pictures, self.labels, self.digest = _opened(folder / FOLDER if (folder / FOLDER).is_dir() else folder)

    def picture(self, part: str, index: int, side: int) -> np.ndarray:
        """Picture `index` of a part as (side, side, 3) uint8: a copy at 32, else each channel by `canvas.resize`."""
        original = self._pictures[part][index]
        if side == SIDE:
            return original.copy()
        return np.stack([canvas.resize(original[:, :, c], side, side) for c in range(CHANNELS)], axis=2)


@lru_cache(maxsize=2)
def _opened(folder: Path) -> tuple[dict, dict, str]:
    # Pictures and labels of both parts, read-only since every source of this process shares them, and their digest.
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder; name the one that is or holds {FOLDER}/ as cifar10:DIR ({PAGE})")
    batches = {name: _original(folder / name) for name in FILES}
    pictures, labels, digest = {}, {}, hashlib.sha256()
    for part, names in PARTS.items():
        read = [_batch(batches.pop(name), folder / name) for name in names]
        pictures[part] = np.concatenate([pixels for pixels, _ in read])
        labels[part] = np.concatenate([numbers for _, numbers in read])
        digest.update(pictures[part])
        digest.update(labels[part].astype(np.uint8))
        pictures[part].flags.writeable = labels[part].flags.writeable = False
    return pictures, labels, digest.hexdigest()


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


def _batch(data: bytes, path: Path) -> tuple[np.ndarray, np.ndarray]:
    # (n, 32, 32, 3) uint8 and (n,) int64 of a batch: rows of 3072 bytes, channel by channel.
    try:
        content = parse(data)
        _, shape, _, by_columns, raw = content["data"].state
        labels, raw = content["labels"], raw.encode("latin-1")
        if type(labels) is not list or not all(type(label) is int for label in labels):
            raise ValueError("the labels are no list of integers")
        if shape != (len(labels), CHANNELS * SIDE * SIDE) or len(raw) != shape[0] * shape[1]:
            raise ValueError(f"{len(labels)} labels, but pictures of the shape {shape} in {len(raw)} bytes")
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise UserError(f"{path}: not in the layout of a CIFAR-10 batch ({error}); fetch it anew from {PAGE}") from None
    strange = [label for label in labels if not 0 <= label < len(CLASSES)]
    if strange:
        raise UserError(
            f"{path}: a label is {strange[0]}, allowed are 0 to {len(CLASSES) - 1}; fetch it anew from {PAGE}"
        )
    rows = np.frombuffer(raw, dtype=np.uint8).reshape(shape, order="F" if by_columns else "C")
    pictures = rows.reshape(-1, CHANNELS, SIDE, SIDE).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(pictures), np.array(labels, dtype=np.int64)


class Unmade:
    """What a pickle would have made by a call that is never made here; `state` is what it would have been given."""

    state = None


def parse(data: bytes):
    """The content of a pickle as plain dictionaries, lists, tuples, texts and integers, without running any of it.

    Only the operations of the known layout (Python 2, protocol 2) are understood; a text becomes a str of Latin-1.
    Nothing is imported or called: where a pickle would call something, an `Unmade` stands, with the state meant for it.

    Raises:
        ValueError, IndexError, KeyError, TypeError, AttributeError: it is no such pickle.

    >>> parse(b"\\x80\\x02}U\\x06labels]K\\x07as.")
    {'labels': [7]}
    """
    stack, marks, memory = [], [], {}

    def take(start):
        if start < 0:
            raise IndexError("an operation lacks its operands")
        items = stack[start:]
        del stack[start:]
        return items

    for operation, argument, _ in pickletools.genops(data):
        match operation.name:
            case "PROTO" | "STOP":
                pass
            case "SHORT_BINSTRING" | "BINSTRING" | "BININT" | "BININT1" | "BININT2" | "LONG1":
                stack.append(argument)
            case "NONE" | "NEWFALSE" | "NEWTRUE" | "GLOBAL":
                stack.append(operation.name == "NEWTRUE")  # nothing else of these is ever looked at
            case "BINPUT" | "LONG_BINPUT":
                memory[argument] = stack[-1]
            case "BINGET" | "LONG_BINGET":
                stack.append(memory[argument])
            case "EMPTY_DICT" | "EMPTY_LIST":
                stack.append({} if operation.name == "EMPTY_DICT" else [])
            case "MARK":
                marks.append(len(stack))
            case "TUPLE" | "TUPLE1" | "TUPLE2" | "TUPLE3" as name:
                stack.append(tuple(take(marks.pop() if name == "TUPLE" else len(stack) - int(name[-1]))))
            case "APPEND" | "APPENDS" as name:
                items = take(len(stack) - 1 if name == "APPEND" else marks.pop())
                stack[-1].extend(items)
            case "SETITEM" | "SETITEMS" as name:
                items = take(len(stack) - 2 if name == "SETITEM" else marks.pop())
                stack[-1].update(zip(items[::2], items[1::2], strict=True))
            case "REDUCE":
                take(len(stack) - 2)
                stack.append(Unmade())
            case "BUILD":
                [state] = take(len(stack) - 1)
                stack[-1].state = state
            case name:
                raise ValueError(f"the operation {name} has no place in it")
    [content] = stack
    return content
