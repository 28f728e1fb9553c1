"""All kinds of figures: what stands on their axes is what the records say; nothing too small, nothing cut off."""

import hashlib
import math
import statistics

import matplotlib.collections
import matplotlib.figure
import matplotlib.text
import pytest
from small_cells import make_record, probe_entry, write_records

from generators import strict_json
from generators.dataset import UserError
from suppression_bench.cli import main
from suppression_bench.results import align_uniform, drawings, figures, learning, style, temperature, trade_off
from suppression_bench.results.frame import long_table
from suppression_bench.results.labelling import label_points
from suppression_bench.results.measured import measured

STRENGTHS = (2, 16, 128)  # in another order as texts


@pytest.fixture
def saved(monkeypatch):
    """Every figure that is written, with its axes still in it."""
    found, original = [], matplotlib.figure.Figure.savefig

    def spy(self, *arguments, **more):
        found.append(self)
        return original(self, *arguments, **more)

    monkeypatch.setattr(matplotlib.figure.Figure, "savefig", spy)
    return found


def of_spec(record, **spec):
    """The record with parts of its spec replaced."""
    record["spec"] |= spec
    return record | {"id": hashlib.sha256(strict_json.dumps(record["spec"]).encode()).hexdigest()}


def lines(axis):
    """Label -> (x, y) of what the legend lists."""
    handles, labels = axis.get_legend_handles_labels()
    return {
        label: tuple(map(list, handle.get_data()))
        for handle, label in zip(handles, labels, strict=True)
        if hasattr(handle, "get_data")
    }


def overlay(strength, image, digit, seed=0, method="simclr", **more):
    data = {"dataset": "digit-on-imagenet", "version": 1, "options": {"unique_digits": strength}, "seed": 0,
            "digest": "d" * 64, "bits": 0}  # fmt: skip
    probes = [probe_entry(image, feature="image", classes=20), probe_entry(digit)]
    return make_record(
        probes, method=method, seed=seed, data=data, strength={"key": "unique_digits", "value": strength}, **more
    )


def overlays():
    """Two seeds of one method at three strengths, supervised at two, an untrained encoder."""
    made = [overlay(k, 60 - 10 * i + 4 * s, 20 + 20 * i - 2 * s, s) for i, k in enumerate(STRENGTHS) for s in (0, 1)]
    made += [overlay(k, 80, 70 + i, method="supervised") for i, k in enumerate(STRENGTHS[:2])]
    return [*made, overlay(2, 25, 30, method="untrained")]


def described(temperature_value, accuracy, alignment=0.2, uniformity=2.0, seed=0, method="simclr"):
    """A record with metrics of the encoder and the head."""
    both = [("encoder", 1.0), ("head", 2.0)]
    place = {"splits": ["pretrain", "probe-test"], "n": 100}
    layers = [
        {**place, "layer": layer, "alignment": alignment * factor, "uniformity": uniformity * factor,
         "effective_rank": 3.0, "positive_similarity": 0.9, "negative_similarities": [0.5], "gradient_ratios": []}
        for layer, factor in both
    ]  # fmt: skip
    features = [
        {**place, "layer": layer, "feature": "digit", "tolerance": 0.25 * factor, "sensitivity": None,
         "knn_correct": accuracy - 5, "agreement": 0.5}
        for layer, factor in both
    ]  # fmt: skip
    made = make_record([probe_entry(accuracy, layer=layer) for layer, _ in both], method=method, seed=seed)
    made["metrics"] = {"version": 1, "temperature": 0.1, "voters": 200, "neighbours": 10, "layers": layers,
                       "features": features}  # fmt: skip
    if temperature_value is None:
        return made
    loss = {"name": "nt-xent", "options": {"temperature": temperature_value}}
    return of_spec(made, loss=loss, varied={"loss.temperature": temperature_value})


def temperatures():
    made = [
        described(t, 60 + 10 * i + 2 * s, 0.2 + 0.1 * i, 3 - i, s) for i, t in enumerate((1.0, 0.1)) for s in (0, 1)
    ]
    return [*made, described(None, 50, method="untrained")]


def traced(correct, bits=((50, 60), (70, 90)), seed=0):
    """A record with a trace of two steps: the digit's and two bits' right answers at each."""
    names = ["digit", "bit00", "bit01"]
    probes = [probe_entry(50, feature=name, classes=10 if name == "digit" else 2) for name in names]
    made = make_record(probes, bits=2, seed=seed)
    points = [
        {"step": step, "feature": name, "splits": ["pretrain", "probe-test"], "correct": value, "n": 100, "train_n": 200,
         "converged": True}
        for step, digit, two in zip((1, 4), correct, bits, strict=True)
        for name, value in zip(names, (digit, *two), strict=True)
    ]  # fmt: skip
    return made | {"trace": {"version": 1, "probe": "lbfgs", "l2": 1e-3, "points": points}}


def test_trade_off_is_a_path_through_the_strengths(tmp_path, saved):
    frame = long_table([write_records(tmp_path, overlays())])
    trade_off.trade_off(frame, tmp_path / "x.png")
    [axis] = saved[0].axes
    shown = lines(axis)
    assert axis.get_xlabel().startswith("test accuracy of digit") and axis.get_ylabel().startswith(
        "test accuracy of image"
    )
    assert shown["simclr"][0] == pytest.approx([0.19, 0.39, 0.59]) and shown["simclr"][1] == pytest.approx(
        [0.62, 0.52, 0.42]
    )
    assert shown["supervised"] == (pytest.approx([0.7, 0.71]), pytest.approx([0.8, 0.8]))
    assert shown["untrained (mean of 1)"] == ([0.3], [0.25])
    assert [text.get_text() for text in axis.texts] == ["2", "16", "128", "2", "16"]
    [bars] = axis.containers  # both directions, of the method with two seeds
    across, up = (collection.get_segments() for collection in bars[2])
    assert across[0][1][0] - across[0][0][0] == pytest.approx(2 * statistics.stdev([0.2, 0.18]))
    assert up[0][1][1] - up[0][0][1] == pytest.approx(2 * statistics.stdev([0.6, 0.64]))
    drawn = {line.get_label(): line.get_linestyle() for line in axis.lines}
    assert drawn["simclr"] == "-" and drawn["supervised"] == drawn["untrained (mean of 1)"] == "None"


def test_bits_alone_are_no_trade_off(tmp_path):
    made = [make_record([probe_entry(50), probe_entry(60, feature="bit00", classes=2)], bits=b) for b in (1, 2)]
    frame = long_table([write_records(tmp_path, made)])
    assert not trade_off.can_draw(frame)
    with pytest.raises(UserError, match="two probed features"):
        trade_off.trade_off(frame, tmp_path / "x.png")


def test_temperature_lines_are_means_over_seeds_in_order(tmp_path, saved):
    temperature.temperature(measured([write_records(tmp_path, temperatures())]), tmp_path / "x.png")
    axes = {axis.get_ylabel(): axis for axis in saved[0].axes}
    assert list(axes) == ["uniformity", "tolerance", "k-NN accuracy", "test accuracy, lbfgs probe"]
    assert lines(axes["uniformity"])["simclr"] == ([0.1, 1.0], [2.0, 3.0])
    assert lines(axes["uniformity"])["simclr, head"] == ([0.1, 1.0], [4.0, 6.0])
    assert lines(axes["tolerance"])["simclr"][1] == [0.25, 0.25]
    assert lines(axes["k-NN accuracy"])["simclr"][1] == pytest.approx([0.66, 0.56])
    accuracy = lines(axes["test accuracy, lbfgs probe"])
    assert accuracy["simclr"][1] == pytest.approx([0.71, 0.61]) and accuracy["untrained"][1] == [0.5, 0.5]
    band = axes["test accuracy, lbfgs probe"].collections[0].get_paths()[0].vertices
    assert max(band[:, 1]) == pytest.approx(0.71 + statistics.stdev([0.7, 0.72]))


def test_one_temperature_is_no_line(tmp_path):
    found = measured([write_records(tmp_path, [described(0.1, 50), described(None, 60, method="byol")])])
    assert not temperature.can_draw(found)
    with pytest.raises(UserError, match="two temperatures"):
        temperature.temperature(found, tmp_path / "x.png")


def test_a_methods_own_temperature_counts(tmp_path):
    made = []
    for t in (0.1, 0.2):
        method = {"name": "swav", "options": {"temperature": t}}
        made.append(of_spec(described(None, 50, method="swav"), method=method, varied={"method.temperature": t}))
    assert temperature.can_draw(measured([write_records(tmp_path, made)]))


def test_align_uniform_shows_each_method_in_the_colour_of_its_accuracy(tmp_path, saved):
    made = [described(None, 40 + s, 0.1, 1.0, s, "byol") for s in (0, 2)] + [described(None, 90, 0.4, 3.0)]
    align_uniform.align_uniform(measured([write_records(tmp_path, made)]), tmp_path / "x.png")
    axis, bar = saved[0].axes
    [points] = [collection for collection in axis.collections if collection.get_array() is not None]
    order = points.get_offsets()[:, 0].argsort()
    assert points.get_offsets()[order].tolist() == [pytest.approx([0.1, 1.0]), pytest.approx([0.4, 3.0])]
    assert points.get_array()[order].tolist() == pytest.approx([0.41, 0.9]) and points.get_cmap().name == "cividis"
    assert "digit" in bar.get_ylabel()
    assert [text.get_text() for text in saved[0].legends[0].get_texts()] == ["1  byol", "2  simclr"]
    assert sorted(text.get_text() for text in axis.texts) == ["1", "2"]


def test_records_without_metrics_have_no_align_uniform(tmp_path):
    found = measured([write_records(tmp_path, [make_record([probe_entry(50)], method=m) for m in ("byol", "simclr")])])
    assert not align_uniform.can_draw(found) and not temperature.can_draw(found)
    with pytest.raises(UserError, match="metric_samples"):
        align_uniform.align_uniform(found, tmp_path / "x.png")


def test_learning_order_is_what_the_traces_say(tmp_path, saved):
    made = [traced((20, 80)), traced((30, 60), seed=1)]
    learning.learning(learning.traced([write_records(tmp_path, made)]), tmp_path / "x.png")
    [axis] = saved[0].axes
    shown = lines(axis)
    assert shown == {"digit": ([1, 4], pytest.approx([0.25, 0.7])), "bits": ([1, 4], pytest.approx([0.55, 0.8]))}
    assert axis.get_xscale() == "log" and "simclr" in axis.get_title() and "lbfgs" in axis.get_ylabel()
    band = axis.collections[0].get_paths()[0].vertices
    assert max(band[:, 1]) == pytest.approx(0.7 + statistics.stdev([0.8, 0.6]))
    levels = [line.get_ydata()[0] for line in axis.lines if line.get_linestyle() == ":"]
    assert levels == [0.1, 0.5]  # chance of the digit and of a bit


def test_records_without_a_trace_have_no_learning_order(tmp_path):
    found = learning.traced([write_records(tmp_path, [make_record([probe_entry(50)])])])
    assert not learning.can_draw(found)
    with pytest.raises(UserError, match="--trace"):
        learning.learning(found, tmp_path / "x.png")


def bits_at(batch_sizes, strengths=(0, 8), **more):
    made = [
        of_spec(make_record([probe_entry(50)], bits=b, seed=size), train={"batch_size": size})
        for b in strengths
        for size in batch_sizes
    ]
    floor = [make_record([probe_entry(50)], "untrained", bits=b, steps=0) for b in strengths]
    return [*made, *(of_spec(one, train={"batch_size": 4096}) for one in floor)]


@pytest.mark.parametrize(
    ("sizes", "text"), [([256], "log₂(256)"), ([1000, 64], "log₂(64), log₂(1000)"), ([16, 32, 64, 128], None)]
)
def test_saturation_lines_of_the_batches_that_were_trained_with(tmp_path, saved, sizes, text):
    figures.suppression_curves(long_table([write_records(tmp_path, bits_at(sizes))]), tmp_path / "x.png")
    [axis] = saved[0].axes
    places = sorted(line.get_xdata()[0] for line in axis.lines if line.get_linestyle() == "-.")
    assert places == ([] if text is None else pytest.approx(sorted(map(math.log2, sizes))))
    assert [one.get_text() for one in axis.texts] == ([] if text is None else [text])


def test_only_bits_saturate(tmp_path, saved):
    made = [of_spec(one, train={"batch_size": 256}) for one in overlays()]
    figures.suppression_curves(long_table([write_records(tmp_path, made)]), tmp_path / "x.png")
    assert not any(line.get_linestyle() == "-." for axis in saved[0].axes for line in axis.lines)


def everything():
    """Records that allow every kind of figure."""
    return [*overlays(), *temperatures(), traced((20, 80))]


def test_what_can_be_drawn_is_listed_in_order_and_drawn(tmp_path):
    found = drawings.drawings([write_records(tmp_path / "runs", everything())])
    assert [one.name for one in found] == ["curves", "trade-off", "learning", "temperature", "align-uniform"]
    for one in found:
        assert one.title and one.name in drawings.KINDS
        ending = "png" if one.name == "learning" else "svg"
        one.draw(tmp_path / f"a.{ending}")
        one.draw(tmp_path / f"b.{ending}")
        assert (tmp_path / f"a.{ending}").read_bytes() == (tmp_path / f"b.{ending}").read_bytes(), one.name


def test_nothing_is_listed_that_cannot_be_drawn(tmp_path):
    failed = make_record([], status="failed", error="e")
    assert drawings.drawings([write_records(tmp_path / "failed", [failed])]) == []
    plain = [make_record([probe_entry(50)], bits=b) for b in (0, 5)]
    assert [one.name for one in drawings.drawings([write_records(tmp_path / "plain", plain)])] == ["curves"]


def many():
    """More methods than colours, with long names, on two strengths."""
    names = [f"a-method-of-quite-some-length-{i:02d}" for i in range(20)]
    made = [described(None, 40 + i, 0.1 + 0.001 * i, 2.0 + 0.001 * i, method=name) for i, name in enumerate(names)]
    return [*made, *(make_record([probe_entry(30 + i)], name, bits=9) for i, name in enumerate(names))]


@pytest.mark.parametrize("records", [everything, many])
def test_no_text_is_smaller_than_eight_points_or_cut_off(tmp_path, saved, records):
    for one in drawings.drawings([write_records(tmp_path, records())]):
        one.draw(tmp_path / "x.png")
        figure = saved[-1]
        texts = [text for axis in figure.axes if axis.get_visible() for text in axis.texts]
        for axis in (axis for axis in figure.axes if axis.get_visible()):
            texts += [axis.title, axis.xaxis.label, axis.yaxis.label]
        for box in figure.legends:
            texts += [box.get_title(), *box.get_texts()]
        shown = [text for text in texts if text.get_text()]
        figure.draw_without_rendering()
        width, height = figure.bbox.size
        for text in shown:
            extent = text.get_window_extent()
            assert text.get_fontsize() >= style.SMALL, (one.name, text.get_text())
            assert extent.x0 >= -1 and extent.y0 >= -1, (one.name, text.get_text())
            assert extent.x1 <= width + 1 and extent.y1 <= height + 1, (one.name, text.get_text())


def test_28_lines_look_different():
    looks = [style.look(position) for position in range(28)]
    assert len({(look["color"], str(look["linestyle"])) for look in looks}) == 28
    assert len({(look["marker"], look["markerfacecolor"] == "white", str(look["linestyle"])) for look in looks}) == 28


def test_labels_cover_neither_each_other_nor_a_point(tmp_path):
    places = [(0.5 + 0.004 * (i % 4), 0.5 + 0.004 * (i // 4)) for i in range(12)] + [(0.0, 0.0), (1.0, 1.0)]
    with style.canvas(tmp_path / "x.png", 1, 1, (5, 4)) as (figure, [[axis]]):
        axis.plot(*zip(*places, strict=True), "o")
        label_points(axis, places, [str(i) for i in range(14)], ["black"] * 14)
        figure.draw_without_rendering()
        points = axis.transData.transform(places)
        boxes = [matplotlib.text.Text.get_window_extent(text) for text in axis.texts]
    for i, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:i]), i
        assert not any(box.contains(*point) for point in points), i


def test_the_command_draws_each_kind(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runs = str(write_records(tmp_path / "runs", everything()))
    assert main(["plot", runs, "--kind", "learning"]) == 0 and (tmp_path / "learning.png").is_file()
    assert main(["plot", runs, "--out", "first.svg"]) == 0 and "first.svg" in capsys.readouterr().out
    only = str(write_records(tmp_path / "only", [traced((20, 80))]))
    assert main(["plot", only]) == 0 and capsys.readouterr().out == "written: learning.png\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--kind", "learning", "--probe", "sgd"], "leave --probe out"),
        (["--kind", "trade-off", "--probe", "sgd"], "no results by the probe 'sgd'; there are lbfgs"),
        (["--kind", "pie"], "pie"),
        (["--kind", "curves", "--out", "x.gif"], "must end in .png or .svg"),
    ],
)
def test_wrong_wishes_are_answered_in_a_sentence(tmp_path, capsys, arguments, said):
    runs = str(write_records(tmp_path / "runs", everything()))
    assert main(["plot", runs, *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error and "Traceback" not in error


def test_records_that_allow_nothing_are_answered_in_a_sentence(tmp_path, capsys):
    runs = str(write_records(tmp_path / "runs", [make_record([probe_entry(50)])]))
    assert main(["plot", runs]) == 2 and "nothing can be drawn" in capsys.readouterr().err
    for kind in drawings.KINDS:
        assert main(["plot", runs, "--kind", kind]) == 2 and "need" in capsys.readouterr().err, kind


def test_a_single_strength_shows_its_spread_as_a_bar(tmp_path, saved):
    made = [make_record([probe_entry(50)], bits=b, seed=s) for b in (0, 8) for s in (0, 1)]
    made += [make_record([probe_entry(60 + 10 * s)], "byol", bits=8, seed=s) for s in (0, 1)]
    figures.suppression_curves(long_table([write_records(tmp_path, made)]), tmp_path / "x.png")
    [axis] = saved[0].axes
    [bar] = axis.containers
    [[low, high]] = bar[2][0].get_segments()
    assert high[1] - low[1] == pytest.approx(2 * statistics.stdev([0.6, 0.7])) and low[0] == 8
    assert len([area for area in axis.collections if isinstance(area, matplotlib.collections.PolyCollection)]) == 1
