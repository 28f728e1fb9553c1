"""What every loss must keep to: its declarations, symmetries, precision, and the formula where one is known."""

import inspect
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from generators import catalog
from generators.options import parameters
from suppression_bench.conformance import naive
from suppression_bench.conformance.check import Check
from suppression_bench.conformance.gathered import check_gathered
from suppression_bench.conformance.references import EQUAL_FEATURES, EXACT, SETTINGS, check_limits, naively
from suppression_bench.conformance.trial import COUNT, Broken, Trial, call, defaults, expect, same, trial

DECLARED = ("normalises", "negatives", "needs_labels", "symmetric")


def check_losses(references: list[str]) -> dict[str, list[Check]]:
    """Every check of the losses, given by name or by the path of a file; the gathered one in one pair of processes.

    Returns:
        Name -> its checks.

    Raises:
        UserError: unknown name, or a file without the loss.
    """
    # All are loaded before a process starts: a wrong name or a broken file is the caller's to hear of.
    functions = [catalog.load_function("suppression_bench.losses", reference) for reference in references]
    gathered = check_gathered(references)
    found = {}
    for reference, function in zip(references, functions, strict=True):
        name = Path(reference).stem.replace("_", "-")
        found[name] = [*check_loss(function, name), gathered[reference]]
    return found


def check_loss(function: Callable, name: str) -> list[Check]:
    """Every check of a loss in this process, in about a second; an error in the loss is a failed check.

    Arguments:
        function: the loss, marked by `declares`.
        name: its name; where naive.py knows it, the values must be those.
    """
    declared = _outcome(_declares, function)
    if not declared.passed:  # what follows needs to know
        return [declared]
    checks = [_scalar, _temperature, _order, _swapped, _length, _repeats, _negatives, _finite, _collapsed]
    made = [declared, *(_outcome(check, function) for check in checks)]
    if name in naive.BY_NAME:
        made += [_outcome(check, function, name) for check in (_naive, _limits)]
    if name in EQUAL_FEATURES:
        made.append(_outcome(_equal_features, function, name))
    return made


def _outcome(check: Callable, function: Callable, *more) -> Check:
    title = check.__doc__.split("\n")[0].rstrip(".")
    random_state = torch.get_rng_state()
    try:
        check(function, *more)
    except Exception as error:  # a loss's own mistake must not end the table
        text = " ".join(str(error).split()) or "no message"
        return Check(title, False, text if isinstance(error, Broken) else f"{type(error).__name__}: {text}")
    finally:
        torch.set_rng_state(random_state)
    return Check(title, True)


def _trials(function: Callable, seed: int = 1) -> list[Trial]:
    """Without extra negatives, and with them where the loss takes them."""
    return [trial(seed)] + ([trial(seed, negatives=True)] if function.negatives else [])


def _declares(function: Callable) -> None:
    """It declares what it takes."""
    missing = [name for name in DECLARED if not isinstance(getattr(function, name, None), bool)]
    expect(
        not missing,
        f"not declared: {', '.join(missing)}; mark the function with @declares(...) of suppression_bench.loss",
    )
    known = parameters(function)
    for flag, name in (("negatives", "negatives"), ("needs_labels", "labels")):
        declared = getattr(function, flag)
        expect(declared == (name in known), f"it declares {flag}={declared}, but its arguments are {list(known)}")
    without = [name for name, value in defaults(function).items() if value is inspect.Parameter.empty]
    expect(not without, f"options without a default: {', '.join(without)}")


def _scalar(function: Callable) -> None:
    """It is a scalar with a gradient for both views."""
    _, *gradients = call(function, trial())
    for name, gradient in zip(("z1", "z2"), gradients, strict=True):
        expect(bool(gradient.abs().max() > 1e-6), f"the gradient of {name} is zero")


def _temperature(function: Callable) -> None:
    """Every temperature changes the gradient."""
    for name, value in defaults(function).items():
        if "temperature" in name and value is not None:
            first, second = (call(function, trial(), **{name: factor * value})[1] for factor in (1, 3))
            change = (first - second).norm() / first.norm()
            expect(
                bool(change > 1e-3), f"{name} {value} and {3 * value}: the gradient changes by {change:.2g} of itself"
            )


def _order(function: Callable) -> None:
    """The samples' order changes nothing."""
    order, extra = torch.tensor([3, 0, 4, 1, 2]), torch.tensor([2, 0, 3, 1])
    for given in _trials(function):
        negatives = None if given.negatives is None else given.negatives[extra]
        value, first, second = call(function, given)
        moved = Trial(given.z1[order], given.z2[order], given.labels[order], negatives)
        same(call(function, moved), (value, first[order], second[order]), EXACT, "samples in another order")


def _swapped(function: Callable) -> None:
    """Swapped views change nothing, where it is declared symmetric."""
    for given in _trials(function) if function.symmetric else []:
        value, first, second = call(function, given)
        swapped = call(function, replace(given, z1=given.z2, z2=given.z1))
        same(swapped, (value, second, first), EXACT, "views swapped")


def _length(function: Callable) -> None:
    """The projections' length changes the gradient's direction exactly where it does not normalise."""
    for given in _trials(function):
        _, *plain = call(function, given)
        _, *longer = call(function, replace(given, z1=5 * given.z1, z2=3 * given.z2))
        # Where length is nothing, the gradient falls by the factor; the value alone may be constant by design.
        far = max(
            (a - factor * b).abs().max() / a.abs().max() for a, b, factor in zip(plain, longer, (5, 3), strict=True)
        )
        if function.normalises:
            expect(bool(far < 1e-4), f"declared to normalise, but longer projections change the gradient by {far:.2g}")
            value, other = call(function, given)[0], call(function, replace(given, z1=5 * given.z1, z2=3 * given.z2))[0]
            expect(
                bool((value - other).abs() < 1e-4),
                f"longer projections change the value from {value:.6g} to {other:.6g}",
            )
        else:
            expect(bool(far > 1e-3), "declared not to normalise, but longer projections change nothing")


def _repeats(function: Callable) -> None:
    """Equal inputs and an equal generator give equal values."""
    first = call(function, trial())
    torch.rand(7)  # torch's own stream moves on
    same(call(function, trial()), first, 0.0, "called twice")


def _negatives(function: Callable) -> None:
    """Extra negatives change the gradient, where it takes them."""
    if function.negatives:
        without, given = trial(1), trial(1, negatives=True)
        far = (call(function, given)[1] - call(function, without)[1]).abs().max()
        expect(bool(far > 1e-6), "extra negatives change nothing")


def _finite(function: Callable) -> None:
    """Finite in half precision under autocast and at a temperature of .01, computed in float32 at least."""
    options = {"temperature": 0.01} if "temperature" in parameters(function) else {}
    for given in (trial(2, count=32, width=8), trial(2, count=32, width=8, negatives=True)):
        for dtype in (torch.bfloat16, torch.float16, torch.float32):
            with torch.autocast("cpu", torch.bfloat16):
                value, *gradients = call(function, given.to(dtype), **options)
            expect(value.dtype in (torch.float32, torch.float64), f"from {dtype} it returns {value.dtype}")
            expect(bool(torch.isfinite(value)), f"from {dtype} the value is {value}")
            expect(all(bool(g.isfinite().all()) for g in gradients), f"from {dtype} the gradient is not finite")
            if "generator" not in parameters(function):  # it draws other numbers in another precision
                exact = call(function, given.to(dtype).to(torch.float64), **options)[0]
                far = (value - exact).abs() / exact.abs().clamp(min=1)
                expect(bool(far < 1e-3), f"from {dtype} the value is {value:.6g}, in double precision {exact:.6g}")


def _collapsed(function: Callable) -> None:
    """Finite where the views are equal, all samples are equal, or all projections are zero."""
    given = trial(3)
    ones, zeros = torch.ones_like(given.z1), torch.zeros_like(given.z1)
    for words, z1, z2 in (("equal views", given.z1, given.z1), ("equal samples", ones, ones), ("zeros", zeros, zeros)):
        value, *gradients = call(function, replace(given, z1=z1, z2=z2))
        finite = all(bool(part.isfinite().all()) for part in (value, *gradients))
        expect(finite, f"{words}: the value is {value:.6g}, or the gradient is not finite")


def _naive(function: Callable, name: str) -> None:
    """Value and gradient are those of a naive loop in double precision."""
    for given in _trials(function):
        queued = [{"pairs": "given"}] if "pairs" in defaults(function) and given.negatives is not None else []
        for options in SETTINGS[name] + queued:
            settings = {**defaults(function), **options}
            # A generator of each: they draw the same.
            expected = naively(name, given, settings, given.passed_in(function))
            same(call(function, given, **settings), expected, EXACT, f"options {options}")


def _limits(function: Callable, name: str) -> None:
    """Its documented limits hold."""
    check_limits(function, name)


def _equal_features(function: Callable, name: str) -> None:
    """On equal features it has its known value (the log of the number of candidates)."""
    ones = torch.ones(COUNT, 2, dtype=torch.float64)
    given = Trial(ones, ones, torch.tensor([0, 0, 1, 1, 1]))
    for options, expected in EQUAL_FEATURES[name]:
        value = call(function, given, **options)[0].item()
        expect(abs(value - expected(COUNT)) < EXACT, f"options {options}: {value:.6g} instead of {expected(COUNT):.6g}")
