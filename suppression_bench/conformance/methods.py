"""What every method must keep to, checked on a tiny data set: gradients, seeds, saving, stop-gradients, labels."""

from collections.abc import Callable

import torch
from torch import Tensor

from suppression_bench.conformance.check import Check
from suppression_bench.conformance.toy import COUNT, Forbidden, Toy
from suppression_bench.method import Method, Output

SAME = 1e-6  # two vectors of length 1 with a cosine nearer to 1 are the same vector
EVERY = list(range(COUNT))


class _Broken(Exception):
    """A promise is not kept; the text says which and what was seen."""


def check_method(cls: type[Method], *, loss: Callable | None = None, options: dict | None = None) -> list[Check]:
    """Every check of a method, on the CPU in seconds; an error in the method is a failed check.

    Arguments:
        cls: the method's class.
        loss: what it is handed, if it takes a loss; its `default_loss` without it.
        options: of its constructor.
    """
    checks = [_seeds, _projection, _constant_channels]
    if cls.trains:
        checks += [_output, _gradient, _stopped, _labels, _pair, _falls]
        checks += [_positives] if "negatives" in cls.passes else []
    return [_outcome(check, Toy(cls, loss, dict(options or {}))) for check in [*checks, _saved]]


def _outcome(check: Callable[[Toy], None], toy: Toy) -> Check:
    name = check.__doc__.rstrip(".")
    random_state = torch.get_rng_state()
    try:
        check(toy)
    except Exception as error:  # a method's own mistake must not end the table
        text = " ".join(str(error).split()) or "no message"
        return Check(name, False, text if isinstance(error, _Broken) else f"{type(error).__name__}: {text}")
    finally:
        torch.set_rng_state(random_state)
    return Check(name, True)


def _expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise _Broken(otherwise)


def _finite(output: Output) -> None:
    _expect(isinstance(output, Output), f"loss returned {type(output).__name__}, not Output(loss, features)")
    _expect(output.loss.shape == (), f"the loss is no scalar, its shape is {tuple(output.loss.shape)}")
    _expect(bool(torch.isfinite(output.loss)), f"the loss is {output.loss.item()}")


def _differing(one: Method, other: Method) -> list[str]:
    pairs = zip(one.state_dict().items(), other.state_dict().values(), strict=True)
    return [name for (name, a), b in pairs if not torch.equal(a, b)]


def _seeds(toy: Toy) -> None:
    """the same seed gives the same weights, another seed others."""
    first, second = toy.build(3), toy.build(3)
    _expect(torch.initial_seed() == 3, "its constructor seeds torch's generator, which is the harness's to seed")
    if toy.cls.trains:
        for method in (first, second):
            toy.train(method, [EVERY[:16], EVERY[16:]])
    _expect(not _differing(first, second), f"unlike after the same seed: {', '.join(_differing(first, second))}")
    _expect(bool(_differing(first, toy.build(4))), "another seed gives the same weights")


def _projection(toy: Toy) -> None:
    """project gives one finite vector per sample."""
    method = toy.build().eval()
    with torch.no_grad():
        found = method.project(torch.rand(5, method.encoder.width))
    _expect(found.ndim == 2 and len(found) == 5, f"project gave the shape {tuple(found.shape)} for 5 samples")
    _expect(bool(torch.isfinite(found).all()), "project gave numbers that are not finite")


def _constant_channels(toy: Toy) -> None:
    """pictures with no, some and many constant channels, grey and in colour."""
    for bits, channels in ((0, 1), (3, 1), (20, 1), (2, 3)):
        method = toy.build(bits=bits, channels=channels)
        if toy.cls.trains:
            _finite(method.loss(toy.batch(EVERY[:8], bits=bits, channels=channels)))


def _output(toy: Toy) -> None:
    """the features are the encoder's output on the first view."""
    method, batch = toy.build(), toy.batch(EVERY[:8])
    output = method.loss(batch)
    _finite(output)
    expected = method.encoder(batch.views[0])
    _expect(output.features.shape == expected.shape, f"features have the shape {tuple(output.features.shape)}")
    _expect(bool(torch.allclose(output.features, expected, atol=1e-5)), "features are not the encoder's on view one")


def _gradient(toy: Toy) -> None:
    """a gradient reaches every parameter of the encoder."""
    method = toy.build()
    method.loss(toy.batch(EVERY[:8])).loss.backward()
    excused = tuple(name.removeprefix("encoder.") for name in method.no_gradient if name.startswith("encoder."))
    missing = [
        name
        for name, parameter in method.encoder.named_parameters()
        if not name.startswith(excused or ("\0",)) and (parameter.grad is None or not bool(parameter.grad.any()))
    ]
    _expect(not missing, f"none reaches {', '.join(missing)}")


def _stopped(toy: Toy) -> None:
    """no gradient passes the declared stop-gradients."""
    method = toy.build()
    outputs: dict[str, list[Tensor]] = {name: [] for name in method.no_gradient}
    for name, seen in outputs.items():
        method.get_submodule(name).register_forward_hook(lambda module, given, made, seen=seen: seen.append(made))
    method.loss(toy.batch(EVERY[:8])).loss.backward()
    for name, seen in outputs.items():
        _expect(bool(seen), f"{name} is declared in no_gradient, but the loss does not use it")
        _expect(not any(made.requires_grad for made in seen), f"a gradient passes {name}")
        reached = any(parameter.grad is not None for parameter in method.get_submodule(name).parameters())
        _expect(not reached, f"a gradient reaches the parameters of {name}")


def _labels(toy: Toy) -> None:
    """labels are read only if needs_labels says so."""
    method, batch = toy.build(), toy.batch(EVERY[:8])
    touched = "it reads labels, but does not declare needs_labels"
    try:
        method.loss(batch)
    except Exception:
        _expect(not (isinstance(batch.labels, Forbidden) and batch.labels.touched), touched)
        raise
    _expect(not (isinstance(batch.labels, Forbidden) and batch.labels.touched), touched)


def _pair(toy: Toy) -> None:
    """a batch of two has a finite loss and gradient."""
    method = toy.build()
    output = method.loss(toy.batch([4, 9]))
    _finite(output)
    output.loss.backward()
    gradients = [parameter.grad for parameter in method.parameters() if parameter.grad is not None]
    _expect(all(bool(torch.isfinite(gradient).all()) for gradient in gradients), "a gradient is not finite")


def _falls(toy: Toy) -> None:
    """the loss is finite and falls within 30 steps."""
    losses = toy.train(toy.build(), [EVERY] * 30)
    _expect(all(map(torch.isfinite, torch.tensor(losses))), f"a loss is not finite: {losses}")
    first, last = sum(losses[:3]) / 3, sum(losses[-3:]) / 3
    _expect(last < first, f"it went from {first:.4f} to {last:.4f}")


def _positives(toy: Toy) -> None:
    """the negatives hold none of the batch's own positives."""
    toy.train(toy.build(), [EVERY[:8], EVERY[8:16], EVERY[16:24], EVERY[:8]])
    for step, (_, positives, more) in enumerate(toy.calls, 1):
        negatives = more.get("negatives")
        _expect(negatives is not None, "it declares that it passes negatives, but its loss got none")
        one, other = (
            torch.nn.functional.normalize(values.detach().double(), dim=1) for values in (positives, negatives)
        )
        same = int(((one @ other.T) > 1 - SAME).any(1).sum())
        _expect(same == 0, f"in step {step} {same} of {len(one)} positives are among the negatives")


def _saved(toy: Toy) -> None:
    """saved and loaded it goes on as if it had never stopped."""
    method, other = toy.build(0), toy.build(1)
    batches = [EVERY[:8], EVERY[8:16], EVERY[16:24], EVERY[4:12], EVERY[20:28]]
    if toy.cls.trains:
        toy.train(method, batches[:3], steps=5)
    other.load_state_dict({name: value.clone() for name, value in method.state_dict().items()})
    if toy.cls.trains:
        losses = [toy.train(one, batches[3:], start=3, steps=5) for one in (method, other)]
        _expect(losses[0] == losses[1], f"losses {losses[0]} against {losses[1]}: keep its state in buffers")
    _expect(not _differing(method, other), f"unlike after loading: {', '.join(_differing(method, other))}")
