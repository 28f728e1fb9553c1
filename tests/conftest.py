"""What all tests share: a data root of their own, one thread, and the reasons why a test is skipped."""

import os

import pytest


@pytest.fixture(scope="session", autouse=True)
def own_data_root(tmp_path_factory):
    """Nothing is read from or written to the user's data root."""
    before = os.environ.get("SUPPRESSION_BENCH_CACHE")
    os.environ["SUPPRESSION_BENCH_CACHE"] = str(tmp_path_factory.mktemp("data-root"))
    yield
    if before is None:
        del os.environ["SUPPRESSION_BENCH_CACHE"]
    else:
        os.environ["SUPPRESSION_BENCH_CACHE"] = before


def pytest_collection_modifyitems(items):
    """`gpu` tests need a device, `real_data` tests a folder; without them they are skipped and say so."""
    for item in items:
        if "real_data" in item.keywords and not os.environ.get("SUPPRESSION_BENCH_DATA"):
            item.add_marker(pytest.mark.skip(reason="set SUPPRESSION_BENCH_DATA to the folder that holds MNIST/raw/"))
        if "gpu" in item.keywords:
            import torch

            if not torch.cuda.is_available():
                item.add_marker(pytest.mark.skip(reason="no CUDA device"))
