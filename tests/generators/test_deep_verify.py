"""verify --deep: a folder that agrees with itself and is not what its spec draws is found out and named."""

import shutil

import numpy as np
import pytest
from PIL import Image
from toy_data import forge, make, write_toy

from generators import inspect, manifest, shards
from generators.build import build
from generators.catalog import dataset
from generators.dataset import UserError
from generators.inspect import verify
from suppression_bench.cli import main


def bench(*arguments) -> int:
    return main([str(argument) for argument in arguments])


def refused(capsys, *arguments, code: int = 2) -> str:
    capsys.readouterr()
    assert bench("verify", *arguments) == code
    said = capsys.readouterr()
    assert "Traceback" not in said.err and "drawn anew and equal" not in said.out
    assert all(line.startswith("bench: error: ") for line in said.err.strip().split("\n"))
    return said.err


@pytest.mark.parametrize(
    "name, options",
    [
        ("randbit", {"train": 30, "test": 9}),
        ("randbit", {"image_source": "leaves", "image_size": 16, "train": 30, "test": 20}),
        ("multidigits", {"sizes": [9, 20], "canvas": 40, "train": 30, "probe_train": 3, "probe_test": 2}),
        ("digit-on-imagenet", {"image_size": 32, "train": 5, "test": 4, "unique_digits": 2, "probe_on": "pretrain"}),
    ],
    ids=str,
)
def test_what_was_generated_is_equal(name, options, tmp_path, capsys):
    made = dataset(name, options)
    build(made, tmp_path / "out", seed=4, shard_size=7)
    assert bench("verify", tmp_path / "out", "--deep", "--samples", 6) == 0
    wanted = sum(min(6, count) for count in made.splits.values())
    assert f"drawn anew and equal: {wanted} samples" in capsys.readouterr().out
    found = manifest.read(tmp_path / "out")
    assert inspect.redraw(tmp_path / "out", found, inspect.dataset_of(found.dataset, found.options), 1) == len(
        made.splits
    )
    assert inspect.redraw(tmp_path / "out", found, inspect.dataset_of(found.dataset, found.options), 10**6) == sum(
        made.splits.values()
    )


FORGED = {
    "one pixel of each": ("return picture", "return picture ^ 1", 41),
    "one sample of all": ("return picture", "picture[0, 0, 0] ^= stream.index == 40\n        return picture", 1),
    "labels": ("stream.below(1, 5, 2)", "stream.below(9, 5, 2)", None),
    "factors": ('{"row": int(stream.below(2, 5, 1)[0])}', '{"row": 0}', None),
    "another factor": ('{"row": int', '{"more": 1, "row": int', 41),
}


@pytest.mark.parametrize("case", FORGED)
def test_a_folder_that_agrees_with_itself_alone(case, toy, tmp_path, capsys):
    old, new, differing = FORGED[case]
    forger = write_toy(tmp_path / "forger", (old, new))
    make(forger, tmp_path / "out", shard_size=10)
    assert verify(tmp_path / "out") and bench("verify", tmp_path / "out", "--deep", "--dataset", forger) == 0
    said = refused(capsys, tmp_path / "out", "--deep", "--dataset", toy)
    count = f"{differing} of 41" if differing else "of 41"
    assert f"{count} samples of pretrain differ, first sample" in said
    assert ("of probe-test differ" in said) == (case != "one sample of all")
    assert "made with other versions" not in said


def test_left_out_samples_and_splits_are_found(toy, tmp_path, capsys):
    """A manifest may claim all options and hold fewer samples: its shards and digests agree all the same."""
    short = write_toy(tmp_path / "short", ('"pretrain": train', '"pretrain": train - 1'))
    make(short, tmp_path / "a")
    assert verify(tmp_path / "a").options["train"] == 41
    assert "splits.pretrain: 40 there, 41 here" in refused(capsys, tmp_path / "a", "--deep", "--dataset", toy)
    more = write_toy(tmp_path / "more", ('"probe-test": test', '"probe-test": test, "spare": 3'))
    make(more, tmp_path / "b")
    assert "splits.spare: 3 there, nothing here" in refused(capsys, tmp_path / "b", "--deep", "--dataset", toy)
    make(toy, tmp_path / "c")
    assert "splits.spare: nothing there, 3 here" in refused(capsys, tmp_path / "c", "--deep", "--dataset", more)


@pytest.mark.parametrize(
    "old, new, part",
    [
        ("targets =", "version = 2\n    targets =", "version: 1 there, 2 here"),
        ("Feature(2)", "Feature(3)", "features.parity.classes: 2 there, 3 here"),
        ('targets = ["parity"]', "targets = []", 'targets: ["parity"] there, [] here'),
        (
            "train: int = 41, test: int = 9",
            "test: int = 9, train: int = 41, extra: int = 1",
            "options.extra: nothing there, 1 here",
        ),
        (
            "sources = {}",
            "from generators import sources as s\n    sources = {'d': s.digits('optdigits')}",
            "sources.d.name: nothing there, optdigits here",
        ),
    ],
)
def test_another_version_and_shape_are_named(old, new, part, toy, tmp_path, capsys):
    make(toy, tmp_path / "out")
    other = write_toy(tmp_path / "other", (old, new))
    said = refused(capsys, tmp_path / "out", "--deep", "--dataset", other)
    assert "the spec does not give this dataset" in said and part in said
    described = write_toy(tmp_path / "recipe", ('recipe = "toy"', 'recipe = "other"\n    strength = "train"'))
    assert bench("verify", tmp_path / "out", "--deep", "--dataset", described) == 0


def pictures(place, shade: int) -> str:
    for part in ("train", "val"):
        for name in ("ant", "bee"):
            (place / part / name).mkdir(parents=True)
            for number in range(3):
                Image.new("RGB", (20, 10), (shade, number, 9)).save(place / part / name / f"{number}.png")
    return f"folder:{place}"


@pytest.mark.parametrize("name", ["randbit", "digit-on-imagenet"])
def test_folders_of_pictures_must_be_named_and_be_the_same(name, tmp_path, capsys):
    source, other = pictures(tmp_path / "a b", 50), pictures(tmp_path / "other", 51)
    build(dataset(name, {"image_source": source, "image_size": 32}), tmp_path / "out")
    assert "a b" not in (tmp_path / "out" / manifest.NAME).read_text()
    said = refused(capsys, tmp_path / "out", "--deep")
    assert "not where it lies: add --image-source folder:DIR" in said
    said = refused(capsys, tmp_path / "out", "--deep", "--image-source", other)
    assert "sources.images.digest: " in said and str(tmp_path / "other") not in said
    assert "options.image_source: folder there, leaves here" in refused(
        capsys, tmp_path / "out", "--deep", "--image-source", "leaves"
    )
    assert "no such folder" in refused(capsys, tmp_path / "out", "--deep", "--image-source", f"folder:{tmp_path}/none")
    moved = shutil.move(tmp_path / "a b", tmp_path / "größe")
    assert bench("verify", tmp_path / "out", "--deep", "--image-source", f"folder:{moved}") == 0


def test_sources_that_the_dataset_does_not_have(tmp_path, toy, capsys):
    build(dataset("randbit", {"train": 3, "test": 2}), tmp_path / "out")
    said = refused(capsys, tmp_path / "out", "--deep", "--image-source", "leaves")
    assert "--image-source: this dataset has no such source" in said and "digit_source" in said
    assert "mnist" in refused(capsys, tmp_path / "out", "--deep", "--digit-source", f"mnist:{tmp_path}")
    assert bench("verify", tmp_path / "out", "--deep", "--digit-source", "optdigits") == 0
    make(toy, tmp_path / "toy")
    assert "none are known" in refused(capsys, tmp_path / "toy", "--deep", "--dataset", toy, "--digit-source", "mnist")


def test_a_user_s_dataset_needs_its_file_and_the_manifest_never_names_code(toy, tmp_path, capsys):
    make(toy, tmp_path / "out")
    assert "'toy' is no dataset of this package; name its own file with --dataset" in refused(
        capsys, tmp_path / "out", "--deep"
    )
    evil = tmp_path / "evil.py"
    evil.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    forge(tmp_path / "out", lambda found: found.update(dataset=str(evil)))
    assert "is no dataset of this package" in refused(capsys, tmp_path / "out", "--deep")
    assert not (tmp_path / "ran").exists()
    shutil.rmtree(tmp_path / "out")
    make(toy, tmp_path / "out")
    renamed = shutil.copy(toy, tmp_path / "renamed.py")  # streams hang on the name in the manifest, not on the file's
    assert bench("verify", tmp_path / "out", "--deep", "--dataset", renamed) == 0
    broken = write_toy(tmp_path / "broken", ("picture[factors", "1 / 0\n        picture[factors"))
    said = refused(capsys, tmp_path / "out", "--deep", "--dataset", broken)
    assert "ZeroDivisionError" in said and "sample 0 of pretrain" in said


def test_other_versions_are_named_beside_a_difference(toy, tmp_path, capsys):
    forger = write_toy(tmp_path / "forger", ("= 255", "= 254"))
    make(forger, tmp_path / "out")

    def change(found):
        found["environment"].update(pillow="1.1.7", gpu="none")
        del found["environment"]["jpeg"]

    forge(tmp_path / "out", change)
    said = refused(capsys, tmp_path / "out", "--deep", "--dataset", toy)
    assert (
        "made with other versions: " in said and "pillow 1.1.7 there, " in said and "gpu none there, None here" in said
    )
    assert "numpy" not in said


def test_files_are_checked_before_anything_is_drawn(toy, tmp_path, capsys):
    make(toy, tmp_path / "out", shard_size=10)
    shard = tmp_path / "out" / "pretrain-00001.tar"
    shard.write_bytes(shard.read_bytes()[:-512])
    said = refused(capsys, tmp_path / "out", "--deep", "--dataset", toy)
    assert "pretrain-00001.tar" in said and "differ" not in said


def test_swapped_labels_in_files_and_manifest_are_found(toy, tmp_path):
    """Shards written anew by hand, every digest made to agree: only drawing again shows it."""
    made = dataset(toy, {})
    samples = [made.sample("pretrain", index, 0) for index in range(41)]
    samples[20].labels["parity"] ^= 1
    build(made, tmp_path / "out", reference=toy)
    result = shards.write_shard(tmp_path / "out" / "pretrain-00000.tar", samples, made.features)
    rest = list(made.samples("probe-test", 0, 9, 0))
    other = shards.write_shard(tmp_path / "out" / "probe-test-00000.tar", rest, made.features)
    whole = manifest.assemble(manifest.identity(made, 0), {"pretrain": [result], "probe-test": [other]})
    manifest.write(tmp_path / "out", whole)
    assert verify(tmp_path / "out").content_digest == whole.content_digest
    with pytest.raises(UserError, match="1 of 41 samples of pretrain differ, first sample 20"):
        inspect.redraw(tmp_path / "out", whole, made)
    assert np.array_equal(samples[20].image, made.sample("pretrain", 20, 0).image)
