"""Suppression curves: whole files of both kinds, the same bytes twice, what is drawn."""

import pytest
from small_cells import make_record, probe_entry, write_records

from generators.dataset import UserError
from suppression_bench.results import figures
from suppression_bench.results.frame import long_table


def records(methods=("simclr", "byol"), bits=(0, 5, 10), seeds=(0, 1)):
    made = []
    for method in (*methods, "untrained"):
        for b in bits:
            probes = [probe_entry(90 - 5 * b)]
            probes += [probe_entry(60 + b, feature=f"bit{i:02d}", classes=2) for i in range(min(b, 2))]
            made += [make_record(probes, method=method, bits=b, seed=s) for s in seeds]
    return made


@pytest.fixture
def frame(tmp_path):
    return long_table([write_records(tmp_path / "runs", records())])


def test_png_and_svg_are_written(frame, tmp_path):
    for ending, start in (("png", b"\x89PNG"), ("svg", b"<?xml")):
        path = tmp_path / f"curves.{ending}"
        figures.suppression_curves(frame, path)
        content = path.read_bytes()
        assert content.startswith(start) and len(content) > 5000


def test_an_svg_is_the_same_bytes_twice(frame, tmp_path):
    for name in ("one", "two"):
        figures.suppression_curves(frame, tmp_path / f"{name}.svg")
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    other = long_table([write_records(tmp_path / "other", records(bits=(0, 5)))])
    figures.suppression_curves(other, tmp_path / "two.svg")
    assert (tmp_path / "one.svg").read_bytes() != (tmp_path / "two.svg").read_bytes()


def test_every_method_the_floor_and_chance_are_drawn(frame, tmp_path, monkeypatch):
    import matplotlib.axes

    drawn = []
    for name in ("plot", "axhline"):
        original = getattr(matplotlib.axes.Axes, name)

        def spy(self, *arguments, original=original, name=name, **more):
            drawn.append(
                (
                    name,
                    self,
                    [list(part) if hasattr(part, "__iter__") else part for part in arguments],
                    more.get("label"),
                )
            )
            return original(self, *arguments, **more)

        monkeypatch.setattr(matplotlib.axes.Axes, name, spy)
    figures.suppression_curves(frame, tmp_path / "curves.png")
    digit = [entry for entry in drawn if entry[1] is drawn[0][1]]
    labels = [label for *_, label in digit]
    assert labels == ["byol", "simclr", "untrained (mean of 2)", "chance"]
    for _, _, arguments, label in digit[:3]:
        assert arguments[0] == [0, 5, 10] and arguments[1] == pytest.approx([0.9, 0.65, 0.4]), label
    assert digit[3][2] == [0.1]
    bits = [entry for entry in drawn if entry[1] is not drawn[0][1]]
    assert bits[0][2][0] == [5, 10] and bits[-1][2] == [0.5]


def test_one_strength_is_no_curve(tmp_path):
    frame = long_table([write_records(tmp_path, records(bits=(5,)))])
    assert not figures.can_draw(frame)
    with pytest.raises(UserError, match="two strengths"):
        figures.suppression_curves(frame, tmp_path / "x.png")


def test_failures_alone_are_no_curve(tmp_path):
    frame = long_table([write_records(tmp_path, [make_record([], bits=b, status="failed", error="e") for b in (0, 5)])])
    assert not figures.can_draw(frame)


def test_a_probe_that_is_not_there_is_named(frame, tmp_path):
    with pytest.raises(UserError, match="sgd"):
        figures.suppression_curves(frame, tmp_path / "x.png", probe="sgd")


def drawn_texts(frame, folder):
    """Every text of the curves, as the SVG has it when texts stay texts."""
    import matplotlib

    with matplotlib.rc_context({"svg.fonttype": "none"}):
        figures.suppression_curves(frame, folder / "texts.svg")
    return " ".join((folder / "texts.svg").read_text().split())


def test_a_name_with_dollars_is_a_name(tmp_path):
    frame = long_table([write_records(tmp_path / "runs", records(methods=(r"a$\nomathematics$", "b$x^2$")))])
    text = drawn_texts(frame, tmp_path)
    assert r"a$\nomathematics$" in text and "b$x^2$" in text


def test_cells_without_numbers_are_named_below(tmp_path):
    lost = [
        make_record([], bits=5, seed=seed, status=status, error="e")
        for seed, status in ((7, "failed"), (8, "failed"), (9, "diverged"))
    ]
    frame = long_table([write_records(tmp_path / "runs", [*records(), *lost])])
    assert "not drawn, since they have no numbers: 1 diverged, 2 failed" in drawn_texts(frame, tmp_path)
    frame = long_table([write_records(tmp_path / "whole", records())])
    assert "not drawn" not in drawn_texts(frame, tmp_path)


def test_variants_of_one_dataset_are_told_apart(tmp_path):
    made = records(methods=("simclr",), bits=(0, 5), seeds=(0,))
    for record in records(methods=("simclr",), bits=(0, 5), seeds=(0,)):
        data = {**record["spec"]["data"], "options": {"digit_source": "optdigits", "train": 200}}
        bits = data["bits"]
        made.append(make_record(record["probes"], record["spec"]["method"]["name"], 0, bits, data=data))
    text = drawn_texts(long_table([write_records(tmp_path / "runs", made)]), tmp_path)
    assert "digit (randbit over optdigits)" in text and "digit (randbit over optdigits (train=200))" in text


@pytest.mark.parametrize(
    ("strengths", "scale"),
    [((1, 100, 6000), "log"), ((4, 16, 60000), "log"), ((1, 4, 16), "linear"), ((0, 5, 600), "linear")],
)
def test_strengths_that_differ_by_factors_stand_on_a_logarithmic_axis(tmp_path, monkeypatch, strengths, scale):
    import matplotlib.axes

    found = set()
    original = matplotlib.axes.Axes.set_ylim

    def spy(self, *arguments, **more):
        found.add(self.get_xscale())
        return original(self, *arguments, **more)

    monkeypatch.setattr(matplotlib.axes.Axes, "set_ylim", spy)
    made = [
        make_record([probe_entry(50)], method=method, strength={"key": "unique_digits", "value": value})
        for method in ("simclr", "untrained")
        for value in strengths
    ]
    frame = long_table([write_records(tmp_path / "runs", made)])
    figures.suppression_curves(frame, tmp_path / "curves.svg")
    assert found == {scale}
