"""The conformance kit over every loss, one value by hand for each, and planted errors that the kit must catch."""

import math
from math import e, exp, log

import pytest
import torch
from small_cells import built
from torch.nn import functional as F

from generators import catalog
from generators.catalog import parameters
from generators.dataset import UserError
from suppression_bench.conformance import losses, naive
from suppression_bench.conformance.losses import check_loss
from suppression_bench.conformance.toy import Check
from suppression_bench.loss import declares, normalised, weighted_entropy, without_diagonal
from suppression_bench.method import Batch

LOSSES = catalog.names("suppression_bench.losses")
PAIRED = [
    "dcl",
    "dclw",
    "dual-temperature",
    "flat-nce",
    "hard",
    "hard-simple",
    "hcl",
    "ifm",
    "macl",
    "nt-xent",
    "simple",
]


def load(name):
    return catalog.load_function("suppression_bench.losses", name)


def failed(function, name):
    return {check.name: check.detail for check in check_loss(function, name) if not check.passed}


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_conforms(name):
    assert failed(load(name), name) == {}


def test_every_loss_has_a_naive_reference():
    assert set(LOSSES) == set(naive.LOSSES) == set(naive.SETTINGS)
    assert set(naive.EQUAL_FEATURES) == set(LOSSES) - {"swd", "barlow-twins", "vicreg"}
    assert [name for name in LOSSES if load(name).needs_labels] == ["supcon-in", "supcon-out"]
    assert [name for name in LOSSES if load(name).negatives] == sorted([*PAIRED, "decoupled-nt-xent"])


def test_the_kit_takes_names_and_files_and_refuses_others_before_it_starts_a_process(tmp_path, monkeypatch):
    path = tmp_path / "my_loss.py"
    path.write_text("def my_loss(z1, z2):\n    return (z1 - z2).square().mean()\n")
    monkeypatch.setattr(losses, "run_gathered", lambda jobs: [Check("gathered", True) for _ in jobs])
    found = losses.check_losses(["vicreg", str(path)])
    assert list(found) == ["vicreg", "my-loss"] and all(check.passed for check in found["vicreg"])
    undeclared, gathered = found["my-loss"]
    assert not undeclared.passed and "@declares" in undeclared.detail and gathered.name == "gathered"
    monkeypatch.setattr(losses, "run_gathered", None)
    with pytest.raises(UserError, match="did you mean"):
        losses.check_losses(["vicregg"])


EYE = torch.eye(2)  # equal views of two orthogonal samples: the positive has similarity 1, both negatives 0
HALF = torch.tensor([[1.0, 0.0], [1.0, 0.0]])  # a second view that leaves the second sample of EYE
OPPOSITE, ACROSS = torch.tensor([[1.0, 0.0], [-1.0, 0.0]]), torch.tensor([[0.0, 1.0], [0.0, -1.0]])
EQUAL_COLUMNS = torch.tensor([[1.0, 1.0], [-1.0, -1.0]])
WARM = exp(1 / 0.6)  # exp(1 / tau) for tau = .4 (1 + .5)

BY_HAND = [
    ("nt-xent", EYE, EYE, {"temperature": 1.0}, log(1 + 2 / e)),
    ("decoupled-nt-xent", EYE, EYE, {"temperature": 1.0, "weight": 1.0}, log(2 * e + 2)),
    ("decoupled-nt-xent", EYE, HALF, {"weight": 0.0}, 2 / 4 / 2),
    ("swd", 0 * EYE, EYE, {"prior": "normal", "weight": 0.0}, 2 / 4 / 2),
    ("dcl", EYE, EYE, {"temperature": 1.0}, log(2) - 1),
    (
        "dclw",
        EYE,
        HALF,
        {"temperature": 1.0, "sigma": 1.0},
        (2 * log(1 + e) + 2 * log(2) + 1) / 4 - (2 - e / ((e + 1) / 2)) / 2,
    ),
    (
        "dual-temperature",
        EYE,
        EYE,
        {"temperature": 1.0, "anchor_temperature": 0.5},
        (e + 2) / (e**2 + 2) * log(1 + 2 / e),
    ),
    ("flat-nce", EYE, HALF, {}, 1.0),
    ("macl", EYE, EYE, {"form": "b", "temperature": 0.4}, log(1 + 2 / WARM) * (WARM + 2) / 2),
    ("macl", EYE, EYE, {"form": "a", "temperature": 0.5}, log(1 + 2 / e) * (e + 2) / 2),
    (
        "macl",
        EYE,
        HALF,
        {"form": "w", "temperature": 1.0, "alpha": 1.0, "pairs": "cross"},
        (6 * log(2) + (1 + e) * log(1 + 1 / e) + 2 * (1 + e) / e * log(1 + e)) / 4,
    ),
    ("hard", EYE, EYE, {"temperature": 1.0, "top_k": 1}, log(1 + 1 / e)),
    ("simple", OPPOSITE, OPPOSITE, {}, -2.0),
    ("simple", OPPOSITE, OPPOSITE, {"weight": 1.0}, -3.0),
    ("hard-simple", EYE, HALF, {"top_k": 1}, 0.75 - 0.5),
    ("hcl", EYE, EYE, {"temperature": 1.0, "beta": 1.0, "tau_plus": 0.1}, log(1 + (2 - 0.2 * e) / 0.9 / e)),
    ("hcl", EYE, EYE, {"temperature": 0.5, "tau_plus": 0.5}, log(1 + 2 * exp(-2) / exp(2))),  # the floor holds
    ("ifm", EYE, EYE, {"temperature": 1.0, "epsilon": 0.5}, (log(1 + 2 / e) + log(3)) / 2),
    ("supcon-out", EYE, EYE, {"temperature": 1.0}, log(e + 2) - 1 / 3),
    ("supcon-in", EYE, EYE, {"temperature": 1.0}, log(3)),
    ("align-uniform", OPPOSITE, ACROSS, {}, 2 - 8.0),
    ("align-uniform", OPPOSITE, ACROSS, {"alpha": 1.0, "uniform_weight": 0.0}, math.sqrt(2)),
    ("barlow-twins", EQUAL_COLUMNS, EQUAL_COLUMNS, {"weight": 0.5}, 1.0),
    ("vicreg", EQUAL_COLUMNS, EQUAL_COLUMNS, {}, 8.0),
    ("vicreg", 0 * EYE, 0 * EYE, {}, 25 * (1 - 0.01)),
]


@pytest.mark.parametrize(("name", "z1", "z2", "options", "expected"), BY_HAND)
def test_a_value_known_by_hand(name, z1, z2, options, expected):
    labels = {"labels": torch.tensor([4, 4])} if load(name).needs_labels else {}
    assert load(name)(z1, z2, **labels, **options).item() == pytest.approx(expected, rel=1e-4)


def test_every_loss_has_a_value_by_hand():
    assert {name for name, *_ in BY_HAND} == set(LOSSES)


def test_a_query_against_a_queue_alone():
    # Two queries that are their keys, and two times the key (.6, .8) in the queue: similarities 1, and .6 or .8.
    queue = torch.tensor([[0.6, 0.8], [0.6, 0.8]])
    value = load("nt-xent")(EYE, EYE, temperature=0.5, pairs="given", negatives=queue)
    assert value.item() == pytest.approx((log(1 + 2 * exp(-0.8)) + log(1 + 2 * exp(-0.4))) / 2, rel=1e-6)
    for name in PAIRED:
        for nothing in (None, torch.zeros(0, 2)):
            with pytest.raises(UserError, match="use it with moco"):
                load(name)(EYE, EYE, pairs="given", negatives=nothing)


def test_the_distance_to_a_prior_in_one_dimension_is_that_of_the_sorted_samples():
    # Four views against the four samples that a fresh generator draws first; turning both around changes nothing.
    z1, z2 = torch.tensor([[0.5], [-2.0]]), torch.tensor([[0.5], [1.0]])
    prior = torch.randn(4, 1, generator=torch.Generator().manual_seed(3)).sort(dim=0).values.squeeze()
    expected = (prior - torch.tensor([-2.0, 0.5, 0.5, 1.0])).square().mean() * 2 + 9 / 4
    value = load("swd")(z1, z2, prior="normal", weight=2.0, generator=torch.Generator().manual_seed(3))
    assert value.item() == pytest.approx(expected.item(), rel=1e-5)


def test_the_weight_of_an_anchor_stays_finite_where_it_overflows():
    odds = torch.tensor([-300.0, -20.0, 0.0, 3.0], requires_grad=True)
    value = weighted_entropy(odds)
    (gradient,) = torch.autograd.grad(value.sum(), odds)
    assert gradient.tolist() == [1.0] * 4
    exact = odds.detach().double()
    torch.testing.assert_close(value[1:].double(), (F.softplus(exact) / torch.sigmoid(exact))[1:], rtol=1e-5, atol=0)
    assert value[0].item() == 1.0


def test_a_matrix_without_its_diagonal_keeps_the_order_of_its_rows():
    square = torch.arange(25).view(5, 5)
    assert without_diagonal(square).tolist() == [[5 * i + j for j in range(5) if j != i] for i in range(5)]


def test_the_randbit_recipes_loss_is_the_notebooks(randbit):
    method, data = built("simclr", randbit, recipe="randbit", data__bits=4, loss__temperature=0.2, train__batch_size=16)
    samples = data.samples("pretrain")
    views = [samples.whole(slice(0, 16)), samples.whole(slice(0, 16)).flip(3)]
    value = method.loss(Batch(views, torch.arange(16))).loss
    a, b = (F.normalize(method.head(method.encoder(view)), dim=1) for view in views)
    logits, rows = a @ b.T / 0.2, torch.arange(16)
    notebook = F.cross_entropy(logits, rows) + F.cross_entropy(logits.T, rows)
    assert value.item() == pytest.approx(notebook.item(), rel=1e-5)


WRONG = [
    *[(name, {"temperature": 0.0}) for name in LOSSES if "temperature" in parameters(load(name))],
    *[(name, {"pairs": "some"}) for name in PAIRED],
    ("nt-xent", {"temperature": float("nan")}),
    ("dual-temperature", {"anchor_temperature": -1.0}),
    ("dclw", {"sigma": 0.0}),
    ("decoupled-nt-xent", {"weight": -1.0}),
    ("swd", {"prior": "cube"}),
    ("swd", {"weight": -1.0}),
    ("macl", {"form": "c"}),
    ("macl", {"beta": 1.0}),
    ("macl", {"alpha": 0.0}),
    ("hard", {"alpha": 0.0}),
    ("hard", {"alpha": 1.5}),
    ("hard", {"top_k": 0}),
    ("hard-simple", {"alpha": -1.0}),
    ("hard-simple", {"weight": -1.0}),
    ("simple", {"weight": -1.0}),
    ("hcl", {"beta": -1.0}),
    ("hcl", {"tau_plus": 1.0}),
    ("ifm", {"epsilon": -0.1}),
    ("align-uniform", {"alpha": 0.5}),
    ("align-uniform", {"t": 0.0}),
    ("align-uniform", {"align_weight": -1.0}),
    ("barlow-twins", {"weight": -1.0}),
    ("vicreg", {"variance_weight": -1.0}),
    ("supcon-in", {"labels": None}),
    ("supcon-out", {"labels": torch.ones(2, 3)}),
]


@pytest.mark.parametrize(("name", "options"), WRONG)
def test_a_wrong_value_is_a_sentence(name, options):
    labels = {"labels": torch.tensor([0, 1])} if load(name).needs_labels else {}
    with pytest.raises(UserError, match=" ") as caught:
        load(name)(EYE, EYE, **{**labels, **options})
    [option] = options
    assert option in str(caught.value)


@pytest.mark.parametrize("name", ["dcl", "hard", "simple", "align-uniform", "barlow-twins", "vicreg"])
def test_a_batch_of_one_is_refused_where_it_has_no_meaning(name):
    with pytest.raises(UserError, match="one sample"):
        load(name)(EYE[:1], EYE[:1])


def test_one_sample_and_a_queue_are_enough():
    value = load("dcl")(EYE[:1], EYE[:1], temperature=1.0, negatives=EYE)
    assert value.item() == pytest.approx(log(e + 1) - 1)


# Planted errors: each is what somebody published or could easily write. The kit must catch all of them.


def _masked(z1, z2, temperature):
    both = torch.cat([normalised(z1), normalised(z2)])
    target = torch.arange(len(both)).roll(len(z1))
    return (both @ both.T / temperature).masked_fill(torch.eye(len(both), dtype=torch.bool), float("-inf")), target


@declares(normalises=True)
def ignores_temperature(z1, z2, *, temperature: float = 0.1, pairs: str = "all"):
    return F.cross_entropy(*_masked(z1, z2, 0.1))


@declares(normalises=True)
def sums_two_logarithms(z1, z2, *, temperature: float = 0.1, pairs: str = "all"):
    logits, target = _masked(z1, z2, temperature)
    halves = logits.split(len(z1), dim=1)
    return (sum(torch.logsumexp(half, dim=1) for half in halves) - logits.gather(1, target[:, None])[:, 0]).mean()


@declares(normalises=True)
def one_way(z1, z2, *, temperature: float = 0.1):
    return F.cross_entropy(normalised(z1) @ normalised(z2).T / temperature, torch.arange(len(z1)))


@declares(normalises=True)
def in_half_precision(z1, z2, *, temperature: float = 0.1):
    a, b = F.normalize(z1, dim=1), F.normalize(z2, dim=1)
    logits = a @ b.T / temperature
    return (F.cross_entropy(logits, torch.arange(len(a))) + F.cross_entropy(logits.T, torch.arange(len(a)))) / 2


@declares(normalises=True)
def overflows(z1, z2, *, temperature: float = 0.1):
    a, b = normalised(z1), normalised(z2)
    terms = (a @ b.T / temperature).exp()
    return -(terms.diagonal() / (terms.sum(0) + terms.sum(1))).log().mean()


@declares(normalises=False)
def normalises_undeclared(z1, z2, *, temperature: float = 0.1):
    return load("nt-xent")(z1, z2, temperature=temperature)


@declares(normalises=True)
def undeclared_negatives(z1, z2, *, negatives=None):
    return load("simple")(z1, z2, negatives=negatives)


FORMULA = "Value and gradient are those of a naive loop in double precision"
EQUAL = "On equal features it has its known value (the log of the number of candidates)"
TEMPERATURE = "Every temperature changes the gradient"
FINITE = "Finite in half precision under autocast and at a temperature of .01, computed in float32 at least"
LENGTH = "The projections' length changes the gradient's direction exactly where it does not normalise"
MUTANTS = [
    (ignores_temperature, "nt-xent", {FORMULA, TEMPERATURE}),
    (ignores_temperature, "my-loss", {TEMPERATURE}),
    (sums_two_logarithms, "nt-xent", {FORMULA, EQUAL}),
    (one_way, "my-loss", {"Swapped views change nothing, where it is declared symmetric"}),
    (in_half_precision, "my-loss", {FINITE}),
    (overflows, "my-loss", {FINITE}),
    (load("supcon-in"), "supcon-out", {FORMULA}),
    (load("dcl"), "nt-xent", {FORMULA, EQUAL}),
    (normalises_undeclared, "my-loss", {LENGTH}),
    (undeclared_negatives, "my-loss", {"It declares what it takes"}),
    (lambda z1, z2: (z1 - z2).square().mean(), "my-loss", {"It declares what it takes"}),
]


@pytest.mark.parametrize(("mutant", "name", "expected"), MUTANTS, ids=[f"{m.__name__}-{n}" for m, n, _ in MUTANTS])
def test_a_planted_error_is_caught(mutant, name, expected):
    found = failed(mutant, name)
    assert expected <= set(found), found
    assert all(found[check] for check in expected)  # and says what was seen
