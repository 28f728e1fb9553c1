"""Damaged folders and manifests: each fault is refused by name."""

import json
import shutil
from pathlib import Path

import pytest
from toy_data import forge, write_toy

from generators import files, manifest
from generators.build import build
from generators.catalog import dataset
from generators.dataset import UserError
from generators.inspect import verify


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("faults")
    path = write_toy(place / "user")
    build(dataset(path, {}), place / "whole", reference=path, shard_size=10)
    return place / "whole"


@pytest.fixture
def folder(whole, tmp_path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "copy"))


def refused(folder: Path, *parts: str) -> str:
    with pytest.raises(UserError) as caught:
        verify(folder)
    assert all(part in str(caught.value) for part in parts), str(caught.value)
    assert caught.value.exit_code == 2
    return str(caught.value)


NAME = "pretrain-00002.tar"


def test_truncation_anywhere_is_noticed(whole, tmp_path):
    data = (whole / NAME).read_bytes()
    points = {0, 1, 100, 511, 512, 513, 700, 1024, 2048, len(data) // 2, len(data) - 10_240, len(data) - 512}
    verify(whole)
    for point in sorted(points | {len(data) - 1, len(data) - 1024}):
        folder = Path(shutil.copytree(whole, tmp_path / str(point)))
        (folder / NAME).write_bytes(data[:point])
        assert refused(folder, f"{NAME}: the shard has {point} bytes").count("\n") == 0  # the others are good


@pytest.mark.parametrize("place", [0, 130, 1030, -1])
def test_one_flipped_bit_is_noticed(folder, place):
    data = bytearray((folder / NAME).read_bytes())
    data[place] ^= 4
    (folder / NAME).write_bytes(data)
    assert "\n" not in refused(folder, f"{NAME}: SHA-256 is")


def test_missing_extra_renamed_and_swapped_shards(folder):
    (folder / NAME).rename(folder / "pretrain-00007.tar")
    assert "\n" in refused(
        folder, f"{NAME}: the shard is missing", "pretrain-00007.tar: the manifest does not list this shard"
    )
    (folder / "pretrain-00007.tar").rename(folder / NAME)
    verify(folder)
    (folder / "extra.tar").write_bytes(b"")
    refused(folder, "extra.tar: the manifest does not list this shard")
    (folder / "extra.tar").unlink()
    other = folder / "pretrain-00001.tar"
    first, second = other.read_bytes(), (folder / NAME).read_bytes()
    other.write_bytes(second)
    (folder / NAME).write_bytes(first)
    refused(folder, "pretrain-00001.tar: ", f"{NAME}: ")


def test_shards_swapped_in_files_and_manifest(folder):
    found = json.loads((folder / manifest.NAME).read_text())
    entries = found["splits"]["pretrain"]["shards"]
    (folder / "pretrain-00001.tar").rename(folder / "x")
    (folder / NAME).rename(folder / "pretrain-00001.tar")
    (folder / "x").rename(folder / NAME)
    entries[1], entries[2] = {**entries[2], "name": entries[1]["name"]}, {**entries[1], "name": entries[2]["name"]}
    (folder / manifest.NAME).write_text(files.dumps_json(found))
    refused(folder, "pretrain-00001.tar: sample 20 stands out of order", f"{NAME}: sample 10 stands")


def test_no_folder_and_no_manifest(folder, tmp_path):
    refused(tmp_path / "nowhere", "is not there")
    (folder / manifest.NAME).unlink()
    refused(folder, "has no manifest.json", "bench generate")


TEXTS = {
    "repeated key": (('{"', '{"seed":0,"'), "'seed' stands twice"),
    "NaN": (('"seed":0', '"seed":NaN'), "NaN"),
    "float": (('"seed":0', '"seed":0.0'), "0.0"),
    "missing key": (('"seed":0,', ""), "missing required field `seed`"),
    "unknown key": (('"seed":0', '"seed":0,"sead":0'), "unknown field `sead`"),
    "wrong type": (('"seed":0', '"seed":"0"'), "Expected `int`, got `str` - at `$.seed`"),
    "bool for integer": (('"seed":0', '"seed":false'), "got `bool` - at `$.seed`"),
    "null": (('"splits":{', '"splits":null,"x":{'), "got `null` - at `$.splits`"),
    "other schema": (('"schema":1', '"schema":2'), "2 - at `$.schema`"),
    "other seed": (('"seed":0', '"seed":1'), "content_digest does not follow"),
    "other option": (('"train":41', '"train":42'), "content_digest does not follow"),
    "other probe": (('["pretrain","probe-test"]', '["probe-test","pretrain"]'), "content_digest does not follow"),
    "split count": (('"count":41', '"count":42'), "counts do not add up"),
    "shard count": (('"count":1,', '"count":2,'), "counts do not add up"),
    "path": ((f'"{NAME}"', f'"../{NAME}"'), "is no shard name"),
    "absolute path": ((f'"{NAME}"', f'"/tmp/{NAME}"'), "is no shard name"),
    "path inside": ((f'"{NAME}"', '"pretrain-/../../x.tar"'), "is no shard name"),
    "other split's shard": ((f'"{NAME}"', '"probe-test-00000.tar"'), "is no shard name"),
    "no JSON": (('{"', '["'), "not valid JSON"),
    "cut": (('"version":1}\n', ""), "not valid JSON"),
}


@pytest.mark.parametrize("case", TEXTS)
def test_edited_manifest(folder, case):
    (old, new), message = TEXTS[case]
    text = (folder / manifest.NAME).read_text()
    assert old in text
    (folder / manifest.NAME).write_text(text.replace(old, new, 1))
    refused(folder, manifest.NAME, message)


def first(found) -> dict:
    return found["splits"]["pretrain"]["shards"][0]


def test_edited_label_counts(folder):
    def change(found):
        counts = found["splits"]["pretrain"]["class_counts"]["parity"]
        counts[0], counts[1] = counts[0] + 1, counts[1] - 1

    forge(folder, change)
    refused(folder, "class_counts", "pretrain")


def _counts(split, *counts):
    def change(found):
        for entry, count in zip(found["splits"][split]["shards"], counts, strict=False):
            entry["count"] = count
        found["splits"][split]["count"] = sum(entry["count"] for entry in found["splits"][split]["shards"])

    return change


FORGED = {
    "content digest of a split": lambda found: found["splits"]["pretrain"].update(content_digest="0" * 64),
    "content digest of a shard": lambda found: first(found).update(content_digest="0" * 64),
    "digest of a file": lambda found: first(found).update(sha256="0" * 64),
    "size of a file": lambda found: first(found).update(bytes=1),
    "counts moved": _counts("pretrain", 9, 11),
    "shard listed twice": lambda found: found["splits"]["pretrain"]["shards"].__setitem__(1, dict(first(found))),
    "shape of words": lambda found: found.update(picture_shape=["5", 4, 3]),
    "shape of two": lambda found: found.update(picture_shape=[20, 3]),
    "two channels": lambda found: found.update(picture_shape=[5, 4, 2]),
    "negative shape": lambda found: found.update(picture_shape=[-5, 4, 3]),
    "other shape": lambda found: found.update(picture_shape=[4, 5, 3]),
    "negative count": _counts("probe-test", -9),
    "huge count": _counts("probe-test", 2**62),
    "shard no object": lambda found: found["splits"]["pretrain"].update(shards=[3]),
    "split no object": lambda found: found["splits"].update(pretrain=3),
    "feature no object": lambda found: found.update(features={"parity": 2}),
    "fewer classes": lambda found: found["features"]["letters"].update(classes=2),
    "probe of no split": lambda found: found.update(probes={"parity": ["pretrain", "nowhere"]}),
}


@pytest.mark.parametrize("case", FORGED)
def test_forged_manifest(folder, case):
    if case == "split no object":
        text = (folder / manifest.NAME).read_text().replace('"splits":{', '"splits":{"more":3,')
        (folder / manifest.NAME).write_text(text)
    else:
        forge(folder, FORGED[case])
    refused(folder, str(folder))
