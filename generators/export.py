"""A dataset folder in another file format: Parquet, as pandas and Hugging Face `datasets` read it."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from generators import manifest as manifests
from generators.dataset import UserError
from generators.files import dumps_json, is_abandoned, loads_json, make_folder, write_atomic
from generators.inspect import Opened, check_shards
from generators.manifest import Manifest
from generators.shards import member_name

METADATA = "suppression_bench"
# A row group is what lies in memory at once, here and in a reader.
GROUP_ROWS, GROUP_BYTES = 1000, 32_000_000
MOST_NAMES = 1000  # a ClassLabel lists a name for each class: a feature of more classes stays an integer
INTEGERS = range(-(2**63), 2**63)


def export_parquet(
    folder: str | Path, out: str | Path, progress: Callable[[int, int], None] | None = None
) -> dict[str, Path]:
    """Write one `<split>.parquet` per split, all with the same columns.

    The columns are `picture` (a struct of the PNG's `bytes` and `path`), `id`, each label under its own name, each factor
    as `factor_<name>`; null where a sample lacks one. `datasets` reads `picture` as an Image and a feature's label as a
    ClassLabel. The schema metadata `suppression_bench` holds the dataset's name and content digest. A file appears
    whole or not at all, so a killed export is simply run again.

    Arguments:
        folder: a dataset folder; its shards are checked first.
        out: the folder to write into: new, empty, or one that holds an export of the same dataset.
        progress: called with (samples done, samples in all).

    Returns:
        split -> file.

    Raises:
        UserError: pyarrow is missing, the dataset is damaged, a value fits no column, or `out` holds other files.
    """
    arrow = _pyarrow()
    folder, out = Path(folder), Path(out)
    manifest = manifests.read(folder)
    _check_out(out, manifest)  # before the hashing, which may take minutes
    check_shards(folder, manifest)
    splits = [Opened(folder, manifest, split) for split in manifest.splits]
    columns = _columns(manifest, splits)
    schema = arrow.schema([(name, _arrow_type(arrow, kind)) for name, kind in columns.items()])
    make_folder(out)
    total, done, files = sum(map(len, splits)), 0, {}
    for data in splits:
        files[data.split] = out / f"{data.split}.parquet"
        with write_atomic(files[data.split]) as file:
            metadata = _metadata(data, columns)
            with arrow.parquet.ParquetWriter(file, schema.with_metadata(metadata)) as writer:
                for rows in _groups(data):
                    writer.write_table(arrow.Table.from_pylist(rows, schema=schema.with_metadata(metadata)))
                    done += len(rows)
                    if progress:
                        progress(done, total)
    return files


def _pyarrow():
    try:
        import pyarrow  # pyright: ignore[reportMissingImports]
        import pyarrow.parquet  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise UserError('Parquet needs pyarrow: run `pip install "suppression-bench[export]"`') from None
    return pyarrow


def _check_out(out: Path, manifest: Manifest) -> None:
    if out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file; the export needs a folder")
    splits = "|".join(map(re.escape, manifest.splits))
    foreign = []
    for path in sorted(out.iterdir()) if out.is_dir() else []:
        if re.fullmatch(rf"({splits})\.parquet\.\d+-\d+\.tmp", path.name):
            if is_abandoned(path):  # by an export that was killed
                path.unlink(missing_ok=True)
        elif not re.fullmatch(rf"({splits})\.parquet", path.name) or _digest(path) != manifest.content_digest:
            foreign.append(path.name)
    if foreign:
        raise UserError(f"{out} holds other files ({', '.join(foreign[:3])}); choose an empty or new folder")


def _digest(path: Path) -> str | None:
    # Of the dataset that a Parquet file was exported from; None for a file that is not ours.
    try:
        metadata = _pyarrow().parquet.read_schema(path).metadata or {}
        return loads_json(metadata.get(METADATA.encode(), b"{}"), str(path)).get("content_digest")
    except (ValueError, OSError, AttributeError, UserError):  # no Parquet, or another program's metadata
        return None


# Columns

Kind = Any  # "image", "integer", "text", ("classes", n) or [kind of the items]; None where nothing was seen yet


def _columns(manifest: Manifest, splits: list[Opened]) -> dict[str, Kind]:
    # All samples of all splits are looked at, so that a value that comes late finds its column and every file has the
    # same ones.
    kinds: dict[tuple[str, str], Kind] = {}
    for data in splits:
        for i in range(len(data)):
            record = data.record(i)
            for part in ("labels", "factors"):
                for name, value in record[part].items():
                    try:
                        kinds[part, name] = _common(kinds.get((part, name)), _kind(value))
                    except ValueError as error:
                        where = f"{data.folder}: sample {i} of {data.split}"
                        raise UserError(f"{where}: {name} fits no column of a table ({error})") from None
    for name, feature in manifest.features.items():
        kind = ("classes", feature.classes) if feature.classes <= MOST_NAMES else "integer"
        kinds["labels", name] = [kind] if feature.many else kind
    columns: dict[str, Kind] = {"picture": "image", "id": "integer"}
    for (part, name), kind in sorted(kinds.items(), key=lambda item: item[0][0] != "labels"):
        column = name if part == "labels" else f"factor_{name}"
        if column in columns:
            raise UserError(f"{splits[0].folder}: two columns would be named {column}; rename the label {column}")
        columns[column] = kind
    return columns


def _kind(value) -> Kind:
    if type(value) is list:
        kind = None
        for item in value:
            kind = _common(kind, _kind(item))
        return [kind]
    if type(value) is int and value in INTEGERS:
        return "integer"
    if type(value) is str:
        return "text"
    raise ValueError(f"{value!r} is no text, no list and no integer of 64 bits")


def _common(first: Kind, second: Kind) -> Kind:
    # The kind that holds both; None (nothing seen yet, an empty list's items) goes with everything.
    if first is None or second is None or first == second:
        return second if first is None else first
    if isinstance(first, list) and isinstance(second, list):
        return [_common(first[0], second[0])]
    names = [kind if isinstance(kind, str) else "list" for kind in (first, second)]
    raise ValueError(f"it is {names[0]} before, {names[1]} here")


def _arrow_type(arrow, kind: Kind):
    if isinstance(kind, list):
        return arrow.list_(_arrow_type(arrow, kind[0]))
    if kind == "image":
        return arrow.struct([("bytes", arrow.binary()), ("path", arrow.string())])
    return arrow.string() if kind == "text" else arrow.int64()


def _feature(kind: Kind) -> dict:
    # As `datasets` writes its features; "Sequence" and not "List", which only its version 4 and later know.
    if isinstance(kind, list):
        return {"_type": "Sequence", "feature": _feature(kind[0])}
    if kind == "image":
        return {"_type": "Image"}
    if isinstance(kind, tuple):
        return {"_type": "ClassLabel", "names": [str(label) for label in range(kind[1])]}
    return {"_type": "Value", "dtype": "string" if kind == "text" else "int64"}


def _metadata(data: Opened, columns: dict[str, Kind]) -> dict[str, str]:
    features = {name: _feature(kind) for name, kind in columns.items()}
    described = data.manifest.builtins()
    origin = {key: described[key] for key in ("dataset", "version", "seed", "content_digest")}
    return {
        "huggingface": dumps_json({"info": {"features": features}}),
        METADATA: dumps_json({**origin, "split": data.split}),
    }


def _groups(data: Opened) -> Iterator[list[dict]]:
    rows, size = [], 0
    for i in range(len(data)):
        record, png = data.record(i), data.png(i)
        factors = {f"factor_{name}": value for name, value in record["factors"].items()}
        image = {"bytes": png, "path": member_name(i, "png")}
        rows.append({"picture": image, "id": record["id"], **record["labels"], **factors})
        size += len(png)
        if len(rows) == GROUP_ROWS or size >= GROUP_BYTES:
            yield rows
            rows, size = [], 0
    if rows:
        yield rows
