"""L-BFGS for many multinomial logistic regressions that share their features: every pass over these serves them all."""

import itertools
from typing import NamedTuple

import torch
from torch import Tensor

# P problems on one matrix of features X (N, D); problem p has labels Y_p (N,) of C_p classes and a ridge penalty l2_p.
# Its weights W_p (D + 1, C_p) have the bias in the last row, which is not penalised. They lie side by side in one
# (D + 1, K) matrix, K = sum of C_p; `owner` (K,) says which problem a column belongs to.
#     f_p(W_p)   = mean over n of CE([x_n 1] W_p, Y_pn) + l2_p / 2 |W_p but its bias|^2
#     gradient_p = [X 1]' (softmax([X 1] W_p) - onehot(Y_p)) / N + l2_p W_p but its bias:     one product for all K columns
# One step (Nocedal & Wright, 2006, Algorithms 7.4 and 7.5) is every problem's own, only the passes over X are shared:
#     direction  -H gradient, H the two loops over the last m pairs (s, y) = (moves of W, changes of the gradient) with
#                rho = 1 / s.y, started at the scale s.y / y.y; the negative gradient where that does not descend
#     length     1 (in the first step 1 / |gradient|, if less), halved until f falls by 1e-4 length gradient.direction
#     end        the largest entry of the gradient is within the tolerance: the problem leaves the product

# With many samples a longer memory saves a third of the passes over them; with few it costs more than a pass.
HISTORY, LONG_HISTORY, MANY = 10, 60, 10_000
SUFFICIENT, HALVINGS = 1e-4, 25  # Armijo's constant, and how often a length is halved at most
# Entries of the logits at a time: on a CPU they stay in the cache, and the memory does not grow with the samples.
ENTRIES = {"cpu": 2**18, "cuda": 2**26}


class Problem(NamedTuple):
    """One regression: labels (N,) int64 of the rows it is fitted on, number of classes, L2 strength."""

    labels: Tensor
    classes: int
    l2: float


class Solution(NamedTuple):
    """Weights (D + 1, classes), the bias in the last row, and whether the gradient got below the tolerance."""

    weights: Tensor
    converged: bool


def fit(
    features: Tensor,
    problems: list[Problem],
    *,
    tolerance: float | None = None,
    iterations: int = 1000,
    start: list[Tensor] | None = None,
) -> list[Solution]:
    """Minimise every problem's objective.

    Arguments:
        features, problems: (N, D), standardised, and what to fit on them.
        tolerance: on the gradient (default: l2 / 30, at most 1e-4, since no early end must take a weak L2's place).
        iterations: at most.
        start: one (D + 1, classes) matrix of weights for each problem (default: zeros). The minimum is the same.

    >>> [solution] = fit(torch.tensor([[-1.0], [1.0]]), [Problem(torch.tensor([0, 1]), 2, 0.1)])
    >>> solution.converged, (solution.weights[0] > 0).tolist()
    (True, [False, True])
    """
    descent = Descent(features, problems, tolerance, start)
    for _ in range(iterations):
        if descent.numbers:
            descent.step()
    descent.finish(torch.ones(len(descent.numbers), dtype=torch.bool, device=features.device))
    return [descent.solutions[number] for number in range(len(problems))]


class Objective:
    """Values and gradients of problems on the same features, from all their weights side by side."""

    def __init__(self, features: Tensor, problems: list[Problem]):
        self.features, self.problems, device = features, list(problems), features.device
        self.owner = torch.cat([torch.full((problem.classes,), i) for i, problem in enumerate(problems)]).to(device)
        self.l2 = torch.tensor([problem.l2 for problem in problems], device=device, dtype=features.dtype)
        self.rows = max(256, ENTRIES.get(device.type, 2**20) // len(self.owner))
        # Problems with the same number of classes, next to each other, are one (N, problems, classes) block.
        self.blocks, start = [], 0
        for classes, group in itertools.groupby(problems, key=lambda problem: problem.classes):
            labels = torch.stack([problem.labels.to(device) for problem in group], dim=1)[:, :, None]
            self.blocks.append((slice(start, start + labels.shape[1] * classes), classes, labels))
            start += labels.shape[1] * classes

    def part(self, which: Tensor) -> "Objective":
        """The problems with a True in (P,) `which`, alone."""
        return Objective(self.features, [self.problems[i] for i in which.nonzero()[:, 0].tolist()])

    def __call__(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """(D + 1, K) weights -> values (P,) and gradients (D + 1, K)."""
        # Columns first: with few of them, BLAS is several times faster at residuals^T X than at X^T residuals.
        entropies, gradient = [], weights.new_zeros(weights.shape[::-1])
        for start in range(0, len(self.features), self.rows):
            rows, sums = slice(start, start + self.rows), []
            logits = torch.addmm(weights[-1], self.features[rows], weights[:-1])
            for columns, classes, labels in self.blocks:  # cross entropies; residuals, written over the logits
                block = logits[:, columns].unflatten(1, (-1, classes))
                block -= block.amax(2, keepdim=True)
                true = block.gather(2, labels[rows])
                block.exp_()
                total = block.sum(2, keepdim=True)
                sums.append((total.log() - true).sum(0)[:, 0])
                block.div_(total).scatter_add_(2, labels[rows], -torch.ones_like(total))
            entropies.append(torch.cat(sums))
            gradient[:, :-1].addmm_(logits.T, self.features[rows])
            gradient[:, -1] += logits.sum(0)
        penalised = weights.clone()
        penalised[-1] = 0
        value = torch.stack(entropies).sum(0) / len(self.features) + self.l2 / 2 * self.dot(penalised, penalised)
        return value, gradient.T.contiguous() / len(self.features) + self.l2[self.owner] * penalised

    def dot(self, a: Tensor, b: Tensor) -> Tensor:
        """(P,) inner products of each problem's columns."""
        columns = (a * b).sum(0)
        return columns.new_zeros(len(self.problems)).index_add_(0, self.owner, columns)

    def largest(self, gradient: Tensor) -> Tensor:
        """(P,) largest absolute entries of each problem's columns."""
        columns = gradient.abs().amax(0)
        return columns.new_zeros(len(self.problems)).scatter_reduce_(0, self.owner, columns, "amax")


class Descent:
    """Where the minimisation of the unfinished problems stands; `numbers` are their indices among all problems."""

    def __init__(self, features: Tensor, problems: list[Problem], tolerance: float | None, start: list[Tensor] | None):
        limit = [min(1e-4, problem.l2 / 30) if tolerance is None else tolerance for problem in problems]
        self.limit = torch.tensor(limit, device=features.device, dtype=features.dtype)
        self.numbers, self.objective = list(range(len(problems))), Objective(features, problems)
        start = start or [features.new_zeros(features.shape[1] + 1, problem.classes) for problem in problems]
        self.weights = torch.cat([weights.to(features) for weights in start], dim=1)
        self.value, self.gradient = self.objective(self.weights)
        self.pairs: list[tuple[Tensor, Tensor, Tensor]] = []  # (s, y, rho), newest last
        self.scale = torch.ones_like(self.value)
        self.memory = LONG_HISTORY if len(features) >= MANY else HISTORY
        self.solutions: dict[int, Solution] = {}
        self.finish(self.objective.largest(self.gradient) <= self.limit)

    def step(self) -> None:
        """One step of every unfinished problem."""
        dot, owner = self.objective.dot, self.objective.owner
        direction = -self._two_loops()
        slope = dot(self.gradient, direction)
        direction = torch.where((slope >= 0)[owner], -self.gradient, direction)
        slope = torch.where(slope >= 0, dot(self.gradient, -self.gradient), slope)
        length = torch.ones_like(self.value)
        if not self.pairs:
            length = 1 / dot(self.gradient, self.gradient).sqrt().clamp(min=1)
        position = self.weights, self.value, self.gradient
        weights, value, gradient, moved = _search(self.objective, *position, direction, slope, length)
        moves, change = weights - self.weights, gradient - self.gradient
        curvature, size = dot(moves, change), dot(change, change).clamp(min=1e-30)
        good = curvature > 1e-10 * size
        self.scale = torch.where(good, curvature / size, self.scale)
        rho = torch.where(good, 1 / curvature.clamp(min=1e-30), torch.zeros_like(curvature))
        self.pairs = [*self.pairs[-(self.memory - 1) :], (moves, change, rho)]
        self.weights, self.value, self.gradient = weights, value, gradient
        self.finish((self.objective.largest(gradient) <= self.limit) | ~moved)

    def _two_loops(self) -> Tensor:
        dot, owner = self.objective.dot, self.objective.owner
        direction, alphas = self.gradient, []
        for moves, change, rho in reversed(self.pairs):
            alphas.append(rho * dot(moves, direction))
            direction = direction - alphas[-1][owner] * change
        direction = direction * self.scale[owner]
        for (moves, change, rho), alpha in zip(self.pairs, reversed(alphas), strict=True):
            direction = direction + (alpha - rho * dot(change, direction))[owner] * moves
        return direction

    def finish(self, which: Tensor) -> None:
        """Keep the solutions of the problems with a True in (P,) `which`; the others go on alone, which is faster."""
        if not bool(which.any()):
            return
        converged, owner = (self.objective.largest(self.gradient) <= self.limit).tolist(), self.objective.owner
        for i in which.nonzero()[:, 0].tolist():
            self.solutions[self.numbers[i]] = Solution(self.weights[:, owner == i].clone(), converged[i])
        self.numbers = [number for number in self.numbers if number not in self.solutions]
        if self.numbers:
            rest, columns = ~which, ~which[owner]
            self.objective = self.objective.part(rest)
            self.weights, self.gradient = self.weights[:, columns], self.gradient[:, columns]
            self.pairs = [(moves[:, columns], change[:, columns], rho[rest]) for moves, change, rho in self.pairs]
            self.value, self.scale, self.limit = self.value[rest], self.scale[rest], self.limit[rest]


def _search(objective, weights, value, gradient, direction, slope, length, halvings=HALVINGS):
    # Backtracking for all problems at once: those that have not decreased enough halve their step, without the others.
    slack = 1e-6 * value.abs().clamp(min=1e-6)  # float32 cannot see smaller decreases
    trial = weights + length[objective.owner] * direction
    new_value, new_gradient = objective(trial)
    enough = new_value <= value + SUFFICIENT * length * slope + slack
    if not bool(enough.all()):
        short, columns = ~enough, ~enough[objective.owner]
        again = weights[:, columns], value[short], gradient[:, columns], torch.zeros_like(enough[short])
        if halvings > 1:
            along = direction[:, columns], slope[short], length[short] / 2
            again = _search(objective.part(short), *again[:3], *along, halvings - 1)
        trial[:, columns], new_value[short], new_gradient[:, columns], enough[short] = again
    return trial, new_value, new_gradient, enough
