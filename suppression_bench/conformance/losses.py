"""What every loss must keep to: its declarations, symmetries, precision, the formula where one is known, gathering."""

import inspect
import tempfile
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, distributed
from torch.multiprocessing.spawn import spawn

from generators import catalog
from generators.catalog import parameters
from suppression_bench.conformance import naive
from suppression_bench.conformance.toy import ROWS, Broken, Check, Trial, call, defaults, expect, outcome, trial
from suppression_bench.loss import Loss
from suppression_bench.training.distributed import gather

DECLARED = ("normalises", "negatives", "needs_labels", "symmetric")
EXACT = 1e-8  # two writings of one formula in double precision


def check_losses(references: list[str]) -> dict[str, list[Check]]:
    """Every check of the losses, given by name or by the path of a file; the gathered one in one pair of processes.

    Returns:
        Name -> its checks.

    Raises:
        UserError: unknown name, or a file without the loss.
    """
    # All are loaded before a process starts: a wrong name or a broken file is the caller's to hear of.
    functions = [cast(Loss, catalog.load_function("suppression_bench.losses", reference)) for reference in references]
    gathered = run_gathered([(reference, gather) for reference in references])
    checks = {}
    for reference, function, last in zip(references, functions, gathered, strict=True):
        name = Path(reference).stem.replace("_", "-")
        checks[name] = [*check_loss(function, name), last]
    return checks


def check_loss(function: Loss, name: str) -> list[Check]:
    """Every check of a loss in this process, in about a second; an error in the loss is a failed check.

    Arguments:
        function: the loss, marked by `declares`.
        name: its name; where naive.py knows it, the values must be those.
    """
    declared = outcome(_declares, function)
    if not declared.passed:  # what follows needs to know
        return [declared]
    checks = [_scalar, _temperature, _order, _swapped, _length, _repeats, _negatives, _finite, _collapsed]
    outcomes = [declared, *(outcome(check, function) for check in checks)]
    if name in naive.LOSSES:
        outcomes += [outcome(check, function, name) for check in (_naive, _limits)]
    if name in naive.EQUAL_FEATURES:
        outcomes.append(outcome(_equal_features, function, name))
    return outcomes


def same(results: tuple, expected: tuple, tolerance: float, words: str) -> None:
    """Expect equal values and gradients, relative to the largest entry of each."""
    for name, a, b in zip(("value", "gradient of z1", "gradient of z2"), results, expected, strict=True):
        difference = (a - b).abs().max().item()
        bound = tolerance * max(1.0, b.abs().max().item())
        # `not <=`, since a NaN is not the same as anything.
        expect(difference <= bound, f"{words}: the {name} is off by {difference:.3g} (allowed {bound:.1g})")


def _trials(function: Loss) -> list[Trial]:
    """Without extra negatives, and with them where the loss takes them."""
    return [trial(1), trial(1, negatives=True)] if function.negatives else [trial(1)]


def _declares(function: Loss) -> None:
    """It declares what it takes."""
    missing = [name for name in DECLARED if not isinstance(getattr(function, name, None), bool)]
    expect(
        not missing,
        f"not declared: {', '.join(missing)}; mark the function with @declares(...) of suppression_bench.loss",
    )
    arguments = list(parameters(function))
    for flag, name in (("negatives", "negatives"), ("needs_labels", "labels")):
        declared = getattr(function, flag)
        expect(declared == (name in arguments), f"it declares {flag}={declared}, but its arguments are {arguments}")
    required = [name for name, value in defaults(function).items() if value is inspect.Parameter.empty]
    expect(not required, f"options without a default: {', '.join(required)}")


def _scalar(function: Loss) -> None:
    """It is a scalar with a gradient for both views."""
    _, *gradients = call(function, trial())
    for name, gradient in zip(("z1", "z2"), gradients, strict=True):
        expect(bool(gradient.abs().max() > 1e-6), f"the gradient of {name} is zero")


def _temperature(function: Loss) -> None:
    """Every temperature changes the gradient."""
    for name, value in defaults(function).items():
        if "temperature" in name and value is not None:
            first, second = (call(function, trial(), **{name: factor * value})[1] for factor in (1, 3))
            change = (first - second).norm() / first.norm()
            expect(
                bool(change > 1e-3), f"{name} {value} and {3 * value}: the gradient changes by {change:.2g} of itself"
            )


def _order(function: Loss) -> None:
    """The samples' order changes nothing."""
    order, extra = torch.tensor([3, 0, 4, 1, 2]), torch.tensor([2, 0, 3, 1])
    for inputs in _trials(function):
        negatives = None if inputs.negatives is None else inputs.negatives[extra]
        value, first, second = call(function, inputs)
        moved = Trial(inputs.z1[order], inputs.z2[order], inputs.labels[order], negatives)
        same(call(function, moved), (value, first[order], second[order]), EXACT, "samples in another order")


def _swapped(function: Loss) -> None:
    """Swapped views change nothing, where it is declared symmetric."""
    for inputs in _trials(function) if function.symmetric else []:
        value, first, second = call(function, inputs)
        swapped = call(function, replace(inputs, z1=inputs.z2, z2=inputs.z1))
        same(swapped, (value, second, first), EXACT, "views swapped")


def _length(function: Loss) -> None:
    """The projections' length changes the gradient's direction exactly where it does not normalise."""
    for inputs in _trials(function):
        value, *gradients = call(function, inputs)
        longer_value, *longer = call(function, replace(inputs, z1=5 * inputs.z1, z2=3 * inputs.z2))
        # Where length is nothing, the gradient falls by the factor; the value alone may be constant by design.
        change = max(
            (a - factor * b).abs().max() / a.abs().max() for a, b, factor in zip(gradients, longer, (5, 3), strict=True)
        )
        if not function.normalises:
            expect(bool(change > 1e-3), "declared not to normalise, but longer projections change nothing")
            continue
        expect(
            bool(change < 1e-4), f"declared to normalise, but longer projections change the gradient by {change:.2g}"
        )
        expect(
            bool((value - longer_value).abs() < 1e-4),
            f"longer projections change the value from {value:.6g} to {longer_value:.6g}",
        )


def _repeats(function: Loss) -> None:
    """Equal inputs and an equal generator give equal values."""
    first = call(function, trial())
    torch.rand(7)  # torch's own stream moves on
    same(call(function, trial()), first, 0.0, "called twice")


def _negatives(function: Loss) -> None:
    """Extra negatives change the gradient, where it takes them."""
    if function.negatives:
        with_them, without = (call(function, trial(1, negatives=extra))[1] for extra in (True, False))
        expect(bool((with_them - without).abs().max() > 1e-6), "extra negatives change nothing")


def _finite(function: Loss) -> None:
    """Finite in half precision under autocast and at a temperature of .01, computed in float32 at least."""
    options = {"temperature": 0.01} if "temperature" in parameters(function) else {}
    for inputs in (trial(2, count=32, width=8), trial(2, count=32, width=8, negatives=True)):
        for dtype in (torch.bfloat16, torch.float16, torch.float32):
            with torch.autocast("cpu", torch.bfloat16):
                value, *gradients = call(function, inputs.to(dtype), **options)
            expect(value.dtype in (torch.float32, torch.float64), f"from {dtype} it returns {value.dtype}")
            expect(bool(torch.isfinite(value)), f"from {dtype} the value is {value}")
            expect(all(bool(g.isfinite().all()) for g in gradients), f"from {dtype} the gradient is not finite")
            if "generator" not in parameters(function):  # it draws other numbers in another precision
                exact = call(function, inputs.to(dtype).to(torch.float64), **options)[0]
                error = (value - exact).abs() / exact.abs().clamp(min=1)
                expect(bool(error < 1e-3), f"from {dtype} the value is {value:.6g}, in double precision {exact:.6g}")


def _collapsed(function: Loss) -> None:
    """Finite where the views are equal, all samples are equal, or all projections are zero."""
    inputs = trial(3)
    ones, zeros = torch.ones_like(inputs.z1), torch.zeros_like(inputs.z1)
    for words, z1, z2 in (
        ("equal views", inputs.z1, inputs.z1),
        ("equal samples", ones, ones),
        ("zeros", zeros, zeros),
    ):
        value, *gradients = call(function, replace(inputs, z1=z1, z2=z2))
        finite = all(bool(part.isfinite().all()) for part in (value, *gradients))
        expect(finite, f"{words}: the value is {value:.6g}, or the gradient is not finite")


def _naive(function: Loss, name: str) -> None:
    """Value and gradient are those of a naive loop in double precision."""
    for inputs in _trials(function):
        queued = [{"pairs": "given"}] if "pairs" in defaults(function) and inputs.negatives is not None else []
        for options in naive.SETTINGS[name] + queued:
            settings = {**defaults(function), **options}
            # A generator of each: they draw the same.
            expected = naive.value_and_gradients(name, inputs, settings, inputs.passed_in(function))
            same(call(function, inputs, **settings), expected, EXACT, f"options {options}")


def _equal_features(function: Loss, name: str) -> None:
    """On equal features it has its known value (the log of the number of candidates)."""
    ones = torch.ones(ROWS, 2, dtype=torch.float64)
    inputs = Trial(ones, ones, torch.tensor([0, 0, 1, 1, 1]))
    for options, expected in naive.EQUAL_FEATURES[name]:
        value = call(function, inputs, **options)[0].item()
        expect(abs(value - expected(ROWS)) < EXACT, f"options {options}: {value:.6g} instead of {expected(ROWS):.6g}")


def _limits(function: Loss, name: str) -> None:
    """Its documented limits hold."""
    inputs = trial(4)
    for words, options, twin, twin_options in naive.LIMITS.get(name, []):
        expected = naive.value_and_gradients(twin, inputs, twin_options, {})
        same(call(function, inputs, **options), expected, EXACT, f"{words}, against {twin}")
    if name in LIMITS:
        LIMITS[name](function)


def _weighted_nt_xent(function: Loss) -> None:
    # Orthogonal samples, equal views: all anchors have one weight, and the gradient is not zero.
    z = torch.eye(3, dtype=torch.float64)
    inputs = Trial(z, z.clone(), torch.arange(3))
    value, *gradients = naive.value_and_gradients("nt-xent", inputs, {"temperature": 0.5}, {})
    weight = 1 / (1 - (-value).exp())
    expected = tuple(weight * part for part in (value, *gradients))
    for options in ({"form": "b", "beta": 0.0}, {"form": "a", "alpha": 1.0}):
        same(
            call(function, inputs, temperature=0.5, **options), expected, EXACT, f"{options}, against NT-Xent / (1 - P)"
        )


def _gradient_of_dcl(function: Loss) -> None:
    inputs = trial(4)
    _, *gradients = naive.value_and_gradients("dcl", inputs, {"temperature": 0.1}, {})
    expected = (torch.ones((), dtype=torch.float64), *gradients)
    same(call(function, inputs), expected, EXACT, "value 1 and the gradient of dcl")


def _no_distance(function: Loss) -> None:
    # Views that are the prior's own samples, in another order: the distance is zero whatever the directions.
    inputs = trial(4)
    for prior in ("hypersphere", "hypercube", "normal"):
        settings: dict[str, Any] = dict(generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        shape = (2 * len(inputs.z1), inputs.z1.shape[1])
        samples = 2 * torch.rand(shape, **settings) - 1 if prior == "hypercube" else torch.randn(shape, **settings)
        z1, z2 = samples.flip(0).chunk(2)
        views = Trial(z1, z2, inputs.labels)
        weighted, unweighted = (call(function, views, prior=prior, weight=weight)[0] for weight in (5.0, 0.0))
        difference = (weighted - unweighted).item()
        expect(abs(difference) < EXACT, f"{prior}: equal sorted samples are {difference:.3g} apart")


def _no_class_shared(function: Loss) -> None:
    inputs = trial(4)
    inputs = replace(inputs, labels=torch.arange(len(inputs.z1)))
    expected = naive.value_and_gradients("nt-xent", inputs, {"temperature": 0.1}, {})
    same(call(function, inputs), expected, EXACT, "every sample a class of its own, against nt-xent")


# Limits that are no setting of another loss.
LIMITS: dict[str, Callable[[Loss], None]] = {
    "macl": _weighted_nt_xent,
    "flat-nce": _gradient_of_dcl,
    "swd": _no_distance,
    "supcon-out": _no_class_shared,
    "supcon-in": _no_class_shared,
}


# --- two processes that gather their rows compute what one process computes on the joined batch ----------------------

PROCESSES, ROWS_OF_ONE = 2, 3
CLOSE = 1e-6
Job = tuple[str, Callable[[Tensor], Tensor]]  # a loss by name or path, and the gather for it
Result = tuple[Tensor, Tensor] | str  # value and gradient, or what went wrong


def run_gathered(jobs: list[Job]) -> list[Check]:
    """Run losses in a pair of gloo processes on the CPU and compare value and mean gradient with one process.

    Arguments:
        jobs: a loss, by name or by the path of a file, and the gather (rows of one process -> rows of all) for it, a
            function of a module, since the processes import it.
    """
    with tempfile.TemporaryDirectory() as folder:
        spawn(_process, (folder, jobs), nprocs=PROCESSES)
        ranks = [torch.load(Path(folder, f"{rank}.pt")) for rank in range(PROCESSES)]
    return [outcome(_gathered, reference, results) for (reference, _), *results in zip(jobs, *ranks, strict=True)]


def _gathered(reference: str, results: list[Result]) -> None:
    """Two gathered processes equal one with the joined batch."""
    values, gradients = [], []
    for rank, result in enumerate(results):
        if isinstance(result, str):
            raise Broken(f"process {rank}: {result}")
        values.append(result[0])
        gradients.append(result[1])
    expected = _value_and_gradient(reference, _joined(), lambda rows: rows)
    if isinstance(expected, str):
        raise Broken(expected)
    value, gradient = expected
    mean = sum(gradients) / PROCESSES
    far = max((part - value).abs().item() for part in values)
    off = ((mean - gradient).abs().max() / gradient.abs().max()).item()
    expect(
        far <= CLOSE * max(1, value.abs().item()) and off <= CLOSE,
        f"the value is off by {far:.3g}, the gradient by {off:.3g} of its largest entry",
    )


def _joined() -> Trial:
    return trial(5, negatives=True, count=PROCESSES * ROWS_OF_ONE)


def _process(rank: int, folder: str, jobs: list[Job]) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=PROCESSES, timeout=timedelta(seconds=60)
    )
    joined, rows = _joined(), slice(rank * ROWS_OF_ONE, (rank + 1) * ROWS_OF_ONE)
    part = Trial(joined.z1[rows], joined.z2[rows], joined.labels[rows], joined.negatives)
    torch.save([_value_and_gradient(reference, part, gather) for reference, gather in jobs], Path(folder, f"{rank}.pt"))
    distributed.barrier()
    distributed.destroy_process_group()


def _value_and_gradient(reference: str, inputs: Trial, gather: Callable) -> Result:
    """The loss of a linear encoder on the gathered rows, its weights' gradient; or what went wrong."""
    function = catalog.load_function("suppression_bench.losses", reference)
    width = inputs.z1.shape[1]
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(width, width, generator=generator, dtype=torch.float64).requires_grad_()
    z1, z2 = (gather(z @ weights) for z in (inputs.z1, inputs.z2))
    gathered = Trial(z1, z2, gather(inputs.labels), inputs.negatives)
    try:
        value = function(gathered.z1, gathered.z2, **gathered.passed_in(function))
        return value.detach(), torch.autograd.grad(value, weights)[0]
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())}"
