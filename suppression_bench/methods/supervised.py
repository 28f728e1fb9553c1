"""Supervised learning: the ceiling, one linear classifier per target on the encoder."""

from torch import nn
from torch.nn import functional as F

from suppression_bench.encoder import Encoder
from suppression_bench.method import Batch, Info, Method, Output


class Supervised(Method):
    """Cross entropy on one augmented view, summed over the targets; a set of classes is one binary choice per class.

    The ceiling of the suite: it is told about every competing feature (on RandBit the digit and each bit).
    """

    needs_labels = True
    views = 1

    def __init__(self, encoder: Encoder, info: Info):
        super().__init__(encoder, info)
        self.heads = nn.ModuleDict({name: nn.Linear(encoder.width, t.classes) for name, t in info.targets.items()})

    def loss(self, batch: Batch) -> Output:
        features, labels = self.encoder(batch.views[0]), batch.labels or {}
        total = features.new_zeros((), dtype=features.dtype)
        for name, target in self.info.targets.items():
            logits = self.heads[name](features).float()
            if target.many:
                total = total + F.binary_cross_entropy_with_logits(logits, labels[name])
            else:
                total = total + F.cross_entropy(logits, labels[name])
        return Output(total, features)
