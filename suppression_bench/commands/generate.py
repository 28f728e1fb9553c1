"""Write a dataset as webdataset shards with a manifest: bench generate DATASET --out DIR."""

from generators import build, catalog
from generators.dataset import Dataset, UserError
from suppression_bench.commands._parser import Bar, Parser, set_data_root

PACKAGE = "generators.datasets"


def run(arguments: list[str]) -> int:
    """Generate, with the dataset's own options as flags."""
    name = arguments[0] if arguments and not arguments[0].startswith("-") else None
    about = "Datasets: " + "; ".join(f"{n} - {catalog.summary(PACKAGE, n)}" for n in catalog.names(PACKAGE))
    about += " Or the path of a .py file with one dataset."
    parser = Parser("generate", about)
    parser.add_argument("dataset", type=str, help="name of a dataset, or the path of a .py file")
    parser.add_argument(
        "--out", type=str, default=None, help="folder to write into (new, empty or an unfinished build)"
    )
    parser.add_argument("--seed", type=int, default=0, help="names the draw")
    parser.add_argument("--workers", type=int, default=1, help="processes; the result is the same with any number")
    parser.add_argument("--shard-size", type=int, default=build.SHARD_SIZE, help="samples per shard")
    parser.add_argument("--data-root", type=str, default=None, help="where downloaded sources are kept")
    cls = catalog.load_class(PACKAGE, name, Dataset) if name else None
    if cls:
        parser.add_options(cls)
    flags = parser.read(arguments)
    if flags.out is None:
        raise UserError("bench generate: --out is missing; name the folder to write into")
    set_data_root(flags.data_root)
    known = {key: value for key, value in vars(flags).items() if value is not None}
    own = {
        key: known[key] for key in known if key not in ("dataset", "out", "seed", "workers", "shard_size", "data_root")
    }
    dataset = catalog.dataset(name, own)
    bar = Bar(sum(dataset.splits.values()), "samples")
    try:
        made = build.build(
            dataset, flags.out, seed=flags.seed, workers=flags.workers, shard_size=flags.shard_size,
            reference=name, progress=bar.to,
        )  # fmt: skip
    finally:
        bar.close()
    splits = ", ".join(f"{split} {entry['count']}" for split, entry in made["splits"].items())
    sources = ", ".join(source["name"] for source in made["sources"].values())
    print(f"{flags.out}: {made['dataset']}{' over ' + sources if sources else ''}; {splits}")
    print(f"content digest {made['content_digest']}")
    return 0
