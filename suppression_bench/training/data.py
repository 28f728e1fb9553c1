"""Data for training: a dataset folder's labels, and its images as batches on the device without Python per image."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from weakref import WeakValueDictionary

import numpy as np
import torch
from torch import Tensor

from generators import manifest as manifests
from generators.dataset import ConstantChannels, UserError
from suppression_bench.method import Target
from suppression_bench.training.pixel_cache import DecodedSplit, decode, is_decoded
from suppression_bench.training.transforms import append_constant

CAP = "SUPPRESSION_BENCH_DEVICE_BYTES"  # the most bytes of images that one split may take on a device
SHARE = 0.5  # of a GPU's free memory may hold images; the rest is left to the network and its activations
CHUNK = 2**26  # bytes copied to a GPU at once


class Data:
    """A generated dataset folder, opened for training.

    Arguments:
        folder: where `bench generate` wrote it.
        bits: how many constant channels to use (only where the dataset has them).
        say: prints a line, where a split does not fit on the device.

    Raises:
        UserError: no dataset, or more bits than it has.
    """

    def __init__(self, folder: str | Path, bits: int = 0, say: Callable[[str], None] = print):
        self.folder = Path(folder)
        self.manifest = manifests.read(self.folder)
        constant = self.manifest.constant_channels
        most = constant.max if constant else 0
        if not 0 <= bits <= most:
            raise UserError(f"data.bits {bits}: {self.manifest.dataset} has 0 to {most} constant channels")
        self.bits = bits
        self.code = constant.label if constant else None
        self.bit_names = ConstantChannels.feature_names(most)
        height, width, channels = self.manifest.image_shape
        self.image_shape = (height, width, channels)
        self.say = say
        self._splits: dict[str, DecodedSplit] = {}
        self._reported: set[str] = set()  # splits of which was said that they do not fit
        self._samples: WeakValueDictionary = WeakValueDictionary()  # a split that is still in use is not copied again

    @property
    def channels(self) -> int:
        """Channels that an encoder sees: the image's and the bits in use."""
        return self.image_shape[2] + self.bits

    def splits_in_use(self) -> list[str]:
        """The splits that a cell reads: the training split, and those of every probe."""
        return list(dict.fromkeys(["pretrain", *(split for pair in self.probes().values() for split in pair)]))

    def decode(self, workers: int) -> list[str]:
        """Decode the splits in use that have no cache yet, together; their names."""
        missing = [name for name in self.splits_in_use() if not is_decoded(self.manifest, name)]
        if missing:
            decode(self.folder, self.manifest, missing, workers)
        return missing

    def samples(self, split: str, device: torch.device | str = "cpu") -> "Samples":
        """A split's images and bits for a device: resident where they fit, otherwise streamed from the host."""
        key = split, str(device)
        samples = self._samples.get(key)
        if samples is None:
            decoded = self._split(split)
            codes = decoded.labels[self.code] if self.code and self.bits else np.zeros(len(decoded.images))
            planes = (np.array(codes, dtype=np.int64)[:, None] >> np.arange(self.bits)) & 1
            samples = hold(decoded.images, torch.from_numpy(planes.astype(np.uint8)).to(device), decoded.check)
            size = decoded.images.nbytes
            if not fits(size, samples.device) and isinstance(samples, Streamed) and split not in self._reported:
                self._reported.add(split)
                self.say(
                    f"{self.folder.name}, {split}: {size / 1e6:.1f} MB of images do not fit beside the "
                    f"network on {samples.device}; they stay on the host and are copied batch by batch"
                )
            self._samples[key] = samples
        return samples

    def targets(self) -> dict[str, Target]:
        """What a supervised method may predict on the training split; each bit in use is a target of its own."""
        targets = {}
        for name in self.manifest.targets:
            if name == self.code:
                targets.update(dict.fromkeys(self.bit_names[: self.bits], Target(2)))
            else:
                targets[name] = Target(self.manifest.features[name].classes, self.manifest.features[name].many)
        return targets

    def probes(self) -> dict[str, tuple[str, str]]:
        """Feature -> (train split, test split), each bit in use by itself."""
        probes = {}
        for name, (train, test) in self.manifest.probes.items():
            names = self.bit_names[: self.bits] if name == self.code else [name]
            probes.update(dict.fromkeys(names, (train, test)))
        return probes

    def groups(self) -> dict[str, list[str]]:
        """Group -> its probed features: the bits in use."""
        return {ConstantChannels.group: self.bit_names[: self.bits]} if self.bits else {}

    def labels(self, split: str, feature: str) -> np.ndarray:
        """(N,) int64 classes of a feature on a split, or (N, classes) float32 0/1 where it is a set.

        Raises:
            UserError: the split does not carry the feature.
        """
        if not self.has_label(split, feature):
            raise UserError(f"{self.folder}: split {split} has no label {feature!r} on every sample")
        labels = self._split(split).labels
        if self.code and feature in self.bit_names:
            return (np.array(labels[self.code], dtype=np.int64) >> self.bit_names.index(feature)) & 1
        described = self.manifest.features[feature]
        if not described.many:
            return np.array(labels[feature], dtype=np.int64)
        present = np.zeros((len(labels[feature]), described.classes), dtype=np.float32)
        for row, classes in enumerate(labels[feature]):
            present[row, classes] = 1
        return present

    def classes(self, feature: str) -> int:
        """Number of classes of a feature; a bit has two."""
        described = self.manifest.features.get(feature)
        return described.classes if described else 2

    def has_label(self, split: str, feature: str) -> bool:
        """Whether every sample of a split carries the feature."""
        labels = self._split(split).labels
        if feature in self.bit_names:
            return True
        return feature in labels and not any(label is None for label in labels[feature])

    def _split(self, name: str) -> DecodedSplit:
        if name not in self._splits:
            if name not in self.manifest.splits:
                raise UserError(f"{self.folder}: no split {name!r} (has {', '.join(self.manifest.splits)})")
            self._splits[name] = DecodedSplit(self.folder, self.manifest, name)
        return self._splits[name]


@dataclass(frozen=True)
class Samples:
    """One split, without its labels: images (N, C, H, W) uint8 on the device and bits (N, n) uint8 beside them."""

    images: Tensor
    bits: Tensor

    def __len__(self) -> int:
        return len(self.images)

    @property
    def device(self) -> torch.device:
        """Where batches are."""
        return self.bits.device

    @property
    def side(self) -> int:
        """Pixels of an image's side."""
        return self.images.shape[-1]

    def follow(self, order: np.ndarray) -> Tensor:
        """An epoch's order (N,) on the device. Batches are slices of it, so streamed samples keep it on the host too."""
        return torch.from_numpy(order).to(self.device)

    def take(self, index: Tensor | slice) -> tuple[Tensor, Tensor]:
        """Images (B, C, H, W) uint8 and bits (B, n) uint8 of some samples, on the device.

        >>> samples = Samples(torch.arange(3, dtype=torch.uint8).reshape(3, 1, 1, 1), torch.zeros(3, 0))
        >>> samples.take(torch.tensor([2, 0]))[0].flatten().tolist()
        [2, 0]
        """
        if isinstance(index, slice):
            return self.images[index], self.bits[index]
        return self.images.index_select(0, index), self.bits.index_select(0, index)  # 5x `images[index]` on a CPU

    def whole(self, index: Tensor | slice) -> Tensor:
        """Full, uncropped images in [0, 1] with their constant channels: (B, C + n, H, W) float32."""
        images, bits = self.take(index)
        return append_constant(images.float() / 255, bits)


@dataclass(frozen=True)
class Streamed(Samples):
    """Images that stay on the host, in their file's order of bytes; `take` gathers a batch there and copies it over.

    A CPU reads them from the page cache, which all workers share. To a GPU they go through pinned memory and without
    waiting for it, so the next batch is gathered while the device still computes.

    check: called with the rows that are about to be read.
    """

    check: Callable[[slice | Tensor], None] = lambda rows: None
    followed: list[Tensor] = field(default_factory=list)  # the order that batches are slices of: on device and on host

    def follow(self, order: np.ndarray) -> Tensor:
        """As of resident samples."""
        self.followed[:] = super().follow(order), torch.from_numpy(order)
        return self.followed[0]

    def take(self, index: Tensor | slice) -> tuple[Tensor, Tensor]:
        """As of resident samples."""
        stored = self.images.permute(0, 2, 3, 1)  # as in the file: an image's bytes lie together
        if isinstance(index, slice):
            self.check(index)
            batch, bits = stored[index], self.bits[index]
        else:
            rows = self._rows(index)
            self.check(rows)
            shape = (len(rows), *stored.shape[1:])
            batch = torch.empty(shape, dtype=torch.uint8, pin_memory=self.device.type == "cuda")
            torch.index_select(stored, 0, rows, out=batch)  # torch reuses pinned memory only after its copy has ended
            bits = self.bits.index_select(0, index.to(self.device))
        return _planar(batch.to(self.device, non_blocking=True)), bits

    def _rows(self, index: Tensor) -> Tensor:
        # To read an index back from a GPU would wait for all that is queued there. A slice of the order that is
        # followed is known by its offset in memory.
        if index.device.type == "cpu":
            return index
        offset = self.offset(index)
        return index.cpu() if offset is None else self.followed[1][offset : offset + len(index)]

    def offset(self, index: Tensor) -> int | None:
        """Where a slice of the order that is followed begins in it, or None for any other index."""
        if not self.followed or not index.is_contiguous():
            return None
        order = self.followed[0]
        same = index.untyped_storage().data_ptr() == order.untyped_storage().data_ptr()
        return int(index.storage_offset() - order.storage_offset()) if same else None


def hold(images: np.ndarray, bits: Tensor, check: Callable[[slice | Tensor], None] = lambda rows: None) -> Samples:
    """Samples in the fastest way that the device's memory allows.

    A GPU gets a copy of its own where it has room. A CPU never does: it reads the mapped file, whose pages all workers
    share.

    Arguments:
        images: (N, H, W, C) uint8, the decoded file, mapped.
        bits: (N, n) uint8 on the device.
        check: called with the rows that are about to be read.

    Raises:
        UserError: a cap that is no number.
    """
    device, stored = bits.device, torch.from_numpy(images)
    if not fits(images.nbytes, device) or device.type == "cpu":
        return Streamed(stored.permute(0, 3, 1, 2), bits, check)
    count, height, width, channels = images.shape
    resident = torch.empty((count, channels, height, width), dtype=torch.uint8, device=device)
    together = max(1, CHUNK // max(1, images[:1].nbytes))
    for start in range(0, count, together):
        rows = slice(start, start + together)
        check(rows)
        resident[rows] = stored[rows].to(device).permute(0, 3, 1, 2)
    return Samples(resident, bits)


def fits(size: int, device: torch.device) -> bool:
    """Whether a split of `size` bytes may be resident: below the cap, and within the share of a GPU's free memory."""
    cap = device_cap()
    if cap is not None:
        return size <= cap
    return device.type != "cuda" or size <= SHARE * free_bytes(device)


def device_cap() -> int | None:
    """The user's cap on a split's bytes on the device.

    Raises:
        UserError: it is no whole number.
    """
    text = os.environ.get(CAP, "")
    if text and not text.isdecimal():
        raise UserError(f"{CAP} must be a whole number of bytes, got {text!r}; unset it to go by the free memory")
    return int(text) if text else None


def free_bytes(device: torch.device) -> int:
    """Free memory of a GPU, with what this process has returned to torch's own store."""
    free, _ = torch.cuda.mem_get_info(device)
    return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)


def _planar(batch: Tensor) -> Tensor:
    # (B, H, W, C) -> (B, C, H, W), laid out as a resident batch is, so that sums over it run in the same order.
    count, height, width, channels = batch.shape
    if channels == 1:
        return batch.reshape(count, 1, height, width)
    return batch.permute(0, 3, 1, 2).contiguous()
