"""Tables and frames from hand-made records: means, spreads, the floor, gaps, published rows, safe cells."""

import csv
import io
import json
import statistics

import pandas
import pytest
from small_cells import make_record, probe_entry, write_records

from suppression_bench.results import tables
from suppression_bench.results.frame import long_table

MNIST = {
    "dataset": "randbit",
    "version": 1,
    "options": {"digit_source": "mnist"},
    "seed": 0,
    "digest": "e" * 64,
    "bits": 5,
}


def frame(folder, made):
    return long_table([write_records(folder, made)])


def one_table(folder, made, **more):
    [(heading, table)] = tables.pivot(frame(folder, made), **more)
    return heading, table


def row(table, method, probe="lbfgs"):
    [found] = table[(table["method"] == method) & (table["probe"] == probe)].to_dict("records")
    return found


def test_mean_deviation_and_n_over_seeds(tmp_path):
    right = [80, 83, 90]
    _, table = one_table(tmp_path, [make_record([probe_entry(r)], seed=s) for s, r in enumerate(right)])
    assert row(table, "simclr")["digit @0"] == f"{statistics.mean(right):.1f} ± {statistics.stdev(right):.1f} (n=3)"


def test_one_seed_has_no_spread(tmp_path):
    _, table = one_table(tmp_path, [make_record([probe_entry(81)])])
    assert row(table, "simclr")["digit @0"] == "81.0"


def test_bits_are_one_feature_their_mean(tmp_path):
    bits = [probe_entry(r, feature=f"bit{i:02d}", classes=2) for i, r in enumerate((60, 70, 95))]
    _, table = one_table(tmp_path, [make_record([probe_entry(50), *bits], bits=3, seed=s) for s in (0, 1)])
    assert row(table, "simclr")["bits @3"] == "75.0 ± 0.0 (n=2)"
    assert list(table.columns) == ["method", "probe", "layer", "digit @3", "bits @3"]


def test_columns_are_in_the_order_of_the_strength(tmp_path):
    _, table = one_table(tmp_path, [make_record([probe_entry(50)], bits=b) for b in (10, 0, 5)])
    assert list(table.columns)[3:] == ["digit @0", "digit @5", "digit @10"]


def test_a_probe_that_did_not_converge_is_marked(tmp_path):
    made = [make_record([probe_entry(80, converged=s == 0)], seed=s) for s in (0, 1)]
    assert tables.NOT_CONVERGED in row(one_table(tmp_path, made)[1], "simclr")["digit @0"]


@pytest.mark.parametrize("status", ["failed", "diverged"])
def test_a_cell_without_numbers_says_so_in_its_place(tmp_path, status):
    made = [make_record([probe_entry(80)], bits=b) for b in (0, 5)]
    made.append(make_record([], bits=5, seed=1, status=status, error="why"))
    found = row(one_table(tmp_path, made)[1], "simclr")
    assert found["digit @0"] == "80.0" and found["digit @5"] == f"80.0; {status} (seed 1)"
    made.append(make_record([], method="byol", bits=0, status=status, error="why"))
    _, table = one_table(tmp_path / "more", made)
    [other] = table[table["method"] == "byol"].to_dict("records")
    assert other["digit @0"] == f"{status} (seed 0)" and other["digit @5"] == ""


def test_only_failures_still_make_a_table(tmp_path):
    _, table = one_table(tmp_path, [make_record([], status="failed", error="why")])
    assert "failed (seed 0)" in table.to_dict("records")[0].values()
    assert "failed" in tables.render(long_table([tmp_path]), "markdown")


def test_other_settings_do_not_overwrite_each_other_in_the_table(tmp_path):
    made = [make_record([probe_entry(80)]), make_record([probe_entry(40)], encoder={"name": "resnet18", "options": {}})]
    text = tables.render(frame(tmp_path, made), "markdown")
    assert "80.0" in text and "40.0" in text


def published(folder, data, probe, **more):
    made = make_record([probe_entry(70, probe=probe)], bits=5, data=data, varied={"loss.temperature": 0.05}, **more)
    return one_table(folder, [made])[1]


def test_published_rows_stand_beside_ours_on_mnist_by_the_online_probe_alone(tmp_path):
    table = published(tmp_path / "a", MNIST, "online")
    assert len(table) == 2
    [theirs] = table[table["probe"] == "online, published"].to_dict("records")
    assert theirs["method"] == "simclr temperature=0.05" and theirs["digit @5"] == "70.6"
    assert len(published(tmp_path / "b", MNIST, "lbfgs")) == 1
    optdigits = {**MNIST, "options": {"digit_source": "optdigits"}}
    assert len(published(tmp_path / "c", optdigits, "online")) == 1
    assert len(published(tmp_path / "d", MNIST, "online", method="byol")) == 1


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_no_csv_cell_starts_a_formula(tmp_path, start):
    method = {"name": f"{start}cmd|calc", "options": {}}
    made = make_record([probe_entry(70)], method=method["name"], error=f'{start}HYPERLINK("x")', digest="d")
    for text in (
        tables.render(frame(tmp_path, [made]), "csv"),
        tables.render(long_table([tmp_path]), "csv", long=True),
    ):
        for line in csv.reader(io.StringIO(text)):
            for cell in line:
                try:
                    float(cell)
                except ValueError:
                    assert not cell.startswith(("=", "+", "-", "@", "\t", "\r")), cell


def test_long_csv_and_json_hold_every_probe(tmp_path):
    made = [
        make_record([probe_entry(70), probe_entry(60, feature="bit00", classes=2)], bits=1),
        make_record([], status="failed", error="e"),
    ]
    table = frame(tmp_path, made)
    tables.write_csv(table, tmp_path / "long.csv")
    back = pandas.read_csv(tmp_path / "long.csv")
    assert sorted(back["accuracy"].dropna()) == [0.6, 0.7] and len(back) == 3
    assert len(json.loads(tables.render(table, "json"))) == 3


def test_latex_is_escaped_and_whole(tmp_path):
    made = [make_record([probe_entry(r)], seed=s, varied={"method.odd_name": "a&b"}) for s, r in enumerate((70, 72))]
    text = tables.render(
        frame(tmp_path, [*made, *(make_record([probe_entry(91)], method="untrained", seed=s) for s in range(3))]),
        "latex",
    )
    assert r"\toprule" in text and r"\bottomrule" in text and r"odd\_name=a\&b" in text and r"$\pm$" in text
    assert r"$\blacktriangledown$" in text and "±" not in text and tables.BELOW not in text
    assert text.count("{") == text.count("}") and text.count(r"\begin") == text.count(r"\end")
    wrapped = r"\begin{adjustbox}{max width=\textwidth}"
    assert text.index(wrapped) < text.index(r"\begin{tabular}") < text.index(r"\end{adjustbox}")
    assert text.index("Last training step") < text.index(r"\end{table}")  # notes float with their table
    assert "adjustbox" in text.splitlines()[0]


def test_markdown_says_where_the_numbers_come_from(tmp_path):
    made = [make_record([probe_entry(70, absent=[7])], seed=3, collapsed=["encoder"])]
    text = tables.render(frame(tmp_path, made), "markdown")
    for part in ("Seeds 3", "dddddddddddd", "torch 2 on cpu", "classes 7 are absent", "simclr: collapsed"):
        assert part in text, part


def test_the_probe_can_be_chosen(tmp_path):
    made = [make_record([probe_entry(70), probe_entry(40, probe="sgd")])]
    assert one_table(tmp_path, made, probe="sgd")[1]["probe"].tolist() == ["sgd"]
    assert one_table(tmp_path, made)[1]["probe"].tolist() == ["lbfgs", "sgd"]
