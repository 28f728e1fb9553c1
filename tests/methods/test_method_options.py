"""What methods are handed: losses that fit, labels, rising temperatures; bf16, refusals."""

import pytest
import torch
from small_cells import built, make_cell, pull

from generators import catalog
from generators.dataset import UserError
from suppression_bench.conformance.toy import COUNT, TARGETS, TinyEncoder, Toy
from suppression_bench.loss import declares
from suppression_bench.method import Batch, Info, Method, Target
from suppression_bench.methods.memory_bank import MemoryBank
from suppression_bench.methods.moco import MoCo
from suppression_bench.methods.simclr import SimCLR
from suppression_bench.methods.supcon import SupCon
from suppression_bench.methods.swav import SwAV


@pytest.mark.parametrize("name", sorted({*catalog.names("suppression_bench.methods")} - {"untrained"}))
def test_under_bf16_the_loss_stays_float32(name):
    toy = Toy(catalog.load_class("suppression_bench.methods", name, Method))
    with torch.autocast("cpu", torch.bfloat16):
        output = toy.build().loss(toy.batch(list(range(8))))
    assert output.loss.dtype == torch.float32 and torch.isfinite(output.loss)
    output.loss.backward()


# SupCon and the choice of a loss


def test_supcon_hands_over_the_labels_of_its_target():
    seen = []

    def remembering(z1, z2, *, labels):
        seen.append(labels)
        return (z1 - z2).square().mean()

    batch = Toy(SupCon).batch([4, 8, 12, 17])
    info = Info((12, 12, 1), 2, COUNT, {"marks": Target(3), **TARGETS, "other": Target(5)})
    labels = {"shape": torch.tensor([0, 1, 1, 2]), "other": torch.tensor([4, 3, 0, 0])}
    for target in ("shape", "other"):
        method = SupCon(TinyEncoder(12, 3), info, remembering, target=target)
        method.loss(Batch(batch.views, batch.ids, labels))
        assert torch.equal(seen[-1], labels[target])
    assert SupCon(TinyEncoder(12, 3), Info((12, 12, 1), 2, COUNT, TARGETS), remembering).target == "shape"
    for wrong, text in (("shap", "did you mean 'shape'"), ("marks", "set of classes")):
        with pytest.raises(UserError, match=text):
            SupCon(TinyEncoder(12, 3), info, remembering, target=wrong)


def test_a_method_finds_its_own_default_loss(randbit):
    for method, loss in (("supcon", "supcon-out"), ("moco", "nt-xent"), ("simclr", "nt-xent")):
        assert make_cell(method, randbit).cell.loss.name == loss
    assert make_cell("supcon", randbit, loss__name="supcon_in").cell.loss.name == "supcon-in"
    assert make_cell("simsiam", randbit).cell.loss is None


@pytest.mark.parametrize(
    ("method", "loss", "text"),
    [
        ("moco", "align_uniform", "moco hands negatives to its loss, but align_uniform takes none"),
        ("supcon", "nt_xent", "supcon hands labels to its loss, but nt_xent takes none"),
        ("simclr", "supcon_out", "supcon_out needs labels, but the method simclr gives none"),
    ],
)
def test_a_loss_that_does_not_fit_is_refused(randbit, method, loss, text):
    with pytest.raises(UserError, match=text):
        make_cell(method, randbit, loss__name=loss)


# SimCLR's temperature


def test_the_temperature_rises_linearly_from_the_losses_own():
    seen = []

    @declares(normalises=True)
    def warm(z1, z2, *, temperature: float = 0.1):
        seen.append(temperature)
        return (z1 - z2).square().mean() / temperature

    toy = Toy(SimCLR, warm, {"temperature_end": 0.5})
    toy.train(toy.build(), [[0, 1, 2]] * 4)
    assert seen == pytest.approx([0.1, 0.2, 0.3, 0.4])
    seen.clear()
    plain = Toy(SimCLR, warm)
    plain.train(plain.build(), [[0, 1, 2]] * 3)
    assert seen == [0.1, 0.1, 0.1] and "temperature" not in plain.calls[0][2]


def test_the_temperature_starts_from_the_recipes(randbit):
    method, _ = built("simclr", randbit, loss__temperature=0.3, method__temperature_end=0.7)
    assert method.temperatures == (0.3, 0.7)


def test_a_loss_without_temperature_and_an_impossible_one_are_refused():
    with pytest.raises(UserError, match="no temperature"):
        Toy(SimCLR, lambda z1, z2: (z1 - z2).sum(), {"temperature_end": 0.5}).build()
    with pytest.raises(UserError, match=r"above 0, got -0\.5"):
        Toy(SimCLR, pull, {"temperature_end": -0.5}).build()


@pytest.mark.parametrize(
    ("cls", "wrong"),
    [
        (MoCo, {"queue": 0}),
        (MoCo, {"momentum": 1.5}),
        (MemoryBank, {"momentum": -0.1}),
        (SwAV, {"epsilon": 0.0}),
        (SwAV, {"prototypes": 0}),
    ],
)
def test_impossible_options_are_refused(cls, wrong):
    with pytest.raises(UserError, match=rf"{next(iter(wrong))} must be .* got {next(iter(wrong.values()))}"):
        Toy(cls, pull, wrong).build()
