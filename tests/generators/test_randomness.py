"""Named randomness: Random123's known answers, a second writing in plain integers, values that never move.

Many samples at once: word for word those of one sample at a time.
"""

import hashlib
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from generators import dataset as contract
from generators.catalog import dataset
from generators.randomness import (
    Stream,
    Streams,
    below,
    permutation,
    random_words,
    shuffled,
    stream_key,
    uniform,
    words_of_many,
)

MASK = 2**64 - 1
WORDS = st.integers(0, MASK)


def philox(counter: list[int], key: list[int]) -> list[int]:
    """One block of Philox4x64-10, written from the paper."""
    c, k = list(counter), list(key)
    for _ in range(10):
        product_0, product_1 = 0xD2E7470EE14C6C93 * c[0], 0xCA5A826395121157 * c[2]
        c = [(product_1 >> 64) ^ c[1] ^ k[0], product_1 & MASK, (product_0 >> 64) ^ c[3] ^ k[1], product_0 & MASK]
        k = [(k[0] + 0x9E3779B97F4A7C15) & MASK, (k[1] + 0xBB67AE8584CAA73B) & MASK]
    return c


def plain_key(dataset_name: str, version: int, split: str, seed: int) -> list[int]:
    fields = [b"suppression-bench/1", dataset_name.encode(), b"%d" % version, split.encode(), b"%d" % seed]
    digest = hashlib.sha256(b"".join(len(field).to_bytes(8, "little") + field for field in fields)).digest()
    return [int.from_bytes(digest[0:8], "little"), int.from_bytes(digest[8:16], "little")]


def plain_words(key: list[int], stream: int, index: int, epoch: int, count: int) -> list[int]:
    blocks = (philox([1 + block, stream, index, epoch], key) for block in range(-(-count // 4)))
    return [word for block in blocks for word in block][:count]


@pytest.mark.parametrize(
    "counter, key, answer",
    [
        ("0 0 0 0", "0 0", "16554d9eca36314c db20fe9d672d0fdc d7e772cee186176b 7e68b68aec7ba23b"),
        (
            "ffffffffffffffff ffffffffffffffff ffffffffffffffff ffffffffffffffff",
            "ffffffffffffffff ffffffffffffffff",
            "87b092c3013fe90b 438c3c67be8d0224 9cc7d7c69cd777b6 a09caebf594f0ba0",
        ),
        (
            "243f6a8885a308d3 13198a2e03707344 a4093822299f31d0 082efa98ec4e6c89",
            "452821e638d01377 be5466cf34e90c6c",
            "a528f45403e61d95 38c72dbd566e9788 a5a1610e72fd18b5 57bd43b5e52b7fe6",
        ),
    ],
)
def test_random123_known_answers(counter, key, answer):
    counter, key, answer = ([int(word, 16) for word in text.split()] for text in (counter, key, answer))
    assert philox(counter, key) == answer
    # numpy counts before the first block, so it must stand one below.
    whole = (sum(word << 64 * place for place, word in enumerate(counter)) - 1) % 2**256
    before = [whole >> 64 * place & MASK for place in range(4)]
    generator = np.random.Philox(key=np.array(key, dtype=np.uint64), counter=np.array(before, dtype=np.uint64))
    assert generator.random_raw(4).tolist() == answer


AXES = [
    (("randbit", 1, "pretrain", 0), 0, 0, 0),
    (("randbit", 1, "pretrain", 1), 0, 0, 0),
    (("randbit", 2, "pretrain", 0), 0, 0, 0),
    (("randbit", 1, "probe-test", 0), 0, 0, 0),
    (("multidigits", 1, "pretrain", 0), 0, 0, 0),
    (("multidigits", 1, "pretrain", 0), 1, 0, 0),
    (("multidigits", 1, "pretrain", 0), 0, 1, 0),
    (("multidigits", 1, "pretrain", 0), 0, 0, 1),
    (("multidigits", 1, "pretrain", -3), 2, 59_999, 799),
    (("größe", 12, "probe-train-80", 2**70), 2**40, 2**50, 2**63),
    (("multidigits1", 1, "pretrain", 0), 0, 0, 0),
    (("multidigits", 11, "pretrain", 0), 0, 0, 0),
    (("multidigits", 1, "1pretrain", 0), 0, 0, 0),
]


def test_second_writing_of_the_whole_stream():
    seen = set()
    for fields, stream, index, epoch in AXES:
        key, plain = stream_key(*fields), plain_key(*fields)
        assert key.tolist() == plain
        for count in (1, 4, 5, 11):
            words = plain_words(plain, stream, index, epoch, count)
            assert random_words(key, stream, index, epoch, count=count).tolist() == words
        if epoch == 0:
            assert Stream(key, index).words(stream, 11).tolist() == words
            assert Stream(key, index).below(stream, 10, 11).tolist() == [word * 10 >> 64 for word in words]
        assert uniform(np.array(words, dtype=np.uint64)).tolist() == [(word >> 11) / 2**53 for word in words]
        order = sorted(range(11), key=lambda place, words=words: (words[place], place))
        assert permutation(np.array(words, dtype=np.uint64)).tolist() == order
        seen.add(tuple(words))
    assert len(seen) == len(AXES)  # every axis tells


def test_golden_values():
    """These numbers are every published dataset: they never move."""
    assert [hex(word) for word in stream_key("randbit", 1, "pretrain", 0).tolist()] == [
        "0xd7f77917c13af8ac",
        "0x98b97708197c8928",
    ]
    assert [hex(word) for word in stream_key("multidigits", 1, "probe-train-80", 7).tolist()] == [
        "0x87342671df74481d",
        "0x5e42c3bf25bec3d",
    ]
    key = stream_key("randbit", 1, "pretrain", 0)
    words = [
        "0xca4a5fb3395cc48d",
        "0x79e8577a2b34797b",
        "0xc912516a6881dfca",
        "0x46d045fa9f14cda9",
        "0x83239984071c2e82",
    ]
    assert [hex(word) for word in random_words(key, 0, 0, count=5).tolist()] == words
    assert [hex(word) for word in random_words(key, 3, 1234, 5, count=2).tolist()] == [
        "0x674c468842c05fd8",
        "0x728308c5dd5e0086",
    ]
    assert dataset("randbit", {}).sample("pretrain", 0, 0).labels == {"digit": 0, "code": 3393871795}
    places = {
        ("pretrain", 0): ([753, 275], [49, 76], [36, 53]),
        ("pretrain", 1): ([941, 164, 1081], [84, 84, 0], [84, 56, 84]),
        ("probe-test", 0): ([259], [21], [59]),
    }
    for (split, seed), expected in places.items():
        made = dataset("multidigits", {"placement": "grid", "count": 3} if seed else {})
        factors = made.sample(split, 0 if split == "probe-test" else 3, seed).factors
        assert (factors["source"], factors["top"], factors["left"]) == expected


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(WORDS, st.integers(1, 2**32)), min_size=1, max_size=20))
def test_below_is_exact(pairs):
    words, bounds = zip(*pairs, strict=True)
    expected = [word * bound >> 64 for word, bound in pairs]
    assert below(np.array(words, dtype=np.uint64), np.array(bounds, dtype=np.uint64)).tolist() == expected
    assert below(np.array(words, dtype=np.uint64), bounds[0]).tolist() == [word * bounds[0] >> 64 for word in words]


@pytest.mark.parametrize("word", [0, 1, 2**32 - 1, 2**32, 2**63, MASK - 1, MASK])
@pytest.mark.parametrize("bound", [1, 2, 3, 10, 2**31, 2**32 - 1, 2**32])
def test_below_at_the_edges(word, bound):
    assert below(np.array([word], dtype=np.uint64), bound).tolist() == [word * bound >> 64]


@pytest.mark.parametrize("bound", [0, 2**32 + 1])
def test_below_refuses_what_it_cannot_do_exactly(bound):
    with pytest.raises(ValueError, match="bound"):
        below(np.zeros(1, dtype=np.uint64), bound)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.one_of(WORDS, st.integers(0, 3)), max_size=30))
def test_permutation_orders_by_word_then_place(words):
    found = permutation(np.array(words, dtype=np.uint64)).tolist()
    assert found == sorted(range(len(words)), key=lambda place: (words[place], place))


@given(WORDS)
def test_uniform_is_below_one(word):
    value = uniform(np.array([word], dtype=np.uint64))[0]
    assert value == (word >> 11) / 2**53 and 0 <= value < 1


def test_options_leave_the_streams_alone():
    """Two settings are compared on paired draws: the common digits and places are the same ones."""
    two, four = dataset("multidigits", {"count": 2}), dataset("multidigits", {"count": "4", "train": 7})
    grid, sizes = dataset("multidigits", {"placement": "grid"}), dataset("multidigits", {"sizes": [28, 60]})
    for index in range(20):
        a, b, c, d = (made.sample("pretrain", index, 5).factors for made in (two, four, grid, sizes))
        for key in ("source", "size", "top", "left"):
            assert a[key] == b[key][:2]
        assert a["source"] == c["source"] == d["source"]
        assert (a["top"][0], a["left"][0]) == (d["top"][0], d["left"][0])


# Many samples at once

KEY = stream_key("randbit", 1, "pretrain", 0)
BOUNDS = st.one_of(st.none(), st.integers(1, 2**32), st.just("each"))


def test_words_of_many_equal_the_naive_writing():
    fields = ("randbit", 1, "pretrain", 0), ("größe", 12, "probe-train-80", 2**70)
    for plain in ([0, 0], [MASK, MASK], *(plain_key(*one) for one in fields)):
        key = np.array(plain, dtype=np.uint64)
        for stream in (0, 3, 2**40, MASK):
            indices = np.array([0, 1, 59_999, 2**32 - 1, 2**32, 2**63, 2**64 - 1], dtype=np.uint64)
            for count in (1, 4, 5, 11):
                table = words_of_many(key, stream, indices, count)
                assert table.dtype == np.uint64 and table.shape == (len(indices), count)
                for row, index in zip(table.tolist(), indices.tolist(), strict=True):
                    assert row == plain_words(plain, stream, index, 0, count)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 4), st.integers(0, 2**20), st.integers(0, 300), BOUNDS)
def test_rows_equal_streams(start, length, purpose, count, bound):
    bound = tuple(1 + 977 * i for i in range(count)) if bound == "each" else bound
    for one in Streams(KEY, start, start + length):
        alone = Stream(KEY, one.index)
        assert one.words(purpose, count).tolist() == alone.words(purpose, count).tolist()
        if bound is not None:
            found, expected = one.below(purpose, bound, count), alone.below(purpose, bound, count)
            assert found.dtype == expected.dtype and found.tolist() == expected.tolist()


@pytest.mark.parametrize("count", [Streams.MOST_WORDS, Streams.MOST_WORDS + 1, 5000])
def test_many_words_and_many_tables(count):
    streams = Streams(KEY, 5, 8)
    for one in streams:
        alone = Stream(KEY, one.index)
        for purpose in range(Streams.MOST_TABLES + 4):
            assert np.array_equal(one.below(purpose, 7, 3), alone.below(purpose, 7, 3))
        assert np.array_equal(one.words(0, count), alone.words(0, count))
        assert np.array_equal(one.below(1, 9, count), alone.below(1, 9, count))
    assert len(streams.tables) == Streams.MOST_TABLES
    assert one.key is KEY and [s.index for s in streams] == [5, 6, 7]


@pytest.mark.parametrize("bound", [[3, 5], np.array([3, 5]), (3, 5), np.int64(4), 4], ids=repr)
def test_bounds_of_any_kind(bound):
    for one in Streams(KEY, 0, 3):
        assert one.below(2, bound, 2).tolist() == Stream(KEY, one.index).below(2, bound, 2).tolist()


@pytest.mark.parametrize("bound", [0, 2**32 + 1, (3, 0)])
def test_impossible_bounds_are_refused_alike(bound):
    [row] = Streams(KEY, 0, 1)
    for one in (row, Stream(KEY, 0)):
        with pytest.raises(ValueError, match="bound"):
            one.below(0, bound, 2)


def test_what_a_dataset_writes_into_its_numbers_does_not_leak():
    streams = list(Streams(KEY, 0, 3))
    for one in streams:
        for numbers in (one.words(0, 4), one.below(1, 9, 4)):
            numbers[:] = 0
    for one in streams:
        assert one.words(0, 4).tolist() == Stream(KEY, one.index).words(0, 4).tolist() != [0, 0, 0, 0]
        assert one.below(1, 9, 4).tolist() == Stream(KEY, one.index).below(1, 9, 4).tolist()


def same(one, other) -> bool:
    fields = one.index == other.index and one.labels == other.labels and one.factors == other.factors
    return fields and np.array_equal(one.image, other.image)


DATASETS = [
    ("randbit", {}),
    ("randbit", {"image_source": "leaves", "image_size": 16}),
    ("multidigits", {"count": 5}),
    ("multidigits", {"sizes": [20, 80]}),
    ("multidigits", {"count": 9, "placement": "grid", "distinct": "instances"}),
    ("multidigits", {"count": 300, "distinct": "instances"}),
    ("multidigits", {"distinct": "classes", "count": 4}),
    ("digit-on-imagenet", {"image_size": 32}),
    ("digit-on-imagenet", {"image_size": 32, "digits": "redraw", "rounds": 3, "unique_digits": 7, "blend": "add"}),
]


@pytest.mark.parametrize("name, options", DATASETS, ids=str)
def test_samples_equal_one_by_one_and_any_range_stands_alone(name, options):
    made = dataset(name, options)
    for split, count in made.splits.items():
        whole = list(made.samples(split, 0, 12, 4))
        assert [sample.index for sample in whole] == list(range(12))
        assert all(same(sample, made.sample(split, sample.index, 4)) for sample in whole)
        assert all(map(same, made.samples(split, 5, 9, 4), whole[5:9]))
        assert list(made.samples(split, 7, 7, 4)) == []
        [last] = made.samples(split, count - 1, count, 4)
        assert same(last, made.sample(split, count - 1, 4)) and last.index == count - 1


def test_long_ranges_go_on_where_the_first_numbers_end(monkeypatch):
    made = dataset("multidigits", {"count": 3})
    whole = list(made.samples("pretrain", 0, 23, 0))
    for together in (1, 5, 23):
        monkeypatch.setattr(contract, "TOGETHER", together)
        assert all(map(same, made.samples("pretrain", 0, 23, 0), whole))
        assert sum(1 for _ in made.samples("pretrain", 0, 23, 0)) == 23


def test_a_huge_shard_takes_no_more_memory_than_a_small_one():
    made = dataset("multidigits", {"count": 100})
    tracemalloc.start()
    next(made.samples("pretrain", 0, 10**12, 0))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100e6


def test_shuffled_is_the_order_of_the_words():
    for turn in (0, 1, 7):
        words = random_words(KEY, 2, 0, turn, count=50).tolist()
        found = shuffled(KEY.tobytes(), 2, turn, 50).tolist()
        assert found == sorted(range(50), key=lambda place, words=words: (words[place], place))
    assert shuffled(KEY.tobytes(), 2, 0, 50).tolist() != shuffled(KEY.tobytes(), 3, 0, 50).tolist()
