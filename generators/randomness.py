"""Random numbers as pure functions of named axes: the only place where randomness is born."""

import hashlib
from collections.abc import Hashable
from functools import lru_cache

import numpy as np

# Every number of the data path hangs on these constants: a change here is a new suite.
DOMAIN = "suppression-bench/1"
LOW, HALF = np.uint64(0xFFFFFFFF), np.uint64(32)  # a word's lower half, and how far its upper half is shifted


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


def below(words: np.ndarray, bound: int | tuple[int, ...] | np.ndarray) -> np.ndarray:
    """Integers in [0, bound) from 64-bit words: (word * bound) >> 64, exact for bounds up to 2^32.

    >>> below(np.array([0, 2**63, 2**64 - 1], dtype=np.uint64), 10).tolist()
    [0, 5, 9]
    """
    words = np.asarray(words, dtype=np.uint64)
    bounds = np.asarray(bound, dtype=np.uint64)
    if np.any(bounds < 1) or np.any(bounds > 2**32):
        raise ValueError(f"bound must lie in 1..2^32, got {bound}")
    high, low = words >> HALF, words & LOW
    return ((high * bounds + ((low * bounds) >> HALF)) >> HALF).astype(np.int64)


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


@lru_cache(maxsize=16)
def shuffled(key: bytes, purpose: int, turn: int, count: int) -> np.ndarray:
    """The `turn`-th shuffle of 0..count-1 of a split, so that drawing by it uses each once before any again.

    Arguments:
        key: the split's key, as bytes.
        purpose: the named constant of the decision.
        turn: how often all have been used before.
        count: how many there are.

    >>> sorted(shuffled(stream_key("randbit", 1, "pretrain", 0).tobytes(), 9, 0, 4).tolist())
    [0, 1, 2, 3]
    """
    return permutation(random_words(np.frombuffer(key, dtype=np.uint64), purpose, 0, turn, count=count))


class Stream:
    """The random numbers of one sample: `purpose` is a named constant, one per decision.

    A decision that is added later takes a new purpose and leaves the others' numbers alone.

    >>> stream = Stream(stream_key("randbit", 1, "pretrain", 0), index=5)
    >>> bool((stream.words(0, 2) == stream.words(0, 2)).all())
    True
    """

    def __init__(self, key: np.ndarray, index: int):
        self.key, self.index = key, index

    def words(self, purpose: int, count: int) -> np.ndarray:
        """`count` 64-bit words."""
        return random_words(self.key, purpose, self.index, count=count)

    def below(self, purpose: int, bound: int | tuple[int, ...], count: int) -> np.ndarray:
        """`count` integers in [0, bound), or below each of `count` bounds."""
        return below(self.words(purpose, count), bound)


class Streams:
    """The streams of consecutive samples, whose numbers are computed for all of them at once.

    The numbers are those of `Stream`, word for word; asking for them costs a hundredth.

    >>> key = stream_key("randbit", 1, "pretrain", 0)
    >>> [bool((stream.words(0, 5) == Stream(key, stream.index).words(0, 5)).all()) for stream in Streams(key, 7, 9)]
    [True, True]
    """

    MOST_WORDS, MOST_TABLES = 256, 16  # above that a table would cost more memory than it saves time

    def __init__(self, key: np.ndarray, start: int, stop: int):
        self.key, self.start, self.stop, self.tables = key, start, stop, {}

    def __iter__(self):
        return (_RowStream(self, index) for index in range(self.start, self.stop))

    def row(self, index: int, purpose: int, count: int, bound=None) -> np.ndarray | None:
        """The numbers of a sample, or None where no table is worth it."""
        table = self.tables.get((purpose, count, bound))
        if table is None:
            if count > self.MOST_WORDS or len(self.tables) >= self.MOST_TABLES:
                return None
            table = words_of_many(self.key, purpose, np.arange(self.start, self.stop, dtype=np.uint64), count)
            table = table if bound is None else below(table, bound)
            self.tables[purpose, count, bound] = table
        return table[index - self.start].copy()  # a dataset may write into what it gets


class _RowStream(Stream):
    def __init__(self, streams: Streams, index: int):
        super().__init__(streams.key, index)
        self.streams = streams

    def words(self, purpose, count):
        row = self.streams.row(self.index, purpose, count)
        return super().words(purpose, count) if row is None else row

    def below(self, purpose, bound, count):
        # A list or an array of bounds cannot name a table.
        row = self.streams.row(self.index, purpose, count, bound) if isinstance(bound, Hashable) else None
        return super().below(purpose, bound, count) if row is None else row


MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
KEY_STEPS = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)


def words_of_many(key: np.ndarray, stream: int, indices: np.ndarray, count: int) -> np.ndarray:
    """`random_words` of many samples at once: (len(indices), count) uint64, Philox4x64-10 written out in numpy.

    Reference: Salmon, Moraes, Dror & Shaw (SC 2011), section 3.3; tested against numpy's generator word for word.

    >>> key = stream_key("randbit", 1, "pretrain", 0)
    >>> bool((words_of_many(key, 3, np.array([9], dtype=np.uint64), 6)[0] == random_words(key, 3, 9, count=6)).all())
    True
    """
    blocks = -(-count // 4)
    shape = (len(indices), blocks)
    first = np.broadcast_to(np.arange(1, blocks + 1, dtype=np.uint64), shape)  # numpy counts before the first block
    second = np.full(shape, stream, dtype=np.uint64)
    third = np.broadcast_to(np.asarray(indices, dtype=np.uint64)[:, None], shape)
    fourth = np.zeros(shape, dtype=np.uint64)
    keys = [int(word) for word in key]
    for _ in range(10):
        high0, low0 = _product(first, MULTIPLIERS[0])
        high1, low1 = _product(third, MULTIPLIERS[1])
        first, second = high1 ^ second ^ np.uint64(keys[0]), low1
        third, fourth = high0 ^ fourth ^ np.uint64(keys[1]), low0
        keys = [(word + step) % 2**64 for word, step in zip(keys, KEY_STEPS, strict=True)]
    return np.stack([first, second, third, fourth], axis=2).reshape(len(indices), -1)[:, :count]


def _product(words: np.ndarray, factor: int) -> tuple[np.ndarray, np.ndarray]:
    # The high and low 64 bits of words * factor, from products of 32-bit halves.
    low, high = words & LOW, words >> HALF
    factor_low, factor_high = np.uint64(factor & 0xFFFFFFFF), np.uint64(factor >> 32)
    first, second = low * factor_high, high * factor_low
    middle = ((low * factor_low) >> HALF) + (first & LOW) + (second & LOW)
    return high * factor_high + (first >> HALF) + (second >> HALF) + (middle >> HALF), words * np.uint64(factor)
