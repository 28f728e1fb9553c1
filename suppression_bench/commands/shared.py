"""What several commands share: groups of options, limits of numbers, KEY=VALUE texts, the progress bar."""

import os
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

import yaml
from cyclopts import Parameter

from generators import executor
from generators.dataset import UserError


def at_least(least: int) -> Parameter:
    """The limit of a number that a flag takes."""

    def check(annotation, value: int | None) -> None:
        if value is not None and value < least:
            raise ValueError(f"must be at least {least}, got {value}")

    return Parameter(validator=check)


AT_LEAST_ONE = at_least(1)


@Parameter(name="*")
@dataclass(frozen=True)
class DataRoot:
    """Where data is kept.

    Arguments:
        data_root: where data and downloaded sources are kept (default: $SUPPRESSION_BENCH_CACHE).
    """

    data_root: Path | None = None

    def use(self) -> None:
        """Set the root for this process and its workers: it reaches them through the environment."""
        if self.data_root:
            os.environ["SUPPRESSION_BENCH_CACHE"] = str(self.data_root.absolute())


@Parameter(name="*")
@dataclass(frozen=True)
class Sources(DataRoot):
    """Where digits and images lie on this machine.

    Arguments:
        digit_source: optdigits, mnist or mnist:DIR, in place of the suite's or the manifest's.
        image_source: leaves, cifar10:DIR or folder:DIR, in place of the suite's or the manifest's.
        data_root: where data and downloaded sources are kept (default: $SUPPRESSION_BENCH_CACHE).
    """

    digit_source: str | None = None
    image_source: str | None = None

    def named(self) -> dict[str, str]:
        """The sources that flags name: option -> source."""
        sources = {"digit_source": self.digit_source, "image_source": self.image_source}
        return {option: source for option, source in sources.items() if source is not None}


@Parameter(name="*")
@dataclass(frozen=True)
class Machine:
    """The device and how its cores are shared out.

    Arguments:
        device: where to train.
        workers: cells at once (default: one per core, or 1 on a GPU).
        threads: torch threads per worker (default: cores / workers).
    """

    device: Literal["auto", "cpu", "cuda"] = "auto"
    workers: Annotated[int | None, AT_LEAST_ONE] = None
    threads: Annotated[int | None, AT_LEAST_ONE] = None

    def share(self, device_type: str, cells: int | None = None) -> tuple[int, int]:
        """Workers, at most one per cell, and the threads of each."""
        workers = self.workers or (1 if device_type == "cuda" else executor.cores())
        workers = min(workers, cells or workers)
        return workers, self.threads or max(1, executor.cores() // workers)


def changed(group) -> dict:
    """The options of a group that are not at their defaults."""
    defaults = asdict(type(group)())
    return {name: value for name, value in asdict(group).items() if value != defaults[name]}


def refuse(command: str, reason: str, **options) -> None:
    """Refuse options that do not go with the others.

    Raises:
        UserError: one of them has a value.
    """
    for name, value in options.items():
        if value is not None:
            raise UserError(f"bench {command}: --{name.replace('_', '-')} {reason}")


def pairs(texts: Iterable[str], flag: str, split: bool = False) -> dict:
    """["key=value", ...] -> {key: value}, values read as YAML; with `split`, comma-separated lists of them.

    >>> pairs(["bits=0,5", "method=simclr"], "--only", split=True)
    {'bits': [0, 5], 'method': ['simclr']}

    Raises:
        UserError: no key, no value, or one that is not valid YAML.
    """
    values = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key or not value:
            raise UserError(f"{flag} {text!r}: write key=value; a suite or folders stand before {flag}")
        try:
            if split:
                values[key] = values.get(key, []) + [yaml.safe_load(part) for part in value.split(",")]
            else:
                # 1e-3 is a number to people, a text to YAML: the option's own type decides.
                values[key] = yaml.safe_load(value) if value[0] in "[{" else value
        except (yaml.YAMLError, ValueError) as error:  # an impossible date is a ValueError
            hint = "; write a list as 20+80" if split else ""
            problem = getattr(error, "problem", None) or str(error).split("\n")[0]
            raise UserError(f"{flag} {text!r}: the value is not valid YAML ({problem}){hint}") from None
    return values


class Bar:
    """A progress bar on a terminal, silence elsewhere: `with Bar("samples") as bar`."""

    def __init__(self, unit: str, total: int = 0):
        from tqdm import tqdm

        self.bar = tqdm(total=total, unit=unit, disable=not sys.stderr.isatty(), dynamic_ncols=True)

    def __enter__(self) -> "Bar":
        return self

    def __exit__(self, *error) -> None:
        self.bar.close()

    def to(self, done: float, total: int | None = None) -> None:
        """Show that `done` of `total` are done."""
        self.bar.total = total or self.bar.total
        self.bar.update(done - self.bar.n)

    def say(self, line: str) -> None:
        """Print a line above the bar."""
        self.bar.write(line, file=sys.stdout)
        sys.stdout.flush()
