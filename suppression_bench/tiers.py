"""A suite's file taken apart: its keys checked, and one variant of it for each of its tiers."""

from dataclasses import dataclass

from generators import options

SUITE_KEYS = {
    "version": int,
    "title": str,
    "data": dict,
    "strength": str,
    "recipe": str,
    "set": dict,
    "seeds": list,
    "cells": list,
    "tier": str,
    "tiers": dict,
}
TIER_KEYS = {key: SUITE_KEYS[key] for key in ("title", "data", "recipe", "set", "seeds", "cells")}
CELL_KEYS = {
    "method": str,
    "grid": dict,
    "set": dict,
    "seeds": list,
    "data": dict,
    "strength": str,
    "recipe": str,
}
NEEDED = ("data", "recipe", "cells")  # by every tier, from the tier itself or from the common part


@dataclass(frozen=True)
class Variant:
    """A suite as one of its tiers has it, well-formed entries only.

    tier: its name, "" for a suite without tiers.
    what: names it in errors.
    content: the suite's keys; `data` is the common part's with the tier's over it, `cells` and the others are the
        tier's where it has them.
    sets: (what, settings) of the common part and of the tier, later ones winning.
    cells_in: where `cells` stand, for errors.
    """

    tier: str
    what: str
    content: dict
    sets: list[tuple[str, dict]]
    cells_in: str


def variants(suite: dict, what: str) -> tuple[list[Variant], list[str]]:
    """Every tier of a suite (or the suite itself, where it has none), and every fault of the file's keys.

    Arguments:
        suite: the file's content.
        what: names the suite in errors.

    >>> common = {"version": 1, "data": {"dataset": "randbit"}, "recipe": "randbit", "cells": [{"method": "simclr"}]}
    >>> found, faults = variants({**common, "tier": "big", "tiers": {"big": {}, "small": {"seeds": [7]}}}, "example")
    >>> [(one.tier, one.content.get("seeds")) for one in found], faults
    ([('big', None), ('small', [7])], [])
    """
    faults = key_faults(suite, SUITE_KEYS, ("version",), what)
    common = usable(suite, SUITE_KEYS)
    named, default = common.pop("tiers", {}), common.pop("tier", None)
    if not named:
        if "tiers" in suite and suite["tiers"] == {}:
            faults.append(f"{what}: tiers is empty")
        elif default is not None and "tiers" not in suite:
            faults.append(f"{what}: tier names {default!r}, but the suite has no tiers")
        return [_variant(common, {}, "", what, what)], faults + _missing(suite, {}, what)
    if default is None:
        faults += (
            [] if "tier" in suite else [f"{what}: the key 'tier' is missing: it names the default one of the tiers"]
        )
    elif default not in named:
        faults.append(f"{what}: unknown default tier {default!r}, {options.did_you_mean(default, map(str, named))}")
    found = []
    for name, own in named.items():
        here = f"{what}, tier {name}"
        own_faults = key_faults(own, TIER_KEYS, (), here)
        faults += own_faults
        if isinstance(own, dict):
            faults += _missing(suite, own, here)
            found.append(_variant(common, usable(own, TIER_KEYS), str(name), here, what))
    return found, faults


def _variant(common: dict, own: dict, tier: str, here: str, what: str) -> Variant:
    content = {**common, **own}
    if "data" in common and "data" in own:
        content["data"] = {**common["data"], **own["data"]}
    sets = [(place, part["set"]) for place, part in ((what, common), (here, own)) if "set" in part]
    return Variant(tier, here, content, sets, here if "cells" in own else what)


def _missing(suite: dict, own: dict, what: str) -> list[str]:
    faults = [f"{what}: the key {key!r} is missing" for key in NEEDED if key not in suite and key not in own]
    return faults + ([f"{what}: cells is empty"] if own.get("cells", suite.get("cells")) == [] else [])


def choose(suite: dict, wanted: str | None, what: str) -> tuple[str, list[str]]:
    """The name of the tier to run, "" for a suite without tiers, and what is wrong with the wanted one.

    Arguments:
        suite: the file's content.
        wanted: of the command line; None for the file's default.
        what: names the suite in errors.

    >>> choose({"tier": "paper", "tiers": {"paper": {}, "quick": {}}}, "quik", "suite x")[1]
    ["suite x: unknown tier 'quik', did you mean 'quick'? (known: paper, quick)"]
    """
    named = suite.get("tiers")
    names = [str(name) for name in named] if isinstance(named, dict) else []
    if wanted is None:
        return str(suite.get("tier", "")) if names else "", []
    if not names:
        return "", [f"{what} has no tiers: leave --tier {wanted} out"]
    return wanted, [] if wanted in names else [
        f"{what}: unknown tier {wanted!r}, {options.did_you_mean(wanted, names)}"
    ]


def usable(mapping: dict, keys: dict) -> dict:
    """What is well-formed, so that one wrong entry does not hide the faults of the others."""
    good = {key: value for key, value in mapping.items() if key in keys and isinstance(value, keys[key])}
    if not whole_numbers(good.get("seeds", [])):
        del good["seeds"]
    return good


def whole_numbers(values: list) -> bool:
    """Whether all are integers from 0.

    >>> whole_numbers([0, 3]), whole_numbers([True]), whole_numbers(["1"])
    (True, False, False)
    """
    return all(type(value) is int and value >= 0 for value in values)


def key_faults(mapping, keys: dict, required: tuple, what: str) -> list[str]:
    """Unknown and missing keys and wrong types, as sentences."""
    if not isinstance(mapping, dict):
        return [f"{what}: expected names and values, got {mapping!r}"]
    faults = [f"{what}: unknown key {key!r}, {options.did_you_mean(key, keys)}" for key in mapping if key not in keys]
    faults += [f"{what}: the key {key!r} is missing" for key in required if key not in mapping]
    words = {int: "an integer", str: "a text", dict: "names and values", list: "a list"}
    for key, kind in keys.items():
        if key in mapping and (not isinstance(mapping[key], kind) or isinstance(mapping[key], bool)):
            faults.append(f"{what}: {key} must be {words[kind]}, got {mapping[key]!r}")
    seeds = mapping.get("seeds")
    if isinstance(seeds, list) and not (seeds and whole_numbers(seeds)):
        faults.append(f"{what}: seeds must be a list of integers from 0, got {seeds!r}")
    return faults
