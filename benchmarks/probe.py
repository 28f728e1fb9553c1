"""Time and accuracy of the linear probe against scikit-learn's and a 90-epoch SGD probe, on the same features.

    python benchmarks/probe.py [--mnist DIR] [--threads 2] [--samples N]

Two features are probed on 512 random ReLU features of digits (an untrained two-layer network), as many as a cell of
MultiDigits has: the digit, and its pair (0 and 1, 2 and 3 ...), both as ten
classes of which the pair leaves five empty. With --mnist DIR (the
folder of the four .gz files) 60,000 train and 10,000 test images, otherwise 1,347 and 450 embedded ones. scikit-learn
solves one feature at the strength that our probe chose: its time is that of one of the twelve fits behind a grid of five
and two features, and is not scaled.
"""

import argparse
import gzip
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from suppression_bench.cell import Probing
from suppression_bench.evaluation.probes import Task, fit_lbfgs, fit_sgd, standardisation

WIDTH = 512
Answer = TypeVar("Answer")


def digits(folder: str | None) -> tuple[np.ndarray, np.ndarray, int]:
    """Images (N, pixels) from 0 to 1, labels (N,), and how many of them are the train split."""
    if folder is None:
        pixels, classes = load_digits(return_X_y=True)
        return np.asarray(pixels) / 16, np.asarray(classes, np.int64), 1347
    images, labels = [], []
    for name in ("train", "t10k"):
        read = gzip.decompress((Path(folder) / f"{name}-images-idx3-ubyte.gz").read_bytes())
        images.append(np.frombuffer(read, np.uint8, offset=16).reshape(-1, 784) / 255)
        read = gzip.decompress((Path(folder) / f"{name}-labels-idx1-ubyte.gz").read_bytes())
        labels.append(np.frombuffer(read, np.uint8, offset=8).astype(np.int64))
    return np.concatenate(images), np.concatenate(labels), 60_000


def hidden(images: np.ndarray) -> torch.Tensor:
    """(N, 512) float32 outputs of a fixed random network."""
    generator, values = torch.Generator().manual_seed(0), torch.from_numpy(images).float()
    for width in (2 * WIDTH, WIDTH):
        values = torch.relu(values @ torch.randn(values.shape[1], width, generator=generator) / values.shape[1] ** 0.5)
    return values


def clocked(work: Callable[[], Answer]) -> tuple[float, float, Answer]:
    """Wall and processor seconds of a call, and its answer."""
    wall, processor = time.perf_counter(), time.process_time()
    answer = work()
    return time.perf_counter() - wall, time.process_time() - processor, answer


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--mnist", default=None)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--samples", type=int, default=None, help="train samples (default: all)")
    flags = parser.parse_args()
    torch.set_num_threads(flags.threads)
    images, labels, count = digits(flags.mnist)
    features, used = hidden(images), min(flags.samples or count, count)
    train, test, truth = features[:used], features[count:], labels[count:]
    tasks = [Task("digit", 10, labels[:used]), Task("pair", 10, labels[:used] // 2)]
    truths = [truth, truth // 2]
    print(f"{used} train and {len(test)} test samples, {WIDTH} features, {flags.threads} threads\n")
    print("| probe | fits | wall s | processor s | processor, ratio | accuracy | L2 | converged | peak memory so far |")
    print("|---|---|---|---|---|---|---|---|---|")
    ours = None

    def row(name, fits, wall, processor, accuracies, strengths, converged):
        ratio = processor / ours[1] if ours else 1.0
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        shares = " / ".join(f"{value:.4f}" for value in accuracies)
        cells = [name, fits, f"{wall:.1f}", f"{processor:.1f}", f"{ratio:.2f}", shares, strengths, converged]
        print(f"| {' | '.join(map(str, cells))} | {peak:.2f} GB |", flush=True)

    def judged(probes):
        pairs = zip(probes, truths, strict=False)
        return [(probe.predict(test).numpy() == classes).mean() for probe, classes in pairs]

    wall, processor, probes = clocked(lambda: fit_lbfgs(train, tasks, list(Probing().l2)))
    strengths = " / ".join(f"{probe.l2:g}" for probe in probes)
    row("ours, grid of 5", 12, wall, processor, judged(probes), strengths, all(p.converged for p in probes))
    ours = (wall, processor)
    wall, processor, sgd = clocked(lambda: fit_sgd(train, tasks, epochs=90))
    row("SGD, 90 epochs, raw features", 2, wall, processor, judged(sgd), "-", "-")
    mean, deviation = standardisation(train)
    standard, l2 = ((train - mean) / deviation).numpy(), probes[0].l2 or 0.0
    with threadpool_limits(flags.threads):
        model = LogisticRegression(C=1 / (l2 * used), tol=1e-4, max_iter=1000)
        wall, processor, model = clocked(lambda: model.fit(standard, labels[:used]))
    accuracy = model.score(((test - mean) / deviation).numpy(), truth)
    row(
        "scikit-learn, `digit` alone, our L2", 1, wall, processor, [accuracy], f"{l2:g}", int(max(model.n_iter_)) < 1000
    )


if __name__ == "__main__":
    main()
