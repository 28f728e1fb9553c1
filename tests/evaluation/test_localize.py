"""Local features: k-means against all partitions, planted halves, what a sheet holds, sentences for what is wrong."""

import itertools
import re
import shutil

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from small_cells import make_cell, make_record, run, write_records
from torch.nn import functional as F

from generators import catalog
from generators.dataset import UserError
from suppression_bench import run as running
from suppression_bench.cli import main
from suppression_bench.encoder import Encoder
from suppression_bench.evaluation import label_sheet, localize
from suppression_bench.results import weights

OWN = '''
"""An encoder of one's own, with one stage."""
from torch import nn
from suppression_bench.encoder import Encoder


class Mine(Encoder):
    """One strided convolution."""

    width = 3

    def __init__(self, side, channels):
        super().__init__()
        self.layer = nn.Conv2d(channels, 3, 7, stride=7)

    def forward(self, pictures):
        return self.layer(pictures).mean((2, 3))

    def stages(self, pictures):
        return [self.layer(pictures)]
'''


class Planted(Encoder):
    """Stage 1: 2 x 2 maps whose direction is that of a texture (left) or another (right); stage 2: their lengths vary."""

    name = "planted"

    def stages(self, given):
        left, right = torch.tensor([1.0, 0.0]), torch.tensor([0.6, 0.8])
        one = torch.stack([torch.stack([left, right]), torch.stack([left, right])])  # line, column, channel
        one = one.permute(2, 0, 1).expand(len(given), 2, 2, 2)
        lengths = torch.tensor([[1.0, 30.0], [40.0, 2.0]])
        return one, one * lengths  # a tuple is as good as a list


def halves(count=2, side=8):
    """Pictures that are dark on the right and bright on the left."""
    made = torch.full((count, 3, side, side), 0.2)
    made[..., : side // 2] = 0.8
    return made


def encoder(name: str, side: int, channels: int) -> Encoder:
    torch.manual_seed(0)
    return catalog.load_class("suppression_bench.encoders", name, Encoder)(side, channels).eval()


# --- the mathematics -------------------------------------------------------------------------------------------------


def test_two_textures_become_two_halves_whatever_the_lengths():
    for one in localize.localize(Planted(), halves(), 0, [1, 2], [2]):
        # By hand: the right half is the darker one, so it is cluster 0; lengths play no part after normalisation.
        assert one.features.tolist() == [[[1, 0], [1, 0]]] * 2
        assert one.patches.tolist() == [[[1, 0], [1, 0]]] * 2
        assert one.patch == 4 and one.clusters == 2


@pytest.mark.parametrize("k", [2, 3])
def test_k_means_finds_the_best_of_all_partitions(k):
    torch.manual_seed(k)
    maps = torch.randn(2, 3, 2, 2)
    rows = []
    for n, line, column in itertools.product(range(2), range(2), range(2)):  # a second writing of the normalised rows
        vector = [float(maps[n, c, line, column]) for c in range(3)]
        length = sum(value * value for value in vector) ** 0.5
        rows.append([value / length for value in vector])
    found = localize.unit_rows(maps)
    np.testing.assert_allclose(found, rows, atol=1e-7)

    def inertia(labels):
        total = 0.0
        for name in set(labels):
            own = [row for row, label in zip(rows, labels, strict=True) if label == name]
            centre = [sum(values) / len(own) for values in zip(*own, strict=True)]
            total += sum(sum((a - b) ** 2 for a, b in zip(row, centre, strict=True)) for row in own)
        return total

    best = min(itertools.product(range(k), repeat=8), key=inertia)
    labels = localize.cluster(found, k)
    assert {frozenset(np.flatnonzero(labels == n)) for n in range(k)} == {
        frozenset(i for i in range(8) if best[i] == n) for n in range(k)
    }


@pytest.mark.parametrize(("side", "grid"), [(6, 3), (7, 3)])
def test_patches_are_the_blocks_of_the_grid(side, grid):
    given = torch.rand(2, 3, side, side)
    found = localize.patches(given, grid)
    size = -(-side // grid)
    whole = F.interpolate(given, (size * grid,) * 2, mode="bilinear", align_corners=False) if side % grid else given
    wanted = [
        whole[n, :, i * size : (i + 1) * size, j * size : (j + 1) * size].flatten().tolist()
        for n, i, j in itertools.product(range(2), range(grid), range(grid))
    ]
    np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_labels_run_from_dark_to_bright():
    labels, light = np.array([4, 4, 0, 2, 2]), np.array([0.5, 0.7, 0.9, 0.0, 0.2])
    assert localize.by_brightness(labels, light).tolist() == [1, 1, 2, 0, 0]
    np.testing.assert_allclose(localize.brightness(halves(1), 2), [0.8, 0.2, 0.8, 0.2], atol=1e-6)


def test_positions_that_coincide_give_fewer_labels():
    rows = np.ones((6, 2))
    assert localize.cluster(rows, 3).tolist() == [0] * 6


# --- stages ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("side", "sides"), [(32, [32, 16, 8, 4]), (64, [16, 8, 4, 2]), (112, [28, 14, 7, 4])])
def test_resnet18s_stages(side, sides):
    net = encoder("resnet18", side, 4)
    given = torch.rand(2, 4, side, side)
    with torch.no_grad():
        found, pooled = net.stages(given), net(given)
    assert [tuple(one.shape) for one in found] == [
        (2, c, s, s) for c, s in zip((64, 128, 256, 512), sides, strict=True)
    ]
    torch.testing.assert_close(found[-1].mean((2, 3)), pooled)


def test_randbit_convs_stages_end_in_its_features():
    net = encoder("randbit-conv", 28, 11)
    given = torch.rand(2, 11, 28, 28)
    with torch.no_grad():
        found = net.stages(given)
        torch.testing.assert_close(net.dense(found[-1].flatten(1)), net(given))
    assert all(float(one.min()) == 0 for one in found)  # each behind its ReLU


@pytest.mark.parametrize("name", catalog.names("suppression_bench.encoders"))
def test_stages_are_maps_that_follow_the_picture(name):
    net = encoder(name, 28, 2)
    first, second = torch.rand(2, 2, 2, 28, 28)
    with torch.no_grad():
        found, other = net.stages(first), net.stages(second)
    assert (name == "raw-pixels") == (found == [])
    for one, two in zip(found, other, strict=True):
        assert one.ndim == 4 and len(one) == 2 and one.shape[2] == one.shape[3] <= 28
        assert not torch.equal(one, two)


def test_an_earlier_stage_is_as_it_was_after_the_later_ones():
    """ReLUs in place must not write into a map that was handed out."""
    net, given = encoder("resnet18", 32, 1), torch.rand(1, 1, 32, 32)
    kept = []
    net.net.layer1.register_forward_hook(lambda module, args, out: kept.append(out.clone()))
    with torch.no_grad():
        assert torch.equal(net.stages(given)[0], kept[0])


# --- what is wrong, as sentences -------------------------------------------------------------------------------------


def test_the_bits_are_fed_as_zeros():
    seen = []

    class Looks(Planted):
        def stages(self, given):
            seen.append(given)
            return super().stages(given)

    localize.localize(Looks(), halves(), 2, [1], [2])
    assert seen[0].shape == (2, 5, 8, 8) and not seen[0][:, 3:].any() and torch.equal(seen[0][:, :3], halves())


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda maps: None, "returned NoneType; it must return a list or tuple of (2, C, s, s) tensors"),
        (lambda maps: [1, 2], "returned int as stages; it must return a list or tuple"),
        (lambda maps: maps[0], "returned one tensor; it must return a list or tuple"),
        (lambda maps: {}["no\nsuch"], "failed (KeyError: "),
        (lambda maps: [one.flatten(2) for one in maps], "stage 1 of shape (2, 2, 4); it must be (2, C, s, s)"),
        (
            lambda maps: [],
            "the encoder planted has no stages (intermediate feature maps) to look at; take a run of one",
        ),
        (lambda maps: [one * float("nan") for one in maps], "not all finite"),
    ],
)
def test_wrong_stages_are_one_line(spoil, words):
    class Wrong(Planted):
        def stages(self, given):
            return spoil(super().stages(given))

    with pytest.raises(UserError) as error:
        localize.localize(Wrong(), halves(), 0, [1], [2])
    assert words in str(error.value) and "\n" not in str(error.value)


# --- pictures --------------------------------------------------------------------------------------------------------


def test_pictures_of_a_folder_are_spread_and_shaped(tmp_path):
    for name in "abcdef":
        (tmp_path / name).mkdir()
        Image.new("RGB", (10, 20), (255, 0, 0)).save(tmp_path / name / f"{name}.png")
    (tmp_path / "notes.txt").write_text("no picture")
    shown = localize.read_images(tmp_path, 3, (8, 8, 3))
    assert shown.images.shape == (3, 8, 8, 3) and (shown.images == [255, 0, 0]).all()
    assert [name[0] in pair for name, pair in zip(shown.names, ("ab", "cd", "ef"), strict=True)] == [True] * 3
    grey = localize.read_images(tmp_path, 50, (28, 28, 1))
    assert grey.images.shape == (6, 28, 28, 1) and (grey.images == 76).all()  # ITU-R 601: .299 * 255
    assert grey.names == [f"{name}.png" for name in "abcdef"]


def test_pictures_of_a_dataset_are_its_test_split(randbit):
    shown = localize.read_images(randbit, 2, (28, 28, 1))
    assert shown.images.shape == (2, 28, 28, 1) and all(name.startswith("probe-test ") for name in shown.names)
    assert shown.images.any()


# --- the sheet and the command ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made(randbit, tmp_path_factory):
    """A run's folder with one small trained cell of 3 bits."""
    folder = tmp_path_factory.mktemp("run")
    cell = make_cell("simclr", randbit, data__bits=3)
    running.run(cell, folder / "cells" / cell.cell.folder_name, torch.device("cpu"))
    return folder


@pytest.fixture
def photos(tmp_path):
    (tmp_path / "photos").mkdir()
    noise = np.random.RandomState(0).randint(0, 255, (3, 40, 30, 3)).astype(np.uint8)
    for i, one in enumerate(noise):
        Image.fromarray(one).save(tmp_path / "photos" / f"{i} $x_2$.jpg")
    return tmp_path / "photos"


def bench(*arguments) -> int:
    return main(["localize", *map(str, arguments)])


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_a_run_becomes_a_sheet_with_the_same_bytes_twice(made, photos, tmp_path, capsys, ending):
    out = [tmp_path / "new" / f"{name}.{ending}" for name in "ab"]
    for path in out:
        assert bench(made, "--images", photos, "--clusters", 2, 4, "--stages", 1, 2, "--out", path) == 0
    said = capsys.readouterr()
    assert said.out.splitlines() == [f"written: {path}" for path in out] and said.err == ""
    assert out[0].read_bytes() == out[1].read_bytes() and len(out[0].read_bytes()) > 5000


def test_the_sheet_draws_what_was_clustered(made, photos, tmp_path, monkeypatch):
    drawn = {}
    monkeypatch.setattr(label_sheet, "draw", lambda *arguments: drawn.update(zip("pnmtao", arguments, strict=True)))
    [cell] = (made / "cells").iterdir()
    assert bench(cell, "--images", photos, "--clusters", 2, 2, 5, "--limit", 3) == 0
    assert [(one.stage, one.clusters, one.features.shape) for one in drawn["m"]] == [
        (stage, k, (3, side, side)) for stage, side in ((1, 13), (2, 6), (3, 2)) for k in (2, 5)
    ]
    assert cell.name in drawn["t"] and "3 constant channels are fed as 0" in drawn["a"]
    # The same by hand: the weights are those of the cell's file.
    net = weights.load(cell).encoder
    given = torch.from_numpy(drawn["p"]).permute(0, 3, 1, 2) / 255
    with torch.no_grad():
        rows = localize.unit_rows(net.convolutions[:3](torch.cat([given, torch.zeros(3, 3, 28, 28)], 1)))
    labels = drawn["m"][0].features.flatten()
    centres = np.stack([rows[labels == n].mean(0) for n in range(2)])
    nearest = ((rows[:, None] - centres) ** 2).sum(2).argmin(1)
    assert (nearest == labels).all()


@pytest.mark.parametrize(("stages", "clusters"), [([1], [2]), ([1, 2], [2, 3, 4])])
def test_no_text_is_cut_off_or_hides_another(stages, clusters, tmp_path, monkeypatch):
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figures = []
    monkeypatch.setattr(label_sheet, "_save", lambda figure, path: figures.append(figure))
    maps = localize.localize(Planted(), halves(), 0, stages, clusters)
    shown, names = np.full((2, 8, 8, 3), 90, dtype=np.uint8), ["ILSVRC2012_VAL_00029_" * 3, "two\nlines"]
    label_sheet.draw(shown, names, maps, "a-long-name_" * 9, "M note of some length. " * 5, tmp_path / "a.png")
    figure = figures[0]
    canvas = FigureCanvasAgg(figure).get_renderer()
    boxes = [text.get_window_extent(canvas) for text in figure.texts]
    boxes += [axis.get_tightbbox(canvas) for axis in figure.axes]
    for box in boxes:
        assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1
    for one, other in itertools.combinations(boxes, 2):
        assert min(one.x1, other.x1) - max(one.x0, other.x0) < 1 or min(one.y1, other.y1) - max(one.y0, other.y0) < 1


def test_colours_are_told_apart():
    for k in (2, 5, 10, 17):
        assert len(set(label_sheet.colours(k))) == k


def test_an_encoder_of_ones_own(randbit, photos, tmp_path, capsys):
    own = tmp_path / "mine.py"
    own.write_text(OWN)
    run("untrained", randbit, tmp_path / "cell", encoder__name=str(own))
    flags = [tmp_path / "cell", "--images", photos, "--out", tmp_path / "sheet.svg"]
    assert bench(*flags) == 2 and "name it with --encoder PATH.py" in capsys.readouterr().err
    assert bench(*flags, "--encoder", own) == 0 and (tmp_path / "sheet.svg").exists()
    own.write_text(OWN + "\n# edited\n")
    assert bench(*flags, "--encoder", own) == 2 and "not the file" in capsys.readouterr().err


def test_a_wrong_run_is_a_sentence(made, photos, tmp_path, capsys):
    def said(run, *more):
        assert bench(run, "--images", photos, "--out", tmp_path / "sheet.png", *more) == 2
        return capsys.readouterr().err

    [cell] = (made / "cells").iterdir()
    assert "no such folder" in said(tmp_path / "nowhere")
    assert "no result.json in it" in said(photos)
    assert "leave it out" in said(cell, "--encoder", "mine.py")
    copy = shutil.copytree(cell, tmp_path / "cell")
    weights.save(encoder("randbit-conv", 28, 2), copy / "encoder.safetensors", (28, 28, 1))
    assert "these are not the weights of randbit-conv" in said(copy)
    save_file(load_file(cell / "encoder.safetensors"), copy / "encoder.safetensors")
    assert "does not say the shape of its images" in said(copy)
    two = tmp_path / "two"
    for name in ("one", "other"):
        shutil.copytree(cell, two / "cells" / name)
    text = said(two)
    assert "2 of its cells" in text and f"{two}/cells/one\n" in text and f"{two}/cells/other\n" in text
    damaged = two / "cells" / "one" / "encoder.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:500])
    assert f"{damaged}: cannot be read" in said(two / "cells" / "one")
    damaged.unlink()
    assert "none of its cells has encoder.safetensors" in said(two / "cells" / "one")
    assert bench(two, "--images", photos, "--out", tmp_path / "sheet.png", "--clusters", 2) == 0  # one is left


def test_a_cell_that_ended_badly_says_how(tmp_path):
    how = [("diverged", "the loss was not finite at step 7"), ("failed", "ValueError: no such thing")]
    for status, error in how:
        folder = write_records(tmp_path / status, [make_record([], status=status, error=error)])
        with pytest.raises(UserError, match=re.escape(f": {status} ({error}); mend the cause or change")) as raised:
            weights.find(folder)
        assert "keeps its encoder" not in str(raised.value)
    many = write_records(tmp_path / "many", [make_record([], seed=n, status=how[0][0], error="x") for n in range(5)])
    with pytest.raises(UserError, match=r"(: diverged \(x\); .*){3}and 2 more"):
        weights.find(many)
    old = write_records(tmp_path / "old", [make_record([])])
    with pytest.raises(UserError, match="run them again, and each keeps its encoder"):
        weights.find(old)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--out", "sheet.pdf"], "--out sheet.pdf must end in .png or .svg"),
        (["--limit", "0"], "--limit must be at least 1"),
        (["--limit", "21"], "a sheet shows at most 20 images"),
        (["--clusters", "two"], "two"),
        (["--clusters", "1"], "--clusters 1: at least 2"),
        (["--stages", "0"], "has the stages 1, 2, 3"),
        (["--stages", "4"], "has the stages 1, 2, 3"),
        (["--clusters", "13"], "stage 3 has 12 positions in 3 images"),
        (["--images", "nowhere"], "--images nowhere: no such folder"),
        (["--image", "x"], "--images"),
    ],
)
def test_wrong_flags_are_sentences(made, photos, capsys, tmp_path, monkeypatch, flags, words):
    monkeypatch.chdir(tmp_path)
    given = [] if "--images" in flags else ["--images", photos]
    assert bench(made, *given, *flags) == 2
    said = capsys.readouterr().err
    assert words in said and len(said.splitlines()) == 1 and not (tmp_path / "localize.png").exists()


def test_wrong_pictures_are_sentences(made, tmp_path, capsys):
    folder = tmp_path / "pictures"
    folder.mkdir()
    assert bench(made, "--images", folder) == 2 and "no image in it" in capsys.readouterr().err
    (folder / "a.png").write_bytes(b"\x89PNG no")
    assert bench(made, "--images", folder) == 2
    said = capsys.readouterr().err
    assert str(folder / "a.png") in said and "not an image" in said and "Traceback" not in said
