"""The resolved cell: a method, a recipe and layers of settings in, one checked spec per seed out."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from generators import catalog, manifest, options, strict_json, strict_yaml
from generators.dataset import UserError, is_source
from suppression_bench import settings
from suppression_bench.evaluation import probes

RECIPES = Path(__file__).parent / "recipes"
ENCODER = "resnet18"  # where no recipe names another


@dataclass
class Cell:
    """One dataset setting x method x seed, resolved: a pure function of `spec`.

    spec: what goes into the record and names the cell (no path of this machine).
    references: plug-in kind -> name or path by which a worker finds it.
    dataset: name or path and options (with paths) that build the data, or None for a folder that exists.
    folder: the dataset folder, once it is known.
    """

    spec: dict
    references: dict[str, str]
    dataset: tuple[str, dict] | None
    folder: str = ""

    @property
    def identity(self) -> str:
        return hashlib.sha256(strict_json.dumps(self.spec).encode()).hexdigest()

    @property
    def label(self) -> str:
        """Readable name of the cell: method, what was varied, seed."""
        varied = [f"{key.partition('.')[2]}={show(value)}" for key, value in self.spec["varied"].items()]
        strength = self.spec["strength"]
        if strength and f"data.{strength['key']}" not in self.spec["varied"]:
            varied.append(f"{strength['key']}={show(strength['value'])}")
        return " ".join([self.spec["method"]["name"], *varied, f"seed={self.spec['seed']}"])

    @property
    def folder_name(self) -> str:
        return f"{self.label.replace(' ', '-').replace('/', '_')}-{self.identity[:8]}"


def show(value) -> str:
    """A setting's value as text without spaces."""
    return "+".join(map(str, value)) if isinstance(value, list) else str(value)


def read_yaml(folder: Path, name: str) -> tuple[dict, str]:
    """A suite or recipe by name (a file in the package) or by path, and its short name.

    Raises:
        UserError: no such file, or no mapping in it.
    """
    kind = folder.name.removesuffix("s")
    known = sorted(path.stem for path in folder.glob("*.yaml"))
    path = Path(name) if name.endswith((".yaml", ".yml")) else folder / f"{name}.yaml"
    if path.suffix != "" and path.parent != folder and not path.is_file():
        raise UserError(f"{name}: no such file; give a {kind}'s name ({', '.join(known)}) or the path of a .yaml file")
    if not path.is_file():
        raise UserError(
            f"unknown {kind} {name!r}: {options.did_you_mean(name, known)}, or give the path of a .yaml file"
        )
    try:
        content = strict_yaml.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # or a text that is not UTF-8
        raise UserError(f"{path}: not valid YAML ({' '.join(str(error).split())})") from None
    if not isinstance(content, dict):
        raise UserError(f"{path}: a {kind} is a file of names and values, got {type(content).__name__}")
    return content, path.stem


@dataclass(frozen=True)
class Origin:
    """Where cells come from: `what` names the place in errors, `suite` is its name and version or None.

    strength: the setting that a competitor's strength is read from, or None.
    varied: settings to show beside the method's name.
    folder: an existing dataset folder in place of data settings, or "".
    """

    what: str
    suite: dict | None = None
    strength: str | None = None
    varied: tuple[str, ...] = ()
    folder: str = ""


def make_cells(
    method: str, recipe: str, layers: list[tuple[str, dict]], seeds: list[int], origin: Origin
) -> tuple[list[Cell], list[str]]:
    """One cell per seed from a method, a recipe and layers of settings (later ones win), and every fault.

    Arguments:
        method: name or path.
        recipe: name or path.
        layers: (what, settings) with dotted or short names.
        seeds: of the method.
        origin: where the settings stand.

    Raises:
        UserError: an unknown recipe, method, loss, encoder or dataset.
    """
    layers, recipe_name = _with_recipe(recipe, method, layers, origin)
    dataset, loss = settings.last(layers, "data.dataset", ""), settings.default_loss(method)
    references = _references(method, layers)
    layers = settings.without_stale(settings.without_stale(layers, "loss", loss), "encoder", ENCODER)
    fixed = bool(origin.folder)
    targets = settings.find_targets(dataset, **references, fixed_data=fixed)
    if not targets.loss:  # the recipe's or suite's loss is not for this method
        layers = [(what, settings.without(layer, "loss") if what != "--set" else layer) for what, layer in layers]
    known = targets.known()
    merged, faults = settings.merge(layers, known)
    sections, more = settings.resolve(merged, targets, fixed_data=fixed)
    if faults or more:
        return [], faults + [f"{origin.what}: {fault}" for fault in more]
    if not targets.method.trains:
        sections["probe"].pop("trace", None)  # without training there is no order: the cell is that without a trace
    own = sections["data"]
    seed, bits = own.pop("seed"), own.pop("bits")
    found = manifest.read(Path(origin.folder)) if fixed else None
    most = _most_bits(found, targets)
    if not 0 <= bits <= most:
        return [], [f"{origin.what}: data.bits {bits} is not in 0..{most}, the constant channels of this dataset"]
    if found:
        data = {**data_facts(found), "bits": bits}
        strength = found["strength"]
    else:
        data = {"dataset": targets.dataset.name, "seed": seed, "bits": bits}
        strength = origin.strength
    spec = {
        "suite": origin.suite,
        "recipe": recipe_name,
        "data": data,
        **_named(sections, references, targets),
        **{section: sections[section] for section in ("augmentation", "train", "probe")},
        "probe_version": probes.VERSION,
    }
    values = {**flat(spec), **{f"data.{name}": value for name, value in own.items()}}
    if strength:
        key = f"data.{strength}" if found else settings.full_name(strength, known, origin.what)
        spec["strength"] = {"key": key.partition(".")[2], "value": values.get(key)}
    else:
        spec["strength"] = None
    names = [settings.full_name(name, known, origin.what) for name in dict.fromkeys(origin.varied)]
    # The strength has a column of its own, and so has a source (whose path is nobody's business); a trace moves nothing.
    hidden = [name for name in names if is_source(name) or name == "probe.trace"]
    hidden += [f"data.{spec['strength']['key']}"] if spec["strength"] else []
    spec["varied"] = {name: values[name] for name in names if name in values and name not in hidden}
    source = None if fixed else (dataset, own)
    return [Cell({**spec, "seed": one}, references, source, origin.folder) for one in seeds], []


def _most_bits(found: dict | None, targets: settings.Targets) -> int:
    if found:
        return found["constant_channels"]["max"] if found["constant_channels"] else 0
    return targets.dataset.constant_channels.max if targets.dataset.constant_channels else 0


def data_facts(found: dict) -> dict:
    """What a spec says of a dataset, from its manifest."""
    facts = {key: found[key] for key in ("dataset", "version", "options", "seed")}
    return {**facts, "digest": found["content_digest"]}


def _references(method: str, layers: list[tuple[str, dict]]) -> dict[str, str]:
    loss = settings.last(layers, "loss.name", settings.default_loss(method))
    return {"method": method, "loss": loss, "encoder": settings.last(layers, "encoder.name", ENCODER)}


def _with_recipe(recipe, method, layers, origin):
    layers = [(place, settings.flatten(layer, place)) for place, layer in layers]
    try:
        content, name = read_yaml(RECIPES, recipe)
    except UserError as error:
        raise UserError("; ".join([str(error), *_unknown_names(method, layers, bool(origin.folder))])) from None
    what = f"recipe {name}"
    by_method = content.pop("methods", {})
    own = by_method.get(Path(method).stem.replace("-", "_"), {})
    return [(what, settings.flatten(part, what)) for part in (content, own)] + layers, name


def _unknown_names(method: str, layers: list[tuple[str, dict]], fixed: bool) -> list[str]:
    # What can be said without a recipe, so that its fault does not hide these.
    try:
        dataset = settings.last(layers, "data.dataset", "")
        settings.find_targets(dataset, **_references(method, layers), fixed_data=fixed)
    except UserError as error:
        return [str(error)]
    return []


def _named(sections: dict, references: dict, targets: settings.Targets) -> dict:
    # A user's own file is part of the spec by its digest: edit it, and the cell is another one.
    found = {}
    for kind, package in (("method", "methods"), ("loss", "losses"), ("encoder", "encoders")):
        if kind == "loss" and not targets.loss:
            found[kind] = None
            continue
        reference = references[kind]
        found[kind] = {"name": Path(reference).stem.replace("_", "-"), "options": sections[kind]}
        if catalog.is_path(reference):
            found[kind]["file"] = catalog.file_digest(f"suppression_bench.{package}", reference)
    return found


def flat(spec: dict) -> dict:
    """Every setting of a spec under its dotted name."""
    found = {f"data.{key}": value for key, value in spec["data"].items() if key not in ("options", "version", "digest")}
    found.update({f"data.{key}": value for key, value in (spec["data"].get("options") or {}).items()})
    for section in settings.NAMED:
        if spec[section]:
            found[f"{section}.name"] = spec[section]["name"]
            found.update({f"{section}.{key}": value for key, value in spec[section]["options"].items()})
    for section in ("augmentation", "train", "probe"):
        found.update({f"{section}.{key}": value for key, value in spec[section].items()})
    return found
