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
    features: Tensor, problems: list[Problem], *, tolerance: float = 1e-4, iterations: int = 1000
) -> list[Solution]:
    """Minimise mean cross entropy + l2 / 2 ||W||^2 (bias free) for every problem, from zero.

    Reference: Nocedal & Wright (2006), Algorithms 7.4 and 7.5, with backtracking. The problems share each pass over
    the features, yet every one has its own history, step length and end: the largest absolute gradient below
    `tolerance`.

    Arguments:
        features: (N, D), standardised.
        problems: what to fit, labels of length N each.
        tolerance: on the largest absolute entry of the gradient.
        iterations: at most.

    >>> x = torch.tensor([[-1.0], [1.0]])
    >>> [solution] = fit(x, [Problem(torch.tensor([0, 1]), 2, 0.1)])
    >>> solution.converged, (x @ solution.weights[:-1]).argmax(1).tolist()
    (True, [0, 1])
    """
    design = torch.cat([features, features.new_ones(len(features), 1)], dim=1)
    owner = torch.cat([torch.full((p.classes,), i) for i, p in enumerate(problems)]).to(features.device)
    weights = features.new_zeros(design.shape[1], len(owner))
    objective = _Objective(design, problems, owner)
    value, gradient = objective(weights)
    steps: list[tuple[Tensor, Tensor, Tensor]] = []  # (s, y, rho), newest last
    scale = torch.ones_like(value)
    done = objective.largest(gradient) <= tolerance
    for _ in range(iterations):
        if bool(done.all()):
            break
        direction = -_two_loop(gradient, steps, scale, objective)
        direction = direction * ~done[owner]
        slope = objective.dot(gradient, direction)
        uphill = slope >= 0
        direction = torch.where(uphill[owner], -gradient * ~done[owner], direction)
        slope = torch.where(uphill, -objective.dot(gradient, gradient) * ~done, slope)
        length = torch.ones_like(value) if steps else 1 / objective.dot(gradient, gradient).sqrt().clamp(min=1)
        new_weights, new_value, new_gradient, moved = _search(
            objective, weights, value, gradient, direction, slope, length
        )
        step, change = new_weights - weights, new_gradient - gradient
        curvature = objective.dot(step, change)
        good = curvature > 1e-10 * objective.dot(change, change).clamp(min=1e-30)
        scale = torch.where(good, curvature / objective.dot(change, change).clamp(min=1e-30), scale)
        rho = torch.where(good, 1 / curvature.clamp(min=1e-30), torch.zeros_like(curvature))
        steps = [*steps[-(HISTORY - 1) :], (step, change, rho)]
        weights, value, gradient = new_weights, new_value, new_gradient
        done = done | (objective.largest(gradient) <= tolerance) | ~moved
    converged = (objective.largest(gradient) <= tolerance).tolist()
    return [Solution(weights[:, owner == i], converged[i]) for i in range(len(problems))]


class _Objective:
    """Values (P,) and gradients (D + 1, K) of all problems; K columns, each owned by one problem."""

    def __init__(self, design, problems, owner):
        self.design, self.owner, self.count = design, owner, len(problems)
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
