"""Speed of generating and decoding against straightforward writers, side by side in one run, as a Markdown table.

    python benchmarks/generate.py [--images DIR] [--repeats 3] [--samples 20000]

Both sides of a line take turns in the same process, so that a noisy machine slows both; the ratio of the medians counts.
DIR is an image folder with train/ and val/; without it JPEGs of 500x375 pixels are made from the embedded leaves.
"""

import argparse
import io
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image, ImageChops

from generators import catalog, manifest, shards, sources
from generators.build import build
from generators.describe import table


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--images", default=None)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--samples", type=int, default=20_000)
    flags = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        os.environ["SUPPRESSION_BENCH_CACHE"] = str(work / "data-root")
        for options in ({"count": 2}, {"sizes": [20, 80]}):
            rows += multidigits(work, options, flags)
        rows.append(two_workers(work, flags))
        rows += memory(work, flags)
        rows += digit_on_imagenet(work, flags)
        rows += decoding(work, flags)
    versions = manifest.environment()
    print(f"\n{platform.machine()}, {os.cpu_count()} cores; " + ", ".join(f"{k} {v}" for k, v in versions.items()))
    print(f"medians of {flags.repeats} runs of each side, taking turns\n")
    print(table(["what", "ours", "the other", "ratio", "target"], rows))


def compare(repeats: int, count: int, ours, other) -> tuple[float, float]:
    """Samples per second of both sides, medians of alternating runs."""
    seconds = {ours: [], other: []}
    for _ in range(repeats):
        for side in (ours, other):
            began = time.perf_counter()
            side()
            seconds[side].append(time.perf_counter() - began)
    return count / statistics.median(seconds[ours]), count / statistics.median(seconds[other])


def line(what: str, ours: float, other: float, target: str, unit: str = "/s") -> list:
    print(f"{what}: {ours:,.0f}{unit} against {other:,.0f}{unit}, ratio {ours / other:.2f}", flush=True)
    return [what, f"{ours:,.0f}{unit}", f"{other:,.0f}{unit}", f"{ours / other:.2f}", target]


def fresh(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    return folder


def multidigits(work: Path, options: dict, flags) -> list[list]:
    """Composing, encoding, hashing and writing against Pillow and webdataset's TarWriter on the same samples."""
    from webdataset.writer import TarWriter

    made = catalog.dataset("multidigits", {**options, "train": flags.samples, "probe_train": 1, "probe_test": 1})
    digits = [Image.fromarray(digit) for digit in sources.digits("optdigits").images["train"]]
    # The other side gets its draws for nothing.
    drawn = [(sample.labels, sample.factors) for sample in made.samples("pretrain", 0, flags.samples, 0)]

    def ours():
        build(made, fresh(work / "ours"))

    def other():
        fresh(work / "other").mkdir()
        writer = TarWriter(str(work / "other" / "00000.tar"))
        for index, (labels, factors) in enumerate(drawn):
            if index and index % 2000 == 0:
                writer.close()
                writer = TarWriter(str(work / "other" / f"{index:05d}.tar"))
            canvas = Image.new("L", (112, 112))
            for source, size, top, left in zip(*(factors[k] for k in ("source", "size", "top", "left")), strict=True):
                patch = digits[source] if size == 28 else digits[source].resize((size, size), Image.Resampling.BILINEAR)
                box = (left, top, left + size, top + size)
                canvas.paste(ImageChops.add(canvas.crop(box), patch), box)
            buffer = io.BytesIO()
            canvas.save(buffer, format="PNG", compress_level=1)
            record = json.dumps({"id": index, "labels": labels, "factors": factors}).encode()
            writer.write({"__key__": f"{index:08d}", "png": buffer.getvalue(), "json": record})
        writer.close()

    shown = "two digits of 28 px" if "count" in options else "digits of 20 and 80 px"
    return [
        line(
            f"MultiDigits 112 px, {shown}, one process: against Pillow + webdataset.TarWriter",
            *compare(flags.repeats, flags.samples, ours, other),
            "2",
        )
    ]


def two_workers(work: Path, flags) -> list:
    """Two processes against one."""
    count = 6 * flags.samples
    made = catalog.dataset("multidigits", {"count": 2, "train": count, "probe_train": 1, "probe_test": 1})
    two, one = compare(
        flags.repeats,
        count,
        lambda: build(made, fresh(work / "two"), workers=2),
        lambda: build(made, fresh(work / "one")),
    )
    return line(f"MultiDigits 112 px, {count:,} samples: two workers against one", two, one, "1.7")


PEAK = """
import resource
from pathlib import Path
from generators import catalog
from generators.build import build
options = {{"count": 2, "train": {count}, "probe_train": 1, "probe_test": 1}}
build(catalog.dataset("multidigits", options), {out!r})
status = Path("/proc/self/status")  # ru_maxrss would count the process that started this one
lines = status.read_text().splitlines() if status.exists() else []
peaks = [int(line.split()[1]) for line in lines if line.startswith("VmHWM")]
print((peaks or [resource.getrusage(resource.RUSAGE_SELF).ru_maxrss])[0] / 1024)
"""


def memory(work: Path, flags) -> list[list]:
    """Peak memory of a build and of one six times as large."""

    def peak(count: int) -> float:
        code = PEAK.format(count=count, out=str(fresh(work / "memory")))
        return float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)

    large, small = peak(6 * flags.samples), peak(flags.samples)
    what = f"peak memory of a build: {6 * flags.samples:,} samples against {flags.samples:,}"
    return [line(what, large, small, "about 1", " MiB")]


def digit_on_imagenet(work: Path, flags) -> list[list]:
    """Everything, from JPEG files to shards, against decode + resize + encode alone."""
    images = Path(flags.images) if flags.images else leaf_jpegs(work / "jpegs")
    began = time.perf_counter()
    count = min(1500, sum(1 for _ in (images / "train").rglob("*.*")))
    options = {"image_source": f"folder:{images}", "unique_digits": 16, "train": count, "probe_train": 1, "test": 1}
    made = catalog.dataset("digit-on-imagenet", options)
    first = time.perf_counter() - began
    source = sources.images(options["image_source"])
    total = source.count("train") + source.count("test")
    files = [sample.factors["picture"] for sample in made.samples("pretrain", 0, count, 0)]
    paths = sorted(p for p in (images / "train").rglob("*.*") if p.is_file())

    def other():
        for index in files:
            with Image.open(paths[index]) as image:
                shards.encode_png(np.asarray(image.convert("RGB").resize((224, 224), Image.Resampling.BILINEAR)))

    what = f"DigitOnImageNet 224 px from {'your' if flags.images else '500x375'} JPEG files: against decode + resize + encode"
    rows = [line(what, *compare(flags.repeats, count, lambda: build(made, fresh(work / "over")), other), ".70")]
    print(f"first pass over {total:,} files: {total / first:,.0f}/s", flush=True)
    return [*rows, [f"its first pass over {total:,} files (once per folder)", f"{total / first:,.0f}/s", "", "", ""]]


def leaf_jpegs(folder: Path, count: int = 1500) -> Path:
    """An image folder of JPEGs in the size that ImageNet's have on average."""
    leaves = sources.images("leaves")
    for part, number in (("train", count), ("val", 10)):
        for index in range(number):
            target = folder / part / f"class{index * 10 // number}" / f"{index:05d}.jpg"
            target.parent.mkdir(parents=True, exist_ok=True)
            small = leaves.image("train", leaves.spread("train", number, index), 128)
            Image.fromarray(small).resize((500, 375), Image.Resampling.BICUBIC).save(target, quality=90)
    return folder


def decoding(work: Path, flags) -> list[list]:
    """Shards to the decoded uint8 cache, and the second opening."""
    from suppression_bench.training.data import Data

    made = catalog.dataset("multidigits", {"count": 2, "train": flags.samples, "probe_train": 1, "probe_test": 1})
    build(made, fresh(work / "shards"))
    root = Path(os.environ["SUPPRESSION_BENCH_CACHE"])

    def ours():
        fresh(root / "decoded")
        Data(work / "shards").samples("pretrain")

    ours()
    again, once = compare(flags.repeats, flags.samples, lambda: Data(work / "shards").samples("pretrain"), ours)
    return [line("shards to decoded cache: the second opening against the first", again, once, "no decoding")]


if __name__ == "__main__":
    main()
