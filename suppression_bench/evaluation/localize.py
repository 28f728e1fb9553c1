"""Local features: k-means on intermediate feature maps and on raw patches, as label maps over the images."""

import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor
from torch.nn import functional as F

from generators import manifest
from generators.dataset import UserError
from generators.describe import positions
from generators.image_files import Unreadable, decode
from generators.inspect import open_folder
from suppression_bench.encoder import Encoder
from suppression_bench.training.transforms import append_constant

STARTS = 10  # k-means runs from so many initialisations and keeps the one of the least inertia
SEED = 0
ENDINGS = (".png", ".jpg", ".jpeg")


@dataclass(frozen=True)
class LabelMaps:
    """The label maps of one stage and one number of clusters, labels in the order of brightness (0: the darkest).

    stage: from 1.
    clusters: the k of k-means; fewer labels may occur where vectors coincide.
    patch: side in pixels of the raw patches.
    features: (N, s, s) int64, from the stage's l2-normalised features.
    patches: (N, s, s) int64, from raw patches of the same grid.
    """

    stage: int
    clusters: int
    patch: int
    features: np.ndarray
    patches: np.ndarray


def localize(
    encoder: Encoder, images: Tensor, bits: int, stages: list[int] | None, clusters: list[int]
) -> list[LabelMaps]:
    """Which parts of the images an encoder's stages hold alike (Chen, Luo & Li, NeurIPS 2021, section 3.2).

    k-means takes the positions of all images together, so that a label means the same in each of them.

    Arguments:
        encoder: in evaluation mode.
        images: (N, C, side, side) in [0, 1].
        bits: constant channels that the encoder takes behind the C; all of them are fed as 0.
        stages: numbers from 1, or None for the last three.
        clusters: each k.

    Returns:
        for each stage each k.

    Raises:
        UserError: an encoder whose stages fail or are none, an unknown stage, a k below 2 or above the number of positions, or
            features that are not finite.
    """
    maps_of_stages = _stages(encoder, append_constant(images, torch.zeros(len(images), bits, dtype=torch.uint8)))
    stages = _check_stages(encoder, stages, len(maps_of_stages))
    for stage in stages:
        shape = tuple(maps_of_stages[stage - 1].shape)
        if len(shape) != 4 or shape[0] != len(images) or shape[2] != shape[3]:
            raise UserError(
                f"the encoder {encoder.name} gives stage {stage} of shape {shape}; it must be ({len(images)}, C, s, s), "
                "C values at s x s positions of each image; mend its file"
            )
    _check_clusters(clusters, stages, maps_of_stages)
    label_maps = []
    for stage in stages:
        maps = maps_of_stages[stage - 1]
        grid = maps.shape[-1]
        features, raw, light = unit_rows(maps), patches(images, grid), brightness(images, grid)
        if not np.isfinite(features).all():
            raise UserError(f"the features of stage {stage} are not all finite numbers; this encoder shows nothing")
        shape = (len(images), grid, grid)
        side = -(-images.shape[-1] // grid)
        for k in clusters:
            labels = [by_brightness(cluster(rows, k), light).reshape(shape) for rows in (features, raw)]
            label_maps.append(LabelMaps(stage, k, side, *labels))
    return label_maps


def unit_rows(maps: Tensor) -> np.ndarray:
    """Feature maps as one row of length 1 per position, in the order of image, line, column; a zero row stays zero.

    Arguments:
        maps: (N, C, s, s).

    Returns:
        (N s s, C) float64.

    >>> unit_rows(torch.tensor([3.0, 4.0]).reshape(1, 2, 1, 1)).tolist()
    [[0.6, 0.8]]
    """
    rows = maps.double().permute(0, 2, 3, 1).flatten(0, 2)
    return F.normalize(rows, dim=1).numpy()


def patches(images: Tensor, grid: int) -> np.ndarray:
    """The images cut into grid x grid blocks of raw pixels, one flattened block per row, ordered as `unit_rows`.

    Values stay as they are, in [0, 1]: a raw patch is its brightness, colour and pattern. A side that the grid does
    not divide is first enlarged (bilinear) to the next multiple. Constant channels have no part in it.

    Arguments:
        images: (N, C, side, side).
        grid: blocks a side.

    Returns:
        (N grid grid, C p p) float64, where p = side / grid, rounded up.

    >>> patches(torch.arange(16.0).reshape(1, 1, 4, 4), 2)[1].tolist()
    [2.0, 3.0, 6.0, 7.0]
    """
    size = -(-images.shape[-1] // grid)
    if images.shape[-1] != size * grid:
        images = F.interpolate(images, size=(size * grid, size * grid), mode="bilinear", align_corners=False)
    blocks = images.double().unfold(2, size, size).unfold(3, size, size)  # N, C, line, column, p, p
    return blocks.permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(0, 2).numpy()


def brightness(images: Tensor, grid: int) -> np.ndarray:
    """(N grid grid) mean of all channels and pixels below each position, ordered as `unit_rows`."""
    return F.adaptive_avg_pool2d(images.double(), grid).mean(1).flatten().numpy()


def cluster(rows: np.ndarray, clusters: int) -> np.ndarray:
    """Labels of the rows by k-means: Lloyd's algorithm from ten k-means++ initialisations, the least inertia wins.

    On one thread: several would add in an order of their own, and the same call could end elsewhere.

    Arguments:
        rows: (M, D) float64.
        clusters: at most M.

    Returns:
        (M,) labels in 0..clusters - 1.
    """
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than clusters: fewer labels, then
        k_means = KMeans(clusters, n_init=STARTS, random_state=SEED, algorithm="lloyd")  # pyright: ignore[reportArgumentType]
        return k_means.fit_predict(rows)


def by_brightness(labels: np.ndarray, light: np.ndarray) -> np.ndarray:
    """The labels numbered anew, from the darkest cluster to the brightest: one order for all stages and every k.

    Arguments:
        labels: (M,).
        light: (M,) brightness of each position.

    >>> by_brightness(np.array([2, 0, 0, 1]), np.array([0.5, 0.1, 0.3, 0.9])).tolist()
    [1, 0, 0, 2]
    """
    names, position = np.unique(labels, return_inverse=True)
    means = [light[labels == name].mean() for name in names]
    rank = np.empty(len(names), dtype=np.int64)
    rank[np.argsort(means, kind="stable")] = np.arange(len(names))
    return rank[position]


def _stages(encoder: Encoder, images: Tensor) -> list[Tensor]:
    """The encoder's maps, stage by stage; a user's own encoder may return anything."""
    contract = f"it must return a list or tuple of ({len(images)}, C, s, s) tensors, one for each stage; mend its file"
    try:
        with torch.no_grad():
            maps = encoder.stages(images)
    except Exception as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        raise UserError(f"the encoder {encoder.name}: its method stages failed ({reason}); {contract}") from error
    if not isinstance(maps, (list, tuple)):
        kind = "one tensor" if isinstance(maps, Tensor) else type(maps).__name__
        raise UserError(f"the encoder {encoder.name}: its method stages returned {kind}; {contract}")
    kinds = dict.fromkeys(type(part).__name__ for part in maps if not isinstance(part, Tensor))
    if kinds:
        raise UserError(
            f"the encoder {encoder.name}: its method stages returned {', '.join(kinds)} as stages; {contract}"
        )
    return list(maps)


def _check_stages(encoder: Encoder, stages: list[int] | None, count: int) -> list[int]:
    if not count:
        raise UserError(
            f"the encoder {encoder.name} has no stages (intermediate feature maps) to look at; take a run of one that has, "
            "such as resnet18"
        )
    if stages is None:
        return list(range(max(1, count - 2), count + 1))
    for stage in stages:
        if not 1 <= stage <= count:
            allowed = ", ".join(map(str, range(1, count + 1)))
            raise UserError(f"--stages {stage}: the encoder {encoder.name} has the stages {allowed}")
    return list(dict.fromkeys(stages))


def _check_clusters(clusters: list[int], stages: list[int], maps_of_stages: list[Tensor]) -> None:
    for k in clusters:
        if k < 2:
            raise UserError(f"--clusters {k}: at least 2 are needed to tell anything apart")
        for stage in stages:
            maps = maps_of_stages[stage - 1]
            positions = len(maps) * maps.shape[-1] ** 2
            if k > positions:
                raise UserError(
                    f"--clusters {k}: stage {stage} has {positions} positions in {len(maps)} images "
                    f"({maps.shape[-1]} x {maps.shape[-1]} each); give fewer clusters, more images or another stage"
                )


# --- images to look at -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Images:
    """Images (N, side, side, C) uint8 and a name for each."""

    images: np.ndarray
    names: list[str]


def is_dataset(folder: Path) -> bool:
    """Whether `bench generate` wrote the folder."""
    return (folder / manifest.NAME).is_file()


def read_images(folder: Path, limit: int, image_shape: tuple[int, int, int]) -> Images:
    """Up to `limit` images of a folder, spread over it, since folders are often sorted by class.

    Arguments:
        folder: a generated dataset (then its first probe's test split), or images (.png, .jpg) at any depth, sorted.
        limit: at least 1.
        image_shape: (side, side, channels) to bring them to, 1 channel for grey or 3 for RGB; the aspect is not kept.

    Raises:
        UserError: no such folder, no image in it, or one that cannot be read.
    """
    if not folder.is_dir():
        raise UserError(f"--images {folder}: no such folder; name one with images, or a generated dataset")
    pairs = _of_dataset(folder, limit) if is_dataset(folder) else _of_folder(folder, limit)
    return Images(np.stack([_shaped(image, image_shape) for image, _ in pairs]), [name for _, name in pairs])


def _of_dataset(folder: Path, limit: int) -> list[tuple[Image.Image, str]]:
    data = open_folder(folder)
    split = next(iter(data.manifest.probes.values()))[1] if data.manifest.probes else data.split
    data = data.to(split)
    pairs = []
    for index in positions(len(data), limit):
        pixels, _ = data[index]
        pairs.append((Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels), f"{split} {index}"))
    return pairs


def _of_folder(folder: Path, limit: int) -> list[tuple[Image.Image, str]]:
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in ENDINGS and path.is_file())
    if not paths:
        raise UserError(f"--images {folder}: no image in it ({', '.join(ENDINGS)}); name another folder")
    pairs = []
    for position in positions(len(paths), limit):
        path = paths[position]
        try:
            pairs.append((ImageOps.exif_transpose(decode(path.read_bytes())), path.name))
        except Unreadable as error:
            raise UserError(f"{path} {error}; repair or remove it") from None
        except OSError as error:
            raise UserError(f"{path}: cannot be read ({error.strerror}); make it readable or remove it", 4) from None
    return pairs


def _shaped(image: Image.Image, image_shape: tuple[int, int, int]) -> np.ndarray:
    height, width, channels = image_shape
    image = image.convert("L" if channels == 1 else "RGB")
    if image.size != (width, height):
        image = image.resize((width, height), Image.Resampling.BILINEAR)
    return np.array(image).reshape(height, width, channels)
