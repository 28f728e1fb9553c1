"""Digit sources: what they hold, and that nothing but the original files is accepted."""

import contextlib
import gzip
import hashlib
import http.server
import os
import threading
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits
from toy_data import naive_resize

from generators import sources
from generators.dataset import UserError

SHAPES = {"train-images": (30, 28, 28), "train-labels": (30,), "t10k-images": (8, 28, 28), "t10k-labels": (8,)}


def idx(array: np.ndarray) -> bytes:
    head = bytes([0, 0, 8, array.ndim]) + b"".join(length.to_bytes(4, "big") for length in array.shape)
    return head + array.tobytes()


@pytest.fixture
def fake(monkeypatch):
    """Four tiny MNIST files (name -> array) whose digests stand in for the real ones."""
    random = np.random.Generator(np.random.PCG64(3))
    arrays = {
        name: random.integers(0, 256 if "images" in name else 10, SHAPES[name[:12].rstrip("-")], dtype=np.uint8)
        for name in sources.MNIST_FILES
    }
    digests = {name: hashlib.sha256(idx(array)).hexdigest() for name, array in arrays.items()}
    monkeypatch.setattr(sources, "MNIST_FILES", digests)
    return arrays


def store(folder: Path, arrays: dict, packed: bool = True) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in arrays.items():
        (folder / (f"{name}.gz" if packed else name)).write_bytes(gzip.compress(idx(array)) if packed else idx(array))
    return folder


def test_optdigits_are_scikit_learns_enlarged():
    source, bunch = sources.digits("optdigits"), load_digits()
    assert (source.count("train"), source.count("test")) == (1347, 450)
    for split, cut in (("train", slice(0, 1347)), ("test", slice(1347, None))):
        assert source.images[split].shape[1:] == (28, 28) and source.images[split].dtype == np.uint8
        assert np.array_equal(source.labels[split], bunch.target[cut])
    for place in (0, 700, 1346):
        small = np.array([[int(v) * 255 // 16 for v in line] for line in bunch.images[place]], dtype=np.uint8)
        assert np.array_equal(source.images["train"][place], naive_resize(small, 28, 28))
    assert source.images["train"].max() == 255


def test_changed_optdigits_are_refused(monkeypatch):
    monkeypatch.setattr(sources, "OPTDIGITS_SHA256", "0" * 64)
    with pytest.raises(UserError, match="scikit-learn"):
        sources._optdigits.__wrapped__()


@pytest.mark.parametrize("packed", [True, False])
def test_mnist_folder(tmp_path, fake, packed):
    store(tmp_path / "MNIST" / "raw", fake, packed)
    source = sources.digits(f"mnist:{tmp_path}")
    assert source.name == "mnist" and str(tmp_path) not in repr((source.name, source.digest, source.licence))
    assert np.array_equal(source.images["train"], fake["train-images-idx3-ubyte"])
    assert np.array_equal(source.images["test"], fake["t10k-images-idx3-ubyte"])
    assert np.array_equal(source.labels["train"], fake["train-labels-idx1-ubyte"])
    assert np.array_equal(source.labels["test"], fake["t10k-labels-idx1-ubyte"])


def short(data):
    return data[:-1]


def flipped(data):
    return data[:200] + bytes([data[200] ^ 1]) + data[201:]


def label_out_of_range(data):
    return data[:8] + b"\x0b" + data[9:]


@pytest.mark.parametrize("change", [short, flipped, label_out_of_range])
@pytest.mark.parametrize("packed", [True, False])
def test_changed_mnist_file_is_refused(tmp_path, fake, change, packed):
    folder = store(tmp_path / "MNIST" / "raw", fake, packed)
    name = "t10k-labels-idx1-ubyte" if change is label_out_of_range else "train-images-idx3-ubyte"
    data = change(idx(fake[name]))
    (folder / (f"{name}.gz" if packed else name)).write_bytes(gzip.compress(data) if packed else data)
    with pytest.raises(UserError, match=f"{name}.*not the original MNIST file"):
        sources.digits(f"mnist:{tmp_path}")


def test_damaged_gzip_is_refused(tmp_path, fake):
    folder = store(tmp_path / "MNIST" / "raw", fake)
    target = folder / "train-images-idx3-ubyte.gz"
    whole = target.read_bytes()
    for data in (b"", b"no gzip", whole[:100], whole[:50] + b"\xff\xff\xff\xff" + whole[54:]):
        target.write_bytes(data)
        with pytest.raises(UserError, match=r"train-images-idx3-ubyte.gz"):
            sources.digits(f"mnist:{tmp_path}")


def test_missing_folder_and_unknown_name(tmp_path):
    with pytest.raises(UserError, match=r"is missing in .*mnist:DIR"):
        sources.digits(f"mnist:{tmp_path / 'nowhere'}")
    for name in ("mnsit", "", "optdigits:x"):
        with pytest.raises(UserError, match="unknown digit source"):
            sources.digits(name)


def test_download_takes_the_first_good_mirror_and_keeps_what_is_there(tmp_path, fake):
    bad, good = store(tmp_path / "bad", fake), store(tmp_path / "good", fake)
    (bad / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(b"another file"))
    (bad / "t10k-images-idx3-ubyte.gz").write_bytes(b"<html>moved</html>")
    target = tmp_path / "target"
    mirrors = tuple(f"{folder.as_uri()}/" for folder in (tmp_path / "none", bad, good))
    assert sources.download_mnist(target, mirrors) == target
    assert sorted(path.name for path in target.iterdir()) == sorted(f"{name}.gz" for name in fake)
    assert sources._mnist(target).count("train") == 30
    (target / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(UserError, match="t10k-labels"):
        sources.download_mnist(target, mirrors[:1])  # only the missing one is asked for
    assert len(list(target.iterdir())) == 3


def test_download_without_a_mirror_says_what_to_do(tmp_path, fake):
    bad = store(tmp_path / "bad", {name: array + 1 for name, array in fake.items()})
    mirrors = (f"{(tmp_path / 'none').as_uri()}/", f"{bad.as_uri()}/")
    with pytest.raises(UserError, match=r"(?s)SHA-256 is not MNIST's.*mnist:DIR.*optdigits") as caught:
        sources.download_mnist(tmp_path / "target", mirrors)
    assert all(mirror in str(caught.value) for mirror in mirrors)
    assert not (tmp_path / "target").exists()


@contextlib.contextmanager
def _server(length: int):
    # Promises `length` bytes, sends three and hangs up; a negative length: hangs up at once.
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            if length >= 0:
                self.send_response(200)
                self.send_header("Content-Length", str(length))
                self.end_headers()
                self.wfile.write(b"abc")

        def log_message(self, *arguments):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.mark.parametrize("length", [1000, -1])
def test_a_mirror_that_hangs_up_is_passed_over(tmp_path, fake, length, monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    good = store(tmp_path / "good", fake)
    with _server(length) as mirror:
        sources.download_mnist(tmp_path / "target", (mirror, f"{good.as_uri()}/"))
    assert sources._mnist(tmp_path / "target").count("test") == 8


def test_data_root(monkeypatch):
    monkeypatch.setenv("SUPPRESSION_BENCH_CACHE", "somewhere")
    assert sources.data_root() == Path("somewhere")
    monkeypatch.delenv("SUPPRESSION_BENCH_CACHE")
    assert sources.data_root() == Path.home() / ".cache" / "suppression-bench"


@pytest.mark.real_data
@pytest.mark.skipif(not os.environ.get("SUPPRESSION_BENCH_DATA"), reason="SUPPRESSION_BENCH_DATA names no folder")
def test_the_real_mnist():
    source = sources.digits(f"mnist:{os.environ['SUPPRESSION_BENCH_DATA']}")
    assert (source.count("train"), source.count("test")) == (60_000, 10_000)
    assert source.images["train"].shape == (60_000, 28, 28)
    assert source.labels["train"][:5].tolist() == [5, 0, 4, 1, 9]
    assert np.bincount(source.labels["test"]).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
