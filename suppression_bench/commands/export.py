"""Write a dataset folder in another format: bench export DIR --to parquet --out FOLDER."""

from generators.dataset import UserError
from generators.export import export_parquet
from generators.options import did_you_mean
from suppression_bench.commands._parser import Bar, Parser

FORMATS = {"parquet": export_parquet}


def run(arguments: list[str]) -> int:
    """Export, and say how to read what was written."""
    parser = Parser("export", "Write a dataset folder in another format, one file per split, for pandas and datasets.")
    parser.add_argument("folder", type=str, help="a folder that `bench generate` wrote")
    parser.add_argument("--to", type=str, default="parquet", help=f"the format: {', '.join(FORMATS)}")
    parser.add_argument("--out", type=str, default=None, help="folder to write into (new, empty or an earlier export)")
    flags = parser.read(arguments)
    if flags.to not in FORMATS:
        raise UserError(f"bench export: unknown format --to {flags.to!r}, {did_you_mean(flags.to, FORMATS)}")
    if flags.out is None:
        raise UserError("bench export: --out is missing; name the folder to write into")
    bar = Bar(0, "samples")
    try:
        files = FORMATS[flags.to](flags.folder, flags.out, bar.to)
    finally:
        bar.close()
    for path in files.values():
        print(path)
    first = str(files.get("pretrain") or next(iter(files.values())))
    print(f"pandas:   pandas.read_parquet({first!r})")
    # One file at a time: a split's name may hold a hyphen, which `datasets` does not allow in a name of its own.
    print(f'datasets: datasets.load_dataset("parquet", data_files={first!r}, split="train")')
    return 0
