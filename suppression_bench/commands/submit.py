"""Make a leaderboard entry from finished runs: bench submit RUNS --name NAME --url URL."""

from pathlib import Path

from generators.dataset import UserError
from suppression_bench.commands._parser import Parser, set_data_root
from suppression_bench.commands.shared import pairs


def _flags(arguments: list[str]):
    parser = Parser(
        "submit",
        "Write a submission's folder from finished runs, and check it as the server will. Nothing is sent anywhere: the folder "
        "goes into a pull request.",
    )
    parser.add_argument("runs", type=str, nargs="+", help="folders that `bench run` wrote")
    parser.add_argument("--name", type=str, required=True, help="what the method is called on the page")
    parser.add_argument("--url", type=str, required=True, help="where to read about it (https)")
    parser.add_argument("--contact", type=str, default=None, help="who answers questions, public")
    parser.add_argument("--track", type=str, default="quick", help="what it competes in (default: quick)")
    parser.add_argument("--only", type=str, nargs="+", default=[], metavar="KEY=VALUES",
                        help="the cells of the entry, where the runs hold others: method=simclr temperature=0.1")  # fmt: skip
    parser.add_argument("--method", type=str, default=None, help="the .py file of a method of your own")
    parser.add_argument("--loss", type=str, default=None, help="the .py file of a loss of your own")
    parser.add_argument("--with-encoder", action="store_true", help="add the trained encoders (large)")
    parser.add_argument(
        "--supersedes", type=str, default=None, metavar="SLUG", help="an older entry that this replaces"
    )
    parser.add_argument("--slug", type=str, default="", help="the folder's name (default: from name and track)")
    parser.add_argument("--out", type=str, default="leaderboard/submissions", help="the folder of submissions")
    parser.add_argument("--digit-source", type=str, default=None, help="where the digits lie here, as mnist:DIR")
    parser.add_argument("--image-source", type=str, default=None, help="where the pictures lie here, as cifar10:DIR")
    parser.add_argument("--data-root", type=str, default=None, help="where downloaded sources are kept")
    return parser.read(arguments)


def run(arguments: list[str]) -> int:
    """Write and check a submission, and say what to do with it."""
    flags = _flags(arguments)
    set_data_root(flags.data_root)
    from suppression_bench.leaderboard import levels, pack
    from suppression_bench.leaderboard.check import check

    files = {kind: getattr(flags, kind) for kind in ("method", "loss") if getattr(flags, kind)}
    sources = {name: getattr(flags, name) for name in ("digit_source", "image_source") if getattr(flags, name)}
    wish = pack.Wish(
        flags.name, flags.url, flags.contact, flags.track, flags.supersedes, flags.slug, files, flags.with_encoder
    )
    places = pack.gather([Path(run) for run in flags.runs], pairs(flags.only, "--only", split=True))
    out = Path(flags.out)
    made = pack.write(places, wish, out)
    report = check(made, out, sources)
    for note in report.notes:
        print(f"note: {note}")
    if report.faults:
        pack.remove(made)
        raise UserError("\n".join(report.faults))
    print(f"written: {made}, {len(places)} cells, level {levels.NAMES[report.level]} ({report.reason})")
    print(_steps(made))
    return 0


def _steps(made: Path) -> str:
    return f"""Next, in a clone of the project's repository (a fork of yours):
  git checkout -b submit-{made.name}
  cp -r {made} leaderboard/submissions/   # unless it lies there already
  git add leaderboard/submissions/{made.name}
  git commit -m "Submission: {made.name}"
  git push origin submit-{made.name}      # then open a pull request that changes nothing else"""
