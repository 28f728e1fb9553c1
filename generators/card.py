"""Dataset cards: what is in a generated folder, in Markdown - features, counts, joint counts, sources, digest."""

from itertools import combinations
from pathlib import Path

import numpy as np

from generators import registry
from generators.dataset import UserError
from generators.opened import Opened

LARGEST, LONGEST = 12, 100  # classes across and down a joint table; larger ones are summed up in a line


def card(opened: Opened, picture: str | None = None) -> str:
    """The card of a dataset folder.

    Arguments:
        opened: any split of it.
        picture: file name of its contact sheet, to be shown.
    """
    manifest = opened.manifest
    parts = [_head(manifest), _sources(manifest)]
    if picture:
        parts.insert(1, f"![samples]({picture})")
    parts += [_features(manifest), _counts(manifest)]
    for split in opened.splits:
        joint = _joint(manifest, split, opened.to(split).labels())
        if joint:
            parts.append(joint)
    return "\n\n".join(parts) + "\n"


def table(head: list[str], rows: list[list]) -> str:
    """A Markdown table.

    >>> print(table(["a", "b"], [[1, 2]]))
    | a | b |
    |---|---|
    | 1 | 2 |
    """
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(
        "|" + "|".join(cells) + "|" if cells is lines[1] else "| " + " | ".join(map(str, cells)) + " |"
        for cells in lines
    )


def _head(manifest: dict) -> str:
    height, width, channels = manifest["picture_shape"]
    picture = f"{height} x {width} pixels, {'grey' if channels == 1 else 'RGB'}, 8 bit"
    if manifest["constant_channels"]:
        constant = manifest["constant_channels"]
        picture += f", plus up to {constant['max']} constant channels (the bits of `{constant['label']}`)"
    options = {name: value for name, value in manifest["options"].items() if value is not None}
    splits = ", ".join(f"{name} {split['count']}" for name, split in manifest["splits"].items())
    rows = [
        ["version, seed", f"{manifest['version']}, {manifest['seed']}"],
        ["options", ", ".join(f"`{name}={_show(value)}`" for name, value in options.items()) or "none"],
        ["picture", picture],
        ["samples", splits],
        ["competitor's strength", f"`{manifest['strength']}`" if manifest["strength"] else "none"],
        ["default recipe", f"`{manifest['recipe']}`"],
        ["content digest", f"`{manifest['content_digest']}`"],
        ["registry", registry.describe(manifest["content_digest"])],
    ]
    return f"# {manifest['dataset']}\n\n{table(['what', 'value'], rows)}"


def _sources(manifest: dict) -> str:
    if not manifest["sources"]:
        return "## Sources\n\nNone: every picture is drawn."
    rows = [[role, s["name"], s["licence"], f"`{s['digest'][:16]}...`"] for role, s in manifest["sources"].items()]
    return "## Sources\n\n" + table(["what", "name", "licence", "SHA-256"], rows)


def _features(manifest: dict) -> str:
    rows = []
    code = manifest["constant_channels"] and manifest["constant_channels"]["label"]
    for name, feature in {**manifest["features"], **({code: None} if code else {})}.items():
        probe = manifest["probes"].get(name)
        kind = "bits, 2 classes each" if feature is None else f"{feature['classes']} classes"
        kind += ", several at once" if feature and feature["many"] else ""
        chance = "" if feature and feature["many"] else f"{1 / (feature['classes'] if feature else 2):.3g}"
        target = "yes" if name in manifest["targets"] else "no"
        rows.append([name, kind, chance, " -> ".join(probe) if probe else "none", target])
    head = ["feature", "classes", "chance", "probe (fitted on -> judged on)", "shown to supervised methods"]
    return "## Features\n\n" + table(head, rows)


def _counts(manifest: dict) -> str:
    rows = []
    for split, described in manifest["splits"].items():
        for feature, column in described["class_counts"].items():
            rows.append([split, feature, f"{min(column)} to {max(column)}", column.count(0), _listed(column)])
    head = ["split", "feature", "samples per class", "absent classes", "counts"]
    return "## Counts\n\n" + table(head, rows) if rows else "## Counts\n\nNo label is counted."


def _listed(column: list[int]) -> str:
    return " ".join(map(str, column)) if len(column) <= 2 * LARGEST else f"{len(column)} classes"


def _show(value) -> str:
    return "+".join(map(str, value)) if isinstance(value, list) else str(value)


def _joint(manifest: dict, split: str, labels: dict[str, list]) -> str:
    features = manifest["features"]
    single = [name for name, f in features.items() if not f["many"] and name in labels and None not in labels[name]]
    parts, names = [], class_names(manifest)
    for one, other in combinations(single, 2):
        shape = features[one]["classes"], features[other]["classes"]
        parts.append(_crossed(one, other, joint_counts(labels[one], labels[other], shape), names))
    for name, feature in features.items():
        lists = [value for value in labels.get(name, []) if value is not None] if feature["many"] else []
        if any(len(value) > 1 for value in lists):
            parts.append(_together(name, lists, feature["classes"]))
    constant = manifest["constant_channels"]
    if constant and constant["label"] in labels:
        parts.append(_bits(labels[constant["label"]], constant["max"], {name: labels[name] for name in single}))
    return f"## Joint counts: {split}\n\n" + "\n\n".join(parts) if parts else ""


def joint_counts(one: list[int], other: list[int], shape: tuple[int, int]) -> np.ndarray:
    """How often each pair of classes occurs: `shape` integers.

    >>> joint_counts([0, 0, 1], [1, 1, 0], (2, 2)).tolist()
    [[0, 2], [1, 0]]
    """
    counts = np.zeros(shape, dtype=np.int64)
    np.add.at(counts, (np.asarray(one), np.asarray(other)), 1)
    return counts


def association(counts: np.ndarray) -> float:
    """Cramer's V of a table of joint counts: 0 for independent features, 1 where one decides the other.

    Not a number where a feature has one class only: then nothing can go together.

    >>> association(np.array([[5, 0], [0, 5]])), association(np.array([[4, 4], [2, 2]]))
    (1.0, 0.0)
    """
    counts = counts[counts.sum(1) > 0][:, counts.sum(0) > 0].astype(float)
    if min(counts.shape) < 2:
        return float("nan")
    expected = np.outer(counts.sum(1), counts.sum(0)) / counts.sum()
    return float(np.sqrt(((counts - expected) ** 2 / expected).sum() / counts.sum() / (min(counts.shape) - 1)))


def _crossed(one: str, other: str, counts: np.ndarray, names: dict[str, list[str]]) -> str:
    line = (
        f"{one} x {other}: {counts.min()} to {counts.max()} samples per pair of classes, {int((counts == 0).sum())} pairs "
        f"do not occur; {_strength(counts)}."
    )
    if min(counts.shape) > LARGEST or max(counts.shape) > LONGEST:
        return line
    if counts.shape[1] > LARGEST:  # the longer side goes down
        one, other, counts = other, one, counts.T
    titles = [f"{position} {name}" for position, name in enumerate(names[one])] if one in names else range(len(counts))
    rows = [[title, *row] for title, row in zip(titles, counts.tolist(), strict=True)]
    return f"{line}\n\n" + table([f"{one} \\ {other}", *map(str, range(counts.shape[1]))], rows)


def _strength(counts: np.ndarray) -> str:
    value = association(counts)
    if np.isnan(value):
        return "Cramer's V is not defined, since one of them has one class only"
    rows, columns = (counts.sum(1) > 0).sum(), (counts.sum(0) > 0).sum()
    alone = np.sqrt((rows - 1) * (columns - 1) / (counts.sum() * (min(rows, columns) - 1)))
    return f"Cramer's V {value:.3f} (1: one decides the other; independent draws of so many samples give about {alone:.3f})"


def class_names(manifest: dict) -> dict[str, list[str]]:
    """Feature -> its classes' names, where a source has them."""
    sources = manifest["sources"].items()
    return {role.removesuffix("s"): source["classes"] for role, source in sources if "classes" in source}


def _together(name: str, values: list[list[int]], classes: int) -> str:
    counts = np.zeros((classes, classes), dtype=np.int64)
    for present in values:
        own = sorted(set(present))
        counts[np.ix_(own, own)] += 1
    sizes = [len(set(present)) for present in values]
    rows = [[position, *row] for position, row in enumerate(counts.tolist())]
    line = (
        f"{name}: samples on which both classes occur (diagonal: the class); {min(sizes)} to {max(sizes)} classes each."
    )
    return f"{line}\n\n" + table([name, *map(str, range(classes))], rows)


def _bits(codes: list[int], bits: int, others: dict[str, list[int]]) -> str:
    values = np.asarray(codes, dtype=np.int64)
    planes = (values[:, None] >> np.arange(bits)) & 1
    shares = planes.mean(0)
    lines = [
        f"bits: each is 1 on {shares.min():.3f} to {shares.max():.3f} of the samples; "
        f"{len(np.unique(values))} different codes of {bits} bits among {len(values)} samples."
    ]
    for name, labels in others.items():
        found = [association(joint_counts(labels, plane, (max(labels) + 1, 2))) for plane in planes.T]
        defined = [value for value in found if not np.isnan(value)]  # not where a bit or the feature never changes
        if defined:
            lines.append(f"{name} x bit: Cramer's V at most {max(defined):.3f} over {len(defined)} bits that change.")
    return "\n\n".join(lines)


def write(opened: Opened, out: str | Path) -> list[Path]:
    """Write the card `out` (Markdown) and its contact sheet beside it, and return both paths.

    Raises:
        UserError: `out` cannot be written (exit code 4).
    """
    from generators import preview

    out = Path(out)
    sections = [(name, preview.tiles_of_folder(opened.to(name), 16)) for name in opened.splits]
    preview.save(preview.sheet(sections, opened.manifest["dataset"]), out.with_suffix(".png"))
    try:
        out.write_text(card(opened, out.with_suffix(".png").name), encoding="utf-8")
    except OSError as error:
        raise UserError(f"{out}: cannot be written ({error.strerror}); name another place", 4) from None
    return [out, out.with_suffix(".png")]
