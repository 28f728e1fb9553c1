"""Resident and streamed pictures: the same values to the last bit, chosen by the memory that there is."""

import numpy as np
import pytest
import torch
from small_cells import CPU, make_cell, make_data

from generators.dataset import UserError
from suppression_bench import cell as cells
from suppression_bench.training import samples as holding
from suppression_bench.training.data import Data
from suppression_bench.training.samples import Samples, Streamed, fits, hold


def stored(channels, count=30, side=8):
    return np.random.default_rng(channels).integers(0, 256, (count, side, side, channels), dtype=np.uint8)


def both(channels):
    pictures = stored(channels)
    bits = torch.from_numpy(np.random.default_rng(1).integers(0, 2, (30, 4), dtype=np.uint8))
    planar = torch.from_numpy(np.array(pictures.transpose(0, 3, 1, 2), order="C"))
    return Samples(planar, bits), Streamed(torch.from_numpy(pictures).permute(0, 3, 1, 2), bits)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("index", [slice(3, 9), slice(None), torch.tensor([5, 0, 29, 5]), torch.tensor([7])])
def test_streamed_batches_are_the_resident_ones(channels, index):
    resident, streamed = both(channels)
    assert len(streamed) == len(resident) == 30 and streamed.side == 8 and streamed.device == CPU
    for one, other in zip(resident.take(index), streamed.take(index), strict=True):
        assert torch.equal(one, other) and one.stride() == other.stride() and other.is_contiguous()
    assert torch.equal(resident.take(index)[0], resident.pictures[index])
    assert torch.equal(resident.whole(index), streamed.whole(index))


def test_a_slice_of_the_order_is_known_by_its_place():
    _, streamed = both(3)
    order = np.random.default_rng(2).permutation(30)
    there = streamed.follow(order)
    assert there.tolist() == order.tolist()
    assert streamed.place(there[4:9]) == 4 and streamed.place(there) == 0 and streamed.place(there[20:][5:]) == 25
    assert streamed.place(there.clone()) is None and streamed.place(there[::2]) is None
    again = streamed.follow(order[::-1].copy())
    assert streamed.place(again[2:4]) == 2 and streamed.place(there[4:9]) is None
    assert both(1)[1].place(there) is None


def test_the_cap_decides(monkeypatch):
    pictures, bits = stored(1), torch.zeros(30, 0, dtype=torch.uint8)
    assert type(hold(pictures, bits)) is Samples
    for cap, kind in ((pictures.nbytes, Samples), (pictures.nbytes - 1, Streamed), (0, Streamed)):
        monkeypatch.setenv(holding.CAP, str(cap))
        assert type(hold(pictures, bits)) is kind
    for wrong in ("-1", "2GB", "1e9"):
        monkeypatch.setenv(holding.CAP, wrong)
        with pytest.raises(UserError, match=r"SUPPRESSION_BENCH_DEVICE_BYTES must be a whole number"):
            hold(pictures, bits)


def test_a_gpu_holds_what_takes_half_of_its_free_memory(monkeypatch):
    cuda = torch.device("cuda")
    monkeypatch.delenv(holding.CAP, raising=False)
    monkeypatch.setattr(holding, "free_bytes", lambda device: 1000)
    assert fits(500, cuda) and not fits(501, cuda) and fits(10**15, CPU)


def test_a_cpu_copies_no_picture(randbit):
    data = Data(randbit, 2)
    samples = data.samples("pretrain")
    mapped, _ = data._open["pretrain"]
    assert samples.pictures.data_ptr() == mapped.ctypes.data
    assert data.samples("pretrain") is samples  # nor a second time, while it is in use
    colour = stored(3)
    assert hold(colour, torch.zeros(30, 0)).pictures.data_ptr() == colour.ctypes.data


@pytest.fixture(scope="module")
def leaves(cache, tmp_path_factory):
    """RandBit over small colour pictures."""
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
    size, tested = (Data(folder).samples(split).pictures.numel() for split in ("pretrain", "probe-test"))

    def resident(pictures, bits):
        return Samples(torch.from_numpy(np.array(pictures.transpose(0, 3, 1, 2), order="C")), bits)

    with monkeypatch.context() as patch:
        patch.setattr("suppression_bench.training.data.hold", resident)
        one = cells.run(cell, tmp_path / "resident", CPU)
    assert "do not fit" not in capsys.readouterr().out
    monkeypatch.setenv(holding.CAP, str(size // 2))
    other = cells.run(cell, tmp_path / "streamed", CPU)
    lines = [line for line in capsys.readouterr().out.splitlines() if "do not fit" in line]
    expected = f"data, pretrain: {size / 1e6:.1f} MB of pictures do not fit beside the network on cpu"
    assert lines[0].startswith(expected) and len(lines) == len(set(lines)) == (2 if size // 2 < tested else 1)
    weights = [(tmp_path / name / "encoder.safetensors").read_bytes() for name in ("resident", "streamed")]
    assert weights[0] == weights[1] and one["probes"] == other["probes"] and one["metrics"] == other["metrics"]
    assert one["run"]["loss"] == other["run"]["loss"]


def test_streaming_to_a_gpu_trains_to_the_same_weights(leaves, cuda, tmp_path, monkeypatch):
    cell = make_cell("simclr", leaves, data__bits=2, train__batch_size=20, encoder__name="randbit_conv")
    data = Data(leaves, 2)
    resident = data.samples("pretrain", cuda)
    assert type(resident) is Samples and resident.pictures.is_cuda
    monkeypatch.setenv(holding.CAP, "1")
    streamed = Data(leaves, 2).samples("pretrain", cuda)
    assert type(streamed) is Streamed and not streamed.pictures.is_cuda
    order = streamed.follow(np.random.default_rng(0).permutation(60))
    for start in range(0, 60, 20):
        index = order[start : start + 20]
        for one, other in zip(resident.take(index), streamed.take(index), strict=True):
            assert torch.equal(one, other) and one.stride() == other.stride() and other.is_cuda
    assert cells.run(cell, tmp_path, cuda)["run"]["status"] == "ok"
