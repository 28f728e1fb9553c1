"""Print the results of run folders: bench table RUNS --format markdown|csv|latex|json|html."""

from pathlib import Path

from generators.dataset import UserError
from suppression_bench.commands._parser import Parser

FORMATS = ["markdown", "csv", "latex", "json", "html"]


def _flags(arguments: list[str]):
    parser = Parser("table", "Results of run folders: one row per method and probe, columns by feature and strength.")
    parser.add_argument("runs", type=str, nargs="+", help="folders that `bench run` wrote, or single cells, in any mix")
    parser.add_argument("--format", type=str, choices=FORMATS, default=None, help="how to print it (default: markdown)")
    parser.add_argument(
        "--probe", type=str, choices=["all", "lbfgs", "online", "sgd"], default="all", help="which probe"
    )
    parser.add_argument("--paper", action="store_true", help="the published value and the difference beside each cell")
    parser.add_argument("--long", action="store_true", help="one line per cell, probe and feature (csv or json)")
    parser.add_argument("--metrics", action="store_true", help="k-NN, alignment, uniformity and so on (markdown)")
    parser.add_argument("--summary", action="store_true", help="retention, suppression index, score (markdown)")
    parser.add_argument("--out", type=str, default=None, help="write to a file in place of printing")
    flags = parser.read(arguments)
    for name in ("metrics", "summary"):
        if getattr(flags, name) and (flags.long or flags.format not in (None, "markdown")):
            raise UserError(f"bench table: --{name} is printed as markdown; leave --long and --format out")
    if flags.metrics and flags.summary:
        raise UserError("bench table: give one of --metrics and --summary")
    if flags.metrics and flags.probe != "all":
        raise UserError("bench table: --metrics are of the features, not of a probe; leave --probe out")
    if flags.summary and flags.paper:
        raise UserError("bench table: the papers print no such summary; leave --paper or --summary out")
    return flags


def run(arguments: list[str]) -> int:
    """One row per method, columns by feature and strength."""
    flags = _flags(arguments)
    from suppression_bench.results import html_tables, metric_tables, summary, tables
    from suppression_bench.results.frame import long_table

    folders = [Path(run) for run in flags.runs]
    frame = long_table(folders)
    form = flags.format or ("csv" if flags.long else "markdown")
    if flags.metrics:
        text = metric_tables.render(folders, flags.paper)
    elif flags.summary:
        text = summary.render(frame, flags.probe)
    elif form == "html" and not flags.long:
        text = html_tables.page(frame, flags.probe, flags.paper)
    else:
        text = tables.render(frame, form, probe=flags.probe, long=flags.long, paper=flags.paper)
    if flags.out:
        Path(flags.out).write_text(text, encoding="utf-8")
    else:
        print(text)
    return 0
