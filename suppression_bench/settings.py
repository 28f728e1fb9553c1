"""Settings of a cell: dotted names, short names, and every value checked against the signature it ends in."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field

from generators import catalog, options
from generators.dataset import Dataset, UserError
from suppression_bench.encoder import Encoder
from suppression_bench.evaluation.probes import Probing
from suppression_bench.loss import PASSED_IN
from suppression_bench.method import Method
from suppression_bench.training.options import Augmentation, Training

DATASETS = "generators.datasets"
DATA_KEYS = ("dataset", "seed", "bits")
NAMED = ("method", "loss", "encoder")
SECTIONS = ("data", *NAMED, "augmentation", "train", "probe")


@dataclass
class Targets:
    """The signatures that a cell's settings end in, found by its plug-ins' names."""

    dataset: type | None
    method: type
    loss: object | None
    encoder: type
    faults: list[str] = field(default_factory=list)

    def known(self) -> dict[str, list[str]]:
        """Section -> names that may be set in it."""
        dataset = list(options.parameters(self.dataset)) if self.dataset else []
        loss = list(options.parameters(self.loss, skip=PASSED_IN)) if self.loss else []
        return {
            "data": [*DATA_KEYS, *dataset],
            "method": list(options.parameters(self.method)),
            "loss": loss,
            "encoder": list(options.parameters(self.encoder)),
            "augmentation": list(options.parameters(Augmentation)),
            "train": list(options.parameters(Training)),
            "probe": list(options.parameters(Probing)),
        }


def takes_loss(method: type) -> bool:
    """Whether a method's constructor wants a loss handed over."""
    return "loss" in inspect.signature(method.__init__).parameters


def default_loss(method: str) -> str:
    """The loss of a method, given by name or path, where no recipe names another."""
    try:
        return catalog.load_class("suppression_bench.methods", method, Method).default_loss
    except UserError:
        return Method.default_loss  # `find_targets` says what is wrong, together with all else


def find_targets(dataset: str, method: str, loss: str, encoder: str, fixed_data: bool) -> Targets:
    """Load the plug-ins of a cell.

    Raises:
        UserError: every name that is not known, at once.
    """
    faults, found = [], {}

    def attempt(kind, load, *arguments):
        try:
            found[kind] = load(*arguments)
        except UserError as error:
            faults.append(str(error))

    if not fixed_data and not dataset:
        faults.append(f"data: the key 'dataset' is missing; it is one of {', '.join(catalog.names(DATASETS))}")
    elif not fixed_data:
        attempt("dataset", catalog.load_class, DATASETS, dataset, Dataset)
    attempt("method", catalog.load_class, "suppression_bench.methods", method, Method)
    attempt("encoder", catalog.load_class, "suppression_bench.encoders", encoder, Encoder)
    if "method" in found and takes_loss(found["method"]):
        attempt("loss", catalog.load_function, "suppression_bench.losses", loss)
    if "loss" in found:
        faults += _mismatches(found["method"], method, found["loss"], loss)
    if faults:
        raise UserError("; ".join(faults))
    return Targets(found.get("dataset"), found["method"], found.get("loss"), found["encoder"])


def _mismatches(method: type, method_name: str, loss: Callable, loss_name: str) -> list[str]:
    """What a method hands to its loss that the loss cannot take, and what the loss needs that nobody gives it."""
    taken = [name for name in PASSED_IN if name in inspect.signature(loss).parameters]
    faults = [
        f"the method {method_name} hands {name} to its loss, but {loss_name} takes none"
        for name in method.passes
        if name not in taken
    ]
    if getattr(loss, "needs_labels", False) and "labels" not in method.passes:
        faults.append(f"the loss {loss_name} needs labels, but the method {method_name} gives none; use supcon")
    return faults


def flatten(nested: dict, what: str) -> dict:
    """{"train": {"steps": 5}} -> {"train.steps": 5}; keys that have a dot already stay, other plain values too.

    >>> flatten({"train": {"steps": 5}, "bits": 3}, "example")
    {'train.steps': 5, 'bits': 3}
    """
    flat = {}
    for key, value in nested.items():
        if key in SECTIONS and isinstance(value, dict):
            flat.update({f"{key}.{name}": inner for name, inner in value.items()})
        elif key in SECTIONS:
            raise UserError(f"{what}: {key} must hold names and values, got {value!r}")
        else:
            flat[str(key)] = value
    return flat


def full_name(key: str, known: dict[str, list[str]], what: str) -> str:
    """The dotted name of a setting given by its dotted or its short name.

    Raises:
        UserError: unknown ("did you mean"), or a short name that several sections have.
    """
    key = key.replace("-", "_")
    section, dot, name = key.partition(".")
    if dot:
        if section not in known:
            raise UserError(f"{what}: unknown section {section!r} in {key!r}, {options.did_you_mean(section, known)}")
        if name not in known[section] and not (name == "name" and section in NAMED):
            hint = options.did_you_mean(name, known[section])
            raise UserError(f"{what}: unknown setting {key!r}, {hint}")
        return key
    owners = [section for section, names in known.items() if key in names]
    if len(owners) == 1:
        return f"{owners[0]}.{key}"
    if owners:
        raise UserError(f"{what}: {key!r} is ambiguous, say {' or '.join(f'{owner}.{key}' for owner in owners)}")
    everything = sorted({name for names in known.values() for name in names})
    raise UserError(f"{what}: unknown setting {key!r}, {options.did_you_mean(key, everything)}")


def merge(layers: list[tuple[str, dict]], known: dict[str, list[str]]) -> tuple[dict, list[str]]:
    """Settings of all layers under their dotted names, later layers winning, and every fault.

    Steps and epochs replace each other.
    """
    merged, faults = {}, []
    for what, layer in layers:
        named = {}
        for key, value in layer.items():
            try:
                named[full_name(key, known, what)] = value
            except UserError as error:
                faults.append(str(error))
        for one, other in (("train.steps", "train.epochs"), ("train.epochs", "train.steps")):
            if one in named and other not in named:
                merged.pop(other, None)
        merged.update(named)
    return merged, faults


def _without_later(target: object, resolved: dict, skip: tuple[str, ...]) -> dict:
    """Resolved options without those younger than published records that have their default."""
    known = options.parameters(target, skip)
    later = getattr(target, "later", ())
    plain = {name: list(p.default) if isinstance(p.default, tuple) else p.default for name, p in known.items()}
    return {name: value for name, value in resolved.items() if name not in later or value != plain[name]}


def without_stale(layers: list[tuple[str, dict]], section: str, default: str) -> list[tuple[str, dict]]:
    """The layers without the options of a loss or encoder that a later layer replaces by another.

    >>> layers = [("recipe", {"loss.pairs": "cross"}), ("--set", {"loss.name": "mine", "loss.weight": 2})]
    >>> without_stale(layers, "loss", "nt_xent")
    [('recipe', {}), ('--set', {'loss.name': 'mine', 'loss.weight': 2})]
    """
    name = f"{section}.name"
    current, cut = default, 0
    for position, (_, layer) in enumerate(layers):
        named = str(layer.get(name, current))
        if named.replace("-", "_") != current.replace("-", "_"):
            current, cut = named, position
    return [(what, without(layer, section)) for what, layer in layers[:cut]] + layers[cut:]


def without(layer: dict, section: str) -> dict:
    """A layer without the settings of a section."""
    return {key: value for key, value in layer.items() if not key.startswith(f"{section}.")}


def last(layers: list[tuple[str, dict]], key: str, default=None):
    """The value of a dotted key in the last layer that has it."""
    return next((layer[key] for _, layer in reversed(layers) if key in layer), default)


def resolve(merged: dict, targets: Targets, fixed_data: bool) -> tuple[dict, list[str]]:
    """Every section's options, complete and converted, and every fault.

    >>> merged = {"train.steps": "5", "loss.temperature": 0.2}
    >>> targets = find_targets("randbit", "simclr", "nt_xent", "randbit_conv", fixed_data=False)
    >>> sections, faults = resolve(merged, targets, fixed_data=False)
    >>> sections["train"]["steps"], sections["loss"]["temperature"], faults
    (5, 0.2, [])
    """
    by_section = {section: {} for section in SECTIONS}
    for key, value in merged.items():
        section, _, name = key.partition(".")
        if name != "name":
            by_section[section][name] = value
    own = {name: by_section["data"].pop(name) for name in DATA_KEYS if name in by_section["data"]}
    checks = [
        ("method", targets.method, ()),
        ("loss", targets.loss, PASSED_IN),
        ("encoder", targets.encoder, ()),
        ("augmentation", Augmentation, ()),
        ("train", Training, ()),
        ("probe", Probing, ()),
        ("data", None if fixed_data else targets.dataset, ()),
    ]
    sections, faults = {}, []
    for section, target, skip in checks:
        if target is None:
            faults += (
                [f"{section}.{name}: cannot be set here" for name in by_section[section]] if section == "data" else []
            )
            sections[section] = {}
            continue
        sections[section], more = options.check_options(target, by_section[section], section, skip)
        faults += more
        sections[section] = _without_later(target, sections[section], skip)
    for name, default in (("seed", 0), ("bits", 0)):
        try:
            sections["data"][name] = options.convert(own.get(name, default), int)
        except ValueError:
            faults.append(f"data.{name} must be an integer, got {own[name]!r}")
    for section, build in (("augmentation", Augmentation), ("train", Training), ("probe", Probing)):
        if not faults:
            try:
                build(**sections[section])
            except UserError as error:
                faults.append(str(error))
    return sections, faults
