"""Shards: the bytes of USTAR, a second reading with tarfile and Pillow, and everything foreign refused."""

import contextlib
import hashlib
import io
import json
import struct
import tarfile
import tracemalloc
import zlib
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from toy_data import write_toy

from generators import shards
from generators.catalog import dataset
from generators.dataset import UserError

SHAPE = (5, 4, 3)
COUNT = 3


@pytest.fixture
def made(tmp_path):
    return dataset(write_toy(tmp_path / "user"), {})


@pytest.fixture
def samples(made):
    return [made.sample("pretrain", index, 0) for index in range(COUNT)]


def members(samples):
    for sample in samples:
        yield f"{sample.index:08d}.png", shards.encode_png(sample.image)
        yield f"{sample.index:08d}.json", shards.record_text(sample)


def tar_of(pairs, path, edit=None, form=tarfile.USTAR_FORMAT):
    """The tar that the standard library writes; `edit(place, info)` may change a member."""
    with tarfile.open(path, "w:", format=form) as tar:
        for place, (name, body) in enumerate(pairs):
            info = tarfile.TarInfo(name)
            info.size, info.mode, info.mtime = len(body), 0o444, 0
            info = edit(place, info) or info if edit else info
            tar.addfile(info, io.BytesIO(body))
    return path


def read(path, shape=SHAPE, count=COUNT):
    return list(shards.read_shard(path, shape, count))


def test_bytes_equal_the_standard_librarys(tmp_path, made, samples):
    for few in (samples, samples[:1], [replace(one, index=one.index + 99_999_990) for one in samples], []):
        result = shards.write_shard(tmp_path / "a.tar", few, made.features)
        own = (tmp_path / "a.tar").read_bytes()
        assert own == tar_of(members(few), tmp_path / "b.tar").read_bytes()
        assert (result.size, result.sha256) == (len(own), hashlib.sha256(own).hexdigest())
        assert (result.name, result.count) == ("a.tar", len(few))
        assert len(read(tmp_path / "a.tar", count=len(few))) == len(few)
        assert not list(tmp_path.glob("*.tmp"))


def test_content_digest_recomputed_with_tarfile_and_pillow(tmp_path, made, samples):
    result = shards.write_shard(tmp_path / "a.tar", samples, made.features)
    digests, parity, letters = [], [0, 0], [0] * 5
    with tarfile.open(tmp_path / "a.tar", "r:") as tar:
        entries = tar.getmembers()
        assert [entry.name for entry in entries] == [name for name, _ in members(samples)]
        assert all(
            entry.isreg() and entry.mode == 0o444 and entry.mtime == entry.uid == entry.gid == 0 for entry in entries
        )
        for picture, text in zip(entries[0::2], entries[1::2], strict=True):
            with Image.open(tar.extractfile(picture)) as image:
                pixels, (width, height) = image.tobytes(), image.size
            record = tar.extractfile(text).read()
            fields = json.loads(record)
            head = f"[{fields['id']},[{height},{width},3]]\0".encode()
            digests.append(hashlib.sha256(head + pixels + record).digest())
            assert record.decode() == json.dumps(fields, sort_keys=True, separators=(",", ":"))
            parity[fields["labels"]["parity"]] += 1
            for letter in fields["labels"]["letters"]:
                letters[letter] += 1
    assert result.digests == b"".join(digests)
    assert result.entry.content_digest == hashlib.sha256(b"".join(digests)).hexdigest()
    assert result.class_counts == {"parity": parity, "letters": letters}
    for sample, (picture, record, digest) in zip(samples, read(tmp_path / "a.tar"), strict=True):
        assert np.array_equal(picture, sample.image) and digest == digests[sample.index]
        assert record == {"id": sample.index, "labels": sample.labels, "factors": sample.factors}


def test_content_digest_hears_every_part(samples):
    one, text = samples[0], shards.record_text(samples[0])
    variants = {shards.content_digest(0, one.image, text), shards.content_digest(1, one.image, text)}
    variants.add(shards.content_digest(0, one.image.reshape(4, 5, 3), text))
    variants.add(shards.content_digest(0, one.image ^ np.uint8(1), text))
    variants.add(shards.content_digest(0, one.image, text.replace(b"row", b"rom")))
    assert len(variants) == 5


def _set(**fields):
    def edit(place, info):
        if place == 2:
            for key, value in fields.items():
                setattr(info, key, value)

    return edit


EDITS = {
    "symlink": dict(edit=_set(type=tarfile.SYMTYPE, linkname="/etc/passwd", size=0)),
    "hard link": dict(edit=_set(type=tarfile.LNKTYPE, linkname="00000000.png", size=0)),
    "folder": dict(edit=_set(type=tarfile.DIRTYPE, size=0)),
    "device": dict(edit=_set(type=tarfile.CHRTYPE, size=0)),
    "sparse": dict(edit=_set(type=tarfile.GNUTYPE_SPARSE)),
    "old regular type": dict(edit=_set(type=tarfile.AREGTYPE)),
    "pax header": dict(edit=_set(pax_headers={"GNU.sparse.size": "300000000"}), form=tarfile.PAX_FORMAT),
    "long name": dict(edit=_set(name="x" * 150), form=tarfile.GNU_FORMAT),
    "gnu header": dict(form=tarfile.GNU_FORMAT),
    "prefix": dict(edit=_set(name="d" * 90 + "/" + "00000001.png" * 3)),
    "traversal": dict(edit=_set(name="../../01.png")),
    "absolute": dict(edit=_set(name="/00000001.png")),
    "nine digits": dict(edit=_set(name="000000001.png")),
    "other ending": dict(edit=_set(name="00000001.pkl")),
    "other letters": dict(edit=_set(name="0000000a.png")),
    "writable": dict(edit=_set(mode=0o644)),
    "time": dict(edit=_set(mtime=1)),
    "owner": dict(edit=_set(uid=1)),
    "user name": dict(edit=_set(uname="root")),
}


@pytest.mark.parametrize("case", EDITS)
def test_foreign_members_are_refused(tmp_path, samples, case):
    with pytest.raises(UserError, match=r"bad\.tar: "):
        read(tar_of(members(samples), tmp_path / "bad.tar", **EDITS[case]))


def _order(pairs):
    return [pairs[1], pairs[0], *pairs[2:]]


def _body(place, change):
    return lambda pairs: [(name, change(body) if at == place else body) for at, (name, body) in enumerate(pairs)]


LISTS = {
    "wrong order": _order,
    "picture of another sample": lambda pairs: [pairs[2], pairs[1], *pairs[2:]],
    "record under another name": lambda pairs: [pairs[0], (pairs[3][0], pairs[1][1]), *pairs[2:]],
    "record of another sample": _body(1, lambda text: text.replace(b'"id":0', b'"id":1')),
    "one missing": lambda pairs: pairs[:-2],
    "record missing": lambda pairs: pairs[:-1],
    "one extra": lambda pairs: [*pairs, ("00000003.png", pairs[0][1]), ("00000003.json", pairs[1][1])],
    "one more file": lambda pairs: [*pairs, ("00000003.pkl", b"cos\nsystem\n")],
    "unknown key": _body(1, lambda text: text[:-1] + b',"extra":1}'),
    "missing key": _body(1, lambda text: text.replace(b'"factors"', b'"fectors"')),
    "repeated key": _body(1, lambda text: text[:-1] + b',"id":0}'),
    "NaN": _body(1, lambda text: text.replace(b'"parity":', b'"parity":NaN,"x":')),
    "float": _body(1, lambda text: text.replace(b'"parity":', b'"parity":1.5,"x":')),
    "no object": _body(1, lambda text: b"[0]"),
    "no JSON": _body(1, lambda text: b"\x80\x04."),
    "no PNG": _body(2, lambda data: b"GIF89a" + data[6:]),
    "other shape": _body(2, lambda data: shards.encode_png(np.zeros((4, 5, 3), dtype=np.uint8))),
    "cut PNG": _body(2, lambda data: data[:60]),
}


@pytest.mark.parametrize("case", LISTS)
def test_foreign_contents_are_refused(tmp_path, samples, case):
    with pytest.raises(UserError, match=r"bad\.tar: "):
        read(tar_of(LISTS[case](list(members(samples))), tmp_path / "bad.tar"))


def test_trailing_garbage_base_256_sizes_and_compression_are_refused(tmp_path, made, samples):
    import gzip

    shards.write_shard(tmp_path / "good.tar", samples, made.features)
    good, bad = (tmp_path / "good.tar").read_bytes(), tmp_path / "bad.tar"
    size = good[:124] + b"\x80" + bytes(10) + b"\x05" + good[136:]
    for data in (good + b"x", good[:-1] + b"x", good + good, size, gzip.compress(good), good[: 12 * 512], b""):
        bad.write_bytes(data)
        with pytest.raises(UserError, match=r"bad\.tar: "):
            read(bad)


@pytest.mark.parametrize(
    "edit",
    [
        ('"parity": sum(letters) % 2', '"parity": -1'),
        ('"parity": sum(letters) % 2', '"parity": 2'),
        ('"parity": sum(letters) % 2', '"parity": 0.0'),
        ('"letters": letters', '"letters": [5, 0]'),
        ('{"row": int(stream.below(2, 5, 1)[0])}', '{"row": 0, "angle": 0.5}'),
        ("return picture", "return picture[:4]"),
        ("return picture", "return picture[:, :, :1]"),
        ("return picture", "return picture / 2"),
    ],
)
def test_samples_that_break_the_contract_are_never_written(tmp_path, edit):
    """What the reader would refuse, or count wrongly, must not reach a shard."""
    broken = dataset(write_toy(tmp_path / "user", edit), {})
    with pytest.raises(UserError, match="sample 0"):
        shards.write_shard(
            tmp_path / "a.tar", (broken.sample("pretrain", index, 0) for index in range(3)), broken.features
        )
    assert not list(tmp_path.glob("a.tar*"))


# PNG

RANDOM = np.random.Generator(np.random.PCG64(11))
SHAPES = [(1, 1, 1), (1, 7, 3), (9, 1, 1), (28, 28, 1), (33, 17, 3), (112, 112, 1), (64, 64, 3), (1023, 3, 1)]


def images(shape):
    yield RANDOM.integers(0, 256, shape, dtype=np.uint8)
    yield np.zeros(shape, dtype=np.uint8)
    yield np.where(RANDOM.integers(0, 9, shape) > 7, 255, 0).astype(np.uint8)
    yield (np.arange(np.prod(shape)) % 256).astype(np.uint8).reshape(shape)


def chunks(data: bytes):
    """(kind, body) of each chunk."""
    start = 8
    while start < len(data):
        length = struct.unpack(">I", data[start : start + 4])[0]
        yield data[start + 4 : start + 8], data[start + 8 : start + 8 + length]
        start += 12 + length


def pillow(image, form="PNG", **options) -> bytes:
    target = io.BytesIO()
    image.save(target, form, **options)
    return target.getvalue()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_png_there_and_back(shape):
    for image in images(shape):
        data = shards.encode_png(image)
        decoded = shards.decode_png(data, shape, "x")
        assert np.array_equal(decoded, image) and decoded.dtype == np.uint8 and decoded.flags.writeable
        grey_or_rgb = Image.fromarray(image[:, :, 0] if shape[2] == 1 else image)
        assert np.array_equal(shards.decode_png(pillow(grey_or_rgb, optimize=True), shape, "x"), image)


def test_the_png_writer_by_hand():
    data = shards.encode_png(np.array([[[1], [2]], [[5], [1]]], dtype=np.uint8))
    (_, header), (kind, body), (end, nothing) = chunks(data)
    assert header == bytes([0, 0, 0, 2, 0, 0, 0, 2, 8, 0, 0, 0, 0]) and (kind, end, nothing) == (b"IDAT", b"IEND", b"")
    assert list(zlib.decompress(body)) == [2, 1, 2, 2, 4, 255]  # filter "up": 5 - 1 and 1 - 2


@pytest.mark.parametrize("shape", [(28, 27, 1), (27, 28, 1), (28, 28, 3), (784, 1, 1)])
def test_png_of_another_shape_is_refused(shape):
    with pytest.raises(UserError, match="x: not an 8-bit PNG of"):
        shards.decode_png(shards.encode_png(np.zeros((28, 28, 1), dtype=np.uint8)), shape, "x")


def bombs():
    real, huge = shards.encode_png(np.zeros((28, 28, 1), dtype=np.uint8)), shards.png_head(50_000, 50_000, 1)[8:]
    pixels = shards._chunk(b"IDAT", zlib.compress(bytes(56 * 29), 9)) + shards.IMAGE_END
    yield "huge header", real[:8] + huge + real[33:]
    yield "second huge header", real[:33] + huge + real[33:]
    yield "second larger header", real[:33] + shards.png_head(56, 28, 1)[8:] + pixels
    yield "header behind a look-alike", real[:8] + shards._chunk(b"tEXt", real[16:29]) + real[8:33] + pixels
    for mode in ("I;16", "P", "RGBA", "1"):
        yield mode, pillow(Image.new(mode, (28, 28)))
    yield "interlace flag", real[:28] + b"\1" + real[29:]
    yield "jpeg", pillow(Image.new("L", (28, 28)), "JPEG")
    yield "nothing", b""
    yield "signature alone", shards.SIGNATURE
    yield "header alone", real[:33]
    yield "no lines", real[:33] + shards._chunk(b"IDAT", zlib.compress(b"")) + shards.IMAGE_END


@pytest.mark.parametrize("data", [pytest.param(data, id=name) for name, data in bombs()])
def test_png_bombs_and_foreign_images_are_refused(data):
    with pytest.raises(UserError, match="x: "):
        shards.decode_png(data, (28, 28, 1), "x")


def test_a_bomb_takes_no_memory():
    lines = bytes([shards.UP, *range(28)]) * 28 + bytes(200_000_000)
    bomb = shards.png_head(28, 28, 1) + shards._chunk(b"IDAT", zlib.compress(lines, 9)) + shards.IMAGE_END
    tracemalloc.start()
    with contextlib.suppress(UserError):
        assert shards.decode_png(bomb, (28, 28, 1), "x")[3].ravel().tolist() == [4 * value for value in range(28)]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * len(bomb) + 1_000_000


def test_a_damaged_png_is_refused_or_the_same_image():
    image = RANDOM.integers(0, 256, (9, 7, 1), dtype=np.uint8)
    data = shards.encode_png(image)
    cuts = [data[:length] for length in range(len(data))]
    flips = [data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :] for at in range(len(data)) for bit in range(8)]
    refused = 0
    for damaged in cuts + flips:
        try:
            assert np.array_equal(shards.decode_png(damaged, image.shape, "x"), image)
        except UserError as error:
            refused += 1
            assert str(error).startswith("x: ")
    assert refused > 0.7 * len(cuts + flips)  # only the tail and a few flags may go unnoticed
