"""All kinds of figures: what stands on their axes is what the records say; nothing too small, nothing cut off."""

import math
import statistics

import matplotlib
import matplotlib.collections
import matplotlib.figure
import pytest
from small_cells import make_record, probe_entry
from small_studies import bit_entries, described, overlays, plugin, study_of, traced, with_spec

from generators.dataset import UserError
from suppression_bench.results import figures, style


@pytest.fixture
def saved(monkeypatch):
    """Every figure that is written, with its axes still in it."""
    written, original = [], matplotlib.figure.Figure.savefig

    def spy(self, *arguments, **options):
        written.append(self)
        return original(self, *arguments, **options)

    monkeypatch.setattr(matplotlib.figure.Figure, "savefig", spy)
    return written


@pytest.fixture
def axes(tmp_path, saved):
    """Draws a kind of figure of some records; answers with the axes that are shown."""

    def draw(records, name="curves", **options):
        figures.draw(study_of(records), name, tmp_path / "x.png", **options)
        return [axis for axis in saved[-1].axes if axis.get_visible()]

    return draw


def lines(axis):
    """Label -> (x, y) of what the legend lists."""
    handles, labels = axis.get_legend_handles_labels()
    return {
        label: tuple(map(list, handle.get_data()))
        for handle, label in zip(handles, labels, strict=True)
        if hasattr(handle, "get_data")
    }


def refused(records, name, part, **options):
    assert options or name not in figures.drawable(study_of(records))
    with pytest.raises(UserError, match=part):
        figures.draw(study_of(records), name, "x.png", **options)


# ---- curves ----


def curves(methods=("simclr", "byol"), bits=(0, 5, 10), seeds=(0, 1)):
    return [
        make_record([probe_entry(90 - 5 * b), *bit_entries(*[60 + b] * min(b, 2))], method, seed, bits=b)
        for method in (*methods, "untrained")
        for b in bits
        for seed in seeds
    ]


def test_every_method_the_floor_and_chance_are_drawn(axes):
    digit, bits = axes(curves())
    assert list(lines(digit)) == ["byol", "simclr", "untrained (mean of 2)", "chance"]
    for label in ("byol", "simclr", "untrained (mean of 2)"):
        assert lines(digit)[label] == ([0, 5, 10], pytest.approx([0.9, 0.65, 0.4]))
    assert lines(digit)["chance"][1] == [0.1, 0.1] and lines(bits)["chance"][1] == [0.5, 0.5]
    assert lines(bits)["simclr"] == ([5, 10], pytest.approx([0.65, 0.7]))


def test_one_strength_or_failures_alone_are_no_curve():
    refused(curves(bits=(5,)), "curves", "two strengths")
    refused([make_record([], bits=bits, status="failed", error="e") for bits in (0, 5)], "curves", "two strengths")


def test_a_probe_that_no_cell_has_is_named():
    refused(curves(), "curves", "'sgd'; there are lbfgs", probe="sgd")


def texts_of(records, folder):
    """Every text of the curves, as the SVG has it when texts stay texts."""
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        figures.draw(study_of(records), "curves", folder / "texts.svg")
    return " ".join((folder / "texts.svg").read_text().split())


def test_a_name_with_dollars_is_a_name(tmp_path):
    text = texts_of(curves(methods=(r"a$\nomathematics$", "b$x^2$")), tmp_path)
    assert r"a$\nomathematics$" in text and "b$x^2$" in text


def test_cells_without_numbers_are_counted_below(tmp_path):
    lost = [
        make_record([], bits=5, seed=seed, status=status, error="e")
        for seed, status in ((7, "failed"), (8, "failed"), (9, "diverged"))
    ]
    assert "1 diverged, 2 failed" in texts_of([*curves(), *lost], tmp_path)
    assert "not drawn" not in texts_of(curves(), tmp_path)


def test_variants_of_one_dataset_are_told_apart(axes):
    variant = {"name": "randbit", "version": 1, "options": {"digit_source": "optdigits", "train": 200}}
    records = [
        make_record([probe_entry(50)], strength={"key": "bits", "value": bits}, dataset=dataset)
        for bits in (0, 5)
        for dataset in (variant, {**variant, "options": {"digit_source": "optdigits"}})
    ]
    titles = {axis.get_title() for axis in axes(records)}
    assert titles == {"digit (randbit over optdigits)", "digit (randbit over optdigits (train=200))"}


@pytest.mark.parametrize(
    ("strengths", "scale"),
    [((1, 100, 6000), "log"), ((4, 16, 60000), "log"), ((1, 4, 16), "linear"), ((0, 5, 600), "linear")],
)
def test_strengths_that_differ_by_factors_stand_on_a_logarithmic_axis(axes, strengths, scale):
    records = [make_record([probe_entry(50)], strength={"key": "unique_digits", "value": value}) for value in strengths]
    [axis] = axes(records)
    assert axis.get_xscale() == scale


def test_strengths_that_are_no_numbers_stand_side_by_side_in_their_natural_order(axes):
    sizes = ([20, 100], [20, 80], [20, 20])
    [axis] = axes([make_record([probe_entry(s[1])], strength={"key": "sizes", "value": s}) for s in sizes])
    assert [text.get_text() for text in axis.get_xticklabels()] == ["20+20", "20+80", "20+100"]
    assert lines(axis)["simclr"] == ([0, 1, 2], [0.2, 0.8, 1.0])


@pytest.mark.parametrize(
    ("sizes", "text"), [([256], "log₂(256)"), ([1000, 64], "log₂(64), log₂(1000)"), ([16, 32, 64, 128], None)]
)
def test_saturation_lines_of_the_batches_that_were_trained_with(axes, sizes, text):
    records = [
        make_record(
            [probe_entry(50), *bit_entries(*[60] * bool(bits))],
            bits=bits,
            seed=size,
            train={"epochs": 1, "batch_size": size},
        )
        for bits in (0, 8)
        for size in sizes
    ]
    floor = {"steps": 0, "train": {"epochs": 1, "batch_size": 4096}}
    records += [make_record([probe_entry(50)], "untrained", bits=bits, **floor) for bits in (0, 8)]
    axis = axes(records)[0]
    positions = sorted(line.get_xdata()[0] for line in axis.lines if line.get_linestyle() == "-.")
    assert positions == ([] if text is None else pytest.approx(sorted(map(math.log2, sizes))))
    assert [note.get_text() for note in axis.texts] == ([] if text is None else [text])


def test_only_members_of_a_group_saturate(axes):
    assert not any(line.get_linestyle() == "-." for axis in axes(overlays()) for line in axis.lines)


def test_a_single_strength_shows_its_spread_as_a_bar(axes):
    records = [make_record([probe_entry(50)], bits=bits, seed=seed) for bits in (0, 8) for seed in (0, 1)]
    [axis] = axes([*records, *(make_record([probe_entry(60 + 10 * seed)], "byol", seed, bits=8) for seed in (0, 1))])
    [bar] = axis.containers
    [[low, high]] = bar[2][0].get_segments()
    assert high[1] - low[1] == pytest.approx(2 * statistics.stdev([0.6, 0.7])) and low[0] == 8
    assert len([area for area in axis.collections if isinstance(area, matplotlib.collections.PolyCollection)]) == 1


# ---- trade-off ----


def test_trade_off_is_a_path_through_the_strengths(axes):
    [axis] = axes(overlays(), "trade-off")
    shown = lines(axis)
    assert axis.get_xlabel().startswith("test accuracy of digit") and "of image" in axis.get_ylabel()
    assert shown["simclr"] == (pytest.approx([0.19, 0.39, 0.59]), pytest.approx([0.62, 0.52, 0.42]))
    assert shown["supervised"] == (pytest.approx([0.7, 0.71]), pytest.approx([0.8, 0.8]))
    assert shown["untrained (mean of 1)"] == ([0.3], [0.25])
    assert [text.get_text() for text in axis.texts] == ["2", "16", "128", "2", "16"]
    [bars] = axis.containers  # both directions, of the method with two seeds
    across, up = (collection.get_segments() for collection in bars[2])
    assert across[0][1][0] - across[0][0][0] == pytest.approx(2 * statistics.stdev([0.2, 0.18]))
    assert up[0][1][1] - up[0][0][1] == pytest.approx(2 * statistics.stdev([0.6, 0.64]))
    drawn = {line.get_label(): line.get_linestyle() for line in axis.lines}
    assert drawn["simclr"] == "-" and drawn["supervised"] == drawn["untrained (mean of 1)"] == "None"


def test_a_group_is_no_second_feature_of_a_trade_off():
    refused([make_record([probe_entry(50), *bit_entries(60)], bits=bits) for bits in (1, 2)], "trade-off", "two probed")


# ---- temperature ----


def temperatures():
    records = [
        described(60 + 10 * i + 2 * seed, t, seed=seed, uniformity=3.0 - i)
        for i, t in enumerate((1.0, 0.1))
        for seed in (0, 1)
    ]
    return [*records, described(50, method="untrained")]


def test_temperature_lines_are_means_over_seeds_in_order(axes):
    shown = {axis.get_ylabel(): axis for axis in axes(temperatures(), "temperature")}
    assert list(shown) == ["uniformity", "tolerance", "k-NN accuracy", "test accuracy, lbfgs probe"]
    assert lines(shown["uniformity"])["simclr"] == ([0.1, 1.0], [2.0, 3.0])
    assert lines(shown["uniformity"])["simclr, head"] == ([0.1, 1.0], [4.0, 6.0])
    assert lines(shown["tolerance"])["simclr"][1] == [0.5, 0.5]
    assert lines(shown["k-NN accuracy"])["simclr"][1] == pytest.approx([0.66, 0.56])
    accuracy = lines(shown["test accuracy, lbfgs probe"])
    assert accuracy["simclr"][1] == pytest.approx([0.71, 0.61]) and accuracy["untrained"][1] == [0.5, 0.5]
    band = shown["test accuracy, lbfgs probe"].collections[0].get_paths()[0].vertices
    assert max(band[:, 1]) == pytest.approx(0.71 + statistics.stdev([0.7, 0.72]))


def test_one_temperature_is_no_line():
    refused([described(50, 0.1), described(60, method="byol")], "temperature", "two temperatures")


def test_a_methods_own_temperature_counts():
    records = [
        with_spec(described(50), method=plugin("swav", temperature=t), varied={"method.temperature": t})
        for t in (0.1, 0.2)
    ]
    assert "temperature" in figures.drawable(study_of(records))


# ---- alignment and uniformity ----


def test_align_uniform_shows_each_method_in_the_colour_of_its_accuracy(axes, saved):
    records = [described(40 + seed, method="byol", seed=seed, alignment=0.1, uniformity=1.0) for seed in (0, 2)]
    axis, bar = axes([*records, described(90, alignment=0.4, uniformity=3.0)], "align-uniform")
    [points] = [collection for collection in axis.collections if collection.get_array() is not None]
    order = points.get_offsets()[:, 0].argsort()
    assert points.get_offsets()[order].tolist() == [pytest.approx([0.1, 1.0]), pytest.approx([0.4, 3.0])]
    assert points.get_array()[order].tolist() == pytest.approx([0.41, 0.9]) and points.get_cmap().name == "cividis"
    assert "digit" in bar.get_ylabel()
    assert [text.get_text() for text in saved[0].legends[0].get_texts()] == ["1  byol", "2  simclr"]
    assert sorted(text.get_text() for text in axis.texts) == ["1", "2"]


def test_records_without_metrics_have_no_align_uniform():
    refused(
        [make_record([probe_entry(50)], method) for method in ("byol", "simclr")], "align-uniform", "metric_samples"
    )


# ---- learning order ----


def test_learning_order_is_what_the_traces_say(axes):
    [axis] = axes([traced((20, 80)), traced((30, 60), seed=1)], "learning")
    assert lines(axis) == {
        "digit": ([1, 4], pytest.approx([0.25, 0.7])),
        "bits": ([1, 4], pytest.approx([0.55, 0.8])),
    }
    assert axis.get_xscale() == "log" and "simclr" in axis.get_title() and "lbfgs" in axis.get_ylabel()
    band = axis.collections[0].get_paths()[0].vertices
    assert max(band[:, 1]) == pytest.approx(0.7 + statistics.stdev([0.8, 0.6]))
    levels = [line.get_ydata()[0] for line in axis.lines if line.get_linestyle() == ":"]
    assert levels == [0.1, 0.5]  # chance of the digit and of a bit


def test_records_without_a_trace_have_no_learning_order():
    refused([make_record([probe_entry(50)])], "learning", "--trace")


# ---- all of them ----


def everything():
    """Records that allow every kind of figure."""
    return [*overlays(), *temperatures(), traced((20, 80))]


def many():
    """More methods than colours, with long names, on two strengths."""
    names = [f"a-method-of-quite-some-length-{i:02d}" for i in range(20)]
    records = [
        described(40 + i, method=name, alignment=0.1 + 0.001 * i, uniformity=2.0 + 0.001 * i)
        for i, name in enumerate(names)
    ]
    return [*records, *(make_record([probe_entry(30 + i)], name, bits=9) for i, name in enumerate(names))]


@pytest.mark.slow
def test_every_kind_is_drawn_with_the_same_bytes_for_the_same_records(tmp_path):
    study = study_of(everything())
    assert figures.drawable(study) == ["curves", "trade-off", "learning", "temperature", "align-uniform"]
    for name in figures.drawable(study):
        ending, start = ("png", b"\x89PNG") if name == "learning" else ("svg", b"<?xml")
        for stem in "ab":
            figures.draw(study, name, tmp_path / f"{stem}.{ending}")
        content = (tmp_path / f"a.{ending}").read_bytes()
        assert content.startswith(start) and content == (tmp_path / f"b.{ending}").read_bytes(), name


def test_nothing_is_listed_that_cannot_be_drawn():
    assert figures.drawable(study_of([make_record([], status="failed", error="e")])) == []
    assert figures.drawable(study_of([make_record([probe_entry(50)], bits=bits) for bits in (0, 5)])) == ["curves"]


@pytest.mark.parametrize("records", [everything, many])
@pytest.mark.slow
def test_no_text_is_smaller_than_eight_points_or_cut_off(tmp_path, saved, records):
    study = study_of(records())
    for name in figures.drawable(study):
        figures.draw(study, name, tmp_path / "x.png")
        figure = saved[-1]
        visible = [axis for axis in figure.axes if axis.get_visible()]
        texts = [text for axis in visible for text in (*axis.texts, axis.title, axis.xaxis.label, axis.yaxis.label)]
        for box in figure.legends:
            texts += [box.get_title(), *box.get_texts()]
        figure.draw_without_rendering()
        width, height = figure.bbox.size
        for text in (text for text in texts if text.get_text()):
            extent = text.get_window_extent()
            assert text.get_fontsize() >= style.SMALL, (name, text.get_text())
            assert extent.x0 >= -1 and extent.y0 >= -1, (name, text.get_text())
            assert extent.x1 <= width + 1 and extent.y1 <= height + 1, (name, text.get_text())
