"""Names say what they hold: fillers are under 1 % of a package's bindings. As a script it prints the share per file."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILLERS = {"found", "own", "one", "place", "made", "given", "there", "known"}
FILLERS |= {"wanted", "told", "said", "what", "left", "other"}
MOST = 0.01


def bindings(path: Path) -> list[str]:
    """Names that a file binds: assignments, arguments, loops, comprehensions, `with` and `except`."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    names = [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    names += [node.arg for node in nodes if isinstance(node, ast.arg) and node.arg not in ("self", "cls")]
    return names + [node.name for node in nodes if isinstance(node, ast.ExceptHandler) and node.name]


def share(paths: list[Path]) -> tuple[float, int, int]:
    """Share of fillers, their number and that of all bindings."""
    names = [name for path in paths for name in bindings(path)]
    fillers = sum(name in FILLERS for name in names)
    return fillers / max(len(names), 1), fillers, len(names)


@pytest.mark.parametrize("package", ["suppression_bench", "generators"])
def test_few_names_are_fillers(package):
    worst = sorted((ROOT / package).rglob("*.py"), key=lambda path: -share([path])[1])
    part, fillers, total = share(worst)
    assert part < MOST, f"{fillers} of {total} bindings; most in {[str(path.relative_to(ROOT)) for path in worst[:5]]}"


def test_every_kind_of_binding_counts(tmp_path):
    text = "def f(found, *own):\n    for one in own: place = [made for made in one]\n    with one as given: pass\n"
    (tmp_path / "example.py").write_text(text + "    if (there := 1): good = f(known=there)\n")
    part, fillers, total = share([tmp_path / "example.py"])
    assert (fillers, total) == (7, 8) and part == 7 / 8


if __name__ == "__main__":
    for package in ("suppression_bench", "generators", "tests"):
        paths = sorted((ROOT / package).rglob("*.py"))
        for path in paths:
            part, fillers, total = share([path])
            if fillers:
                print(f"{100 * part:5.1f} %  {fillers:3} of {total:4}  {path.relative_to(ROOT)}")
        part, fillers, total = share(paths)
        print(f"{100 * part:5.1f} %  {fillers:3} of {total:4}  {package}")
