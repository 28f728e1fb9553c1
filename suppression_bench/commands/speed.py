"""How fast a method trains here and where the time goes: bench speed --recipe NAME, or bench speed --data DIR."""

import json
import sys
from pathlib import Path

from generators import executor
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

    from suppression_bench import cell, runner, speed
    from suppression_bench.training import precision

    precision.prepare_process()
    device = cell.device_of(flags.device)
    made = _cell(flags)

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    runner.prepare([made], executor.cores(), say)
    before = torch.get_num_threads()
    torch.set_num_threads(flags.threads or executor.cores())
    try:
        measured = speed.measure(made, device, flags.steps, say)
    finally:
        torch.set_num_threads(before)
    print(json.dumps(measured, indent=1) if flags.format == "json" else speed.markdown(measured))
    return 0


def _cell(flags):
    from generators import manifest
    from suppression_bench import spec

    given = pairs([text for group in flags.set or [] for text in group], "--set")
    if flags.data:
        recipe = flags.recipe or manifest.read(Path(flags.data))["recipe"]
        layers, folder = [], str(Path(flags.data).absolute())
    else:
        recipe = flags.recipe or DEFAULT
        name = Path(recipe).stem
        spec.read_yaml(spec.RECIPES, recipe)
        if name not in EMBEDDED:
            raise UserError(
                f"bench speed: no embedded data go with the recipe {recipe!r}; name a folder with --data DIR"
            )
        layers, folder = [(recipe, {f"data.{key}": value for key, value in EMBEDDED[name].items()})], ""
    origin = spec.Origin("bench speed", varied=tuple(given), folder=folder)
    made, faults = spec.make_cells(flags.method, recipe, [*layers, ("--set", given)], [0], origin)
    if faults:
        raise UserError("\n".join(faults))
    return made[0]
