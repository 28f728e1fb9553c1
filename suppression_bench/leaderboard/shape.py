"""A foreign record's inner shape: the keys and types that this program writes, so that later code may rely on them."""

import re
import unicodedata
from collections.abc import Iterator

from generators import strict_json

LONGEST = 500  # characters of any text in a record
HIGHEST = 2**63 - 1  # of any whole number: beyond it not every later calculation is possible
DEEPEST = 20  # objects and lists inside each other; our own records have five
TEXT_OR_NONE = (str, type(None))
# Letters, marks and blanks that are drawn as nothing, or as a blank that is no blank: fillers, selectors, wide blanks.
BLANKS = re.compile(
    "[\u00a0\u034f\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200a\u202f\u205f\u2800\u3000\u3164"
    "\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
SPEC_KEYS = {
    "suite": (dict, type(None)), "recipe": str, "data": dict, "method": dict, "loss": (dict, type(None)),
    "encoder": dict, "augmentation": dict, "train": dict, "probe": dict, "probe_version": int,
    "strength": (dict, type(None)), "varied": dict, "seed": int,
}  # fmt: skip
DATA_KEYS = {"dataset": str, "version": int, "options": dict, "seed": int, "digest": str, "bits": int}
PLUGIN_KEYS = {"name": str, "options": dict}
STRENGTH_KEYS = {"key": str, "value": (int, float, str, list, type(None))}
CODE_KEYS = {"version": str, "commit": TEXT_OR_NONE, "sources": str, "method": str}
ENVIRONMENT_KEYS = {
    "python": str, "torch": str, "numpy": str, "platform": str, "device": str, "cpu_capability": str, "threads": int,
}  # fmt: skip
COUNTS = ("steps", "resumes", "seconds", "images_per_second", "peak_memory_bytes")  # of `run`


def faults(record: dict) -> list[str]:
    """How a record that `results.record.check` accepts departs from what `bench run` writes.

    Arguments:
        record: its outer keys and its probes are known to be in order.
    """
    spec = record["spec"]
    found = strict_json.faults(spec, SPEC_KEYS, "spec")
    found += strict_json.faults(record["code"], CODE_KEYS, "code")
    found += strict_json.faults(record["environment"], ENVIRONMENT_KEYS, "environment")
    if not found:
        found += strict_json.faults(spec["data"], DATA_KEYS, "spec.data")
        for kind in ("method", "loss", "encoder"):
            if spec[kind] is not None:
                own = {**PLUGIN_KEYS, "file": str} if "file" in spec[kind] else PLUGIN_KEYS
                found += strict_json.faults(spec[kind], own, f"spec.{kind}")
        if spec["strength"] is not None:
            found += strict_json.faults(spec["strength"], STRENGTH_KEYS, "spec.strength")
    if any(type(one) is int and abs(one) > HIGHEST for one in _leaves(record)):
        found.append(f"holds a whole number beyond {HIGHEST}")
    if _is_deep(record):
        found.append(f"holds objects or lists nested more than {DEEPEST} deep")
    if not found:
        found += _ranges(record)
    return found + text_faults(record)


def _ranges(record: dict) -> list[str]:
    spec = record["spec"]
    counts = [("spec.seed", spec["seed"]), ("environment.threads", record["environment"]["threads"])]
    counts += [(f"run.{name}", record["run"][name]) for name in COUNTS]
    found = [f"{name} {value} is negative" for name, value in counts if value < 0]
    for probe in record["probes"]:
        if len(probe["splits"]) != 2 or not all(isinstance(split, str) for split in probe["splits"]):
            found.append(f"probe {probe['probe']} of {probe['feature']}: splits must name two splits")
    places = [(probe["probe"], probe["layer"], probe["feature"]) for probe in record["probes"]]
    found += [f"the probe {' '.join(one)} stands twice" for one in dict.fromkeys(places) if places.count(one) > 1]
    return found


def text_faults(value) -> list[str]:
    """Texts anywhere inside that are too long or hold control or invisible characters.

    >>> text_faults({"a": ["fine", "zero\\u200bwidth"]})
    ["the text 'zero\\\\u200bwidth' holds the character U+200B, which cannot be seen"]
    """
    found = []
    for text in dict.fromkeys(one for one in _leaves(value) if isinstance(one, str)):
        if len(text) > LONGEST:
            found.append(f"the text {text[:40]!a}... has {len(text)} characters, at most {LONGEST} are allowed")
        found += [f"the text {text[:40]!a} holds the character U+{ord(one):04X}, which cannot be seen" for one in
                  hidden(text)[:1]]  # fmt: skip
    return found


def hidden(text: str) -> list[str]:
    """The characters of a text that cannot be seen, or that change how others are shown (controls, formats, unassigned).

    >>> hidden("Café 2\\u202e"), hidden("Café\\u3164")  # the second a Korean filler, by its category a letter
    (['\\u202e'], ['\\u3164'])
    """
    kinds = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
    return [one for one in text if unicodedata.category(one) in kinds or BLANKS.match(one)]


def _is_deep(value) -> bool:
    level = [value]
    for _ in range(DEEPEST + 1):
        level = [inner for one in level if isinstance(one, (dict, list))
                 for inner in (one.values() if isinstance(one, dict) else one)]  # fmt: skip
    return bool(level)


def _leaves(value) -> Iterator:
    # All keys and values that hold no others, without recursion, which a deep value would end.
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            yield from one
            left += reversed(one.values())
        elif isinstance(one, list):
            left += reversed(one)
        else:
            yield one
