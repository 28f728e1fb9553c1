"""Commands around datasets: generate, preview, describe, verify, export."""

import functools
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Group, Parameter

from generators import catalog, spec_file
from generators.build import SHARD_SIZE, build
from generators.catalog import parameters
from generators.dataset import Dataset, UserError
from generators.describe import card, save, sheet, tiles_of_dataset, tiles_of_folder, write_card
from generators.export import export_parquet
from generators.inspect import REDRAWN_SAMPLES, dataset_of, open_folder, redraw
from generators.inspect import verify as verify_folder
from generators.manifest import Manifest, registered_as
from suppression_bench.commands.parsing import argument_texts, new_app
from suppression_bench.commands.shared import AT_LEAST_ONE, Bar, DataRoot, Sources, refuse

DATASETS = "generators.datasets"
MOST_SAMPLES = 1000  # of each split on a contact sheet


def generate(
    dataset: str,
    /,
    *,
    out: Path | None = None,
    seed: int | None = None,
    workers: Annotated[int, AT_LEAST_ONE] = 1,
    shard_size: int | None = None,
    root: DataRoot = DataRoot(),
    print_config: bool = False,
    **dataset_options,
) -> int:
    """Write a dataset as webdataset shards with a manifest.

    Stopped and started again, it goes on. Options of the dataset win over those of a spec file.

    Arguments:
        dataset: name of a dataset, path of a .py file or of a .yaml spec.
        out: folder to write into (new, empty or an unfinished build).
        seed: names the draw (default: 0).
        workers: processes; the result is the same with any number.
        shard_size: samples per shard (default: 2000).
        print_config: print the complete spec as YAML and write nothing.
    """
    root.use()
    spec = _spec(dataset)
    seed = seed if seed is not None else spec.seed or 0
    shard_size = shard_size if shard_size is not None else spec.shard_size or SHARD_SIZE
    drawn = catalog.dataset(spec.dataset, spec.options | dataset_options)
    if print_config:
        print(spec_file.write(drawn, spec.dataset, seed, shard_size), end="")
        return 0
    if out is None:
        raise UserError("bench generate: --out is missing; name the folder to write into")
    with Bar("samples", sum(drawn.splits.values())) as bar:
        manifest = build(
            drawn,
            out,
            seed=seed,
            workers=workers,
            shard_size=shard_size,
            reference=spec.dataset,
            progress=bar.to,
            say=bar.say,
        )
    splits = ", ".join(f"{name} {split.count}" for name, split in manifest.splits.items())
    sources = ", ".join(source.name for source in manifest.sources.values())
    print(f"{out}: {manifest.dataset}{' over ' + sources if sources else ''}; {splits}")
    print(_digest_line(manifest))
    return 0


def preview(
    dataset: str,
    /,
    *,
    out: Path,
    split: str | None = None,
    samples: Annotated[int, AT_LEAST_ONE] = 16,
    seed: int | None = None,
    root: DataRoot = DataRoot(),
    **dataset_options,
) -> int:
    """Draw a contact sheet of samples with their labels.

    A dataset need not be generated for it.

    Arguments:
        dataset: a generated folder, name of a dataset, path of a .py file or of a .yaml spec.
        out: the .png file to write.
        split: only this split (default: all).
        samples: how many of each split.
        seed: of a dataset that is drawn (default: 0).
    """
    root.use()
    if samples > MOST_SAMPLES:
        raise UserError(f"bench preview: --samples {samples}: a sheet shows at most {MOST_SAMPLES} of each split")
    if Path(dataset).is_dir():
        if seed is not None:
            raise UserError("bench preview: --seed goes with a dataset that is drawn, not with a folder")
        data = open_folder(dataset)
        sections = [(name, tiles_of_folder(data.to(name), samples)) for name in ([split] if split else data.splits)]
        title = f"{dataset}: {data.manifest.dataset} {data.manifest.content_digest[:12]}"
    else:
        spec = _spec(dataset)
        drawn = catalog.dataset(spec.dataset, spec.options | dataset_options)
        seed = seed if seed is not None else spec.seed or 0
        sections = [
            (name, tiles_of_dataset(drawn, name, samples, seed)) for name in ([split] if split else drawn.splits)
        ]
        shown = " ".join(f"{key}={value}" for key, value in drawn.options.items() if value is not None)
        title = f"{drawn.name} {shown} seed={seed}"
    save(sheet(sections, title), out)
    print(f"written: {out}")
    return 0


def describe(folder: Path, /, *, out: Path | None = None) -> int:
    """Print a dataset's card: features, counts, joint counts, sources, digest.

    Arguments:
        folder: what `bench generate` wrote.
        out: an .md file in place of printing; a contact sheet goes beside it as .png.
    """
    if out and out.suffix != ".md":
        raise UserError(f"bench describe: --out {out}: a card is Markdown; name a file that ends in .md")
    data = open_folder(folder)
    if out is None:
        print(card(data), end="")
    else:
        print("written: " + ", ".join(map(str, write_card(data, out))))
    return 0


def verify(
    folder: Path,
    /,
    *,
    deep: bool = False,
    samples: Annotated[int | None, AT_LEAST_ONE] = None,
    dataset: str | None = None,
    sources: Sources = Sources(),
) -> int:
    """Check every file, sample and digest of a folder against its manifest.

    Arguments:
        folder: what `bench generate` wrote.
        deep: draw samples anew from the spec and compare their pixels.
        samples: with --deep: how many of each split (default: 64).
        dataset: with --deep: the .py file of a dataset of your own.
    """
    sources.use()
    if not deep:
        refuse("verify", "goes with --deep", samples=samples, dataset=dataset, **sources.named())
    with Bar("samples") as bar:
        manifest = verify_folder(folder, bar.to)
    count = sum(split.count for split in manifest.splits.values())
    print(f"{folder}: ok; {manifest.dataset}, {count} samples in {len(manifest.shards)} shards")
    if deep:
        redrawn = dataset_of(manifest.dataset, manifest.options, dataset, sources.named())
        print(f"drawn anew and equal: {redraw(folder, manifest, redrawn, samples or REDRAWN_SAMPLES)} samples")
    print(_digest_line(manifest))
    return 0


def export(folder: Path, /, *, out: Path, to: Literal["parquet"] = "parquet") -> int:
    """Write a dataset folder in another format, one file per split.

    Arguments:
        folder: what `bench generate` wrote.
        out: folder to write into (new, empty or an earlier export).
        to: the format; pandas and Hugging Face's datasets read parquet.
    """
    with Bar("samples") as bar:
        files = export_parquet(folder, out, bar.to)
    print("\n".join(map(str, files.values())))
    first = str(files.get("pretrain") or next(iter(files.values())))
    print(f"pandas:   pandas.read_parquet({first!r})")
    # One file at a time: a split's name may hold a hyphen, which `datasets` does not allow in a name of its own.
    print(f'datasets: datasets.load_dataset("parquet", data_files={first!r}, split="train")')
    return 0


def _digest_line(manifest: Manifest) -> str:
    return f"content digest {manifest.content_digest} ({registered_as(manifest.content_digest)})"


def _spec(name: str) -> spec_file.Spec:
    # A dataset by name, by its .py file, or through a .yaml spec; its options are named as in the signature.
    if not spec_file.is_spec(name):
        return spec_file.Spec(name)
    spec = spec_file.read(name)
    spec.options = {option.replace("-", "_"): value for option, value in spec.options.items()}
    return spec


def app_of_dataset(command: Callable, arguments: list[str]) -> App:
    """The app of `generate` or `preview`, with a flag for each option of the dataset that comes first.

    Values stay texts here: `catalog.dataset` converts them and names all wrong ones at once.

    Raises:
        UserError: unknown dataset, a spec with faults, or a flag before the dataset.
    """
    name = command.__name__
    first = arguments[0] if arguments else ""
    if first.startswith("-"):
        if not {"-h", "--help"} & set(arguments):
            raise UserError(f"{first} stands before the dataset; its name comes first, as in `randbit {first} ...`")
        first = ""
    flags: list[inspect.Parameter] = []
    if first and not (name == "preview" and Path(first).is_dir()):
        if name == "preview" and "/" in first and not Path(first).exists():
            raise UserError(f"bench preview: {first}: no such folder or file; name a generated folder or a dataset")
        flags = _option_flags(catalog.load_class(DATASETS, _spec(first).dataset, Dataset), command)

    @functools.wraps(command)
    def extended(*positional, **named):
        return command(*positional, **{key: value for key, value in named.items() if value is not None})

    fixed = [p for p in inspect.signature(command).parameters.values() if p.kind is not p.VAR_KEYWORD]
    extended.__signature__ = inspect.Signature([*fixed, *flags], return_annotation=int)  # pyright: ignore[reportAttributeAccessIssue]
    listed = [f"- {dataset}: {catalog.summary(DATASETS, dataset)}" for dataset in catalog.names(DATASETS)]
    listed = ["Datasets:", *listed, "", f"`bench {name} NAME --help` shows a dataset's options."]
    app = new_app(name, help_epilogue=None if flags else "\n".join(listed))
    app.default(extended)
    return app


def _option_flags(dataset: type[Dataset], command: Callable) -> list[inspect.Parameter]:
    group = Group(f"Options of {dataset.name}")
    texts = argument_texts(dataset)
    taken = {*inspect.signature(command).parameters, "data_root"}
    flags = []
    for name, option in parameters(dataset).items():
        if name in taken:
            raise UserError(
                f"{dataset.name}: the option {name!r} is called like one of `bench {command.__name__}`; rename it"
            )
        default = False if option.default is None else str(option.default)
        kind = list[str] if re.search(r"\b(list|tuple)\b", str(option.annotation)) else str
        described = Parameter(group=group, help=texts.get(name, ""), show_default=default, metavar=name.upper())
        flags.append(
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, described]
            )
        )
    return flags
