"""Pictures to look at: of any folder, or of a generated dataset's test split, in the shape that an encoder takes."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from generators import first_pass, manifest, opened, preview
from generators.dataset import UserError

ENDINGS = (".png", ".jpg", ".jpeg")


@dataclass(frozen=True)
class Shown:
    """Pictures (N, side, side, C) uint8 and a name for each."""

    pictures: np.ndarray
    names: list[str]


def is_dataset(folder: Path) -> bool:
    """Whether `bench generate` wrote the folder."""
    return (folder / manifest.NAME).is_file()


def read(folder: Path, limit: int, image_shape: tuple[int, int, int]) -> Shown:
    """Up to `limit` pictures of a folder, spread over it, since folders are often sorted by class.

    Arguments:
        folder: a generated dataset (then its first probe's test split), or pictures (.png, .jpg) at any depth, sorted.
        limit: at least 1.
        image_shape: (side, side, channels) to bring them to, 1 channel for grey or 3 for RGB; the aspect is not kept.

    Raises:
        UserError: no such folder, no picture in it, or one that cannot be read.
    """
    if not folder.is_dir():
        raise UserError(f"--images {folder}: no such folder; name one with pictures, or a generated dataset")
    found = _of_dataset(folder, limit) if is_dataset(folder) else _of_folder(folder, limit)
    return Shown(np.stack([_shaped(image, image_shape) for image, _ in found]), [name for _, name in found])


def _of_dataset(folder: Path, limit: int) -> list[tuple[Image.Image, str]]:
    data = opened.open_folder(folder)
    split = next(iter(data.manifest["probes"].values()))[1] if data.manifest["probes"] else data.split
    data, made = data.to(split), []
    for index in preview.positions(len(data), limit):
        picture, _ = data[index]
        made.append((Image.fromarray(picture[:, :, 0] if picture.shape[2] == 1 else picture), f"{split} {index}"))
    return made


def _of_folder(folder: Path, limit: int) -> list[tuple[Image.Image, str]]:
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in ENDINGS and path.is_file())
    if not paths:
        raise UserError(f"--images {folder}: no picture in it ({', '.join(ENDINGS)}); name another folder")
    made = []
    for position in preview.positions(len(paths), limit):
        path = paths[position]
        try:
            made.append((ImageOps.exif_transpose(first_pass.decode(path.read_bytes())), path.name))
        except first_pass.Unreadable as error:
            raise UserError(f"{path} {error}; repair or remove it") from None
        except OSError as error:
            raise UserError(f"{path}: cannot be read ({error.strerror}); make it readable or remove it", 4) from None
    return made


def _shaped(image: Image.Image, image_shape: tuple[int, int, int]) -> np.ndarray:
    height, width, channels = image_shape
    image = image.convert("L" if channels == 1 else "RGB")
    if image.size != (width, height):
        image = image.resize((width, height), Image.Resampling.BILINEAR)
    return np.array(image).reshape(height, width, channels)
