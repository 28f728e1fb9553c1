"""Check, rerun and show what competes: bench leaderboard check|rerun|build."""

import ast
import importlib
from pathlib import Path

from generators.dataset import UserError
from generators.options import did_you_mean

PREFIX = "_leaderboard_"  # every file of this name beside this one is a sub-command


def run(arguments: list[str]) -> int:
    """Hand the rest to a sub-command."""
    known = {path.stem.removeprefix(PREFIX): path for path in sorted(Path(__file__).parent.glob(f"{PREFIX}*.py"))}
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_overview(known))
        return 0
    if arguments[0] not in known:
        raise UserError(f"bench leaderboard: unknown command {arguments[0]!r}, {did_you_mean(arguments[0], known)}")
    return importlib.import_module(f"suppression_bench.commands.{PREFIX}{arguments[0]}").run(arguments[1:]) or 0


def _overview(known: dict[str, Path]) -> str:
    rows = [f"  {name:<6}  {ast.get_docstring(ast.parse(path.read_text()))}" for name, path in known.items()]
    return "\n".join(["usage: bench leaderboard COMMAND [options]", "", *rows, "", "bench leaderboard COMMAND --help"])
