"""List what is there: bench list methods datasets suites encoders losses recipes tracks."""

import inspect
import re
from pathlib import Path

from generators import catalog, options
from generators.dataset import UserError
from generators.options import did_you_mean
from suppression_bench.commands._parser import Parser
from suppression_bench.commands.data import argument_texts

PACKAGES = {
    "datasets": "generators.datasets",
    "methods": "suppression_bench.methods",
    "encoders": "suppression_bench.encoders",
    "losses": "suppression_bench.losses",
}
# Arguments of a loss that are passed in; named here since importing the contract would load torch for `bench list`.
PASSED_IN = ("negatives", "labels", "generator")
FILES = {"suites": "title", "recipes": None, "tracks": "title"}


def run(arguments: list[str]) -> int:
    """Names with one line each."""
    kinds = [*PACKAGES, *FILES]
    parser = Parser("list", "Show the names of datasets, methods, encoders, losses, suites, recipes and tracks.")
    parser.add_argument("kinds", type=str, nargs="*", help=f"any of {', '.join(kinds)} (default: all)")
    parser.add_argument(
        "--full",
        action="store_true",
        help="Markdown with reference, options and defaults of methods, losses, encoders, datasets",
    )
    flags = parser.read(arguments)
    unknown = [kind for kind in flags.kinds if kind not in kinds]
    if unknown:
        raise UserError(
            "\n".join(f"bench list: unknown kind {kind!r}, {did_you_mean(kind, kinds)}" for kind in unknown)
        )
    if flags.full:
        short = [kind for kind in flags.kinds if kind not in PACKAGES]
        if short:
            raise UserError(f"bench list --full: not for {', '.join(short)}; it is there for {', '.join(PACKAGES)}")
        print("\n\n".join(_section(kind) for kind in flags.kinds or PACKAGES))
        return 0
    for kind in flags.kinds or kinds:
        rows = _plugins(PACKAGES[kind]) if kind in PACKAGES else _files(kind)
        width = max(len(name) for name, _ in rows)
        print(f"{kind}:")
        print("\n".join(f"  {name:<{width}}  {text}" for name, text in rows))
    return 0


def _plugins(package: str) -> list[tuple[str, str]]:
    return [(name, catalog.summary(package, name)) for name in catalog.names(package)]


def _section(kind: str) -> str:
    return "\n\n".join([f"## {kind.capitalize()}", *(_entry(kind, name) for name in catalog.names(PACKAGES[kind]))])


def _entry(kind: str, name: str) -> str:
    # From the docstring and the signature, the only place where an option's default stands.
    target = load(PACKAGES[kind], name)
    text = inspect.getdoc(target)
    parts = [f"### {name}", " ".join(text.split("\n\n")[0].split())]
    reference = re.search(r"^Reference: (.*?)(?:\n\n|\Z)", text, re.MULTILINE | re.DOTALL)
    if reference:
        parts.append(" ".join(reference.group(0).split()))
    texts = argument_texts(target)
    rows = [
        f"| `{option}` | {_default(parameter.default)} | {texts.get(option, '').replace('|', '/')} |"
        for option, parameter in options.parameters(target, PASSED_IN).items()
    ]
    if rows:
        parts.append("\n".join(["| option | default | what |", "|---|---|---|", *rows]))
    return "\n\n".join(parts)


def load(package: str, name: str):
    """The class or function of a plug-in."""
    if package == "suppression_bench.losses":
        return catalog.load_function(package, name)
    from generators.dataset import Dataset
    from suppression_bench.encoder import Encoder
    from suppression_bench.method import Method

    contracts = {"datasets": Dataset, "methods": Method, "encoders": Encoder}
    return catalog.load_class(package, name, contracts[package.rpartition(".")[2]])


def _default(value) -> str:
    if value is inspect.Parameter.empty:
        return "none: must be given"
    return (
        "none"
        if value is None
        else "`" + " ".join(map(str, value)) + "`"
        if isinstance(value, (tuple, list))
        else f"`{value}`"
    )


def _files(kind: str) -> list[tuple[str, str]]:
    import yaml

    rows = []
    for path in sorted((Path(__file__).parents[1] / kind).glob("*.yaml")):
        text = path.read_text()
        content = yaml.safe_load(text)
        title = content[FILES[kind]] if FILES[kind] else text.split("\n")[0].lstrip("# ")
        others = [tier for tier in content.get("tiers", {}) if tier != content["tier"]]
        rows.append((path.stem, title + (f" (tiers: {', '.join([content['tier'], *others])})" if others else "")))
    return rows
