"""Pixels: the integer resize against fractions, addition without overflow, PNG there and back."""

import io
import zlib

import numpy as np
import pytest
from PIL import Image
from toy_data import naive_resize

from generators import canvas, png
from generators.dataset import UserError

RANDOM = np.random.Generator(np.random.PCG64(7))


def noise(*shape):
    return RANDOM.integers(0, 256, shape, dtype=np.uint8)


@pytest.mark.parametrize(
    "size_in, size_out",
    [
        ((8, 8), (28, 28)), ((28, 28), (20, 20)), ((28, 28), (37, 37)), ((28, 28), (4, 4)), ((1, 1), (3, 5)),
        ((2, 3), (5, 2)), ((5, 7), (1, 1)), ((7, 2), (3, 11)), ((9, 9), (8, 10)), ((4, 6), (2, 3)),
    ],
)  # fmt: skip
def test_resize_equals_fractions(size_in, size_out):
    for picture in (noise(*size_in), np.where(noise(*size_in) > 127, 255, 0).astype(np.uint8)):
        found = canvas.resize(picture, *size_out)
        assert found.dtype == np.uint8 and found.shape == size_out
        assert np.array_equal(found, naive_resize(picture, *size_out))


def test_resize_by_hand():
    # 2 -> 4 pixels: the sources stand at 0.5 and 1.5, the second target at 0.75 -> weights 3/4 and 1/4.
    assert canvas.resize(np.array([[0, 100]], dtype=np.uint8), 1, 4).tolist() == [[0, 25, 75, 100]]
    # 2 -> 1: both weigh the same, and (0 + 1) / 2 rounds up.
    assert canvas.resize(np.array([[0, 1]], dtype=np.uint8), 1, 1).tolist() == [[1]]


def test_resize_to_the_same_size_is_the_identity():
    picture = noise(28, 19)
    assert np.array_equal(canvas.resize(picture, 28, 19), picture)


@pytest.mark.parametrize("size", [1, 5, 28, 200])
def test_resize_keeps_a_flat_picture(size):
    for value in (0, 1, 127, 255):
        assert (canvas.resize(np.full((28, 28), value, dtype=np.uint8), size, size) == value).all()


@pytest.mark.parametrize("size_in, size_out", [(1024, 1), (1024, 3), (1024, 1024), (1, 1024), (28, 1024)])
def test_resize_sums_stay_exact_in_doubles(size_in, size_out):
    row = canvas._triangle(size_in, size_out).sum(1).max()
    assert 255 * int(row) ** 2 <= 2**53


def test_add_saturates_and_touches_only_its_region():
    ground, patch = noise(12, 15), noise(5, 6)
    expected = ground.astype(int)
    expected[3:8, 9:15] = np.minimum(255, expected[3:8, 9:15] + patch)
    canvas.add(ground, patch, 3, 9)
    assert np.array_equal(ground, expected)


@pytest.mark.parametrize("top, left", [(8, 0), (0, 10), (12, 15), (-1, 0), (0, -3), (-5, -6)])
def test_add_refuses_to_leave_the_canvas(top, left):
    ground = noise(12, 15)
    before = ground.copy()
    with pytest.raises(ValueError, match="leaves the canvas"):
        canvas.add(ground, noise(5, 6), top, left)
    assert np.array_equal(ground, before)


@pytest.mark.parametrize("shape", [(1, 1, 1), (28, 28, 1), (5, 9, 1), (7, 4, 3), (64, 64, 3)])
def test_png_there_and_back(shape):
    picture = noise(*shape)
    data = png.encode(picture)
    assert np.array_equal(png.decode(data, shape, "x"), picture)
    with Image.open(io.BytesIO(data)) as image:
        assert image.mode == ("L" if shape[2] == 1 else "RGB") and image.size == (shape[1], shape[0])
        assert np.array_equal(np.asarray(image).reshape(shape), picture)


def test_png_of_pillow_is_read():
    picture, target = noise(6, 5, 3), io.BytesIO()
    Image.fromarray(picture).save(target, "PNG")
    assert np.array_equal(png.decode(target.getvalue(), (6, 5, 3), "x"), picture)


@pytest.mark.parametrize("shape", [(28, 27, 1), (27, 28, 1), (28, 28, 3), (784, 1, 1)])
def test_png_of_another_shape_is_refused(shape):
    with pytest.raises(UserError, match="x: not an 8-bit PNG of"):
        png.decode(png.encode(noise(28, 28, 1)), shape, "x")


def _pillow(mode, form="PNG", **options):
    target = io.BytesIO()
    Image.new(mode, (28, 28)).save(target, form, **options)
    return target.getvalue()


def bombs():
    real, huge = png.encode(noise(28, 28, 1)), png._header(50_000, 50_000, 1)
    large = png._chunk(b"IHDR", png._header(56, 28, 1))
    pixels = png._chunk(b"IDAT", zlib.compress(bytes(56 * 29), 9)) + png._chunk(b"IEND", b"")
    yield "huge header", real[:8] + png._chunk(b"IHDR", huge) + real[33:]
    yield "second huge header", real[:33] + png._chunk(b"IHDR", huge) + real[33:]
    yield "second larger header", real[:33] + large + pixels
    yield "header behind a look-alike", real[:8] + png._chunk(b"tEXt", real[16:29]) + large + pixels
    yield "16 bit", _pillow("I;16")
    yield "palette", _pillow("P")
    yield "alpha", _pillow("RGBA")
    yield "one bit", _pillow("1")
    yield "interlace flag", real[:28] + b"\1" + real[29:]
    yield "jpeg", _pillow("L", "JPEG")
    yield "nothing", b""
    yield "signature alone", png.SIGNATURE
    yield "header alone", real[:33]
    yield "no lines", real[:33] + png._chunk(b"IDAT", zlib.compress(b"")) + png._chunk(b"IEND", b"")


@pytest.mark.parametrize("data", [pytest.param(data, id=name) for name, data in bombs()])
def test_png_bombs_and_foreign_pictures_are_refused(data):
    with pytest.raises(UserError, match="x: "):
        png.decode(data, (28, 28, 1), "x")


def test_damaged_png_never_yields_other_pixels():
    picture = noise(9, 7, 1)
    data = png.encode(picture)
    refused = 0
    damaged = [data[:place] for place in range(len(data))]
    damaged += [data[:p] + bytes([data[p] ^ 1 << bit]) + data[p + 1 :] for p in range(len(data)) for bit in range(8)]
    for one in damaged:
        try:
            assert np.array_equal(png.decode(one, picture.shape, "x"), picture)
        except UserError:
            refused += 1
    assert refused > 0.7 * len(damaged)  # only checksums, the tail and a few flags may go unnoticed
