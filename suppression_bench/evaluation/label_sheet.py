"""A sheet of label maps: each picture with its clustered features, and below them its clustered raw patches."""

from pathlib import Path
from textwrap import wrap

import numpy as np

from generators.dataset import UserError
from suppression_bench.evaluation.localize import LabelMaps

# Tol's "muted" scheme, told apart by colour-blind eyes, from the darkest to the brightest: so lie the labels too.
COLOURS = ["#332288", "#882255", "#117733", "#AA4499", "#CC6677", "#44AA99", "#999933", "#88CCEE", "#DDCC77", "#DDDDDD"]
MAP, PICTURE = 0.92, 1.9  # inches
GAP = 0.16  # inches, between pictures and between stages
LEFT, EDGE, BETWEEN = 0.1, 0.12, 0.06  # inches: margins, and between two maps
HEADS = 0.6  # inches for the columns' heads
TITLE, NOTE = (0.098, 0.19), (0.072, 0.15)  # inches that a letter is wide (broad ones) and a line is high
NAME = 22  # letters of a picture's name that fit below it


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


def draw(pictures: np.ndarray, names: list[str], maps: list[LabelMaps], title: str, note: str, path: Path) -> None:
    """Write the sheet; the same arguments give the same bytes.

    Arguments:
        pictures: (N, side, side, C) uint8, C 1 or 3.
        names: of the pictures.
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
    first = 0.14 + len(title_lines) * TITLE[1] + HEADS  # where the first picture begins, in inches
    step = 2 * MAP + BETWEEN + GAP + 0.12
    height = first + len(pictures) * step + len(note_lines) * NOTE[1] + 0.14
    with plt.rc_context({"font.size": 8, "svg.hashsalt": "label maps", "text.parse_math": False}):
        figure = plt.figure(figsize=(width, height))
        figure.text(LEFT / width, 1 - 0.12 / height, "\n".join(title_lines), fontsize=10, va="top", weight="bold")
        figure.text(LEFT / width, 0.1 / height, "\n".join(note_lines), va="bottom", color="#444444")
        for column, one in enumerate(maps):
            text = f"stage {one.stage}, k = {one.clusters}\n{one.features.shape[1]} x {one.features.shape[1]} cells"
            text += f"\nof {one.patch} px"
            place = ((lefts[column] + MAP / 2) / width, 1 - (first - 0.06) / height)
            figure.text(*place, text, ha="center", va="bottom", fontsize=8)
        for row, (picture, name) in enumerate(zip(pictures, names, strict=True)):
            _row(figure, (lefts, first + row * step), picture, _cut(name), [(one, row) for one in maps])
        _save(figure, path)
        plt.close(figure)


def _lefts(maps: list[LabelMaps]) -> list[float]:
    # The left edge of each column in inches; a gap wherever a stage begins.
    left, lefts = LEFT + PICTURE + 0.42, []
    for before, one in zip([None, *maps], maps, strict=False):
        left += GAP if before and before.stage != one.stage else 0
        lefts.append(left)
        left += MAP + BETWEEN
    return lefts


def _row(figure, place: tuple[list[float], float], picture: np.ndarray, name: str, maps) -> None:
    lefts, top = place
    axis = _axis(figure, (LEFT, top, PICTURE))
    axis.imshow(
        picture[:, :, 0] if picture.shape[2] == 1 else picture, cmap="gray", vmin=0, vmax=255, interpolation="nearest"
    )
    axis.set_xlabel(name, labelpad=2)
    for line, label in ((0, "features"), (1, "raw patches")):
        for left, (one, row) in zip(lefts, maps, strict=True):
            axis = _axis(figure, (left, top + line * (MAP + BETWEEN), MAP))
            values = (one.patches if line else one.features)[row]
            palette = _colormap(one.clusters)
            axis.imshow(values, cmap=palette, vmin=-0.5, vmax=one.clusters - 0.5, interpolation="nearest")
            if left == lefts[0]:
                axis.set_ylabel(label, labelpad=3)


def _axis(figure, box: tuple[float, float, float]):
    # A square axis from its left, top and side in inches from the upper left corner.
    width, height = figure.get_size_inches()
    left, top, side = box
    axis = figure.add_axes((left / width, 1 - (top + side) / height, side / width, side / height))
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
