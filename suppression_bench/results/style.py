"""How figures look: colours, markers and line styles that colour-blind eyes and grey print tell apart, texts, saving."""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas

# Okabe & Ito's palette. Where it is used up, line style and marker change: 28 lines look different.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
MARKERS = ["o", "s", "^", "D", "v", "P", "X"]
LINES = ["-", (0, (5, 2)), (0, (1, 1.2)), (0, (6, 2, 1, 2))]
GREY = "#777777"
SMALL = 8  # points: nothing is set smaller
SETTINGS: Any = {
    "font.size": 9,
    "axes.titlesize": 9,
    "legend.fontsize": SMALL,
    "legend.title_fontsize": SMALL,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.5,
    "text.parse_math": False,  # a method may be called "$x^2$", or "$\\x$" that is no mathematics
    "svg.hashsalt": "suppression-bench",
}
CHARACTER, LINE = 0.066, 0.19  # inches that a character of the legend is wide and a line is high


def look(position: int) -> dict[str, Any]:
    """How the line at a position is drawn: every round through the colours has its own line style and shifts the markers.

    >>> look(0)["color"] == look(7)["color"], look(0)["linestyle"] == look(7)["linestyle"]
    (True, False)
    """
    turn, colour = divmod(position, len(COLOURS))
    return {
        "color": COLOURS[colour],
        "marker": MARKERS[(colour + 3 * turn) % len(MARKERS)],
        "linestyle": LINES[turn % len(LINES)],
        "markerfacecolor": "white" if turn % 2 else COLOURS[colour],
        "markersize": 5,
        "linewidth": 1.6,
    }


@contextmanager
def canvas(path: Path, rows: int, columns: int, panel: tuple[float, float], **options: Any) -> Iterator[tuple]:
    """A figure and its axes (rows x columns); at the end it is saved, the same bytes for the same content.

    Arguments:
        path: a .png or .svg file.
        rows, columns: of panels.
        panel: width and height of each, in inches.
        options: further arguments of `subplots`.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    with plt.rc_context(SETTINGS):
        size = (panel[0] * columns, panel[1] * rows)
        figure, axes = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained", **options)
        try:
            yield figure, axes
            metadata = {"Date": None} if path.suffix == ".svg" else {"Software": None}
            figure.savefig(path, dpi=150, metadata=metadata)
        finally:
            plt.close(figure)


def legend(figure: Any, note: str = "", length: float = 3.2) -> None:
    """One legend for all panels, below them, with room of its own.

    Arguments:
        figure: with all that the legend lists.
        note: what lines and bands mean; the legend's title.
        length: of the drawn samples in ems, 0 for texts alone.
    """
    entries: dict[str, Any] = {}
    for axis in figure.axes:
        handles, labels = axis.get_legend_handles_labels()
        for handle, label in zip(handles, labels, strict=True):
            entries.setdefault(label, handle)
    if not entries:
        return
    width, height = figure.get_size_inches()
    columns = max(1, min(len(entries), int((width - 0.3) / (0.65 + CHARACTER * max(map(len, entries))))))
    lines = math.ceil(len(entries) / columns) + note.count("\n") + bool(note)
    figure.set_size_inches(width, height + LINE * lines + 0.1)
    figure.legend(
        entries.values(),
        entries.keys(),
        loc="outside lower center",
        ncols=columns,
        frameon=False,
        title=note or None,
        handlelength=length,
        columnspacing=1.2,
    )


def seeds_note(marks: str, spread: str, several: bool) -> str:
    """What lines (or points) and bands (or bars) mean.

    >>> seeds_note("lines", "bands", True)
    'lines: mean over seeds; bands: ± 1 standard deviation over seeds'
    """
    return f"{marks}: mean over seeds" + (f"; {spread}: ± 1 standard deviation over seeds" if several else "")


def lost_note(frame: pandas.DataFrame) -> str:
    """A line on the cells that could not be drawn, "" where all have numbers.

    Arguments:
        frame: of `Study.long`.
    """
    lost = frame[frame["accuracy"].isna()].drop_duplicates("id")["status"].value_counts(sort=False).sort_index()
    counts = ", ".join(f"{count} {status.replace('_', ' ')}" for status, count in lost.items())
    return f"\nnot drawn, since they have no numbers: {counts}" if counts else ""


def panel_title(topic: Sequence[str], strength: Any = None, among: Iterable[Sequence] = ()) -> str:
    """What a panel is about: dataset, images, and the competitor's strength where it is one.

    Arguments:
        topic: dataset, images, variant and the strength's name.
        strength: of the competitor.
        among: the topics of all panels; what tells variants of one dataset apart is added.

    >>> panel_title(("randbit", "mnist", "", "bits"), 10)
    'randbit over mnist, bits 10'
    >>> small, large = (("randbit", "mnist", f"test=100 train={count}", "bits") for count in (200, 400))
    >>> panel_title(small, among=[small, large])
    'randbit over mnist (train=200)'
    """
    dataset, pictures, variant, name = topic
    over = f" over {pictures}" if pictures else ""
    variants = [topic[2].split() for topic in among if tuple(topic[:2]) == (dataset, pictures)]
    differing = " ".join(word for word in variant.split() if any(word not in words for words in variants))
    differing = f" ({differing})" if differing else ""
    return f"{dataset}{over}{differing}" + (f", {name} {strength}" if strength is not None and name else "")


# ---- texts beside points ----

DISTANCES = (3, 8, 14, 21, 29, 38, 48)  # points between a point's mark and its text, tried in this order
DIRECTIONS = [45, 315, 135, 225, 0, 90, 180, 270, 20, 70, 110, 160, 200, 250, 290, 340]  # degrees, in this order
ALONG = 40  # samples between two corners of a line that texts keep off
MARK, WIDTH, HEIGHT = 4.0, 5.3, 9.0  # half a mark's width; a character's width and height, in points
Box = tuple[float, float, float, float]  # left, bottom, right, top


def label_points(
    axis: Any,
    positions: Sequence[tuple[float, float]],
    texts: Sequence[str],
    colours: Sequence[str],
    lines: Sequence[list] = (),
) -> None:
    """Write each text as near to its point as it fits, with a thin line to it where that is not beside it.

    To be called when everything else stands: the free room is measured on the laid-out figure.

    Arguments:
        axis: of a figure.
        positions: (x, y) of each point, in data.
        texts: one for each.
        colours: of the texts.
        lines: the corners (x, y) of each drawn line that texts should not cover.
    """
    axis.figure.draw_without_rendering()
    scale = 72 / axis.figure.dpi
    points = [tuple(point * scale) for point in axis.transData.transform(positions)]
    frame = [value * scale for value in axis.bbox.extents]
    taken = [(x - MARK, y - MARK, x + MARK, y + MARK) for x, y in points]
    for line in lines:
        corners = axis.transData.transform(line) * scale
        steps = np.arange(0, len(corners) - 1, 1 / ALONG)
        along = [np.interp(steps, np.arange(len(corners)), values) for values in corners.T]
        taken += [(x - 1, y - 1, x + 1, y + 1) for x, y in zip(*along, strict=True)]
    for (x, y), position, text, colour in zip(points, positions, texts, colours, strict=True):
        distance, box = _free_box(x, y, WIDTH * len(text), HEIGHT, taken, frame)
        taken.append(box)
        line = dict(arrowstyle="-", linewidth=0.5, color=GREY, shrinkA=0, shrinkB=2)
        axis.annotate(
            text,
            position,
            xytext=((box[0] + box[2]) / 2 - x, (box[1] + box[3]) / 2 - y),
            textcoords="offset points",
            ha="center",
            va="center",
            fontsize=SMALL,
            color=colour,
            arrowprops=line if distance > DISTANCES[0] else None,
        )


def _free_box(
    x: float, y: float, width: float, height: float, taken: list[Box], frame: Sequence[float]
) -> tuple[int, Box]:
    # The nearest box inside the frame that meets no other, and its distance; beside the point where there is none.
    candidates = []
    for distance in DISTANCES:
        for degrees in DIRECTIONS:
            cosine, sine = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
            centre_x = x + cosine * (MARK + distance + width / 2)
            centre_y = y + sine * (MARK + distance + height / 2)
            box = (centre_x - width / 2, centre_y - height / 2, centre_x + width / 2, centre_y + height / 2)
            candidates.append((distance, box))
            inside = frame[0] <= box[0] and frame[1] <= box[1] and box[2] <= frame[2] and box[3] <= frame[3]
            if inside and not any(_overlap(box, neighbour) for neighbour in taken):
                return distance, box
    return candidates[0]


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
