"""List what is there: bench list methods datasets suites encoders losses recipes."""

from pathlib import Path

from generators import catalog
from generators.dataset import UserError
from generators.options import did_you_mean
from suppression_bench.commands._parser import Parser

PACKAGES = {
    "datasets": "generators.datasets",
    "methods": "suppression_bench.methods",
    "encoders": "suppression_bench.encoders",
    "losses": "suppression_bench.losses",
}
FILES = {"suites": "title", "recipes": None}


def run(arguments: list[str]) -> int:
    """Names with one line each."""
    kinds = [*PACKAGES, *FILES]
    parser = Parser("list", "Show the names of datasets, methods, encoders, losses, suites and recipes.")
    parser.add_argument("kinds", type=str, nargs="*", help=f"any of {', '.join(kinds)} (default: all)")
    flags = parser.read(arguments)
    unknown = [kind for kind in flags.kinds if kind not in kinds]
    if unknown:
        raise UserError(
            "\n".join(f"bench list: unknown kind {kind!r}, {did_you_mean(kind, kinds)}" for kind in unknown)
        )
    for kind in flags.kinds or kinds:
        rows = _plugins(PACKAGES[kind]) if kind in PACKAGES else _files(kind)
        width = max(len(name) for name, _ in rows)
        print(f"{kind}:")
        print("\n".join(f"  {name:<{width}}  {text}" for name, text in rows))
    return 0


def _plugins(package: str) -> list[tuple[str, str]]:
    return [(name, catalog.summary(package, name)) for name in catalog.names(package)]


def _files(kind: str) -> list[tuple[str, str]]:
    import yaml

    rows = []
    for path in sorted((Path(__file__).parents[1] / kind).glob("*.yaml")):
        text = path.read_text()
        title = yaml.safe_load(text)[FILES[kind]] if FILES[kind] else text.split("\n")[0].lstrip("# ")
        rows.append((path.stem, title))
    return rows
