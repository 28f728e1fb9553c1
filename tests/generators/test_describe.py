"""Contact sheets pixel by pixel, and cards whose numbers are counted a second time with loops."""

import math
import re

import numpy as np
import pytest
from PIL import Image
from toy_data import write_toy

from generators import describe
from generators.build import build
from generators.catalog import dataset
from generators.dataset import UserError
from generators.inspect import open_folder
from suppression_bench.cli import main

RANDOM = np.random.Generator(np.random.PCG64(2))


def bench(*arguments) -> int:
    return main([str(argument) for argument in arguments])


def tile(shape=(28, 28, 1), lines=("digit 3",), bits=None):
    return describe.Tile(RANDOM.integers(0, 200, shape, dtype=np.uint8), list(lines), bits)


def places(count: int, width: int, height: int, step: int, top: int):
    """Top-left corners of the tiles of one section, by hand."""
    across = max(1, (1200 - 8) // (width + 8))
    return [(top + i // across * step, 8 + i % across * (width + 8)) for i in range(count)], 8 + across * (width + 8)


@pytest.mark.parametrize(
    "shape, factor",
    [((28, 28, 1), 4), ((32, 32, 3), 4), ((112, 112, 1), 1), ((200, 150, 3), 1), ((5, 4, 3), 28), ((9, 1500, 1), 1)],
)
def test_pictures_stand_enlarged_exactly_in_the_sheet(shape, factor):
    tiles = [tile(shape, ["a", "b"]) for _ in range(13)]
    sheet = np.asarray(describe.sheet([("first", tiles[:2]), ("second", tiles)], "title"))
    height, width = shape[0] * factor, shape[1] * factor
    step = height + 2 * 15 + 16
    found, total = places(2, width, height, step, 8 + 30 + 15 + 8)
    rows = -(-2 // ((total - 8) // (width + 8)))
    second, _ = places(13, width, height, step, found[0][0] + rows * step + 15 + 8)
    assert sheet.shape[1] == total
    for one, (top, left) in zip([*tiles[:2], *tiles], found + second, strict=True):
        expected = np.broadcast_to(one.image, (*shape[:2], 3)).repeat(factor, 0).repeat(factor, 1)
        assert np.array_equal(sheet[top : top + height, left : left + width], expected)
        assert (sheet[top : top + height, left - 4 : left] == 255).all()  # the gap is paper
    lines = -(-13 // ((total - 8) // (width + 8)))
    assert sheet.shape[0] == second[0][0] + lines * step


def test_a_strip_s_black_cells_are_the_bits():
    made = dataset("randbit", {"train": 20, "test": 5})
    tiles = describe.tiles_of_dataset(made, "pretrain", 9, 3)
    sheet = np.asarray(describe.sheet([("pretrain", tiles)], "x"))
    step = 112 + 15 + 10 + 16
    found, _ = places(9, 112, 112, step, 61)
    codes = [made.sample("pretrain", index, 3).labels["code"] for index in describe.positions(20, 9)]
    for code, (top, left) in zip(codes, found, strict=True):
        row = sheet[top + 112 + 2 + 3, left : left + 112]  # through the middle of the strip
        for bit in range(32):
            centre = left + int((bit + 0.5) * 112 / 32)
            black = sheet[top + 112 + 2 + 3, centre].tolist() == [20, 20, 20]
            assert black == bool(code >> bit & 1), (hex(code), bit)
        assert {tuple(colour) for colour in row.tolist()} == {(20, 20, 20), (255, 255, 255), (150, 150, 150)}
    few = describe.Tile(np.zeros((112, 112, 1), dtype=np.uint8), [], [1, 0])
    sheet = np.asarray(describe.sheet([("a", [few])], ""))
    assert (sheet[61 + 112 + 3 : 61 + 112 + 9, 9 : 8 + 55] == 20).all()
    assert (sheet[61 + 112 + 3 : 61 + 112 + 9, 8 + 57 : 8 + 111] == 255).all()


def test_captions_name_labels_and_classes_and_are_cut():
    made = dataset("digit-on-imagenet", {"image_size": 32, "train": 10, "test": 4})
    [first, *_] = describe.tiles_of_dataset(made, "pretrain", 99, 0)
    assert first.lines == ["digit: 0", "image: 0 discs-smooth-warm-slanted"] and first.bits is None
    toy = describe.tiles_of_dataset(dataset("multidigits", {"count": 3}), "pretrain", 1, 0)[0]
    assert re.fullmatch(r"digits: \d \d \d", toy.lines[0])
    short, long = tile(lines=["W" * 5]), tile(lines=["W" * 500])
    sheet = np.asarray(describe.sheet([("a", [short, long, short])], "T" * 5000))
    gap = sheet[60:, 8 + 112 + 1 : 8 + 112 + 7]
    assert (gap == 255).all() and (sheet[60:, 8 + 240 + 8 - 7 : 8 + 240 - 1] == 255).all()
    assert (sheet[:, -7:] == 255).all() and (sheet[61 + 114 : 61 + 127, 128:240] < 100).any()  # cut, not left out


def test_positions_are_one_of_each_part_in_order():
    assert describe.positions(16, 16) == list(range(16)) and describe.positions(0, 3) == []
    for count, wanted in ((17, 16), (1000, 16), (10**30, 7), (60_000, 1)):
        found = describe.positions(count, wanted)
        assert len(found) == wanted and found == describe.positions(count, wanted)
        for part, position in enumerate(found):
            assert part * count // wanted <= position < (part + 1) * count // wanted
    steps = {position % 1000 for position in describe.positions(100_000, 100)}
    assert len(steps) > 80  # drawn, no even steps


def test_a_folder_and_its_dataset_give_one_sheet(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    flags = ["--image-size", 32, "--train", 12, "--test", 4]
    assert bench("generate", "digit-on-imagenet", *flags, "--seed", 2, "--out", "data") == 0
    made = dataset("digit-on-imagenet", {"image_size": 32, "train": 12, "test": 4})
    for split in made.splits:
        drawn, read = (
            describe.tiles_of_dataset(made, split, 5, 2),
            describe.tiles_of_folder(open_folder("data", split), 5),
        )
        assert [one.lines for one in drawn] == [one.lines for one in read] and len(drawn) == min(5, made.splits[split])
        assert all(np.array_equal(one.image, two.image) for one, two in zip(drawn, read, strict=True))
    assert bench("preview", "data", "--out", "deep/er/a.png", "--samples", 3, "--split", "probe-test") == 0
    with Image.open(tmp_path / "deep/er/a.png") as image:
        assert (
            image.format == "PNG" and image.mode == "RGB" and image.width == 8 + 8 * 136
        )  # 32 pixels are enlarged to 128


@pytest.mark.parametrize("name, code", [("sheet.jpg", 2), ("sheet", 2), ("taken/sheet.png", 4), ("folder.png", 4)])
def test_places_where_no_sheet_can_stand(name, code, tmp_path, capsys):
    (tmp_path / "taken").write_text("a file")
    (tmp_path / "folder.png").mkdir()
    assert bench("preview", "randbit", "--samples", 1, "--out", tmp_path / name) == code
    said = capsys.readouterr().err
    assert name.split("/")[-1] in said and "Traceback" not in said and said.startswith("bench: error: ")


def naive_association(one, other) -> float:
    """Cramer's V with loops over the pairs of classes that occur."""
    n, total = len(one), 0.0
    rows, columns = sorted(set(one)), sorted(set(other))
    for a in rows:
        for b in columns:
            expected = one.count(a) * other.count(b) / n
            seen = sum(x == a and y == b for x, y in zip(one, other, strict=True))
            total += (seen - expected) ** 2 / expected
    return math.sqrt(total / n / (min(len(rows), len(columns)) - 1))


def test_association_by_hand_and_naively():
    assert describe.association(np.array([[8, 2], [2, 8]])) == pytest.approx(0.6)  # phi = (64 - 4) / 100
    assert describe.association(np.array([[3, 0, 0], [0, 0, 7]])) == pytest.approx(1)
    assert math.isnan(describe.association(np.array([[3, 4, 5]]))) and math.isnan(
        describe.association(np.array([[3, 0], [9, 0]]))
    )
    for classes in ((2, 2), (4, 3), (10, 10)):
        one, other = (RANDOM.integers(0, most, 90).tolist() for most in classes)
        counts = describe.joint_counts(one, other, (classes[0] + 1, classes[1]))
        for a in range(classes[0] + 1):
            for b in range(classes[1]):
                assert counts[a, b] == sum(pair == (a, b) for pair in zip(one, other, strict=True))
        assert describe.association(counts) == pytest.approx(naive_association(one, other))


def tables(text: str) -> dict[str, list[list[str]]]:
    """The Markdown tables of a card by their first cell."""
    blocks = re.findall(r"(?:^\|.*\|\n?)+", text, re.MULTILINE)
    rows = [[[c.strip() for c in line.strip("|").split("|")] for line in block.strip().split("\n")] for block in blocks]
    assert all(len(row) == len(block[0]) for block in rows for row in block)
    return {block[0][0]: block for block in rows}


def test_a_card_counts_what_is_in_the_folder(tmp_path):
    build(dataset("digit-on-imagenet", {"image_size": 32, "train": 60, "test": 10, "unique_digits": 25}), tmp_path)
    opened = open_folder(tmp_path)
    text = describe.card(opened)
    for split in opened.splits:
        labels = opened.to(split).labels()
        section = text.split(f"## Joint counts: {split}\n")[1].split("\n## ")[0]
        table = tables(section)["digit \\ image"]
        assert table[0][1:] == [str(one) for one in range(10)] and len(table) == 12
        pairs = list(zip(labels["image"], labels["digit"], strict=True))
        for digit, row in enumerate(table[2:]):
            assert row == [str(digit), *(str(pairs.count((image, digit))) for image in range(10))]
        counts = [pairs.count((image, digit)) for image in range(10) for digit in range(10)]
        strength = naive_association(labels["image"], labels["digit"])
        line = f"{min(counts)} to {max(counts)} samples per pair of classes, {counts.count(0)} pairs do not occur; "
        assert f"digit x image: {line}Cramer's V {strength:.3f} " in section
        for feature in ("image", "digit"):
            column = [labels[feature].count(one) for one in range(10)]
            row = [split, feature, f"{min(column)} to {max(column)}", str(column.count(0)), " ".join(map(str, column))]
            assert row in tables(text)["split"]
    assert opened.manifest.content_digest in text and "`unique_digits=25`" in text and "probe_train=" not in text
    assert ["image", "10 classes", "0.1", "probe-train -> probe-test", "yes"] in tables(text)["feature"]


def test_several_labels_at_once_and_absent_ones(tmp_path):
    edit = ('"letters": letters}', '"letters": letters} if index % 3 else {"parity": sum(letters) % 2}')
    path = write_toy(tmp_path / "user", edit)
    build(dataset(path, {}), tmp_path / "out", reference=path)
    opened = open_folder(tmp_path / "out")
    text = describe.card(opened).split("## Joint counts: pretrain\n")[1].split("\n## ")[0]
    lists = [value for value in opened.labels()["letters"] if value is not None]
    assert len(lists) == 27
    for a, row in enumerate(tables(text)["letters"][2:]):
        assert row == [str(a), *(str(sum(a in value and b in value for value in lists)) for b in range(5))]
    assert "parity x" not in text  # one single feature has no pair


def test_bits_lines(tmp_path):
    build(dataset("randbit", {"train": 100, "test": 9}), tmp_path)
    opened = open_folder(tmp_path)
    labels = opened.labels()
    bits = [[code >> bit & 1 for code in labels["code"]] for bit in range(32)]
    shares = [sum(column) / 100 for column in bits]
    strongest = max(naive_association(labels["digit"], column) for column in bits)
    text = describe.card(opened)
    assert f"bits: each is 1 on {min(shares):.3f} to {max(shares):.3f} of the samples; 100 different codes" in text
    assert f"digit x bit: Cramer's V at most {strongest:.3f} over 32 bits that change." in text
    assert ["code", "bits, 2 classes each", "0.5", "pretrain -> probe-test", "yes"] in tables(text)["feature"]


@pytest.mark.parametrize(
    "name, options",
    [
        ("randbit", {"train": 1, "test": 3}),
        ("randbit", {"image_source": "leaves", "image_size": 16, "train": 10, "test": 10}),
        ("multidigits", {"train": 5, "probe_train": 3, "probe_test": 2}),
        ("multidigits", {"sizes": [20, 30], "train": 5, "probe_train": 3, "probe_test": 1}),
        ("multidigits", {"sizes": [20, 20], "train": 5, "probe_train": 3, "probe_test": 2}),
        ("multidigits", {"count": 1, "train": 5, "probe_train": 3, "probe_test": 2}),
        ("digit-on-imagenet", {"image_size": 32, "train": 20, "test": 10, "unique_digits": 1}),
    ],
    ids=str,
)
def test_every_family_is_described_without_nan(name, options, tmp_path, capsys):
    assert build(dataset(name, options), tmp_path / "out")
    text = describe.card(open_folder(tmp_path / "out"))
    assert not re.search(r"\bnan\b|\binf\b|None", text) and tables(text)["what"] and text.startswith(f"# {name}\n")
    assert ("is not defined" in text) == (options.get("unique_digits") == 1)
    assert bench("describe", tmp_path / "out") == 0
    assert capsys.readouterr().out == text
    assert bench("describe", tmp_path / "out", "--out", tmp_path / "new" / "card.md") == 0
    assert (tmp_path / "new" / "card.md").read_text().replace("![samples](card.png)\n\n", "") == text
    assert Image.open(tmp_path / "new" / "card.png").mode == "RGB"


def test_a_card_that_cannot_be_written(tmp_path, capsys):
    build(dataset("randbit", {"train": 3, "test": 3}), tmp_path / "out")
    (tmp_path / "card.md").mkdir()
    with pytest.raises(UserError, match=r"card\.md: cannot be written") as caught:
        describe.write_card(open_folder(tmp_path / "out"), tmp_path / "card.md")
    assert caught.value.exit_code == 4
    assert bench("describe", tmp_path / "out", "--out", f"{tmp_path}/./card.md") == 4
    assert bench("describe", tmp_path / "out", "--out", tmp_path / "card.txt") == 2
    assert "Traceback" not in capsys.readouterr().err
