"""Contact sheets: what samples of a dataset look like, with their labels, drawn anew or read from a folder."""

from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from generators.dataset import Dataset, UserError, drawn
from generators.opened import Opened
from generators.options import did_you_mean
from generators.randomness import random_words, stream_key

TILE = 112  # pixels: smaller pictures are enlarged by a whole factor to at least this
WIDTH = 1200
GAP, LINE, STRIP = 8, 15, 10
INK, PAPER, GREY = (20, 20, 20), (255, 255, 255), (150, 150, 150)


@dataclass(frozen=True)
class Tile:
    """A picture (H, W, C) uint8, its caption's lines, and its bits (of a constant-channel code) or None."""

    picture: np.ndarray
    lines: list[str]
    bits: list[int] | None


def positions(count: int, wanted: int) -> list[int]:
    """Up to `wanted` positions of `count` in order, one drawn from each of as many equal parts.

    Drawn, since even steps would meet the same digit again and again where digits repeat.

    >>> positions(2, 5), len(positions(1000, 16))
    ([0, 1], 16)
    """
    if count <= wanted:
        return list(range(count))
    edges = [i * count // wanted for i in range(wanted + 1)]
    words = random_words(stream_key("preview", 1, "", 0), 0, count=wanted).tolist()
    return [a + (word * (b - a) >> 64) for a, b, word in zip(edges, edges[1:], words, strict=False)]


def tiles_of_dataset(dataset: Dataset, split: str, wanted: int, seed: int) -> list[Tile]:
    """Samples of a split, drawn without generating the dataset.

    Raises:
        UserError: an unknown split.
    """
    _known(split, dataset.splits)
    constant, names = dataset.constant_channels, _class_names(dataset.sources)
    code = constant and (constant.label, constant.max)
    samples = (drawn(dataset, split, index, seed) for index in positions(dataset.splits[split], wanted))
    return [_tile(sample.picture, sample.labels, code, names) for sample in samples]


def tiles_of_folder(opened: Opened, wanted: int) -> list[Tile]:
    """Samples of a generated split."""
    constant, sources = opened.manifest["constant_channels"], opened.manifest["sources"]
    names = {role.removesuffix("s"): source["classes"] for role, source in sources.items() if "classes" in source}
    code = constant and (constant["label"], constant["max"])
    return [_tile(*opened[index], code, names) for index in positions(len(opened), wanted)]


def _known(split: str, splits) -> None:
    if split not in splits:
        raise UserError(f"no split {split!r}, {did_you_mean(split, splits)}")


def _class_names(sources: dict) -> dict[str, list[str]]:
    return {role.removesuffix("s"): s.classes for role, s in sources.items() if hasattr(s, "classes")}


def _tile(picture, labels: dict, code: tuple[str, int] | None, names: dict[str, list[str]]) -> Tile:
    lines, bits = [], None
    for name, value in sorted(labels.items()):  # a folder gives them in this order, a dataset in its own
        if code and name == code[0]:
            bits = [(value >> i) & 1 for i in range(code[1])]
            continue
        shown = " ".join(map(str, value)) if isinstance(value, list) else str(value)
        lines.append(f"{name}: {shown}" + (f" {names[name][value]}" if name in names else ""))
    return Tile(picture, lines, bits)


def sheet(sections: list[tuple[str, list[Tile]]], title: str) -> Image.Image:
    """One RGB picture of titled rows of tiles.

    Arguments:
        sections: (heading, tiles) each, all pictures of one shape.
        title: the first line.

    >>> tile = Tile(np.zeros((28, 28, 1), dtype=np.uint8), ["digit 3"], [0, 1])
    >>> sheet([("pretrain", [tile, tile])], "example").mode
    'RGB'
    """
    font, first = ImageFont.load_default(12), sections[0][1][0]
    factor = max(1, -(-TILE // first.picture.shape[1]))
    width, height = first.picture.shape[1] * factor, first.picture.shape[0] * factor
    across = max(1, (WIDTH - GAP) // (width + GAP))
    lines = max(len(tile.lines) for _, tiles in sections for tile in tiles)
    step = height + lines * LINE + (STRIP if first.bits else 0) + 2 * GAP
    rows = [-(-len(tiles) // across) for _, tiles in sections]
    total = GAP + 2 * LINE + sum(LINE + GAP + count * step for count in rows)
    image = Image.new("RGB", (GAP + across * (width + GAP), total), PAPER)
    draw, top = ImageDraw.Draw(image), GAP
    draw.text((GAP, top), _fitted(draw, title, image.width - 2 * GAP, font), INK, font)
    top += 2 * LINE
    for (heading, tiles), count in zip(sections, rows, strict=True):
        legend = " (the strip: bit 0 on the left, black is 1)" if any(tile.bits for tile in tiles) else ""
        draw.text((GAP, top), heading + legend, GREY, font)
        for position, tile in enumerate(tiles):
            left, down = GAP + position % across * (width + GAP), top + LINE + GAP + position // across * step
            _paste(image, draw, tile, (left, down, width, height), font)
        top += LINE + GAP + count * step
    return image


def _paste(image, draw, tile: Tile, box: tuple[int, int, int, int], font) -> None:
    left, top, width, height = box
    pixels = np.repeat(tile.picture, 3, axis=2) if tile.picture.shape[2] == 1 else tile.picture
    image.paste(Image.fromarray(pixels).resize((width, height), Image.Resampling.NEAREST), (left, top))
    top += height + 2
    if tile.bits:  # bit 0 on the left; black is 1
        cell = width / len(tile.bits)
        for position, bit in enumerate(tile.bits):
            edge = left + round(position * cell), left + round((position + 1) * cell) - 1
            draw.rectangle((edge[0], top, edge[1], top + STRIP - 3), INK if bit else PAPER, GREY)
        top += STRIP
    for line in tile.lines:
        draw.text((left, top), _fitted(draw, line, width, font), INK, font)
        top += LINE


def _fitted(draw, text: str, width: int, font) -> str:
    # One line that can be drawn, whatever a class is called, cut at the end so that neighbours do not overlap.
    text = " ".join(text.encode("utf-8", "replace").decode().split())
    if draw.textlength(text, font) <= width:
        return text
    fitting = bisect_right(range(len(text)), width, key=lambda length: draw.textlength(text[:length] + "…", font))
    return text[: max(0, fitting - 1)] + "…"


def save(image: Image.Image, out: str | Path) -> None:
    """Write a sheet as PNG.

    Raises:
        UserError: `out` is no .png name or cannot be written (exit code 4).
    """
    out = Path(out)
    if out.suffix.lower() != ".png":
        raise UserError(f"{out}: a sheet is written as PNG; name a file that ends in .png")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        image.save(out, format="PNG")
    except OSError as error:
        raise UserError(f"{out}: cannot be written ({error.strerror}); name another place", 4) from None
