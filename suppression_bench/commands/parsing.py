"""Parsing: how the commands read their flags (cyclopts), and the sentence for each flag that is wrong."""

import inspect
import types
import typing
from collections.abc import Callable, Sequence
from pathlib import Path

import docstring_parser
from cyclopts import App, Parameter, Token
from cyclopts.exceptions import (
    CoercionError,
    CycloptsError,
    MissingArgumentError,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
    ValidationError,
)


def new_app(name: str, **settings) -> App:
    """An application whose errors are raised, not printed: `sentence` words them.

    Lists take all values behind a flag and may be repeated; of any other flag the last one counts; a switch has
    no `--no-` form.
    """
    return App(
        name=name,
        default_parameter=Parameter(
            converter=convert,
            negative=(),
            consume_multiple=(1, None),
            allow_repeating=True,
            show_default=shown_default,
        ),
        help_format="markdown",
        result_action="return_value",
        exit_on_error=False,
        print_error=False,
        suppress_keyboard_interrupt=False,
        **settings,
    )


def shown_default(default) -> str | None:
    """A default as the help page prints it: nothing for None, whose meaning the text says, or a switch that is off."""
    if default is None or default is False or default in ("", ()):
        return None
    return " ".join(map(str, default)) if isinstance(default, list | tuple) else str(default)


def convert(annotation, tokens: Sequence[Token]):
    """The value of one flag; cyclopts' own conversion would read 1.5 as the integer 2.

    Raises:
        ValueError: with what the value must be.
    """
    inner = typing.get_args(annotation)
    if isinstance(annotation, types.UnionType):
        return convert(next(member for member in inner if member is not type(None)), tokens)
    if typing.get_origin(annotation) in (list, tuple):
        values = [_converted(token.value, inner[0]) for token in tokens]
        return values if typing.get_origin(annotation) is list else tuple(values)
    return _converted(tokens[0].value, annotation)


def _converted(text: str, kind):
    from generators import catalog  # here, since it loads numpy, which a help page does without

    if kind is Path:
        if not text:
            raise ValueError("must be a path, got ''")
        return Path(text)
    try:
        return catalog.convert(text, kind)
    except ValueError:
        if typing.get_origin(kind) is typing.Literal:
            hint = catalog.did_you_mean(text, typing.get_args(kind))
            raise ValueError(f"cannot be {text!r}, {hint}") from None
        raise ValueError(f"must be {catalog.describe_type(kind)}, got {text!r}") from None


def sentence(error: CycloptsError, commands: Sequence[str]) -> str:
    """What is wrong with the arguments, and what is allowed.

    Arguments:
        error: raised by cyclopts.
        commands: all names of commands, sub-commands as "leaderboard check".
    """
    from generators.catalog import did_you_mean

    chain = list(error.command_chain or ())
    command = " ".join(["bench", *chain])
    flag = error.argument.name if error.argument else ""
    name = flag if flag.startswith("-") else flag.lower()
    unused = list(error.unused_tokens or ())
    match error:
        case UnknownCommandError():
            paths = [name.split() for name in commands]
            names = [" ".join(path[len(chain) :]) for path in paths if path[: len(chain)] == chain]
            return f"{command}: unknown command {unused[0]!r}, {did_you_mean(unused[0], names)}"
        case UnknownOptionError():
            unknown = error.token.keyword or error.token.value
            flags = [name for argument in error.argument_collection for name in argument.names if name[:2] == "--"]
            return f"{command}: unknown argument {unknown!r}, {did_you_mean(unknown, flags)}"
        case UnusedCliTokensError():
            return f"{command}: unknown argument {unused[0]!r}, too many names"
        case ValidationError():
            return f"{command}: {name} {error.exception_message}"
        case CoercionError() if error.msg:
            return f"{command}: {name} {error.msg}"
        case MissingArgumentError():
            fault = "needs a value" if flag in unused else "is missing"
            return f"{command}: {name} {fault}; see {command} --help"
    return f"{command}: {error}; see {command} --help"


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
    described = docstring_parser.parse(inspect.getdoc(target) or "").params
    return {text.arg_name: " ".join((text.description or "").split()) for text in described}
