"""Flags, served by jsonargparse; a wrong one becomes one sentence."""

import argparse
import os
import re
from pathlib import Path

from jsonargparse import ArgumentParser

from generators import options
from generators.dataset import UserError


class Parser(ArgumentParser):
    """A parser whose faults are `UserError`s, with "did you mean" for flags."""

    def __init__(self, command: str, description: str):
        super().__init__(
            prog=f"bench {command}", description=description, exit_on_error=False, allow_abbrev=False,
            formatter_class=argparse.HelpFormatter,
        )  # fmt: skip

    def read(self, arguments: list[str]):
        """The parsed flags.

        Raises:
            UserError: unknown flag or wrong value.
        """
        try:
            return self.parse_args(arguments)
        except argparse.ArgumentError as error:
            text = " ".join(str(error).split())
        unknown = re.search(r"unrecognized arguments: (.*)", text, re.IGNORECASE)
        if unknown:
            flag = unknown.group(1).split()[0]
            known = [
                name
                for action in self._actions
                for name in action.option_strings
                if name[:2] == "--" and "_" not in name
            ]
            hint = options.did_you_mean(flag, known) if flag.startswith("-") else "too many names"
            raise UserError(f"{self.prog}: unknown argument {flag!r}, {hint}")
        typed = re.match(r"Parser key \"(\w+)\":.*<class '(\w+)'>.*?value: (\S+)", text)
        if typed:
            flag, kind, value = typed.groups()
            kind = {"int": "an integer", "float": "a number"}.get(kind, kind)
            text = f"--{flag.replace('_', '-')} must be {kind}, got {value!r}"
        raise UserError(f"{self.prog}: {text}; see {self.prog} --help")

    def require_positive(self, flags, *names: str) -> None:
        """Refuse numbers below 1.

        Raises:
            UserError: such a number.
        """
        for name in names:
            if getattr(flags, name) < 1:
                raise UserError(
                    f"{self.prog}: --{name.replace('_', '-')} must be at least 1, got {getattr(flags, name)}"
                )

    def refuse(self, flags, names: tuple[str, ...], why: str) -> None:
        """Refuse flags that do not go with the others.

        Raises:
            UserError: one of them was given.
        """
        for name in names:
            if getattr(flags, name) is not None:
                raise UserError(f"{self.prog}: --{name.replace('_', '-')} {why}")


def set_data_root(folder: str | None) -> None:
    """--data-root reaches every worker through the environment."""
    if folder:
        os.environ["SUPPRESSION_BENCH_CACHE"] = str(Path(folder).absolute())
