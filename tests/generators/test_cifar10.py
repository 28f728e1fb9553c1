"""CIFAR-10 from its original batches: read behind their digests, and nothing but the original files is accepted."""

import hashlib
import io
import os
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest
from toy_data import naive_resize

from generators.dataset import UserError
from generators.image_sources import cifar10
from generators.sources import images

COUNTS = {**{f"data_batch_{number}": 3 + number for number in range(1, 6)}, "test_batch": 5}
META = {"num_cases_per_batch": 10000, "label_names": cifar10.CLASSES, "num_vis": 3072}
PUBLISHED = dict(cifar10.FILES)


class Python2Pickler(pickle._Pickler):
    """Protocol 2 as Python 2's cPickle wrote it: every text a (SHORT_)BINSTRING, memos numbered from 1."""

    def save_text(self, text):
        octets = text.encode("latin-1") if isinstance(text, str) else text
        head = b"U" + bytes([len(octets)]) if len(octets) < 256 else b"T" + struct.pack("<i", len(octets))
        self.write(head + octets)
        self.memoize(text)

    def memoize(self, thing):
        number = len(self.memo) + 1
        self.write(self.put(number))
        self.memo[id(thing)] = number, thing

    dispatch = {**pickle._Pickler.dispatch, str: save_text, bytes: save_text}


def python2(content) -> bytes:
    file = io.BytesIO()
    Python2Pickler(file, protocol=2).dump(content)
    return file.getvalue().replace(b"numpy._core", b"numpy.core")  # where arrays were made in the days of Python 2


def batch(name: str, count: int, **edits) -> bytes:
    random = np.random.Generator(np.random.PCG64(count))
    content = {
        "batch_label": f"{name} of 5",
        "labels": [(3 * place + count) % 10 for place in range(count)],
        "data": random.integers(0, 256, (count, 3072), dtype=np.uint8),
        "filenames": [f"leptodactylus_s_{place:06d}.png" for place in range(count)],
    }
    return python2({**content, **edits})


@pytest.fixture
def originals(tmp_path, monkeypatch):
    """A writer of a folder with seven small files, whose sizes and digests stand in for the real ones."""
    cifar10._opened.cache_clear()

    def write(files: dict | None = None, folder: Path = tmp_path / "data" / cifar10.FOLDER) -> Path:
        contents = {name: batch(name, count) for name, count in COUNTS.items()}
        contents["batches.meta"] = python2(META)
        contents.update(files or {})
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            (folder / name).write_bytes(content)
        table = {name: (len(content), hashlib.md5(content).hexdigest()) for name, content in contents.items()}
        monkeypatch.setattr(cifar10, "FILES", table)
        return folder

    yield write
    cifar10._opened.cache_clear()


def expected(names: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Pictures and labels with loops, from what pickle itself makes of the files."""
    pictures, labels = [], []
    for name in names:
        content = pickle.loads(batch(name, COUNTS[name]), encoding="latin-1")
        for row, label in zip(content["data"], content["labels"], strict=True):
            picture = np.zeros((32, 32, 3), dtype=np.uint8)
            for channel in range(3):
                for y in range(32):
                    for x in range(32):
                        picture[y, x, channel] = row[1024 * channel + 32 * y + x]
            pictures.append(picture)
            labels.append(label)
    return np.array(pictures), np.array(labels)


@pytest.mark.parametrize("named", ["itself", "its parent"])
def test_batches_are_read_in_order(originals, named):
    folder = originals()
    source = images(f"cifar10:{folder if named == 'itself' else folder.parent}")
    assert (source.count("train"), source.count("test"), source.side) == (4 + 5 + 6 + 7 + 8, 5, 32)
    assert source.classes[0] == "airplane" and source.classes[9] == "truck" and len(source.classes) == 10
    assert source.name == "cifar10" and "Krizhevsky" in source.licence and "no licence stated" in source.licence
    everything = b""
    for part, names in (("train", [f"data_batch_{n}" for n in range(1, 6)]), ("test", ["test_batch"])):
        pictures, labels = expected(names)
        assert source.labels[part].dtype == np.int64 and np.array_equal(source.labels[part], labels)
        for index in range(len(pictures)):
            picture = source.image(part, index, 32)
            assert picture.dtype == np.uint8 and np.array_equal(picture, pictures[index])
        everything += pictures.tobytes() + bytes(labels.tolist())
    assert source.digest == hashlib.sha256(everything).hexdigest()


def test_the_toy_files_are_in_the_originals_layout():
    """The same writer makes the real batches.meta, byte for byte: its published digest comes out."""
    meta = python2(META)
    assert (len(meta), hashlib.md5(meta).hexdigest()) == PUBLISHED["batches.meta"]


def test_labels_longer_than_a_pickles_group_of_a_thousand(originals):
    count = 2001
    data = np.zeros((count, 3072), dtype=np.uint8)
    data[:, 0] = np.arange(count) % 251
    labels = [place % 7 for place in range(count)]
    folder = originals({"test_batch": batch("test_batch", count, data=data, labels=labels)})
    source = images(f"cifar10:{folder}")
    assert source.labels["test"].tolist() == labels
    assert [int(source.image("test", place, 32)[0, 0, 0]) for place in (0, 250, 251, 2000)] == [0, 250, 0, 2000 % 251]


def test_an_array_stored_by_columns(originals):
    rows = np.random.Generator(np.random.PCG64(1)).integers(0, 256, (4, 3072), dtype=np.uint8)
    plain = images(f"cifar10:{originals({'data_batch_1': batch('1', 4, data=rows)})}")
    cifar10._opened.cache_clear()
    by_columns = batch("1", 4, data=np.asfortranarray(rows))
    assert by_columns != batch("1", 4, data=rows)
    turned = images(f"cifar10:{originals({'data_batch_1': by_columns})}")
    assert turned.digest == plain.digest
    assert np.array_equal(turned.image("train", 2, 32), rows[2].reshape(3, 32, 32).transpose(1, 2, 0))


@pytest.mark.parametrize("side", [7, 28, 64])
def test_other_sizes_are_the_projects_own_kernel(originals, side):
    source = images(f"cifar10:{originals()}")
    original, picture = source.image("test", 3, 32), source.image("test", 3, side)
    assert picture.shape == (side, side, 3) and picture.dtype == np.uint8
    for channel in range(3):
        assert np.array_equal(picture[:, :, channel], naive_resize(original[:, :, channel], side, side))


def test_a_picture_is_a_new_array_and_the_files_are_read_once(originals, monkeypatch):
    folder = originals()
    source = images(f"cifar10:{folder}")
    picture = source.image("train", 0, 32)
    before = picture.copy()
    picture += 1
    assert np.array_equal(source.image("train", 0, 32), before)
    monkeypatch.setattr(Path, "read_bytes", lambda self: pytest.fail(f"{self} is read again"))
    assert images(f"cifar10:{folder.parent}").digest == source.digest
    with pytest.raises(ValueError, match="read-only"):
        source.labels["train"][0] = 5


def test_no_place_says_where_to_get_it():
    for name in ("cifar10", "cifar10:"):
        with pytest.raises(UserError, match=r"cifar10:DIR.*https://www.cs.toronto.edu/~kriz/cifar.html"):
            images(name)


def test_missing_folders_and_files(originals, tmp_path):
    with pytest.raises(UserError, match=r"nowhere: no such folder; .*cifar10:DIR"):
        images(f"cifar10:{tmp_path / 'nowhere'}")
    folder = originals()
    for name in ("data_batch_4", "test_batch", "batches.meta"):
        kept = (folder / name).read_bytes()
        (folder / name).unlink()
        with pytest.raises(UserError, match=rf"{name} is missing"):
            images(f"cifar10:{folder}")
        (folder / name).write_bytes(kept)
    assert images(f"cifar10:{folder}").count("test") == 5


def test_a_folder_in_a_files_place(originals):
    folder = originals()
    (folder / "test_batch").unlink()
    (folder / "test_batch").mkdir()
    with pytest.raises(UserError, match=r"test_batch: cannot be read \(Is a directory\)"):
        images(f"cifar10:{folder}")


@pytest.mark.parametrize("name", ["data_batch_2", "batches.meta"])
def test_short_and_changed_files(originals, name):
    folder = originals()
    whole = (folder / name).read_bytes()
    (folder / name).write_bytes(whole[:-1])
    with pytest.raises(UserError, match=rf"{name}: holds {len(whole) - 1} bytes, expected {len(whole)}; fetch .* anew"):
        images(f"cifar10:{folder}")
    (folder / name).write_bytes(whole[:40] + bytes([whole[40] ^ 1]) + whole[41:])
    with pytest.raises(UserError, match=rf"{name}: not the original CIFAR-10 file .*MD5.* anew"):
        images(f"cifar10:{folder}")


def test_the_digest_is_checked_before_anything_is_parsed(originals, monkeypatch):
    folder = originals()
    (folder / "data_batch_1").write_bytes(b"x" * len((folder / "data_batch_1").read_bytes()))
    monkeypatch.setattr(cifar10, "_Batch", lambda *_, **__: pytest.fail("parsed before it was checked"))
    with pytest.raises(UserError, match="MD5"):
        images(f"cifar10:{folder}")


class Bomb:
    """What an attacker would put into a pickle: a call that leaves a trace."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (self.folder,)


@pytest.mark.parametrize("key", ["data", "filenames"])
def test_nothing_in_a_pickle_is_ever_run(originals, tmp_path, key):
    trace = tmp_path / "trace"
    content = batch("data_batch_1", 4, **{key: Bomb(str(trace))})
    pickle.loads(content, encoding="latin-1")
    assert trace.is_dir()  # so the bomb works
    trace.rmdir()
    folder = originals({"data_batch_1": content})
    with pytest.raises(UserError, match=r"asks for (os|posix|nt)\.mkdir"):
        images(f"cifar10:{folder}")
    assert not trace.exists()


def test_the_published_digests_are_torchvisions():
    from torchvision.datasets import CIFAR10

    published = dict([*CIFAR10.train_list, *CIFAR10.test_list])
    published["batches.meta"] = CIFAR10.meta["md5"]
    assert {name: digest for name, (_, digest) in PUBLISHED.items()} == published
    assert cifar10.FOLDER == CIFAR10.base_folder
