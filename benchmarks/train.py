"""Speed of training against its ceiling and against other loops, side by side in one run, as a Markdown table.

    python benchmarks/train.py [--net randbit_conv] [--side 28] [--bits 10] [--batch 1000] [--steps 5] [--repeats 5]
        [--device cpu] [--precision bf16] [--compile default] [--threads 1] [--loader-workers 0] [--clock wall]

Four sides take turns, so that a noisy machine slows all of them; ratios are medians over the turns. `loop` is this
suite's, end to end: epoch tables, crops, bits, method, optimizer. `ceiling` is the same method and optimizer on two
random batches that lie on the device. `plain` is fp32 PyTorch: a DataLoader, torchvision's RandomResizedCrop on each
picture, bits appended. `lightly` is its SimCLR transform and loss, with only the crop switched on, fp32. The pictures
are random: speed does not depend on them. On a machine that others use, `--clock cpu` counts the processor's seconds
of this process instead of the wall's (with `--loader-workers 0` and one thread only: waiting and helpers are not seen).
"""

import argparse
import os
import statistics
import time
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from generators import catalog, manifest
from generators.card import table
from suppression_bench.cell import Augmentation, Train
from suppression_bench.encoder import Encoder, mlp
from suppression_bench.method import Batch, Info, Method
from suppression_bench.training import precision
from suppression_bench.training.data import Samples
from suppression_bench.training.gradient_cache import GradientCache
from suppression_bench.training.loop import train
from suppression_bench.training.optim import build_optimizer

PEAK = Path("/proc/self/status")
AREA, ASPECT, TEMPERATURE = (0.5, 1.0), (3 / 4, 4 / 3), 0.1


def main() -> None:
    flags = _flags()
    torch.set_num_threads(flags.threads)
    precision.prepare_process()
    torch.manual_seed(0)
    shape = (flags.batch * flags.steps, flags.channels, flags.side, flags.side)
    pictures = torch.randint(0, 256, shape, dtype=torch.uint8)
    bits = torch.randint(0, 2, (len(pictures), flags.bits), dtype=torch.uint8)
    sides = {
        "loop": _loop(flags, pictures, bits),
        "ceiling": _ceiling(flags),
        "plain": _plain(flags, pictures, bits),
        "lightly": _lightly(flags, pictures, bits),
    }
    sides = {name: side for name, side in sides.items() if side and name not in flags.without}
    seconds, peak = {name: [] for name in sides}, {}
    for turn in range(flags.repeats + 1):
        for name, side in sides.items():
            _forget_peak(flags.device)
            took = _clocked(side, flags)
            if turn:  # the first turn warms up and compiles
                seconds[name].append(took)
            peak[name] = _peak(flags.device)
    _print(flags, seconds, peak)


def _flags():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--net", default="randbit_conv", choices=["randbit_conv", "resnet18"])
    for name, value in (("side", 28), ("channels", 1), ("bits", 10), ("batch", 1000), ("steps", 5), ("repeats", 5),
                        ("threads", 1), ("loader-workers", 0), ("micro-batch", None)):  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--precision", default="fp32", choices=["fp32", "tf32", "bf16"])
    parser.add_argument("--compile", default="none", choices=["none", "default", "reduce-overhead"])
    parser.add_argument("--deterministic", action="store_true")
    parser.add_argument("--clock", default="wall", choices=["wall", "cpu"])
    parser.add_argument("--without", nargs="*", default=[], help="sides to leave out")
    return parser.parse_args()


def _clocked(side, flags) -> float:
    clock = time.process_time if flags.clock == "cpu" else time.perf_counter
    began = clock()
    side()
    if flags.device == "cuda":
        torch.cuda.synchronize()
    return clock() - began


def _encoder(flags) -> Encoder:
    made = catalog.load_class("suppression_bench.encoders", flags.net, Encoder)
    return made(flags.side, flags.channels + flags.bits)


def _method(flags) -> Method:
    loss = partial(catalog.load_function("suppression_bench.losses", "nt_xent"), temperature=TEMPERATURE, pairs="cross")
    made = catalog.load_class("suppression_bench.methods", "simclr", Method)
    info = Info((flags.side, flags.side, flags.channels), flags.bits, flags.batch * flags.steps, {})
    return made(_encoder(flags), info, loss, head=[256, 64]).to(flags.device, memory_format=torch.channels_last)


def _training(flags) -> Train:
    return Train(
        batch_size=flags.batch, steps=flags.steps, precision=flags.precision, compile=flags.compile,
        micro_batch=flags.micro_batch, deterministic=flags.deterministic, weight_decay=2e-4, epsilon=1e-7,
    )  # fmt: skip


def _loop(flags, pictures: Tensor, bits: Tensor):
    method, training = _method(flags), _training(flags)
    samples = Samples(pictures.to(flags.device), bits.to(flags.device))
    augmentation = Augmentation(area=list(AREA), aspect=list(ASPECT))
    return lambda: train(method, samples, training, augmentation, seed=0)


def _ceiling(flags):
    method, training = _method(flags).train(), _training(flags)
    optimizer = build_optimizer(method, training, training.weight_decay)
    network = GradientCache(method, flags.micro_batch) if flags.micro_batch else method
    shape = (flags.batch, flags.channels + flags.bits, flags.side, flags.side)
    views = [torch.rand(shape, device=flags.device).to(memory_format=torch.channels_last) for _ in range(2)]
    batch = Batch(views, torch.arange(flags.batch, device=flags.device))

    def run():
        with precision.configured(method, flags.precision, flags.compile, flags.deterministic):
            for _ in range(flags.steps):
                optimizer.zero_grad(set_to_none=True)
                precision.begin_step(training.compile)
                with precision.autocast(batch.ids.device, flags.precision):
                    output = network.loss(batch)
                output.loss.backward()
                optimizer.step()

    return run


class _Cropped(torch.utils.data.Dataset):
    """Two crops of each picture with its bits as planes, one sample at a time, as many loops are written."""

    def __init__(self, pictures, bits, side):
        from torchvision.transforms import v2

        self.pictures, self.bits = pictures, bits
        self.crop = v2.RandomResizedCrop(side, scale=AREA, ratio=ASPECT, antialias=True)

    def __len__(self):
        return len(self.pictures)

    def __getitem__(self, index):
        planes = self.bits[index].float()[:, None, None].expand(-1, *self.pictures.shape[2:])
        return [torch.cat([self.crop(self.pictures[index]).float() / 255, planes]) for _ in range(2)]


def _loader(dataset, flags):
    return torch.utils.data.DataLoader(
        dataset, batch_size=flags.batch, shuffle=True, drop_last=True, num_workers=flags.loader_workers,
        pin_memory=flags.device == "cuda", persistent_workers=flags.loader_workers > 0,
    )  # fmt: skip


def _plain(flags, pictures: Tensor, bits: Tensor):
    encoder = _encoder(flags)
    net = nn.Sequential(encoder, mlp(encoder.width, [256, 64], encoder.batch_norm)).to(flags.device)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3, eps=1e-7, weight_decay=2e-4)
    loader = _loader(_Cropped(pictures, bits, flags.side), flags)

    def run():
        for views in loader:
            first, second = (F.normalize(net(view.to(flags.device, non_blocking=True)), dim=1) for view in views)
            logits = first @ second.T / TEMPERATURE
            itself = torch.arange(len(logits), device=logits.device)
            loss = F.cross_entropy(logits, itself) + F.cross_entropy(logits.T, itself)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    return run


def _lightly(flags, pictures: Tensor, bits: Tensor):
    try:
        from lightly.loss import NTXentLoss
        from lightly.transforms import SimCLRTransform
    except ImportError as error:
        print(f"without lightly ({error})")
        return None
    from torchvision.transforms.functional import to_pil_image

    transform = SimCLRTransform(
        input_size=flags.side, cj_prob=0, min_scale=AREA[0], random_gray_scale=0, gaussian_blur=0, hf_prob=0,
        normalize=None,
    )  # fmt: skip
    images = [to_pil_image(picture) for picture in pictures]

    class Transformed(torch.utils.data.Dataset):
        def __len__(self):
            return len(images)

        def __getitem__(self, index):
            return [*transform(images[index]), bits[index]]

    encoder = _encoder(flags)
    net = nn.Sequential(encoder, mlp(encoder.width, [256, 64], encoder.batch_norm)).to(flags.device)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3, eps=1e-7, weight_decay=2e-4)
    loader, criterion = _loader(Transformed(), flags), NTXentLoss(TEMPERATURE)

    def run():
        for *views, code in loader:
            planes = code.float()[:, :, None, None].expand(-1, -1, flags.side, flags.side)
            first, second = (net(torch.cat([view, planes], 1).to(flags.device)) for view in views)
            loss = criterion(first, second)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    return run


def _forget_peak(device: str) -> None:
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    elif PEAK.exists():
        Path("/proc/self/clear_refs").write_text("5")  # Linux: the process's own high water mark begins anew


def _peak(device: str) -> str:
    # On a CPU the whole process's: what the sides keep between their turns, and torch itself, is in every figure.
    if device == "cuda":
        return f"{torch.cuda.max_memory_allocated() / 2**20:.0f} MiB"
    lines = PEAK.read_text().splitlines() if PEAK.exists() else []
    return "".join(f"{int(line.split()[1]) / 1024:.0f} MiB" for line in lines if line.startswith("VmHWM"))


def _print(flags, seconds: dict, peak: dict) -> None:
    count, rows = flags.batch * flags.steps, []
    for name, own in seconds.items():

        def ratio(other, own=own):
            pairs = zip(seconds.get(other, []), own, strict=False)
            return f"{statistics.median([a / b for a, b in pairs]):.2f}" if other in seconds else ""

        rate = f"{count / statistics.median(own):.0f}"
        rows.append([name, rate, ratio("ceiling"), ratio("plain"), peak[name]])
    options = ", ".join(f"{name} {value}" for name, value in vars(flags).items() if name != "without")
    device = torch.cuda.get_device_name() if flags.device == "cuda" else f"{os.cpu_count()} cores"
    print(f"\n{device}, torch {torch.__version__}, python {manifest.environment()['python']}; {options}\n")
    print(table(["side", f"samples/s ({flags.clock})", "of the ceiling", "times plain", "peak memory"], rows))


if __name__ == "__main__":
    main()
