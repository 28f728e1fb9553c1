"""Local features: k-means on intermediate feature maps and on raw patches, as label maps over the pictures."""

import warnings
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from generators.dataset import UserError
from suppression_bench.encoder import Encoder
from suppression_bench.training.views import append_constant

STARTS = 10  # k-means runs from so many initialisations and keeps the one of the least inertia
SEED = 0


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
    encoder: Encoder, pictures: Tensor, bits: int, stages: list[int] | None, clusters: list[int]
) -> list[LabelMaps]:
    """Which parts of the pictures an encoder's stages hold alike (Chen, Luo & Li, NeurIPS 2021, section 3.2).

    k-means takes the positions of all pictures together, so that a label means the same in each of them.

    Arguments:
        encoder: in evaluation mode.
        pictures: (N, C, side, side) in [0, 1].
        bits: constant channels that the encoder takes behind the C; all of them are fed as 0.
        stages: numbers from 1, or None for the last three.
        clusters: each k.

    Returns:
        for each stage each k.

    Raises:
        UserError: an encoder whose stages fail or are none, an unknown stage, a k below 2 or above the number of positions, or
            features that are not finite.
    """
    whole = append_constant(pictures, torch.zeros(len(pictures), bits, dtype=torch.uint8))
    found = _stages(encoder, whole)
    stages = _known(encoder, stages, len(found))
    for stage in stages:
        shape = tuple(found[stage - 1].shape)
        if len(shape) != 4 or shape[0] != len(pictures) or shape[2] != shape[3]:
            raise UserError(
                f"the encoder {encoder.name} gives stage {stage} of shape {shape}; it must be ({len(pictures)}, C, s, s), "
                "C values at s x s positions of each picture; mend its file"
            )
    _check_clusters(clusters, stages, found)
    made = []
    for stage in stages:
        maps = found[stage - 1]
        grid = maps.shape[-1]
        features, raw, light = unit_rows(maps), patches(pictures, grid), brightness(pictures, grid)
        if not np.isfinite(features).all():
            raise UserError(f"the features of stage {stage} are not all finite numbers; this encoder shows nothing")
        shape = (len(pictures), grid, grid)
        side = -(-pictures.shape[-1] // grid)
        for k in clusters:
            labels = [by_brightness(cluster(rows, k), light).reshape(shape) for rows in (features, raw)]
            made.append(LabelMaps(stage, k, side, *labels))
    return made


def unit_rows(maps: Tensor) -> np.ndarray:
    """Feature maps as one row of length 1 per position, in the order of picture, line, column; a zero row stays zero.

    Arguments:
        maps: (N, C, s, s).

    Returns:
        (N s s, C) float64.

    >>> unit_rows(torch.tensor([3.0, 4.0]).reshape(1, 2, 1, 1)).tolist()
    [[0.6, 0.8]]
    """
    rows = maps.double().permute(0, 2, 3, 1).flatten(0, 2)
    return F.normalize(rows, dim=1).numpy()


def patches(pictures: Tensor, grid: int) -> np.ndarray:
    """The pictures cut into grid x grid blocks of raw pixels, one flattened block per row, ordered as `unit_rows`.

    Values stay as they are, in [0, 1]: a raw patch is its brightness, colour and pattern. A side that the grid does
    not divide is first enlarged (bilinear) to the next multiple. Constant channels have no part in it.

    Arguments:
        pictures: (N, C, side, side).
        grid: blocks a side.

    Returns:
        (N grid grid, C p p) float64, where p = side / grid, rounded up.

    >>> patches(torch.arange(16.0).reshape(1, 1, 4, 4), 2)[1].tolist()
    [2.0, 3.0, 6.0, 7.0]
    """
    size = -(-pictures.shape[-1] // grid)
    if pictures.shape[-1] != size * grid:
        pictures = F.interpolate(pictures, size=(size * grid, size * grid), mode="bilinear", align_corners=False)
    blocks = pictures.double().unfold(2, size, size).unfold(3, size, size)  # N, C, line, column, p, p
    return blocks.permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(0, 2).numpy()


def brightness(pictures: Tensor, grid: int) -> np.ndarray:
    """(N grid grid) mean of all channels and pixels below each position, ordered as `unit_rows`."""
    return F.adaptive_avg_pool2d(pictures.double(), grid).mean(1).flatten().numpy()


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
        return KMeans(clusters, n_init=STARTS, random_state=SEED, algorithm="lloyd").fit_predict(rows)


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


def _stages(encoder: Encoder, pictures: Tensor) -> list[Tensor]:
    wanted = f"it must return a list or tuple of ({len(pictures)}, C, s, s) tensors, one for each stage; mend its file"
    try:
        with torch.no_grad():
            found = encoder.stages(pictures)
    except Exception as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        raise UserError(f"the encoder {encoder.name}: its method stages failed ({reason}); {wanted}") from error
    if not isinstance(found, (list, tuple)):
        what = "one tensor" if isinstance(found, Tensor) else type(found).__name__
        raise UserError(f"the encoder {encoder.name}: its method stages returned {what}; {wanted}")
    others = {type(one).__name__: None for one in found if not isinstance(one, Tensor)}
    if others:
        raise UserError(
            f"the encoder {encoder.name}: its method stages returned {', '.join(others)} as stages; {wanted}"
        )
    return list(found)


def _known(encoder: Encoder, stages: list[int] | None, count: int) -> list[int]:
    if not count:
        raise UserError(
            f"the encoder {encoder.name} has no stages (intermediate feature maps) to look at; take a run of one that has, "
            "such as resnet18"
        )
    if stages is None:
        return list(range(max(1, count - 2), count + 1))
    for stage in stages:
        if not 1 <= stage <= count:
            known = ", ".join(map(str, range(1, count + 1)))
            raise UserError(f"--stages {stage}: the encoder {encoder.name} has the stages {known}")
    return list(dict.fromkeys(stages))


def _check_clusters(clusters: list[int], stages: list[int], found: list[Tensor]) -> None:
    for k in clusters:
        if k < 2:
            raise UserError(f"--clusters {k}: at least 2 are needed to tell anything apart")
        for stage in stages:
            maps = found[stage - 1]
            positions = len(maps) * maps.shape[-1] ** 2
            if k > positions:
                raise UserError(
                    f"--clusters {k}: stage {stage} has {positions} positions in {len(maps)} pictures "
                    f"({maps.shape[-1]} x {maps.shape[-1]} each); give fewer clusters, more pictures or another stage"
                )
