"""The losses a second time, as loops over scalars in double precision, written from their definitions."""

import math
from collections.abc import Callable

import torch
from torch import Tensor


def cosine(a: list, b: list) -> Tensor:
    dot, left, right = _dot(a, b), _dot(a, a), _dot(b, b)
    return dot / (left**0.5 * right**0.5)


def _dot(a: list, b: list):
    return sum(x * y for x, y in zip(a, b, strict=True))


def anchors(z1: list, z2: list, pairs: str, negatives: list | None) -> list[tuple[Tensor, list[Tensor]]]:
    """Every anchor's cosine with its positive, and those with its negatives."""
    if pairs == "given":
        return [(cosine(a, b), [cosine(a, row) for row in negatives]) for a, b in zip(z1, z2, strict=True)]
    found = []
    for own, other in ((z1, z2), (z2, z1)):
        for i in range(len(own)):
            against = [other[k] for k in range(len(own)) if k != i]
            if pairs == "all":
                against += [own[k] for k in range(len(own)) if k != i]
            against += negatives or []
            found.append((cosine(own[i], other[i]), [cosine(own[i], row) for row in against]))
    return found


def over_anchors(one: Callable) -> Callable:
    """A loss that is a mean over anchors, from what it is for one: (positive, negatives, all positives) -> scalar."""

    def loss(z1, z2, *, pairs="all", negatives=None, **options):
        found = anchors(z1, z2, pairs, negatives)
        positives = [positive for positive, _ in found]
        return sum(one(p, others, positives, **options) for p, others in found) / len(found)

    return loss


def probability(p: Tensor, others: list[Tensor], temperature) -> Tensor:
    return (p / temperature).exp() / ((p / temperature).exp() + sum((s / temperature).exp() for s in others))


def nt_xent(p, others, positives, *, temperature):
    return -probability(p, others, temperature).log()


def dcl(p, others, positives, *, temperature):
    return -((p / temperature).exp() / sum((s / temperature).exp() for s in others)).log()


def dclw(p, others, positives, *, temperature, sigma):
    mean = sum((s / sigma).exp() for s in positives) / len(positives)
    weight = 2 - (p / sigma).exp() / mean
    return -weight * p / temperature + sum((s / temperature).exp() for s in others).log()


def dual_temperature(p, others, positives, *, temperature, anchor_temperature):
    weight = (1 - probability(p, others, anchor_temperature)) / (1 - probability(p, others, temperature))
    return -weight.detach() * probability(p, others, temperature).log()


def flat_nce(p, others, positives, *, temperature):
    total = sum(((s - p) / temperature).exp() for s in others)
    return total / total.detach()


def macl(p, others, positives, *, temperature, form, alpha, beta):
    alignment = sum(s.item() for s in positives) / len(positives)
    tau = temperature * (1 + beta * alignment) if form == "b" else temperature * alpha**alignment
    weight = 1 / (1 - probability(p, others, tau).item())
    if form == "w":
        weight = (2 - p.item()) * weight
    return -weight * probability(p, others, tau).log()


def _kept(others, alpha, top_k):
    count = top_k if top_k is not None else max(1, round(alpha * len(others)))
    return sorted(others, key=Tensor.item, reverse=True)[:count]


def hard(p, others, positives, *, temperature, alpha, top_k):
    return -probability(p, _kept(others, alpha, top_k), temperature).log()


def simple(p, others, positives, *, weight):
    return -p + (1 / len(others) if weight is None else weight) * sum(others)


def hard_simple(p, others, positives, *, weight, alpha, top_k):
    return simple(p, _kept(others, alpha, top_k), positives, weight=weight)


def hcl(p, others, positives, *, temperature, beta, tau_plus):
    count = len(others)
    terms = [(s / temperature).exp() for s in others]
    harder = [term**beta for term in terms]
    reweighted = sum(h * term for h, term in zip(harder, terms, strict=True)) / (sum(harder) / count)
    total = (reweighted - tau_plus * count * (p / temperature).exp()) / (1 - tau_plus)
    floor = count * math.exp(-1 / temperature)
    if total.item() < floor:
        total = torch.tensor(floor, dtype=torch.float64)
    return -((p / temperature).exp() / ((p / temperature).exp() + total)).log()


def ifm(p, others, positives, *, temperature, epsilon):
    attacked = nt_xent(p - epsilon, [s + epsilon for s in others], positives, temperature=temperature)
    return (nt_xent(p, others, positives, temperature=temperature) + attacked) / 2


def _unit(rows: list) -> list:
    return [[x / _dot(row, row) ** 0.5 for x in row] for row in rows]


def _alignment(z1: list, z2: list):
    squares = [(x - y) ** 2 for a, b in zip(z1, z2, strict=True) for x, y in zip(a, b, strict=True)]
    return sum(squares) / len(squares)


def decoupled_nt_xent(z1, z2, *, temperature, weight, negatives=None):
    views = z1 + z2
    spread = 0.0
    for a in views:
        spread = spread + sum((cosine(a, b) / temperature).exp() for b in views + (negatives or [])).log()
    return _alignment(_unit(z1), _unit(z2)) / 2 + weight * spread / len(views)


def _gram_schmidt(columns: list) -> list:
    done = []
    for column in columns:
        for unit in done:
            along = _dot(column, unit)
            column = [x - along * u for x, u in zip(column, unit, strict=True)]
        done += _unit([column])
    return done


def swd(z1, z2, *, prior, weight, generator):
    count, width = 2 * len(z1), len(z1[0])
    settings = dict(generator=generator, dtype=torch.float64)
    if prior == "hypercube":
        samples = (2 * torch.rand(count, width, **settings) - 1).tolist()
    else:
        samples = torch.randn(count, width, **settings).tolist()
    if prior == "hypersphere":
        z1, z2, samples = _unit(z1), _unit(z2), _unit(samples)
    distance = 0.0
    for direction in _gram_schmidt(torch.randn(width, width, **settings).T.tolist()):
        ours = sorted((_dot(row, direction) for row in z1 + z2), key=Tensor.item)
        theirs = sorted(_dot(row, direction) for row in samples)
        distance = distance + sum((a - b) ** 2 for a, b in zip(ours, theirs, strict=True))
    return _alignment(z1, z2) / 2 + weight * distance / (count * width)


def _supervised(z1, z2, labels):
    """Every anchor's cosines with all other views, and those of its own class."""
    views, classes = z1 + z2, [*labels.tolist(), *labels.tolist()]
    for i in range(len(views)):
        others = [k for k in range(len(views)) if k != i]
        cosines = {k: cosine(views[i], views[k]) for k in others}
        yield list(cosines.values()), [cosines[k] for k in others if classes[k] == classes[i]]


def supcon_out(z1, z2, *, temperature, labels):
    total = 0.0
    for everyone, own in _supervised(z1, z2, labels):
        below = sum((s / temperature).exp() for s in everyone)
        total = total - sum(((p / temperature).exp() / below).log() for p in own) / len(own)
    return total / (2 * len(z1))


def supcon_in(z1, z2, *, temperature, labels):
    total = 0.0
    for everyone, own in _supervised(z1, z2, labels):
        below = sum((s / temperature).exp() for s in everyone)
        total = total - (sum((p / temperature).exp() / below for p in own) / len(own)).log()
    return total / (2 * len(z1))


def align_uniform(z1, z2, *, align_weight, uniform_weight, alpha, t):
    z1, z2, count = _unit(z1), _unit(z2), len(z1)

    def squared(a, b):
        return sum((x - y) ** 2 for x, y in zip(a, b, strict=True))

    align = sum(squared(a, b) ** (alpha / 2) for a, b in zip(z1, z2, strict=True)) / count
    uniform = 0.0
    for z in (z1, z2):
        potentials = [(-t * squared(z[i], z[j])).exp() for i in range(count) for j in range(i)]
        uniform = uniform + (sum(potentials) / len(potentials)).log() / 2
    return align_weight * align + uniform_weight * uniform


def _columns(rows: list) -> list:
    """The dimensions of a batch, each with mean 0."""
    columns = list(zip(*rows, strict=True))
    return [[x - sum(column) / len(column) for x in column] for column in columns]


def barlow_twins(z1, z2, *, weight):
    count = len(z1)
    first, second = ([[x / (_dot(c, c) / count + 1e-5) ** 0.5 for x in c] for c in _columns(z)] for z in (z1, z2))
    total = 0.0
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
BY_NAME = {
    function.__name__.replace("_", "-"): over_anchors(function)
    for function in (nt_xent, dcl, dclw, dual_temperature, flat_nce, macl, hard, simple, hard_simple, hcl, ifm)
} | {
    function.__name__.replace("_", "-"): function
    for function in (decoupled_nt_xent, swd, supcon_out, supcon_in, align_uniform, barlow_twins, vicreg)
}
