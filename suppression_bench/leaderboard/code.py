"""A submitted method's or loss's file, parsed and never run: what it imports, and what it must not touch."""

import ast
import io
import tokenize

from suppression_bench.leaderboard.shape import hidden

# Modules that may be imported, and roots below which all of them may.
MODULES = {
    "__future__", "collections.abc", "copy", "math", "typing", "numpy", "numpy.linalg", "numpy.fft", "torch", "torch.nn",
    "torch.nn.functional", "torch.nn.init", "torch.nn.utils", "torch.autograd", "torch.autograd.function",
    "torch.distributions", "torch.fft", "torch.func", "torch.linalg", "torch.special", "suppression_bench.method",
    "suppression_bench.loss", "suppression_bench.encoder",
    "suppression_bench.training.distributed",
}  # fmt: skip
PLUGINS = ("suppression_bench.methods.", "suppression_bench.losses.")
FROM = {"suppression_bench": {"method", "loss", "encoder"}, "suppression_bench.training": {"distributed"}}
FROM |= {"suppression_bench.methods": None, "suppression_bench.losses": None}  # any plug-in
# What can run, read, write or hide code although only the modules above are imported.
NAMES = {
    "exec", "eval", "compile", "open", "input", "breakpoint", "getattr", "setattr", "delattr", "hasattr", "vars",
    "globals", "locals", "dir", "memoryview", "help", "exit", "quit",
}  # fmt: skip
ATTRIBUTES = {
    "load", "loads", "save", "dump", "dumps", "fromfile", "tofile", "memmap", "open_memmap", "DataSource", "loadtxt",
    "genfromtxt", "fromregex", "savetxt", "savez", "savez_compressed", "load_library", "load_inline", "from_file",
    "from_buffer", "frombuffer", "hub", "jit", "ops", "package", "serialization", "multiprocessing",
    "distributed", "utils", "storage", "library", "compiler", "compile", "export", "onnx", "ctypeslib", "lib", "core",
    "testing", "f2py", "distutils", "ctypes", "os", "sys", "subprocess", "builtins", "importlib", "io", "pathlib",
    "shutil", "socket", "inspect", "format_map", "warnings", "types", "gc", "signal", "threading", "tempfile",
    "pickle", "marshal", "copyreg", "codecs", "runpy", "platform", "contextlib", "functools", "weakref", "asyncio", "logging",
    "system", "popen", "Popen", "import_module", "urlopen", "profiler", "monitor", "export_chrome_trace",
    # Frames, which lead to the builtins, and texts that are evaluated or name an attribute.
    "gi_frame", "gi_code", "gi_yieldfrom", "cr_frame", "cr_code", "cr_await", "ag_frame", "ag_code", "ag_await", "tb_frame",
    "tb_next", "f_back", "f_builtins", "f_globals", "f_locals", "f_code", "operator", "attrgetter", "methodcaller",
    "get_type_hints", "ForwardRef", "fx",
}  # fmt: skip
PRIVATE = {"_C", "_dynamo", "_inductor", "_jit_internal", "_weakref"}  # modules that `self` could stand for
UTILS = ("nn",)  # torch.nn.utils clips norms; torch.utils compiles and loads
KEPT = {"__init__", "__name__"}  # of the dunder names


def faults(text: str, what: str) -> list[str]:
    """Why a file is refused, each as a sentence with its line; an empty list means that nothing of this was found.

    A reading of the source cannot prove that code is harmless: it turns away what has no place in a method. Maintainers
    read a file before they run it, and run it in a container.

    >>> faults("import os", "method.py")
    ['method.py, line 1: imports os; copy, math, typing, numpy, torch and the contracts of suppression_bench are allowed']
    """
    if unseen := [one for one in hidden(text) if one not in "\n\t"]:
        return [f"{what}: holds the character U+{ord(unseen[0]):04X}, which cannot be seen"]
    if not _is_utf8(text):
        return [f"{what}: names another encoding than utf-8, in which Python would read other code than stands there"]
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return [f"{what}: is no Python ({str(error)[:200]})"]
    found = []
    for node in ast.walk(tree):
        found += [f"{what}, line {node.lineno}: {sentence}" for sentence in _node_faults(node)]
    return list(dict.fromkeys(found))


def _is_utf8(text: str) -> bool:
    # Python reads a file by the encoding that its first lines name (PEP 263), ast.parse reads a text as it stands.
    try:
        return tokenize.detect_encoding(io.BytesIO(text.encode()).readline)[0] == "utf-8"
    except SyntaxError:
        return False


def _node_faults(node: ast.AST) -> list[str]:
    allowed = "copy, math, typing, numpy, torch and the contracts of suppression_bench are allowed"
    if isinstance(node, ast.Import):
        found = [f"imports {alias.name}; {allowed}" for alias in node.names if not _importable(alias.name)]
        own = [alias.name for alias in node.names if alias.name.startswith("suppression_bench.") and not alias.asname]
        return found + [
            f"imports {one} by its whole name, which gives all of the package; import from it" for one in own
        ]
    if isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            return ["imports relatively; a method is one file"]
        return [f"imports {one} from {base}; {allowed}" for one in _refused(base, [a.name for a in node.names])]
    if isinstance(node, ast.Name) and (node.id in NAMES or _is_dunder(node.id)):
        return [f"uses {node.id}, which has no place in a method"]
    if isinstance(node, ast.Attribute):
        return _attribute_faults(node)
    if isinstance(node, ast.MatchClass):
        return ["uses a class pattern, which reads attributes; it has no place in a method"]
    return []


def _importable(name: str) -> bool:
    return name in MODULES or name.startswith(PLUGINS)


def _refused(base: str, names: list[str]) -> list[str]:
    if base in FROM:
        known = FROM[base]
        return [one for one in names if one == "*" or (known is not None and one not in known)]
    if not _importable(base):
        return names
    bad = {"*"} | ATTRIBUTES
    return [
        one
        for one in names
        if (one in bad and not (base == "torch.nn" and one in UTILS)) or one.startswith("_")
        or (one == "utils" and base != "torch.nn")
    ]  # fmt: skip


def _attribute_faults(node: ast.Attribute) -> list[str]:
    name, owner = node.attr, node.value
    if name == "utils" and _is_nn(owner):
        return []
    if _is_dunder(name):
        return [f"uses the attribute {name}, which has no place in a method"]
    own = isinstance(owner, ast.Name) and owner.id in ("self", "cls")
    if name.startswith("_") and not name.startswith("__") and not own:
        return [f"uses the private attribute {name} of something else than self"]
    # Of `self` too: any function or assignment can give that name to a module.
    if name in ATTRIBUTES or name in PRIVATE or (name.startswith("_") and name.strip("_") in ATTRIBUTES):
        return [f"uses the attribute {name}, which has no place in a method"]
    return []


def _is_nn(owner: ast.AST) -> bool:
    # nn or torch.nn
    if isinstance(owner, ast.Attribute):
        return owner.attr == "nn" and isinstance(owner.value, ast.Name) and owner.value.id == "torch"
    return isinstance(owner, ast.Name) and owner.id == "nn"


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name not in KEPT


def uses_labels(text: str) -> bool:
    """Whether a file that `faults` finds nothing in says that it wants labels, or reads them.

    >>> uses_labels("class A(Method):\\n    needs_labels = True"), uses_labels("x = batch.views")
    (True, False)
    """
    return any(_names_labels(node) for node in ast.walk(ast.parse(text)))


def _names_labels(node: ast.AST) -> bool:
    words = ("labels", "needs_labels")
    if isinstance(node, ast.Attribute):
        return node.attr in (*words, "targets")
    if isinstance(node, ast.Name):
        return node.id == "needs_labels"
    if isinstance(node, (ast.arg, ast.keyword)):
        return node.arg in words
    return isinstance(node, ast.Constant) and node.value in words
