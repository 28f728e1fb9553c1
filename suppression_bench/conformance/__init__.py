"""The conformance kit: what every loss and every method must fulfil, a user's own too."""

from collections.abc import Iterator

import torch

from generators import catalog
from generators.catalog import did_you_mean
from generators.dataset import UserError
from suppression_bench.conformance.losses import check_losses
from suppression_bench.conformance.methods import check_method
from suppression_bench.conformance.toy import Check
from suppression_bench.method import Method

LOSSES, METHODS = "suppression_bench.losses", "suppression_bench.methods"


def run(names: list[str]) -> Iterator[tuple[str, list[Check]]]:
    """Check losses, then methods: (name, its checks), one after the other, on one thread.

    Arguments:
        names: names or .py files of losses and methods; all of the package where there are none. A file is a loss where
            it has a function of its own name, otherwise a method.

    Raises:
        UserError: an unknown name, or a file that is not there.
    """
    losses, methods = _sorted(names)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # tiny tensors: threads would only wait for each other
    try:
        if losses:
            yield from check_losses(losses).items()
        for name in methods:
            yield name, check_method(catalog.load_class(METHODS, name, Method))
    finally:
        torch.set_num_threads(threads)


def _sorted(names: list[str]) -> tuple[list[str], list[str]]:
    all_losses, all_methods = catalog.names(LOSSES), catalog.names(METHODS)
    if not names:
        return all_losses, all_methods
    losses, methods = [], []
    for name in names:
        if catalog.is_path(name):
            (losses if _is_loss(name) else methods).append(name)
        elif name.replace("_", "-") in all_losses:
            losses.append(name)
        elif name.replace("_", "-") in all_methods:
            methods.append(name)
        else:
            meant = did_you_mean(name, all_losses + all_methods)
            raise UserError(f"bench conformance: unknown loss or method {name!r}, {meant}")
    return losses, methods


def _is_loss(path: str) -> bool:
    try:
        catalog.load_function(LOSSES, path)
    except UserError:
        catalog.source_file(LOSSES, path)  # a file that is not there says so itself
        return False
    return True
