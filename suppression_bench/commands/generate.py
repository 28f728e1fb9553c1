"""Write a dataset as webdataset shards with a manifest: bench generate DATASET|SPEC.yaml --out DIR."""

from generators import build, catalog, registry, spec_file
from generators.dataset import UserError
from suppression_bench.commands._parser import Bar, Parser, add_dataset, dataset_options, read_spec, set_data_root


def run(arguments: list[str]) -> int:
    """Generate, with the dataset's own options as flags; flags win over a spec file."""
    parser = Parser("generate", "Write a dataset into a folder; stopped and started again, it goes on.")
    spec = read_spec(arguments)
    parser.add_argument(
        "--out", type=str, default=None, help="folder to write into (new, empty or an unfinished build)"
    )
    parser.add_argument("--seed", type=int, default=None, help="names the draw (default: 0)")
    parser.add_argument("--workers", type=int, default=1, help="processes; the result is the same with any number")
    parser.add_argument("--shard-size", type=int, default=None, help=f"samples per shard (default: {build.SHARD_SIZE})")
    parser.add_argument("--data-root", type=str, default=None, help="where downloaded sources are kept")
    parser.add_argument("--print-config", action="store_true", help="print the complete spec as YAML and write nothing")
    add_dataset(parser, spec, "name of a dataset, the path of a .py file, or of a .yaml spec")
    flags = parser.read(arguments)
    set_data_root(flags.data_root)
    seed = _first(flags.seed, spec.seed, 0)
    shard_size = _first(flags.shard_size, spec.shard_size, build.SHARD_SIZE)
    if not flags.out and not flags.print_config:
        raise UserError("bench generate: --out is missing; name the folder to write into")
    dataset = catalog.dataset(spec.dataset, dataset_options(flags, spec))
    if flags.print_config:
        print(spec_file.write(dataset, spec.dataset, seed, shard_size), end="")
        return 0
    bar = Bar(sum(dataset.splits.values()), "samples")
    try:
        made = build.build(
            dataset, flags.out, seed=seed, workers=flags.workers, shard_size=shard_size,
            reference=spec.dataset, progress=bar.to, say=bar.say,
        )  # fmt: skip
    finally:
        bar.close()
    splits = ", ".join(f"{split} {entry['count']}" for split, entry in made["splits"].items())
    sources = ", ".join(source["name"] for source in made["sources"].values())
    print(f"{flags.out}: {made['dataset']}{' over ' + sources if sources else ''}; {splits}")
    print(f"content digest {made['content_digest']} ({registry.describe(made['content_digest'])})")
    return 0


def _first(*values):
    return next(value for value in values if value is not None)
