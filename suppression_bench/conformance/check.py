"""One line of the conformance table: what was checked, whether it held, and what was seen."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """The outcome of one check.

    name: what must hold, in a few words.
    passed: whether it does.
    detail: what was seen where it does not.
    """

    name: str
    passed: bool
    detail: str = ""
