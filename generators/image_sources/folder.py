"""`folder:DIR`: a folder of images, DIR/{train,val}/<class>/<image>, in sizes and modes of all kinds."""

import hashlib
import os
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import PIL
from PIL import Image
from tqdm import tqdm

from generators import executor, image_files, sources
from generators.dataset import UserError
from generators.files import dumps_json, loads_json, write_atomic
from generators.image_files import Unreadable
from generators.sources import ImageSource

FOLDERS = {"train": "train", "test": "val"}
ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".ppm", ".webp", ".tif", ".tiff")
LAYOUT = (
    f"folder:DIR expects DIR/train/<class>/<image> and DIR/val/<class>/<image>, where an image ends in "
    f"{', '.join(ENDINGS)}"
)
MAX_BYTES = 1 << 30
SHOWN = 20  # faults
FILES_PER_TASK = 64
RULES = 1  # raised whenever the first pass would accept other images: what older passes remember is then made anew


class Folder(ImageSource):
    """The images of a folder, sorted by class and path; all of them are checked before the first is used.

    Part `train` is the folder train/, part `test` is val/; the classes are train's. The digest covers every file's
    path below DIR and bytes, so a copied folder keeps it.

    Raises:
        UserError: no location, another layout, or files that are no images (all of them together).
    """

    name = "folder"
    licence = "see the owner of the pictures"
    side = None

    def __init__(self, location: str = ""):
        if not location:
            raise UserError(f"the image source folder needs a place, --image-source folder:DIR; {LAYOUT}")
        listing = list_folder(Path(location))
        checked = check(listing)
        self.digest = checked.digest
        self._root = listing.root
        self._files = {part: [] for part in FOLDERS}
        part_of = {folder: part for part, folder in FOLDERS.items()}
        for file, sha256 in zip(listing.files, checked.sha256, strict=True):
            self._files[part_of[file.path.split("/")[0]]].append((file.path, sha256))
        names = {part: [path.split("/")[1] for path, _ in files] for part, files in self._files.items()}
        self.classes = sorted(set(names["train"]))
        number = {name: label for label, name in enumerate(self.classes)}
        self.labels = {part: np.array([number[name] for name in names[part]], dtype=np.int64) for part in FOLDERS}

    @classmethod
    def pending(cls, location: str) -> str:
        """Whether the first pass over the images is still to come."""
        listing = list_folder(Path(location))
        remembered = _remembered(listing)
        return "" if remembered else f"all {len(listing.files)} images of {location} would be checked first"

    def image(self, part: str, index: int, side: int) -> np.ndarray:
        """Image `index` of a part, upright, as RGB, resized by Pillow's antialiased bilinear filter.

        Alpha is dropped, the aspect is not kept (as in the paper), and colour profiles (ICC) are ignored.

        Arguments:
            part: `train` or `test`.
            index: 0 <= index < count(part).
            side: height and width in pixels.

        Returns:
            (side, side, 3) uint8, a new array.

        Raises:
            UserError: the file is not the one that the first pass has seen.
        """
        name, sha256 = self._files[part][index]
        path = self._root / name
        try:
            data = path.read_bytes()
        except OSError as error:
            raise UserError(f"{path}: cannot be read any more ({error.strerror}); restore it and run again") from None
        if hashlib.sha256(data).hexdigest() != sha256:
            raise UserError(f"{path}: the file has changed since it was checked; leave the folder alone and run again")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                image = image_files.rgb(image_files.upright(image_files.decode(data)))
        except Unreadable as error:
            raise UserError(f"{path} {error}; repair, replace or remove it and run again") from None
        return np.array(image.resize((side, side), Image.Resampling.BILINEAR))


# What lies in the folder


class File(NamedTuple):
    """An image's path below the root (with slashes), its size in bytes and its time of change in nanoseconds."""

    path: str
    size: int
    modified: int


@dataclass(frozen=True)
class Listing:
    """The files of a folder as a listing shows them; `key` is the SHA-256 of all of it, and the listing's identity."""

    root: Path
    files: list[File] = field(compare=False, repr=False)
    key: str = field(init=False)

    def __post_init__(self):
        key = hashlib.sha256(_octets(f"{RULES}\0{PIL.__version__}\0{self.root}\n"))
        for path, size, modified in self.files:
            key.update(_octets(f"{path}\0{size}\0{modified}\n"))
        object.__setattr__(self, "key", key.hexdigest())


def list_folder(location: Path) -> Listing:
    """The images of a folder: train before val, sorted by class, then by path.

    Raises:
        UserError: every fault of the layout, or a folder that cannot be listed (exit code 4).
    """
    try:
        if not location.is_dir():
            raise UserError(f"{location}: no such folder; {LAYOUT}")
        root = location.resolve()
        missing = [folder for folder in FOLDERS.values() if not (root / folder).is_dir()]
        if missing:
            raise UserError(f"{root} has no folder {' and no folder '.join(missing)}; {LAYOUT}")
        classes = {folder: _class_folders(root / folder) for folder in FOLDERS.values()}
        faults = [f"{folder}/ has no class folder" for folder, names in classes.items() if not names]
        if classes["train"]:
            strange = sorted(set(classes["val"]) - set(classes["train"]))
            faults += [f"val/{name} is a class that train/ lacks" for name in strange]
        files = []
        for folder, names in classes.items():
            for name in names:
                images = sorted(_images(root / folder / name, f"{folder}/{name}", ()))
                faults += [] if images else [f"{folder}/{name} has no image"]
                files += images
    except OSError as error:
        raise UserError(
            f"{error.filename}: cannot be listed ({error.strerror}); make it readable", exit_code=4
        ) from None
    _refuse(f"{root}: {LAYOUT}, but:", faults)
    return Listing(root, files)


def _class_folders(folder: Path) -> list[str]:
    with os.scandir(folder) as entries:
        return sorted(entry.name for entry in entries if entry.is_dir() and not entry.name.startswith("."))


def _images(folder: Path, name: str, above: tuple[str, ...]) -> Iterator[File]:
    # Everything in a class folder at any depth whose ending is an image's; links are followed, but never in a circle.
    real = os.path.realpath(folder)
    if real in above:
        raise UserError(f"{folder}: a link that leads to a folder above itself; remove it and run again")
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_dir():
                yield from _images(Path(entry.path), f"{name}/{entry.name}", (*above, real))
            elif entry.name.lower().endswith(ENDINGS):
                try:
                    state = entry.stat()
                    yield File(f"{name}/{entry.name}", state.st_size, state.st_mtime_ns)
                except OSError:  # a broken link: the first pass says so, together with all other faults
                    yield File(f"{name}/{entry.name}", 0, 0)


def _refuse(head: str, faults: list[str]) -> None:
    if faults:
        more = [f"and {len(faults) - SHOWN} more"] if len(faults) > SHOWN else []
        raise UserError("\n".join([head, *faults[:SHOWN], *more]))


def _octets(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")  # a file's name need not be valid UTF-8


# The first pass: every file is read, checked and decoded once; workers and later runs take what it remembers.


@dataclass(frozen=True)
class Checked:
    """What the first pass yields: each file's SHA-256, in the listing's order, and the digest of all, free of the root."""

    sha256: list[str]
    digest: str


@lru_cache(maxsize=4)
def check(listing: Listing) -> Checked:
    """Read and decode every file of a listing once, unless the data root remembers that very listing.

    Raises:
        UserError: files that cannot be used, all of them together; a data root that cannot be written (exit code 4).
    """
    if remembered := _remembered(listing):
        return remembered
    sums = _read_all(listing)
    checked = Checked(sums, _digest(listing, sums))
    memory = _memory(listing)
    try:
        memory.parent.mkdir(parents=True, exist_ok=True)
        with write_atomic(memory) as file:
            file.write(dumps_json({"digest": checked.digest, "sha256": checked.sha256}).encode())
    except OSError as error:
        raise UserError(
            f"{memory.parent}: cannot be written ({error.strerror}), so every process would check {listing.root} anew; "
            "make room there, or set SUPPRESSION_BENCH_CACHE to a folder that can be written",
            exit_code=4,
        ) from None
    return checked


def _memory(listing: Listing) -> Path:
    return sources.data_root() / "folders" / f"{listing.key}.json"


def _remembered(listing: Listing) -> Checked | None:
    # A memory that does not agree with itself and with the listing counts for nothing.
    memory = _memory(listing)
    try:
        content = loads_json(memory.read_bytes(), str(memory))
        checked = Checked(content["sha256"], content["digest"])
        return checked if _digest(listing, checked.sha256) == checked.digest else None
    except (OSError, UserError, KeyError, TypeError, ValueError):
        return None


def _digest(listing: Listing, sums: list[str]) -> str:
    digest = hashlib.sha256()
    for path, sha256 in sorted(zip((file.path for file in listing.files), sums, strict=True)):
        digest.update(_octets(f"{path}\0{sha256}\n"))
    return digest.hexdigest()


def _read_all(listing: Listing) -> list[str]:
    paths = [listing.root / file.path for file in listing.files]
    tasks = [paths[start : start + FILES_PER_TASK] for start in range(0, len(paths), FILES_PER_TASK)]
    answers: list[tuple[str, str]] = []
    pool = ThreadPoolExecutor(executor.cores())  # Pillow and hashlib let other threads run while they work
    bar = tqdm(total=len(paths), desc="checking images", unit="file", disable=not sys.stderr.isatty())
    try:
        with warnings.catch_warnings():  # here and not in the threads, which share the filters
            warnings.simplefilter("ignore")
            for group in pool.map(lambda task: [_inspect(path) for path in task], tasks):
                answers += group
                bar.update(len(group))
    finally:
        pool.shutdown(cancel_futures=True)  # Ctrl-C need not wait for a million files
        bar.close()
    faults = [f"{path} {fault}" for path, (_, fault) in zip(paths, answers, strict=True) if fault]
    head = f"{listing.root}: {len(faults)} of {len(paths)} images cannot be used; repair or remove them and run again:"
    _refuse(head, faults)
    return [sha256 for sha256, _ in answers]


def _inspect(path: Path) -> tuple[str, str]:
    # (SHA-256, "") of a good image, ("", what is wrong) of any other file.
    try:
        if not path.is_file():
            return "", "is no file (a broken link?)"
        if path.stat().st_size > MAX_BYTES:
            return "", f"is too large (more than {MAX_BYTES >> 20} MiB)"
        data = path.read_bytes()
        image_files.decode(data, small=True)
    except OSError as error:
        return "", f"cannot be read ({error.strerror})"
    except Unreadable as error:
        return "", str(error)
    return hashlib.sha256(data).hexdigest(), ""
