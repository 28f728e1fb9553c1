"""Check a dataset folder against its manifest: bench verify DIR [--deep]."""

from generators import deep, registry
from generators.verify import verify
from suppression_bench.commands._parser import Bar, Parser, set_data_root


def run(arguments: list[str]) -> int:
    """Verify files, samples and digests; with --deep also that the spec draws these very samples."""
    parser = Parser("verify", "Check every file, sample and digest of a dataset folder against its manifest.")
    parser.add_argument("folder", type=str, help="a folder that `bench generate` wrote")
    parser.add_argument("--deep", action="store_true", help="draw samples anew from the spec and compare their pixels")
    parser.add_argument(
        "--samples", type=int, default=None, help=f"with --deep: how many of each split (default: {deep.SAMPLES})"
    )
    parser.add_argument("--dataset", type=str, default=None, help="with --deep: the .py file of a dataset of your own")
    parser.add_argument("--image-source", type=str, default=None, help="with --deep: where the pictures lie here")
    parser.add_argument("--digit-source", type=str, default=None, help="with --deep: where the digits lie here")
    parser.add_argument("--data-root", type=str, default=None, help="where downloaded sources are kept")
    flags = parser.read(arguments)
    set_data_root(flags.data_root)
    sources = {name: getattr(flags, name) for name in ("image_source", "digit_source") if getattr(flags, name)}
    if not flags.deep:
        parser.refuse(flags, ("samples", "dataset", "image_source", "digit_source"), "goes with --deep")
    flags.samples = deep.SAMPLES if flags.samples is None else flags.samples
    parser.require_positive(flags, "samples")
    bar = Bar(0, "samples")
    try:
        found = verify(flags.folder, bar.to)
    finally:
        bar.close()
    shards = sum(len(split["shards"]) for split in found["splits"].values())
    samples = sum(split["count"] for split in found["splits"].values())
    print(f"{flags.folder}: ok; {found['dataset']}, {samples} samples in {shards} shards")
    if flags.deep:
        dataset = deep.dataset_of(found, flags.dataset, sources)
        compared = deep.redraw(flags.folder, found, dataset, flags.samples)
        print(f"drawn anew and equal: {compared} samples")
    print(f"content digest {found['content_digest']} ({registry.describe(found['content_digest'])})")
    return 0
