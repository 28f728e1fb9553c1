"""Floors between rooms: imports go downward or stay on their floor, in no circle; generators stands alone."""

import ast
import graphlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FLOORS = [  # from the top; a room is a package or a module of suppression_bench
    {"__main__", "cli", "commands"},
    {"leaderboard", "regression", "audit"},
    {"run", "forecast", "speed", "executors", "conformance"},
    {"config", "suite"},
    {"evaluation", "methods"},
    {"training"},
    {"results", "losses", "encoders"},
    {"method", "loss", "encoder", "cell"},
]
HEIGHT = {room: -position for position, floor in enumerate(FLOORS) for room in floor}


def imports(path: Path) -> set[str]:
    """Every module that a file imports, anywhere in it, as dotted names; also "package.name" of a `from`."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: imports are absolute"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def rooms() -> dict[str, set[str]]:
    """Room -> the rooms that its files import."""
    needs: dict[str, set[str]] = {}
    for path in sorted((ROOT / "suppression_bench").glob("**/*.py")):
        room, *_ = path.relative_to(ROOT / "suppression_bench").with_suffix("").parts
        if room != "__init__":  # the public API stands beside the rooms
            inside = {name.split(".")[1] for name in imports(path) if name.startswith("suppression_bench.")}
            needs.setdefault(room, set()).update(inside - {room})
    return needs


def test_imports_between_rooms_go_downward_and_in_no_circle():
    needs = rooms()
    unknown = set(needs).union(*needs.values()) - HEIGHT.keys()
    assert not unknown, f"rooms without a floor: {unknown}"
    upward = {(room, other) for room, others in needs.items() for other in others if HEIGHT[other] > HEIGHT[room]}
    assert not upward
    list(graphlib.TopologicalSorter(needs).static_order())


@pytest.mark.slow
def test_generators_import_neither_torch_nor_the_bench_and_nobody_a_plugin_by_name():
    allowed = {"generators", "numpy", "PIL", "tqdm", "yaml", "threadpoolctl", "msgspec", *sys.stdlib_module_names}
    optional = {"inspect": {"webdataset"}, "export": {"pyarrow"}}  # inside a function
    for path in (ROOT / "generators").rglob("*.py"):
        assert {name.partition(".")[0] for name in imports(path)} <= allowed | optional.get(path.stem, set()), path
    for folder in ("suppression_bench/methods", "suppression_bench/losses", "generators/datasets"):
        plugins = {f"{folder.replace('/', '.')}.{path.stem}" for path in (ROOT / folder).glob("*.py")}
        for path in [*(ROOT / "suppression_bench").rglob("*.py"), *(ROOT / "generators").rglob("*.py")]:
            named = {plugin for plugin in plugins for name in imports(path) if f"{name}.".startswith(f"{plugin}.")}
            assert not named, f"{path} imports {named}"


@pytest.mark.parametrize("code", ["from suppression_bench import cli; cli.main(['list'])", "import generators.inspect"])
def test_torch_stays_unloaded(code):
    code += "; import sys; print({'torch', 'sklearn', 'pandas', 'pyarrow'} & set(sys.modules))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert answer.stdout.splitlines()[-1] == "set()"
