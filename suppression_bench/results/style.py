"""What all figures share: colours, markers and line styles that colour-blind eyes and grey print tell apart, and saving."""

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

# Okabe & Ito's palette. Where it is used up, line style and marker change: 28 lines look different.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
MARKERS = ["o", "s", "^", "D", "v", "P", "X"]
LINES = ["-", (0, (5, 2)), (0, (1, 1.2)), (0, (6, 2, 1, 2))]
GREY = "#777777"
ENDINGS = (".png", ".svg")
SMALL = 8  # points: nothing is set smaller
SETTINGS = {
    "font.size": 9, "axes.titlesize": 9, "legend.fontsize": SMALL, "legend.title_fontsize": SMALL,
    "xtick.labelsize": SMALL, "ytick.labelsize": SMALL, "axes.spines.top": False, "axes.spines.right": False,
    "axes.grid": True, "grid.alpha": 0.25, "grid.linewidth": 0.5,
    "text.parse_math": False,  # a method may be called "$x^2$", or "$\\x$" that is no mathematics
}  # fmt: skip
CHARACTER, LINE = 0.066, 0.19  # inches that a character of the legend is wide and a line is high


def look(position: int) -> dict:
    """How the line at a position is drawn: every round through the colours has its own line style and shifts the markers.

    >>> look(0)["color"] == look(7)["color"], look(0)["linestyle"] == look(7)["linestyle"]
    (True, False)
    """
    turn, place = divmod(position, len(COLOURS))
    return {
        "color": COLOURS[place],
        "marker": MARKERS[(place + 3 * turn) % len(MARKERS)],
        "linestyle": LINES[turn % len(LINES)],
        "markerfacecolor": "white" if turn % 2 else COLOURS[place],
        "markersize": 5,
        "linewidth": 1.6,
    }


@contextmanager
def canvas(path: Path, rows: int, columns: int, panel: tuple[float, float], **more) -> Iterator[tuple]:
    """A figure and its axes (rows x columns); at the end it is saved, the same bytes for the same content.

    Arguments:
        path: a .png or .svg file.
        rows, columns: of panels.
        panel: width and height of each, in inches.
        more: further arguments of `subplots`.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    with plt.rc_context({**SETTINGS, "svg.hashsalt": "suppression-bench"}):
        size = (panel[0] * columns, panel[1] * rows)
        figure, axes = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained", **more)
        try:
            yield figure, axes
            metadata = {"Date": None} if path.suffix == ".svg" else {"Software": None}
            figure.savefig(path, dpi=150, metadata=metadata)
        finally:
            plt.close(figure)


def legend(figure, note: str = "", length: float = 3.2) -> None:
    """One legend for all panels, below them, with room of its own.

    Arguments:
        figure: with all that the legend lists.
        note: what lines and bands mean; the legend's title.
        length: of the drawn samples in ems, 0 for texts alone.
    """
    found = {}
    for axis in figure.axes:
        handles, labels = axis.get_legend_handles_labels()
        for handle, label in zip(handles, labels, strict=True):
            found.setdefault(label, handle)
    if not found:
        return
    width, height = figure.get_size_inches()
    columns = max(1, min(len(found), int((width - 0.3) / (0.65 + CHARACTER * max(map(len, found))))))
    lines = math.ceil(len(found) / columns) + note.count("\n") + bool(note)
    figure.set_size_inches(width, height + LINE * lines + 0.1)
    figure.legend(
        found.values(), found.keys(), loc="outside lower center", ncols=columns, frameon=False, title=note or None,
        handlelength=length, columnspacing=1.2,
    )  # fmt: skip


def note(what: str, spread: str, several: bool) -> str:
    """What lines (or points) and bands (or bars) mean.

    >>> note("lines", "bands", True)
    'lines: mean over seeds; bands: ± 1 standard deviation over seeds'
    """
    return f"{what}: mean over seeds" + (f"; {spread}: ± 1 standard deviation over seeds" if several else "")


def without(frame) -> str:
    """A line on the cells that could not be drawn, "" where all have numbers.

    Arguments:
        frame: from `frame.long_table`.
    """
    lost = frame[frame["accuracy"].isna()].drop_duplicates("id")["status"].value_counts(sort=False).sort_index()
    counts = ", ".join(f"{count} {status.replace('_', ' ')}" for status, count in lost.items())
    return f"\nnot drawn, since they have no numbers: {counts}" if counts else ""


def heading(key: tuple, strength=None, among: Iterable[tuple] = ()) -> str:
    """What a panel is about: dataset, pictures, and the competitor's strength where it is one.

    Arguments:
        key: dataset, pictures, variant and the strength's name.
        strength: of the competitor.
        among: the keys of all panels; what tells variants of one dataset apart is added.

    >>> heading(("randbit", "mnist", "", "bits"), 10)
    'randbit over mnist, bits 10'
    >>> small, large = (("randbit", "mnist", f"test=100 train={count}", "bits") for count in (200, 400))
    >>> heading(small, among=[small, large])
    'randbit over mnist (train=200)'
    """
    over = f" over {key[1]}" if key[1] else ""
    alike = [other[2].split() for other in among if other[:2] == key[:2]]
    own = " ".join(word for word in key[2].split() if any(word not in words for words in alike))
    own = f" ({own})" if own else ""
    return f"{key[0]}{over}{own}" + (f", {key[3]} {strength}" if strength is not None and key[3] else "")


def spread(frame, column: str):
    """The standard deviation over seeds as a band's or bar's length: 0 where there is one seed."""
    return frame[column].fillna(0)
