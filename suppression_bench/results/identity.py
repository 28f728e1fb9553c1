"""What records and plans say of a cell - its spec, code and machine - checked as far as tables, figures and pages read it."""

from generators import strict_json

SPEC_KEYS = {
    "suite": (dict, type(None)), "recipe": str, "data": dict, "method": dict, "loss": (dict, type(None)), "encoder": dict,
    "augmentation": dict, "train": dict, "probe": dict, "probe_version": int, "strength": (dict, type(None)), "varied": dict,
    "seed": int,
}  # fmt: skip
DATA_KEYS = {"dataset": str, "seed": int}
PLUGIN_KEYS = {"name": str, "options": dict}
CODE_KEYS = {"version": str, "commit": (str, type(None)), "sources": str, "method": str}
ENVIRONMENT_KEYS = {"device": str, "torch": str}


def spec_faults(spec) -> list[str]:
    """How a spec departs from what every cell has; further keys are its own.

    >>> spec_faults({"data": {}})[:2]
    ["spec lacks the key 'suite'", "spec lacks the key 'recipe'"]
    """
    found = _faults(spec, SPEC_KEYS, "spec")
    if found:
        return found
    found += _faults(spec["data"], DATA_KEYS, "spec.data")
    for kind in ("method", "loss", "encoder"):
        found += [] if spec[kind] is None else _faults(spec[kind], PLUGIN_KEYS, f"spec.{kind}")
    if spec["strength"] is not None:
        found += _faults(spec["strength"], {"key": str}, "spec.strength")
        found += [] if "value" in spec["strength"] else ["spec.strength lacks the key 'value'"]
    found += _faults(spec["suite"], {"name": str}, "spec.suite") if spec["suite"] else []
    options = spec["data"].get("options")
    return found + ([] if options is None else _faults(options, {}, "spec.data.options"))


def provenance_faults(code, environment) -> list[str]:
    """How the parts on program and machine depart from what every record has."""
    return _faults(code, CODE_KEYS, "code") + _faults(environment, ENVIRONMENT_KEYS, "environment")


def _faults(value, keys: dict, what: str) -> list[str]:
    known = {key: value[key] for key in value if key in keys} if isinstance(value, dict) else value
    return strict_json.faults(known, keys, what)
