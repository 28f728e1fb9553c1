"""Times whole suites: cold (nothing generated or decoded) and warm (a second run into a new folder).

    python benchmarks/suite.py [--mnist DIR] [--steps 50] [--only method=simclr ...] [--device cpu]

`quick` runs as it stands; with DIR, `randbit-mnist` too, cut to a few steps a cell so that what is around training shows.
Every run is a process of its own. Bytes are those that the run added to the data root, cells those that it recorded.
"""

import argparse
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from generators.describe import table

HEAD = [
    "suite",
    "run",
    "seconds",
    "cells",
    "seconds per cell",
    "MB generated",
    "MB decoded",
    "MB of the largest process",
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--mnist", default=None, help="the folder that holds MNIST/raw/")
    parser.add_argument("--steps", type=int, default=50, help="of each cell of randbit-mnist")
    parser.add_argument("--only", nargs="+", default=[], help="as of `bench run`, for both suites")
    parser.add_argument("--device", default="auto")
    flags = parser.parse_args()
    only = ["--only", *flags.only] if flags.only else []
    suites = {"quick": [*only]}
    if flags.mnist:
        short = [f"train.steps={flags.steps}", "train.epochs=null", "probe.kinds=[lbfgs]"]
        suites["randbit-mnist"] = ["--digit-source", f"mnist:{Path(flags.mnist).absolute()}", "--set", *short, *only]
    rows = []
    for name, arguments in suites.items():
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for turn in ("cold", "warm"):
                rows.append([name, turn, *one_run(name, arguments, root, turn, flags.device)])
                print(table(HEAD, rows[-1:]), flush=True)
    load = f"load average {os.getloadavg()[0]:.1f} at the end"
    print(
        f"\n{platform.machine()}, {os.cpu_count()} cores, {load}; a cell is recorded once, its time holds all workers\n"
    )
    print(table(HEAD, rows))


def one_run(suite: str, arguments: list[str], root: Path, turn: str, device: str) -> list:
    """Run a suite in a process of its own: seconds, cells, seconds per cell, megabytes generated and decoded."""
    before, out = {name: file_stats(root / name) for name in ("datasets", "decoded")}, root / turn
    command = [sys.executable, "-m", "suppression_bench.cli", "run", suite, "--out", str(out), "--device", device]
    start = time.perf_counter()
    process = subprocess.run(
        [*command, *arguments], env={**os.environ, "SUPPRESSION_BENCH_CACHE": str(root)}, capture_output=True, text=True
    )
    seconds = time.perf_counter() - start
    if process.returncode:
        sys.exit(f"{suite}, {turn}: exit code {process.returncode}\n{process.stderr}")
    cells = len(list(out.rglob("result.json")))
    written = [new_bytes(before[name], file_stats(root / name)) / 1e6 for name in ("datasets", "decoded")]
    largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1000
    return [f"{seconds:.1f}", cells, f"{seconds / cells:.1f}", *(f"{value:.1f}" for value in written), f"{largest:.0f}"]


def file_stats(folder: Path) -> dict[Path, tuple[int, int]]:
    """Each file's size and time of change, in nanoseconds."""
    stats = {path: path.stat() for path in folder.rglob("*") if path.is_file()}
    return {path: (stat.st_size, stat.st_mtime_ns) for path, stat in stats.items()}


def new_bytes(before: dict, after: dict) -> int:
    """Bytes of the files that are new or were written anew."""
    return sum(size for path, (size, when) in after.items() if before.get(path) != (size, when))


if __name__ == "__main__":
    main()
