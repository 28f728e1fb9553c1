"""How figures look: lines that can be told apart, texts that cover nothing."""

import matplotlib.text

from suppression_bench.results import style


def test_28_lines_look_different():
    looks = [style.look(position) for position in range(28)]
    assert len({(look["color"], str(look["linestyle"])) for look in looks}) == 28
    assert len({(look["marker"], look["markerfacecolor"] == "white", str(look["linestyle"])) for look in looks}) == 28


def test_labels_cover_neither_each_other_nor_a_point(tmp_path):
    points = [(0.5 + 0.004 * (i % 4), 0.5 + 0.004 * (i // 4)) for i in range(12)] + [(0.0, 0.0), (1.0, 1.0)]
    with style.canvas(tmp_path / "x.png", 1, 1, (5, 4)) as (figure, [[axis]]):
        axis.plot(*zip(*points, strict=True), "o")
        style.label_points(axis, points, [str(i) for i in range(14)], ["black"] * 14)
        figure.draw_without_rendering()
        pixels = axis.transData.transform(points)
        boxes = [matplotlib.text.Text.get_window_extent(text) for text in axis.texts]
    for i, box in enumerate(boxes):
        assert not any(box.overlaps(neighbour) for neighbour in boxes[:i]), i
        assert not any(box.contains(*point) for point in pixels), i
