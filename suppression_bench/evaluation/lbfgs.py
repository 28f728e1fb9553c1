"""Many multinomial logistic regressions on the same features at once, by limited-memory BFGS."""

from dataclasses import dataclass

import torch
from torch import Tensor

from suppression_bench.evaluation.objective import Objective, Problem

# Steps that are remembered. With many samples a longer memory saves a third of the passes over them; with few it costs
# more than a pass.
HISTORY, LONG_HISTORY, MANY = 10, 60, 10_000
SUFFICIENT = 1e-4  # Armijo's constant
HALVINGS = 25


@dataclass(frozen=True)
class Solution:
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
    """Minimise mean cross entropy + l2 / 2 ||W||^2 (bias free) for every problem.

    Reference: Nocedal & Wright (2006), Algorithms 7.4 and 7.5, with backtracking. The problems share each pass over
    the features, yet every one has its own history, step length and end.

    Arguments:
        features: (N, D), standardised.
        problems: what to fit, labels of length N each.
        tolerance: on the largest absolute entry of the gradient (default: a thirtieth of the problem's l2, at most 1e-4,
            since a weak L2 must not be replaced by an early end).
        iterations: at most.
        start: one (D + 1, classes) matrix of weights for each problem (default: zeros). The minimum is the same.

    >>> x = torch.tensor([[-1.0], [1.0]])
    >>> [solution] = fit(x, [Problem(torch.tensor([0, 1]), 2, 0.1)])
    >>> solution.converged, (x @ solution.weights[:-1]).argmax(1).tolist()
    (True, [0, 1])
    """
    state = _State(features, problems, tolerance, start)
    solutions: dict[int, Solution] = {}
    for _ in range(iterations):
        if bool(state.done.any()):
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

    def __init__(self, features: Tensor, problems: list[Problem], tolerance: float | None, start):
        self.problems, self.numbers = list(problems), list(range(len(problems)))
        limit = [min(1e-4, problem.l2 / 30) if tolerance is None else tolerance for problem in problems]
        self.limit = torch.tensor(limit, device=features.device, dtype=features.dtype)
        self.objective = Objective(features, problems)
        self.weights = features.new_zeros(features.shape[1] + 1, len(self.objective.owner))
        if start is not None:
            self.weights = torch.cat([weights.to(self.weights) for weights in start], dim=1)
        self.value, self.gradient = self.objective(self.weights)
        self.history: list[tuple[Tensor, Tensor, Tensor]] = []  # (s, y, rho), newest last
        self.scale = torch.ones_like(self.value)
        self.memory = LONG_HISTORY if len(features) >= MANY else HISTORY
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
        self.history = [*self.history[-(self.memory - 1) :], (moves, change, rho)]
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
        self.objective = self.objective.part(keep)


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


def _search(objective, weights, value, gradient, direction, slope, length, halvings=HALVINGS):
    # Backtracking for all problems at once: those that have not decreased enough halve their step, without the others.
    slack = 1e-6 * value.abs().clamp(min=1e-6)  # float32 cannot see smaller decreases
    trial = weights + length[objective.owner] * direction
    new_value, new_gradient = objective(trial)
    enough = new_value <= value + SUFFICIENT * length * slope + slack
    if bool(enough.all()):
        return trial, new_value, new_gradient, enough
    short, columns = ~enough, ~enough[objective.owner]
    again = weights[:, columns], value[short], gradient[:, columns], torch.zeros_like(enough[short])
    if halvings > 1:
        part = objective.part(short)
        again = _search(part, *again[:3], direction[:, columns], slope[short], length[short] / 2, halvings - 1)
    trial[:, columns], new_value[short], new_gradient[:, columns], enough[short] = again
    return trial, new_value, new_gradient, enough
