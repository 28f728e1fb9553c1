"""A dataset opened for training: bits and labels in order; resident and streamed images equal to the last bit."""

import numpy as np
import pytest
import torch
from small_cells import CPU, make_cell, make_data

from generators import shards
from generators.dataset import UserError
from suppression_bench import run as running
from suppression_bench.training import data as opening
from suppression_bench.training.data import Data, Samples, Streamed, fits, hold


def read_all(folder, split, entries, shape):
    rows = [row for entry in entries for row in shards.read_shard(folder / entry.name, shape, entry.count)]
    return np.stack([image for image, *_ in rows]), [record["labels"] for _, record, _ in rows]


def test_samples_are_the_shards(randbit):
    data = Data(randbit, 5)
    for split, count in (("pretrain", 200), ("probe-test", 100)):
        images, labels = read_all(randbit, split, data.manifest.splits[split].shards, data.image_shape)
        samples = data.samples(split)
        assert len(samples) == count and samples.images.dtype == torch.uint8
        assert np.array_equal(samples.images.numpy(), images.transpose(0, 3, 1, 2))
        codes = np.array([row["code"] for row in labels], dtype=np.int64)
        for bit in range(5):
            expected = codes // 2**bit % 2
            assert np.array_equal(samples.bits[:, bit].numpy(), expected) and 0.3 < expected.mean() < 0.7
            assert np.array_equal(data.labels(split, f"bit{bit:02d}"), expected)
        assert data.labels(split, "digit").tolist() == [row["digit"] for row in labels]
        assert np.array_equal(Data(randbit, 32).labels(split, "bit31"), codes >> 31)


def test_whole_images_have_their_bits_behind_them(randbit):
    samples = Data(randbit, 3).samples("probe-test")
    whole = samples.whole(slice(10, 14))
    assert whole.shape == (4, 4, 28, 28) and whole.dtype == torch.float32
    assert torch.equal(whole[:, :1], samples.images[10:14].float() / 255)
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


def test_no_dataset_is_one_sentence(tmp_path):
    with pytest.raises(UserError, match=r"bench generate"):
        Data(tmp_path / "nothing")
    with pytest.raises(UserError, match=r"bench generate"):
        Data(tmp_path)


def stored(channels, count=30, side=8):
    return np.random.default_rng(channels).integers(0, 256, (count, side, side, channels), dtype=np.uint8)


def both(channels):
    images = stored(channels)
    bits = torch.from_numpy(np.random.default_rng(1).integers(0, 2, (30, 4), dtype=np.uint8))
    planar = torch.from_numpy(np.array(images.transpose(0, 3, 1, 2), order="C"))
    return Samples(planar, bits), Streamed(torch.from_numpy(images).permute(0, 3, 1, 2), bits)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("index", [slice(3, 9), slice(None), torch.tensor([5, 0, 29, 5]), torch.tensor([7])])
def test_streamed_batches_are_the_resident_ones(channels, index):
    resident, streamed = both(channels)
    assert len(streamed) == len(resident) == 30 and streamed.side == 8 and streamed.device == CPU
    for one, other in zip(resident.take(index), streamed.take(index), strict=True):
        assert torch.equal(one, other) and one.stride() == other.stride() and other.is_contiguous()
    assert torch.equal(resident.take(index)[0], resident.images[index])
    assert torch.equal(resident.whole(index), streamed.whole(index))


def test_a_slice_of_the_order_is_known_by_its_offset():
    _, streamed = both(3)
    order = np.random.default_rng(2).permutation(30)
    there = streamed.follow(order)
    assert there.tolist() == order.tolist()
    assert streamed.offset(there[4:9]) == 4 and streamed.offset(there) == 0 and streamed.offset(there[20:][5:]) == 25
    assert streamed.offset(there.clone()) is None and streamed.offset(there[::2]) is None
    again = streamed.follow(order[::-1].copy())
    assert streamed.offset(again[2:4]) == 2 and streamed.offset(there[4:9]) is None
    assert both(1)[1].offset(there) is None


def test_the_cap_decides(monkeypatch):
    for cap, enough in ((1000, True), (999, False), (0, False)):
        monkeypatch.setenv(opening.CAP, str(cap))
        assert fits(1000, CPU) == fits(1000, torch.device("cuda")) == enough
    for wrong in ("-1", "2GB", "1e9"):
        monkeypatch.setenv(opening.CAP, wrong)
        with pytest.raises(UserError, match=r"SUPPRESSION_BENCH_DEVICE_BYTES must be a whole number"):
            hold(stored(1), torch.zeros(30, 0, dtype=torch.uint8))


def test_a_gpu_holds_what_takes_half_of_its_free_memory(monkeypatch):
    cuda = torch.device("cuda")
    monkeypatch.delenv(opening.CAP, raising=False)
    monkeypatch.setattr(opening, "free_bytes", lambda device: 1000)
    assert fits(500, cuda) and not fits(501, cuda) and fits(10**15, CPU)


def test_a_cpu_copies_no_image(randbit):
    data = Data(randbit, 2)
    samples = data.samples("pretrain")
    assert samples.images.data_ptr() == data._split("pretrain").images.ctypes.data
    assert data.samples("pretrain") is samples  # nor a second time, while it is in use
    colour = stored(3)
    assert hold(colour, torch.zeros(30, 0)).images.data_ptr() == colour.ctypes.data


@pytest.fixture(scope="module")
def leaves(cache, tmp_path_factory):
    """RandBit over small colour images."""
    options = dict(image_source="leaves", image_size=32, train=60, test=40)
    return make_data("randbit", tmp_path_factory.mktemp("leaves"), **options)


@pytest.mark.parametrize("kind", ["grey", "colour"])
@pytest.mark.parametrize("crop", ["torchvision", "none"])
def test_a_split_twice_the_devices_memory_trains_to_the_same_weights(
    randbit, leaves, kind, crop, tmp_path, monkeypatch, capsys
):
    folder = {"grey": randbit, "colour": leaves}[kind]
    settings = dict(
        data__bits=2, train__steps=7, train__batch_size=20, augmentation__crop=crop, encoder__name="randbit_conv"
    )
    cell = make_cell("simclr", folder, **settings)
    size, tested = (Data(folder).samples(split).images.numel() for split in ("pretrain", "probe-test"))

    def resident(images, bits, check):
        return Samples(torch.from_numpy(np.array(images.transpose(0, 3, 1, 2), order="C")), bits)

    with monkeypatch.context() as patch:
        patch.setattr("suppression_bench.training.data.hold", resident)
        one = running.run(cell, tmp_path / "resident", CPU)
    assert "do not fit" not in capsys.readouterr().out
    monkeypatch.setenv(opening.CAP, str(size // 2))
    other = running.run(cell, tmp_path / "streamed", CPU)
    lines = [line for line in capsys.readouterr().out.splitlines() if "do not fit" in line]
    expected = f"data, pretrain: {size / 1e6:.1f} MB of images do not fit beside the network on cpu"
    assert lines[0].startswith(expected) and len(lines) == len(set(lines)) == (2 if size // 2 < tested else 1)
    weights = [(tmp_path / name / "encoder.safetensors").read_bytes() for name in ("resident", "streamed")]
    assert weights[0] == weights[1] and one.probes == other.probes and one.metrics == other.metrics
    assert one.run.loss == other.run.loss


def test_streaming_to_a_gpu_trains_to_the_same_weights(leaves, cuda, tmp_path, monkeypatch):
    cell = make_cell("simclr", leaves, data__bits=2, train__batch_size=20, encoder__name="randbit_conv")
    data = Data(leaves, 2)
    resident = data.samples("pretrain", cuda)
    assert type(resident) is Samples and resident.images.is_cuda
    monkeypatch.setenv(opening.CAP, "1")
    streamed = Data(leaves, 2).samples("pretrain", cuda)
    assert type(streamed) is Streamed and not streamed.images.is_cuda
    order = streamed.follow(np.random.default_rng(0).permutation(60))
    for start in range(0, 60, 20):
        index = order[start : start + 20]
        for one, other in zip(resident.take(index), streamed.take(index), strict=True):
            assert torch.equal(one, other) and one.stride() == other.stride() and other.is_cuda
    assert running.run(cell, tmp_path, cuda).run.status == "ok"
