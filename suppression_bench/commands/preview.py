"""Draw a contact sheet of samples with their labels: bench preview DIR|DATASET|SPEC.yaml --out sheet.png."""

from pathlib import Path

from generators import catalog, opened, preview
from generators.dataset import UserError
from suppression_bench.commands._parser import Parser, add_dataset, dataset_options, read_spec, set_data_root

MOST = 1000


def run(arguments: list[str]) -> int:
    """Preview a folder, or a dataset that has not been generated."""
    spec = read_spec(arguments)
    named = arguments[0] if arguments else ""
    folder = Path(named) if spec.dataset == named and named and Path(named).is_dir() else None  # never a spec's dataset
    if not folder and "/" in named and not Path(named).exists():
        raise UserError(f"bench preview: {named}: no such folder or file; name a generated folder or a dataset")
    parser = Parser("preview", "Draw a contact sheet of samples with their labels; a dataset need not be generated.")
    parser.add_argument("--out", type=str, default=None, help="the .png file to write")
    parser.add_argument("--split", type=str, default=None, help="only this split (default: all)")
    parser.add_argument("--samples", type=int, default=16, help="how many of each split")
    parser.add_argument("--seed", type=int, default=None, help="of a dataset that is drawn (default: 0)")
    parser.add_argument("--data-root", type=str, default=None, help="where downloaded sources are kept")
    if folder:
        parser.add_argument("dataset", type=str, help="a generated folder")
    else:
        add_dataset(parser, spec, "a generated folder, a dataset's name, the path of a .py file or of a .yaml spec")
    flags = parser.read(arguments)
    parser.require_positive(flags, "samples")
    if flags.samples > MOST:
        raise UserError(f"bench preview: --samples {flags.samples}: a sheet shows at most {MOST} of each split")
    if not flags.out:
        raise UserError("bench preview: --out is missing; name the .png file to write")
    set_data_root(flags.data_root)
    if folder:
        parser.refuse(flags, ("seed",), "goes with a dataset that is drawn, not with a folder")
        found = opened.open_folder(folder)
        names = [flags.split] if flags.split else found.splits
        sections = [(name, preview.tiles_of_folder(found.to(name), flags.samples)) for name in names]
        title = f"{folder}: {found.manifest['dataset']} {found.manifest['content_digest'][:12]}"
    else:
        dataset = catalog.dataset(spec.dataset, dataset_options(flags, spec))
        seed = flags.seed if flags.seed is not None else spec.seed or 0
        names = [flags.split] if flags.split else list(dataset.splits)
        sections = [(name, preview.tiles_of_dataset(dataset, name, flags.samples, seed)) for name in names]
        shown = " ".join(f"{key}={value}" for key, value in dataset.options.items() if value is not None)
        title = f"{dataset.name} {shown} seed={seed}"
    preview.save(preview.sheet(sections, title), flags.out)
    print(f"written: {flags.out}")
    return 0
