"""Write one self-contained page about run folders: bench report RUNS --out report.html."""

from pathlib import Path

from generators.dataset import UserError
from suppression_bench.commands._parser import Parser


def run(arguments: list[str]) -> int:
    """What was run, tables, figures, data, environments, failed cells, settings and how to make it again."""
    parser = Parser("report", "One page with tables, figures, settings and provenance; it opens without a network.")
    parser.add_argument("runs", type=str, nargs="+", help="folders that `bench run` wrote, or single cells")
    parser.add_argument("--out", type=str, default="report.html", help="a .html file")
    flags = parser.read(arguments)
    if Path(flags.out).suffix not in (".html", ".htm"):
        raise UserError(f"bench report: --out {flags.out} must end in .html or .htm")
    from suppression_bench.results import report

    Path(flags.out).write_text(report.render([Path(run) for run in flags.runs]), encoding="utf-8")
    print(f"written: {flags.out}")
    return 0
