"""Files as this project keeps them: canonical JSON, JSON and YAML read strictly, and files written whole or not at all."""

import contextlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import yaml

from generators.dataset import UserError

STALE_SECONDS = 24 * 3600


def _plain(value):
    if isinstance(value, msgspec.Struct):
        return msgspec.to_builtins(value)
    raise TypeError(f"{type(value).__name__} has no place in JSON")


# Made once: json.dumps makes a new encoder at each call.
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False, default=_plain)


def dumps_json(value) -> str:
    """Canonical text of plain values and msgspec structs: sorted keys, no spaces, ASCII only, no NaN or Infinity.

    >>> dumps_json({"b": [1, 2], "a": None})
    '{"a":null,"b":[1,2]}'
    """
    return _CANONICAL.encode(value)


def loads_json(text: str | bytes, what: str, floats: bool = False) -> Any:
    """The value of a JSON text; refuses duplicate keys, NaN, Infinity and (unless `floats`) any float.

    Arguments:
        text: the JSON text.
        what: the file's name, for the error.
        floats: whether numbers with a fraction are allowed.

    Raises:
        UserError: the text is no strict JSON.

    >>> loads_json('{"a": 1}', "example")
    {'a': 1}
    """
    try:
        return (_WITH_FLOATS if floats else _WITHOUT).decode(text.decode() if isinstance(text, bytes) else text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{what}: not valid JSON ({error}); restore the file or make it anew") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict:
    value = dict(pairs)
    if len(value) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {sorted({key for key in keys if keys.count(key) > 1})[0]!r} stands twice")
    return value


def _refuse(token: str):
    raise ValueError(f"{token} is not allowed")


def _finite(token: str) -> float:
    return float(token) if abs(float(token)) < float("inf") else _refuse(token)


_WITH_FLOATS, _WITHOUT = (
    json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse, parse_float=parse)
    for parse in (_finite, _refuse)
)


def loads_yaml(text: str) -> Any:
    """The value of a YAML text; where YAML would take the last of two equal keys without a word, this refuses.

    Raises:
        ValueError: no YAML, a tag of Python's, a date that does not exist, nesting without end, or a key that stands twice.

    >>> loads_yaml("{a: 1, b: [x, 2]}")
    {'a': 1, 'b': ['x', 2]}
    """

    def refuse_twins(node) -> None:
        pairs = node.value if isinstance(node, yaml.MappingNode) else []
        keys = [key.value for key, _ in pairs if isinstance(key, yaml.ScalarNode)]
        if twins := sorted({key for key in keys if keys.count(key) > 1}):
            raise ValueError(f"the key {twins[0]!r} stands twice, at line {node.start_mark.line + 1} and below")
        children = node.value if isinstance(node, yaml.SequenceNode) else [child for pair in pairs for child in pair]
        for child in children:
            refuse_twins(child)

    try:
        refuse_twins(yaml.compose(text, Loader=yaml.SafeLoader))
        return yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(str(error)) from None


@contextlib.contextmanager
def write_atomic(path: Path) -> Iterator[BinaryIO]:
    """A binary file to write that appears under `path` whole, or not at all where the block raises or is killed.

    A unique temporary name in the same folder, then flush, fsync, rename, fsync of the folder.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with write_atomic(Path(folder) / "a.txt") as file:
    ...         _ = file.write(b"whole")
    ...     (Path(folder) / "a.txt").read_text()
    'whole'
    """
    partial = path.with_name(f"{path.name}.{os.getpid()}-{time.monotonic_ns()}.tmp")
    try:
        with open(partial, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
        handle = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(handle)  # so that the new name outlasts a power failure
        finally:
            os.close(handle)
    finally:
        partial.unlink(missing_ok=True)


def is_abandoned(partial: Path) -> bool:
    """Whether a temporary file of `write_atomic` is nobody's any more, by the process id in its name and its age.

    Another live process may be writing in the same folder; its file is left alone.
    """
    try:
        os.kill(int(partial.name.split(".")[-2].partition("-")[0]), 0)
    except (ProcessLookupError, ValueError, OverflowError):
        return True
    except PermissionError:  # a live process of another user
        pass
    try:
        return time.time() - partial.stat().st_mtime > STALE_SECONDS
    except FileNotFoundError:  # its owner has just renamed it
        return False


def make_folder(folder: Path) -> None:
    """Make a folder and its parents.

    Raises:
        UserError: the machine does not allow it (exit code 4).
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder}: the folder cannot be made ({error.strerror}); choose another", 4) from None
