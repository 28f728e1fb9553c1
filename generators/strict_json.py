"""JSON as the files of this project use it: canonical when written, strict when read."""

import json

from generators.dataset import UserError


def dumps(value) -> str:
    """Canonical text: sorted keys, no spaces, ASCII only, no NaN or Infinity.

    >>> dumps({"b": [1, 2], "a": None})
    '{"a":null,"b":[1,2]}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


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

    def unique(pairs):
        keys = [key for key, _ in pairs]
        repeated = sorted({key for key in keys if keys.count(key) > 1})
        if repeated:
            raise ValueError(f"the key {repeated[0]!r} stands twice")
        return dict(pairs)

    def refuse(token):
        raise ValueError(f"{token} is not allowed")

    def finite(token):
        return float(token) if abs(float(token)) < float("inf") else refuse(token)

    try:
        return json.loads(
            text, object_pairs_hook=unique, parse_constant=refuse, parse_float=finite if floats else refuse
        )
    except (ValueError, RecursionError) as error:
        raise UserError(f"{what}: not valid JSON ({error}); restore the file or make it anew") from None


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
