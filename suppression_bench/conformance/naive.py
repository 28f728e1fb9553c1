"""The losses a second time, as loops over scalars in double precision, and what is known of each: limits, values."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from suppression_bench.conformance.toy import Trial


def cosine(a: list, b: list) -> Tensor:
    return _dot(a, b) / (_dot(a, a) ** 0.5 * _dot(b, b) ** 0.5)


def add_up(terms: Iterable) -> Tensor:
    """The sum of scalars."""
    return sum(terms, torch.zeros((), dtype=torch.float64))


def _dot(a: list, b: list) -> Tensor:
    return add_up(x * y for x, y in zip(a, b, strict=True))


def anchors(z1: list, z2: list, pairs: str, negatives: list | None) -> list[tuple[Tensor, list[Tensor]]]:
    """Every anchor's cosine with its positive, and those with its negatives."""
    if pairs == "given":
        return [(cosine(a, b), [cosine(a, row) for row in negatives or []]) for a, b in zip(z1, z2, strict=True)]
    cosines = []
    for near, far in ((z1, z2), (z2, z1)):
        for i in range(len(near)):
            against = [far[k] for k in range(len(near)) if k != i]
            if pairs == "all":
                against += [near[k] for k in range(len(near)) if k != i]
            against += negatives or []
            cosines.append((cosine(near[i], far[i]), [cosine(near[i], row) for row in against]))
    return cosines


def over_anchors(term: Callable) -> Callable:
    """A loss that is a mean over anchors, from one anchor's term: (positive, negatives, all positives) -> scalar."""

    def loss(z1, z2, *, pairs="all", negatives=None, **options):
        cosines = anchors(z1, z2, pairs, negatives)
        positives = [positive for positive, _ in cosines]
        return add_up(term(p, rest, positives, **options) for p, rest in cosines) / len(cosines)

    return loss


def probability(p: Tensor, rest: list[Tensor], temperature) -> Tensor:
    return (p / temperature).exp() / ((p / temperature).exp() + add_up((s / temperature).exp() for s in rest))


def nt_xent(p, rest, positives, *, temperature):
    return -probability(p, rest, temperature).log()


def dcl(p, rest, positives, *, temperature):
    return -((p / temperature).exp() / add_up((s / temperature).exp() for s in rest)).log()


def dclw(p, rest, positives, *, temperature, sigma):
    mean = sum((s / sigma).exp() for s in positives) / len(positives)
    weight = 2 - (p / sigma).exp() / mean
    return -weight * p / temperature + add_up((s / temperature).exp() for s in rest).log()


def dual_temperature(p, rest, positives, *, temperature, anchor_temperature):
    weight = (1 - probability(p, rest, anchor_temperature)) / (1 - probability(p, rest, temperature))
    return -weight.detach() * probability(p, rest, temperature).log()


def flat_nce(p, rest, positives, *, temperature):
    total = add_up(((s - p) / temperature).exp() for s in rest)
    return total / total.detach()


def macl(p, rest, positives, *, temperature, form, alpha, beta):
    alignment = sum(s.item() for s in positives) / len(positives)
    tau = temperature * (1 + beta * alignment) if form == "b" else temperature * alpha**alignment
    weight = 1 / (1 - probability(p, rest, tau).item())
    if form == "w":
        weight = (2 - p.item()) * weight
    return -weight * probability(p, rest, tau).log()


def _kept(rest, alpha, top_k):
    count = top_k if top_k is not None else max(1, round(alpha * len(rest)))
    return sorted(rest, key=lambda s: s.item(), reverse=True)[:count]


def hard(p, rest, positives, *, temperature, alpha, top_k):
    return -probability(p, _kept(rest, alpha, top_k), temperature).log()


def simple(p, rest, positives, *, weight):
    return -p + (1 / len(rest) if weight is None else weight) * sum(rest)


def hard_simple(p, rest, positives, *, weight, alpha, top_k):
    return simple(p, _kept(rest, alpha, top_k), positives, weight=weight)


def hcl(p, rest, positives, *, temperature, beta, tau_plus):
    count = len(rest)
    terms = [(s / temperature).exp() for s in rest]
    harder = [term**beta for term in terms]
    reweighted = sum(h * term for h, term in zip(harder, terms, strict=True)) / (sum(harder) / count)
    total = (reweighted - tau_plus * count * (p / temperature).exp()) / (1 - tau_plus)
    floor = count * math.exp(-1 / temperature)
    if total.item() < floor:
        total = torch.tensor(floor, dtype=torch.float64)
    return -((p / temperature).exp() / ((p / temperature).exp() + total)).log()


def ifm(p, rest, positives, *, temperature, epsilon):
    attacked = nt_xent(p - epsilon, [s + epsilon for s in rest], positives, temperature=temperature)
    return (nt_xent(p, rest, positives, temperature=temperature) + attacked) / 2


def _unit(rows: list) -> list:
    return [[x / _dot(row, row) ** 0.5 for x in row] for row in rows]


def _alignment(z1: list, z2: list):
    squares = [(x - y) ** 2 for a, b in zip(z1, z2, strict=True) for x, y in zip(a, b, strict=True)]
    return add_up(squares) / len(squares)


def decoupled_nt_xent(z1, z2, *, temperature, weight, negatives=None):
    views = z1 + z2
    spread = 0.0
    for a in views:
        spread = spread + add_up((cosine(a, b) / temperature).exp() for b in views + (negatives or [])).log()
    return _alignment(_unit(z1), _unit(z2)) / 2 + weight * spread / len(views)


def _gram_schmidt(columns: list) -> list:
    units = []
    for column in columns:
        for unit in units:
            along = _dot(column, unit)
            column = [x - along * u for x, u in zip(column, unit, strict=True)]
        units += _unit([column])
    return units


def swd(z1, z2, *, prior, weight, generator):
    count, width = 2 * len(z1), len(z1[0])
    settings: dict[str, Any] = dict(generator=generator, dtype=torch.float64)
    if prior == "hypercube":
        samples = (2 * torch.rand(count, width, **settings) - 1).tolist()
    else:
        samples = torch.randn(count, width, **settings).tolist()
    if prior == "hypersphere":
        z1, z2, samples = _unit(z1), _unit(z2), _unit(samples)
    distance = 0.0
    for direction in _gram_schmidt(torch.randn(width, width, **settings).T.tolist()):
        ours, theirs = (
            sorted((_dot(row, direction) for row in rows), key=lambda s: s.item()) for rows in (z1 + z2, samples)
        )
        distance = distance + add_up((a - b) ** 2 for a, b in zip(ours, theirs, strict=True))
    return _alignment(z1, z2) / 2 + weight * distance / (count * width)


def _supervised(z1, z2, labels):
    """Every anchor's cosines with all other views, and those of its own class."""
    views, classes = z1 + z2, [*labels.tolist(), *labels.tolist()]
    for i in range(len(views)):
        rest = [k for k in range(len(views)) if k != i]
        cosines = {k: cosine(views[i], views[k]) for k in rest}
        yield list(cosines.values()), [cosines[k] for k in rest if classes[k] == classes[i]]


def supcon_out(z1, z2, *, temperature, labels):
    total = torch.zeros((), dtype=torch.float64)
    for everyone, same in _supervised(z1, z2, labels):
        below = sum((s / temperature).exp() for s in everyone)
        total = total - sum(((p / temperature).exp() / below).log() for p in same) / len(same)
    return total / (2 * len(z1))


def supcon_in(z1, z2, *, temperature, labels):
    total = torch.zeros((), dtype=torch.float64)
    for everyone, same in _supervised(z1, z2, labels):
        below = sum((s / temperature).exp() for s in everyone)
        total = total - (add_up((p / temperature).exp() / below for p in same) / len(same)).log()
    return total / (2 * len(z1))


def align_uniform(z1, z2, *, align_weight, uniform_weight, alpha, t):
    z1, z2, count = _unit(z1), _unit(z2), len(z1)

    def squared(a, b):
        return add_up((x - y) ** 2 for x, y in zip(a, b, strict=True))

    align = sum(squared(a, b) ** (alpha / 2) for a, b in zip(z1, z2, strict=True)) / count
    uniform = 0.0
    for z in (z1, z2):
        potentials = [(-t * squared(z[i], z[j])).exp() for i in range(count) for j in range(i)]
        uniform = uniform + (add_up(potentials) / len(potentials)).log() / 2
    return align_weight * align + uniform_weight * uniform


def _columns(rows: list) -> list:
    """The dimensions of a batch, each with mean 0."""
    columns = list(zip(*rows, strict=True))
    return [[x - sum(column) / len(column) for x in column] for column in columns]


def barlow_twins(z1, z2, *, weight):
    count = len(z1)
    first, second = ([[x / (_dot(c, c) / count + 1e-5) ** 0.5 for x in c] for c in _columns(z)] for z in (z1, z2))
    total = torch.zeros((), dtype=torch.float64)
    for i, a in enumerate(first):
        for j, b in enumerate(second):
            entry = _dot(a, b) / count
            total = total + ((1 - entry) ** 2 if i == j else weight * entry**2)
    return total


def vicreg(z1, z2, *, invariance_weight, variance_weight, covariance_weight):
    total, count, width = invariance_weight * _alignment(z1, z2), len(z1), len(z1[0])
    for z in (z1, z2):
        columns = _columns(z)
        for i, a in enumerate(columns):
            deviation = (_dot(a, a) / (count - 1) + 1e-4) ** 0.5
            if deviation.item() < 1:
                total = total + variance_weight * (1 - deviation) / width / 2
            for j, b in enumerate(columns):
                if i != j:
                    total = total + covariance_weight * (_dot(a, b) / (count - 1)) ** 2 / width
    return total


# Name of a loss -> the same, naively: lists of rows of scalars and every option -> a scalar.
LOSSES: dict[str, Callable[..., Tensor]] = {
    function.__name__.replace("_", "-"): over_anchors(function)
    for function in (nt_xent, dcl, dclw, dual_temperature, flat_nce, macl, hard, simple, hard_simple, hcl, ifm)
} | {
    function.__name__.replace("_", "-"): function
    for function in (decoupled_nt_xent, swd, supcon_out, supcon_in, align_uniform, barlow_twins, vicreg)
}


def value_and_gradients(name: str, inputs: Trial, options: dict, passed_in: dict) -> tuple[Tensor, Tensor, Tensor]:
    """Value of the naive loss, and its gradient with respect to both views."""
    views = [z.detach().clone().requires_grad_() for z in (inputs.z1, inputs.z2)]
    more = {key: value for key, value in passed_in.items() if value is not None}
    if "negatives" in more:
        more["negatives"] = [list(row) for row in more["negatives"]]
    value: Tensor = LOSSES[name](*[[list(row) for row in z] for z in views], **more, **options)
    first, second = torch.autograd.grad(value, views)
    return value.detach(), first, second


# --- what is known of the losses -------------------------------------------------------------------------------------

PAIRED = [{}, {"pairs": "cross", "temperature": 0.5}, {"temperature": 1.5}]
SUPERVISED = [{}, {"temperature": 0.5}, {"temperature": 1.5}]

# Settings in which a loss must equal its naive writing.
SETTINGS: dict[str, list[dict]] = {
    "nt-xent": PAIRED,
    "decoupled-nt-xent": [{}, {"temperature": 0.2, "weight": 2.0}],
    "swd": [{}, {"prior": "hypercube"}, {"prior": "normal", "weight": 0.5}],
    "dcl": PAIRED,
    "dclw": [*PAIRED, {"sigma": 2.0}],
    "dual-temperature": [*PAIRED, {"anchor_temperature": 0.2}],
    "flat-nce": PAIRED,
    "macl": [
        *PAIRED,
        {"form": "b"},
        {"form": "w", "pairs": "cross"},
        {"form": "a", "alpha": 4.0},
        {"form": "b", "beta": 0.2},
    ],
    "hard": [*PAIRED, {"alpha": 0.5}, {"top_k": 3}],
    "simple": [{}, {"pairs": "cross"}, {"weight": 0.4}],
    "hard-simple": [{"alpha": 0.5}, {"pairs": "cross", "top_k": 2}, {"weight": 0.4}],
    "hcl": [*PAIRED, {"tau_plus": 0.0}, {"beta": 0.5, "temperature": 0.5}, {"tau_plus": 0.01, "temperature": 0.5}],
    "ifm": [*PAIRED, {"epsilon": 0.2}],
    "supcon-out": SUPERVISED,
    "supcon-in": SUPERVISED,
    "align-uniform": [{}, {"alpha": 1.0, "t": 3.0, "align_weight": 0.98, "uniform_weight": 0.96}],
    "barlow-twins": [{}, {"weight": 0.5}],
    "vicreg": [{}, {"invariance_weight": 1.0, "variance_weight": 2.0, "covariance_weight": 3.0}],
}


def _logarithm(candidates: Callable[[int], int]) -> Callable[[int], float]:
    return lambda count: math.log(candidates(count))


# Options -> the value on N equal projections: the log of the number of candidates for all that are cross entropies.
EQUAL_FEATURES: dict[str, list[tuple[dict, Callable[[int], float]]]] = {
    "nt-xent": [({}, _logarithm(lambda n: 2 * n - 1)), ({"pairs": "cross"}, _logarithm(lambda n: n))],
    "decoupled-nt-xent": [({"temperature": 0.5, "weight": 1.0}, lambda n: 2 + math.log(2 * n))],
    "dcl": [({}, _logarithm(lambda n: 2 * n - 2)), ({"pairs": "cross"}, _logarithm(lambda n: n - 1))],
    "dclw": [({}, _logarithm(lambda n: 2 * n - 2))],
    "dual-temperature": [({}, _logarithm(lambda n: 2 * n - 1))],
    "flat-nce": [({}, lambda n: 1.0)],
    "macl": [({"form": form}, lambda n: math.log(2 * n - 1) * (2 * n - 1) / (2 * n - 2)) for form in "abw"],
    "hard": [({"top_k": 2}, _logarithm(lambda n: 3)), ({"alpha": 1.0}, _logarithm(lambda n: 2 * n - 1))],
    "simple": [({}, lambda n: 0.0)],
    "hard-simple": [({}, lambda n: 0.0)],
    "hcl": [({}, _logarithm(lambda n: 2 * n - 1))],
    "ifm": [({"epsilon": 0.0}, _logarithm(lambda n: 2 * n - 1))],
    "supcon-out": [({}, _logarithm(lambda n: 2 * n - 1))],
    "supcon-in": [({}, _logarithm(lambda n: 2 * n - 1))],
    "align-uniform": [({}, lambda n: 0.0)],
}


# A setting in which a loss is another one: (words, options, the other's name, the other's options).
LIMITS: dict[str, list[tuple[str, dict, str, dict]]] = {
    "dual-temperature": [
        ("equal temperatures", {"temperature": 0.3, "anchor_temperature": 0.3}, "nt-xent", {"temperature": 0.3})
    ],
    "hcl": [("beta 0", {"beta": 0.0, "tau_plus": 0.0}, "nt-xent", {"temperature": 0.1})],
    "ifm": [("epsilon 0", {"epsilon": 0.0}, "nt-xent", {"temperature": 0.1})],
    "hard": [
        ("all negatives kept", {"alpha": 1.0}, "nt-xent", {"temperature": 0.1}),
        ("as many kept as there are", {"top_k": 8}, "nt-xent", {"temperature": 0.1}),
    ],
    "hard-simple": [("all negatives kept", {"alpha": 1.0}, "simple", {"weight": None})],
    "dclw": [("a wide sigma", {"sigma": 1e10}, "dcl", {"temperature": 0.1})],
}
