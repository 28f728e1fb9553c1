"""Short texts beside points, placed so that none covers another one or a point."""

import math
from collections.abc import Sequence

import numpy as np

from suppression_bench.results import style

DISTANCES = (3, 8, 14, 21, 29, 38, 48)  # points between a point's mark and its text, tried in this order
DIRECTIONS = [45, 315, 135, 225, 0, 90, 180, 270, 20, 70, 110, 160, 200, 250, 290, 340]  # degrees, in this order
ALONG = 40  # places between two corners of a line that texts keep off
MARK, WIDTH, HEIGHT = 4.0, 5.3, 9.0  # half a mark's width; a character's width and height, in points


def label_points(
    axis, places: list[tuple[float, float]], texts: list[str], colours: list[str], lines: Sequence[list] = ()
) -> None:
    """Write each text as near to its point as it fits, with a thin line to it where that is not beside it.

    To be called when everything else stands: the free room is measured on the laid-out figure.

    Arguments:
        axis: of a figure.
        places: (x, y) of each point, in data.
        texts: one for each.
        colours: of the texts.
        lines: the corners (x, y) of each drawn line that texts should not cover.
    """
    axis.figure.draw_without_rendering()
    scale = 72 / axis.figure.dpi
    points = [tuple(point * scale) for point in axis.transData.transform(places)]
    frame = [value * scale for value in axis.bbox.extents]
    taken = [(x - MARK, y - MARK, x + MARK, y + MARK) for x, y in points]
    for line in lines:
        corners = axis.transData.transform(line) * scale
        steps = np.arange(0, len(corners) - 1, 1 / ALONG)
        along = [np.interp(steps, np.arange(len(corners)), values) for values in corners.T]
        taken += [(x - 1, y - 1, x + 1, y + 1) for x, y in zip(*along, strict=True)]
    for (x, y), place, text, colour in zip(points, places, texts, colours, strict=True):
        distance, box = _free(x, y, WIDTH * len(text), HEIGHT, taken, frame)
        taken.append(box)
        line = dict(arrowstyle="-", linewidth=0.5, color=style.GREY, shrinkA=0, shrinkB=2)
        axis.annotate(
            text, place, xytext=((box[0] + box[2]) / 2 - x, (box[1] + box[3]) / 2 - y), textcoords="offset points",
            ha="center", va="center", fontsize=style.SMALL, color=colour,
            arrowprops=line if distance > DISTANCES[0] else None,
        )  # fmt: skip


def _free(x: float, y: float, width: float, height: float, taken: list[tuple], frame: list[float]) -> tuple:
    # The nearest box inside the frame that meets no other; beside the point where there is none.
    first = None
    for distance in DISTANCES:
        for degrees in DIRECTIONS:
            cosine, sine = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
            centre_x = x + cosine * (MARK + distance + width / 2)
            centre_y = y + sine * (MARK + distance + height / 2)
            box = (centre_x - width / 2, centre_y - height / 2, centre_x + width / 2, centre_y + height / 2)
            first = first or (distance, box)
            inside = frame[0] <= box[0] and frame[1] <= box[1] and box[2] <= frame[2] and box[3] <= frame[3]
            if inside and not any(_overlap(box, other) for other in taken):
                return distance, box
    return first


def _overlap(one: tuple, other: tuple) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
