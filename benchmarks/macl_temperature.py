"""MACL's temperature over training: recorded at every step beside the alignment it follows, and drawn.

Huang et al., Model-Aware Contrastive Learning (ICML 2023), section 4: the temperature should rise as the views align.
Usage: python benchmarks/macl_temperature.py --out macl.png [--seeds 3] [--epochs 40]
"""

import argparse
import sys
import tempfile
from functools import partial
from pathlib import Path

import matplotlib
import torch

from suppression_bench.loss import normalised
from suppression_bench.results.style import COLOURS
from suppression_bench.run import Prepared, build_method, prepare
from suppression_bench.suite import Request, cells_of_suite
from suppression_bench.training import loop
from suppression_bench.training.data import Data

SUITE = """
version: 1
data: {{dataset: randbit, digit_source: optdigits}}
strength: bits
recipe: randbit-small
set: {{loss.name: macl, train.epochs: {epochs}}}
cells:
  - {{method: simclr, grid: {{loss.form: [a, b], bits: [0, 10]}}}}
"""
WINDOW = 10  # steps a point of the figure is the mean of


class Recorder:
    """MACL that notes each step's mean similarity of positives and the temperature that follows from it."""

    def __init__(self, loss: partial):
        self.loss, self.alignment = loss, []

    def __call__(self, z1, z2):
        with torch.no_grad():
            self.alignment.append((normalised(z1) * normalised(z2)).sum(1).mean())
        return self.loss(z1, z2)

    def temperatures(self) -> torch.Tensor:
        """(steps,) by the formula of the loss's docstring, a second writing."""
        options = self.loss.keywords
        found = torch.stack(self.alignment)
        factor = 1 + options["beta"] * found if options["form"] == "b" else options["alpha"] ** found
        return options["temperature"] * factor


def record(prepared: Prepared) -> Recorder:
    """Train one cell with a recording loss."""
    cell = prepared.cell
    data = Data(prepared.folder, cell.dataset.bits)
    samples = data.samples("pretrain")
    method = build_method(prepared.located, data, len(samples)).to(memory_format=torch.channels_last)
    method.pair_loss = Recorder(method.pair_loss)
    outcome = loop.train(method, samples, cell.train, cell.augmentation, seed=cell.seed)
    if outcome.status != "ok":
        sys.exit(f"{cell.label}: {outcome.status} at step {outcome.steps}")
    return method.pair_loss


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", default="macl.png")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=40)
    flags = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "macl.yaml"
        path.write_text(SUITE.format(epochs=flags.epochs))
        cells = cells_of_suite(str(path), Request(seeds=flags.seeds))
    runs = {}
    for prepared in prepare(cells, 1, print):
        title = (prepared.cell.loss.options["form"], prepared.cell.dataset.bits)
        runs.setdefault(title, []).append(record(prepared))
    for title, recorders in runs.items():
        print(title, _line(recorders), flush=True)
    draw(runs, flags.out)


def _smooth(values: torch.Tensor) -> torch.Tensor:
    # (seeds, steps) -> (seeds, steps / WINDOW).
    return values[:, : values.shape[1] // WINDOW * WINDOW].unflatten(1, (-1, WINDOW)).mean(2)


def _series(recorders: list[Recorder]) -> tuple[torch.Tensor, torch.Tensor]:
    alignment = torch.stack([torch.stack(one.alignment) for one in recorders])
    return _smooth(alignment), _smooth(torch.stack([one.temperatures() for one in recorders]))


def _line(recorders: list[Recorder]) -> str:
    alignment, temperature = _series(recorders)
    pairs = (("alignment", alignment), ("temperature", temperature))
    return "  ".join(
        f"{name} first {_shown(values[:, 0])}, last {_shown(values[:, -1])}, highest {values.mean(0).max():.3f}"
        for name, values in pairs
    )


def _shown(values: torch.Tensor) -> str:
    spread = f" +- {values.std():.3f}" if len(values) > 1 else ""
    return f"{values.mean():.3f}{spread} (n={len(values)})"


def draw(runs: dict, out: str) -> None:
    """Alignment and temperature against the step, a line per form and number of bits, the band one deviation."""
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    with plt.rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}):
        figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
        for position, ((form, bits), recorders) in enumerate(runs.items()):
            for axis, values in zip(axes, _series(recorders), strict=True):
                steps = (torch.arange(values.shape[1]) + 0.5) * WINDOW
                mean = values.mean(0)
                style = dict(color=COLOURS[position], linestyle="-" if bits == 0 else "--")
                axis.plot(steps, mean, label=f"form {form}, {bits} bits", **style)
                if len(values) > 1:
                    spread = values.std(0)
                    axis.fill_between(
                        steps, mean - spread, mean + spread, color=style["color"], alpha=0.15, linewidth=0
                    )
        for axis, title in zip(axes, ("mean similarity of positives", "temperature"), strict=True):
            axis.set_xlabel("step")
            axis.set_ylabel(title)
            axis.grid(alpha=0.25, linewidth=0.5)
        axes[1].legend(frameon=False)
        figure.savefig(out, dpi=150, metadata={"Software": None})
    print(f"written: {out}")


if __name__ == "__main__":
    main()
