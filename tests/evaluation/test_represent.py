"""Metrics in the record: from the right samples, views and labels, null where undefined, strictly read, repeatable."""

import json
import math

import msgspec
import numpy as np
import pytest
import torch
from small_cells import CPU, Recorder, built, run
from torch.nn import functional as F

from generators.dataset import UserError
from suppression_bench.cell import Augmentation, Probing
from suppression_bench.evaluation import metrics as metric
from suppression_bench.evaluation.probes import Representation, extract, measure, sample_rows, two_views
from suppression_bench.results import record
from suppression_bench.training.data import Data

BOTH = ["encoder", "head"]


@pytest.fixture(scope="module")
def method(randbit):
    return built("simclr", randbit, data__bits=2)[0]


def described(method, data, augmentation=None, seed=0, **options):
    options = Probing(**{"layers": BOTH, "kinds": [], **options})
    describe = Representation(data, method, options, augmentation or Augmentation(), seed)
    _, _, finite = measure(data, method, options, {}, seed, CPU, describe)
    assert finite
    found = json.loads(json.dumps(describe.metrics(), allow_nan=False))
    msgspec.convert(found, record.Metrics)
    return found


def one(entries, **keys):
    [found] = [entry for entry in entries if all(entry[key] == value for key, value in keys.items())]
    return found


def test_every_number_follows_from_the_features_and_labels(method, randbit):
    data = Data(randbit, 2)
    found = described(method, data)
    assert [(e["layer"], e["n"]) for e in found["layers"]] == [("encoder", 100), ("head", 100)]
    assert sorted((e["feature"], e["layer"]) for e in found["features"]) == [
        (feature, layer) for feature in ("bit00", "bit01", "digit") for layer in BOTH
    ]
    train = extract(method, data.samples("pretrain"), BOTH, 64)
    test = extract(method, data.samples("probe-test"), BOTH, 64)
    for layer in BOTH:
        own, voters = F.normalize(test[layer], dim=1), F.normalize(train[layer], dim=1)
        entry = one(found["layers"], layer=layer)
        assert entry["splits"] == ["pretrain", "probe-test"]
        assert entry["uniformity"] == pytest.approx(metric.uniformity(own), rel=1e-4)
        assert entry["effective_rank"] == pytest.approx(metric.effective_rank(own), rel=1e-4)
        assert len(entry["negative_similarities"]) == 10 and len(entry["gradient_ratios"]) == 20
        nearest = (own @ voters.T).argsort(1, descending=True)[:, :200].numpy()
        other = (own @ own.T).fill_diagonal_(-9).argsort(1, descending=True)[:, :10].numpy()
        for feature in ("bit00", "bit01", "digit"):
            old, labels = data.labels("pretrain", feature), data.labels("probe-test", feature)
            entry = one(found["features"], layer=layer, feature=feature)
            votes = [row.tolist() for row in old[nearest]]
            most = [max(row.count(c) for c in row) for row in votes]
            # All 200 train samples vote, the digits all with 20 voices: the nearest of the equals wins.
            winners = [next(c for c in row if row.count(c) == n) for row, n in zip(votes, most, strict=True)]
            assert entry["knn_correct"] == (np.array(winners) == labels).sum()
            assert entry["agreement"] == pytest.approx((labels[other] == labels[:, None]).mean(), abs=0.003)
            assert entry["tolerance"] == pytest.approx(metric.tolerance(own, labels), rel=1e-4)
            assert entry["sensitivity"] == pytest.approx(metric.semantic_sensitivity(own, labels), rel=1e-3)


def test_the_views_are_crops_of_the_same_samples(method, four_bits):
    samples, rows = four_bits.samples("probe-test"), torch.tensor([3, 50, 99])
    augmentation = Augmentation(area=[0.2, 0.5])
    first, second = two_views(samples, rows, "probe-test", augmentation, 0)
    whole, one_view, other_view = samples.whole(rows), first.whole(slice(0, 3)), second.whole(slice(0, 3))
    assert len(first) == 3 and one_view.shape == whole.shape
    assert torch.equal(one_view[:, 1:], whole[:, 1:]) and torch.equal(other_view[:, 1:], whole[:, 1:])  # the bits
    assert not torch.equal(one_view[:, 0], whole[:, 0]) and not torch.equal(one_view[:, 0], other_view[:, 0])
    everyone = two_views(samples, torch.arange(100), "probe-test", augmentation, 0)
    for all_of_them, few in zip(everyone, (first, second), strict=True):
        assert torch.equal(all_of_them.draws.boxes[:, rows], few.draws.boxes)
    features = [
        F.normalize(extract(method_of(four_bits), view, ["encoder"], 30)["encoder"], dim=1) for view in everyone
    ]
    found = described(method_of(four_bits), four_bits, augmentation, layers=["encoder"])["layers"][0]
    assert found["alignment"] == pytest.approx((features[0] - features[1]).square().sum(1).mean().item(), rel=1e-4)
    positive = (features[0] * features[1]).sum(1).mean().item()
    assert found["positive_similarity"] == pytest.approx(positive, rel=1e-4)
    assert found["alignment"] == pytest.approx(2 - 2 * positive, rel=1e-3) and found["alignment"] > 0


def method_of(data):
    return built("untrained", data.folder, data__bits=data.bits)[0]


def test_the_seed_alone_decides(method, randbit):
    data = Data(randbit, 2)
    first, again, other = (described(method, data, seed=seed) for seed in (0, 0, 1))
    assert first == again
    assert first["layers"][0]["alignment"] != other["layers"][0]["alignment"]
    assert first["features"] == other["features"]  # nothing random
    still = described(method, data, Augmentation(crop="none"))["layers"][0]
    assert still["alignment"] == 0 and still["positive_similarity"] == pytest.approx(1)


def test_at_most_so_many_samples(method, randbit):
    data = Data(randbit, 2)
    found = described(method, data, metric_samples=30)
    assert {entry["n"] for entry in found["layers"] + found["features"]} == {30}
    rows = sample_rows("probe-test", 100, 30)
    assert len(set(rows.tolist())) == 30 and rows.tolist() == sorted(rows.tolist()) != list(range(30))
    own = F.normalize(extract(method, data.samples("probe-test"), BOTH, 64)["head"][rows], dim=1)
    entry = one(found["features"], layer="head", feature="digit")
    assert entry["tolerance"] == pytest.approx(
        metric.tolerance(own, data.labels("probe-test", "digit")[rows.numpy()]), rel=1e-4
    )
    single = described(method, data, metric_samples=1)
    assert single["layers"][0]["uniformity"] is None and single["layers"][0]["negative_similarities"] == []
    assert single["features"][0]["agreement"] is None and single["features"][0]["knn_correct"] in (0, 1)
    with pytest.raises(UserError, match="metric_samples"):
        Probing(metric_samples=-1)


@pytest.mark.parametrize("value", [0.0, math.nan, math.inf])
def test_features_that_cannot_be_normalised_give_null(randbit, value):
    method = Recorder()
    dead = [False]

    def forward(pictures):
        found = pictures.flatten(1)[:, 300:303] + 1
        if dead[0]:
            found[0] = value
        return found

    method.encoder.forward = forward
    data, options = Data(randbit, 4), Probing(kinds=[])
    describe = Representation(data, method, options, Augmentation(), 0)
    train = extract(method, data.samples("pretrain"), ["encoder"], 64)
    dead[0] = True
    test = extract(method, data.samples("probe-test"), ["encoder"], 64)
    describe(("pretrain", "probe-test"), ["digit"], train, test)
    found = describe.metrics()
    msgspec.convert(found, record.Metrics)
    assert all(
        value is None or value == [] for key, value in found["layers"][0].items() if key not in ("layer", "splits", "n")
    )
    entry = found["features"][0]
    assert entry["tolerance"] is entry["sensitivity"] is entry["knn_correct"] is entry["agreement"] is None


def test_large_and_small_features_are_normalised():
    for scale in (1e-38, 1e-20, 1.0, 1e30):
        torch.testing.assert_close(metric.normalised(torch.tensor([[3.0, 4.0]]) * scale), torch.tensor([[0.6, 0.8]]))


def test_each_pair_of_splits_is_described(sizes):
    method, data = built("untrained", sizes, encoder__name="randbit_conv")
    found = described(method, data, layers=["encoder"])
    assert [entry["splits"][1] for entry in found["layers"]] == ["probe-test-12", "probe-test-20"]
    assert {entry["feature"]: entry["splits"] for entry in found["features"]} == {
        "digit_12": ["probe-train-12", "probe-test-12"],
        "digit_20": ["probe-train-20", "probe-test-20"],
    }


def test_a_cells_record_holds_them_and_repeats_them(randbit, tmp_path):
    first, again = (run("simclr", randbit, tmp_path / name, data__bits=2) for name in "ab")
    assert first.metrics == again.metrics and len(first.metrics.features) == 3
    assert record.read(tmp_path / "a" / record.NAME) == first
    off = run("simclr", randbit, tmp_path / "off", data__bits=2, probe__metric_samples=0)
    assert off.metrics is None and off.probes == first.probes
    assert (tmp_path / "off/encoder.safetensors").read_bytes() == (tmp_path / "a/encoder.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("features", 0, "knn_correct"), 101),
        (("features", 0, "knn_correct"), -1),
        (("features", 0, "extra"), 1),
        (("layers", 0, "n"), 0),
        (("layers", 0, "splits"), ["pretrain"]),
        (("layers", 0, "negative_similarities"), [None]),
        (("voters",), 1.5),
    ],
)
def test_impossible_metrics_are_refused(method, randbit, place, value):
    inner = metrics = described(method, Data(randbit, 2))
    msgspec.convert(metrics, record.Metrics)
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(metrics, record.Metrics)
