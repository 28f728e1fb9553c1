"""A cell keeps what its probes said; counted against the dataset's labels it is the record, and nothing else is."""

import numpy as np
import pytest
from safetensors.numpy import save
from small_cells import run

from generators.dataset import UserError
from suppression_bench.results import predictions
from suppression_bench.training.data import Data


@pytest.fixture(scope="module")
def cell(randbit, tmp_path_factory):
    """Record, folder and data of a small cell with every kind of probe and layer."""
    folder = tmp_path_factory.mktemp("cell")
    settings = dict(data__bits=2, probe__kinds=["lbfgs", "online", "sgd"], probe__layers=["encoder", "head"])
    return run("simclr", randbit, folder, **settings), folder, Data(randbit, 2)


def test_the_kept_predictions_give_the_record_again(cell):
    record, folder, data = cell
    identity, found = predictions.read(folder / predictions.NAME)
    assert identity == record.id and len(found) == len(record.probes) == 15
    assert predictions.rescore(record.probes, found, data.labels) == []
    assert all(row.dtype == np.uint8 and len(row) == 100 for row in found.values())


def test_the_labels_are_not_kept(cell):
    record, folder, data = cell
    _, found = predictions.read(folder / predictions.NAME)
    wrong = [probe for probe in record.probes if probe.confusion != np.diag(np.diag(probe.confusion)).tolist()]
    assert wrong  # else the next line would say nothing
    for probe in wrong:
        row = found[probe.probe, probe.layer, probe.feature]
        assert not np.array_equal(row, data.labels("probe-test", probe.feature))


def test_every_contradiction_is_found(cell):
    record, folder, data = cell
    _, found = predictions.read(folder / predictions.NAME)
    place = ("lbfgs", "encoder", "digit")

    def faults(row):
        return predictions.rescore(record.probes, {**found, place: row}, data.labels)

    row = found[place]
    moved = row.copy()
    moved[0] = (moved[0] + 1) % 10
    assert "another confusion matrix" in faults(moved)[0]
    assert "99 predictions for 100" in faults(row[:-1])[0]
    assert "a class beyond the 10" in faults(np.full_like(row, 10))[0]
    assert predictions.rescore(record.probes, {**found, ("a", "b", "c"): row}, data.labels) == [
        "a b c: predictions of a probe that the record does not have"
    ]
    without = {key: value for key, value in found.items() if key != place}
    assert predictions.rescore(record.probes, without, data.labels) == ["lbfgs encoder digit: no predictions"]


def test_the_same_predictions_are_the_same_bytes(tmp_path):
    rows = {("lbfgs", "encoder", name): np.arange(5) * 100 for name in "dbca"}
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        predictions.write(tmp_path / folder, "id", rows)
        rows = dict(reversed(rows.items()))
    assert (tmp_path / "one" / predictions.NAME).read_bytes() == (tmp_path / "two" / predictions.NAME).read_bytes()
    _, found = predictions.read(tmp_path / "one" / predictions.NAME)
    assert found["lbfgs", "encoder", "a"].tolist() == [0, 100, 200, 300, 400]  # too many classes for 8 bits
    assert [path.name for path in (tmp_path / "one").iterdir()] == [predictions.NAME]


@pytest.mark.parametrize(
    "content, words",
    [
        (b"\x80\x04\x95", "no safetensors file"),
        (save({"a/b/c": np.zeros(3, dtype=np.float32)}), "is F32"),
        (save({"a/b/c": np.zeros((3, 1), dtype=np.uint8)}), "U8 of"),
        (save({"digit": np.zeros(3, dtype=np.uint8)}), "named PROBE/LAYER/FEATURE"),
    ],
)
def test_other_files_are_refused(tmp_path, content, words):
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(UserError, match=words):
        predictions.read(tmp_path / "x")
