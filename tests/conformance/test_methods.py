"""The kit passes over every method, and planted errors do not get past it."""

import contextlib
import inspect

import pytest
import torch
from torch import nn

from generators import catalog
from suppression_bench.conformance.methods import check_method
from suppression_bench.method import Method, Output
from suppression_bench.methods.byol import BYOL
from suppression_bench.methods.memory_bank import MemoryBank
from suppression_bench.methods.moco import MoCo
from suppression_bench.methods.simclr import SimCLR
from suppression_bench.methods.simsiam import SimSiam
from suppression_bench.methods.supervised import Supervised
from suppression_bench.methods.swav import SwAV


def failed(cls, **more):
    return {check.name: check.detail for check in check_method(cls, **more) if not check.passed}


@pytest.mark.parametrize("name", catalog.names("suppression_bench.methods"))
def test_every_method_passes(name):
    cls = catalog.load_class("suppression_bench.methods", name, Method)
    checks = check_method(cls)
    assert not [check for check in checks if not check.passed]
    assert len(checks) >= (10 if cls.trains else 4) and len({check.name for check in checks}) == len(checks)


@pytest.mark.parametrize("layers", [1, 4])
@pytest.mark.parametrize("cls", [SimCLR, MoCo, MemoryBank, BYOL, SimSiam, SwAV], ids=lambda cls: cls.__name__)
def test_heads_of_one_and_four_layers(cls, layers):
    options = {"head": [24] * (layers - 1) + [12]}
    if "predictor" in inspect.signature(cls).parameters:
        options["predictor"] = [12]
    assert not failed(cls, options=options)


def test_a_rising_temperature_is_saved_too():
    assert not failed(SimCLR, options={"temperature_end": 0.6})


def test_the_kit_leaves_the_random_state_alone():
    torch.manual_seed(8)
    expected = torch.get_rng_state()
    check_method(SimCLR)
    assert torch.equal(torch.get_rng_state(), expected)


# Planted errors: each is a method of the package with one thing wrong.


class TargetsAreTrained(BYOL):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.target_encoder.requires_grad_(True)
        self.target_head.requires_grad_(True)

    def loss(self, batch):
        online = [self.encoder(view) for view in batch.views]
        predicted = [self.predictor(self.head(features)) for features in online]
        targets = [self.target_head(self.target_encoder(view)) for view in batch.views]
        return self._sum(predicted, targets, online)

    def _sum(self, predicted, targets, online):
        pairs = ((predicted[0], targets[1]), (predicted[1], targets[0]))
        return Output(sum(2 - 2 * nn.functional.cosine_similarity(*pair).mean() for pair in pairs), online[0])


class TargetsAreTheOnlineNetworks(TargetsAreTrained):
    def loss(self, batch):
        online = [self.encoder(view) for view in batch.views]
        projected = [self.head(features) for features in online]
        return self._sum([self.predictor(one) for one in projected], projected, online)


class GradientThroughTheFrozenTarget(TargetsAreTrained):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.target_encoder.requires_grad_(False)
        self.target_head.requires_grad_(False)

    def loss(self, batch):
        online = [self.encoder(view) for view in batch.views]
        self.target_encoder(batch.views[0])  # used, but not for the targets
        targets = [self.target_head(features) for features in online]
        return self._sum([self.predictor(self.head(features)) for features in online], targets, online)


class NothingStopped(SimSiam):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.stop_gradient = nn.Identity()


@pytest.mark.parametrize(
    "mutant", [TargetsAreTrained, TargetsAreTheOnlineNetworks, GradientThroughTheFrozenTarget, NothingStopped]
)
def test_a_missing_stop_gradient_is_caught(mutant):
    assert "no gradient passes the declared stop-gradients" in failed(mutant)


class QueueFirst(MoCo):
    """Puts the batch's keys into the queue before the loss, and looks at the whole queue."""

    def loss(self, batch):
        first, second = batch.views
        features = self.encoder(first)
        query = nn.functional.normalize(self.head(features), dim=1)
        with torch.no_grad():
            key = nn.functional.normalize(self.key_head(self.key_encoder(second)), dim=1)
        self.queue[: len(key)] = key
        self.waiting = key, batch.ids
        return Output(self.pair_loss(query, key, negatives=self.queue.clone()), features)


class WholeBank(MemoryBank):
    def loss(self, batch):
        features = self.encoder(batch.views[0])
        projected = nn.functional.normalize(self.head(features), dim=1)
        self.waiting = projected.detach(), batch.ids
        return Output(self.pair_loss(projected, self.bank[batch.ids], negatives=self.bank.clone()), features)


class OneKeyTooMany(MoCo):
    """Its queue holds a single key of the batch."""

    def loss(self, batch):
        original = self.pair_loss
        self.pair_loss = lambda query, key, negatives: original(query, key, negatives=torch.cat([negatives, key[:1]]))
        try:
            return super().loss(batch)
        finally:
            self.pair_loss = original


@pytest.mark.parametrize("mutant", [QueueFirst, WholeBank, OneKeyTooMany])
def test_negatives_that_contain_the_positive_are_caught(mutant):
    assert "the negatives hold none of the batch's own positives" in failed(mutant)


class ReadsLabels(SimCLR):
    def loss(self, batch):
        with contextlib.suppress(Exception):
            batch.labels["digit"]
        return super().loss(batch)


class Reseeds(SimCLR):
    def __init__(self, *arguments, **options):
        torch.manual_seed(0)
        super().__init__(*arguments, **options)


class QueueIsNotSaved(MoCo):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        queue = self.queue
        del self.queue
        self.queue = queue  # a plain attribute now


class EncoderIsCutOff(SimCLR):
    def loss(self, batch):
        output = super().loss(batch)
        features = output.features.detach()
        return Output(self.pair_loss(self.head(features), self.head(features.flip(1))), output.features)


class Climbs(SimCLR):
    def loss(self, batch):
        output = super().loss(batch)
        return Output(2 * output.loss.detach() - output.loss, output.features)  # the gradient's sign is wrong


class FeaturesOfTheSecondView(SimCLR):
    def loss(self, batch):
        return Output(super().loss(batch).loss, self.encoder(batch.views[1]))


class OneChannelOnly(Supervised):
    def loss(self, batch):
        assert batch.views[0].shape[1] == 3, "two bits, no more"
        return super().loss(batch)


class MeanOverTheBatch(SimCLR):
    def project(self, features):
        return self.head(features).mean(0)


class NeedsAGoodBatch(SimCLR):
    def loss(self, batch):
        output = super().loss(batch)
        return Output(output.loss / max(0, len(batch.ids) - 2), output.features)


@pytest.mark.parametrize(
    ("mutant", "word"),
    [
        (ReadsLabels, "labels are read"),
        (Reseeds, "the same seed"),
        (QueueIsNotSaved, "saved and loaded"),
        (EncoderIsCutOff, "a gradient reaches every parameter"),
        (Climbs, "falls"),
        (FeaturesOfTheSecondView, "features are the encoder's"),
        (OneChannelOnly, "constant channels"),
        (MeanOverTheBatch, "project gives"),
        (NeedsAGoodBatch, "a batch of two"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_other_planted_errors_are_caught(mutant, word):
    outputs = failed(mutant)
    assert any(word in name for name in outputs), outputs
    assert all(detail for detail in outputs.values())
