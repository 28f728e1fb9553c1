"""Values and gradients of many multinomial logistic regressions on the same features at once."""

import itertools
from dataclasses import dataclass

import torch
from torch import Tensor

# Entries of the logits at a time: on a CPU they stay in the cache, and the memory does not grow with the samples.
ENTRIES = {"cpu": 2**18, "cuda": 2**26}


@dataclass(frozen=True)
class Problem:
    """One regression: labels (N,) int64 of the rows it is fitted on, number of classes, L2 strength."""

    labels: Tensor
    classes: int
    l2: float


class Objective:
    """Mean cross entropy + l2 / 2 ||W||^2 (bias free) of P problems, whose K columns of weights lie side by side.

    Arguments:
        features: (N, D).
        problems: labels of length N each; `owner` (K,) says which problem a column of the weights belongs to.
    """

    def __init__(self, features: Tensor, problems: list[Problem]):
        self.features, self.problems, self.count, device = features, list(problems), len(problems), features.device
        self.owner = torch.cat([torch.full((problem.classes,), i) for i, problem in enumerate(problems)]).to(device)
        self.l2 = torch.tensor([p.l2 for p in problems], device=device, dtype=features.dtype)
        self.rows = max(256, ENTRIES.get(device.type, 2**20) // len(self.owner))
        # Problems with the same number of classes, next to each other, are one (N, problems, classes) block.
        self.blocks, start = [], 0
        for classes, group in itertools.groupby(problems, key=lambda problem: problem.classes):
            labels = torch.stack([problem.labels.to(device) for problem in group], dim=1)[:, :, None]
            self.blocks.append((start, labels.shape[1], classes, labels))
            start += labels.shape[1] * classes

    def part(self, which: Tensor) -> "Objective":
        """The problems with a True in (P,) `which`, alone."""
        return Objective(self.features, [self.problems[i] for i in which.nonzero()[:, 0].tolist()])

    def __call__(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """(D + 1, K) weights -> values (P,) and gradients (D + 1, K)."""
        # Columns first: with few of them, BLAS is several times faster at residuals^T X than at X^T residuals.
        values, gradient = [], weights.new_zeros(weights.shape[::-1])
        for start in range(0, len(self.features), self.rows):
            rows = slice(start, start + self.rows)
            found, residuals = self._losses(rows, weights)
            values.append(found)
            gradient[:, :-1].addmm_(residuals.T, self.features[rows])
            gradient[:, -1] += residuals.sum(0)
        penalised = weights.clone()
        penalised[-1] = 0
        value = torch.stack(values).sum(0) / len(self.features) + self.l2 / 2 * self.dot(penalised, penalised)
        return value, gradient.T.contiguous() / len(self.features) + self.l2[self.owner] * penalised

    def _losses(self, rows: slice, weights: Tensor) -> tuple[Tensor, Tensor]:
        # Sums of cross entropy (P,) and predicted shares minus one-hot labels (rows, K).
        logits = torch.addmm(weights[-1], self.features[rows], weights[:-1])
        values = []
        for start, copies, classes, labels in self.blocks:
            block = logits[:, start : start + copies * classes].unflatten(1, (copies, classes))
            block -= block.amax(2, keepdim=True)
            right = block.gather(2, labels[rows])
            block.exp_()
            total = block.sum(2, keepdim=True)
            values.append((total.log() - right).sum(0)[:, 0])
            block.div_(total).scatter_add_(2, labels[rows], -torch.ones_like(total))
        return torch.cat(values), logits

    def dot(self, a: Tensor, b: Tensor) -> Tensor:
        """(P,) inner products of each problem's columns."""
        columns = (a * b).sum(0)
        return columns.new_zeros(self.count).index_add_(0, self.owner, columns)

    def largest(self, gradient: Tensor) -> Tensor:
        """(P,) largest absolute entries of each problem's columns."""
        columns = gradient.abs().amax(0)
        return columns.new_zeros(self.count).scatter_reduce_(0, self.owner, columns, "amax")
