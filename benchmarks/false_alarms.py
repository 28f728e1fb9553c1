"""How often `bench check` cries wolf, and how often it sees a real shift, by drawing seeds again and again.

    python benchmarks/false_alarms.py [--baseline leaderboard/baselines/quick.json] [--checks 400] [--cells 35] [--shift 3]

Without a baseline the noise is made up: normal, skewed or of two groups, with SDs from .005 to .1. A moved cell's fresh
seeds are shifted by three SDs (or three times the binomial noise of its test samples, where that is more: the check counts no
spread below it); where seeds fall in two groups, all of them are suppressed. With a baseline, each cell's
recorded seeds are drawn with repetition, with a kernel of a third of their SD so that no two seeds agree. Every check draws
its baseline and both stages anew and goes through the verdicts of `bench check` itself. Cells where three SDs are less than
the smallest difference that fails a check are not moved, as no check is meant to see that; they are counted.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from generators.describe import table
from suppression_bench.regression import baseline as baselines
from suppression_bench.regression.baseline import Baseline, Measured, Measurements, Names, Number
from suppression_bench.regression.check import OK, judge
from suppression_bench.regression.statistics import FIRST, LEAST, SECOND, two_groups

DEVIATIONS = [0.005, 0.01, 0.02, 0.05, 0.1]
HEAD = ["noise", "cells a check", "checks", "false alarm a check", "shift too small to count", "moved cell seen"]
SPARE = 0.15  # room for a shift on both sides of a synthetic cell's mean
MIXED, LOW = 0.2, 0.1  # share and accuracy of the suppressed seeds in a cell of two groups


def main() -> None:
    parser = argparse.ArgumentParser(
        description="False alarms and power of `bench check`, by drawing seeds again and again."
    )
    parser.add_argument("--baseline", default=None, help="a file of `bench check --record`; default: synthetic noise")
    parser.add_argument("--checks", type=int, default=400)
    parser.add_argument("--cells", type=int, default=35, help="of a check with synthetic noise")
    parser.add_argument("--shift", type=float, default=3.0, help="of a moved cell, in SDs")
    parser.add_argument("--n", type=int, default=450, help="test samples of synthetic cells")
    flags = parser.parse_args()
    if flags.baseline:
        sources = {"recorded": recorded(baselines.read(Path(flags.baseline)))}
    else:
        sources = {kind: synthetic(kind, flags.cells, flags.n) for kind in ("normal", "skewed", "two groups")}
    rows = []
    for name, cells in sources.items():
        began = time.monotonic()
        random = np.random.default_rng(20_260_101)
        alarms = sum(any(check(random, cells, None, 0.0)) for _ in range(flags.checks))
        large = [at for at, cell in enumerate(cells) if cell.reach(flags.shift) >= LEAST]
        turns = [large[turn % len(large)] for turn in range(flags.checks)]
        hits = sum(check(random, cells, at, flags.shift)[at] for at in turns)
        rows.append([name, len(cells), flags.checks, share(alarms, flags.checks)])
        rows[-1] += [f"{len(cells) - len(large)} cells", share(hits, flags.checks)]
        print(table(HEAD, rows[-1:]), f"({time.monotonic() - began:.0f} s)", flush=True)
    print("\n" + table(HEAD, rows))


def share(count: int, of: int) -> str:
    """A share in percent with its 95 % interval (Wilson, 1927)."""
    p, z = count / of, 1.96
    centre, half = p + z * z / (2 * of), z * np.sqrt(p * (1 - p) / of + z * z / (4 * of * of))
    low, high = ((centre + side * half) / (1 + z * z / of) for side in (-1, 1))
    return f"{100 * p:.1f} % ({100 * low:.1f}-{100 * high:.1f})"


@dataclass(frozen=True)
class Noise:
    """One cell: `draw` gives accuracies of new seeds, `suppressed` is where a cell of two groups ends when it is moved."""

    draw: Callable[[np.random.Generator, int], np.ndarray]
    centre: float
    deviation: float
    n: int
    suppressed: float | None = None

    def reach(self, shift: float) -> float:
        """How far a move goes, as an accuracy."""
        if self.suppressed is not None:
            return abs(self.centre - self.suppressed)
        return shift * max(self.deviation, np.sqrt(self.centre * (1 - self.centre) / self.n))

    def moved(self, values: np.ndarray, centre: float, shift: float) -> np.ndarray:
        """The values after a change, towards the middle, where there is room."""
        if self.suppressed is not None:
            return np.full_like(values, self.suppressed)
        floor = np.sqrt(centre * (1 - centre) / self.n)
        return values + (1 if centre < 0.5 else -1) * shift * max(self.deviation, floor)


def synthetic(kind: str, cells: int, n: int) -> list[Noise]:
    """Cells of several SDs and means with one shape of noise."""
    random, noises = np.random.default_rng(7), []
    for at in range(cells):
        deviation = DEVIATIONS[at % len(DEVIATIONS)]
        room = min(SPARE + 3 * deviation, 0.45)
        mean = random.uniform(room, 1 - room) if kind != "two groups" else random.uniform(0.6, 0.9)

        def draw(random, size, mean=mean, deviation=deviation):
            if kind == "skewed":  # exponential: a long tail to one side
                return mean - deviation * (random.exponential(size=size) - 1)
            values = mean + deviation * random.standard_normal(size)
            if kind == "two groups":
                return np.where(random.random(size) < MIXED, LOW + 0.02 * random.standard_normal(size), values)
            return values

        noises.append(Noise(draw, mean, deviation, n, LOW if kind == "two groups" else None))
    return noises


def recorded(baseline: Baseline) -> list[Noise]:
    """The cells of a baseline, drawn from their own seeds."""
    noises = []
    for measured in baseline.numbers.values():
        values = np.array(measured.shares())
        deviation = float(values.std(ddof=1))

        def draw(random, size, values=values, deviation=deviation):
            return random.choice(values, size) + deviation / 3 * random.standard_normal(size)

        low = None if two_groups(values) is None else float(values.min())
        noises.append(Noise(draw, float(values.mean()), deviation, measured.n, low))
    return noises


def check(random: np.random.Generator, cells: list[Noise], moved: int | None, shift: float) -> list[bool]:
    """Whether each cell fails, with a new baseline and new seeds, the cell `moved` changed."""
    before, after, old = {}, {}, baselines.LEAST
    names = Names(**dict.fromkeys(Names.__struct_fields__, ""))
    for at, cell in enumerate(cells):
        number = Number(settings="", probe="lbfgs", layer="encoder", feature=str(at))
        values = cell.draw(random, old + FIRST + SECOND)
        if at == moved:
            values[old:] = cell.moved(values[old:], float(np.clip(values[:old].mean(), 0, 1)), shift)
        correct = dict(enumerate(np.rint(np.clip(values, 0, 1) * cell.n).astype(int).tolist()))
        before[number] = Measured(names, "", cell.n, {seed: correct[seed] for seed in range(old)})
        after[number] = Measured(names, "", cell.n, {seed: correct[seed] for seed in correct if seed >= old})
    report = judge(Baseline(None, {}, before), Measurements(after))
    if report.faults or report.exit_code not in (0, 1):
        raise RuntimeError(f"a check of drawn seeds has a verdict on all numbers, got {report.faults}")
    return [verdict.outcome != OK for verdict in report.verdicts]


if __name__ == "__main__":
    main()
