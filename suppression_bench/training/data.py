"""From shards to the device: decoded once to uint8, kept under the content digest, indexed without Python per image."""

from collections.abc import Callable
from pathlib import Path
from weakref import WeakValueDictionary

import numpy as np
import torch

from generators import manifest as manifests
from generators.checked import check_folder
from generators.dataset import UserError
from suppression_bench.method import Target
from suppression_bench.training import decoded
from suppression_bench.training.samples import Samples, Streamed, fits, hold


class Data:
    """A generated dataset folder, opened for training.

    Arguments:
        folder: where `bench generate` wrote it.
        bits: how many constant channels to use (only where the dataset has them).
        say: prints a line, where a split does not fit on the device.

    Raises:
        UserError: no dataset, a damaged one, or more bits than it has.
    """

    def __init__(self, folder: str | Path, bits: int = 0, say: Callable[[str], None] = print):
        self.folder = Path(folder)
        self.manifest = manifests.read(self.folder)
        constant = self.manifest["constant_channels"]
        most = constant["max"] if constant else 0
        if not 0 <= bits <= most:
            raise UserError(f"data.bits {bits}: {self.manifest['dataset']} has 0 to {most} constant channels")
        self.bits = bits
        self.code = constant["label"] if constant else None
        self.image_shape = tuple(self.manifest["picture_shape"])
        self.say = say
        self._open: dict = {}
        self._said: set[str] = set()
        self._held: WeakValueDictionary = WeakValueDictionary()  # a split that is still in use is not copied again

    @property
    def channels(self) -> int:
        return self.image_shape[2] + self.bits

    def check(self) -> None:
        """Every shard's size and SHA-256 against the manifest, remembered until a file changes."""
        check_folder(self.folder, self.manifest)

    def splits_in_use(self) -> list[str]:
        """The splits that a cell reads: the training split, and those of every probe."""
        return list(dict.fromkeys(["pretrain", *(split for pair in self.probes().values() for split in pair)]))

    def decode(self, workers: int) -> list[str]:
        """Decode the splits in use that have no cache yet, together; their names."""
        splits = self.manifest["splits"]
        missing = [name for name in self.splits_in_use() if not decoded.is_there(splits[name], self.image_shape)]
        if missing:
            decoded.decode(self.folder, self.manifest, missing, workers)
        return missing

    def samples(self, split: str, device: torch.device | str = "cpu") -> Samples:
        """A split's pictures and bits for a device: resident where they fit, otherwise streamed from the host."""
        key = split, str(device)
        found = self._held.get(key)
        if found is None:
            pictures, labels = self._decoded(split)
            code = labels[self.code].to_numpy() if self.code else np.zeros(len(pictures), dtype=np.int64)
            planes = (code[:, None] >> np.arange(self.bits)) & 1
            found = hold(pictures, torch.from_numpy(planes.astype(np.uint8)).to(device))
            if isinstance(found, Streamed) and not fits(pictures.nbytes, found.device) and split not in self._said:
                self._said.add(split)
                self.say(
                    f"{self.folder.name}, {split}: {pictures.nbytes / 1e6:.1f} MB of pictures do not fit beside the "
                    f"network on {found.device}; they stay on the host and are copied batch by batch"
                )
            self._held[key] = found
        return found

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

    def groups(self) -> dict[str, list[str]]:
        """Group -> its probed features: the bits in use."""
        return {"bits": [bit_name(i) for i in range(self.bits)]} if self.bits else {}

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
        described = self.manifest["splits"][split]
        columns = decoded.read(described)
        if columns is None:
            decoded.decode(self.folder, self.manifest, [split])
            columns = decoded.read(described)
        if columns is None:
            place = decoded.cache_folder(described)
            raise UserError(f"{place}: the disk does not return what was written there; check it", exit_code=4)
        self._open[split] = decoded.pictures(described), pandas.DataFrame(columns)
        return self._open[split]


def bit_name(position: int) -> str:
    return f"bit{position:02d}"
