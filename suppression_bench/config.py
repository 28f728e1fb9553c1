"""Cells from a method, a recipe and layers of settings: merged once, decoded once to typed cells, all faults collected.

The order in which settings win, weakest first: the recipe, the recipe's part for the method, the suite's data, its `set`,
its tier's `set`, the cell's `set`, the point of the cell's grid, the command line's --set.
"""

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from generators import catalog, manifest
from generators.catalog import check_parameters, convert, did_you_mean, parameters
from generators.dataset import Dataset, UserError, is_source
from generators.files import loads_yaml
from suppression_bench.cell import (
    Augmentation,
    Cell,
    DatasetSetting,
    PlugIn,
    Probing,
    Strength,
    SuiteName,
    Train,
)
from suppression_bench.encoder import Encoder
from suppression_bench.loss import PASSED_IN
from suppression_bench.method import Method

RECIPES = Path(__file__).parent / "recipes"
ENCODER = "resnet18"  # where no recipe names another
PROBE_VERSION = 1  # raised when the probes of `evaluation` give other numbers
DATA_KEYS = ("dataset", "seed", "bits")  # settings of `data` that are no options of the dataset
PACKAGES = {"method": "suppression_bench.methods", "loss": "suppression_bench.losses"}
PACKAGES |= {"encoder": "suppression_bench.encoders", "data": "generators.datasets"}
SECTIONS = ("data", "method", "loss", "encoder", "augmentation", "train", "probe")
STRUCTS = {"augmentation": Augmentation, "train": Train, "probe": Probing}
Layer = tuple[str, dict[str, Any]]  # where settings stand, for errors, and the settings


@dataclass(frozen=True)
class LocatedCell:
    """A cell and where its parts lie on this machine.

    references: plug-in kind (method, loss, encoder) -> name or path.
    dataset: name or path of the dataset and its options with their paths, or None for a folder that exists.
    folder: that folder, or None.
    """

    cell: Cell
    references: dict[str, str]
    dataset: tuple[str, dict[str, Any]] | None
    folder: Path | None = None

    @property
    def label(self) -> str:
        return self.cell.label


def cells_of_folder(folder: Path, method: str, recipe: str | None, settings: dict, seeds: int) -> list[LocatedCell]:
    """The cells of one method on a generated folder, one for each seed.

    Arguments:
        folder: of the dataset.
        method: name or path.
        recipe: name or path; None for the dataset's own.
        settings: of the command line.
        seeds: how many.

    Raises:
        UserError: every fault at once.
    """
    facts = manifest.read(folder)
    faults = Faults()
    origin = Origin("bench run", varied=tuple(settings), folder=folder.absolute(), facts=facts)
    cells = compose(method, recipe or facts.recipe, [("--set", settings)], list(range(seeds)), origin, faults)
    faults.raise_if_any()
    return cells


class Faults(list[str]):
    """Faults as sentences, collected so that all are named at once."""

    def raise_if_any(self) -> None:
        """Raises:
        UserError: there is a fault; each is named once.
        """
        if self:
            raise UserError("\n".join(dict.fromkeys(self)))


def read_yaml(folder: Path, name: str) -> tuple[dict, str]:
    """A suite or recipe by name (a file in the package) or by path, and its short name.

    Raises:
        UserError: no such file, or no mapping in it.
    """
    kind = folder.name.removesuffix("s")
    names = sorted(path.stem for path in folder.glob("*.yaml"))
    is_path = name.endswith((".yaml", ".yml"))
    path = Path(name) if is_path else folder / f"{name}.yaml"
    if is_path and not path.is_file():
        raise UserError(f"{name}: no such file; give a {kind}'s name ({', '.join(names)}) or the path of a .yaml file")
    if not path.is_file():
        hint = did_you_mean(name, names)
        raise UserError(f"unknown {kind} {name!r}: {hint}, or give the path of a .yaml file")
    try:
        content = loads_yaml(path.read_text(encoding="utf-8"))
    except ValueError as error:  # or a text that is not UTF-8
        raise UserError(f"{path}: not valid YAML ({' '.join(str(error).split())})") from None
    if not isinstance(content, dict):
        raise UserError(f"{path}: a {kind} is a file of names and values, got {type(content).__name__}")
    return content, path.stem


# ---- the cell ----


@dataclass(frozen=True)
class Origin:
    """Where cells come from: `what` names the place in errors.

    strength: the setting that a competitor's strength is read from, or None.
    varied: settings to show beside the method's name.
    folder, facts: an existing dataset folder and its manifest in place of data settings.
    """

    what: str
    suite: SuiteName | None = None
    strength: str | None = None
    varied: tuple[str, ...] = ()
    folder: Path | None = None
    facts: manifest.Manifest | None = None


def compose(
    method: str, recipe: str, layers: list[Layer], seeds: list[int], origin: Origin, faults: Faults
) -> list[LocatedCell]:
    """One cell per seed from a method, a recipe and layers of settings, later ones winning.

    Arguments:
        method: name or path.
        recipe: name or path.
        layers: settings with dotted or short names.
        seeds: of the method.
        origin: where the settings stand.
        faults: filled with every wrong setting; no cell is returned then.

    Raises:
        UserError: an unknown recipe, method, loss, encoder or dataset.
    """
    layers = [(where, flatten(settings, where)) for where, settings in layers]
    layers, recipe_name = _with_recipe(recipe, method, layers, origin)
    plugins = load_plugins(method, layers, with_data=origin.facts is None)
    layers = without_replaced(layers, "loss", default_loss(method))
    layers = without_replaced(layers, "encoder", ENCODER)
    if "loss" not in plugins.targets:  # the recipe's or suite's loss is not for this method
        layers = [(where, s if where == "--set" else _without(s, "loss")) for where, s in layers]
    before = len(faults)
    merged = merge(layers, plugins, faults)
    sections = resolve(merged, plugins, origin, faults)
    if len(faults) > before:
        return []
    dataset, local_options = _dataset_setting(sections["data"], plugins, origin, faults)
    if dataset is None:
        return []
    probe = sections["probe"]
    if not plugins.targets["method"].trains:
        probe["trace"] = 0  # without training there is no order: the cell is that without a trace
    cell = Cell(
        suite=origin.suite,
        recipe=recipe_name,
        dataset=dataset,
        method=plugins.plugin("method", sections),
        loss=plugins.plugin("loss", sections) if "loss" in plugins.targets else None,
        encoder=plugins.plugin("encoder", sections),
        augmentation=msgspec.convert(sections["augmentation"], Augmentation),
        train=msgspec.convert(sections["train"], Train),
        probe=msgspec.convert(probe, Probing),
        probe_version=PROBE_VERSION,
        strength=None,
        varied={},
        seed=0,
    )
    cell = _with_names(cell, origin, plugins, local_options)
    source = None if origin.facts else (plugins.references["data"], local_options)
    references = {kind: plugins.references[kind] for kind in ("method", "loss", "encoder")}
    return [LocatedCell(msgspec.structs.replace(cell, seed=seed), references, source, origin.folder) for seed in seeds]


def _with_recipe(recipe: str, method: str, layers: list[Layer], origin: Origin) -> tuple[list[Layer], str]:
    try:
        content, name = read_yaml(RECIPES, recipe)
    except UserError as error:
        try:  # what can be said without a recipe, so that its fault does not hide these
            load_plugins(method, layers, with_data=origin.facts is None)
        except UserError as others:
            raise UserError(f"{error}; {others}") from None
        raise
    by_method = content.pop("methods", {})
    for_method = by_method.get(Path(method).stem.replace("-", "_"), {})
    where = f"recipe {name}"
    return [(where, flatten(part, where)) for part in (content, for_method)] + layers, name


@dataclass(frozen=True)
class PlugIns:
    """The plug-ins of a cell: kind (data, method, loss, encoder) -> reference, and -> class or function.

    A method that takes no loss has none, a folder in place of a dataset's name no data.
    """

    references: dict[str, str]
    targets: dict[str, Any]

    def option_names(self) -> dict[str, list[str]]:
        """Section -> the settings in it."""
        names = {"data": list(DATA_KEYS), "loss": []}
        for section in SECTIONS:
            names[section] = names.get(section, []) + list(self.parameters(section))
        return names

    def parameters(self, section: str) -> dict[str, inspect.Parameter]:
        """The options of a section: name -> parameter of the signature that they end in."""
        if section in STRUCTS:
            fields = msgspec.structs.fields(STRUCTS[section])
            keyword = inspect.Parameter.KEYWORD_ONLY
            return {f.name: inspect.Parameter(f.name, keyword, default=f.default, annotation=f.type) for f in fields}
        target = self.targets.get(section)
        return parameters(target, PASSED_IN if section == "loss" else ()) if target else {}

    def plugin(self, kind: str, sections: dict[str, dict]) -> PlugIn:
        """A plug-in's part of the spec; a user's file is part of it by its digest: edit it, and the cell is another."""
        reference = self.references[kind]
        is_file = catalog.is_path(reference)
        return PlugIn(
            name=Path(reference).stem.replace("_", "-"),
            options=sections[kind],
            version=None if is_file else getattr(self.targets[kind], "version", 1),
            file=catalog.file_digest(PACKAGES[kind], reference) if is_file else None,
        )


def default_loss(method: str) -> str:
    """The loss of a method, given by name or path, where no recipe names another."""
    try:
        return catalog.load_class(PACKAGES["method"], method, Method).default_loss
    except UserError:
        return Method.default_loss  # `load_plugins` says what is wrong, together with all else


def load_plugins(method: str, layers: list[Layer], with_data: bool) -> PlugIns:
    """The plug-ins that settings name.

    Raises:
        UserError: every name that is not known, at once.
    """
    references = {"method": method, "loss": last(layers, "loss.name", default_loss(method))}
    references |= {"encoder": last(layers, "encoder.name", ENCODER), "data": last(layers, "data.dataset", "")}
    targets: dict[str, Any] = {}
    faults: list[str] = []
    for kind, contract in (("data", Dataset), ("method", Method), ("encoder", Encoder), ("loss", None)):
        skipped = (kind == "data" and not with_data) or (kind == "loss" and not takes_loss(targets.get("method")))
        if kind == "data" and with_data and not references["data"]:
            names = ", ".join(catalog.names(PACKAGES["data"]))
            faults.append(f"data: the key 'dataset' is missing; it is one of {names}")
        elif not skipped:
            try:
                if contract is None:
                    targets[kind] = catalog.load_function(PACKAGES[kind], references[kind])
                else:
                    targets[kind] = catalog.load_class(PACKAGES[kind], references[kind], contract)
            except UserError as error:
                faults.append(str(error))
    if "loss" in targets:
        faults += _mismatches(targets["method"], references["method"], targets["loss"], references["loss"])
    if faults:
        raise UserError("; ".join(faults))
    return PlugIns(references, targets)


def takes_loss(method: type | None) -> bool:
    """Whether a method's constructor wants a loss handed over."""
    return method is not None and "loss" in inspect.signature(method).parameters


def _mismatches(method: Any, method_name: str, loss: Any, loss_name: str) -> list[str]:
    """What a method hands to its loss that the loss cannot take, and what the loss needs that nobody gives it."""
    taken = inspect.signature(loss).parameters
    faults = [
        f"the method {method_name} hands {name} to its loss, but {loss_name} takes none"
        for name in method.passes
        if name not in taken
    ]
    if getattr(loss, "needs_labels", False) and "labels" not in method.passes:
        faults.append(f"the loss {loss_name} needs labels, but the method {method_name} gives none; use supcon")
    return faults


def _dataset_setting(
    section: dict, plugins: PlugIns, origin: Origin, faults: Faults
) -> tuple[DatasetSetting | None, dict[str, Any]]:
    """The dataset's part of the spec, and its options with the paths of sources."""
    seed, bits = section.pop("seed"), section.pop("bits")
    if origin.facts:
        facts, constant = origin.facts, origin.facts.constant_channels
        most, file = constant.max if constant else 0, None
        name, version, seed, public = facts.dataset, facts.version, facts.seed, facts.options
    else:
        cls, reference = plugins.targets["data"], plugins.references["data"]
        most = cls.constant_channels.max if cls.constant_channels else 0
        name, version, public = cls.name, cls.version, manifest.public_options(cls, section)
        file = catalog.file_digest(PACKAGES["data"], reference) if catalog.is_path(reference) else None
    if not 0 <= bits <= most:
        faults.append(f"{origin.what}: data.bits {bits} is not in 0..{most}, the constant channels of this dataset")
        return None, section
    return DatasetSetting(name=name, version=version, options=public, seed=seed, bits=bits, file=file), section


def _with_names(cell: Cell, origin: Origin, plugins: PlugIns, local_options: dict[str, Any]) -> Cell:
    """The cell with its strength and the varied settings that people know it by."""
    names = plugins.option_names()
    values = {**cell.settings(), **{f"data.{name}": value for name, value in local_options.items()}}
    knob = f"data.{origin.facts.strength}" if origin.facts and origin.facts.strength else None
    if origin.strength:
        knob = full_name(origin.strength, names, origin.what)
    strength = Strength(key=knob.partition(".")[2], value=values.get(knob)) if knob else None
    varied = [full_name(name, names, origin.what) for name in dict.fromkeys(origin.varied)]
    # The strength has a column of its own, and so has a source (whose path is nobody's business); a trace moves nothing.
    shown = [name for name in varied if not (is_source(name) or name in ("probe.trace", knob))]
    return msgspec.structs.replace(
        cell, strength=strength, varied={name: values[name] for name in shown if name in values}
    )


# ---- settings ----


def flatten(nested: dict, what: str) -> dict[str, Any]:
    """{"train": {"steps": 5}} -> {"train.steps": 5}; keys that have a dot already stay, other plain values too.

    Raises:
        UserError: a section that is no mapping.

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


def full_name(key: str, names: dict[str, list[str]], what: str) -> str:
    """The dotted name of a setting given by its dotted or its short name.

    Arguments:
        key: as a person wrote it (`-` and `_` alike).
        names: section -> the settings in it.
        what: the place, for errors.

    Raises:
        UserError: unknown ("did you mean"), or a short name that several sections have.
    """
    key = key.replace("-", "_")
    section, dot, name = key.partition(".")
    if dot:
        if section not in names:
            raise UserError(f"{what}: unknown section {section!r} in {key!r}, {did_you_mean(section, names)}")
        if name not in names[section] and not (name == "name" and section in ("method", "loss", "encoder")):
            raise UserError(f"{what}: unknown setting {key!r}, {did_you_mean(name, names[section])}")
        return key
    owners = [section for section, settings in names.items() if key in settings]
    if len(owners) == 1:
        return f"{owners[0]}.{key}"
    if owners:
        raise UserError(f"{what}: {key!r} is ambiguous, say {' or '.join(f'{owner}.{key}' for owner in owners)}")
    everything = sorted({setting for settings in names.values() for setting in settings})
    raise UserError(f"{what}: unknown setting {key!r}, {did_you_mean(key, everything)}")


def merge(layers: list[Layer], plugins: PlugIns, faults: Faults) -> dict[str, Any]:
    """Settings of all layers under their dotted names, later layers winning; steps and epochs replace each other."""
    names = plugins.option_names()
    merged: dict[str, Any] = {}
    for where, layer in layers:
        settings = {}
        for key, value in layer.items():
            try:
                settings[full_name(key, names, where)] = value
            except UserError as error:
                faults.append(str(error))
        for name, rival in (("train.steps", "train.epochs"), ("train.epochs", "train.steps")):
            if name in settings and rival not in settings:
                merged.pop(rival, None)
        merged.update(settings)
    return merged


def resolve(merged: dict[str, Any], plugins: PlugIns, origin: Origin, faults: Faults) -> dict[str, dict[str, Any]]:
    """Every section's options, complete and converted; section `data` has `seed` and `bits` as well."""
    given: dict[str, dict] = {section: {} for section in SECTIONS}
    for key, value in merged.items():
        section, _, name = key.partition(".")
        if name != "name" and key != "data.dataset":
            given[section][name] = value
    before = len(faults)
    numbers = {}
    for name in ("seed", "bits"):
        value = given["data"].pop(name, 0)
        try:
            numbers[name] = convert(value, int)
        except ValueError:
            faults.append(f"{origin.what}: data.{name} must be an integer, got {value!r}")
    sections: dict[str, dict[str, Any]] = {}
    for section in SECTIONS:
        sections[section], wrong = check_parameters(plugins.parameters(section), given[section], section)
        faults += [f"{origin.what}: {fault}" for fault in wrong]
    sections["data"] |= numbers
    if len(faults) == before:
        for section, struct in STRUCTS.items():
            try:
                msgspec.convert(sections[section], struct)
            except UserError as error:
                faults.append(f"{origin.what}: {error}")
    return sections


def without_replaced(layers: list[Layer], section: str, default: str) -> list[Layer]:
    """The layers without the options of a loss or encoder that a later layer replaces by another.

    >>> layers = [("recipe", {"loss.pairs": "cross"}), ("--set", {"loss.name": "mine", "loss.weight": 2})]
    >>> without_replaced(layers, "loss", "nt_xent")
    [('recipe', {}), ('--set', {'loss.name': 'mine', 'loss.weight': 2})]
    """
    current, cut = default, 0
    for position, (_, layer) in enumerate(layers):
        name = str(layer.get(f"{section}.name", current))
        if name.replace("-", "_") != current.replace("-", "_"):
            current, cut = name, position
    return [(where, _without(layer, section)) for where, layer in layers[:cut]] + layers[cut:]


def _without(layer: dict, section: str) -> dict:
    return {key: value for key, value in layer.items() if not key.startswith(f"{section}.")}


def last(layers: list[Layer], key: str, default: Any) -> Any:
    """The value of a dotted key in the last layer that has it."""
    return next((layer[key] for _, layer in reversed(layers) if key in layer), default)
