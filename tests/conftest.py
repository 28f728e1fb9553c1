"""What all tests share: a cache of their own, one torch thread, small datasets, and the reasons why a test is skipped."""

import os
from functools import lru_cache

import pytest
import torch
from small_cells import make_data

from suppression_bench.leaderboard import sandbox
from suppression_bench.training.data import Data


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory):
    """Nothing is read from or written to the user's data root; tiny tensors on one thread."""
    root = tmp_path_factory.mktemp("cache")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SUPPRESSION_BENCH_CACHE", str(root))
        yield root
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def randbit(cache, tmp_path_factory):
    """RandBit over the embedded digits: 200 to train, 100 to test."""
    return make_data("randbit", tmp_path_factory.mktemp("randbit"), train=200, test=100)


@pytest.fixture(scope="session")
def sizes(cache, tmp_path_factory):
    """MultiDigits of two sizes on a small canvas; its target is a set of classes."""
    options = dict(sizes=[12, 20], canvas=32, train=60, probe_train=60, probe_test=40)
    return make_data("multidigits", tmp_path_factory.mktemp("sizes"), **options)


@pytest.fixture
def four_bits(randbit):
    """The RandBit data opened with 4 bits."""
    return Data(randbit, 4)


@pytest.fixture
def mnist_folder():
    """The folder that holds MNIST/raw/."""
    folder = os.environ.get("SUPPRESSION_BENCH_DATA")
    if not folder:
        pytest.skip("needs the real MNIST: set SUPPRESSION_BENCH_DATA to the folder that holds MNIST/raw/")
    return folder


@pytest.fixture
def cuda():
    """A CUDA device."""
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device, torch sees none here")
    return torch.device("cuda")


@lru_cache(maxsize=1)
def sandbox_fault() -> str:
    """Why bubblewrap makes no sandbox here, "" where it does."""
    return sandbox.fault()


def pytest_collection_modifyitems(items):
    """`gpu` tests need a device, `real_data` tests a folder, `sandbox` tests bubblewrap; without them they skip by name."""
    for item in items:
        if "slow" not in item.keywords:
            item.add_marker("fast")
        if "real_data" in item.keywords and not os.environ.get("SUPPRESSION_BENCH_DATA"):
            item.add_marker(pytest.mark.skip(reason="set SUPPRESSION_BENCH_DATA to the folder that holds MNIST/raw/"))
        if "sandbox" in item.keywords and (reason := sandbox_fault()):
            item.add_marker(pytest.mark.skip(reason=f"no sandbox: {reason}"))
        if "gpu" in item.keywords and not torch.cuda.is_available():
            item.add_marker(pytest.mark.skip(reason="no CUDA device"))
