"""The fast PNG reader: the pictures of Pillow, and never other ones, whatever happens to the bytes."""

import io
import struct
import tracemalloc
import zlib

import numpy as np
import pytest
from PIL import Image

from generators import canvas, png
from generators.dataset import UserError

RANDOM = np.random.Generator(np.random.PCG64(11))
SHAPES = [(1, 1, 1), (1, 7, 3), (9, 1, 1), (28, 28, 1), (33, 17, 3), (112, 112, 1), (64, 64, 3), (1023, 3, 1)]


def pictures(shape):
    yield RANDOM.integers(0, 256, shape, dtype=np.uint8)
    yield np.zeros(shape, dtype=np.uint8)
    yield np.where(RANDOM.integers(0, 9, shape) > 7, 255, 0).astype(np.uint8)
    yield (np.arange(np.prod(shape)) % 256).astype(np.uint8).reshape(shape)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_own_files_are_read_by_the_fast_reader_as_pillow_reads_them(shape):
    for picture in pictures(shape):
        data = png.encode(picture)
        fast, pillow = png._sum_up(png._inflate_own(data, shape), shape)[0], png._decode_any(data, shape, "x")
        assert fast is not None and fast.dtype == np.uint8 and fast.flags.writeable
        assert np.array_equal(fast, pillow) and np.array_equal(fast, picture)
        fast[:] = 0  # a picture of its own
        assert np.array_equal(png.decode(data, shape, "x"), picture)


def chunks(data: bytes):
    """(kind, body, place) of each chunk."""
    place = 8
    while place < len(data):
        length = struct.unpack(">I", data[place : place + 4])[0]
        yield data[place + 4 : place + 8], data[place + 8 : place + 8 + length], place
        place += 12 + length


def test_the_writer_by_hand():
    data = png.encode(np.array([[[1], [2]], [[5], [1]]], dtype=np.uint8))
    (_, header, _), (kind, body, _), (end, nothing, _) = chunks(data)
    assert header == bytes([0, 0, 0, 2, 0, 0, 0, 2, 8, 0, 0, 0, 0]) and (kind, end, nothing) == (b"IDAT", b"IEND", b"")
    assert list(zlib.decompress(body)) == [2, 1, 2, 2, 4, 255]  # filter "up": 5 - 1 and 1 - 2


def own(lines: bytes, shape) -> bytes:
    """A file like the project's own, whatever its pixel data."""
    header = png._chunk(b"IHDR", png._header(*shape))
    return png.SIGNATURE + header + png._chunk(b"IDAT", zlib.compress(lines, 9)) + png.END


@pytest.mark.parametrize("kind", range(5))
def test_every_filter_is_read_like_pillow_reads_it(kind):
    shape = (6, 5, 3)
    lines = RANDOM.integers(0, 256, (6, 16), dtype=np.uint8)
    lines[:, 0] = kind
    data = own(lines.tobytes(), shape)
    with Image.open(io.BytesIO(data)) as image:
        expected = np.asarray(image)
    assert np.array_equal(png.decode(data, shape, "x"), expected)
    assert (png._inflate_own(data, shape) is None) == (kind != png.UP)


@pytest.mark.parametrize("options", [{}, {"optimize": True}, {"compress_level": 0}, {"compress_level": 9}], ids=str)
@pytest.mark.parametrize("shape", SHAPES[:7], ids=str)
def test_files_of_pillow_are_read(shape, options):
    for picture in pictures(shape):
        target = io.BytesIO()
        Image.fromarray(picture[:, :, 0] if shape[2] == 1 else picture).save(target, "PNG", **options)
        assert np.array_equal(png.decode(target.getvalue(), shape, "x"), picture)


@pytest.mark.parametrize("shape", [(9, 7, 1), (4, 5, 3)], ids=str)
def test_a_changed_byte_is_refused_or_changes_nothing(shape):
    picture = RANDOM.integers(0, 256, shape, dtype=np.uint8)
    data = png.encode(picture)
    refused = 0
    for place in range(len(data)):
        for value in {0, 255, data[place] ^ 1, data[place] ^ 128, (data[place] + 1) % 256, 73}:
            damaged = data[:place] + bytes([value]) + data[place + 1 :]
            try:
                assert np.array_equal(png.decode(damaged, shape, "x"), picture), (place, value)
            except UserError as error:
                refused += 1
                assert str(error).startswith("x: ")
    assert refused > 3 * len(data)


def test_damage_under_a_good_checksum_is_refused_or_changes_nothing():
    """Chunk checksums made anew, as an attacker would: what is left are zlib's own checks."""
    shape = (9, 7, 1)
    picture = RANDOM.integers(0, 256, shape, dtype=np.uint8)
    data = png.encode(picture)
    body = next(body for kind, body, _ in chunks(data) if kind == b"IDAT")
    head = data[:33]
    refused, read = 0, 0
    for place in range(len(body)):
        for bit in range(8):
            changed = body[:place] + bytes([body[place] ^ 1 << bit]) + body[place + 1 :]
            try:
                found = png.decode(head + png._chunk(b"IDAT", changed) + png.END, shape, "x")
                read += 1
                assert np.array_equal(found, picture)
            except UserError:
                refused += 1
    assert refused + read == 8 * len(body) and refused > 7 * len(body)


EXTRA = [b"gAMA", b"cHRM", b"sRGB", b"iCCP", b"tRNS", b"pHYs", b"tEXt", b"zTXt", b"iTXt", b"eXIf", b"acTL", b"fcTL",
         b"PLTE", b"IDAT", b"IEND", b"tIME", b"IHDR", b"abCd", b"ABCD"]  # fmt: skip


@pytest.mark.filterwarnings("ignore:Invalid APNG")
@pytest.mark.parametrize("kind", EXTRA, ids=lambda kind: kind.decode())
def test_further_chunks_are_refused_or_change_nothing(kind):
    picture = RANDOM.integers(0, 256, (6, 5, 3), dtype=np.uint8)
    data = png.encode(picture)
    for length in (*range(14), 32, 300):
        for body in (bytes(length), b"\xff" * length, b"a\0\0" + bytes(length), RANDOM.bytes(length)):
            for place in (33, len(data) - 12, len(data)):
                try:
                    found = png.decode(data[:place] + png._chunk(kind, body) + data[place:], (6, 5, 3), "x")
                    assert np.array_equal(found, picture)
                except UserError as error:
                    assert str(error).startswith("x: damaged PNG")


def test_split_and_trailing_pixel_data_read_identically():
    picture = RANDOM.integers(0, 256, (6, 5, 3), dtype=np.uint8)
    data = png.encode(picture)
    body = next(body for kind, body, _ in chunks(data) if kind == b"IDAT")
    halves = png._chunk(b"IDAT", body[:9]) + png._chunk(b"IDAT", body[9:])
    for other in (
        data[:33] + halves + png.END,
        data + b"tail",
        data[:-12],
        data[:33] + png._chunk(b"tEXt", b"a\0b") + data[33:],
    ):
        assert png._inflate_own(other, (6, 5, 3)) is None
        assert np.array_equal(png.decode(other, (6, 5, 3), "x"), picture)


def test_bombs_take_no_memory():
    shape = (28, 28, 1)
    lines = bytes([png.UP, *range(28)]) * 28
    for bomb in (own(lines + bytes(200_000_000), shape), own(lines + bytes([2]) * 29, shape)):
        tracemalloc.start()
        try:
            found = png.decode(bomb, shape, "x")
            assert found[3].ravel().tolist() == [4 * value for value in range(28)]
        except UserError:
            pass
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 3 * len(bomb) + 1_000_000 and png._inflate_own(bomb, shape) is None
    for short in (own(lines[:-1], shape), own(lines[:-29], shape)):
        assert png._inflate_own(short, shape) is None
        with pytest.raises(UserError, match="x: damaged PNG"):
            png.decode(short, shape, "x")


@pytest.mark.parametrize("level", range(10))
@pytest.mark.parametrize("strategy", range(5))
def test_pixel_data_of_any_compressor_are_read_fast(level, strategy):
    """Another zlib writes other bytes: they are read by the same fast way, and are the same picture."""
    picture = next(pictures((40, 30, 3)))
    lines = zlib.decompress(next(body for kind, body, _ in chunks(png.encode(picture)) if kind == b"IDAT"))
    pack = zlib.compressobj(level, strategy=strategy)
    body = pack.compress(lines) + pack.flush()
    data = png.encode(picture)[:33] + png._chunk(b"IDAT", body) + png.END
    assert np.array_equal(png._sum_up(png._inflate_own(data, picture.shape), picture.shape)[0], picture)
    longer = data[:33] + png._chunk(b"IDAT", body + b"junk") + png.END
    assert png._inflate_own(longer, picture.shape) is None
    assert np.array_equal(png.decode(longer, picture.shape, "x"), picture)


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
