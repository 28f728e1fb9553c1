"""What a dataset looks like: its card in Markdown (features, counts, joint counts) and contact sheets of samples."""

from bisect import bisect_right
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from generators.catalog import did_you_mean
from generators.dataset import Dataset, UserError, draw_sample
from generators.inspect import Opened
from generators.manifest import Identity, Manifest, identity, registered_as
from generators.randomness import random_words, stream_key

LARGEST, LONGEST = 12, 100  # classes across and down a joint table; larger ones are summed up in a line
CARD_SAMPLES = 16  # of each split on a card's sheet
TILE = 112  # pixels: smaller images are enlarged by a whole factor to at least this
WIDTH = 1200
GAP, LINE, STRIP = 8, 15, 10
INK, PAPER, GREY = (20, 20, 20), (255, 255, 255), (150, 150, 150)


# The card


def write_card(opened: Opened, out: str | Path) -> list[Path]:
    """Write the card `out` (Markdown) and its contact sheet beside it, and return both paths.

    Raises:
        UserError: `out` cannot be written (exit code 4).
    """
    out = Path(out)
    sheet_path = out.with_suffix(".png")
    sections = [(name, tiles_of_folder(opened.to(name), CARD_SAMPLES)) for name in opened.splits]
    save(sheet(sections, opened.manifest.dataset), sheet_path)
    try:
        out.write_text(card(opened, sheet_path.name), encoding="utf-8")
    except OSError as error:
        raise UserError(f"{out}: cannot be written ({error.strerror}); name another file", 4) from None
    return [out, sheet_path]


def card(opened: Opened, sheet_name: str | None = None) -> str:
    """The card of a dataset folder.

    Arguments:
        opened: any split of it.
        sheet_name: file name of its contact sheet, to be shown.
    """
    manifest = opened.manifest
    parts = [_head(manifest), *([f"![samples]({sheet_name})"] if sheet_name else []), _sources(manifest)]
    parts += [_features(manifest), _counts(manifest)]
    parts += [_joint(manifest, split, opened.to(split).labels()) for split in opened.splits]
    return "\n\n".join(filter(None, parts)) + "\n"


def table(head: list[str], rows: list[list]) -> str:
    """A Markdown table.

    >>> print(table(["a", "b"], [[1, 2]]))
    | a | b |
    |---|---|
    | 1 | 2 |
    """
    lines = ["| " + " | ".join(map(str, cells)) + " |" for cells in (head, *rows)]
    return "\n".join([lines[0], "|---" * len(head) + "|", *lines[1:]])


def _head(manifest: Manifest) -> str:
    height, width, channels = manifest.image_shape
    image = f"{height} x {width} pixels, {'grey' if channels == 1 else 'RGB'}, 8 bit"
    if constant := manifest.constant_channels:
        image += f", plus up to {constant.max} constant channels (the bits of `{constant.label}`)"
    options = [
        f"`{name}={'+'.join(map(str, value)) if isinstance(value, list) else value}`"
        for name, value in manifest.options.items()
        if value is not None
    ]
    rows = [
        ["version, seed", f"{manifest.version}, {manifest.seed}"],
        ["options", ", ".join(options) or "none"],
        ["image", image],
        ["samples", ", ".join(f"{name} {split.count}" for name, split in manifest.splits.items())],
        ["competitor's strength", f"`{manifest.strength}`" if manifest.strength else "none"],
        ["default recipe", f"`{manifest.recipe}`"],
        ["content digest", f"`{manifest.content_digest}`"],
        ["registry", registered_as(manifest.content_digest)],
    ]
    return f"# {manifest.dataset}\n\n{table(['what', 'value'], rows)}"


def _sources(manifest: Manifest) -> str:
    if not manifest.sources:
        return "## Sources\n\nNone: every image is drawn."
    rows = [[role, s.name, s.licence, f"`{s.digest[:16]}...`"] for role, s in manifest.sources.items()]
    return "## Sources\n\n" + table(["what", "name", "licence", "SHA-256"], rows)


def _features(manifest: Manifest) -> str:
    rows = []
    for name, feature in manifest.features.items():
        kind = f"{feature.classes} classes" + (", several at once" if feature.many else "")
        rows.append([name, kind, "" if feature.many else f"{1 / feature.classes:.3g}"])
    if manifest.constant_channels:
        rows.append([manifest.constant_channels.label, "bits, 2 classes each", "0.5"])
    for row in rows:
        row += [" -> ".join(manifest.probes.get(row[0], ["none"])), "yes" if row[0] in manifest.targets else "no"]
    head = ["feature", "classes", "chance", "probe (fitted on -> judged on)", "shown to supervised methods"]
    return "## Features\n\n" + table(head, rows)


def _counts(manifest: Manifest) -> str:
    rows = []
    for name, split in manifest.splits.items():
        for feature, column in split.class_counts.items():
            listed = " ".join(map(str, column)) if len(column) <= 2 * LARGEST else f"{len(column)} classes"
            rows.append([name, feature, f"{min(column)} to {max(column)}", column.count(0), listed])
    head = ["split", "feature", "samples per class", "absent classes", "counts"]
    return "## Counts\n\n" + table(head, rows) if rows else "## Counts\n\nNo label is counted."


def _joint(manifest: Manifest, split: str, labels: dict[str, list]) -> str:
    features, parts = manifest.features, []
    single = [name for name, f in features.items() if not f.many and name in labels and None not in labels[name]]
    for first, second in combinations(single, 2):
        shape = features[first].classes, features[second].classes
        counts = joint_counts(labels[first], labels[second], shape)
        parts.append(_crossed(first, second, counts, manifest.class_names))
    for name, feature in features.items():
        lists = [value for value in labels.get(name, []) if value is not None] if feature.many else []
        if any(len(value) > 1 for value in lists):
            parts.append(_together(name, lists, feature.classes))
    constant = manifest.constant_channels
    if constant and constant.label in labels:
        parts.append(_bits(labels[constant.label], constant.max, {name: labels[name] for name in single}))
    return f"## Joint counts: {split}\n\n" + "\n\n".join(parts) if parts else ""


def joint_counts(first: list[int], second: list[int], shape: tuple[int, int]) -> np.ndarray:
    """How often each pair of classes occurs: `shape` integers.

    >>> joint_counts([0, 0, 1], [1, 1, 0], (2, 2)).tolist()
    [[0, 2], [1, 0]]
    """
    counts = np.zeros(shape, dtype=np.int64)
    np.add.at(counts, (np.asarray(first), np.asarray(second)), 1)
    return counts


def association(counts: np.ndarray) -> float:
    """Cramer's V of a table of joint counts: 0 for independent features, 1 where one decides the other.

    Not a number where a feature has one class only: then nothing can go together.

    >>> association(np.array([[5, 0], [0, 5]])), association(np.array([[4, 4], [2, 2]]))
    (1.0, 0.0)
    """
    counts = counts[counts.sum(1) > 0][:, counts.sum(0) > 0].astype(float)
    if min(counts.shape) < 2:
        return float("nan")
    expected = np.outer(counts.sum(1), counts.sum(0)) / counts.sum()
    return float(np.sqrt(((counts - expected) ** 2 / expected).sum() / counts.sum() / (min(counts.shape) - 1)))


def _crossed(first: str, second: str, counts: np.ndarray, names: dict[str, list[str]]) -> str:
    line = (
        f"{first} x {second}: {counts.min()} to {counts.max()} samples per pair of classes, {int((counts == 0).sum())} "
        f"pairs do not occur; {_strength(counts)}."
    )
    if min(counts.shape) > LARGEST or max(counts.shape) > LONGEST:
        return line
    if counts.shape[1] > LARGEST:  # the longer side goes down
        first, second, counts = second, first, counts.T
    titles = [f"{i} {name}" for i, name in enumerate(names[first])] if first in names else range(len(counts))
    rows = [[title, *row] for title, row in zip(titles, counts.tolist(), strict=True)]
    return f"{line}\n\n" + table([f"{first} \\ {second}", *map(str, range(counts.shape[1]))], rows)


def _strength(counts: np.ndarray) -> str:
    value = association(counts)
    if np.isnan(value):
        return "Cramer's V is not defined, since one of them has one class only"
    rows, columns = (counts.sum(1) > 0).sum(), (counts.sum(0) > 0).sum()
    alone = np.sqrt((rows - 1) * (columns - 1) / (counts.sum() * (min(rows, columns) - 1)))
    return f"Cramer's V {value:.3f} (1: one decides the other; independent draws of so many samples give about {alone:.3f})"


def _together(name: str, values: list[list[int]], classes: int) -> str:
    counts = np.zeros((classes, classes), dtype=np.int64)
    for value in values:
        present = sorted(set(value))
        counts[np.ix_(present, present)] += 1
    sizes = [len(set(value)) for value in values]
    rows = [[label, *row] for label, row in enumerate(counts.tolist())]
    line = (
        f"{name}: samples on which both classes occur (diagonal: the class); {min(sizes)} to {max(sizes)} classes each."
    )
    return f"{line}\n\n" + table([name, *map(str, range(classes))], rows)


def _bits(codes: list[int], bits: int, features: dict[str, list[int]]) -> str:
    values = np.asarray(codes, dtype=np.int64)
    planes = (values[:, None] >> np.arange(bits)) & 1
    shares = planes.mean(0)
    lines = [
        f"bits: each is 1 on {shares.min():.3f} to {shares.max():.3f} of the samples; "
        f"{len(np.unique(values))} different codes of {bits} bits among {len(values)} samples."
    ]
    for name, labels in features.items():
        each = [association(joint_counts(labels, plane, (max(labels) + 1, 2))) for plane in planes.T]
        defined = [value for value in each if not np.isnan(value)]  # not where a bit or the feature never changes
        if defined:
            lines.append(f"{name} x bit: Cramer's V at most {max(defined):.3f} over {len(defined)} bits that change.")
    return "\n\n".join(lines)


# Contact sheets


@dataclass(frozen=True)
class Tile:
    """An image (H, W, C) uint8, its caption's lines, and its bits (of a constant-channel code) or None."""

    image: np.ndarray
    lines: list[str]
    bits: list[int] | None


def positions(count: int, samples: int) -> list[int]:
    """Up to `samples` positions of `count` in order, one drawn from each of as many equal parts.

    Drawn, since even steps would meet the same digit again and again where digits repeat.

    >>> positions(2, 5), len(positions(1000, 16))
    ([0, 1], 16)
    """
    if count <= samples:
        return list(range(count))
    edges = [i * count // samples for i in range(samples + 1)]
    words = random_words(stream_key("preview", 1, "", 0), 0, count=samples).tolist()
    return [a + (word * (b - a) >> 64) for a, b, word in zip(edges, edges[1:], words, strict=False)]


def tiles_of_dataset(dataset: Dataset, split: str, samples: int, seed: int) -> list[Tile]:
    """Samples of a split, drawn without generating the dataset.

    Raises:
        UserError: an unknown split.
    """
    if split not in dataset.splits:
        raise UserError(f"no split {split!r}, {did_you_mean(split, dataset.splits)}")
    chosen = [draw_sample(dataset, split, index, seed) for index in positions(dataset.splits[split], samples)]
    described = identity(dataset, seed)
    return [_tile(sample.image, sample.labels, described) for sample in chosen]


def tiles_of_folder(opened: Opened, samples: int) -> list[Tile]:
    """Samples of a generated split."""
    return [_tile(*opened[index], opened.manifest) for index in positions(len(opened), samples)]


def _tile(image: np.ndarray, labels: dict, described: Identity) -> Tile:
    lines, bits, constant = [], None, described.constant_channels
    for name, value in sorted(labels.items()):  # a folder gives them in this order, a dataset in its own
        if constant and name == constant.label:
            bits = [(value >> channel) & 1 for channel in range(constant.max)]
            continue
        text = " ".join(map(str, value)) if isinstance(value, list) else str(value)
        names = described.class_names.get(name)
        lines.append(f"{name}: {text}" + (f" {names[value]}" if names and isinstance(value, int) else ""))
    return Tile(image, lines, bits)


def sheet(sections: list[tuple[str, list[Tile]]], title: str) -> Image.Image:
    """One RGB image of titled rows of tiles.

    Arguments:
        sections: (heading, tiles) each, all images of one shape.
        title: the first line.

    >>> tile = Tile(np.zeros((28, 28, 1), dtype=np.uint8), ["digit 3"], [0, 1])
    >>> sheet([("pretrain", [tile, tile])], "example").mode
    'RGB'
    """
    font, first = ImageFont.load_default(12), sections[0][1][0]
    factor = max(1, -(-TILE // first.image.shape[1]))
    width, height = first.image.shape[1] * factor, first.image.shape[0] * factor
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
            corner = GAP + position % across * (width + GAP), top + LINE + GAP + position // across * step
            _paste(image, draw, tile, (*corner, width, height), font)
        top += LINE + GAP + count * step
    return image


def _paste(image, draw, tile: Tile, box: tuple[int, int, int, int], font) -> None:
    x, y, width, height = box
    pixels = np.repeat(tile.image, 3, axis=2) if tile.image.shape[2] == 1 else tile.image
    image.paste(Image.fromarray(pixels).resize((width, height), Image.Resampling.NEAREST), (x, y))
    y += height + 2
    if tile.bits:  # bit 0 on the left; black is 1
        cell = width / len(tile.bits)
        for position, bit in enumerate(tile.bits):
            start, stop = x + round(position * cell), x + round((position + 1) * cell) - 1
            draw.rectangle((start, y, stop, y + STRIP - 3), INK if bit else PAPER, GREY)
        y += STRIP
    for line in tile.lines:
        draw.text((x, y), _fitted(draw, line, width, font), INK, font)
        y += LINE


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
        raise UserError(f"{out}: cannot be written ({error.strerror}); name another file", 4) from None
