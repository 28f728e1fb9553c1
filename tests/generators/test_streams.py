"""Random numbers of many samples at once: word for word those of one sample at a time."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_randomness import philox, plain_key, plain_words

from generators import dataset as contract
from generators.catalog import dataset
from generators.randomness import Stream, Streams, random_words, shuffled, stream_key, words_of_many

KEY = stream_key("randbit", 1, "pretrain", 0)
BOUNDS = st.one_of(st.none(), st.integers(1, 2**32), st.just("each"))


def test_random123_known_answers():
    """Random123 vouches for the second writing (see test_randomness), and that one for blocks at the edges."""
    key = np.array([0, 0], dtype=np.uint64)
    assert philox([0, 0, 0, 0], [0, 0])[0] == 0x16554D9ECA36314C  # the second writing is right
    found = words_of_many(key, 0, np.array([0], dtype=np.uint64), 4)[0]
    assert found.tolist() == philox([1, 0, 0, 0], [0, 0])
    most = 2**64 - 1
    found = words_of_many(np.array([most, most], dtype=np.uint64), most, np.array([most], dtype=np.uint64), 4)[0]
    assert found.tolist() == philox([1, most, most, 0], [most, most])


def test_words_of_many_equal_the_naive_writing():
    for fields in (("randbit", 1, "pretrain", 0), ("größe", 12, "probe-train-80", 2**70)):
        key, plain = stream_key(*fields), plain_key(*fields)
        for stream in (0, 3, 2**40):
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
    assert one.key is KEY and one.epoch == 0 and [s.index for s in streams] == [5, 6, 7]


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
