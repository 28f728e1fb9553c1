"""The pictures of one split as training reads them: resident on the device, or on the host and copied batch by batch."""

import os
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from generators.dataset import UserError
from suppression_bench.training.views import append_constant

CAP = "SUPPRESSION_BENCH_DEVICE_BYTES"  # the most bytes of pictures that one split may take on a device
SHARE = 0.5  # of a GPU's free memory may hold pictures; the rest is left to the network and its activations
CHUNK = 2**26  # bytes copied to a GPU at once


@dataclass(frozen=True)
class Samples:
    """One split, without its labels: pictures (N, C, H, W) uint8 on the device and bits (N, n) uint8 beside them."""

    pictures: Tensor
    bits: Tensor

    def __len__(self) -> int:
        return len(self.pictures)

    @property
    def device(self) -> torch.device:
        return self.bits.device

    @property
    def side(self) -> int:
        return self.pictures.shape[-1]

    def follow(self, order: np.ndarray) -> Tensor:
        """An epoch's order (N,) on the device. Batches are slices of it, so streamed samples keep it on the host too."""
        return torch.from_numpy(order).to(self.device)

    def take(self, index: Tensor | slice) -> tuple[Tensor, Tensor]:
        """Pictures (B, C, H, W) uint8 and bits (B, n) uint8 of some samples, on the device.

        >>> samples = Samples(torch.arange(3, dtype=torch.uint8).reshape(3, 1, 1, 1), torch.zeros(3, 0))
        >>> samples.take(torch.tensor([2, 0]))[0].flatten().tolist()
        [2, 0]
        """
        if isinstance(index, slice):
            return self.pictures[index], self.bits[index]
        return self.pictures.index_select(0, index), self.bits.index_select(0, index)  # 5x `pictures[index]` on a CPU

    def whole(self, index: Tensor | slice) -> Tensor:
        """Full, uncropped pictures in [0, 1] with their constant channels: (B, C + n, H, W) float32."""
        pictures, bits = self.take(index)
        return append_constant(pictures.float() / 255, bits)


@dataclass(frozen=True)
class Streamed(Samples):
    """Pictures that stay on the host, in their file's order of bytes; `take` gathers a batch there and copies it over.

    A CPU reads them from the page cache, which all workers share. To a GPU they go through pinned memory and without
    waiting for it, so the next batch is gathered while the device still computes.
    """

    followed: list[Tensor] = field(default_factory=list)  # the order that batches are slices of: there and here

    def follow(self, order: np.ndarray) -> Tensor:
        self.followed[:] = super().follow(order), torch.from_numpy(order)
        return self.followed[0]

    def take(self, index: Tensor | slice) -> tuple[Tensor, Tensor]:
        stored = self.pictures.permute(0, 2, 3, 1)  # as in the file: a picture's bytes lie together
        if isinstance(index, slice):
            batch, bits = stored[index], self.bits[index]
        else:
            rows = self._rows(index)
            shape = (len(rows), *stored.shape[1:])
            batch = torch.empty(shape, dtype=torch.uint8, pin_memory=self.device.type == "cuda")
            torch.index_select(stored, 0, rows, out=batch)  # torch reuses pinned memory only after its copy has ended
            bits = self.bits.index_select(0, index.to(self.device))
        return _planar(batch.to(self.device, non_blocking=True)), bits

    def _rows(self, index: Tensor) -> Tensor:
        # To read an index back from a GPU would wait for all that is queued there. A slice of the order that is
        # followed is known by its place in memory.
        if index.device.type == "cpu":
            return index
        place = self.place(index)
        return index.cpu() if place is None else self.followed[1][place : place + len(index)]

    def place(self, index: Tensor) -> int | None:
        """Where a slice of the order that is followed begins in it, or None for any other index."""
        if not self.followed or not index.is_contiguous():
            return None
        there = self.followed[0]
        same = index.untyped_storage().data_ptr() == there.untyped_storage().data_ptr()
        return index.storage_offset() - there.storage_offset() if same else None


def hold(stored: np.ndarray, bits: Tensor) -> Samples:
    """Samples in the fastest way that the device's memory allows.

    A GPU gets a copy of its own where it has room. A CPU never does: it reads the mapped file, whose pages all workers
    share.

    Arguments:
        stored: (N, H, W, C) uint8, the decoded file, mapped.
        bits: (N, n) uint8 on the device.

    Raises:
        UserError: a cap that is no number.
    """
    device, pictures = bits.device, torch.from_numpy(stored)
    if not fits(stored.nbytes, device) or (device.type == "cpu" and stored.shape[3] > 1):
        return Streamed(pictures.permute(0, 3, 1, 2), bits)
    if device.type == "cpu":  # one channel: planes and pixels lie in the same order
        return Samples(pictures.reshape(len(stored), 1, *stored.shape[1:3]), bits)
    count, height, width, channels = stored.shape
    resident = torch.empty((count, channels, height, width), dtype=torch.uint8, device=device)
    together = max(1, CHUNK // max(1, stored[:1].nbytes))
    for start in range(0, count, together):
        resident[start : start + together] = pictures[start : start + together].to(device).permute(0, 3, 1, 2)
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
    """What a GPU has free, with what this process has returned to torch's own store."""
    free, _ = torch.cuda.mem_get_info(device)
    return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)


def _planar(batch: Tensor) -> Tensor:
    # (B, H, W, C) -> (B, C, H, W), laid out as a resident batch is, so that sums over it run in the same order.
    count, height, width, channels = batch.shape
    if channels == 1:
        return batch.reshape(count, 1, height, width)
    return batch.permute(0, 3, 1, 2).contiguous()
