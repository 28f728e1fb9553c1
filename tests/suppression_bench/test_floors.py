"""The house's floors: every file has its place, imports only downward, goes in no circle and stays small."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from generators import catalog

# Module (or package with `/*`) -> floor. A file imports from its own floor or below; a new file needs a place here.
FLOORS = {
    7: ["__main__", "cli", "commands/*"],
    6: ["runner", "stand_in", "estimate", "outlook", "results/frame", "results/published", "results/pivot",
        "results/html_tables", "results/latex", "results/tables", "results/metric_tables", "results/curves", "results/summary",
        "results/figures", "results/reproduce", "results/report", "results/label_sheet", "results/style",
        "results/trade_off", "results/measured", "results/temperature", "results/align_uniform", "results/learning",
        "results/drawings", "results/labelling", "speed", "regression", "repeatability", "check_report",
        "leaderboard/*"],
    5: ["budget", "settings", "spec", "suite", "tiers", "cell", "conformance/*", "trained"],
    4: ["training/loop", "methods/*", "evaluation/lbfgs", "evaluation/probes", "evaluation/metrics", "evaluation/localize",
        "training/gradient_cache", "evaluation/trace", "evaluation/comparison"],
    3: ["results/significance",
        "method", "encoder", "encoders/*", "evaluation/suppression", "training/data", "training/pixel_cache",
        "training/precision", "training/optim", "training/augment", "results/observed", "results/baseline",
        "results/exact"],
    2: ["loss", "losses/*", "results/record", "results/identity", "results/found", "results/predictions", "provenance",
        "training/options"],
    1: ["training/transforms", "training/distributed"],
}  # fmt: skip
PACKAGES = [
    "__init__",
    "training/__init__",
    "evaluation/__init__",
    "results/__init__",
    "leaderboard/__init__",
]  # empty but for a docstring
PLUGINS = ("methods", "losses", "encoders")
HEAVY = {"torch", "torchvision", "suppression_bench"}
LONGEST = 530

OURS = catalog.folder_of("suppression_bench")
GENERATORS = catalog.folder_of("generators")


def files(root):
    return sorted(path for path in root.rglob("*.py"))


def name_of(path):
    return path.relative_to(OURS).with_suffix("").as_posix()


def floor_of(name):
    if name in PACKAGES:
        return 0
    places = [
        floor
        for floor, entries in FLOORS.items()
        for entry in entries
        if entry == name or (entry.endswith("/*") and name.startswith(entry[:-1]) and name.count("/") == 1)
    ]
    assert len(places) == 1, f"{name} has {len(places)} places in the table of floors: give it exactly one"
    return places[0]


def imports(path, package):
    """Every module that a file imports, anywhere in it: dotted names, relative ones resolved."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = (package, *path.relative_to(catalog.folder_of(package)).parts[:-1])
                base = ".".join([*parts[: len(parts) - node.level + 1], *([base] if base else [])])
            found |= {base} | {f"{base}.{alias.name}" for alias in node.names}
    return found


def ours(path):
    """The files of suppression_bench that a file imports."""
    known = {name_of(other) for other in files(OURS)}
    named = {name.removeprefix("suppression_bench.").replace(".", "/") for name in imports(path, "suppression_bench")}
    return (named & known) - {name_of(path)}


def test_the_reader_of_imports_sees_every_kind(tmp_path, monkeypatch):
    path = OURS / "training" / "example.py"
    monkeypatch.setattr(
        Path, "read_text", lambda self: "import a.b\nfrom . import optim\nfrom ..loss import declares\nfrom c import d"
    )
    assert {"a.b", "suppression_bench.training.optim", "suppression_bench.loss", "c.d"} <= imports(
        path, "suppression_bench"
    )


@pytest.mark.parametrize("path", files(OURS), ids=name_of)
def test_imports_go_downward(path):
    floor = floor_of(name_of(path))
    upward = {other: floor_of(other) for other in ours(path) if floor_of(other) > floor}
    assert not upward, f"{name_of(path)} (floor {floor}) imports upward: {upward}"


@pytest.mark.parametrize("path", [path for path in files(OURS) if path.parent.name in PLUGINS], ids=name_of)
def test_plug_ins_do_not_import_each_other(path):
    beside = {
        other
        for other in ours(path)
        if other.startswith(f"{path.parent.name}/") and not other.split("/")[1].startswith("_")
    }
    assert not beside


def test_nothing_imports_a_plug_in_by_name():
    plugins = tuple(f"{folder}/" for folder in PLUGINS)
    for path in files(OURS):
        named = {other for other in ours(path) if other.startswith(plugins) and not other.split("/")[1].startswith("_")}
        assert not named, f"{name_of(path)} names {named}"


def test_there_is_no_circle():
    graph = {name_of(path): ours(path) for path in files(OURS)}
    while leaves := [name for name, needs in graph.items() if not needs & graph.keys()]:
        graph = {name: needs for name, needs in graph.items() if name not in leaves}
    assert not graph, f"imports in a circle among {sorted(graph)}"


def test_every_entry_of_the_table_is_a_file():
    for entries in FLOORS.values():
        for entry in entries:
            assert (
                (OURS / entry.removesuffix("/*")).is_dir() if entry.endswith("/*") else (OURS / f"{entry}.py").is_file()
            ), entry


@pytest.mark.parametrize("name", PACKAGES)
def test_packages_hold_nothing(name):
    [only] = ast.parse((OURS / f"{name}.py").read_text()).body
    assert isinstance(only, ast.Expr)


@pytest.mark.parametrize("path", files(GENERATORS), ids=lambda path: path.stem)
def test_generators_know_neither_torch_nor_the_bench(path):
    assert not {name.split(".")[0] for name in imports(path, "generators")} & HEAVY


def test_commands_import_torch_only_when_they_run():
    for path in [OURS / "cli.py", *files(OURS / "commands")]:
        for node in ast.parse(path.read_text()).body:
            names = (
                [a.name for a in node.names] if isinstance(node, ast.Import) else [getattr(node, "module", "") or ""]
            )
            assert not {name.split(".")[0] for name in names} & {
                "torch",
                "torchvision",
                "pandas",
                "matplotlib",
                "sklearn",
            }, path


@pytest.mark.parametrize("path", [*files(OURS), *files(GENERATORS)], ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_files_are_short_and_say_what_they_are(path):
    text = path.read_text()
    assert len(text.splitlines()) <= LONGEST
    assert ast.get_docstring(ast.parse(text))
    assert path.stem not in ("utils", "misc", "common", "helpers", "base")


@pytest.mark.parametrize("module", ["suppression_bench.cli", "generators.build"])
def test_importing_it_leaves_torch_unloaded(module):
    code = f"import sys, {module}; print(sorted({{'torch', 'torchvision', 'sklearn', 'pandas'}} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_help_leaves_torch_unloaded():
    code = "import sys; from suppression_bench import cli; cli.main(['--help']); cli.main(['list'])"
    code += "; print('torch' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines()[-1] == "False"
