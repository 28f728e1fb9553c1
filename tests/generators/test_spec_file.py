"""Spec files: there and back, every fault at once, flags over file, and what `--print-config` prints is enough."""

import pytest
import yaml
from toy_data import write_toy

from generators import manifest, spec_file
from generators.catalog import dataset
from generators.dataset import UserError
from suppression_bench.cli import main


def bench(*arguments) -> int:
    return main([str(argument) for argument in arguments])


def written(place, text: str) -> str:
    place.write_text(text, encoding="utf-8")
    return str(place)


DATASETS = [
    ("randbit", {}),
    ("randbit", {"image_source": "leaves", "image_size": 33, "train": 5}),
    ("multidigits", {}),
    ("multidigits", {"sizes": [20, 80], "distinct": "classes", "probe_train": 3}),
    ("digit-on-imagenet", {"digits": "redraw", "rounds": 2, "unique_digits": 7, "probe_on": "pretrain"}),
]


@pytest.mark.parametrize("name, options", DATASETS, ids=str)
def test_there_and_back(name, options, tmp_path):
    made = dataset(name, options)
    found = spec_file.read(written(tmp_path / "a.yaml", spec_file.write(made, name, 7, 123)))
    assert (found.dataset, found.seed, found.shard_size, found.options) == (name, 7, 123, made.open_options)
    again = dataset(found.dataset, found.options)
    assert manifest.identity(again, 7) == manifest.identity(made, 7) and again.options == made.options


@pytest.mark.parametrize("place", ["a b/größe  zwei", "x: y #z", "'", "-", "y" * 300 + " " + "z" * 200, "none", "1e3"])
def test_odd_texts_and_fractions_come_back(place, tmp_path):
    path = write_toy(tmp_path / "my files", ("noise: float | None = None", "noise: float = 0.1, place: str = ''"))
    for noise in (0.1, 1e-7, 1e300, -0.0, 1 / 3):
        made = dataset(path, {"noise": noise, "place": place})
        found = spec_file.read(written(tmp_path / "a.yml", spec_file.write(made, path, -3, 1)))
        assert found.dataset == path and found.options == {"train": 41, "test": 9, "noise": noise, "place": place}
        assert dataset(found.dataset, found.options).options == made.options and found.seed == -3


def test_only_the_dataset_is_needed(tmp_path):
    assert spec_file.read(written(tmp_path / "a.yaml", "dataset: randbit\n")) == spec_file.Spec("randbit")
    text = "dataset: multidigits\noptions:\nseed:\nshard_size: '5'\n"
    assert spec_file.read(written(tmp_path / "a.yaml", text)) == spec_file.Spec("multidigits", {}, None, 5)
    assert spec_file.is_spec("x.yml") and spec_file.is_spec("x.yaml") and not spec_file.is_spec("yaml")


FAULTS = {
    "all at once": (
        "datset: x\nseed: 1.5\nshard_size: many\noptions: [1]\ndataset: multidigits\ncount: 3\n5: 6\n",
        [
            "unknown key 'datset', did you mean 'dataset'?",
            "seed must be an integer, got 1.5",
            "shard_size must be an integer, got 'many'",
            "options must be names and values, got [1]",
            "unknown key 'count'",
            "it is an option: write it below `options:`",
            "unknown key 5",
        ],
    ),
    "options at once": (
        "dataset: multidigits\noptions: {cuont: 2, canvas: wide, placement: gird, train: true}\n",
        ["did you mean 'count'?", "canvas must be an integer, got 'wide'", "one of random, grid", "train must be"],
    ),
    "option beside, with hyphen": ("dataset: multidigits\nprobe-train: 3\n", ["'probe-train'", "below `options:`"]),
    "no option beside": ("dataset: randbit\ncolour: red\n", ["unknown key 'colour', known: dataset, options, seed"]),
    "missing dataset": ("seed: 1\nsead: 2\n", ["the key 'dataset' is missing", "did you mean 'seed'?"]),
    "empty dataset": ("dataset:\n", ["the key 'dataset' is missing"]),
    "dataset of another type": ("dataset: 5\ntrain: 3\n", ["dataset must be a text, got 5", "unknown key 'train'"]),
    "unknown dataset": ("dataset: randbitt\nsede: 1\n", ["did you mean 'randbit'?", "did you mean 'seed'?"]),
    "missing file of a dataset": ("dataset: nowhere/mine.py\n", ["nowhere/mine.py: no such file"]),
    "key a truth": ("dataset: randbit\non: 2\n", ["unknown key True"]),
    "names that are numbers": ("dataset: randbit\noptions: {3: 4}\n", ["options must be names and values"]),
    "broken": ("dataset: [randbit\n", ["not valid YAML"]),
    "a Python object": ("dataset: !!python/object/apply:os.system ['true']\n", ["not valid YAML"]),
    "no such day": ("dataset: randbit\nseed: 2001-13-45\n", ["not valid YAML", "month"]),
    "too deep": ("[" * 2000, ["not valid YAML"]),
    "a text": ("randbit", ["a spec is a file of names and values", "got str"]),
    "nothing": ("", ["got NoneType"]),
}


@pytest.mark.parametrize("case", FAULTS)
@pytest.mark.slow
def test_every_fault_at_once(case, tmp_path, capsys):
    text, parts = FAULTS[case]
    path = written(tmp_path / "mine.yaml", text)
    with pytest.raises(UserError) as caught:
        spec_file.read(path)
    lines = str(caught.value).split("\n")
    assert all(line.startswith(f"{path}: ") for line in lines)
    assert all(part in str(caught.value) for part in parts), str(caught.value)
    for command in ("generate", "preview"):
        assert bench(command, path, "--out", tmp_path / "out.png") == 2
        said = capsys.readouterr().err
        assert said.count("bench: error: ") == len(lines) and "Traceback" not in said
    assert not (tmp_path / "out.png").exists()


def test_missing_unreadable_and_foreign_files(tmp_path, capsys):
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "latin.yaml").write_bytes("dataset: größe".encode("latin-1"))
    (tmp_path / "nul.yaml").write_bytes(b"dataset: \0")
    for name, part in (
        ("none.yaml", "no such file; `bench generate DATASET --print-config`"),
        ("folder.yaml", "cannot be read"),
        ("latin.yaml", "not valid YAML"),
        ("nul.yaml", "not valid YAML"),
        ("nul.yaml/x.yaml", "cannot be read"),
    ):
        with pytest.raises(UserError, match=part):
            spec_file.read(tmp_path / name)
        assert bench("generate", f"{tmp_path}/./{name}", "--out", tmp_path / "out") == 2
        assert part in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def digest(folder) -> str:
    return manifest.read(folder).content_digest


def test_flags_win_over_the_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = "dataset: randbit\nseed: 5\nshard_size: 4\noptions: {train: 9, test: 3}\n"
    written(tmp_path / "mine.yaml", text)
    assert bench("generate", "mine.yaml", "--out", "a") == 0
    assert bench("generate", "mine.yaml", "--out", "b", "--train", 7, "--seed", 0, "--shard-size", 5) == 0
    assert bench("generate", "randbit", "--out", "c", "--train", 7, "--test", 3) == 0
    first, second = manifest.read(tmp_path / "a"), manifest.read(tmp_path / "b")
    assert first.seed == 5 and first.splits["pretrain"].count == 9 and second.seed == 0
    assert [len(one.splits["pretrain"].shards) for one in (first, second)] == [3, 2]
    assert second.content_digest == digest(tmp_path / "c") != first.content_digest
    written(tmp_path / "hyphen.yaml", "dataset: multidigits\noptions: {probe-train: 4, probe_test: 3, train: 2}\n")
    assert bench("generate", "hyphen.yaml", "--out", "d", "--probe-train", 5) == 0
    counts = {name: split.count for name, split in manifest.read(tmp_path / "d").splits.items()}
    assert counts == {"pretrain": 2, "probe-train": 5, "probe-test": 3}


def test_flags_win_over_the_file_in_a_preview(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "mine.yaml", "dataset: randbit\nseed: 5\noptions: {train: 9, test: 3}\n")
    for name, more in (("a", ["--seed", 0]), ("b", []), ("c", ["--seed", 0, "--train", 8])):
        assert bench("preview", "mine.yaml", "--out", f"{name}.png", *more) == 0
    (tmp_path / "randbit").mkdir()  # a folder of the dataset's name is not what the spec means
    assert bench("preview", "mine.yaml", "--out", "d.png") == 0
    assert bench("preview", "randbit", "--out", "e.png") == 2  # but what a plain name means, once it is there
    (tmp_path / "randbit").rmdir()
    assert bench("preview", "randbit", "--seed", 5, "--test", 3, "--train", 9, "--out", "e.png") == 0
    sheets = {name: (tmp_path / f"{name}.png").read_bytes() for name in "abcde"}
    assert sheets["b"] == sheets["d"] == sheets["e"] and len(set(sheets.values())) == 3


@pytest.mark.parametrize(
    "name, flags",
    [
        ("randbit", ["--train", 6, "--test", 2]),
        ("multidigits", ["--sizes", 20, 40, "--train", 4, "--probe-train", 2, "--probe-test", 2]),
        ("digit-on-imagenet", ["--image-size", 32, "--train", 4, "--test", 2, "--unique-digits", 3, "--blend", "add"]),
    ],
)
def test_what_print_config_prints_is_the_dataset(name, flags, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert bench("generate", name, *flags, "--seed", 3, "--out", "direct") == 0
    capsys.readouterr()
    assert bench("generate", name, *flags, "--seed", 3, "--print-config") == 0
    text = capsys.readouterr().out
    assert not list(tmp_path.glob("*.yaml")) and set(yaml.safe_load(text)) == {*spec_file.KEYS, "options"}
    written(tmp_path / "printed.yaml", text)
    assert bench("generate", "printed.yaml", "--out", "again") == 0
    assert digest(tmp_path / "again") == digest(tmp_path / "direct")
    capsys.readouterr()
    assert bench("generate", "printed.yaml", "--print-config") == 0 and capsys.readouterr().out == text


def test_a_dataset_of_a_user_in_a_spec_of_another_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_toy(tmp_path / "my sets")
    (tmp_path / "specs").mkdir()
    text = "dataset: my sets/toy.py\noptions: {train: 12, noise: 0.25}\nshard_size: 5\n"
    written(tmp_path / "specs" / "a.yaml", text)
    assert bench("generate", "specs/a.yaml", "--out", "out one", "--workers", 2) == 0
    assert bench("generate", "my sets/toy.py", "--train", 12, "--noise", 0.25, "--out", "two") == 0
    found = manifest.read(tmp_path / "out one")
    assert found.content_digest == digest(tmp_path / "two") and found.options["noise"] == "0.25"
    assert bench("verify", "out one", "--deep", "--dataset", "my sets/toy.py") == 0
    written(tmp_path / "specs" / "b.yaml", "dataset: my sets/toy.py\noptions: {noice: 1}\n")
    assert bench("generate", "specs/b.yaml", "--out", "out three") == 2 and not (tmp_path / "out three").exists()
