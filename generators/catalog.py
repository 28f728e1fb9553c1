"""Plug-ins by name (a file in a plug-in folder) or by path (a .py file), and their options, read from the signature."""

import ast
import difflib
import hashlib
import importlib
import importlib.util
import inspect
import math
import sys
import types
import typing
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path

from generators.dataset import Dataset, UserError


def dataset(name: str, options: dict) -> Dataset:
    """A dataset by name or path with its options.

    Raises:
        UserError: unknown dataset, unknown option or wrong value; all option faults at once.

    >>> dataset("randbit", {"train": 10}).splits["pretrain"]
    10
    """
    cls = load_class("generators.datasets", name, Dataset)
    resolved, faults = check_options(cls, options, cls.name)
    if faults:
        raise UserError("; ".join(faults))
    try:
        instance = cls(**resolved)
    except (UserError, OSError):
        raise
    except Exception as error:
        if not is_path(name):
            raise
        raise UserError(
            f"{name}: the constructor of {cls.__name__} failed ({type(error).__name__}: {error})"
        ) from error
    instance.open_options, instance.options = resolved, {**resolved, **instance.settled}
    if faults := instance.faults():
        raise UserError(f"{name}: {'; '.join(faults)}; mend the dataset's file")
    return instance


# Names and files


def folder_of(package: str) -> Path:
    """The folder of a plug-in package, found without importing its plug-ins."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"{package} is no package")
    return Path(spec.submodule_search_locations[0])


def names(package: str) -> list[str]:
    """The plug-ins of a package: the stems of its files, with `-` for `_`.

    >>> "randbit" in names("generators.datasets")
    True
    """
    return sorted(path.stem.replace("_", "-") for path in folder_of(package).glob("*.py") if path.stem[0] != "_")


def summary(package: str, name: str) -> str:
    """The first line of a plug-in's module docstring, read without importing it."""
    text = (folder_of(package) / f"{name.replace('-', '_')}.py").read_text()
    return (ast.get_docstring(ast.parse(text)) or "").split("\n")[0]


def is_path(name: str) -> bool:
    return name.endswith(".py")


def source_file(package: str, name: str) -> Path:
    """The file of a plug-in, given by name or by path.

    Raises:
        UserError: unknown name ("did you mean") or missing file.
    """
    if is_path(name):
        path = Path(name).absolute()
        if not path.is_file():
            raise UserError(
                f"{name}: no such file; give a name ({', '.join(names(package))}) or the path of a .py file"
            )
        return path
    kind = package.rsplit(".", 1)[1].removesuffix("s")
    if name.replace("_", "-") not in names(package):
        raise UserError(f"unknown {kind} {name!r}: {did_you_mean(name.replace('_', '-'), names(package))}")
    return folder_of(package) / f"{name.replace('-', '_')}.py"


def file_digest(package: str, name: str) -> str:
    """SHA-256 of a plug-in's file."""
    return hashlib.sha256(source_file(package, name).read_bytes()).hexdigest()


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """ ", did you mean X?" where a name is near, otherwise the list of all.

    >>> did_you_mean("simclar", ["byol", "simclr"])
    "did you mean 'simclr'? (known: byol, simclr)"
    """
    names = sorted(names)
    near = difflib.get_close_matches(str(word), names, n=1)
    listed = f"known: {', '.join(names)}" if names else "none are known"
    return f"did you mean {near[0]!r}? ({listed})" if near else listed


# Classes and functions


def load_class(package: str, name: str, contract: type) -> type:
    """The one class of a plug-in file that fulfils `contract`; its `name` becomes the file's stem.

    Raises:
        UserError: unknown name, or a file with no such class or several.

    >>> load_class("generators.datasets", "randbit", Dataset).name
    'randbit'
    """
    module, path = _module(package, name)
    classes: list[typing.Any] = [
        value
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, contract) and value.__module__ == module.__name__
    ]
    if len(classes) != 1:
        raise UserError(
            f"{name}: expected exactly one subclass of {contract.__name__} in the file, found {len(classes)}"
        )
    classes[0].name = path.stem.replace("_", "-")
    return classes[0]


def load_function(package: str, name: str) -> Callable:
    """The function of a plug-in file that bears the file's own name.

    Raises:
        UserError: unknown name, or no such function.
    """
    module, path = _module(package, name)
    function = getattr(module, path.stem, None)
    if not inspect.isfunction(function):
        raise UserError(f"{name}: expected a function named {path.stem} in the file")
    return function


def _module(package: str, name: str) -> tuple[types.ModuleType, Path]:
    path = source_file(package, name)
    if is_path(name):
        return _module_of(path, file_digest(package, name)), path
    return importlib.import_module(f"{package}.{path.stem}"), path


@lru_cache(maxsize=64)
def _module_of(path: Path, digest: str) -> types.ModuleType:
    # A user's file becomes a module under a name that cannot hide an installed one.
    name = f"suppression_bench_user_{path.stem}_{digest[:8]}"
    module = types.ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    try:
        # Compiled here, since Python's own cache knows a file by size and whole seconds only.
        exec(compile(path.read_bytes(), str(path), "exec", dont_inherit=True), module.__dict__)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise UserError(f"{path}: the file cannot be imported ({type(error).__name__}: {error})") from error
    return module


# Options


def parameters(target: Callable, skip: tuple[str, ...] = ()) -> dict[str, inspect.Parameter]:
    """The keyword options of a class or function: name -> parameter, with evaluated annotations."""
    signature = inspect.signature(target, eval_str=True)
    return {p.name: p for p in signature.parameters.values() if p.kind is p.KEYWORD_ONLY and p.name not in skip}


def check_options(target: Callable, options: dict, what: str) -> tuple[dict, list[str]]:
    """Options resolved against a signature, and every fault as a sentence.

    Arguments:
        target: a class or function; its keyword-only parameters are the options.
        options: name -> value (`-` and `_` alike).
        what: the owner's name, for the sentences.

    >>> def example(*, temperature: float = 0.1): ...
    >>> check_options(example, {"temprature": 1}, "example")[1]
    ["example: unknown option 'temprature', did you mean 'temperature'? (known: temperature)"]
    """
    return check_parameters(parameters(target), options, what)


def check_parameters(signature: dict[str, inspect.Parameter], options: dict, what: str) -> tuple[dict, list[str]]:
    """Options resolved against the parameters of a signature, as `check_options` does."""
    defaults = {name: p.default for name, p in signature.items() if p.default is not p.empty}
    resolved = {name: list(value) if isinstance(value, tuple) else value for name, value in defaults.items()}
    faults, named = [], set()
    for key, value in options.items():
        name = str(key).replace("-", "_")
        named.add(name)
        if name not in signature:
            faults.append(f"{what}: unknown option {key!r}, {did_you_mean(name, signature)}")
            continue
        try:
            resolved[name] = convert(value, signature[name].annotation)
        except ValueError:
            faults.append(f"{what}: {key} must be {describe_type(signature[name].annotation)}, got {value!r}")
    missing = [name for name in signature if name not in resolved and name not in named]
    faults += [
        f"{what}: the option {name} is missing ({describe_type(signature[name].annotation)})" for name in missing
    ]
    return resolved, faults


def convert(value, annotation) -> typing.Any:
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
        if any(value == choice and type(value) is type(choice) for choice in inner):
            return value
    elif origin in (list, tuple):
        items = value if isinstance(value, (list, tuple)) else [value]
        # The command line gives ["20,80"] for --sizes 20,80.
        items = [part for item in items for part in (item.split(",") if isinstance(item, str) else [item])]
        if isinstance(value, (list, tuple, str)) and items:
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


def _finite(value: int | float | str) -> float:
    try:
        number = float(value)
    except OverflowError:
        raise ValueError from None
    if not math.isfinite(number):
        raise ValueError
    return number


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
