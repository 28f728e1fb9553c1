"""Tables of metrics: means over seeds and bits by hand, undefined values left out, old records without any."""

import statistics

import pytest
from small_cells import make_record, probe_entry, write_records

from suppression_bench.cli import main
from suppression_bench.results import metric_tables


def metrics(knn: int, uniformity: float | None = 2.5, bits: tuple[int, ...] = ()) -> dict:
    place = {"layer": "encoder", "splits": ["pretrain", "probe-test"], "n": 200}
    layer = {**place, "alignment": 0.25, "uniformity": uniformity, "effective_rank": 12.34, "positive_similarity": 0.9}
    layer |= {"negative_similarities": [0.5], "gradient_ratios": []}
    features = [("digit", knn), *((f"bit{i:02d}", correct) for i, correct in enumerate(bits))]
    own = [
        {**place, "feature": name, "tolerance": 0.5, "sensitivity": None, "knn_correct": correct, "agreement": 0.75}
        for name, correct in features
    ]
    return {"version": 1, "temperature": 0.1, "voters": 200, "neighbours": 10, "layers": [layer], "features": own}


def record(**more) -> dict:
    own = more.pop("metrics")
    return {**make_record([probe_entry(50)], **more), "metrics": own}


def test_means_over_seeds_and_bits(tmp_path):
    made = [record(metrics=metrics(100 + 10 * seed, bits=(200, 100)), bits=2, seed=seed) for seed in (0, 1, 2)]
    [(heading, table)] = metric_tables.pivot(metric_tables.long_metrics([write_records(tmp_path, made)]))
    assert heading.startswith("randbit over") and "bits 2" in heading
    [row] = table.to_dict("records")
    deviation = statistics.stdev([50.0, 55.0, 60.0])
    assert row["k-NN % digit"] == f"55.0 ± {deviation:.1f} (n=3)"
    assert row["k-NN % bits"] == "75.0 ± 0.0 (n=3)"  # 100 % and 50 %
    assert row["alignment"] == "0.250 ± 0.000 (n=3)" and row["uniformity"].startswith("2.50")
    assert list(table.columns)[:4] == ["method", "layer", "k-NN % digit", "k-NN % bits"]


def test_bits_of_equal_value_all_count_and_a_cell_named_twice_counts_once(tmp_path):
    folder = write_records(tmp_path, [record(metrics=metrics(100, bits=(200, 200, 80)), bits=3)])
    [(_, table)] = metric_tables.pivot(metric_tables.long_metrics([folder, folder]))
    [row] = table.to_dict("records")
    assert row["k-NN % bits"] == "80.0" and row["k-NN % digit"] == "50.0"  # (100 + 100 + 40) / 3


def test_one_table_per_strength_and_undefined_values_stay_empty(tmp_path):
    made = [record(metrics=metrics(20), bits=0), record(metrics=metrics(30, uniformity=None), bits=5)]
    made.append(record(metrics=metrics(40), method="byol", bits=5))
    (first, _), (second, table) = metric_tables.pivot(metric_tables.long_metrics([write_records(tmp_path, made)]))
    assert "bits 0" in first and "bits 5" in second
    rows = {row["method"]: row for row in table.to_dict("records")}
    assert rows["byol"]["uniformity"] == "2.50" and rows["byol"]["k-NN % digit"] == "20.0"
    assert [row["uniformity"] for name, row in rows.items() if name != "byol"] == [""]


def test_the_command(tmp_path, capsys):
    folder = str(write_records(tmp_path, [record(metrics=metrics(20), bits=0)]))
    assert main(["table", folder, "--metrics"]) == 0
    said = capsys.readouterr().out
    assert "| 10.0 " in said and "k-NN: 200 train neighbours" in said and "| 2.50 " in said
    assert main(["table", folder, "--metrics", "--long"]) == 2
    assert "leave --long" in capsys.readouterr().err


@pytest.mark.parametrize("own", [{}, {**metrics(1), "layers": [], "features": []}])
def test_records_without_metrics_say_so(tmp_path, own, capsys):
    folder = str(write_records(tmp_path, [record(metrics=own)]))
    assert main(["table", folder, "--metrics"]) == 0
    assert "No metrics in these records" in capsys.readouterr().out


def cifar(**more):
    data = {"dataset": "randbit", "version": 1, "seed": 0, "digest": "c" * 64, "bits": 0}
    data["options"] = {"digit_source": None, "image_source": "cifar10", "image_size": None}
    own = metrics(100, uniformity=3.5)
    own["features"][0] |= {"feature": "image", "tolerance": 0.2, "sensitivity": 0.29}
    return record(metrics=own, data=data, **more)


def test_published_metrics_stand_beside_ours(tmp_path, capsys):
    bank = cifar(method="memory-bank", varied={"loss.temperature": 0.3})
    made = [bank, cifar(varied={"loss.name": "dcl"}), cifar(method="byol")]
    folder = str(write_records(tmp_path, made))
    assert main(["table", folder, "--metrics", "--paper"]) == 0
    said = capsys.readouterr().out
    head, rows = (
        said.splitlines()[2],
        {line.split("|")[1].strip(): line for line in said.splitlines() if line[:1] == "|"},
    )
    assert "sensitivity image" in head
    assert "3.50 ([2] 3.60, -0.10)" in rows["memory-bank temperature=0.3"]
    assert "0.200 ([2] 0.178, +0.022)" in rows["memory-bank temperature=0.3"]
    assert (
        "50.0 ([1] 83.9, -33.9)" in rows["simclr name=dcl"] and "0.290 ([1] 0.309, -0.019)" in rows["simclr name=dcl"]
    )
    assert "(" not in rows["byol"]
    assert "[1] Huang et al. 2023, Table 2; [2] Wang & Liu 2021, Table 1" in said
    assert main(["table", folder, "--metrics"]) == 0
    plain = capsys.readouterr().out
    assert "3.60" not in plain and "sensitivity image" not in plain and "ublished" not in plain


def test_no_published_metric_says_so(tmp_path, capsys):
    assert main(["table", str(write_records(tmp_path, [record(metrics=metrics(20))])), "--metrics", "--paper"]) == 0
    assert "No published metric is known" in capsys.readouterr().out


def test_variants_of_one_dataset_have_headings_of_their_own(tmp_path):
    made = [record(metrics=metrics(100))]
    data = {**made[0]["spec"]["data"], "options": {"digit_source": "optdigits", "train": 200}}
    made.append(record(metrics=metrics(50), data=data))
    found = metric_tables.pivot(metric_tables.long_metrics([write_records(tmp_path, made)]))
    assert sorted(heading.partition(",")[0] for heading, _ in found) == [
        "randbit over optdigits", "randbit over optdigits (train=200)",
    ]  # fmt: skip
