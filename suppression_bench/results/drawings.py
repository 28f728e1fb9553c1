"""Every figure that records allow, in the order in which people look at them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from suppression_bench.results import align_uniform, figures, learning, temperature, trade_off
from suppression_bench.results.frame import long_table
from suppression_bench.results.measured import measured


@dataclass(frozen=True)
class Drawing:
    """A figure that can be drawn: `draw` writes it to a .png or .svg file.

    name: of its kind, and of its files.
    title: for people.
    """

    name: str
    title: str
    draw: Callable[[Path], None]


@dataclass(frozen=True)
class Kind:
    """A kind of figure: which table it is drawn from, its two functions, and whether it takes a probe."""

    title: str
    table: Callable[[list[Path]], object]
    can_draw: Callable
    draw: Callable
    by_probe: bool = True


KINDS = {
    "curves": Kind(
        "Suppression curves: accuracy against the competitor's strength",
        long_table, figures.can_draw, figures.suppression_curves,
    ),
    "trade-off": Kind(
        "Trade-off of two features, a path per method through the strengths",
        long_table, trade_off.can_draw, trade_off.trade_off,
    ),
    "learning": Kind(
        "Learning order: accuracy of every feature against the training step",
        learning.traced, learning.can_draw, learning.learning, by_probe=False,
    ),
    "temperature": Kind(
        "Uniformity, tolerance and accuracy against the temperature",
        measured, temperature.can_draw, temperature.temperature,
    ),
    "align-uniform": Kind(
        "Alignment against uniformity, coloured by accuracy",
        measured, align_uniform.can_draw, align_uniform.align_uniform,
    ),
}  # fmt: skip


def drawings(folders: list[Path]) -> list[Drawing]:
    """The figures that can be drawn from the records below some folders, `curves` first.

    Arguments:
        folders: as `frame.long_table` takes them.

    Raises:
        UserError: no record below a folder, or a damaged one.
    """
    tables: dict[Callable, object] = {}
    found = []
    for name, kind in KINDS.items():
        if kind.table not in tables:
            tables[kind.table] = kind.table(folders)
        table = tables[kind.table]
        if kind.can_draw(table):
            found.append(Drawing(name, kind.title, partial(kind.draw, table)))
    return found
