"""Canvas: the integer resize against fractions, patches on canvases without overflow."""

import numpy as np
import pytest
from toy_data import naive_resize

from generators import canvas

RANDOM = np.random.Generator(np.random.PCG64(7))


def noise(*shape):
    return RANDOM.integers(0, 256, shape, dtype=np.uint8)


@pytest.mark.parametrize(
    "size_in, size_out",
    [
        ((8, 8), (28, 28)),
        ((28, 28), (20, 20)),
        ((28, 28), (37, 37)),
        ((28, 28), (4, 4)),
        ((1, 1), (3, 5)),
        ((2, 3), (5, 2)),
        ((5, 7), (1, 1)),
        ((7, 2), (3, 11)),
        ((9, 9), (8, 10)),
        ((4, 6), (2, 3)),
        ((28, 19), (28, 19)),
    ],
)
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


@pytest.mark.parametrize("size_in, size_out", [(1024, 1), (1024, 3), (1024, 1024), (1, 1024), (28, 1024)])
def test_resize_sums_stay_exact_in_doubles(size_in, size_out):
    row = canvas._triangle(size_in, size_out).sum(1).max()
    assert 255 * int(row) ** 2 <= 2**53


@pytest.mark.parametrize("lay, mix", [(canvas.lay_over, max), (canvas.add, lambda a, b: min(255, a + b))])
@pytest.mark.parametrize("shape", [(9, 11), (9, 11, 1), (9, 11, 3)], ids=str)
def test_patches_on_canvases_of_any_channels(lay, mix, shape):
    ground, patch = (RANDOM.integers(0, 256, size, dtype=np.uint8) for size in (shape, (4, 5)))
    expected = ground.reshape(9, 11, -1).tolist()
    for y in range(4):
        for x in range(5):
            expected[5 + y][6 + x] = [mix(old, int(patch[y, x])) for old in expected[5 + y][6 + x]]
    lay(ground, patch, 5, 6)
    assert ground.reshape(9, 11, -1).tolist() == expected


@pytest.mark.parametrize("top, left", [(-8, 2), (2, -9), (-4, 0), (6, 0), (0, 7), (-30, -30)])
def test_patches_never_wrap_around_the_border(top, left):
    for lay in (canvas.lay_over, canvas.add):
        ground = np.zeros((9, 11, 3), dtype=np.uint8)
        with pytest.raises(ValueError, match="leaves the canvas"):
            lay(ground, np.full((4, 5), 9, dtype=np.uint8), top, left)
        assert not ground.any()


def test_large_resizes_equal_integer_arithmetic():
    for size_in, size_out in (((1024, 1024), (1023, 1023)), ((1024, 777), (1021, 3)), ((640, 480), (224, 224))):
        picture = RANDOM.integers(0, 256, size_in, dtype=np.uint8)
        rows, columns = (canvas._triangle(*pair).astype(np.int64) for pair in zip(size_in, size_out, strict=True))
        total = rows.astype(float) @ picture.astype(float) @ columns.T.astype(float)
        assert total.max() < 2**53  # so the doubles are exact
        weight = np.outer(rows.sum(1), columns.sum(1))
        expected = (2 * total.astype(np.int64) + weight) // (2 * weight)
        assert np.array_equal(canvas.resize(picture, *size_out), expected)
