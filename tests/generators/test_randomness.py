"""Named randomness: Random123's known answers, a second writing in plain integers, values that never move."""

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from generators.catalog import dataset
from generators.randomness import Stream, below, permutation, random_words, stream_key, uniform

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
        assert Stream(key, index, epoch).words(stream, 11).tolist() == words
        assert Stream(key, index, epoch).below(stream, 10, 11).tolist() == [word * 10 >> 64 for word in words]
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
