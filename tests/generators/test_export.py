"""Parquet: the samples as drawn, through pandas and datasets; whole files only, and no other program's overwritten."""

import io
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image
from toy_data import drawn, folder_bytes, make, write_toy

from generators import export
from generators.dataset import UserError
from generators.export import export_parquet
from suppression_bench.cli import main

parquet = pytest.importorskip("pyarrow.parquet")


@pytest.fixture(scope="module")
def exported(real, tmp_path_factory):
    """A dataset and the files of its export."""
    made, folder = real
    return made, export_parquet(folder, tmp_path_factory.mktemp("exported"))


@pytest.fixture
def toy(tmp_path):
    """The folder of a toy: pretrain 41, probe-test 9."""
    make(write_toy(tmp_path), tmp_path / "set", shard_size=10)
    return tmp_path / "set"


def columns_of(sample):
    return {**sample.labels, **{f"factor_{name}": value for name, value in sample.factors.items()}}


def pixels(data):
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image)[:, :, None]


def test_pandas_reads_it(exported):
    import pandas

    made, files = exported
    assert set(files) == set(made.splits) and all(path.name == f"{split}.parquet" for split, path in files.items())
    for split, path in files.items():
        frame, samples = pandas.read_parquet(path), drawn(made, split)
        assert list(frame["id"]) == list(range(len(samples)))
        named = set(columns_of(samples[0]))
        assert {name for name in frame if not frame[name].isna().all()} == {"picture", "id"} | named
        for row, sample in zip(frame.to_dict("records"), samples, strict=True):
            assert np.array_equal(pixels(row["picture"]["bytes"]), sample.image)
            assert row["picture"]["path"] == f"{sample.index:08d}.png"
            found = {name: row[name].tolist() if isinstance(row[name], np.ndarray) else row[name] for name in named}
            assert found == columns_of(sample)
    assert len({tuple(parquet.read_schema(path).names) for path in files.values()}) == 1


@pytest.mark.parametrize("streaming", [False, True])
def test_hugging_face_reads_it(exported, load, streaming):
    made, files = exported
    for split in ("pretrain", list(files)[-1]):
        found = load("parquet", data_files=str(files[split]), split="train", streaming=streaming)
        samples = drawn(made, split)
        rows = list(found)
        assert len(rows) == len(samples)
        for row, sample in zip(rows, samples, strict=True):
            assert isinstance(row["picture"], Image.Image) and row["picture"].mode == "L"
            assert np.array_equal(np.asarray(row["picture"])[:, :, None], sample.image)
            given = {name: value for name, value in row.items() if name not in ("picture", "id") and value is not None}
            assert given == columns_of(sample) and row["id"] == sample.index
        kinds = {name: type(kind).__name__ for name, kind in found.features.items()}
        for name, feature in made.features.items():
            inner = found.features[name].feature if feature.many else found.features[name]
            assert kinds[name] == ("List" if feature.many else "ClassLabel")
            assert type(inner).__name__ == "ClassLabel" and inner.num_classes == feature.classes
    assert kinds["picture"] == "Image" and kinds["id"] == "Value"


def test_splits_of_one_export_load_together(exported, load):
    made, files = exported
    names = dict(zip("abcdef", files, strict=False))
    together = load("parquet", data_files={short: str(files[split]) for short, split in names.items()})
    assert {short: len(part) for short, part in together.items()} == {
        short: made.splits[split] for short, split in names.items()
    }


def test_the_schema_names_the_dataset(toy, tmp_path):
    files = export_parquet(toy, tmp_path / "out")
    manifest = json.loads((toy / "manifest.json").read_text())
    for split, path in files.items():
        found = json.loads(parquet.read_schema(path).metadata[b"suppression_bench"])
        assert found == {
            "dataset": "toy",
            "version": 1,
            "seed": 0,
            "split": split,
            "content_digest": manifest["content_digest"],
        }


def test_row_groups_keep_memory_flat(toy, tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(export, "GROUP_ROWS", 15)
    files = export_parquet(toy, tmp_path / "rows", lambda *numbers: seen.append(numbers))
    found = parquet.ParquetFile(files["pretrain"])
    assert [found.metadata.row_group(i).num_rows for i in range(found.num_row_groups)] == [15, 15, 11]
    assert seen == [(15, 50), (30, 50), (41, 50), (50, 50)]
    monkeypatch.setattr(export, "GROUP_BYTES", 1)
    assert parquet.ParquetFile(export_parquet(toy, tmp_path / "bytes")["pretrain"]).num_row_groups == 41


def test_again_over_itself_but_over_nothing_else(toy, tmp_path):
    out = tmp_path / "out"
    export_parquet(toy, out)
    first = folder_bytes(out)
    (out / "pretrain.parquet").unlink()
    export_parquet(toy, out)
    assert folder_bytes(out) == first and set(first) == {"pretrain.parquet", "probe-test.parquet"}
    make(write_toy(tmp_path), tmp_path / "other", seed=1)
    with pytest.raises(UserError, match=r"holds other files \(pretrain.parquet, probe-test.parquet\)"):
        export_parquet(tmp_path / "other", out)
    assert folder_bytes(out) == first


@pytest.mark.parametrize("name", ["notes.txt", "pretrain.parquet", "other.parquet", "folder", "foreign"])
def test_other_files_are_left_alone(toy, tmp_path, name):
    out = tmp_path / "out"
    out.mkdir()
    if name == "folder":
        (out / "pretrain.parquet").mkdir()
    elif name == "foreign":
        import pyarrow

        table = pyarrow.table({"a": [1]}).replace_schema_metadata({"suppression_bench": "[]"})
        parquet.write_table(table, out / "pretrain.parquet")
    else:
        (out / name).write_text("mine")
    (there,) = out.iterdir()
    before = there.is_file() and there.read_bytes()
    with pytest.raises(UserError, match="holds other files"):
        export_parquet(toy, out)
    assert list(out.iterdir()) == [there] and (there.is_dir() or there.read_bytes() == before)
    with pytest.raises(UserError, match="holds other files"):
        export_parquet(toy, toy)
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="is a file"):
        export_parquet(toy, tmp_path / "file")


KILLED = """
import os, signal, sys
from generators import export
export.GROUP_ROWS = 15

def stop(done, total):
    if done == int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)

export.export_parquet(sys.argv[1], sys.argv[2], stop)
"""


@pytest.mark.parametrize("done, finished", [(15, set()), (41, set()), (50, {"pretrain.parquet"})])
def test_a_killed_export_leaves_no_partial_file_and_runs_again(toy, tmp_path, done, finished):
    out, whole = tmp_path / "out", tmp_path / "whole"
    answer = subprocess.run([sys.executable, "-c", KILLED, toy, out, str(done)])
    assert answer.returncode == -signal.SIGKILL
    left = {path.name for path in out.iterdir()}
    partial = {name for name in left if name.endswith(".tmp")}
    assert left - partial == finished and len(partial) == 1
    for name in finished:
        assert parquet.read_table(out / name).num_rows == 41
    export_parquet(toy, whole)
    export_parquet(toy, out)
    assert set(folder_bytes(out)) == set(folder_bytes(whole))
    assert all(parquet.read_table(out / name).equals(parquet.read_table(whole / name)) for name in folder_bytes(whole))


def test_an_error_on_the_way_leaves_nothing(toy, tmp_path, monkeypatch):
    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        export_parquet(toy, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_a_damaged_dataset_is_not_exported(toy, tmp_path):
    os.truncate(toy / "pretrain-00001.tar", 5000)
    with pytest.raises(UserError, match=r"pretrain-00001.tar: .*bench generate"):
        export_parquet(toy, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_values_that_come_late_or_never_find_their_column(tmp_path):
    factors = '{"row": 0, "late": ["x"] if index == 30 else [], "never": [], "deep": [[1], []]}'
    path = write_toy(tmp_path, ('{"row": int(stream.below(2, 5, 1)[0])}', factors), ("Feature(2)", "Feature(1001)"))
    make(path, tmp_path / "set")
    table = parquet.read_table(export_parquet(tmp_path / "set", tmp_path / "out")["pretrain"])
    assert table["factor_late"].to_pylist() == [["x"] if i == 30 else [] for i in range(41)]
    assert table["factor_never"].to_pylist() == [[]] * 41 and table["factor_deep"].to_pylist() == [[[1], []]] * 41
    features = json.loads(table.schema.metadata[b"huggingface"])["info"]["features"]
    assert features["parity"] == {"_type": "Value", "dtype": "int64"}  # too many classes to name them
    assert features["factor_late"]["feature"]["dtype"] == "string"


def test_a_feature_that_no_sample_has_keeps_its_column(tmp_path):
    path = write_toy(tmp_path, ("Feature(5, many=True)}", 'Feature(5, many=True), "ghost": Feature(3)}'))
    make(path, tmp_path / "set")
    table = parquet.read_table(export_parquet(tmp_path / "set", tmp_path / "out")["pretrain"])
    assert table["ghost"].null_count == 41
    assert table.column_names == ["picture", "id", "letters", "parity", "ghost", "factor_row"]
    features = json.loads(table.schema.metadata[b"huggingface"])["info"]["features"]
    assert features["ghost"] == {"_type": "ClassLabel", "names": ["0", "1", "2"]}


@pytest.mark.parametrize(
    "factors, sentence",
    [
        ('{"row": 0, "odd": index if index < 30 else "x"}', r"sample 30 of pretrain: odd .*integer before, text here"),
        ('{"row": 0, "odd": [1] if index < 30 else 1}', r"sample 30 of pretrain: odd .*list before, integer here"),
        ('{"row": 0, "odd": [1, "x"]}', r"sample 0 of pretrain: odd .*integer before, text here"),
        ('{"row": 0, "odd": 2**63}', r"9223372036854775808 is no text, no list and no integer of 64 bits"),
    ],
)
def test_values_of_no_column_are_named(tmp_path, factors, sentence):
    path = write_toy(tmp_path, ('{"row": int(stream.below(2, 5, 1)[0])}', factors))
    make(path, tmp_path / "set")
    with pytest.raises(UserError, match=sentence):
        export_parquet(tmp_path / "set", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("label", ["id", "picture", "factor_row"])
def test_two_columns_of_one_name_are_refused(tmp_path, label):
    path = write_toy(tmp_path, ('"letters": letters}', f'"letters": letters, "{label}": 1}}'))
    make(path, tmp_path / "set")
    with pytest.raises(UserError, match=f"two columns would be named {label}"):
        export_parquet(tmp_path / "set", tmp_path / "out")


def test_without_pyarrow_it_says_what_to_install(toy, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UserError, match=r"suppression-bench\[export\]"):
        export_parquet(toy, tmp_path / "out")


def test_the_command_says_how_to_read_what_it_wrote(toy, tmp_path, capsys, load):
    out = str(tmp_path / "it's out")
    assert main(["export", str(toy), "--to", "parquet", "--out", out]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [f"{out}/pretrain.parquet", f"{out}/probe-test.parquet"]
    import pandas

    (frame,) = [line.split(":", 1)[1].strip() for line in lines if line.startswith("pandas:")]
    assert len(eval(frame, {"pandas": pandas})) == 41
    (found,) = [line.split(":", 1)[1].strip() for line in lines if line.startswith("datasets:")]
    assert len(eval(found, {"datasets": type("datasets", (), {"load_dataset": staticmethod(load)})})) == 41


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (["--to", "parqet", "--out", "x"], "--to cannot be 'parqet', did you mean 'parquet'?"),
        (["--to", "parquet"], "--out is missing"),
        (["--out", "x", "--too", "parquet"], "unknown argument '--too', did you mean '--to'"),
    ],
)
def test_a_fault_is_a_sentence(toy, tmp_path, arguments, sentence, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["export", str(toy), *arguments]) == 2
    assert sentence in capsys.readouterr().err and not (tmp_path / "x").exists()
