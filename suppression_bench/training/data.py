"""From shards to the device: decoded once to uint8, kept under the content digest, indexed without Python per image."""

import hashlib
import json
import os
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from generators import manifest as manifests
from generators import shards
from generators.checked import check_folder
from generators.dataset import UserError
from generators.sources import data_root
from suppression_bench.method import Target
from suppression_bench.training.views import append_constant


@dataclass(frozen=True)
class Samples:
    """One split on a device, without its labels: pictures (N, C, H, W) uint8 and bits (N, n) uint8."""

    pictures: Tensor
    bits: Tensor

    def __len__(self) -> int:
        return len(self.pictures)

    def whole(self, index: Tensor | slice) -> Tensor:
        """Full, uncropped pictures in [0, 1] with their constant channels: (B, C + n, H, W) float32."""
        return append_constant(self.pictures[index].float() / 255, self.bits[index])


class Data:
    """A generated dataset folder, opened for training.

    Arguments:
        folder: where `bench generate` wrote it.
        bits: how many constant channels to use (only where the dataset has them).

    Raises:
        UserError: no dataset, a damaged one, or more bits than it has.
    """

    def __init__(self, folder: str | Path, bits: int = 0):
        self.folder = Path(folder)
        self.manifest = manifests.read(self.folder)
        constant = self.manifest["constant_channels"]
        most = constant["max"] if constant else 0
        if not 0 <= bits <= most:
            raise UserError(f"data.bits {bits}: {self.manifest['dataset']} has 0 to {most} constant channels")
        self.bits = bits
        self.code = constant["label"] if constant else None
        self.picture_shape = tuple(self.manifest["picture_shape"])
        self._open: dict = {}

    @property
    def channels(self) -> int:
        return self.picture_shape[2] + self.bits

    def check(self) -> None:
        """Every shard's size and SHA-256 against the manifest, remembered until a file changes."""
        check_folder(self.folder, self.manifest)

    def samples(self, split: str, device: torch.device | str = "cpu") -> Samples:
        """A split's pictures and bits on a device."""
        pictures, labels = self._decoded(split)
        tensor = torch.from_numpy(np.array(pictures.transpose(0, 3, 1, 2), order="C")).to(device)
        code = labels[self.code].to_numpy() if self.code else np.zeros(len(pictures), dtype=np.int64)
        planes = (code[:, None] >> np.arange(self.bits)) & 1
        return Samples(tensor, torch.from_numpy(planes.astype(np.uint8)).to(device))

    def targets(self) -> dict[str, Target]:
        """What a supervised method may predict on the training split; each bit in use is a target of its own."""
        found = {}
        for name in self.manifest["targets"]:
            if name == self.code:
                found.update({bit_name(i): Target(2) for i in range(self.bits)})
            else:
                found[name] = Target(**self.manifest["features"][name])
        return found

    def probes(self) -> dict[str, tuple[str, str]]:
        """Feature -> (train split, test split), the bits in use each on its own."""
        found = {}
        for name, pair in self.manifest["probes"].items():
            names = [bit_name(i) for i in range(self.bits)] if name == self.code else [name]
            found.update(dict.fromkeys(names, tuple(pair)))
        return found

    def labels(self, split: str, feature: str) -> np.ndarray:
        """(N,) int64 classes of a feature on a split, or (N, classes) float32 0/1 where it is a set.

        Raises:
            UserError: the split does not carry the feature.
        """
        _, labels = self._decoded(split)
        if self.code and feature.startswith("bit"):
            return (labels[self.code].to_numpy(dtype=np.int64) >> int(feature[3:])) & 1
        if feature not in labels or labels[feature].isna().any():
            raise UserError(f"{self.folder}: split {split} has no label {feature!r} on every sample")
        described = self.manifest["features"][feature]
        if not described["many"]:
            return labels[feature].to_numpy(dtype=np.int64, copy=True)
        present = np.zeros((len(labels), described["classes"]), dtype=np.float32)
        for row, classes in enumerate(labels[feature]):
            present[row, classes] = 1
        return present

    def classes(self, feature: str) -> int:
        described = self.manifest["features"].get(feature)
        return described["classes"] if described else 2

    def has_label(self, split: str, feature: str) -> bool:
        if self.code and feature.startswith("bit"):
            return True
        _, labels = self._decoded(split)
        return feature in labels and not labels[feature].isna().any()

    def _decoded(self, split: str):
        import pandas

        if split in self._open:
            return self._open[split]
        if split not in self.manifest["splits"]:
            raise UserError(f"{self.folder}: no split {split!r} (has {', '.join(self.manifest['splits'])})")
        digest = self.manifest["splits"][split]["content_digest"]
        cache = data_root() / "decoded" / digest
        columns = _cached(cache)
        if columns is None:
            columns = self._decode(split, cache)
        pictures = np.load(cache / "pictures.npy", mmap_mode="r", allow_pickle=False)
        self._open[split] = pictures, pandas.DataFrame(columns)
        return self._open[split]

    def _decode(self, split: str, cache: Path) -> dict[str, list]:
        # Written under temporary names and renamed; labels.json last, its presence says that the cache is whole.
        described = self.manifest["splits"][split]
        cache.mkdir(parents=True, exist_ok=True)
        partial = cache / f"pictures.{os.getpid()}.tmp"
        shape = (described["count"], *self.picture_shape)
        rows, content, checksum = [], hashlib.sha256(), 0
        with open(partial, "wb", buffering=2**20) as file:  # written in a row: a fresh memory map faults at each page
            np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": shape})
            for entry in described["shards"]:
                shards.check_shard(self.folder, entry)
                for picture, record, digest in shards.read_shard(
                    self.folder / entry["name"], self.picture_shape, entry["count"]
                ):
                    file.write(picture)
                    checksum = zlib.crc32(picture, checksum)
                    rows.append(record["labels"])
                    content.update(digest)
        if content.hexdigest() != described["content_digest"]:
            raise UserError(
                f"{self.folder}: the samples of split {split} are not those of the manifest; run `bench verify`"
            )
        partial.replace(cache / "pictures.npy")
        columns = {name: [row.get(name) for row in rows] for name in sorted({k for r in rows for k in r})}
        text = cache / f"labels.{os.getpid()}.tmp"
        text.write_text(json.dumps({"pictures_crc32": checksum, "labels": columns}))
        text.replace(cache / "labels.json")
        return columns


def _cached(cache: Path) -> dict[str, list] | None:
    # The labels of a whole cache, or None. The pictures are summed rather than flushed to the disk when written: that
    # is faster, and notices what a power failure, a full disk or an editor did to them since.
    try:
        found = json.loads((cache / "labels.json").read_text())
        with open(cache / "pictures.npy", "rb") as file:
            np.lib.format.read_magic(file)
            np.lib.format.read_array_header_1_0(file)
            checksum = 0
            while block := file.read(2**22):
                checksum = zlib.crc32(block, checksum)
        return found["labels"] if found["pictures_crc32"] == checksum else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def bit_name(position: int) -> str:
    return f"bit{position:02d}"
