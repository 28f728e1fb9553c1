"""Versions of the built-in plug-ins: a plug-in whose numbers change must raise its version, since records pool by it.

`python tests/conformance/test_versions.py` writes versions.json anew, after the version was raised.
"""

import json
from pathlib import Path

import pytest
import torch

from generators import catalog
from suppression_bench.conformance.toy import COUNT, Toy, call, defaults, trial
from suppression_bench.encoder import Encoder
from suppression_bench.method import Method

TABLE = Path(__file__).with_name("versions.json")
PACKAGES = {kind: f"suppression_bench.{kind}" for kind in ("losses", "methods", "encoders")}
PLUG_INS = [(kind, name) for kind, package in PACKAGES.items() for name in catalog.names(package)]
TOLERANCE = {"losses": 1e-6, "methods": 1e-5, "encoders": 1e-5}  # relative; losses are called in double precision


def load(kind, name):
    if kind == "losses":
        return catalog.load_function(PACKAGES[kind], name)
    return catalog.load_class(PACKAGES[kind], name, Method if kind == "methods" else Encoder)


def numbers(kind, plug_in):
    """A few numbers of a plug-in on toy inputs from fixed seeds, with its default options."""
    return {"losses": loss_numbers, "methods": method_numbers, "encoders": encoder_numbers}[kind](plug_in)


def loss_numbers(loss):
    values = []
    inputs = trial(7, count=12, width=6, negatives=loss.negatives)
    for options in ({"pairs": pairs} for pairs in ("all", "cross", "given")) if "pairs" in defaults(loss) else [{}]:
        value, first, second = call(loss, inputs, **options)
        values += [value.item(), first.norm().item(), second.norm().item()]
    return values


def method_numbers(method_class):
    """The loss and its gradient in three plain gradient steps: what a method keeps from step to step is in them."""
    toy, values = Toy(method_class), []
    method = toy.build(5)
    weights = [parameter for parameter in method.parameters() if parameter.requires_grad]
    for step in range(3 if method.trains else 0):
        torch.manual_seed(step)
        loss = method.loss(toy.batch([(step * 7 + i) % COUNT for i in range(10)])).loss
        gradients = torch.autograd.grad(loss, weights, allow_unused=True, materialize_grads=True)
        values += [loss.item(), torch.cat([gradient.flatten() for gradient in gradients]).norm().item()]
        with torch.no_grad():
            for parameter, gradient in zip(weights, gradients, strict=True):
                parameter -= 0.02 * gradient
        method.after_step((step + 1) / 3)
    features = torch.rand(4, 16, generator=torch.Generator().manual_seed(0))
    return [*values, method.eval().project(features).norm().item()]


def encoder_numbers(encoder_class):
    torch.manual_seed(3)
    encoder = encoder_class(28, 3)
    images = torch.rand(4, 3, 28, 28, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        trained, frozen = encoder.train()(images), encoder.eval()(images)
        return [values.norm().item() for values in (trained, frozen, *encoder.stages(images))]


@pytest.mark.parametrize(("kind", "name"), PLUG_INS)
def test_changed_numbers_raise_the_version(kind, name):
    plug_in, recorded = load(kind, name), json.loads(TABLE.read_text())[kind].get(name)
    version = getattr(plug_in, "version", 1)
    write = f"then run: python {TABLE.with_name(Path(__file__).name)}"
    assert recorded, f"{kind}/{name} is new: {write}"
    assert version == recorded["version"], (
        f"{kind}/{name} has version {version}, the table {recorded['version']}: {write}"
    )
    same = numbers(kind, plug_in) == pytest.approx(recorded["numbers"], rel=TOLERANCE[kind], abs=1e-9)
    assert same, (
        f"{kind}/{name} gives other numbers, but its version is still {version}. If that is meant, raise its `version` "
        f"(of a loss in @declares): its records are no longer compared with older ones; {write}"
    )


def test_a_changed_number_is_caught():
    recorded = json.loads(TABLE.read_text())
    nt_xent = load("losses", "nt-xent")

    def warmer(z1, z2, *, temperature: float = 0.1, pairs="all", negatives=None):
        return nt_xent(z1, z2, temperature=1.00001 * temperature, pairs=pairs, negatives=negatives)

    warmer.negatives = True
    assert loss_numbers(warmer) != pytest.approx(recorded["losses"]["nt-xent"]["numbers"], rel=TOLERANCE["losses"])
    byol = load("methods", "byol")

    class Slower(byol):
        def after_step(self, progress):
            super().after_step(0.9 * progress)

    assert method_numbers(Slower) != pytest.approx(recorded["methods"]["byol"]["numbers"], rel=TOLERANCE["methods"])


def write():
    table = {kind: {} for kind in PACKAGES}
    for kind, name in PLUG_INS:
        plug_in = load(kind, name)
        table[kind][name] = {"version": getattr(plug_in, "version", 1), "numbers": numbers(kind, plug_in)}
    lines = [
        f'"{kind}": {{\n' + ",\n".join(f'  "{name}": {json.dumps(entry)}' for name, entry in entries.items()) + "\n}"
        for kind, entries in table.items()
    ]
    TABLE.write_text("{" + ",\n".join(lines) + "}\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    write()
