"""Flags, served by jsonargparse; a wrong one becomes one sentence."""

import argparse
import inspect
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import yaml
from jsonargparse import ArgumentParser

from generators import catalog, options, spec_file
from generators.dataset import Dataset, UserError

DATASETS = "generators.datasets"


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

    def add_options(self, target: Callable) -> None:
        """One flag per option of a plug-in's signature, its help from the docstring.

        Values stay texts here: `options.check_options` converts them and names all faults at once.
        """
        group = self.add_argument_group(f"options of {target.name}")
        texts = argument_texts(target)
        for name, parameter in options.parameters(target).items():
            many = "list" in str(parameter.annotation)
            default = "" if parameter.default is None else f" (default: {parameter.default})"
            words = {"nargs": "+"} if many else {}
            if any(action.dest == name for action in self._actions):
                raise UserError(f"{target.name}: the option {name!r} is called like one of `{self.prog}`; rename it")
            group.add_argument(
                f"--{name.replace('_', '-')}", type=str, default=None, metavar=name.upper(),
                help=texts.get(name, "") + default, **words,
            )  # fmt: skip


def read_spec(arguments: list[str]) -> spec_file.Spec:
    """The dataset that a command's first argument names: directly, by a .py file, or through a .yaml spec.

    Raises:
        UserError: a spec with faults, or a flag in its place.
    """
    first = arguments[0] if arguments else ""
    if first.startswith("-"):
        if set(arguments) & {"-h", "--help"}:
            return spec_file.Spec("")
        raise UserError(f"{first} stands before the dataset; its name comes first, as in `randbit {first} ...`")
    return spec_file.read(first) if spec_file.is_spec(first) else spec_file.Spec(first)


def add_dataset(parser: Parser, spec: spec_file.Spec, text: str) -> None:
    """The first argument, and the options of the dataset that it names.

    Raises:
        UserError: unknown dataset ("did you mean").
    """
    listed = "; ".join(f"{name} - {catalog.summary(DATASETS, name).rstrip('.')}" for name in catalog.names(DATASETS))
    parser.description += (
        f" Datasets: {listed}. `bench {parser.prog.split()[-1]} NAME --help` shows a dataset's options."
    )
    parser.add_argument("dataset", type=str, help=text)
    if spec.dataset:
        parser.add_options(catalog.load_class(DATASETS, spec.dataset, Dataset))


def dataset_options(flags, spec: spec_file.Spec) -> dict:
    """The dataset's options: those of the flags over those of the spec file."""
    known = options.parameters(catalog.load_class(DATASETS, spec.dataset, Dataset)) if spec.dataset else {}
    given = {name: getattr(flags, name) for name in known if getattr(flags, name, None) is not None}
    return {**{name.replace("-", "_"): value for name, value in spec.options.items()}, **given}


def argument_texts(target: Callable) -> dict[str, str]:
    """The lines of a docstring's `Arguments:` section: name -> text.

    >>> def example(*, size: int = 1):
    ...     '''Example.
    ...
    ...     Arguments:
    ...         size: in pixels.
    ...     '''
    >>> argument_texts(example)
    {'size': 'in pixels.'}
    """
    section = re.search(r"^Arguments:\n((?:[ ]{4}.*\n?|\n)+)", inspect.getdoc(target) or "", re.MULTILINE)
    found: dict[str, str] = {}
    name = ""
    for line in section.group(1).split("\n") if section else []:
        start = re.match(r"[ ]{4}(\w+): (.*)", line)
        if start:
            name = start.group(1)
            found[name] = start.group(2)
        elif name and line.strip():
            found[name] += " " + line.strip()
    return found


def pairs(texts: list[str], flag: str, split: bool = False) -> dict:
    """["key=value", ...] -> {key: value}, values read as YAML; with `split`, comma-separated lists of them.

    >>> pairs(["bits=0,5", "method=simclr"], "--only", split=True)
    {'bits': [0, 5], 'method': ['simclr']}

    Raises:
        UserError: no key, no value, or one that is not valid YAML.
    """
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key or not value:
            raise UserError(f"{flag} {text!r}: write key=value")
        try:
            if split:
                found[key] = found.get(key, []) + [yaml.safe_load(part) for part in value.split(",")]
            else:
                # 1e-3 is a number to people, a text to YAML: the option's own type decides.
                found[key] = yaml.safe_load(value) if value[0] in "[{" else value
        except (yaml.YAMLError, ValueError) as error:  # a date that is none is a ValueError
            hint = "; write a list as 20+80" if split else ""
            raise UserError(f"{flag} {text!r}: the value is not valid YAML ({_first_words(error)}){hint}") from None
    return found


def _first_words(error: Exception) -> str:
    return getattr(error, "problem", None) or str(error).split("\n")[0]


def set_data_root(folder: str | None) -> None:
    """--data-root reaches every worker through the environment."""
    if folder:
        os.environ["SUPPRESSION_BENCH_CACHE"] = str(Path(folder).absolute())


class Bar:
    """A progress bar on a terminal, silence elsewhere."""

    def __init__(self, total: int, unit: str):
        from tqdm import tqdm

        self.bar = tqdm(total=total, unit=unit, disable=not sys.stderr.isatty(), dynamic_ncols=True)

    def to(self, done: int, total: int | None = None) -> None:
        self.bar.total = total or self.bar.total
        self.bar.update(done - self.bar.n)

    def say(self, line: str) -> None:
        self.bar.write(line, file=sys.stdout)
        sys.stdout.flush()

    def close(self) -> None:
        self.bar.close()
