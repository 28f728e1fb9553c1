"""Draw figures of run folders: bench plot RUNS --kind curves|trade-off|learning|temperature|align-uniform."""

from pathlib import Path

from generators.dataset import UserError
from suppression_bench.commands._parser import Parser

NAMES = ["curves", "trade-off", "learning", "temperature", "align-uniform"]


def run(arguments: list[str]) -> int:
    """One figure; without --kind the suppression curves, or the first kind that the records allow."""
    parser = Parser("plot", "Suppression curves, trade-offs, learning orders and metrics, drawn from records.")
    parser.add_argument("runs", type=str, nargs="+", help="folders that `bench run` wrote")
    parser.add_argument(
        "--kind", type=str, choices=NAMES, default=None,
        help="which figure (default: curves, or the first that these records allow)",
    )  # fmt: skip
    parser.add_argument("--out", type=str, default=None, help="a .png or .svg file (default: KIND.png)")
    parser.add_argument(
        "--probe", type=str, choices=["lbfgs", "online", "sgd"], default=None, help="which probe (default: lbfgs)"
    )
    flags = parser.read(arguments)
    if flags.out and Path(flags.out).suffix not in (".png", ".svg"):
        raise UserError(f"bench plot: --out {flags.out} must end in .png or .svg")
    from suppression_bench.results import drawings

    folders = [Path(run) for run in flags.runs]
    name = flags.kind
    if name is None:
        possible = drawings.drawings(folders)
        if not possible:
            raise UserError(
                "bench plot: nothing can be drawn from these records, not even curves, which need results at two strengths; "
                "`bench plot RUNS --kind KIND` says what a kind needs"
            )
        name = possible[0].name
    kind, out = drawings.KINDS[name], Path(flags.out or f"{name}.png")
    if flags.probe and not kind.by_probe:
        raise UserError(f"bench plot: --kind {name} shows the probe that its records name; leave --probe out")
    more = {"probe": flags.probe} if kind.by_probe else {}
    kind.draw(kind.table(folders), out, **more)
    print(f"written: {out}")
    return 0
