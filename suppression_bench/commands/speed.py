"""How fast a method trains here and where the time goes: bench speed --recipe NAME, or bench speed --data DIR."""

import json
import sys
from pathlib import Path

from generators import executor
from generators.card import table
from generators.dataset import UserError
from suppression_bench.commands._parser import Parser, set_data_root
from suppression_bench.commands.shared import pairs

# Embedded data for each recipe of the package; others are timed on a folder of one's own.
EMBEDDED = {
    "randbit-small": {"dataset": "randbit"},
    "randbit": {"dataset": "randbit"},
    "natural-small": {"dataset": "digit-on-imagenet", "image_size": 64},
    "natural": {"dataset": "digit-on-imagenet", "image_size": 64},
    "cifar": {"dataset": "randbit", "image_source": "leaves", "image_size": 32},
    "temperature": {"dataset": "randbit", "image_source": "leaves", "image_size": 32},
    "macl": {"dataset": "randbit", "image_source": "leaves", "image_size": 32},
    "images-small": {"dataset": "randbit", "image_source": "leaves", "image_size": 32},
    "generalized": {"dataset": "randbit", "image_source": "leaves", "image_size": 32},
    "generalized-imagenet": {"dataset": "digit-on-imagenet"},
    "multidigits": {"dataset": "multidigits", "train": 2048, "probe_train": 1000, "probe_test": 200},
    "multidigits-small": {
        "dataset": "multidigits",
        "canvas": 56,
        "train": 2048,
        "probe_train": 1000,
        "probe_test": 200,
    },
}
DEFAULT = "randbit-small"


def _parser() -> Parser:
    parser = Parser("speed", "Time training, its parts, and the same network on random tensors, on this machine.")
    parser.add_argument(
        "--data", type=str, default=None, help="a folder that `bench generate` wrote (default: embedded)"
    )
    parser.add_argument("--recipe", type=str, default=None, help=f"default: the data's own, or {DEFAULT}")
    parser.add_argument("--method", type=str, default="simclr", help="a method's name or .py file")
    parser.add_argument("--set", type=str, nargs="+", action="append", default=None, metavar="KEY=VALUE",
                        help="settings, as of `bench run`: bits=8 batch_size=512 precision=bf16")  # fmt: skip
    parser.add_argument("--device", type=str, default="auto", choices=["auto", "cpu", "cuda"], help="where to train")
    parser.add_argument("--steps", type=int, default=30, help="timed steps of each side")
    parser.add_argument("--threads", type=int, default=None, help="torch threads (default: all cores)")
    parser.add_argument("--format", type=str, default="markdown", choices=["markdown", "json"], help="how to print it")
    parser.add_argument("--data-root", type=str, default=None, help="where data is kept")
    return parser


def run(arguments: list[str]) -> int:
    """Time one cell and print a table."""
    parser = _parser()
    flags = parser.read(arguments)
    parser.require_positive(flags, "steps", *(["threads"] if flags.threads is not None else []))
    set_data_root(flags.data_root)
    import torch

    from suppression_bench import speed
    from suppression_bench.run import device_of, prepare
    from suppression_bench.training import precision

    precision.prepare_process()
    device = device_of(flags.device)
    located = _cell(flags)

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    [prepared] = prepare([located], executor.cores(), say)
    before = torch.get_num_threads()
    torch.set_num_threads(flags.threads or executor.cores())
    try:
        found = speed.measure(prepared, device, flags.steps, say)
    finally:
        torch.set_num_threads(before)
    print(json.dumps(found, indent=1) if flags.format == "json" else render(found))
    return 0


def _cell(flags):
    from suppression_bench import config

    settings = pairs([text for group in flags.set or [] for text in group], "--set")
    if flags.data:
        return config.cells_of_folder(Path(flags.data), flags.method, flags.recipe, settings, 1)[0]
    recipe = flags.recipe or DEFAULT
    config.read_yaml(config.RECIPES, recipe)
    name = Path(recipe).stem
    if name not in EMBEDDED:
        raise UserError(f"bench speed: no embedded data go with the recipe {recipe!r}; name a folder with --data DIR")
    layers = [(recipe, {f"data.{key}": value for key, value in EMBEDDED[name].items()}), ("--set", settings)]
    faults = config.Faults()
    cells = config.compose(
        flags.method, recipe, layers, [0], config.Origin("bench speed", varied=tuple(settings)), faults
    )
    faults.raise_if_any()
    return cells[0]


def render(found: dict) -> str:
    """What was measured, as Markdown."""
    place, probe, best = found["environment"], found["probe"], found["peak"]
    sides = {"training": "training, as `bench run` does it", "ceiling": "the same network on random tensors"}
    step = {name: found["batch_size"] * found["views"] / rate for name, rate in found["views_per_second"].items()}
    rows = [
        [words, f"{found['views_per_second'][name]:.0f}", "{:.0f} - {:.0f}".format(*found["range"][name]),
         f"{1000 * step[name]:.2f}", f"{100 * found['of_peak'][name]:.1f} %"]
        for name, words in sides.items()
    ]  # fmt: skip
    total = sum(found["parts"].values())
    parts = [[name, f"{1000 * value:.2f}", f"{100 * value / total:.1f} %"] for name, value in found["parts"].items()]
    execution = ", ".join([found["precision"], *(f"{name} {value}" for name, value in found["execution"].items())])
    seconds = ", ".join(f"{name} {value:.2f} s" for name, value in probe["seconds"].items())
    return "\n".join(
        [
            f"{found['method']} with {found['encoder']} on {found['dataset']}: {found['samples']} samples of "
            f"{found['side']} x {found['side']} x {found['channels']}, recipe {found['recipe']}, batch "
            f"{found['batch_size']}, {found['views']} views, {execution}, pictures {found['pictures']}",
            f"{place['device']} ({place['platform']}, {place['cpu_capability']}), {place['threads']} threads, "
            f"torch {place['torch']}, numpy {place['numpy']}, python {place['python']}",
            "",
            table(["what", "views/s", "lowest - highest", "ms per step", "of the peak"], rows),
            "",
            f"Training runs at {100 * found['of_ceiling']:.0f} % of its ceiling. Medians of {found['turns']} turns, "
            f"{found['steps']} steps of each side after {found['warm_up']} of warm-up.",
            f"Peak: {best['flops_per_second'] / 1e9:.0f} GFLOP/s, the fastest {best['type']} product of two "
            f"{best['size']} x {best['size']} matrices; the network takes {found['flops_per_step'] / 1e9:.2f} GFLOP a step.",
            "",
            table(["part of a step", "ms", "share"], parts),
            "",
            f"Each part timed alone, the device waited for in between: together {1000 * total:.2f} ms.",
            f"Load average {found['load_average']:.1f} for {place['threads']} threads: what is above them slows both sides.",
            f"Probe of {probe['probes']} features on {probe['samples']} samples: {seconds}.",
        ]
    )
