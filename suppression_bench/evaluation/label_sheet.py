"""A sheet of label maps: each image with its clustered features, and below them its clustered raw patches."""

from pathlib import Path
from textwrap import wrap

import numpy as np

from generators.dataset import UserError
from suppression_bench.evaluation.localize import LabelMaps

# Tol's "muted" scheme, told apart by colour-blind eyes, from the darkest to the brightest: so lie the labels too.
COLOURS = ["#332288", "#882255", "#117733", "#AA4499", "#CC6677", "#44AA99", "#999933", "#88CCEE", "#DDCC77", "#DDDDDD"]
MAP, IMAGE = 0.92, 1.9  # inches
GAP = 0.16  # inches, between images and between stages
LEFT, EDGE, BETWEEN = 0.1, 0.12, 0.06  # inches: margins, and between two maps
HEADS = 0.6  # inches for the columns' heads
TITLE, NOTE = (0.098, 0.19), (0.072, 0.15)  # inches that a letter is wide (broad ones) and a line is high
NAME = 22  # letters of an image's name that fit below it


def colours(clusters: int) -> list[str]:
    """So many colours from dark to bright.

    >>> colours(2)
    ['#332288', '#DDDDDD']
    """
    if clusters > len(COLOURS):
        import matplotlib
        from matplotlib.colors import to_hex

        return [to_hex(colour) for colour in matplotlib.colormaps["viridis"](np.linspace(0, 1, clusters))]
    return [COLOURS[position] for position in np.round(np.linspace(0, len(COLOURS) - 1, clusters)).astype(int)]


def draw(images: np.ndarray, names: list[str], maps: list[LabelMaps], title: str, note: str, path: Path) -> None:
    """Write the sheet; the same arguments give the same bytes.

    Arguments:
        images: (N, side, side, C) uint8, C 1 or 3.
        names: of the images.
        maps: of each stage each k.
        title: what encoder it is.
        note: what is good to know, below everything.
        path: a .png or .svg file.

    Raises:
        UserError: the file cannot be written (exit code 4).
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    lefts = _lefts(maps)
    width = lefts[-1] + MAP + EDGE
    title_lines, note_lines = (
        wrap(text, int((width - LEFT) / size[0])) for text, size in ((title, TITLE), (note, NOTE))
    )
    first = 0.14 + len(title_lines) * TITLE[1] + HEADS  # where the first image begins, in inches
    step = 2 * MAP + BETWEEN + GAP + 0.12
    height = first + len(images) * step + len(note_lines) * NOTE[1] + 0.14
    with plt.rc_context({"font.size": 8, "svg.hashsalt": "label maps", "text.parse_math": False}):
        figure = plt.figure(figsize=(width, height))
        figure.text(LEFT / width, 1 - 0.12 / height, "\n".join(title_lines), fontsize=10, va="top", weight="bold")
        figure.text(LEFT / width, 0.1 / height, "\n".join(note_lines), va="bottom", color="#444444")
        for edge, label_maps in zip(lefts, maps, strict=True):
            side = label_maps.features.shape[1]
            text = (
                f"stage {label_maps.stage}, k = {label_maps.clusters}\n{side} x {side} cells\nof {label_maps.patch} px"
            )
            centre = ((edge + MAP / 2) / width, 1 - (first - 0.06) / height)
            figure.text(*centre, text, ha="center", va="bottom", fontsize=8)
        for row, (image, name) in enumerate(zip(images, names, strict=True)):
            _row(figure, (lefts, first + row * step), image, _cut(name), [(label_maps, row) for label_maps in maps])
        _save(figure, path)
        plt.close(figure)


def _lefts(maps: list[LabelMaps]) -> list[float]:
    # The left edge of each column in inches; a gap wherever a stage begins.
    edge, lefts = LEFT + IMAGE + 0.42, []
    for previous, label_maps in zip([None, *maps], maps, strict=False):
        edge += GAP if previous and previous.stage != label_maps.stage else 0
        lefts.append(edge)
        edge += MAP + BETWEEN
    return lefts


def _row(figure, corner: tuple[list[float], float], image: np.ndarray, name: str, maps) -> None:
    lefts, top = corner
    axis = _axis(figure, (LEFT, top, IMAGE))
    axis.imshow(
        image[:, :, 0] if image.shape[2] == 1 else image, cmap="gray", vmin=0, vmax=255, interpolation="nearest"
    )
    axis.set_xlabel(name, labelpad=2)
    for line, label in ((0, "features"), (1, "raw patches")):
        for edge, (label_maps, row) in zip(lefts, maps, strict=True):
            axis = _axis(figure, (edge, top + line * (MAP + BETWEEN), MAP))
            values = (label_maps.patches if line else label_maps.features)[row]
            palette = _colormap(label_maps.clusters)
            axis.imshow(values, cmap=palette, vmin=-0.5, vmax=label_maps.clusters - 0.5, interpolation="nearest")
            if edge == lefts[0]:
                axis.set_ylabel(label, labelpad=3)


def _axis(figure, box: tuple[float, float, float]):
    # A square axis from its left, top and side in inches from the upper left corner.
    width, height = figure.get_size_inches()
    x, top, side = box
    axis = figure.add_axes((x / width, 1 - (top + side) / height, side / width, side / height))
    axis.set_xticks([])
    axis.set_yticks([])
    for spine in axis.spines.values():
        spine.set_linewidth(0.4)
    return axis


def _colormap(clusters: int):
    from matplotlib.colors import ListedColormap

    return ListedColormap(colours(clusters))


def _cut(name: str) -> str:
    # One line that can be drawn, whatever a file is called.
    name = " ".join(name.encode("utf-8", "replace").decode().split())
    return name if len(name) <= NAME else name[: NAME - 1] + "…"


def _save(figure, path: Path) -> None:
    metadata = {"Date": None} if path.suffix == ".svg" else {"Software": None}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=150, metadata=metadata)
    except OSError as error:
        raise UserError(f"--out {path}: cannot be written ({error.strerror}); name another place", 4) from None
