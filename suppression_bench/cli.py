"""The command line: finds the command, prints errors as sentences, exits."""

import contextlib
import errno
import os
import signal
import sys

from generators import catalog
from generators.dataset import UserError

COMMANDS = "suppression_bench.commands"
# What the machine, not the input, has to answer for.
MACHINE = {errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS, errno.EIO}
# A file cannot stand where it was asked for.
PLACE = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.ELOOP}
LOST = {errno.ENOENT, errno.EEXIST}  # of a file below what was asked for these are faults of this program


def main(arguments: list[str] | None = None) -> int:
    """Run `bench`; returns the exit code (0 ok, 1 a cell failed, 2 bad input or data, 4 the machine)."""
    arguments = sys.argv[1:] if arguments is None else arguments
    with contextlib.suppress(ValueError):  # not in the main thread: whoever called us minds the signals
        signal.signal(signal.SIGTERM, _interrupt)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError):  # a terminal that cannot write ▼ or ± still gets the rest
            stream.reconfigure(errors="backslashreplace")
    try:
        if not arguments or arguments[0] in ("-h", "--help"):
            print(overview())
            return 0
        if arguments[0] == "--version":
            from importlib.metadata import version

            print(f"suppression-bench {version('suppression-bench')}")
            return 0
        import importlib

        path = catalog.source_file(COMMANDS, arguments[0])
        return importlib.import_module(f"{COMMANDS}.{path.stem}").run(arguments[1:]) or 0
    except UserError as error:
        print("\n".join(f"bench: error: {line}" for line in str(error).split("\n")), file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:  # the reader of our output has left, as in `bench table ... | head`
        sys.stderr.close()
        return 0
    except OSError as error:
        if error.errno in PLACE and _named(str(error.filename), arguments, error.errno not in LOST):
            print(f"bench: error: {error.filename}: {error.strerror}; name another place", file=sys.stderr)
            return 4
        if error.errno not in MACHINE:
            raise
        place = f" ({error.filename})" if error.filename else ""
        print(f"bench: error: {error.strerror}{place}; make room or choose a folder you may write to", file=sys.stderr)
        return 4
    except KeyboardInterrupt:
        print("bench: interrupted; the same command goes on where this one stopped", file=sys.stderr)
        return 130


def _named(place: str, arguments: list[str], below: bool) -> bool:
    # As --out PLACE, --out=PLACE or ./PLACE, or above it (or below); or left to its default, in the folder where we are. A
    # file is written under a name of its own first.
    parts = [part for argument in arguments for part in (argument, argument.partition("=")[2]) if part]
    own = os.path.normpath(place.removesuffix(f".{os.getpid()}.tmp"))
    return os.sep not in place or any(
        own == one or one.startswith(own + os.sep) or (below and own.startswith(one + os.sep))
        for one in map(os.path.normpath, parts)
    )


def _interrupt(number, frame):
    raise KeyboardInterrupt


def overview() -> str:
    """The text of `bench --help`, put together without importing a command."""
    rows = [(name, catalog.summary(COMMANDS, name)) for name in catalog.names(COMMANDS)]
    width = max(len(name) for name, _ in rows)
    lines = [f"  {name:<{width}}  {text}" for name, text in rows]
    return "\n".join(
        [
            "Which features does an encoder keep when several compete?",
            "",
            "usage: bench COMMAND [options]        bench COMMAND --help",
            "",
            *lines,
            "",
            "start with: bench run quick --out runs/quick",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
