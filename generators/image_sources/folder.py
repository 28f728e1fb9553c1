"""`folder:DIR`: a folder of pictures, DIR/{train,val}/<class>/<picture>, in sizes and modes of all kinds."""

import hashlib
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import ExifTags, Image

from generators import first_pass
from generators.dataset import UserError
from generators.image_source import ImageSource

FOLDERS = {"train": "train", "test": "val"}
ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".ppm", ".webp", ".tif", ".tiff")
LAYOUT = (
    f"folder:DIR expects DIR/train/<class>/<picture> and DIR/val/<class>/<picture>, where a picture ends in "
    f"{', '.join(ENDINGS)}"
)
TURNS = {  # EXIF orientation -> what puts the picture upright
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


class Folder(ImageSource):
    """The pictures of a folder, sorted by class and path; all of them are checked before the first is used.

    Part `train` is the folder train/, part `test` is val/; the classes are train's. The digest covers every file's
    path below DIR and bytes, so a copied folder keeps it.

    Raises:
        UserError: no place, another layout, or files that are no pictures (all of them together).
    """

    name = "folder"
    licence = "see the owner of the pictures"
    side = None

    def __init__(self, place: str = ""):
        if not place:
            raise UserError(f"the image source folder needs a place, --image-source folder:DIR; {LAYOUT}")
        listing = first_pass.Listing(*_listed(Path(place)))
        checked = first_pass.check(listing)
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
    def pending(cls, place: str) -> str:
        """Whether the first pass over the pictures is still to come."""
        listing = first_pass.Listing(*_listed(Path(place)))
        return (
            ""
            if first_pass.is_known(listing)
            else f"all {len(listing.files)} pictures of {place} would be checked first"
        )

    def picture(self, part: str, index: int, side: int) -> np.ndarray:
        """Picture `index` of a part, upright, as RGB, resized by Pillow's antialiased bilinear filter.

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
                image = rgb(upright(first_pass.decode(data)))
        except first_pass.Unreadable as error:
            raise UserError(f"{path} {error}; repair, replace or remove it and run again") from None
        return np.array(image.resize((side, side), Image.Resampling.BILINEAR))


def upright(image: Image.Image) -> Image.Image:
    """The picture as its EXIF orientation wants it seen; an EXIF block that cannot be read says nothing.

    Not ImageOps.exif_transpose, which turns alike but copies the picture and writes a new EXIF block (and fails on bad ones).
    """
    try:
        orientation = image.getexif().get(ExifTags.Base.Orientation)
    except Exception:  # a picture is not lost for its metadata, whatever Pillow raises on them
        return image
    turn = TURNS.get(orientation) if isinstance(orientation, int) else None
    return image if turn is None else image.transpose(turn)


def rgb(image: Image.Image) -> Image.Image:
    """A picture of any of `first_pass.MODES` as RGB: grey repeated, alpha dropped, 16-bit grey to its upper 8 bits.

    The mode I holds 32 bits, but readers fill it with 16-bit grey: what lies beyond after the shift is clipped to 0..255.

    >>> rgb(Image.new("L", (1, 1), 7)).getpixel((0, 0))
    (7, 7, 7)
    """
    if image.mode in first_pass.GREY_16:
        grey = np.clip(np.asarray(image).astype(np.int64) >> 8, 0, 255)
        image = Image.fromarray(grey.astype(np.uint8))
    if image.mode == "La":
        image = image.convert("LA")
    if image.mode in ("P", "PA", "RGBa"):
        image = image.convert("RGBA")
    return image.convert("RGB")


def _listed(place: Path) -> tuple[Path, list[first_pass.File]]:
    # The root and its pictures: train before val, sorted by class, then by path. Every fault of the layout is named.
    try:
        if not place.is_dir():
            raise UserError(f"{place}: no such folder; {LAYOUT}")
        root = place.resolve()
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
                pictures = sorted(_pictures(root / folder / name, f"{folder}/{name}", ()))
                faults += [] if pictures else [f"{folder}/{name} has no picture"]
                files += pictures
    except OSError as error:
        raise UserError(
            f"{error.filename}: cannot be listed ({error.strerror}); make it readable", exit_code=4
        ) from None
    if faults:
        more = [f"and {len(faults) - first_pass.SHOWN} more"] if len(faults) > first_pass.SHOWN else []
        raise UserError("\n".join([f"{root}: {LAYOUT}, but:", *faults[: first_pass.SHOWN], *more]))
    return root, files


def _class_folders(folder: Path) -> list[str]:
    with os.scandir(folder) as entries:
        return sorted(entry.name for entry in entries if entry.is_dir() and not entry.name.startswith("."))


def _pictures(folder: Path, name: str, above: tuple[str, ...]) -> Iterator[first_pass.File]:
    # Everything in a class folder at any depth whose ending is a picture's; links are followed, but never in a circle.
    here = os.path.realpath(folder)
    if here in above:
        raise UserError(f"{folder}: a link that leads to a folder above itself; remove it and run again")
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_dir():
                yield from _pictures(Path(entry.path), f"{name}/{entry.name}", (*above, here))
            elif entry.name.lower().endswith(ENDINGS):
                try:
                    state = entry.stat()
                    yield first_pass.File(f"{name}/{entry.name}", state.st_size, state.st_mtime_ns)
                except OSError:  # a broken link: the first pass says so, together with all other faults
                    yield first_pass.File(f"{name}/{entry.name}", 0, 0)
