"""The commands around datasets on the command line: every fault a sentence, odd paths, workers, Ctrl-C."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from PIL import Image

from generators import manifest
from generators.files import dumps_json
from generators.inspect import verify
from suppression_bench.cli import main


def bench(*arguments) -> int:
    return main([str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "randbit"
    assert bench("generate", "randbit", "--train", 20, "--test", 10, "--out", folder) == 0
    return folder


USER_DATASET = '''
"""A dataset of a user."""
import numpy as np
from generators.dataset import Dataset, Feature

class Own(Dataset):
    image_shape = (8, 8, 1)
    features = {{"a": Feature(2)}}
    targets = ["a"]
    probes = {{"a": ("pretrain", "test")}}
    recipe, sources, splits = "randbit", {{}}, {{"pretrain": 20, "test": 5}}

    def __init__(self, *, {option}: int = 1): ...

    def draw(self, split, index, stream):
        return {{"a": {label}}}, {{}}

    def render(self, labels, factors, stream):
        return np.full((8, 8, 1), labels["a"], dtype=np.uint8)
'''


def write_dataset(folder, option="size", label="int(stream.below(0, [2], 1)[0])"):
    folder.mkdir(exist_ok=True, parents=True)
    (folder / "own.py").write_text(USER_DATASET.format(option=option, label=label))
    return folder / "own.py"


FAULTS = [
    (["generate"], ["dataset", "bench generate --help"]),
    (["generate", "--out", "{out}", "randbit"], ["--out stands before the dataset"]),
    (["generate", "randbit", "multidigits", "--out", "{out}"], ["too many names"]),
    (["generate", "randbit", "--oout", "{out}"], ["did you mean '--out'?"]),
    (["generate", "randbit", "--out", "{out}", "--seed", "1.5"], ["--seed must be an integer, got '1.5'"]),
    (["generate", "randbit", "--out", "{out}", "--workers", "0"], ["--workers must be at least 1, got 0"]),
    (["generate", "randbit", "--out", "{out}", "--shard-size", "-1"], ["--shard-size -1"]),
    (["generate", "randbit", "--out", "{out}", "--image-size", "4"], ["--image-size 4: from 8"]),
    (["generate", "randbit", "--out", "{out}", "--image-source", "leaves", "--digit-source", "optdigits"], ["exclude"]),
    (["generate", "randbit", "--out", "{out}", "--image-source", ""], ["unknown image source ''"]),
    (["generate", "randbit", "--out", "{data}/manifest.json"], ["is a file"]),
    (["generate", "multidigits", "--print-config", "--count", "x"], ["count must be an integer or none, got 'x'"]),
    (["generate", "digit-on-imagenet", "--print-config", "--rounds", "2"], ["--rounds 2"]),
    (["generate", "spec.yaml", "--out", "{out}"], ["spec.yaml: no such file", "--print-config"]),
    (["generate", "{clash}", "--out", "{out}"], ["own: the option 'seed' is called like one of `bench generate`"]),
    (["generate", "{deep_clash}", "--out", "{out}"], ["own: the option 'dataset' is called like"]),
    (["preview", "{clash}", "--out", "{out}.png"], ["the option 'seed' is called like one of `bench preview`"]),
    (["preview"], ["dataset"]),
    (["preview", "--samples", "3"], ["--samples stands before the dataset"]),
    (["preview", "randbit"], ["--out is missing"]),
    (["preview", "randbit", "--out", "{out}.png", "--samples", "0"], ["--samples must be at least 1, got 0"]),
    (["preview", "randbit", "--out", "{out}.png", "--samples", "-3"], ["--samples must be at least 1, got -3"]),
    (["preview", "randbit", "--out", "{out}.png", "--split", "pretrian"], ["did you mean 'pretrain'?"]),
    (["preview", "randbitt", "--out", "{out}.png"], ["unknown dataset 'randbitt'", "did you mean 'randbit'?"]),
    (["preview", "randbit", "--out", "{out}.gif"], ["ends in .png"]),
    (["preview", "{data}", "--out", "{out}.png", "--seed", "1"], ["--seed goes with a dataset that is drawn"]),
    (["preview", "{data}", "--out", "{out}.png", "--split", "probe-tset"], ["did you mean 'probe-test'?"]),
    (["preview", "{data}", "--out", "{out}.png", "--train", "5"], ["unknown argument '--train'"]),
    (["preview", "{tmp}", "--out", "{out}.png"], ["has no manifest.json"]),
    (["preview", "{tmp}/none", "--out", "{out}.png"], ["no such folder or file"]),
    (["preview", "{broken}", "--out", "{out}.png"], ["ZeroDivisionError", "drawing sample", "of pretrain"]),
    (["preview", "digit-on-imagenet", "--out", "{out}.png", "--image-size", "600"], ["16 to 512 pixels, not 600"]),
    (["describe"], ["folder"]),
    (["describe", "{tmp}/none"], ["is not there", "bench generate"]),
    (["describe", "{tmp}"], ["has no manifest.json"]),
    (["describe", "{data}", "--out", "{out}.txt"], ["ends in .md"]),
    (["describe", "{data}", "--otu", "x"], ["did you mean '--out'?"]),
    (["verify", "{tmp}/none", "--deep"], ["is not there"]),
    (["verify", "{data}", "--image-source", "leaves"], ["--image-source goes with --deep"]),
    (["verify", "{data}", "--digit-source", "optdigits"], ["--digit-source goes with --deep"]),
    (["verify", "{data}", "--dataset", "x.py"], ["--dataset goes with --deep"]),
    (["verify", "{data}", "--deep", "--samples", "0"], ["--samples must be at least 1"]),
    (["verify", "{data}", "--deep", "--dataset", "{tmp}/x.py"], ["no such file"]),
    (["verify", "{data}", "--deep", "--image-source", "leaves"], ["this dataset has no such source"]),
]


@pytest.mark.parametrize("arguments, parts", FAULTS, ids=[" ".join(fault[0])[:60] for fault in FAULTS])
def test_a_fault_is_a_sentence(arguments, parts, data, tmp_path, capsys, monkeypatch):
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    paths = {
        "data": data,
        "tmp": work,
        "out": work / "out",
        "clash": write_dataset(tmp_path / "clash", "seed"),
        "deep_clash": write_dataset(tmp_path / "other", "dataset"),
        "broken": write_dataset(tmp_path / "broken", label="1 // (index % 2)"),
    }
    assert bench(*[argument.format(**paths) for argument in arguments]) == 2
    output = capsys.readouterr()
    assert output.err.startswith("bench: error: ") and "Traceback" not in output.err and output.err.count("\n") == 1
    assert all(part in output.err for part in parts), output.err
    assert not list(work.iterdir()), "nothing may be half-written"


@pytest.mark.parametrize("command", ["generate", "preview", "describe", "verify"])
def test_help_comes_without_a_dataset_and_with_one(command, capsys):
    for arguments in ([command, "--help"], [command, "randbit", "--help"], [command, "-h"]):
        assert bench(*arguments) == 0
        output = capsys.readouterr().out
        assert f"bench {command}" in output
        assert ("--image-source" in output) == (command == "verify" or (len(arguments) == 3 and command != "describe"))


def test_huge_numbers_are_answered_at_once(tmp_path, capsys):
    huge = ["multidigits", "--train", 10**12]
    assert bench("generate", *huge, "--out", tmp_path / "out") == 2
    assert "at most 100000000 samples" in capsys.readouterr().err and not (tmp_path / "out").exists()
    assert bench("preview", *huge, "--split", "pretrain", "--samples", 3, "--out", tmp_path / "a.png") == 0
    for command in (["generate", "--out", tmp_path / "out"], ["preview", "--out", tmp_path / "b.png"]):
        assert bench(command[0], "multidigits", "--train", 10**30, *command[1:]) == 2
        assert "Traceback" not in capsys.readouterr().err


def test_the_size_is_said_before_anything_is_written(tmp_path, capsys):
    assert bench("generate", "randbit", "--train", 400, "--shard-size", 150, "--out", tmp_path / "out") == 0
    first, *_, last = capsys.readouterr().out.strip().split("\n")
    size = sum(path.stat().st_size for path in (tmp_path / "out").glob("*.tar"))
    assert first.startswith(f"{tmp_path / 'out'}: about ") and " in 6 shards (" in first and " are free)" in first
    amount, unit = first.split("about ")[1].split(" in ")[0].split(" ")
    assert unit == "MB" and float(amount) * 1e6 == pytest.approx(size, rel=0.1)
    assert last.startswith(f"content digest {manifest.read(tmp_path / 'out').content_digest} (")


def test_bounds_in_a_list_serve_a_folder_as_well_as_a_preview(tmp_path):
    path = write_dataset(tmp_path / "user")
    assert bench("generate", path, "--out", tmp_path / "out") == 0
    assert bench("verify", tmp_path / "out", "--deep", "--dataset", path) == 0
    assert bench("preview", path, "--out", tmp_path / "a.png") == 0


@pytest.mark.parametrize("name", ["randbit", "digit-on-imagenet"])
def test_relative_places_with_spaces_and_two_workers(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for part in ("train", "val"):
        for kind in ("ännt", "b e e", "<b>|\n*c*", "\udcff"):  # the last one is no UTF-8 on the disk
            (tmp_path / "my pictures" / part / kind).mkdir(parents=True)
            for number in range(6):
                picture = Image.new("RGB", (20, 10), (number, 9, 9))
                picture.save(tmp_path / "my pictures" / part / kind / f"{number} ü.png")
    flags = ["--image-source", "folder:my pictures", "--image-size", 33, "--shard-size", 5]
    assert bench("generate", name, *flags, "--workers", 2, "--out", "größe 1") == 0
    assert bench("generate", name, *flags, "--out", "one") == 0
    assert manifest.read(tmp_path / "größe 1").content_digest == manifest.read(tmp_path / "one").content_digest
    assert bench("verify", "größe 1", "--deep", "--image-source", f"folder:{tmp_path}/my pictures") == 0
    assert bench("describe", "größe 1", "--out", "karten/größe.md") == 0
    assert bench("preview", "größe 1", "--out", "ä b.png") == 0
    assert (tmp_path / "karten" / "größe.png").exists() and "Traceback" not in capsys.readouterr().err


FORGED = {
    "source a number": lambda content: content["sources"].update(images=3),
    "source without licence": lambda content: content["sources"]["digits"].pop("licence"),
    "classes a text": lambda content: content["sources"]["digits"].update(classes="abc"),
    "code without label": lambda content: content.update(constant_channels={"max": 3}),
    "code without channels": lambda content: content.update(constant_channels={"label": "code", "max": 0}),
}


@pytest.mark.parametrize("case", FORGED)
def test_forged_manifests_are_refused_by_every_command(case, data, tmp_path, capsys):
    import shutil

    folder = shutil.copytree(data, tmp_path / "copy")
    content = json.loads((folder / manifest.NAME).read_text())
    FORGED[case](content)
    content["content_digest"] = manifest.overall_digest(content)
    (folder / manifest.NAME).write_text(dumps_json(content))
    for command in (["verify"], ["verify", "--deep"], ["describe"], ["preview", "--out", tmp_path / "x.png"]):
        assert bench(command[0], folder, *command[1:]) == 2
        output = capsys.readouterr().err
        assert "manifest.json: " in output and "Traceback" not in output
    assert not (tmp_path / "x.png").exists()


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
@pytest.mark.slow
def test_a_stopped_generation_goes_on(kind, workers, tmp_path):
    out = tmp_path / "out"
    generate = ["generate", "multidigits", "--count", "8", "--train", "5000", "--probe-train", "9", "--probe-test", "9"]
    generate += ["--shard-size", "200", "--workers", str(workers), "--out", str(out)]
    command = [sys.executable, "-m", "suppression_bench.cli", *generate]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, env=os.environ, text=True)
    until = time.monotonic() + 60
    while len(list(out.glob("*.tar"))) < 2 and process.poll() is None and time.monotonic() < until:
        time.sleep(0.005)
    process.send_signal(kind)
    output = process.communicate(timeout=60)[1]
    if process.returncode == 0:
        pytest.skip("it was faster than the signal")
    assert process.returncode == 130 and output.endswith("goes on where this one stopped\n"), output
    assert workers > 1 or "Traceback" not in output
    assert not (out / manifest.NAME).exists() and len(list(out.glob("*.tar"))) >= 2
    kept = {path: path.stat().st_mtime_ns for path in out.glob("*.tar")}
    assert bench(*generate) == 0
    assert verify(out).splits["pretrain"].count == 5000 and not list(out.glob("*.tmp"))
    assert sum(path.stat().st_mtime_ns == stamp for path, stamp in kept.items()) >= len(kept) - 2
