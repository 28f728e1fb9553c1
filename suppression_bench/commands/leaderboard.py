"""The leaderboard: bench leaderboard build renders its page."""

import importlib

from generators import options
from generators.dataset import UserError

PARTS = {  # each in a file _leaderboard_NAME.py beside this one
    "build": "render the page and the table in the README; --check says whether they are up to date",
}


def run(arguments: list[str]) -> int:
    """Hands over to the sub-command that the first argument names."""
    first = arguments[0] if arguments else "--help"
    if first in ("-h", "--help"):
        width = max(map(len, PARTS))
        print("usage: bench leaderboard COMMAND [options]        bench leaderboard COMMAND --help\n")
        print("\n".join(f"  {name:<{width}}  {text}" for name, text in PARTS.items()))
        return 0
    if first not in PARTS:
        raise UserError(
            f"bench leaderboard: unknown command {first[:80]!r}, {options.did_you_mean(first[:80], list(PARTS))}"
        )
    return importlib.import_module(f"suppression_bench.commands._leaderboard_{first}").run(arguments[1:])
