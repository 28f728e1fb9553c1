"""Is a dataset folder what its manifest says? Files, samples and digests."""

import hashlib
from collections.abc import Callable
from pathlib import Path

from generators import manifest, shards
from generators.dataset import UserError


def verify(folder: str | Path, progress: Callable[[int, int], None] | None = None) -> dict:
    """Check every shard's size, SHA-256, samples and content digest, and that no foreign shard lies beside them.

    Arguments:
        folder: a dataset folder.
        progress: called with (samples done, samples in all).

    Returns:
        The manifest.

    Raises:
        UserError: all faults at once.
    """
    folder = Path(folder)
    found = manifest.read(folder)
    shape = tuple(found["picture_shape"])
    listed = [entry for split in found["splits"].values() for entry in split["shards"]]
    extra = sorted({path.name for path in folder.glob("*.tar")} - {entry["name"] for entry in listed})
    faults = [f"{folder / name}: not in the manifest; remove the file" for name in extra]
    total, done = sum(entry["count"] for entry in listed), 0
    for name, split in found["splits"].items():
        content, next_index = hashlib.sha256(), 0
        counts = {feature: [0] * fields["classes"] for feature, fields in found["features"].items()}
        for entry in split["shards"]:
            try:
                shards.check_shard(folder, entry)
                digests = []
                for _, record, digest in shards.read_shard(folder / entry["name"], shape, entry["count"]):
                    if record["id"] != next_index + len(digests):
                        raise UserError(f"{folder / entry['name']}: sample {record['id']} stands out of order")
                    digests.append(digest)
                    shards.count_labels(counts, record["labels"], f"{folder / entry['name']}: sample", record["id"])
                if hashlib.sha256(b"".join(digests)).hexdigest() != entry["content_digest"]:
                    raise UserError(f"{folder / entry['name']}: its samples are not those of the manifest")
                content.update(b"".join(digests))
            except UserError as error:
                faults.append(str(error))
            next_index += entry["count"]
            done += entry["count"]
            if progress:
                progress(done, total)
        if not faults and content.hexdigest() != split["content_digest"]:
            faults.append(f"{folder}: the content digest of split {name} does not follow from its samples")
        if not faults and {key: column for key, column in counts.items() if any(column)} != split["class_counts"]:
            faults.append(f"{folder}: the class_counts of split {name} are not those of its samples")
    if faults:
        raise UserError("\n".join(faults))
    return found
