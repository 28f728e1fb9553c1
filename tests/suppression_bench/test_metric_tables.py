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
