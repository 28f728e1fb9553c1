"""Commands around plug-ins: list what there is, check that losses and methods hold what they must."""

import inspect
import re
from pathlib import Path

from generators import catalog
from generators.catalog import did_you_mean, parameters
from generators.dataset import Dataset, UserError
from suppression_bench.commands.parsing import argument_texts

PACKAGES = {
    "datasets": "generators.datasets",
    "methods": "suppression_bench.methods",
    "encoders": "suppression_bench.encoders",
    "losses": "suppression_bench.losses",
}
# Arguments of a loss that are passed in; named here since importing the contract would load torch for `bench list`.
PASSED_IN = ("negatives", "labels", "generator")
FILES = {"suites": "title", "recipes": None, "tracks": "title"}  # folder of .yaml files -> the key of their summary
KINDS = [*PACKAGES, *FILES]


def list_names(kinds: list[str] | None = None, /, *, full: bool = False) -> int:
    """List datasets, methods, encoders, losses, suites, recipes and tracks.

    Arguments:
        kinds: any of datasets, methods, encoders, losses, suites, recipes, tracks (default: all).
        full: Markdown with reference, options and defaults of methods, losses, encoders, datasets.
    """
    unknown = [kind for kind in kinds or () if kind not in KINDS]
    if unknown:
        raise UserError(
            "\n".join(f"bench list: unknown kind {kind!r}, {did_you_mean(kind, KINDS)}" for kind in unknown)
        )
    if full:
        short = [kind for kind in kinds or () if kind not in PACKAGES]
        if short:
            raise UserError(f"bench list --full: not for {', '.join(short)}; it is there for {', '.join(PACKAGES)}")
        print("\n\n".join(_section(kind) for kind in kinds or PACKAGES))
        return 0
    for kind in kinds or KINDS:
        rows = _plugins(PACKAGES[kind]) if kind in PACKAGES else _files(kind)
        width = max(len(name) for name, _ in rows)
        print(f"{kind}:")
        print("\n".join(f"  {name:<{width}}  {text}" for name, text in rows))
    return 0


def conformance(names: list[str] | None = None, /) -> int:
    """Check losses and methods: formulas, gradients, symmetries, stop-gradients, labels.

    Prints a table of checks. Exit code 1 where one of them failed.

    Arguments:
        names: names or .py files of losses and methods (default: all of the package, failed checks only).
    """
    from suppression_bench import conformance as checking

    failed = total = 0
    for name, checks in checking.run(names or []):
        broken = [check for check in checks if not check.passed]
        failed, total = failed + len(broken), total + len(checks)
        print(f"{name}: {len(checks) - len(broken)} of {len(checks)} hold", flush=True)
        for check in checks if names else broken:
            detail = f" ({check.detail})" if check.detail else ""
            print(f"  {'pass' if check.passed else 'FAIL'}  {check.name}{detail}")
    print(f"{total - failed} of {total} checks hold")
    return 1 if failed else 0


def _plugins(package: str) -> list[tuple[str, str]]:
    return [(name, catalog.summary(package, name)) for name in catalog.names(package)]


def _files(kind: str) -> list[tuple[str, str]]:
    import yaml

    rows = []
    for path in sorted((Path(__file__).parents[1] / kind).glob("*.yaml")):
        text = path.read_text()
        content = yaml.safe_load(text)
        title = content[FILES[kind]] if FILES[kind] else text.split("\n")[0].lstrip("# ")
        tiers = [tier for tier in content.get("tiers", {}) if tier != content["tier"]]
        rows.append((path.stem, title + (f" (tiers: {', '.join([content['tier'], *tiers])})" if tiers else "")))
    return rows


def _section(kind: str) -> str:
    return "\n\n".join([f"## {kind.capitalize()}", *(_entry(kind, name) for name in catalog.names(PACKAGES[kind]))])


def _entry(kind: str, name: str) -> str:
    # From the docstring and the signature, the only place where an option's default stands.
    target = load(PACKAGES[kind], name)
    text = inspect.getdoc(target) or ""
    parts = [f"### {name}", " ".join(text.split("\n\n")[0].split())]
    reference = re.search(r"^Reference: (.*?)(?:\n\n|\Z)", text, re.MULTILINE | re.DOTALL)
    if reference:
        parts.append(" ".join(reference.group(0).split()))
    texts = argument_texts(target)
    rows = [
        f"| `{option}` | {_default(parameter.default)} | {texts.get(option, '').replace('|', '/')} |"
        for option, parameter in parameters(target, PASSED_IN).items()
    ]
    if rows:
        parts.append("\n".join(["| option | default | what |", "|---|---|---|", *rows]))
    return "\n\n".join(parts)


def load(package: str, name: str):
    """The class or function of a plug-in."""
    if package == PACKAGES["losses"]:
        return catalog.load_function(package, name)
    from suppression_bench.encoder import Encoder
    from suppression_bench.method import Method

    contracts = {"datasets": Dataset, "methods": Method, "encoders": Encoder}
    return catalog.load_class(package, name, contracts[package.rpartition(".")[2]])


def _default(value) -> str:
    if value is inspect.Parameter.empty:
        return "none: must be given"
    if value is None:
        return "none"
    return "`" + (" ".join(map(str, value)) if isinstance(value, tuple | list) else str(value)) + "`"
