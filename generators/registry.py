"""The datasets whose content digests this package vouches for: "official" is decided here, never by a manifest."""

from functools import lru_cache
from pathlib import Path

from generators import strict_json
from generators.dataset import is_source

FILE = Path(__file__).with_name("registry.json")
KEYS = {"title": str, "dataset": str, "version": int, "options": dict, "seed": int, "content_digest": str}
EMBEDDED = ("optdigits", "leaves")  # sources that need no file


@lru_cache(maxsize=1)
def entries() -> list[dict]:
    """Every registered dataset: title, dataset, version, options (as in a manifest), seed, content_digest.

    >>> len(entries()) >= 12
    True
    """
    found = strict_json.loads(FILE.read_bytes(), str(FILE), floats=True)
    faults = [fault for entry in found for fault in strict_json.faults(entry, KEYS, f"{FILE}: {entry.get('title')}")]
    if faults:
        raise ValueError("; ".join(faults))
    return found


def is_embedded(entry: dict) -> bool:
    """Whether an entry can be rebuilt without any file."""
    return all(value in (None, *EMBEDDED) for name, value in entry["options"].items() if is_source(name))


def describe(digest: str) -> str:
    """Whether a content digest is a registered one, in words.

    >>> describe("0" * 64)
    'not a registered dataset'
    """
    titles = [entry["title"] for entry in entries() if entry["content_digest"] == digest]
    return f"registered: {titles[0]}" if titles else "not a registered dataset"
