"""Geometry of the page's two pictures: an entry's accuracies against the strength, and its score on a line from 0 to 1."""

from collections.abc import Sequence

import numpy as np

from suppression_bench.evaluation import suppression
from suppression_bench.leaderboard.entry import Entry
from suppression_bench.results.curves import SHARE
from suppression_bench.results.frame import BITS

WIDTH, HEIGHT = 360, 210
LEFT, RIGHT, TOP, BOTTOM = 46, 14, 10, 40  # room for the axes
BAR = 120
LOOKS = 4  # of markers, lines and colours
SIZE = 4.0
DASHES = ("none", "7 3", "2 2.5", "8 3 2 3")


def curve(entry: Entry, grid: Sequence, floor: dict) -> dict:
    """What the template draws: axes, and per feature a line with markers and 95 % bars beside that of the floor.

    Strengths stand at equal distances, in the track's order; accuracies run from 0 to 1.

    Arguments:
        entry: with its accuracies.
        grid: all strengths of the track.
        floor: [feature][strength][seed] of the untrained encoder.
    """
    step = (WIDTH - LEFT - RIGHT) / max(1, len(grid) - 1)
    across = {strength: LEFT + step * place for place, strength in enumerate(grid)}
    features = sorted(set(entry.curves.values) | set(floor), key=lambda name: (name == BITS, name))
    return {
        "width": WIDTH, "height": HEIGHT, "left": LEFT, "right": WIDTH - RIGHT, "bottom": HEIGHT - BOTTOM,
        "across": [(_digits(x), strength) for strength, x in across.items()],
        "up": [(_digits(_up(share)), f"{share:.0%}") for share in (0, 0.25, 0.5, 0.75, 1)],
        "middle": _digits((LEFT + WIDTH - RIGHT) / 2), "has_floor": bool(floor),
        "lines": [
            _line(feature, place % LOOKS, entry.curves.values.get(feature, {}), floor.get(feature, {}), across)
            for place, feature in enumerate(features)
        ],
    }  # fmt: skip


def _line(feature: str, look: int, own: dict, floor: dict, across: dict) -> dict:
    points = [(x, _mean(own[strength]), _bar(own[strength])) for strength, x in across.items() if own.get(strength)]
    below = [(x, _mean(floor[strength])) for strength, x in across.items() if floor.get(strength)]
    return {
        "feature": feature, "look": look, "dash": DASHES[look], "key": marker(look, 17, 6),
        "path": _path([(x, _up(share)) for x, share, _ in points]),
        "floor": _path([(x, _up(share)) for x, share in below]),
        "markers": " ".join(marker(look, x, _up(share)) for x, share, _ in points),
        "floor_markers": " ".join(marker(look, x, _up(share), SIZE * 0.75) for x, share in below),
        "bars": " ".join(f"M{_digits(x)} {_digits(_up(low))}V{_digits(_up(high))}" for x, _, (low, high) in points),
    }  # fmt: skip


def marker(look: int, x: float, y: float, size: float = SIZE) -> str:
    """A closed path: circle, square, triangle or diamond.

    >>> marker(1, 10, 20)
    'M6.5 16.5h7v7h-7z'
    """
    if look == 0:
        r, d = _digits(size), _digits(2 * size)
        return f"M{_digits(x - size)} {_digits(y)}a{r} {r} 0 1 0 {d} 0a{r} {r} 0 1 0 -{d} 0z"
    if look == 1:
        side = _digits(1.75 * size)
        return f"M{_digits(x - 0.875 * size)} {_digits(y - 0.875 * size)}h{side}v{side}h-{side}z"
    corners = {
        2: [(0, -1.2), (1.15, 0.9), (-1.15, 0.9)],
        3: [(0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)],
    }[look]
    return _path([(x + size * a, y + size * b) for a, b in corners]) + "z"


def score(entry: Entry) -> dict:
    """Where score and interval stand on a line BAR wide."""
    low, high = entry.interval or (entry.score, entry.score)
    return {"width": BAR, "x": _digits(BAR * entry.score), "low": _digits(BAR * low), "high": _digits(BAR * high)}


def _bar(seeds: dict[int, float]) -> tuple[float, float]:
    values = np.array(list(seeds.values()))
    found = suppression.interval(len(values), lambda places: float(values[places].mean()), SHARE)
    return found or (float(values[0]), float(values[0]))


def _mean(seeds: dict[int, float]) -> float:
    return sum(seeds.values()) / len(seeds)


def _up(share: float) -> float:
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - share)


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{_digits(x)} {_digits(y)}" for x, y in points) if points else ""


def _digits(number: float) -> str:
    # A tenth of a pixel, without -0 and without zeros that say nothing.
    return f"{round(number, 1) + 0.0:g}"
