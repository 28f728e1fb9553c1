"""The command line: `bench COMMAND`. Loads the command, prints every error as one sentence, returns an exit code."""

import ast
import contextlib
import errno
import importlib
import importlib.metadata
import io
import signal
import sys
from functools import lru_cache
from pathlib import Path

from cyclopts import App
from cyclopts.exceptions import CycloptsError

from suppression_bench.commands.parsing import new_app, sentence

HELP = """Which features does an encoder keep when several compete?

`bench COMMAND --help` shows a command's options. Start with: `bench run quick --out runs/quick`"""
# Name -> function, by module of suppression_bench.commands; a module is loaded when one of its commands is called.
COMMANDS = {
    "generate": "data:generate",
    "preview": "data:preview",
    "describe": "data:describe",
    "verify": "data:verify",
    "export": "data:export",
    "run": "run:run",
    "speed": "run:speed",
    "table": "results:table",
    "plot": "results:plot",
    "report": "results:report",
    "localize": "results:localize",
    "check": "check:check",
    "submit": "leaderboard:submit",
    "leaderboard check": "leaderboard:check",
    "leaderboard rerun": "leaderboard:rerun",
    "leaderboard build": "leaderboard:build",
    "list": "catalog:list_names",
    "conformance": "catalog:conformance",
}
GROUPS = {"leaderboard": "Check, rerun and show what competes."}  # of commands with two words
OF_A_DATASET = ("generate", "preview")  # their flags depend on the dataset that is named
# Faults of the machine, not of the input.
MACHINE = {errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS, errno.EIO}
# No file can be read or written under this path.
PATH = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.ELOOP}


def main(arguments: list[str] | None = None) -> int:
    """Run `bench`; returns the exit code.

    0 ok, 1 a cell failed or a number has moved, 2 bad input or data, 3 inconclusive, 4 the machine, 130 interrupted.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    with contextlib.suppress(ValueError):  # not in the main thread: the caller minds the signals
        signal.signal(signal.SIGTERM, _interrupt)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that cannot write ▼ or ± still gets the rest
            stream.reconfigure(errors="backslashreplace")
    try:
        return app_for(arguments)(arguments) or 0
    except CycloptsError as error:
        return _failed(sentence(error, list(COMMANDS)), 2)
    except BrokenPipeError:  # the reader of our output has left, as in `bench table ... | head`
        sys.stderr.close()
        return 0
    except OSError as error:
        if error.errno in PATH and error.filename:
            return _failed(f"{error.filename}: {error.strerror}; name another place", 4)
        if error.errno in MACHINE:
            path = f" ({error.filename})" if error.filename else ""
            return _failed(f"{error.strerror}{path}; make room or choose a folder you may write to", 4)
        raise
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # the same while a help page is printed
            return 0
        raise
    except KeyboardInterrupt:
        print("bench: interrupted; the same command goes on where this one stopped", file=sys.stderr)
        return 130
    except Exception as error:
        from generators.dataset import UserError  # here, since it loads numpy, which a help page does without

        if isinstance(error, UserError):
            return _failed(str(error), error.exit_code)
        raise


def app_for(arguments: list[str]) -> App:
    """All commands, by name; of those whose flags depend on a dataset, the one that these arguments call."""
    app = new_app("bench", help=HELP, version=_version)
    app.register_install_completion_command(add_to_startup=False, help="Install completion for this shell.")
    for name, text in GROUPS.items():
        app.command(App(name, help=text))
    for name, target in COMMANDS.items():
        module, function = target.split(":")
        if name in OF_A_DATASET and arguments[:1] == [name]:
            data = importlib.import_module(f"suppression_bench.commands.{module}")
            app.command(data.app_of_dataset(getattr(data, function), arguments[1:]))
        else:
            *parents, word = name.split()
            parent = app[parents[0]] if parents else app
            called = arguments[: len(parents) + 1] == name.split()  # its page is the whole docstring
            text = None if called else _summaries(module)[function]
            parent.command(f"suppression_bench.commands.{module}:{function}", name=word, help=text)
    return app


@lru_cache
def _summaries(module: str) -> dict[str, str]:
    # The first lines of a file's functions, read without importing it: the overview loads no command.
    path = Path(__file__).parent / "commands" / f"{module}.py"
    functions = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)]
    return {node.name: (ast.get_docstring(node) or "").split("\n")[0] for node in functions}


def _version() -> str:
    return f"suppression-bench {importlib.metadata.version('suppression-bench')}"


def _failed(text: str, exit_code: int) -> int:
    print("\n".join(f"bench: error: {line}" for line in text.split("\n")), file=sys.stderr)
    return exit_code


def _interrupt(number, frame):
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
