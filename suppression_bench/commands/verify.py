"""Check a dataset folder against its manifest: bench verify DIR."""

from generators.verify import verify
from suppression_bench.commands._parser import Bar, Parser


def run(arguments: list[str]) -> int:
    """Verify files, samples and digests."""
    parser = Parser("verify", "Check every file, sample and digest of a dataset folder against its manifest.")
    parser.add_argument("folder", type=str, help="a folder that `bench generate` wrote")
    flags = parser.read(arguments)
    bar = Bar(0, "samples")
    try:
        found = verify(flags.folder, bar.to)
    finally:
        bar.close()
    shards = sum(len(split["shards"]) for split in found["splits"].values())
    samples = sum(split["count"] for split in found["splits"].values())
    print(f"{flags.folder}: ok; {found['dataset']}, {samples} samples in {shards} shards")
    print(f"content digest {found['content_digest']}")
    return 0
