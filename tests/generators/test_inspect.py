"""Opening a dataset folder: the samples as drawn, through torch, webdataset and datasets; nothing damaged is served."""

import os
import pickle
import shutil
import subprocess
import sys
from itertools import zip_longest

import numpy as np
import pytest
from toy_data import drawn, make, write_toy

import generators
from generators import inspect, shards
from generators.catalog import dataset
from generators.dataset import UserError


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    """The toy and its folder: pretrain in five shards of 10, 10, 10, 10 and 1, probe-test in one of 9."""
    folder = tmp_path_factory.mktemp("toy")
    path = write_toy(folder)
    make(path, folder / "set", shard_size=10)
    return dataset(path, {}), folder / "set"


@pytest.fixture
def copy(toy, tmp_path):
    """A copy of the toy's folder that may be damaged."""
    return shutil.copytree(toy[1], tmp_path / "set")


def equal(found, samples):
    """Whether (picture, labels) pairs are the samples, in order."""
    found = list(found)
    return len(found) == len(samples) and all(
        np.array_equal(picture, sample.image) and labels == sample.labels
        for (picture, labels), sample in zip(found, samples, strict=True)
    )


# The samples


def test_it_serves_what_the_dataset_drew(real):
    made, folder = real
    data = generators.open(folder)
    assert (data.split, set(data.splits)) == ("pretrain", set(made.splits))
    assert data.manifest.dataset == made.name
    for split in made.splits:
        samples, data = drawn(made, split), data.to(split)
        assert len(data) == len(samples) == made.splits[split]
        assert equal(data, samples)
        picture, _ = data[len(samples) - 1]
        assert picture.dtype == np.uint8 and picture.shape == tuple(made.image_shape) and picture.flags.writeable
        for i, sample in enumerate(samples):
            assert data.record(i) == {"id": i, "labels": sample.labels, "factors": sample.factors}
        for columns, part in ((data.labels(), "labels"), (data.factors(), "factors")):
            assert columns == {
                name: [getattr(one, part)[name] for one in samples] for name in getattr(samples[0], part)
            }


def test_indices(toy):
    made, folder = toy
    data, samples = generators.open(str(folder)), drawn(made, "pretrain")
    assert equal([data[-1], data[-41], data[np.int64(40)]], [samples[40], samples[0], samples[40]])
    assert equal([data[i] for i in (25, 3, 39, 40, 10, 9)], [samples[i] for i in (25, 3, 39, 40, 10, 9)])
    for beyond in (41, -42):
        with pytest.raises(IndexError, match=rf"sample {beyond} of 41 in split pretrain"):
            data[beyond]
    with pytest.raises(TypeError, match=r"slices are not supported.*Subset"):
        data[1:3]
    with pytest.raises(TypeError, match="str is no index"):
        data["0"]
    data[5][0][:] = 0
    data[5][1].clear()
    assert equal([data[5]], [samples[5]])
    assert "pretrain, 41 images of 5x4x3" in repr(data)


def test_labels_decode_no_picture_and_say_none_where_a_sample_lacks_one(tmp_path, monkeypatch):
    path = write_toy(tmp_path, ('"letters": letters}', '**({"letters": letters} if index % 3 else {})}'))
    make(path, tmp_path / "set", shard_size=10)
    monkeypatch.setattr(shards, "read_sample", lambda *_: pytest.fail("a picture was decoded"))
    data, samples = generators.open(tmp_path / "set"), drawn(dataset(path, {}), "pretrain")
    assert data.labels()["letters"] == [sample.labels.get("letters") for sample in samples]
    assert data.labels()["letters"][0] is None and data.labels()["letters"][1] is not None
    assert data.factors() == {"row": [sample.factors["row"] for sample in samples]}


def test_few_maps_are_held_and_a_shard_is_indexed_once(toy, monkeypatch):
    made, folder = toy
    indexed, true = [], shards.index_shard
    monkeypatch.setattr(inspect, "MOST_MAPS", 2)
    monkeypatch.setattr(shards, "index_shard", lambda path, *rest: indexed.append(path.name) or true(path, *rest))
    data, samples, order = generators.open(folder), drawn(made, "pretrain"), [7 * i % 41 for i in range(82)]
    assert indexed == []  # opening reads no headers
    for i in order:
        assert equal([data[i]], [samples[i]])
        assert 1 <= len(data._maps) <= 2
    assert sorted(indexed) == [f"pretrain-0000{number}.tar" for number in range(5)]


def test_it_can_be_pickled_and_does_not_mind_the_working_directory(toy, monkeypatch, tmp_path):
    made, folder = toy
    monkeypatch.chdir(folder.parent)
    data = generators.open("set")
    data[0]
    monkeypatch.chdir(tmp_path)
    again = pickle.loads(pickle.dumps(data))
    assert equal(again, drawn(made, "pretrain")) and equal(again.to("probe-test"), drawn(made, "probe-test"))
    assert equal([data[20]], drawn(made, "pretrain")[20:21])


def test_an_unknown_split_is_named(toy):
    with pytest.raises(UserError, match=r"no split 'probe-tset', did you mean 'probe-test'\?"):
        generators.open(toy[1], "probe-tset")
    with pytest.raises(UserError, match=r"known: pretrain, probe-test"):
        generators.open(toy[1]).to("x")
    with pytest.raises(UserError, match="bench generate"):
        generators.open(toy[1] / "none")


# Other readers


@pytest.mark.slow
def test_torch_loads_it_in_spawned_workers(toy):
    from torch.utils.data import DataLoader

    made, folder = toy
    data, samples = generators.open(folder), drawn(made, "pretrain")
    data[0]  # a memory map is open when the workers start
    batches = list(DataLoader(data, batch_size=4, num_workers=2, multiprocessing_context="spawn"))
    pictures = np.concatenate([batch[0].numpy() for batch in batches])
    assert np.array_equal(pictures, np.stack([sample.image for sample in samples]))
    labels = [int(one) for batch in batches for one in batch[1]["parity"]]
    assert labels == [sample.labels["parity"] for sample in samples]


def test_plain_webdataset_reads_the_shards(real):
    import webdataset

    made, folder = real
    for split in made.splits:
        urls = sorted(str(path) for path in folder.glob(f"{split}-?????.tar"))
        pairs = list(webdataset.WebDataset(urls, shardshuffle=False).decode("pil").to_tuple("png", "json"))
        grey = [(np.asarray(picture.convert("L"))[:, :, None], record["labels"]) for picture, record in pairs]
        assert equal(grey, drawn(made, split))
        assert [record["id"] for _, record in pairs] == list(range(made.splits[split]))


def test_as_webdataset_keeps_the_order_and_hands_options_on(real):
    from torch.utils.data import DataLoader

    made, folder = real
    for split in made.splits:
        assert equal(generators.open(folder, split).as_webdataset(), drawn(made, split))
    pipeline, samples = generators.open(folder).as_webdataset(), drawn(made, "pretrain")
    assert equal(pipeline, samples) and equal(pipeline, samples)  # twice
    assert equal(DataLoader(pipeline, batch_size=None, num_workers=0), samples)
    # Two workers take turns, and each has every second shard.
    turns = zip_longest(*([one for one in samples if one.index // 5 % 2 == worker] for worker in (0, 1)))
    workers = list(DataLoader(pipeline, batch_size=None, num_workers=2))
    assert equal(workers, [one for pair in turns for one in pair if one])
    shuffled = list(generators.open(folder).as_webdataset(shardshuffle=10, seed=1))
    assert not equal(shuffled, samples) and len(shuffled) == len(samples)


def test_as_webdataset_reads_strictly_and_refuses_a_path_it_would_cut(toy, tmp_path):
    made, folder = toy
    odd = shutil.copytree(folder, tmp_path / "a {1..2} 100%")
    assert equal(generators.open(odd, "probe-test").as_webdataset(), drawn(made, "probe-test"))
    with pytest.raises(UserError, match=r"webdataset takes '#' for the end of the path"):
        generators.open(shutil.copytree(folder, tmp_path / "a#b")).as_webdataset()
    shard = odd / "probe-test-00000.tar"
    shard.write_bytes(shard.read_bytes().replace(b'"id":4', b'"id":5', 1))
    with pytest.raises(UserError, match=r"00000004.json.*ids differ"):
        list(generators.open(odd, "probe-test", verify=False).as_webdataset())


@pytest.mark.parametrize("streaming", [False, True])
def test_hugging_face_reads_the_shards(real, load, streaming):
    made, folder = real
    urls = sorted(str(path) for path in folder.glob("pretrain-*.tar"))
    found = load("webdataset", data_files={"pretrain": urls}, split="pretrain", streaming=streaming)
    rows, samples = list(found), drawn(made, "pretrain")
    assert equal([(np.asarray(row["png"])[:, :, None], row["json"]["labels"]) for row in rows], samples)
    assert [row["png"].mode for row in rows] == ["L"] * len(samples)
    assert [row["json"]["factors"] for row in rows] == [sample.factors for sample in samples]
    assert [(row["json"]["id"], row["__key__"]) for row in rows] == [(i, f"{i:08d}") for i in range(len(samples))]


# Damage


def edit(shard, change):
    data = bytearray((shard).read_bytes())
    shard.write_bytes(change(data))


def places(shard):
    return list(shards.index_shard(shard, memoryview(shard.read_bytes()), 10))


def cut(where):
    def damage(folder):
        shard = folder / "pretrain-00002.tar"
        os.truncate(shard, where(places(shard)))
        return [shard.name]

    return damage


def flip(folder):
    shard = folder / "pretrain-00002.tar"
    at = places(shard)[4].image.stop - 30
    edit(shard, lambda data: data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
    return [shard.name]


def swap_members(folder):
    shard = folder / "pretrain-00002.tar"
    a, b, c = (place.image.start - 512 for place in places(shard)[4:7])
    edit(shard, lambda data: data[:a] + data[b:c] + data[a:b] + data[c:])
    return [shard.name]


def swap_shards(folder):
    first, second = folder / "pretrain-00001.tar", folder / "pretrain-00003.tar"
    first.rename(folder / "x")
    second.rename(first)
    (folder / "x").rename(second)
    return [first.name, second.name]


def remove(folder):
    (folder / "probe-test-00000.tar").unlink()
    return ["probe-test-00000.tar"]


def add(folder):
    shutil.copy(folder / "pretrain-00000.tar", folder / "pretrain-00099.tar")
    return ["pretrain-00099.tar"]


def rename(folder):
    (folder / "pretrain-00002.tar").rename(folder / "pretrain-00005.tar")
    return ["pretrain-00002.tar", "pretrain-00005.tar"]


def several(folder):
    return flip(folder) + remove(folder) + add(folder)


DAMAGES = {
    "cut in a picture": cut(lambda places: places[3].image.start + 7),
    "cut to nothing": cut(lambda places: 0),
    "members swapped": swap_members,
    "shards swapped": swap_shards,
    "missing": remove,
    "renamed": rename,
    "several": several,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_nothing_of_a_damaged_folder_is_served(copy, damage, monkeypatch):
    names = damage(copy)
    monkeypatch.setattr(shards, "read_sample", lambda *_: pytest.fail("a sample was served"))
    everything = {path.name for path in copy.glob("*.tar")} | {"probe-test-00000.tar"}
    for split in ("pretrain", "probe-test"):  # a fault in one split closes the others too
        with pytest.raises(UserError) as caught:
            generators.open(copy, split)
        lines = str(caught.value).split("\n")
        assert len(lines) == len(names)
        for name in names:
            (line,) = [line for line in lines if line.startswith(f"{copy / name}: ")]
            assert "bench generate" in line or "remove the file" in line
        assert not [name for name in everything - set(names) if name in str(caught.value)]


@pytest.mark.parametrize(
    "damage", ["cut in a picture", "cut to nothing", "members swapped", "shards swapped", "missing"]
)
def test_unverified_it_still_refuses_what_it_touches(copy, toy, damage):
    names = DAMAGES[damage](copy)
    data = generators.open(copy, names[0].rpartition("-")[0], verify=False)
    start = int(names[0][-9:-4]) * 10
    with pytest.raises(UserError, match=names[0]):
        data[start]
    if data.split == "pretrain":
        assert equal([data[0]], drawn(toy[0], "pretrain")[:1])  # and serves the rest


def test_opening_hashes_every_shard_of_the_folder_and_no_heavy_library_is_loaded(toy, monkeypatch):
    names, true = [], shards.hash_file
    monkeypatch.setattr(shards, "hash_file", lambda path: names.append(path.name) or true(path))
    generators.open(toy[1]).to("probe-test")
    assert sorted(names) == sorted(path.name for path in toy[1].glob("*.tar")) and len(names) == 6
    code = (
        "import sys, generators; data = generators.open(sys.argv[1]); data[40], data.labels(); "
        "print(len(data), {'torch', 'webdataset', 'sklearn', 'pandas', 'pyarrow'} & set(sys.modules))"
    )
    answer = subprocess.run([sys.executable, "-c", code, toy[1]], capture_output=True, text=True, check=True)
    assert answer.stdout == "41 set()\n"
