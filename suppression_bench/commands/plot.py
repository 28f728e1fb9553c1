"""Draw suppression curves of run folders: bench plot RUNS --out curves.png (or .svg)."""

from pathlib import Path

from generators.dataset import UserError
from suppression_bench.commands._parser import Parser


def run(arguments: list[str]) -> int:
    """Accuracy against the competitor's strength, one line per method, chance and untrained drawn."""
    parser = Parser("plot", "Accuracy against the competitor's strength, with chance and the untrained encoder.")
    parser.add_argument("runs", type=str, nargs="+", help="folders that `bench run` wrote")
    parser.add_argument("--out", type=str, default="curves.png", help="a .png or .svg file")
    parser.add_argument(
        "--probe", type=str, choices=["lbfgs", "online", "sgd"], default=None, help="which probe (default: lbfgs)"
    )
    flags = parser.read(arguments)
    if Path(flags.out).suffix not in (".png", ".svg"):
        raise UserError(f"bench plot: --out {flags.out} must end in .png or .svg")
    from suppression_bench.results import figures
    from suppression_bench.results.frame import long_table

    figures.suppression_curves(long_table([Path(run) for run in flags.runs]), Path(flags.out), probe=flags.probe)
    print(f"written: {flags.out}")
    return 0
