"""What every method must keep to, checked on a tiny dataset: gradients, seeds, saving, stop-gradients, labels."""

import torch
from torch import Tensor

from suppression_bench.conformance.toy import COUNT, Broken, Check, Forbidden, Toy, expect, outcome
from suppression_bench.method import Method, Output

SAME = 1e-6  # two vectors of length 1 with a cosine nearer to 1 are the same vector
EVERY = list(range(COUNT))


def check_method(cls: type[Method], *, options: dict | None = None) -> list[Check]:
    """Every check of a method, on the CPU in seconds; an error in the method is a failed check.

    Arguments:
        cls: the method's class.
        options: of its constructor.
    """
    checks = [_seeds, _projection, _constant_channels]
    if cls.trains:
        checks += [_output, _gradient, _stopped, _labels, _pair, _falls]
        checks += [_positives] if "negatives" in cls.passes else []
    return [outcome(check, Toy(cls, options=options or {})) for check in [*checks, _saved]]


def _finite(output: Output) -> None:
    expect(isinstance(output, Output), f"loss returned {type(output).__name__}, not Output(loss, features)")
    expect(output.loss.shape == (), f"the loss is no scalar, its shape is {tuple(output.loss.shape)}")
    expect(bool(torch.isfinite(output.loss)), f"the loss is {output.loss.item()}")


def _differing(first: Method, second: Method) -> list[str]:
    pairs = zip(first.state_dict().items(), second.state_dict().values(), strict=True)
    return [name for (name, a), b in pairs if not torch.equal(a, b)]


def _seeds(toy: Toy) -> None:
    """the same seed gives the same weights, another seed others."""
    first, second = toy.build(3), toy.build(3)
    expect(torch.initial_seed() == 3, "its constructor seeds torch's generator, which is the harness's to seed")
    if toy.cls.trains:
        for method in (first, second):
            toy.train(method, [EVERY[:16], EVERY[16:]])
    expect(not _differing(first, second), f"unlike after the same seed: {', '.join(_differing(first, second))}")
    expect(bool(_differing(first, toy.build(4))), "another seed gives the same weights")


def _projection(toy: Toy) -> None:
    """project gives one finite vector per sample."""
    method = toy.build().eval()
    with torch.no_grad():
        projected = method.project(torch.rand(5, method.encoder.width))
    shape = tuple(projected.shape)
    expect(projected.ndim == 2 and len(projected) == 5, f"project gave the shape {shape} for 5 samples")
    expect(bool(torch.isfinite(projected).all()), "project gave numbers that are not finite")


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
    expect(output.features.shape == expected.shape, f"features have the shape {tuple(output.features.shape)}")
    expect(bool(torch.allclose(output.features, expected, atol=1e-5)), "features are not the encoder's on view one")


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
    expect(not missing, f"none reaches {', '.join(missing)}")


def _stopped(toy: Toy) -> None:
    """no gradient passes the declared stop-gradients."""
    method = toy.build()
    outputs: dict[str, list[Tensor]] = {name: [] for name in method.no_gradient}
    for name, seen in outputs.items():
        method.get_submodule(name).register_forward_hook(lambda module, args, output, seen=seen: seen.append(output))
    method.loss(toy.batch(EVERY[:8])).loss.backward()
    for name, seen in outputs.items():
        expect(bool(seen), f"{name} is declared in no_gradient, but the loss does not use it")
        expect(not any(output.requires_grad for output in seen), f"a gradient passes {name}")
        reached = any(parameter.grad is not None for parameter in method.get_submodule(name).parameters())
        expect(not reached, f"a gradient reaches the parameters of {name}")


def _labels(toy: Toy) -> None:
    """labels are read only if needs_labels says so."""
    method, batch = toy.build(), toy.batch(EVERY[:8])
    touched = "it reads labels, but does not declare needs_labels"
    try:
        method.loss(batch)
    except Exception:
        expect(not (isinstance(batch.labels, Forbidden) and batch.labels.touched), touched)
        raise
    expect(not (isinstance(batch.labels, Forbidden) and batch.labels.touched), touched)


def _pair(toy: Toy) -> None:
    """a batch of two has a finite loss and gradient."""
    method = toy.build()
    output = method.loss(toy.batch([4, 9]))
    _finite(output)
    output.loss.backward()
    gradients = [parameter.grad for parameter in method.parameters() if parameter.grad is not None]
    expect(all(bool(torch.isfinite(gradient).all()) for gradient in gradients), "a gradient is not finite")


def _falls(toy: Toy) -> None:
    """the loss is finite and falls within 30 steps."""
    losses = toy.train(toy.build(), [EVERY] * 30)
    expect(all(map(torch.isfinite, torch.tensor(losses))), f"a loss is not finite: {losses}")
    first, last = sum(losses[:3]) / 3, sum(losses[-3:]) / 3
    expect(last < first, f"it went from {first:.4f} to {last:.4f}")


def _positives(toy: Toy) -> None:
    """the negatives hold none of the batch's own positives."""
    toy.train(toy.build(), [EVERY[:8], EVERY[8:16], EVERY[16:24], EVERY[:8]])
    for step, (_, positives, passed) in enumerate(toy.calls, 1):
        negatives = passed.get("negatives")
        if negatives is None:
            raise Broken("it declares that it passes negatives, but its loss got none")
        rows, queue = (torch.nn.functional.normalize(z.detach().double(), dim=1) for z in (positives, negatives))
        same = int(((rows @ queue.T) > 1 - SAME).any(1).sum())
        expect(same == 0, f"in step {step} {same} of {len(rows)} positives are among the negatives")


def _saved(toy: Toy) -> None:
    """saved and loaded it goes on as if it had never stopped."""
    method, loaded = toy.build(0), toy.build(1)
    batches = [EVERY[:8], EVERY[8:16], EVERY[16:24], EVERY[4:12], EVERY[20:28]]
    if toy.cls.trains:
        toy.train(method, batches[:3], steps=5)
    loaded.load_state_dict({name: value.clone() for name, value in method.state_dict().items()})
    if toy.cls.trains:
        losses = [toy.train(twin, batches[3:], start=3, steps=5) for twin in (method, loaded)]
        expect(losses[0] == losses[1], f"losses {losses[0]} against {losses[1]}: keep its state in buffers")
    expect(not _differing(method, loaded), f"unlike after loading: {', '.join(_differing(method, loaded))}")
