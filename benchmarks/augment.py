"""Speed of two augmented views of a batch against torchvision's one image at a time, side by side, as a Markdown table.

    python benchmarks/augment.py [--device auto] [--batch 256] [--repeats 5] [--threads 1 2]

The other side is what a worker of a DataLoader does with torchvision.transforms.v2: each image by itself, a Python loop,
so that each has its own parameters. Where kornia is installed its batched augmentation (on the same device) is a third
side. All sides take turns in the same process, so that a noisy machine slows all; the ratio of the medians counts.
Peak memory is that of a process of its own for each side (on a GPU: the most that torch had allocated).
"""

import argparse
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch
import torchvision
from torchvision.transforms import v2

from generators.describe import table
from generators.randomness import stream_key
from suppression_bench.cell import Augmentation
from suppression_bench.speed import timed
from suppression_bench.training.augment import SIGMAS
from suppression_bench.training.data import Samples
from suppression_bench.training.loop import Epoch
from suppression_bench.training.transforms import kernel_size

# name -> (side, channels, options): SimCLR's full set on natural images, and the crop of RandBit alone.
CASES = {
    "SimCLR, 112 px RGB": (112, 3, dict(flip=0.5, jitter=0.8, grey=0.2, blur=0.5)),
    "crop alone, 112 px RGB": (112, 3, {}),
    "crop alone, 28 px grey": (28, 1, dict(area=[0.5, 1.0])),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--peak", nargs=2, metavar=("CASE", "SIDE"), help=argparse.SUPPRESS)
    flags = parser.parse_args()
    device = "cuda" if flags.device == "auto" and torch.cuda.is_available() else flags.device.replace("auto", "cpu")
    if flags.peak:
        case, side = flags.peak
        print(json.dumps(peak_memory(case, side, flags.batch, device)))
        return
    rows = []
    for case in CASES:
        memory = {side: memory_of(case, side, flags.batch, device) for side in sides_of(case, 2, device)}
        for threads in flags.threads:
            torch.set_num_threads(threads)
            speeds = compare(sides_of(case, flags.batch, device), flags.batch, flags.repeats, device)
            for side, speed in speeds.items():
                print(f"{case}, {threads} threads, {side}: {speed:,.0f} samples/s", flush=True)
                ratio = "" if side == "ours" else f"{speeds['ours'] / speed:.1f}"
                rows.append([case, threads, side, f"{speed:,.0f}", ratio, f"{memory[side] / 2**20:,.0f}"])
    machine = torch.cuda.get_device_name() if device == "cuda" else f"{platform.machine()}, {os.cpu_count()} cores"
    print(f"\n{machine}; torch {torch.__version__}, torchvision {torchvision.__version__}; batch {flags.batch}")
    print(
        f"medians of {flags.repeats} runs of each side, taking turns; memory beyond what was there before the batch\n"
    )
    print(table(["what", "threads", "side", "two-view samples/s", "ours is faster by", "peak MiB"], rows))


def sides_of(case: str, batch: int, device: str) -> dict[str, Callable[[], list[torch.Tensor]]]:
    """Side -> a function that makes both views of one batch and returns them."""
    side, channels, options = CASES[case]
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (batch, channels, side, side), generator=generator, dtype=torch.uint8)
    samples = Samples(images.to(device), torch.zeros(batch, 0, dtype=torch.uint8, device=device))
    augmentation = Augmentation(**options)
    epoch = Epoch(0, samples, 2, True, augmentation, stream_key("benchmark", 1, "pretrain", 0))
    transform = v2.Compose([*per_image(side, augmentation), v2.ToDtype(torch.float32, scale=True)])
    # Where the images lie makes no difference to torchvision's side: it is what workers do, on the CPU.
    sides = {
        "ours": lambda: epoch.views(epoch.order),
        "torchvision v2": lambda: [torch.stack([transform(image) for image in images]) for _ in range(2)],
    }
    if importlib.util.find_spec("kornia"):
        batched = with_kornia(side, augmentation)
        sides["kornia"] = lambda: [batched(samples.images.float() / 255) for _ in range(2)]
    return sides


def per_image(side: int, augmentation: Augmentation) -> list[torch.nn.Module]:
    """SimCLR's transforms for a uint8 image, those that are on."""
    scale, ratio = (augmentation.area[0], augmentation.area[1]), (augmentation.aspect[0], augmentation.aspect[1])
    transforms: list[torch.nn.Module] = [v2.RandomResizedCrop(side, scale=scale, ratio=ratio, antialias=True)]
    if augmentation.flip:
        transforms.append(v2.RandomHorizontalFlip(augmentation.flip))
    if augmentation.jitter:
        transforms.append(v2.RandomApply([v2.ColorJitter(0.8, 0.8, 0.8, 0.2)], augmentation.jitter))
    if augmentation.grey:
        transforms.append(v2.RandomGrayscale(augmentation.grey))
    if augmentation.uses("blur"):
        blur = v2.GaussianBlur(kernel_size(side), SIGMAS)
        transforms.append(v2.RandomApply([blur], augmentation.probability("blur", 0)))
    return transforms


def with_kornia(side: int, augmentation: Augmentation) -> Callable[[torch.Tensor], torch.Tensor]:
    """The same by kornia's batched modules."""
    import kornia.augmentation as kornia  # pyright: ignore[reportMissingImports]

    scale, ratio = (augmentation.area[0], augmentation.area[1]), (augmentation.aspect[0], augmentation.aspect[1])
    transforms = [kornia.RandomResizedCrop((side, side), scale=scale, ratio=ratio)]
    if augmentation.flip:
        transforms.append(kornia.RandomHorizontalFlip(p=augmentation.flip))
    if augmentation.jitter:
        transforms.append(kornia.ColorJitter(0.8, 0.8, 0.8, 0.2, p=augmentation.jitter))
    if augmentation.grey:
        transforms.append(kornia.RandomGrayscale(p=augmentation.grey))
    if augmentation.uses("blur"):
        kernel = (kernel_size(side), kernel_size(side))
        transforms.append(kornia.RandomGaussianBlur(kernel, SIGMAS, p=augmentation.probability("blur", 0)))
    return kornia.AugmentationSequential(*transforms)


def compare(functions: dict[str, Callable], batch: int, repeats: int, device: str) -> dict[str, float]:
    """Samples per second of every side, both views counted as one sample."""
    seconds = {side: [] for side in functions}
    for function in functions.values():
        function()
    for _ in range(repeats):
        for side, function in functions.items():
            seconds[side].append(timed(torch.device(device), function))
    return {side: batch / statistics.median(times) for side, times in seconds.items()}


def memory_of(case: str, side: str, batch: int, device: str) -> int:
    """Peak memory of one side in bytes, in a process of its own."""
    command = [sys.executable, __file__, "--device", device, "--batch", str(batch), "--peak", case, side]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def peak_memory(case: str, side: str, batch: int, device: str) -> int:
    """How far making two views of one batch raises the memory of this process."""
    sides_of(case, 2, device)[side]()  # libraries loaded, pools of threads started
    function = sides_of(case, batch, device)[side]
    if device == "cuda" and side != "torchvision v2":
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        function()
        return torch.cuda.max_memory_allocated() - before
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts from here
    function()
    return resident("VmHWM") - before


def resident(field: str) -> int:
    """A line of /proc/self/status in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) * 1024


if __name__ == "__main__":
    main()
