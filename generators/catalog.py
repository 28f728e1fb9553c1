"""Plug-ins by name (a file in a plug-in folder) or by path (a .py file), resolved without a registry."""

import ast
import hashlib
import importlib
import importlib.util
import inspect
import sys
import types
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from generators.dataset import Dataset, UserError
from generators.options import check_options, did_you_mean


def folder_of(package: str) -> Path:
    """The folder of a plug-in package, found without importing its plug-ins."""
    return Path(importlib.util.find_spec(package).submodule_search_locations[0])


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


def _module(package: str, name: str) -> types.ModuleType:
    path = source_file(package, name)
    if is_path(name):
        return _module_of(path, file_digest(package, name))
    return importlib.import_module(f"{package}.{path.stem}")


def load_class(package: str, name: str, contract: type) -> type:
    """The one class of a plug-in file that fulfils `contract`; its `name` becomes the file's stem.

    Raises:
        UserError: unknown name, or a file with no such class or several.

    >>> load_class("generators.datasets", "randbit", Dataset).name
    'randbit'
    """
    module = _module(package, name)
    own = [
        value
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, contract) and value.__module__ == module.__name__
    ]
    if len(own) != 1:
        raise UserError(f"{name}: expected exactly one subclass of {contract.__name__} in the file, found {len(own)}")
    own[0].name = Path(module.__file__).stem.replace("_", "-")
    return own[0]


def load_function(package: str, name: str) -> Callable:
    """The function of a plug-in file that bears the file's own name.

    Raises:
        UserError: unknown name, or no such function.
    """
    module = _module(package, name)
    function = getattr(module, Path(module.__file__).stem, None)
    if not inspect.isfunction(function):
        raise UserError(f"{name}: expected a function named {Path(module.__file__).stem} in the file")
    return function


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
        made = cls(**resolved)
    except (UserError, OSError):
        raise
    except Exception as error:
        if not is_path(name):
            raise
        raise UserError(
            f"{name}: the constructor of {cls.__name__} failed ({type(error).__name__}: {error})"
        ) from error
    made.given, made.options = resolved, {**resolved, **made.settled}
    faults = made.faults()
    if faults:
        raise UserError(f"{name}: {'; '.join(faults)}; mend the dataset's file")
    return made
