"""Write the package's registry of content digests: every dataset listed here is built and its digest noted.

    python benchmarks/register.py [--mnist DIR]

Without DIR the entries that need MNIST are kept as they are. A digest that changes means that a dataset changed: raise
its version instead, unless it never was right.
"""

import argparse
import json
import tempfile

from generators import catalog
from generators.build import build
from generators.files import dumps_json
from generators.manifest import REGISTRY, Registered, registered

SMALL = {"train": 200, "test": 100}
PROBES = {"train": 200, "probe_train": 100, "probe_test": 50}
SPECS = [
    ("RandBit, embedded digits (the suite `quick`)", "randbit", {}, 0),
    ("RandBit, embedded digits, small", "randbit", SMALL, 1),
    ("RandBit, embedded digits at 40 px", "randbit", {**SMALL, "image_size": 40}, 0),
    ("RandBit, leaves at 64 px, small", "randbit", {**SMALL, "image_source": "leaves"}, 0),
    ("RandBit, leaves at 32 px, small", "randbit", {**SMALL, "image_source": "leaves", "image_size": 32}, 0),
    ("MultiDigits, 2 digits anywhere, small", "multidigits", {**PROBES, "count": 2}, 0),
    ("MultiDigits, 16 digits in cells, small", "multidigits", {**PROBES, "count": 16, "placement": "grid"}, 0),
    ("MultiDigits, sizes 20 and 80, small", "multidigits", {**PROBES, "sizes": [20, 80]}, 0),
    ("MultiDigits, sizes 10 and 25 on 56 px, small", "multidigits", {**PROBES, "sizes": [10, 25], "canvas": 56}, 3),
    ("MultiDigits, 8 different classes, small", "multidigits", {**PROBES, "count": 8, "distinct": "classes"}, 0),
    ("MultiDigits, 4 different digits, small", "multidigits", {**PROBES, "count": 4, "distinct": "instances"}, 0),
    (
        "DigitOnImageNet, leaves at 64 px, 16 digits, small",
        "digit-on-imagenet",
        {**SMALL, "unique_digits": 16, "image_size": 64},
        0,
    ),
    (
        "DigitOnImageNet, leaves at 224 px, 1 digit, small",
        "digit-on-imagenet",
        {"train": 20, "test": 10, "unique_digits": 1},
        0,
    ),
    (
        "DigitOnImageNet, leaves, digits added and redrawn, small",
        "digit-on-imagenet",
        {"train": 50, "test": 20, "image_size": 64, "blend": "add", "digits": "redraw", "rounds": 2},
        0,
    ),
    (
        "DigitOnImageNet, leaves, probed on pretrain, small",
        "digit-on-imagenet",
        {"train": 50, "test": 20, "image_size": 64, "unique_digits": 16, "probe_on": "pretrain"},
        0,
    ),
    ("RandBit-MNIST (the suite `randbit-mnist`)", "randbit", {"digit_source": "mnist"}, 0),
    *[
        (
            f"MultiDigits-MNIST, sizes 20 and {size} (Table 4)",
            "multidigits",
            {"digit_source": "mnist", "sizes": [20, size]},
            0,
        )
        for size in (20, 30, 40, 50, 60, 70, 80)
    ],
    *[
        (
            f"MultiDigits-MNIST, {count} digits, {placement} (Table 3)",
            "multidigits",
            {"digit_source": "mnist", "count": count, "placement": placement},
            0,
        )
        for placement in ("random", "grid")
        for count in (1, 2, 4, 8, 12, 16)
    ],
]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--mnist", default=None)
    flags = parser.parse_args()
    before = {entry.title: entry for entry in registered()}
    entries = []
    for title, name, options, seed in SPECS:
        if options.get("digit_source") == "mnist":
            if not flags.mnist:
                entries += [before[title]] if title in before else []
                continue
            options = {**options, "digit_source": f"mnist:{flags.mnist}"}
        with tempfile.TemporaryDirectory() as folder:
            manifest = build(catalog.dataset(name, options), folder, seed=seed)
        fields = {key: getattr(manifest, key) for key in Registered.__struct_fields__ if key != "title"}
        entry = Registered(title=title, **fields)
        changed = before.get(title, entry).content_digest != entry.content_digest
        print(f"{title}: {entry.content_digest[:16]}" + (" CHANGED" if changed else ""))
        entries.append(entry)
    lines = ",\n".join(json.dumps(json.loads(dumps_json(entry))) for entry in entries)
    REGISTRY.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
