"""Many multinomial logistic regressions on the same features at once, by limited-memory BFGS."""

import itertools
from dataclasses import dataclass

import torch
from torch import Tensor

HISTORY = 10
SUFFICIENT = 1e-4  # Armijo's constant
HALVINGS = 25


@dataclass(frozen=True)
class Problem:
    """One regression: labels (N,) int64 of the rows it is fitted on, number of classes, L2 strength."""

    labels: Tensor
    classes: int
    l2: float


@dataclass(frozen=True)
class Solution:
    """Weights (D + 1, classes), the bias in the last row, and whether the gradient got below the tolerance."""

    weights: Tensor
    converged: bool


def fit(
    features: Tensor, problems: list[Problem], *, tolerance: float | None = None, iterations: int = 1000
) -> list[Solution]:
    """Minimise mean cross entropy + l2 / 2 ||W||^2 (bias free) for every problem, from zero.

    Reference: Nocedal & Wright (2006), Algorithms 7.4 and 7.5, with backtracking. The problems share each pass over
    the features, yet every one has its own history, step length and end.

    Arguments:
        features: (N, D), standardised.
        problems: what to fit, labels of length N each.
        tolerance: on the largest absolute entry of the gradient (default: a thirtieth of the problem's l2, at most 1e-4,
            since a weak L2 must not be replaced by an early end).
        iterations: at most.

    >>> x = torch.tensor([[-1.0], [1.0]])
    >>> [solution] = fit(x, [Problem(torch.tensor([0, 1]), 2, 0.1)])
    >>> solution.converged, (x @ solution.weights[:-1]).argmax(1).tolist()
    (True, [0, 1])
    """
    state = _State(torch.cat([features, features.new_ones(len(features), 1)], dim=1), problems, tolerance)
    solutions: dict[int, Solution] = {}
    for _ in range(iterations):
        if 2 * int(state.done.sum()) >= len(state.done):
            state.part_with_done(solutions)
        if not state.numbers:
            break
        state.step()
    if state.numbers:
        state.done[:] = True
        state.part_with_done(solutions)
    return [solutions[number] for number in range(len(problems))]


class _State:
    """Where the minimisation of all unfinished problems stands."""

    def __init__(self, design: Tensor, problems: list[Problem], tolerance: float | None):
        self.problems, self.numbers = list(problems), list(range(len(problems)))
        limit = [min(1e-4, problem.l2 / 30) if tolerance is None else tolerance for problem in problems]
        self.limit = torch.tensor(limit, device=design.device, dtype=design.dtype)
        self.objective = _Objective(design, problems)
        self.weights = design.new_zeros(design.shape[1], len(self.objective.owner))
        self.value, self.gradient = self.objective(self.weights)
        self.history: list[tuple[Tensor, Tensor, Tensor]] = []  # (s, y, rho), newest last
        self.scale = torch.ones_like(self.value)
        self.done = self.objective.largest(self.gradient) <= self.limit

    def step(self) -> None:
        """One step of every unfinished problem."""
        objective, owner = self.objective, self.objective.owner
        direction = -_two_loop(self.gradient, self.history, self.scale, objective) * ~self.done[owner]
        slope = objective.dot(self.gradient, direction)
        steepest = -self.gradient * ~self.done[owner]
        direction = torch.where((slope >= 0)[owner], steepest, direction)
        slope = torch.where(slope >= 0, objective.dot(self.gradient, steepest), slope)
        length = torch.ones_like(self.value)
        if not self.history:
            length = 1 / objective.dot(self.gradient, self.gradient).sqrt().clamp(min=1)
        weights, value, gradient, moved = _search(
            objective, self.weights, self.value, self.gradient, direction, slope, length
        )
        moves, change = weights - self.weights, gradient - self.gradient
        curvature, size = objective.dot(moves, change), objective.dot(change, change).clamp(min=1e-30)
        good = curvature > 1e-10 * size
        self.scale = torch.where(good, curvature / size, self.scale)
        rho = torch.where(good, 1 / curvature.clamp(min=1e-30), torch.zeros_like(curvature))
        self.history = [*self.history[-(HISTORY - 1) :], (moves, change, rho)]
        self.weights, self.value, self.gradient = weights, value, gradient
        self.done = self.done | (objective.largest(gradient) <= self.limit) | ~moved

    def part_with_done(self, solutions: dict[int, Solution]) -> None:
        """Hand over the finished problems' solutions and go on with the others alone, which is faster."""
        converged = (self.objective.largest(self.gradient) <= self.limit).tolist()
        owner, keep = self.objective.owner, ~self.done
        for position, finished in enumerate(self.done.tolist()):
            if finished:
                found = Solution(self.weights[:, owner == position].clone(), converged[position])
                solutions[self.numbers[position]] = found
        kept = keep.nonzero()[:, 0].tolist()
        self.problems, self.numbers = [self.problems[i] for i in kept], [self.numbers[i] for i in kept]
        if not kept:
            return
        columns = keep[owner]
        self.weights, self.gradient = self.weights[:, columns], self.gradient[:, columns]
        self.history = [(s[:, columns], y[:, columns], rho[keep]) for s, y, rho in self.history]
        self.value, self.scale, self.limit, self.done = (
            x[keep] for x in (self.value, self.scale, self.limit, self.done)
        )
        self.objective = _Objective(self.objective.design, self.problems)


class _Objective:
    """Values (P,) and gradients (D + 1, K) of all problems; K columns, each owned by one problem."""

    def __init__(self, design: Tensor, problems: list[Problem]):
        self.design, self.count = design, len(problems)
        owner = torch.cat([torch.full((problem.classes,), i) for i, problem in enumerate(problems)])
        self.owner = owner.to(design.device)
        self.l2 = torch.tensor([p.l2 for p in problems], device=design.device, dtype=design.dtype)
        # Problems with the same number of classes, next to each other, are one (N, problems, classes) block.
        self.blocks, start = [], 0
        for classes, group in itertools.groupby(problems, key=lambda problem: problem.classes):
            labels = torch.stack([problem.labels.to(design.device) for problem in group], dim=1)[:, :, None]
            self.blocks.append((start, labels.shape[1], classes, labels))
            start += labels.shape[1] * classes

    def __call__(self, weights):
        logits = self.design @ weights
        values = []
        for start, copies, classes, labels in self.blocks:
            block = logits[:, start : start + copies * classes].unflatten(1, (copies, classes))
            total = torch.logsumexp(block, dim=2, keepdim=True)
            values.append((total - block.gather(2, labels)).mean(0)[:, 0])
            block.sub_(total).exp_().scatter_add_(2, labels, -torch.ones_like(total))
        penalised = weights.clone()
        penalised[-1] = 0
        value = torch.cat(values) + self.l2 / 2 * self.dot(penalised, penalised)
        return value, self.design.T @ logits / len(logits) + self.l2[self.owner] * penalised

    def dot(self, a, b):
        columns = (a * b).sum(0)
        return columns.new_zeros(self.count).index_add_(0, self.owner, columns)

    def largest(self, gradient):
        columns = gradient.abs().amax(0)
        return columns.new_zeros(self.count).scatter_reduce_(0, self.owner, columns, "amax")


def _two_loop(gradient, steps, scale, objective):
    direction, kept = gradient, []
    for step, change, rho in reversed(steps):
        alpha = rho * objective.dot(step, direction)
        direction = direction - alpha[objective.owner] * change
        kept.append(alpha)
    direction = direction * scale[objective.owner]
    for (step, change, rho), alpha in zip(steps, reversed(kept), strict=True):
        beta = rho * objective.dot(change, direction)
        direction = direction + (alpha - beta)[objective.owner] * step
    return direction


def _search(objective, weights, value, gradient, direction, slope, length):
    # Backtracking for all problems at once: those that have not decreased enough halve their step.
    slack = 1e-6 * value.abs().clamp(min=1e-6)  # float32 cannot see smaller decreases
    for _ in range(HALVINGS):
        trial = weights + length[objective.owner] * direction
        new_value, new_gradient = objective(trial)
        enough = new_value <= value + SUFFICIENT * length * slope + slack
        if bool(enough.all()):
            return trial, new_value, new_gradient, torch.ones_like(enough)
        length = torch.where(enough, length, length / 2)
    keep = ~enough[objective.owner]
    return (
        torch.where(keep, weights, trial),
        torch.where(enough, new_value, value),
        torch.where(keep, gradient, new_gradient),
        enough,
    )
