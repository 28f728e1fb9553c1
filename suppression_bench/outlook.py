"""What a run would do, said before it does it: its cells, its data, its time."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from generators import estimate as sizes
from generators.card import table
from suppression_bench import runner
from suppression_bench.budget import words
from suppression_bench.estimate import FINISHED, Estimate, Estimator, together
from suppression_bench.results import record as records
from suppression_bench.results.found import read_plan
from suppression_bench.spec import Cell, show


def describe(
    found: list[Cell], estimator: Estimator, workers: int, budget: float | None, watch: Callable[[int], None]
) -> str:
    """The cells with their estimates, the data, and the time in all, as Markdown.

    Arguments:
        found: resolved cells, in the order in which they would run.
        estimator: of their times.
        workers: cells at once.
        budget: seconds that the run may take, or None.
        watch: called with the number of cells whose time is known by now: some are measured, which takes seconds.
    """
    estimates = []
    for cell in found:
        estimates.append(estimator.of(cell))
        watch(len(estimates))
    rows = [[cell.label, _time(one), one.source] for cell, one in zip(found, estimates, strict=True)]
    return "\n".join(
        [
            table(["cell", "about", "by"], rows),
            "",
            *_data_lines(found, estimator),
            *_time_lines(estimates, workers, budget),
        ]
    )


def _time(estimate: Estimate) -> str:
    return "?" if estimate.seconds is None else "-" if estimate.source == FINISHED else words(estimate.seconds)


def _data_lines(found: list[Cell], estimator: Estimator) -> list[str]:
    lines, to_make = [], 0
    for cell in {runner.place_key(cell): cell for cell in found}.values():
        place = estimator.place(cell)
        if isinstance(place, str):
            lines.append(f"data: {cell.spec['data']['dataset']}: {place}")
            continue
        options = place.facts["options"].items()
        shown = " ".join(f"{key}={show(value)}" for key, value in options if value is not None)
        name = f"{place.facts['dataset']} {shown} ({sum(place.counts.values())} samples)"
        if place.is_there:
            lines.append(f"data: {name}: there")
        else:
            size = sizes.expected_bytes(place.dataset, cell.spec["data"]["seed"])
            to_make += size
            lines.append(f"data: {name}: would be generated, about {sizes.words(size)}")
    return lines + ([f"data: about {sizes.words(to_make)} to generate in all"] if to_make and len(lines) > 1 else [])


def _time_lines(estimates: list[Estimate], workers: int, budget: float | None) -> list[str]:
    known = [one.seconds for one in estimates if one.seconds is not None]
    counts = Counter(one.source for one in estimates)
    at_once = f", {words(together(known, workers))} with {workers} at once" if workers > 1 else ""
    lines = [f"time: about {words(sum(known))}{at_once}, without the time to generate data"] if sum(known) else []
    lines.append("cells: " + ", ".join(f"{count} {source}" for source, count in counts.items()))
    if budget is not None:
        lines.append(
            f"budget: {_fitting(estimates, workers, budget)} of {len(estimates)} cells would fit into {words(budget)}"
        )
    return lines


def _fitting(estimates: list[Estimate], workers: int, budget: float) -> int:
    free, fitting = [0.0] * workers, 0
    for one in estimates:
        free.sort()
        wanted = one.seconds or 0
        if free[0] + wanted <= budget:
            free[0] += wanted
            fitting += 1
    return fitting


def others(out: Path, found: list[Cell]) -> str:
    """A sentence on the cells of other suites in a run's folder, "" where there are none.

    Arguments:
        out: the folder, which need not be there.
        found: the cells that are about to run.
    """
    path = out / records.PLAN
    if not path.exists():
        return ""
    own = {_suite(cell.spec) for cell in found}
    counts = Counter(name for entry in read_plan(path) if (name := _suite(entry["spec"])) not in own)
    named = ", ".join(f"{count} of {name}" for name, count in counts.items())
    return f"{out} holds other cells too ({named}): its tables show them all" if counts else ""


def _suite(spec: dict) -> str:
    return f"suite {spec['suite']['name']}" if spec["suite"] else "no suite"
