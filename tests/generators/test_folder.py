"""A folder of pictures: what is listed, what the first pass finds and remembers, and what a picture becomes."""

import contextlib
import hashlib
import io
import os
import shutil
import struct
import threading
import warnings
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageOps

from generators import files, image_files
from generators.dataset import UserError
from generators.image_sources import folder as folder_module
from generators.sources import images


@pytest.fixture(autouse=True)
def fresh(tmp_path, monkeypatch):
    monkeypatch.setenv("SUPPRESSION_BENCH_CACHE", str(tmp_path / "data-root"))
    folder_module.check.cache_clear()


def colours(height: int, width: int, seed: int = 0, channels: int = 3) -> np.ndarray:
    shape = (height, width, channels) if channels > 1 else (height, width)
    return np.random.Generator(np.random.PCG64(seed)).integers(0, 256, shape, dtype=np.uint8)


def encoded(picture, form: str = "PNG", **options) -> bytes:
    """The file of a picture (an array or a Pillow image)."""
    file = io.BytesIO()
    (Image.fromarray(picture) if isinstance(picture, np.ndarray) else picture).save(file, form, **options)
    return file.getvalue()


PICTURE = encoded(colours(5, 7))
LARGE = encoded(np.kron(colours(6, 8), np.ones((10, 10, 1), np.uint8)), "JPEG", quality=90)


def store(root: Path, files: dict[str, bytes]) -> Path:
    """A folder of files; what is not named is one class `cat` with one picture in each part."""
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    for part in ("train", "val"):
        if not (root / part).exists():
            store(root, {f"{part}/cat/a.png": PICTURE})
    return root


def opened(root: Path):
    return images(f"folder:{root}")


def fault(root: Path) -> str:
    with pytest.raises(UserError) as caught:
        opened(root)
    return str(caught.value)


def remembered() -> list[Path]:
    return sorted(Path(os.environ["SUPPRESSION_BENCH_CACHE"], "folders").iterdir())


def only(root: Path, data: bytes, name: str = "x.png") -> np.ndarray:
    """The picture of a folder whose training part holds nothing else, in its own size."""
    source = opened(store(root, {f"train/cat/{name}": data}))
    with Image.open(io.BytesIO(data)) as image:
        assert image.width == image.height or max(image.size) <= 8
    return source.image("train", 0, max(image.size))


# The listing


def test_classes_and_order(tmp_path):
    names = ["b/2.png", "b/10.PNG", "b/sub/1.jpeg", "b/sub-a.png", "b c/z.bmp", "B/y.tiff", "a/deep/er/x.webp"]
    files = {f"train/{name}": encoded(colours(2, 2, seed), "PNG") for seed, name in enumerate(names)}
    extra = ["b/notes.txt", "b/.hidden.png", ".git/x.png", "stray.png", "b/.thumbs/1.png", "b/1.svg", "b/png"]
    files |= {f"train/{name}": b"not looked at" for name in extra} | {"val/b/v.gif": PICTURE, "val/a/w.ppm": PICTURE}
    source = opened(store(tmp_path / "pictures", files))
    order = ["B/y.tiff", "a/deep/er/x.webp", "b/10.PNG", "b/2.png", "b/sub-a.png", "b/sub/1.jpeg", "b c/z.bmp"]
    assert source.classes == ["B", "a", "b", "b c"]
    assert source.labels["train"].tolist() == [0, 1, 2, 2, 2, 2, 3]
    assert source.labels["test"].tolist() == [1, 2]
    assert source.labels["train"].dtype == source.labels["test"].dtype == np.int64
    for place, name in enumerate(order):
        assert np.array_equal(source.image("train", place, 2), colours(2, 2, names.index(name))), name
    assert (source.name, source.side, source.licence) == ("folder", None, "see the owner of the pictures")


def test_no_place_and_no_folder(tmp_path):
    for name in ("folder", "folder:"):
        with pytest.raises(
            UserError, match=r"needs a place, --image-source folder:DIR; folder:DIR expects DIR/train/<class>/<image>"
        ):
            images(name)
    assert "no such folder; folder:DIR expects DIR/train/" in fault(tmp_path / "nowhere")
    (tmp_path / "file").write_bytes(b"")
    assert "no such folder" in fault(tmp_path / "file")


def test_missing_parts(tmp_path):
    for missing in ("train", "val"):
        root = store(tmp_path / missing, {})
        shutil.rmtree(root / missing)
        assert f"has no folder {missing}; folder:DIR expects DIR/train/" in fault(root)
    (tmp_path / "empty").mkdir()
    assert "has no folder train and no folder val;" in fault(tmp_path / "empty")


def test_layout_faults_are_named_together(tmp_path):
    root = store(tmp_path / "a", {"val/dog/a.png": PICTURE, "val/cow/a.png": PICTURE, "val/cat/a.png": PICTURE})
    (root / "train" / "fox").mkdir()
    (root / "train" / "elk" / "sub").mkdir(parents=True)
    (root / "train" / "elk" / "sub" / "notes.txt").write_text("no picture")
    lines = fault(root).split("\n")
    assert "expects DIR/train/" in lines[0]
    assert lines[1:] == [
        "val/cow is a class that train/ lacks",
        "val/dog is a class that train/ lacks",
        "train/elk has no image",
        "train/fox has no image",
    ]
    root = store(tmp_path / "b", {})
    shutil.rmtree(root / "train" / "cat")
    assert fault(root).split("\n")[1:] == ["train/ has no class folder"]


def test_val_may_lack_a_class_of_train(tmp_path):
    source = opened(
        store(tmp_path / "a", {"train/ant/a.png": PICTURE, "train/bee/a.png": PICTURE, "val/bee/a.png": PICTURE})
    )
    assert source.labels["train"].tolist() == [0, 1] and source.labels["test"].tolist() == [1]


def test_links_are_followed_but_not_in_a_circle(tmp_path):
    elsewhere = store(tmp_path / "elsewhere", {"deep/x.png": PICTURE})
    root = store(tmp_path / "pictures", {})
    (root / "train" / "dog").symlink_to(elsewhere / "deep", target_is_directory=True)
    (root / "train" / "cat" / "more").symlink_to(elsewhere / "deep", target_is_directory=True)
    assert opened(root).labels["train"].tolist() == [0, 0, 1]
    (elsewhere / "deep" / "up").symlink_to(elsewhere, target_is_directory=True)
    assert "a link that leads to a folder above itself" in fault(root)


def test_names_that_are_no_utf_8(tmp_path):
    root = store(tmp_path / "pictures", {})
    try:
        Path(os.fsdecode(os.fsencode(root) + b"/train/cat/\xff\n.png")).write_bytes(encoded(colours(2, 2, 5)))
    except OSError:
        pytest.skip("this file system has UTF-8 names only")
    assert np.array_equal(opened(root).image("train", 1, 2), colours(2, 2, 5))
    folder_module.check.cache_clear()
    assert opened(root).count("train") == 2


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_folder_that_cannot_be_listed(tmp_path):
    root = store(tmp_path / "pictures", {})
    (root / "train" / "cat").chmod(0)
    try:
        assert "cannot be listed (Permission denied)" in fault(root)
    finally:
        (root / "train" / "cat").chmod(0o755)


# The first pass


def png_header(width: int, height: int, data: bytes = b"", bits: int = 8) -> bytes:
    """A PNG that promises width x height grey pixels of some bits and has `data` for them."""

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b"")


FLOATS = encoded(Image.new("F", (3, 3), 0.5), "TIFF")
BROKEN = {  # file -> (its bytes, what is said of it)
    "empty.png": (b"", "is empty"),
    "text.jpg": (
        b"hello, I am no picture",
        "is not an image in a known format (JPEG, PNG, BMP, GIF, PPM, WEBP, TIFF)",
    ),
    "icon.png": (encoded(colours(16, 16), "ICO"), "is not an image in a known format"),
    "cut.jpg": (LARGE[: len(LARGE) // 2], "is truncated or damaged (image file is truncated"),
    "nearly.jpg": (LARGE[:-30], "is truncated or damaged"),
    "head.jpg": (LARGE[:30], "is truncated or damaged"),
    "cut.png": (PICTURE[: len(PICTURE) * 2 // 3], "is truncated or damaged"),
    "cut.webp": (encoded(colours(9, 9), "WEBP")[:-20], "is truncated or damaged"),
    "cut.gif": (encoded(colours(9, 9), "GIF")[:-30], "is truncated or damaged"),
    "cut.bmp": (encoded(colours(9, 9), "BMP")[:-30], "is truncated or damaged"),
    "cut.ppm": (encoded(colours(9, 9), "PPM")[:-1], "is truncated or damaged"),
    "cut.tif": (encoded(colours(9, 9), "TIFF")[:-30], "is truncated or damaged"),
    "bomb.png": (png_header(30000, 30000), "is too large (more than 178 million pixels)"),
    "floats.tiff": (FLOATS, "has the mode F, which has no RGB form here"),
    "lab.tiff": (encoded(Image.new("LAB", (3, 3)), "TIFF"), "has the mode LAB, which has no RGB form here"),
}


def test_all_broken_files_are_reported_together(tmp_path):
    root = store(tmp_path / "pictures", {f"val/cat/{name}": data for name, (data, _) in BROKEN.items()})
    head, *lines = fault(root).split("\n")
    assert head.endswith(
        f"{len(BROKEN)} of {len(BROKEN) + 1} images cannot be used; repair or remove them and run again:"
    )
    for name, line in zip(sorted(BROKEN), lines, strict=True):
        assert line.startswith(f"{(root / 'val' / 'cat' / name).resolve()} ") and BROKEN[name][1] in line
    assert not Path(os.environ["SUPPRESSION_BENCH_CACHE"]).exists()  # a failed pass is not remembered


def test_at_most_twenty_are_shown(tmp_path):
    for count, more in ((20, []), (21, ["and 1 more"]), (150, ["and 130 more"])):
        root = store(tmp_path / str(count), {f"train/cat/{place:03d}.png": b"" for place in range(count)})
        head, *lines = fault(root).split("\n")
        assert f"{count} of {count + 1} images" in head
        assert len(lines) == 20 + len(more) and lines[20:] == more
        assert lines[19].endswith("019.png is empty")


def test_links_to_nothing_and_files_that_are_none(tmp_path):
    root = store(tmp_path / "pictures", {})
    (root / "train" / "cat" / "gone.png").symlink_to(tmp_path / "gone")
    os.mkfifo(root / "train" / "cat" / "pipe.png")  # reading it would wait for ever
    assert [line.split("/")[-1] for line in fault(root).split("\n")[1:]] == [
        "gone.png is no file (a broken link?)",
        "pipe.png is no file (a broken link?)",
    ]


def test_enormous_files_are_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(folder_module, "MAX_BYTES", 1 << 20)
    root = store(tmp_path / "pictures", {})
    with open(root / "train" / "cat" / "b.png", "wb") as file:
        file.truncate((1 << 20) + 1)
    assert "b.png is too large (more than 1 MiB)" in fault(root)


def test_the_limit_holds_where_pillows_was_lifted(tmp_path, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    monkeypatch.setattr(Image.Image, "load", lambda self: pytest.fail("a bomb is decoded"))
    with pytest.raises(image_files.Unreadable, match="too large"):
        image_files.decode(png_header(30000, 30000))
    with pytest.raises(image_files.Unreadable, match="too large"):
        image_files.decode(png_header(image_files.MAX_PIXELS + 1, 1))


def test_a_large_picture_below_the_limit_makes_no_noise(tmp_path, capfd):
    width, height = 9500, 9420  # over Pillow's limit for a warning, below the one for an error
    assert Image.MAX_IMAGE_PIXELS < width * height < image_files.MAX_PIXELS
    data = png_header(width, height, bytes((width + 7) // 8 + 1) * height, bits=1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        picture = opened(store(tmp_path / "large", {"train/cat/x.png": data})).image("train", 0, 4)
        assert warnings.filters[0][0] == "always"  # the filters are as they were
    assert not picture.any() and not caught
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    "form, options", [("JPEG", {}), ("JPEG", {"progressive": True}), ("PNG", {}), ("GIF", {}), ("WEBP", {})]
)
def test_the_fast_look_finds_what_decoding_in_full_finds(form, options):
    data = encoded(Image.open(io.BytesIO(LARGE)), form, **options)

    def good(cut, small):
        try:
            image_files.decode(data[:cut], small)
        except image_files.Unreadable:
            return False
        return True

    cuts = [*range(0, len(data) - 40, max(1, len(data) // 60)), *range(len(data) - 40, len(data) + 1)]
    answers = [good(cut, small=True) for cut in cuts]
    assert answers == [good(cut, small=False) for cut in cuts]
    assert answers[-1] and not any(answers[: len(cuts) // 2])


def test_jpegs_are_looked_at_in_small():
    assert image_files.decode(LARGE).size == (80, 60)
    assert image_files.decode(LARGE, small=True).size == (10, 8)


def test_a_stopped_pass_ends_soon(tmp_path, monkeypatch):
    """Ctrl-C in the middle does not wait for all other files."""
    looked = []
    monkeypatch.setattr(folder_module, "FILES_PER_TASK", 1)
    monkeypatch.setattr(
        folder_module, "_inspect", lambda path: (looked.append(path) or (threading.Event().wait(0.01) and ""), "")
    )
    root = store(tmp_path / "pictures", {f"train/cat/{place}.png": PICTURE for place in range(400)})

    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(folder_module.tqdm, "update", stop)
    with pytest.raises(KeyboardInterrupt):
        opened(root)
    assert 1 <= len(looked) < 100


# The memory


@contextlib.contextmanager
def no_picture_is_read():
    """Fails the test where a picture is opened."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Image, "open", lambda *a, **k: pytest.fail("a picture is opened"))
        patch.setattr(folder_module, "_inspect", lambda path: pytest.fail(f"{path} is read"))
        yield


def test_an_unchanged_folder_is_not_read_again(tmp_path):
    root = store(
        tmp_path / "pictures", {"train/cat/a.png": PICTURE, "train/cat/b.png": LARGE, "train/dog/c.png": PICTURE}
    )
    first = opened(root)
    with no_picture_is_read():
        assert opened(root).digest == first.digest  # from this process's memory
    folder_module.check.cache_clear()
    with no_picture_is_read():
        second = opened(root)  # from the data root
    assert second.digest == first.digest and second.classes == first.classes
    assert np.array_equal(second.labels["train"], first.labels["train"])
    assert np.array_equal(second.image("train", 1, 8), first.image("train", 1, 8))
    [memory] = remembered()
    content = files.loads_json(memory.read_bytes(), "memory")
    assert content["digest"] == first.digest
    assert content["sha256"][1] == hashlib.sha256(LARGE).hexdigest()


def test_the_key_covers_root_paths_sizes_and_times():
    def key(root="/a", path="train/cat/a.png", size=1, modified=2):
        return folder_module.Listing(Path(root), [folder_module.File(path, size, modified)]).key

    others = [key("/b"), key(path="train/cat/b.png"), key(size=3), key(modified=3), key(size=12, modified=0), key()]
    assert len(set(others)) == 6 and key() == others[-1]


def test_changed_added_and_removed_files_are_noticed(tmp_path):
    root = store(tmp_path / "pictures", {"train/cat/a.png": PICTURE, "train/cat/b.png": PICTURE})
    digests = [opened(root).digest]
    store(root, {"train/cat/b.png": encoded(colours(5, 7, 9))})
    digests.append(opened(root).digest)
    store(root, {"train/cat/c.png": PICTURE})
    digests.append(opened(root).digest)
    (root / "train/cat/b.png").rename(root / "train/cat/d.png")
    digests.append(opened(root).digest)
    assert len(set(digests)) == 4
    (root / "train/cat/d.png").unlink()
    (root / "train/cat/c.png").unlink()
    assert opened(root).digest not in digests
    store(root, {"train/cat/a.png": b""})
    assert "a.png is empty" in fault(root)


def test_a_change_of_the_same_size_is_noticed_by_its_time(tmp_path):
    first, second = encoded(colours(4, 4, 1), "BMP"), encoded(colours(4, 4, 2), "BMP")
    assert len(first) == len(second)
    root = store(tmp_path / "pictures", {"train/cat/a.bmp": first})
    digest = opened(root).digest
    store(root, {"train/cat/a.bmp": second})
    state = (root / "train/cat/a.bmp").stat()
    os.utime(root / "train/cat/a.bmp", ns=(state.st_atime_ns, state.st_mtime_ns + 1))
    assert opened(root).digest != digest


def test_a_copied_folder_has_the_same_digest(tmp_path):
    root = store(
        tmp_path / "pictures", {"train/cat/b.png": LARGE, "val/cat/b.png": PICTURE, "train/cat/a.png": PICTURE}
    )
    shutil.copytree(root, tmp_path / "elsewhere" / "copy")
    assert opened(tmp_path / "elsewhere" / "copy").digest == opened(root).digest
    assert len(remembered()) == 2  # by the absolute path
    os.rename(tmp_path / "elsewhere/copy/train/cat/b.png", tmp_path / "elsewhere/copy/val/cat/c.png")
    assert opened(tmp_path / "elsewhere" / "copy").digest != opened(root).digest


def test_the_digest_by_hand(tmp_path):
    names = ["val/b/a.png", "train/b/a.png", "train/b c/a.png", "train/b/a c.png", "train/b/a/c.png"]
    root = store(tmp_path / "pictures", {name: encoded(colours(2, 2, seed)) for seed, name in enumerate(names)})
    lines = [f"{name}\0{hashlib.sha256((root / name).read_bytes()).hexdigest()}\n" for name in sorted(names)]
    assert sorted(names)[0] == "train/b c/a.png"  # although its class comes last
    assert opened(root).digest == hashlib.sha256("".join(lines).encode()).hexdigest()


def test_a_link_to_the_folder_shares_its_memory(tmp_path):
    root = store(tmp_path / "pictures", {})
    (tmp_path / "link").symlink_to(root)
    first = opened(root)
    with no_picture_is_read():
        assert opened(tmp_path / "link").digest == first.digest


DAMAGED_MEMORIES = {
    "no JSON": lambda memory: b"{",
    "octets": lambda memory: b"\xff\xfe",
    "a list": lambda memory: [],
    "no digest": lambda memory: {"sha256": memory["sha256"]},
    "a number": lambda memory: {**memory, "sha256": [3, 4]},
    "another digest": lambda memory: {**memory, "digest": "0" * 64},
    "fewer": lambda memory: {**memory, "sha256": memory["sha256"][1:]},
}


@pytest.mark.parametrize("kind", DAMAGED_MEMORIES)
def test_a_damaged_memory_is_made_anew(tmp_path, kind):
    root = store(tmp_path / "pictures", {})
    digest = opened(root).digest
    [memory] = remembered()
    whole = memory.read_bytes()
    damaged = DAMAGED_MEMORIES[kind](files.loads_json(whole, "memory"))
    memory.write_bytes(damaged if isinstance(damaged, bytes) else files.dumps_json(damaged).encode())
    folder_module.check.cache_clear()
    assert opened(root).digest == digest
    assert remembered() == [memory] and memory.read_bytes() == whole


def test_a_memory_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "data-root").write_text("a file where the folder should be")
    with pytest.raises(UserError, match=r"folders: cannot be written .*set SUPPRESSION_BENCH_CACHE") as caught:
        opened(store(tmp_path / "pictures", {}))
    assert caught.value.exit_code == 4
    (tmp_path / "data-root").unlink()
    monkeypatch.setattr(
        Path, "replace", lambda self, target: (_ for _ in ()).throw(OSError(28, "No space left on device"))
    )
    with pytest.raises(UserError, match="No space left on device"):
        opened(tmp_path / "pictures")
    assert remembered() == []  # no stray temporary file


# Pictures


def test_rgb_is_pillows_plain_resize(tmp_path):
    data = encoded(colours(40, 61, 3), "PNG")
    root = store(tmp_path / "pictures", {"train/cat/a.png": data, "train/cat/b.jpg": LARGE})
    source = opened(root)
    for place, name in enumerate(["a.png", "b.jpg"]):
        for side in (1, 8, 64, 224):
            with Image.open(root / "train" / "cat" / name) as image:
                plain = np.asarray(image.resize((side, side), resample=2))
            picture = source.image("train", place, side)
            assert picture.dtype == np.uint8 and picture.shape == (side, side, 3)
            assert np.array_equal(picture, plain)


def test_a_picture_is_a_new_array_and_the_same_each_time(tmp_path):
    source = opened(store(tmp_path / "pictures", {}))
    one = source.image("train", 0, 9)
    kept = one.copy()
    one[:] = 0
    assert kept.any() and np.array_equal(source.image("train", 0, 9), kept)


GREY, ALPHA, RGB = colours(6, 6, 1, 1), colours(6, 6, 2, 1), colours(6, 6, 4)
WIDE = np.arange(36, dtype=np.int32).reshape(6, 6) * 1800


def with_mode(mode: str) -> Image.Image:
    image = Image.fromarray(RGB)
    if mode in ("LA", "RGBA"):
        image = Image.fromarray(GREY) if mode == "LA" else image
        image.putalpha(Image.fromarray(ALPHA))
    if mode == "P":
        image = image.quantize(12)
    return image


def repeated(grey: np.ndarray) -> np.ndarray:
    return np.stack([grey] * 3, axis=2)


def test_grey(tmp_path):
    assert np.array_equal(only(tmp_path, encoded(GREY)), repeated(GREY))


def test_black_and_white(tmp_path):
    bits = GREY > 127
    assert np.array_equal(only(tmp_path, encoded(Image.fromarray(bits))), repeated(bits.astype(np.uint8) * 255))


def test_alpha_is_dropped(tmp_path):
    assert np.array_equal(only(tmp_path / "a", encoded(with_mode("LA"))), repeated(GREY))
    assert np.array_equal(only(tmp_path / "b", encoded(with_mode("RGBA"))), RGB)
    assert np.array_equal(only(tmp_path / "c", encoded(with_mode("RGBA"), "WEBP", lossless=True, exact=True)), RGB)
    data = encoded(with_mode("RGBA"), "TIFF")
    assert np.array_equal(only(tmp_path / "d", data, "x.tif"), RGB)


@pytest.mark.parametrize("form", ["PNG", "TIFF", "PPM"])
def test_16_bit_grey_keeps_its_upper_byte(tmp_path, form):
    data = encoded(Image.fromarray(WIDE.astype(np.uint16)), form)
    with Image.open(io.BytesIO(data)) as image:
        assert image.mode in image_files.GREY_16
    assert np.array_equal(only(tmp_path, data), repeated((WIDE // 256).astype(np.uint8)))


def test_every_16_bit_mode_is_converted():
    for mode, kind in (("I;16", "<u2"), ("I;16L", "<u2"), ("I;16B", ">u2")):
        image = Image.frombytes(mode, (6, 6), WIDE.astype(kind).tobytes())
        assert np.array_equal(np.asarray(image_files.rgb(image)), repeated((WIDE // 256).astype(np.uint8))), mode


def test_32_bit_grey_is_clipped(tmp_path):
    values = np.array([[-70000, -1, 0], [255, 256, 65535], [65536, 10**6, 2**31 - 1]], dtype=np.int32)
    data = encoded(Image.fromarray(values), "TIFF")
    with Image.open(io.BytesIO(data)) as image:
        assert image.mode == "I"
    assert only(tmp_path, data)[:, :, 0].tolist() == [[0, 0, 0], [0, 1, 255], [255, 255, 255]]


def test_palettes(tmp_path):
    image = with_mode("P")
    plain = np.asarray(image.convert("RGB"))
    assert len(np.unique(plain.reshape(-1, 3), axis=0)) > 4
    for form in ("PNG", "GIF", "BMP"):
        data = encoded(image, form)
        with Image.open(io.BytesIO(data)) as stored:
            assert stored.mode == "P"
        assert np.array_equal(only(tmp_path / form, data), plain)
    for place, transparency in enumerate((3, bytes(range(0, 240, 20)))):
        data = encoded(image, "PNG", transparency=transparency)
        assert np.array_equal(only(tmp_path / str(place), data), plain)


def test_transparent_colours_of_grey_and_rgb_change_nothing(tmp_path):
    assert np.array_equal(only(tmp_path / "a", encoded(GREY, transparency=int(GREY[0, 0]))), repeated(GREY))
    assert np.array_equal(only(tmp_path / "b", encoded(RGB, transparency=tuple(RGB[0, 0].tolist()))), RGB)


def test_print_and_video_colours(tmp_path):
    for mode in ("CMYK", "YCbCr"):
        image = Image.fromarray(RGB).convert(mode)
        for form in ("TIFF", "JPEG"):
            data = encoded(image, form)
            with Image.open(io.BytesIO(data)) as stored:
                plain = np.asarray(stored.convert("RGB"))
            assert np.array_equal(only(tmp_path / mode / form, data), plain), (mode, form)
    assert np.array_equal(only(tmp_path / "exact", encoded(Image.fromarray(RGB).convert("CMYK"), "TIFF")), RGB)


@pytest.mark.parametrize("mode", image_files.MODES)
def test_every_accepted_mode_becomes_rgb(mode):
    image = image_files.rgb(Image.new(mode, (3, 2)))
    assert image.mode == "RGB" and image.size == (3, 2)


def test_of_an_animation_the_first_frame(tmp_path):
    frames = [Image.fromarray(colours(6, 6, seed)).quantize(16) for seed in range(3)]
    for form, options in (("GIF", {}), ("PNG", {}), ("WEBP", {"lossless": True}), ("TIFF", {})):
        data = encoded(frames[0], form, save_all=True, append_images=frames[1:], **options)
        with Image.open(io.BytesIO(data)) as image:
            assert image.n_frames == 3
        assert np.array_equal(only(tmp_path / form, data), np.asarray(frames[0].convert("RGB"))), form


# What EXIF says of each orientation: how the corners 1 2 / 3 4 of the stored picture are seen, line by line.
UPRIGHT = {1: "1234", 2: "2143", 3: "4321", 4: "3412", 5: "1324", 6: "3142", 7: "4231", 8: "2413"}


@pytest.mark.parametrize(
    "form, orientation", [*(("JPEG", turn) for turn in UPRIGHT), ("PNG", 6), ("WEBP", 6), ("TIFF", 6)]
)
def test_exif_orientation(tmp_path, form, orientation):
    stored = np.zeros((32, 48, 3), np.uint8)
    for place, (rows, columns) in enumerate([(0, 0), (0, 1), (1, 0), (1, 1)]):
        stored[16 * rows :, 24 * columns :] = 60 * (place + 1)
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encoded(stored, form, exif=exif)
    picture = opened(store(tmp_path, {"train/cat/x.png": data})).image("train", 0, 48)
    corners = [picture[y, x, 0] for y in (4, -4) for x in (4, -4)]
    assert [round(int(value) / 60) for value in corners] == [int(corner) for corner in UPRIGHT[orientation]]
    with Image.open(io.BytesIO(data)) as image:
        plain = ImageOps.exif_transpose(image).convert("RGB").resize((48, 48), Image.Resampling.BILINEAR)
    assert np.array_equal(picture, np.asarray(plain))


@pytest.mark.parametrize(
    "exif", [b"Exif\0\0junk", b"Exif\0\0II*\0\xff\xff\xff\xff", b"Exif\0\0MM\0*\0\0\0\x08\0\x05\x01", b""]
)
def test_a_broken_exif_block_says_nothing(tmp_path, exif, capfd):
    data = LARGE[:2] + b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif + LARGE[2:]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        picture = opened(store(tmp_path, {"train/cat/x.jpg": data})).image("train", 0, 20)
    with Image.open(io.BytesIO(LARGE)) as image:
        assert np.array_equal(picture, np.asarray(image.resize((20, 20), Image.Resampling.BILINEAR)))
    assert not caught and capfd.readouterr().err == ""


def test_an_exif_block_on_which_pillow_fails_says_nothing(monkeypatch):
    image = Image.fromarray(colours(2, 3))
    for error in (SyntaxError("not a TIFF file"), struct.error("unpack requires 4 bytes"), ValueError()):
        monkeypatch.setattr(Image.Image, "getexif", lambda self, error=error: (_ for _ in ()).throw(error))
        assert image_files.upright(image) is image


def test_a_colour_profile_is_ignored(tmp_path):
    from PIL import ImageCms

    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    assert np.array_equal(only(tmp_path, encoded(RGB, icc_profile=profile)), RGB)


def test_a_file_that_changes_after_the_first_pass(tmp_path):
    root = store(tmp_path / "pictures", {})
    source, path = opened(root), (root / "train/cat/a.png").resolve()
    path.write_bytes(encoded(colours(5, 7, 8)))
    with pytest.raises(UserError, match=rf"{path}: the file has changed since it was checked; .*run again"):
        source.image("train", 0, 8)
    path.unlink()
    with pytest.raises(UserError, match=rf"{path}: cannot be read any more \(No such file"):
        source.image("train", 0, 8)
    assert source.image("test", 0, 8).any()


def test_a_picture_that_this_pillow_cannot_decode(tmp_path, monkeypatch):
    source = opened(store(tmp_path / "pictures", {}))
    monkeypatch.setattr(image_files, "FORMATS", ("BMP",))
    with pytest.raises(UserError, match=r"a.png is not an image in a known format .*run again"):
        source.image("train", 0, 8)


@pytest.mark.real_data
@pytest.mark.slow
def test_thirty_classes_of_tiny_imagenet(tmp_path):
    packed = Path(os.environ["SUPPRESSION_BENCH_DATA"]) / "tiny-imagenet-30.zip"
    if not packed.is_file():
        pytest.skip(f"{packed} is absent")
    with zipfile.ZipFile(packed) as archive:
        archive.extractall(tmp_path)
    [train] = tmp_path.glob("**/train")
    source = opened(train.parent)
    assert len(source.classes) == 30 and source.classes[0].startswith("n")
    assert np.bincount(source.labels["train"]).tolist() == [400] * 30
    assert np.bincount(source.labels["test"]).tolist() == [50] * 30
    first = min((train / source.classes[7]).iterdir())
    with Image.open(first) as image:
        plain = image.convert("RGB")
        assert np.array_equal(source.image("train", 2800, 64), np.asarray(plain))
        assert np.array_equal(source.image("train", 2800, 224), np.asarray(plain.resize((224, 224), resample=2)))
