"""Render the page and the table in the README from the submissions; --check says whether they are up to date."""

import sys
from pathlib import Path

from suppression_bench.commands._parser import Parser

ROOT = "leaderboard/submissions"


def run(arguments: list[str]) -> int:
    """The page and the README's table from the submissions; with --check nothing is written, 1 where they differ."""
    parser = Parser("leaderboard build", "Render site/index.html and the table in README.md from the submissions.")
    parser.add_argument(
        "--root", type=str, default=ROOT, help="where submissions lie; the page and README.md are beside it"
    )
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a file is not what it must be")
    flags = parser.read(arguments)
    from suppression_bench.leaderboard import build

    root = Path(flags.root)
    if not flags.check:
        changed = build.build(root)
        print("\n".join(f"written: {path}" for path in changed) or "nothing has changed")
        return 0
    wanted = build.render(root)
    changed = build.differing(wanted)
    for path in changed:
        print(f"bench leaderboard build: {build.first_difference(path, wanted[path])}", file=sys.stderr)
    if changed:
        own = "" if flags.root == ROOT else f" --root {flags.root}"
        print(f"bench leaderboard build: render them anew with `bench leaderboard build{own}`", file=sys.stderr)
    else:
        print("the page and the table are up to date")
    return int(bool(changed))
