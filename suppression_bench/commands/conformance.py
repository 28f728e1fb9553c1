"""Check losses and methods against what each must hold: bench conformance [NAME|./my_loss.py|./my_method.py ...]."""

from generators import catalog
from generators.dataset import UserError
from generators.options import did_you_mean
from suppression_bench.commands._parser import Parser

LOSSES, METHODS = "suppression_bench.losses", "suppression_bench.methods"


def run(arguments: list[str]) -> int:
    """A table of checks; 1 where one of them failed."""
    parser = Parser("conformance", "Check losses and methods: formulas, gradients, symmetries, stop-gradients, labels.")
    parser.add_argument("names", type=str, nargs="*", help="names or .py files of losses and methods (default: all)")
    flags = parser.read(arguments)
    losses, methods = _sorted(flags.names)
    failed = total = 0
    for name, checks in _checks(losses, methods):
        bad = [check for check in checks if not check.passed]
        failed, total = failed + len(bad), total + len(checks)
        print(f"{name}: {len(checks) - len(bad)} of {len(checks)} hold", flush=True)
        for check in checks if flags.names else bad:
            print(
                f"  {'pass' if check.passed else 'FAIL'}  {check.name}" + (f" ({check.detail})" if check.detail else "")
            )
    print(f"{total - failed} of {total} checks hold")
    return 1 if failed else 0


def _sorted(names: list[str]) -> tuple[list[str], list[str]]:
    # A file is a loss where it has a function of its own name, otherwise a method.
    if not names:
        return catalog.names(LOSSES), catalog.names(METHODS)
    losses, methods = [], []
    for name in names:
        if catalog.is_path(name):
            (losses if _is_loss(name) else methods).append(name)
        elif name.replace("_", "-") in catalog.names(LOSSES):
            losses.append(name)
        elif name.replace("_", "-") in catalog.names(METHODS):
            methods.append(name)
        else:
            known = catalog.names(LOSSES) + catalog.names(METHODS)
            raise UserError(f"bench conformance: unknown loss or method {name!r}, {did_you_mean(name, known)}")
    return losses, methods


def _is_loss(path: str) -> bool:
    try:
        catalog.load_function(LOSSES, path)
    except UserError:
        catalog.source_file(LOSSES, path)  # a file that is not there says so itself
        return False
    return True


def _checks(losses: list[str], methods: list[str]):
    import torch

    from suppression_bench.conformance.losses import check_losses
    from suppression_bench.conformance.methods import check_method
    from suppression_bench.method import Method

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # tiny tensors: threads would only wait for each other
    try:
        if losses:
            yield from check_losses(losses).items()
        for name in methods:
            yield name, check_method(catalog.load_class(METHODS, name, Method))
    finally:
        torch.set_num_threads(threads)
