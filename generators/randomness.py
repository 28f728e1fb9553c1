"""Random numbers as pure functions of named axes: the only place where randomness is born."""

import hashlib

import numpy as np

# Every number of the data path hangs on these constants: a change here is a new suite.
DOMAIN = "suppression-bench/1"


def stream_key(dataset: str, version: int, split: str, seed: int) -> np.ndarray:
    """Philox key of one split: the first 128 bits of SHA-256 over the length-prefixed fields.

    Each field is its UTF-8 text behind its length in bytes (8 bytes, little-endian).

    >>> stream_key("randbit", 1, "pretrain", 0).shape
    (2,)
    """
    digest = hashlib.sha256()
    for field in (DOMAIN, dataset, str(version), split, str(seed)):
        text = field.encode()
        digest.update(len(text).to_bytes(8, "little") + text)
    return np.frombuffer(digest.digest()[:16], dtype="<u8").astype(np.uint64)


def random_words(key: np.ndarray, stream: int, index: int = 0, epoch: int = 0, *, count: int) -> np.ndarray:
    """`count` 64-bit words of Philox4x64-10 (Salmon et al., 2011) at counter (block, stream, index, epoch).

    Only `random_raw` is used: numpy keeps the bit generators' streams between releases, not those of
    `Generator`'s methods. numpy counts *before* the first block, so the words start at Random123's block 1.

    >>> random_words(stream_key("randbit", 1, "pretrain", 0), 0, count=3).dtype
    dtype('uint64')
    """
    counter = np.array([0, stream, index, epoch], dtype=np.uint64)
    return np.random.Philox(key=key, counter=counter).random_raw(count)


def below(words: np.ndarray, bound: int | np.ndarray) -> np.ndarray:
    """Integers in [0, bound) from 64-bit words: (word * bound) >> 64, exact for bounds up to 2^32.

    >>> below(np.array([0, 2**63, 2**64 - 1], dtype=np.uint64), 10).tolist()
    [0, 5, 9]
    """
    words = np.asarray(words, dtype=np.uint64)
    bound = np.asarray(bound, dtype=np.uint64)
    if np.any(bound < 1) or np.any(bound > 2**32):
        raise ValueError(f"bound must lie in 1..2^32, got {bound}")
    high, low = words >> np.uint64(32), words & np.uint64(0xFFFFFFFF)
    return ((high * bound + ((low * bound) >> np.uint64(32))) >> np.uint64(32)).astype(np.int64)


def uniform(words: np.ndarray) -> np.ndarray:
    """Doubles in [0, 1) from 64-bit words: (word >> 11) * 2^-53.

    >>> uniform(np.array([0, 2**63], dtype=np.uint64)).tolist()
    [0.0, 0.5]
    """
    return (np.asarray(words, dtype=np.uint64) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def permutation(words: np.ndarray) -> np.ndarray:
    """The order of the words, equal words by position: argsort of (word, index).

    >>> permutation(np.array([7, 1, 7, 0], dtype=np.uint64)).tolist()
    [3, 1, 0, 2]
    """
    return np.argsort(np.asarray(words, dtype=np.uint64), kind="stable")


class Stream:
    """The random numbers of one sample: `purpose` is a named constant, one per decision.

    A decision that is added later takes a new purpose and leaves the others' numbers alone.

    >>> stream = Stream(stream_key("randbit", 1, "pretrain", 0), index=5)
    >>> bool((stream.words(0, 2) == stream.words(0, 2)).all())
    True
    """

    def __init__(self, key: np.ndarray, index: int, epoch: int = 0):
        self.key, self.index, self.epoch = key, index, epoch

    def words(self, purpose: int, count: int) -> np.ndarray:
        return random_words(self.key, purpose, self.index, self.epoch, count=count)

    def below(self, purpose: int, bound: int, count: int) -> np.ndarray:
        return below(self.words(purpose, count), bound)
