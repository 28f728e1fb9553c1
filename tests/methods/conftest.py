"""What tests of methods share: batches of a dataset's first samples."""

import pytest
import torch

from suppression_bench.method import Batch


@pytest.fixture
def batch_of():
    """A function: (data, method, count) -> the batch of the first samples, whole; the second view is mirrored."""

    def batch(data, method, count=8):
        whole = data.samples("pretrain").whole(slice(0, count))
        views = [whole, whole.flip(3)][: method.views]
        labels = None
        if method.needs_labels:
            labels = {name: torch.from_numpy(data.labels("pretrain", name)[:count]) for name in data.targets()}
        return Batch(views, torch.arange(count), labels)

    return batch
