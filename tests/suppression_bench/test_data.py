"""Opening a dataset: decoded once, bits in their places, damage refused."""

import json
import shutil

import numpy as np
import pytest
import torch
from small_cells import make_data

from generators import shards
from generators.dataset import UserError
from suppression_bench.training import data as opening
from suppression_bench.training.data import Data


def read_all(folder, split, entries, shape):
    rows = [row for entry in entries for row in shards.read_shard(folder / entry["name"], shape, entry["count"])]
    return np.stack([picture for picture, *_ in rows]), [record["labels"] for _, record, _ in rows]


def test_samples_are_the_shards(randbit):
    data = Data(randbit, 5)
    for split, count in (("pretrain", 200), ("probe-test", 100)):
        pictures, labels = read_all(randbit, split, data.manifest["splits"][split]["shards"], data.image_shape)
        samples = data.samples(split)
        assert len(samples) == count and samples.pictures.dtype == torch.uint8
        assert np.array_equal(samples.pictures.numpy(), pictures.transpose(0, 3, 1, 2))
        codes = np.array([row["code"] for row in labels], dtype=np.int64)
        for bit in range(5):
            expected = codes // 2**bit % 2
            assert np.array_equal(samples.bits[:, bit].numpy(), expected) and 0.3 < expected.mean() < 0.7
            assert np.array_equal(data.labels(split, f"bit{bit:02d}"), expected)
        assert data.labels(split, "digit").tolist() == [row["digit"] for row in labels]
        assert np.array_equal(Data(randbit, 32).labels(split, "bit31"), codes >> 31)


def test_whole_pictures_have_their_bits_behind_them(randbit):
    samples = Data(randbit, 3).samples("probe-test")
    whole = samples.whole(slice(10, 14))
    assert whole.shape == (4, 4, 28, 28) and whole.dtype == torch.float32
    assert torch.equal(whole[:, :1], samples.pictures[10:14].float() / 255)
    assert torch.equal(whole[:, 1:], samples.bits[10:14].float()[:, :, None, None].expand(4, 3, 28, 28))
    assert torch.equal(samples.whole(torch.tensor([13, 10])), whole[[3, 0]])


def test_features_and_probes_name_each_bit_in_use(randbit, sizes):
    data = Data(randbit, 2)
    assert data.channels == 3 and Data(randbit).channels == 1
    pair = ("pretrain", "probe-test")
    assert data.probes() == {"digit": pair, "bit00": pair, "bit01": pair}
    assert (data.classes("digit"), data.classes("bit01")) == (10, 2)
    assert list(Data(randbit).targets()) == ["digit"]
    other = Data(sizes)
    assert other.has_label("pretrain", "digit_12") and not other.has_label("probe-train-20", "digit_12")
    with pytest.raises(UserError, match="digit_12"):
        other.labels("probe-train-20", "digit_12")


@pytest.mark.parametrize("bits", [-1, 33])
def test_more_bits_than_there_are_are_refused(randbit, bits):
    with pytest.raises(UserError, match="0 to 32"):
        Data(randbit, bits)


def test_bits_of_a_dataset_without_any_are_refused(sizes):
    with pytest.raises(UserError, match="0 to 0"):
        Data(sizes, 1)


def test_the_second_opening_decodes_nothing(tmp_path, monkeypatch):
    folder = make_data("randbit", tmp_path, train=30, test=20)
    monkeypatch.setenv("SUPPRESSION_BENCH_CACHE", str(tmp_path / "cache"))
    calls = []
    original = shards.read_shard
    monkeypatch.setattr(shards, "read_shard", lambda *a: (calls.append(a), original(*a))[1])
    first = Data(folder, 2).samples("pretrain")
    assert len(calls) == 1

    def refuse(*arguments):
        raise AssertionError("decoded again")

    monkeypatch.setattr(shards, "read_shard", refuse)
    again = Data(folder, 2).samples("pretrain")
    assert torch.equal(first.pictures, again.pictures) and torch.equal(first.bits, again.bits)
    with pytest.raises(AssertionError, match="decoded again"):
        Data(folder).samples("probe-test")


def test_an_unfinished_cache_is_decoded_again(tmp_path, monkeypatch):
    folder = make_data("randbit", tmp_path, train=30, test=20)
    monkeypatch.setenv("SUPPRESSION_BENCH_CACHE", str(tmp_path / "cache"))
    first = Data(folder).samples("pretrain").pictures.clone()
    [labels] = (tmp_path / "cache").rglob("labels.json")
    labels.unlink()
    (labels.parent / "pictures.npy").write_bytes(b"half")
    assert torch.equal(Data(folder).samples("pretrain").pictures, first)


@pytest.mark.parametrize("damage", ["flipped", "short", "zeroed", "gone", "no number", "no JSON"])
def test_a_damaged_cache_is_decoded_again(tmp_path, monkeypatch, damage):
    folder = make_data("randbit", tmp_path, train=30, test=20)
    monkeypatch.setenv("SUPPRESSION_BENCH_CACHE", str(tmp_path / "cache"))
    first = Data(folder).samples("pretrain").pictures.clone()
    [pictures], [labels] = (list((tmp_path / "cache").rglob(name)) for name in ("pictures.npy", "labels.json"))
    content = bytearray(pictures.read_bytes())
    content[-900] ^= 1
    if damage in ("flipped", "short", "zeroed"):
        damaged = {"flipped": content, "short": content[:-1], "zeroed": bytes(len(content))}
        pictures.write_bytes(damaged[damage])
    elif damage == "gone":
        pictures.unlink()
    else:
        labels.write_text("{" if damage == "no JSON" else '{"labels": {}}')
    assert torch.equal(Data(folder).samples("pretrain").pictures, first)


@pytest.mark.parametrize("damage", ["truncated", "flipped", "missing"])
def test_a_damaged_shard_is_refused(randbit, tmp_path, monkeypatch, damage):
    folder = tmp_path / "copy"
    shutil.copytree(randbit, folder)
    path = folder / "probe-test-00000.tar"
    content = bytearray(path.read_bytes())
    path.unlink()
    if damage == "truncated":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "flipped":
        content[700] ^= 1
        path.write_bytes(content)
    with pytest.raises(UserError, match=r"probe-test-00000\.tar"):
        Data(folder).check()
    monkeypatch.setenv("SUPPRESSION_BENCH_CACHE", str(tmp_path / "cache"))
    with pytest.raises(UserError, match=r"probe-test-00000\.tar"):
        Data(folder).samples("probe-test")
    assert len(Data(folder).samples("pretrain")) == 200


def test_samples_that_are_not_the_manifests_are_refused(randbit, tmp_path, monkeypatch):
    folder = tmp_path / "copy"
    shutil.copytree(randbit, folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["splits"]["pretrain"]["content_digest"] = "0" * 64
    monkeypatch.setattr(opening.manifests, "read", lambda place: manifest)
    with pytest.raises(UserError, match="manifest"):
        Data(folder).samples("pretrain")


def test_no_dataset_is_one_sentence(tmp_path):
    with pytest.raises(UserError, match=r"bench generate"):
        Data(tmp_path / "nothing")
    with pytest.raises(UserError, match=r"bench generate"):
        Data(tmp_path)
