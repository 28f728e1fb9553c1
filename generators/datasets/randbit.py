"""RandBit: a picture and up to 32 random bits as constant channels (Chen, Luo & Li, 2021, Fig. 7)."""

import numpy as np

from generators import sources
from generators.dataset import ConstantChannels, Dataset, Feature, UserError

# One constant per decision: never renumber, a later decision takes the next number.
CODE = 0
BITS = 32
LARGE = 10_000  # samples that the notebook's 600 steps of 1000 are meant for


class RandBit(Dataset):
    """Digits with a random 32-bit code each; whoever reads the data chooses how many bits compete.

    Reference: Chen, Luo & Li (NeurIPS 2021), section 3.3 and Fig. 7. The paper appends the n binary digits of a
    random integer to a picture as n constant channels, the same in both augmented views. Here each sample stores
    one 32-bit integer (label `code`), and bit i is (code >> i) & 1, so that one dataset serves every n up to 32.
    The code belongs to the sample: it is the same in every epoch.

    Arguments:
        digit_source: optdigits, mnist:DIR or mnist.
        train: number of `pretrain` samples, the first ones of the source's train split (default: all).
        test: number of `probe-test` samples, the first ones of the source's test split (default: all).

    >>> RandBit(train=3).splits
    {'pretrain': 3, 'probe-test': 450}
    """

    version = 1
    source_options = ("digit_source",)
    features = {"digit": Feature(classes=sources.DIGIT_CLASSES)}
    targets = ["digit", "code"]
    probes = {"digit": ("pretrain", "probe-test"), "code": ("pretrain", "probe-test")}
    strength = "bits"
    picture_shape = (sources.DIGIT_SIDE, sources.DIGIT_SIDE, 1)
    constant_channels = ConstantChannels(label="code", max=BITS)

    def __init__(self, *, digit_source: str = "optdigits", train: int | None = None, test: int | None = None):
        self.digits = sources.digits(digit_source)
        self.sources = {"digits": self.digits}
        self.recipe = "randbit" if self.digits.count("train") >= LARGE else "randbit-small"
        self.splits = {"pretrain": self._count("train", train), "probe-test": self._count("test", test)}

    def _count(self, part: str, wanted: int | None) -> int:
        available = self.digits.count(part)
        if wanted is not None and not 1 <= wanted <= available:
            raise UserError(f"--{part} {wanted}: randbit over {self.digits.name} has 1 to {available} {part} samples")
        return available if wanted is None else wanted

    def draw(self, split, index, stream):
        part = "train" if split == "pretrain" else "test"
        code = int(stream.below(CODE, 2**BITS, 1)[0])
        return {"digit": int(self.digits.labels[part][index]), "code": code}, {"part": part, "source": index}

    def render(self, labels, factors, stream) -> np.ndarray:
        return self.digits.pictures[factors["part"]][factors["source"]][:, :, None]
