"""The first pass over a folder of pictures: every file is read, checked and decoded once, and its SHA-256 remembered."""

import contextlib
import hashlib
import io
import os
import secrets
import sys
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import PIL
from PIL import Image, UnidentifiedImageError
from tqdm import tqdm

from generators import executor, sources, strict_json
from generators.dataset import UserError

FORMATS = ("JPEG", "PNG", "BMP", "GIF", "PPM", "WEBP", "TIFF")
GREY_16 = ("I", "I;16", "I;16L", "I;16B", "I;16N")
MODES = (*GREY_16, "1", "L", "LA", "La", "P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr")
MAX_PIXELS = 178_956_970  # Pillow's own limit; ours holds where somebody has lifted Pillow's
MAX_BYTES = 1 << 30
TOO_LARGE = "is too large (more than 178 million pixels)"
SHOWN = 20
FILES_PER_TASK = 64
KEPT = 4
RULES = 1  # raised whenever this file would accept other pictures: older caches are then made anew


class Unreadable(Exception):
    """Why a file is no picture that can be used: half a sentence that follows the file's name."""


class File(NamedTuple):
    """A picture's path below the root (with slashes), its size in bytes and its time of change in nanoseconds."""

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
        key = hashlib.sha256(_bytes(f"{RULES}\0{PIL.__version__}\0{self.root}\n"))
        for path, size, modified in self.files:
            key.update(_bytes(f"{path}\0{size}\0{modified}\n"))
        object.__setattr__(self, "key", key.hexdigest())


@dataclass(frozen=True)
class Checked:
    """What the first pass found: each file's SHA-256, in the listing's order, and the digest of all, free of the root."""

    sha256: list[str]
    digest: str


def decode(data: bytes, small: bool = False) -> Image.Image:
    """The picture (the first, where there are several) of a file's bytes, decoded, in the mode that the file has.

    Arguments:
        data: the file's bytes.
        small: at an eighth of the size where the format allows it (JPEG): the data are still read to their end.

    A file that lacks only bytes behind its last pixel (a PNG's end mark) is whole.

    Raises:
        Unreadable: no bytes, no picture of the known formats, too large, damaged, or in a mode that has no RGB form.
    """
    if not data:
        raise Unreadable("is empty")
    try:
        image = Image.open(io.BytesIO(data), formats=FORMATS)
        enormous = image.width * image.height > MAX_PIXELS
        if not enormous:
            if small:
                image.draft(None, (1, 1))
            image.load()
    except Image.DecompressionBombError:
        raise Unreadable(TOO_LARGE) from None
    except UnidentifiedImageError:
        raise Unreadable(f"is not a picture in a known format ({', '.join(FORMATS)})") from None
    except Exception as error:  # Pillow's readers raise nearly anything on damaged bytes, SyntaxError too
        raise Unreadable(f"is truncated or damaged ({str(error) or type(error).__name__})") from None
    if enormous:
        raise Unreadable(TOO_LARGE)
    if image.mode not in MODES:
        raise Unreadable(f"has the mode {image.mode}, which has no RGB form here: save it as 8-bit RGB or grey")
    return image


_known: dict[Path, Checked] = {}  # what this process has opened, the latest last


def check(listing: Listing, note: Callable[[int, int], None] | None = None) -> Checked:
    """Read and decode every file of a listing once, unless the data root remembers that very listing.

    Arguments:
        listing: the files; one with the same key is not read again.
        note: called with (files read, files in all) as the pass goes on; a terminal shows a progress bar anyway.

    Returns:
        the files' SHA-256 and the digest over every (path, SHA-256).

    Raises:
        UserError: files that cannot be used, all of them together; a data root that cannot be written.
    """
    memory = _memory(listing)
    checked = _known.pop(memory, None) or _remembered(memory, listing)
    if checked is None:
        sums = _read_all(listing, note)
        checked = Checked(sums, _digest(listing, sums))
        _remember(memory, listing, checked)
    _known[memory] = checked
    if len(_known) > KEPT:
        del _known[next(iter(_known))]
    return checked


def is_known(listing: Listing) -> bool:
    """Whether `check` would answer without reading the pictures."""
    return _memory(listing) in _known or _remembered(_memory(listing), listing) is not None


def _memory(listing: Listing) -> Path:
    return sources.data_root() / "folders" / f"{listing.key}.json"


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")  # a file's name need not be valid UTF-8


def _digest(listing: Listing, sums: list[str]) -> str:
    digest = hashlib.sha256()
    for path, sha256 in sorted(zip((file.path for file in listing.files), sums, strict=True)):
        digest.update(_bytes(f"{path}\0{sha256}\n"))
    return digest.hexdigest()


def _remembered(memory: Path, listing: Listing) -> Checked | None:
    # A memory that is not exactly what _remember would write for this listing counts for nothing.
    try:
        content = strict_json.loads(memory.read_bytes(), str(memory))
    except (OSError, UserError):
        return None
    if strict_json.faults(content, {"digest": str, "files": list}, "it"):
        return None
    rows = content["files"]
    whole = all(isinstance(row, list) and len(row) == 2 and isinstance(row[1], str) for row in rows)
    if not whole or [row[0] for row in rows] != [file.path for file in listing.files]:
        return None
    found = Checked([row[1] for row in rows], content["digest"])
    return found if _digest(listing, found.sha256) == found.digest else None


def _remember(memory: Path, listing: Listing, checked: Checked) -> None:
    rows = [[file.path, sha256] for file, sha256 in zip(listing.files, checked.sha256, strict=True)]
    partial = memory.with_name(f"{memory.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        memory.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(strict_json.dumps({"digest": checked.digest, "files": rows}))
        partial.replace(memory)
    except OSError as error:
        raise UserError(
            f"{memory.parent}: cannot be written ({error.strerror}), so every process would check {listing.root} anew; "
            "make room there, or set SUPPRESSION_BENCH_CACHE to a folder that can be written",
            exit_code=4,
        ) from None
    finally:
        with contextlib.suppress(OSError):  # gone where all went well
            partial.unlink()


def _inspect(path: Path) -> tuple[str, str | None]:
    # (SHA-256, None) of a good picture, ("", what is wrong) of any other file.
    try:
        if not path.is_file():
            return "", "is no file (a broken link?)"
        if path.stat().st_size > MAX_BYTES:
            return "", f"is too large (more than {MAX_BYTES >> 20} MiB)"
        data = path.read_bytes()
        decode(data, small=True)
    except OSError as error:
        return "", f"cannot be read ({error.strerror})"
    except Unreadable as error:
        return "", str(error)
    return hashlib.sha256(data).hexdigest(), None


def _read_all(listing: Listing, note: Callable | None) -> list[str]:
    paths = [listing.root / file.path for file in listing.files]
    tasks = [paths[start : start + FILES_PER_TASK] for start in range(0, len(paths), FILES_PER_TASK)]
    found = []
    pool = ThreadPoolExecutor(executor.cores())  # Pillow and hashlib let other threads run while they work
    bar = tqdm(total=len(paths), desc="checking pictures", unit="file", disable=not sys.stderr.isatty())
    try:
        with warnings.catch_warnings():  # here and not in the threads, which share the filters
            warnings.simplefilter("ignore")
            for answers in pool.map(lambda task: [_inspect(path) for path in task], tasks):
                found += answers
                bar.update(len(answers))
                if note:
                    note(len(found), len(paths))
    finally:
        pool.shutdown(cancel_futures=True)  # Ctrl-C need not wait for a million files
        bar.close()
    faults = [
        f"{listing.root / file.path} {fault}" for file, (_, fault) in zip(listing.files, found, strict=True) if fault
    ]
    if faults:
        more = [f"and {len(faults) - SHOWN} more"] if len(faults) > SHOWN else []
        head = f"{listing.root}: {len(faults)} of {len(paths)} pictures cannot be used; repair or remove them and run again:"
        raise UserError("\n".join([head, *faults[:SHOWN], *more]))
    return [sha256 for sha256, _ in found]
