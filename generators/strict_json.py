"""JSON as the files of this project use it: canonical when written, strict when read."""

import json

from generators.dataset import UserError

# Made once: json.dumps makes a new encoder at each call.
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def dumps(value) -> str:
    """Canonical text: sorted keys, no spaces, ASCII only, no NaN or Infinity.

    >>> dumps({"b": [1, 2], "a": None})
    '{"a":null,"b":[1,2]}'
    """
    return _CANONICAL.encode(value)


def loads(text: str | bytes, what: str, floats: bool = False):
    """The value of a JSON text; refuses duplicate keys, NaN, Infinity and (unless `floats`) any float.

    Arguments:
        text: the JSON text.
        what: the file's name, for the error.
        floats: whether numbers with a fraction are allowed.

    Raises:
        UserError: the text is no strict JSON.

    >>> loads('{"a": 1}', "example")
    {'a': 1}
    """

    try:
        return (_WITH_FLOATS if floats else _WITHOUT).decode(text.decode() if isinstance(text, bytes) else text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{what}: not valid JSON ({error}); restore the file or make it anew") from None


def _unique(pairs):
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {sorted({key for key in keys if keys.count(key) > 1})[0]!r} stands twice")
    return found


def _refuse(token):
    raise ValueError(f"{token} is not allowed")


def _finite(token):
    return float(token) if abs(float(token)) < float("inf") else _refuse(token)


_WITH_FLOATS, _WITHOUT = (
    json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse, parse_float=parse)
    for parse in (_finite, _refuse)
)


def faults(value, keys: dict, what: str) -> list[str]:
    """How an object departs from its schema (key -> type or types): missing, unknown and wrongly typed keys.

    >>> faults({"a": True, "c": 1}, {"a": int, "b": str}, "it")
    ["it lacks the key 'b'", "it has the unknown key 'c'", 'it: a has the wrong type bool']
    """
    if not isinstance(value, dict):
        return [f"{what} must be an object, got {type(value).__name__}"]
    found = [f"{what} lacks the key {key!r}" for key in keys if key not in value]
    found += [f"{what} has the unknown key {key!r}" for key in value if key not in keys]
    for key, kind in keys.items():
        if key in value and (not isinstance(value[key], kind) or (isinstance(value[key], bool) and kind is not bool)):
            found.append(f"{what}: {key} has the wrong type {type(value[key]).__name__}")
    return found
