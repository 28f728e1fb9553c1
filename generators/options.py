"""Options of a plug-in: read from its signature, converted without loss, checked all at once."""

import difflib
import inspect
import types
import typing


def did_you_mean(word: str, known) -> str:
    """ ", did you mean X?" where a known name is near, otherwise the list of all.

    >>> did_you_mean("simclar", ["byol", "simclr"])
    "did you mean 'simclr'? (known: byol, simclr)"
    """
    known = sorted(known)
    near = difflib.get_close_matches(str(word), known, n=1)
    listed = f"known: {', '.join(known)}" if known else "none are known"
    return f"did you mean {near[0]!r}? ({listed})" if near else listed


def parameters(target: typing.Callable, skip: tuple[str, ...] = ()) -> dict[str, inspect.Parameter]:
    """The keyword options of a class or function: name -> parameter, with evaluated annotations."""
    found = inspect.signature(target, eval_str=True).parameters.values()
    return {p.name: p for p in found if p.kind is p.KEYWORD_ONLY and p.name not in skip}


def describe_type(annotation) -> str:
    """A type in words, for help and errors.

    >>> describe_type(int | None)
    'an integer or none'
    """
    words = {int: "an integer", float: "a number", str: "a text", bool: "true or false", type(None): "none"}
    if annotation in words:
        return words[annotation]
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal:
        return "one of " + ", ".join(map(str, inner))
    if origin in (typing.Union, types.UnionType):
        return " or ".join(describe_type(part) for part in inner)
    if origin in (list, tuple):
        return f"a list, each item {describe_type(inner[0])}"
    return str(annotation)


def convert(value, annotation):
    """The value as the annotated type, without loss; `ValueError` where that cannot be.

    Texts are read as the command line gives them ("4", "0.1", "true", "none", "20,80"); a number stays one.

    >>> convert("20,80", list[int] | None), convert("none", int | None), convert(1, float)
    ([20, 80], None, 1.0)
    """
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        for part in sorted(inner, key=lambda part: part is not type(None)):
            try:
                return convert(value, part)
            except ValueError:
                continue
        raise ValueError
    if origin is typing.Literal:
        if any(value == one and type(value) is type(one) for one in inner):
            return value
    elif origin in (list, tuple):
        items = value.split(",") if isinstance(value, str) else value
        if isinstance(items, (list, tuple)):  # the command line gives ["20,80"] for --sizes 20,80
            items = [part for item in items for part in (item.split(",") if isinstance(item, str) else [item])]
        if isinstance(items, (list, tuple)) and items:
            return [convert(item, inner[0]) for item in items]
    elif annotation is type(None):
        if value is None or value in ("none", "null"):
            return None
    elif annotation is bool:
        if isinstance(value, bool) or value in ("true", "false"):
            return value in (True, "true")
    elif annotation is int and not isinstance(value, bool):
        if isinstance(value, int) or (isinstance(value, str) and "_" not in value):
            return int(value)
    elif annotation is float and not isinstance(value, bool):
        if isinstance(value, (int, float)) or (isinstance(value, str) and "_" not in value):
            return _finite(value)
    elif annotation is str and isinstance(value, str):
        return value
    raise ValueError


def _finite(value) -> float:
    try:
        value = float(value)
    except OverflowError:
        raise ValueError from None
    if value != value or value in (float("inf"), float("-inf")):
        raise ValueError
    return value


def check_options(
    target: typing.Callable, options: dict, what: str, skip: tuple[str, ...] = ()
) -> tuple[dict, list[str]]:
    """Options resolved against a signature, and every fault found as a sentence.

    Arguments:
        target: a class or function; its keyword-only parameters are the options.
        options: name -> value (`-` and `_` alike).
        what: the owner's name, for the sentences.
        skip: parameters that are no options.

    >>> def example(*, temperature: float = 0.1): ...
    >>> check_options(example, {"temprature": 1}, "example")[1]
    ["example: unknown option 'temprature', did you mean 'temperature'? (known: temperature)"]
    """
    return check_parameters(parameters(target, skip), options, what)


def check_parameters(
    known: dict[str, inspect.Parameter], options: dict, what: str
) -> tuple[dict[str, typing.Any], list[str]]:
    """Options resolved against the parameters of a signature, as `check_options` does."""
    defaults = {name: p.default for name, p in known.items() if p.default is not p.empty}
    resolved = {name: list(value) if isinstance(value, tuple) else value for name, value in defaults.items()}
    faults = []
    for given, value in options.items():
        name = str(given).replace("-", "_")
        if name not in known:
            faults.append(f"{what}: unknown option {given!r}, {did_you_mean(name, known)}")
            continue
        try:
            resolved[name] = convert(value, known[name].annotation)
        except ValueError:
            wanted = describe_type(known[name].annotation)
            faults.append(f"{what}: {given} must be {wanted}, got {value!r}")
    missing = [
        name for name in known if name not in resolved and name not in {str(o).replace("-", "_") for o in options}
    ]
    faults += [f"{what}: the option {name} is missing ({describe_type(known[name].annotation)})" for name in missing]
    return resolved, faults
