"""Speed of training against its ceiling and against other loops, side by side in one run, as a Markdown table.

    python benchmarks/train.py [--net randbit_conv] [--side 28] [--bits 10] [--batch 1000] [--steps 5] [--repeats 5]
        [--device cpu] [--precision bf16] [--compile default] [--threads 1] [--loader-workers 0] [--clock wall]

Four sides take turns, so that a noisy machine slows all of them; ratios are medians over the turns. `loop` is this
suite's, end to end: epoch tables, crops, bits, method, optimizer. `ceiling` is that of `bench speed`: the same method and
optimizer on two random batches that lie on the device. `plain` is fp32 PyTorch: a DataLoader, torchvision's
RandomResizedCrop on each image, bits appended. `lightly` is its SimCLR transform and loss, with only the crop switched
on, fp32. The images are random: speed does not depend on them. On a machine that others use, `--clock cpu` counts the
processor's seconds of this process instead of the wall's (with `--loader-workers 0` and one thread only: waiting and
helpers are not seen).
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from generators import catalog, manifest
from generators.describe import table
from suppression_bench.cell import Augmentation, Train
from suppression_bench.encoder import Encoder, mlp
from suppression_bench.method import Info, Method
from suppression_bench.speed import Ceiling, timed
from suppression_bench.training import precision
from suppression_bench.training.data import Samples
from suppression_bench.training.loop import train

STATUS = Path("/proc/self/status")
AREA, ASPECT, TEMPERATURE = (0.5, 1.0), (3 / 4, 4 / 3), 0.1
NUMBERS = {"side": 28, "channels": 1, "bits": 10, "batch": 1000, "steps": 5, "repeats": 5, "threads": 1}
NUMBERS |= {"loader-workers": 0, "micro-batch": None}


def main() -> None:
    flags = read_flags()
    torch.set_num_threads(flags.threads)
    precision.prepare_process()
    torch.manual_seed(0)
    shape = (flags.batch * flags.steps, flags.channels, flags.side, flags.side)
    images = torch.randint(0, 256, shape, dtype=torch.uint8)
    bits = torch.randint(0, 2, (len(images), flags.bits), dtype=torch.uint8)
    makers = {"loop": loop_side, "ceiling": ceiling_side, "plain": plain_side, "lightly": lightly_side}
    sides = {name: make(flags, images, bits) for name, make in makers.items() if name not in flags.without}
    sides = {name: side for name, side in sides.items() if side}
    clock = time.process_time if flags.clock == "cpu" else time.perf_counter
    seconds, peaks = {name: [] for name in sides}, {}
    for turn in range(flags.repeats + 1):
        for name, side in sides.items():
            forget_peak(flags.device)
            taken = timed(torch.device(flags.device), side, clock)
            if turn:  # the first turn warms up and compiles
                seconds[name].append(taken)
            peaks[name] = peak_memory(flags.device)
    print_table(flags, seconds, peaks)


def read_flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--net", default="randbit_conv", choices=["randbit_conv", "resnet18"])
    for name, value in NUMBERS.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--precision", default="fp32", choices=["fp32", "tf32", "bf16"])
    parser.add_argument("--compile", default="none", choices=["none", "default", "reduce-overhead"])
    parser.add_argument("--deterministic", action="store_true")
    parser.add_argument("--clock", default="wall", choices=["wall", "cpu"])
    parser.add_argument("--without", nargs="*", default=[], help="sides to leave out")
    return parser.parse_args()


def build_encoder(flags) -> Encoder:
    encoder = catalog.load_class("suppression_bench.encoders", flags.net, Encoder)
    return encoder(flags.side, flags.channels + flags.bits)


def build_method(flags) -> Method:
    loss = partial(catalog.load_function("suppression_bench.losses", "nt_xent"), temperature=TEMPERATURE, pairs="cross")
    simclr = catalog.load_class("suppression_bench.methods", "simclr", Method)
    info = Info((flags.side, flags.side, flags.channels), flags.bits, flags.batch * flags.steps, {})
    method = simclr(build_encoder(flags), info, loss, head=[256, 64])
    return method.to(device=flags.device, memory_format=torch.channels_last)


def recipe(flags) -> Train:
    return Train(
        batch_size=flags.batch,
        steps=flags.steps,
        precision=flags.precision,
        compile=flags.compile,
        micro_batch=flags.micro_batch,
        deterministic=flags.deterministic,
        weight_decay=2e-4,
        epsilon=1e-7,
    )


def loop_side(flags, images: Tensor, bits: Tensor) -> Callable[[], object]:
    method, training = build_method(flags), recipe(flags)
    samples = Samples(images.to(flags.device), bits.to(flags.device))
    augmentation = Augmentation(area=list(AREA), aspect=list(ASPECT))
    return lambda: train(method, samples, training, augmentation, seed=0)


def ceiling_side(flags, images: Tensor, bits: Tensor) -> Callable[[], object]:
    ceiling = Ceiling(build_method(flags).train(), recipe(flags), flags.channels + flags.bits, flags.side, {})

    def run() -> None:
        with ceiling.configured():
            for _ in range(flags.steps):
                ceiling.step()

    return run


def plain_side(flags, images: Tensor, bits: Tensor) -> Callable[[], object]:
    net, optimizer = plain_net(flags)
    loader = batches(Cropped(images, bits, flags.side), flags)

    def run() -> None:
        for views in loader:
            first, second = (F.normalize(net(view.to(flags.device, non_blocking=True)), dim=1) for view in views)
            logits = first @ second.T / TEMPERATURE
            diagonal = torch.arange(len(logits), device=logits.device)
            loss = F.cross_entropy(logits, diagonal) + F.cross_entropy(logits.T, diagonal)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    return run


def lightly_side(flags, images: Tensor, bits: Tensor) -> Callable[[], object] | None:
    try:
        from lightly.loss import NTXentLoss  # pyright: ignore[reportMissingImports]
        from lightly.transforms import SimCLRTransform  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        print(f"without lightly ({error})")
        return None
    from torchvision.transforms.functional import to_pil_image

    off = dict(cj_prob=0, random_gray_scale=0, gaussian_blur=0, hf_prob=0, normalize=None)
    transform = SimCLRTransform(input_size=flags.side, min_scale=AREA[0], **off)
    pil_images = [to_pil_image(image) for image in images]

    class Transformed(torch.utils.data.Dataset):
        def __len__(self):
            return len(pil_images)

        def __getitem__(self, index):
            return [*transform(pil_images[index]), bits[index]]

    net, optimizer = plain_net(flags)
    loader, criterion = batches(Transformed(), flags), NTXentLoss(TEMPERATURE)

    def run() -> None:
        for *views, code in loader:
            planes = code.float()[:, :, None, None].expand(-1, -1, flags.side, flags.side)
            first, second = (net(torch.cat([view, planes], 1).to(flags.device)) for view in views)
            loss = criterion(first, second)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    return run


class Cropped(torch.utils.data.Dataset):
    """Two crops of each image with its bits as planes, one sample at a time, as many loops are written."""

    def __init__(self, images: Tensor, bits: Tensor, side: int):
        from torchvision.transforms import v2

        self.images, self.bits = images, bits
        self.crop = v2.RandomResizedCrop(side, scale=AREA, ratio=ASPECT, antialias=True)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        planes = self.bits[index].float()[:, None, None].expand(-1, *self.images.shape[2:])
        return [torch.cat([self.crop(self.images[index]).float() / 255, planes]) for _ in range(2)]


def plain_net(flags) -> tuple[nn.Module, torch.optim.Optimizer]:
    encoder = build_encoder(flags)
    net = nn.Sequential(encoder, mlp(encoder.width, [256, 64], encoder.batch_norm)).to(flags.device)
    return net, torch.optim.Adam(net.parameters(), lr=1e-3, eps=1e-7, weight_decay=2e-4)


def batches(dataset: torch.utils.data.Dataset, flags) -> torch.utils.data.DataLoader:
    return torch.utils.data.DataLoader(
        dataset,
        batch_size=flags.batch,
        shuffle=True,
        drop_last=True,
        num_workers=flags.loader_workers,
        pin_memory=flags.device == "cuda",
        persistent_workers=flags.loader_workers > 0,
    )


def forget_peak(device: str) -> None:
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    elif STATUS.exists():
        Path("/proc/self/clear_refs").write_text("5")  # Linux: the process's high water mark begins anew


def peak_memory(device: str) -> str:
    # On a CPU the whole process's: what the sides keep between their turns, and torch itself, is in every figure.
    if device == "cuda":
        return f"{torch.cuda.max_memory_allocated() / 2**20:.0f} MiB"
    lines = STATUS.read_text().splitlines() if STATUS.exists() else []
    return "".join(f"{int(line.split()[1]) / 1024:.0f} MiB" for line in lines if line.startswith("VmHWM"))


def print_table(flags, seconds: dict[str, list[float]], peaks: dict[str, str]) -> None:
    count, rows = flags.batch * flags.steps, []
    for name, times in seconds.items():
        ratios = [
            f"{statistics.median([a / b for a, b in zip(seconds[side], times, strict=True)]):.2f}"
            if side in seconds
            else ""
            for side in ("ceiling", "plain")
        ]
        rows.append([name, f"{count / statistics.median(times):.0f}", *ratios, peaks[name]])
    options = ", ".join(f"{name} {value}" for name, value in vars(flags).items() if name != "without")
    device = torch.cuda.get_device_name() if flags.device == "cuda" else f"{os.cpu_count()} cores"
    print(f"\n{device}, torch {torch.__version__}, python {manifest.environment()['python']}; {options}\n")
    print(table(["side", f"samples/s ({flags.clock})", "of the ceiling", "times plain", "peak memory"], rows))


if __name__ == "__main__":
    main()
