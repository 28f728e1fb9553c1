"""What is known of the losses: settings to try against the naive ones, limits, values on equal features."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from suppression_bench.conformance import naive
from suppression_bench.conformance.trial import Trial, call, expect, same, trial

EXACT = 1e-8  # two writings of one formula in double precision

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
    "macl": [*PAIRED, {"form": "b"}, {"form": "w", "pairs": "cross"}, {"form": "a", "alpha": 4.0}, {"form": "b", "beta": 0.2}],
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
}  # fmt: skip


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


def naively(name: str, given: Trial, options: dict, passed: dict) -> tuple[Tensor, Tensor, Tensor]:
    """Value and gradient of the naive loss."""
    views = [z.detach().clone().requires_grad_() for z in (given.z1, given.z2)]
    passed = dict(passed)
    if passed.get("negatives") is None:
        passed.pop("negatives", None)
    else:
        passed["negatives"] = [list(row) for row in passed["negatives"]]
    value = naive.BY_NAME[name](*[[list(row) for row in z] for z in views], **passed, **options)
    return value.detach(), *torch.autograd.grad(value, views)


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


def check_limits(function: Callable, name: str) -> None:
    """Hold a loss to every limit that is known of it."""
    given = trial(4)
    for words, options, other, other_options in LIMITS.get(name, []):
        expected = naively(other, given, other_options, {})
        same(call(function, given, **options), expected, EXACT, f"{words}, against {other}")
    if name in OWN_LIMITS:
        OWN_LIMITS[name](function)


def _weighted_nt_xent(function: Callable) -> None:
    # Orthogonal samples, equal views: all anchors have one weight, and the gradient is not zero.
    z = torch.eye(3, dtype=torch.float64)
    given = Trial(z, z.clone(), torch.arange(3))
    plain = naively("nt-xent", given, {"temperature": 0.5}, {})
    weight = 1 / (1 - (-plain[0]).exp())
    for options in ({"form": "b", "beta": 0.0}, {"form": "a", "alpha": 1.0}):
        found = call(function, given, temperature=0.5, **options)
        same(found, tuple(weight * part for part in plain), EXACT, f"{options}, against NT-Xent / (1 - P)")


def _gradient_of_dcl(function: Callable) -> None:
    given = trial(4)
    _, first, second = naively("dcl", given, {"temperature": 0.1}, {})
    one = torch.ones((), dtype=torch.float64)
    same(call(function, given), (one, first, second), EXACT, "value 1 and the gradient of dcl")


def _no_distance(function: Callable) -> None:
    # Views that are the prior's own samples, in another order: the distance is zero whatever the directions.
    given = trial(4)
    for prior in ("hypersphere", "hypercube", "normal"):
        settings = dict(generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        shape = (2 * len(given.z1), given.z1.shape[1])
        samples = 2 * torch.rand(shape, **settings) - 1 if prior == "hypercube" else torch.randn(shape, **settings)
        z1, z2 = samples.flip(0).chunk(2)
        own = Trial(z1, z2, given.labels)
        found, without = (call(function, own, prior=prior, weight=weight)[0] for weight in (5.0, 0.0))
        expect(abs(found - without).item() < EXACT, f"{prior}: equal sorted samples are {found - without:.3g} apart")


def _no_class_shared(function: Callable) -> None:
    given = trial(4)
    alone = Trial(given.z1, given.z2, torch.arange(len(given.z1)))
    same(call(function, alone), naively("nt-xent", alone, {"temperature": 0.1}, {}), EXACT,
         "every sample a class of its own, against nt-xent")  # fmt: skip


OWN_LIMITS: dict[str, Callable[[Callable], None]] = {
    "macl": _weighted_nt_xent,
    "flat-nce": _gradient_of_dcl,
    "swd": _no_distance,
    "supcon-out": _no_class_shared,
    "supcon-in": _no_class_shared,
}
