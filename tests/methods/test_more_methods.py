"""MoCo, memory bank, SimSiam, SwAV, autoencoder: each against a second, naive writing and a value by hand."""

import math

import pytest
import torch
from torch.nn import functional as F

from generators import catalog
from suppression_bench.conformance.toy import COUNT, Toy
from suppression_bench.method import Batch
from suppression_bench.methods.autoencoder import Autoencoder
from suppression_bench.methods.memory_bank import MemoryBank
from suppression_bench.methods.moco import MoCo
from suppression_bench.methods.simsiam import SimSiam
from suppression_bench.methods.swav import Assignment, SwAV


def pull(z1, z2, *, negatives=None, labels=None, temperature: float = 0.1):
    """A stand-in for a loss: squared distance."""
    return (z1 - z2).square().mean() / temperature


# MoCo


def test_the_queue_holds_the_last_keys_in_a_ring():
    toy = Toy(MoCo, pull, {"head": [4], "queue": 7, "momentum": 0.5})
    method = toy.build()
    ring, owners, place = [row.tolist() for row in method.queue], [-1] * 7, 0
    counts = []
    batches = [[0, 1, 2], [3, 4, 5], [6, 7, 0], [8, 1, 9], [10, 11, 2], [3, 12, 13]]
    for step, ids in enumerate(batches):
        shown = [ring[i] for i in range(7) if owners[i] not in ids]  # what the loss must have seen in this step
        toy.train(method, [ids], start=step)
        _, keys, more = toy.calls[-1]
        assert more["negatives"].tolist() == shown
        counts.append(len(shown))
        for key, owner in zip(keys.tolist(), ids, strict=True):
            ring[place], owners[place] = key, owner
            place = (place + 1) % 7
        assert method.queue.tolist() == ring and method.queue_ids.tolist() == owners and method.position.item() == place
    assert counts == [7, 7, 6, 7, 7, 7]  # in the third step sample 0 still had a key in the queue
    torch.testing.assert_close(method.queue.norm(dim=1), torch.ones(7))


def test_of_a_batch_larger_than_the_queue_the_end_stays():
    toy = Toy(MoCo, pull, {"head": [4], "queue": 3})
    method = toy.build()
    toy.train(method, [[0, 1, 2, 3, 4]])
    assert sorted(method.queue_ids.tolist()) == [2, 3, 4]
    assert sorted(method.queue.tolist()) == sorted(toy.calls[0][1][2:].tolist())


def test_mocos_key_encoder_is_a_moving_average_that_starts_equal():
    toy = Toy(MoCo, pull, {"head": [6, 4], "momentum": 0.75})
    method = toy.build()
    moving = [*method.key_encoder.parameters(), *method.key_head.parameters()]
    online = [*method.encoder.parameters(), *method.head.parameters()]
    assert all(torch.equal(a, b) for a, b in zip(moving, online, strict=True))
    before = [parameter.clone() for parameter in moving]
    toy.train(method, [[0, 1, 2, 3]], rate=0.1)
    for old, now, new in zip(before, online, moving, strict=True):
        torch.testing.assert_close(new, 0.75 * old + 0.25 * now)
    assert not torch.equal(before[0], moving[0])


def test_mocos_query_is_view_one_and_its_key_view_two_of_the_slow_network():
    toy = Toy(MoCo, pull, {"head": [6, 4]})
    method, batch = toy.build(), toy.batch([0, 1, 2, 3])
    with torch.no_grad():
        for parameter in method.key_encoder.parameters():
            parameter.mul_(1.5)
    method.loss(batch)
    query, key, _ = toy.calls[0]
    torch.testing.assert_close(query, F.normalize(method.head(method.encoder(batch.views[0])), dim=1))
    torch.testing.assert_close(key, F.normalize(method.key_head(method.key_encoder(batch.views[1])), dim=1))


# Memory bank


def test_the_bank_averages_each_samples_own_entry():
    toy = Toy(MemoryBank, pull, {"head": [4], "momentum": 0.3})
    method = toy.build()
    bank = [row.tolist() for row in method.bank]
    assert len(bank) == COUNT
    for step, ids in enumerate([[5, 0, 9], [9, 1, 2], [5, 9, 3]]):
        entries, others = [bank[i] for i in ids], [bank[i] for i in range(COUNT) if i not in ids]
        toy.train(method, [ids], start=step)
        projected, positives, more = toy.calls[-1]
        torch.testing.assert_close(positives, torch.tensor(entries))
        torch.testing.assert_close(more["negatives"], torch.tensor(others))
        for i, row in zip(ids, projected.tolist(), strict=True):
            mixed = [0.3 * old + 0.7 * new for old, new in zip(bank[i], row, strict=True)]
            length = math.sqrt(sum(x * x for x in mixed))
            bank[i] = [x / length for x in mixed]
        torch.testing.assert_close(method.bank, torch.tensor(bank))


def test_a_bank_entry_by_hand():
    method = Toy(MemoryBank, pull, {"head": [2]}).build()
    method.bank[6] = torch.tensor([1.0, 0.0])
    method.waiting = torch.tensor([[0.0, 1.0]]), torch.tensor([6])
    method.after_step(0.5)
    assert method.bank[6].tolist() == pytest.approx([0.5**0.5, 0.5**0.5])  # half way between the axes, length 1


def test_with_cross_pairs_an_anchor_meets_the_whole_bank_but_itself():
    nt_xent = catalog.load_function("suppression_bench.losses", "nt_xent")

    def cross(z1, z2, *, negatives):
        return nt_xent(z1, z2, temperature=0.5, pairs="cross", negatives=negatives)

    toy = Toy(MemoryBank, cross, {"head": [4]})
    method, ids = toy.build(), [3, 8, 20]
    value = method.loss(toy.batch(ids)).loss.item()
    projected, bank = toy.calls[0][0].detach().double(), method.bank.double()
    rows, columns = 0.0, 0.0
    for position, i in enumerate(ids):
        terms = [math.exp(float(projected[position] @ bank[j]) / 0.5) for j in range(COUNT)]
        rows -= math.log(terms[i] / sum(terms)) / 3  # Wu et al., eq. 2
        others = [math.exp(float(bank[i] @ bank[j]) / 0.5) for j in range(COUNT) if j not in ids]
        batch = [math.exp(float(bank[i] @ projected[j]) / 0.5) for j in range(3)]
        columns -= math.log(batch[position] / (sum(batch) + sum(others))) / 3
    assert value == pytest.approx((rows + columns) / 2, rel=1e-5)


# SimSiam


def test_simsiams_value_and_gradient_by_a_second_writing():
    toy = Toy(SimSiam, None, {"head": [8, 6], "predictor": [3, 6]})
    method, batch = toy.build(), toy.batch([0, 1, 2, 3, 4])
    method.loss(batch).loss.backward()
    found = [parameter.grad.clone() for parameter in method.parameters()]
    value = method.loss(batch).loss.item()
    method.zero_grad()
    projected = [method.head(method.encoder(view)) for view in batch.views]
    constants = [[row.tolist() for row in z] for z in projected]
    total = torch.zeros(())
    for mine, other in ((0, 1), (1, 0)):
        for predicted, target in zip(method.predictor(projected[mine]), constants[other], strict=True):
            product = sum(p * t for p, t in zip(predicted, target, strict=True))
            total = total - product / (predicted.norm() * math.sqrt(sum(t * t for t in target))) / (2 * 5)
    total.backward()
    assert value == pytest.approx(total.item(), rel=1e-5)
    for one, parameter in zip(found, method.parameters(), strict=True):
        torch.testing.assert_close(one, parameter.grad, rtol=1e-3, atol=1e-6)


def test_simsiam_by_hand():
    method = Toy(SimSiam, None, {"head": [6], "predictor": [6]}).build()
    torch.nn.init.eye_(method.predictor[0].weight)
    view = torch.rand(4, 3, 12, 12)
    # Two equal views and a predictor that changes nothing: both cosines are 1.
    assert method.loss(Batch([view, view], torch.arange(4))).loss.item() == pytest.approx(-1)


# SwAV


def naive_sinkhorn(similarity, epsilon, iterations):
    """Caron et al.'s appendix code with loops: Q is prototypes x samples, its rows and columns are scaled in turn."""
    samples, prototypes = len(similarity), len(similarity[0])
    q = [[math.exp(similarity[b][k] / epsilon) for b in range(samples)] for k in range(prototypes)]
    for _ in range(iterations):
        for k in range(prototypes):
            row = sum(q[k])
            q[k] = [value / row / prototypes for value in q[k]]
        for b in range(samples):
            column = sum(q[k][b] for k in range(prototypes))
            for k in range(prototypes):
                q[k][b] /= column * samples
    return [[q[k][b] * samples for k in range(prototypes)] for b in range(samples)]


def test_sinkhorn_is_the_slow_one():
    similarity = torch.rand(7, 4, generator=torch.Generator().manual_seed(2), dtype=torch.float64) * 2 - 1
    for epsilon, iterations in ((0.05, 3), (0.5, 1)):
        found = Assignment(epsilon, iterations)(similarity)
        expected = torch.tensor(naive_sinkhorn(similarity.tolist(), epsilon, iterations), dtype=torch.float64)
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(found.sum(1), torch.ones(7, dtype=torch.float64))
    even = Assignment(0.5, 200)(similarity)
    torch.testing.assert_close(even.sum(0), torch.full((4,), 7 / 4, dtype=torch.float64))


def test_sinkhorn_by_hand():
    # Symmetric, so nothing needs scaling but each row to 1: odds of exp(.05 log 3 / .05) = 3 to 1.
    similarity = torch.tensor([[0.05 * math.log(3), 0.0], [0.0, 0.05 * math.log(3)]])
    assert Assignment(0.05, 3)(similarity).flatten().tolist() == pytest.approx([0.75, 0.25, 0.25, 0.75])
    assert torch.isfinite(Assignment(0.05, 3)(torch.tensor([[1.0, -1.0], [1.0, -1.0]]))).all()


def test_swav_predicts_the_other_views_assignment():
    toy = Toy(SwAV, None, {"head": [6], "prototypes": 5, "temperature": 0.2})
    method, batch = toy.build(), toy.batch([0, 1, 2, 3])
    value = method.loss(batch).loss.item()
    prototypes = F.normalize(method.prototypes.weight, dim=1)
    similarity = [
        (F.normalize(method.head(method.encoder(view)), dim=1) @ prototypes.T).tolist() for view in batch.views
    ]
    total = 0.0
    for mine, other in ((0, 1), (1, 0)):
        for row, wanted in zip(similarity[mine], naive_sinkhorn(similarity[other], 0.05, 3), strict=True):
            whole = sum(math.exp(s / 0.2) for s in row)
            total -= sum(q * (s / 0.2 - math.log(whole)) for q, s in zip(wanted, row, strict=True)) / (2 * 4)
    assert value == pytest.approx(total, rel=1e-4)


def test_swavs_prototypes_keep_length_one():
    toy = Toy(SwAV, None, {"prototypes": 5})
    method = toy.build()
    torch.testing.assert_close(method.prototypes.weight.norm(dim=1), torch.ones(5))
    before = method.prototypes.weight.detach().clone()
    toy.train(method, [[0, 1, 2, 3]] * 2, rate=0.1)
    torch.testing.assert_close(method.prototypes.weight.norm(dim=1), torch.ones(5))
    assert not torch.allclose(before, method.prototypes.weight)


# Autoencoder


@pytest.mark.parametrize("likelihood", ["bernoulli", "squared-error"])
@pytest.mark.parametrize(("planes", "weight"), [("once", 1 / 144), ("every-pixel", 1.0)])
def test_the_autoencoders_loss_is_the_slow_one(likelihood, planes, weight):
    toy = Toy(Autoencoder, None, {"latent": 5, "likelihood": likelihood, "planes": planes})
    method, batch = toy.build(), toy.batch([0, 1, 2])
    drawn, view = method.decoder(method.code(method.encoder(batch.views[0]))).double(), batch.views[0].double()
    share = torch.sigmoid(drawn)
    misfit = (
        -(view * share.log() + (1 - view) * (1 - share).log()) if likelihood == "bernoulli" else (drawn - view) ** 2
    )
    total = sum(
        sum(misfit[sample, channel].flatten().tolist()) * (1.0 if channel == 0 else weight)
        for sample in range(3)
        for channel in range(3)
    )
    assert method.loss(batch).loss.item() == pytest.approx(total / 3, rel=1e-5)
    assert method.loss(batch).loss.item() == method.loss(batch).loss.item()  # no noise
    features = method.encoder(batch.views[0])
    assert torch.equal(method.project(features), method.code(features))


def test_a_drawing_of_zeros_by_hand():
    method = Toy(Autoencoder, None, {"likelihood": "bernoulli", "planes": "once"}).build()
    torch.nn.init.zeros_(method.decoder[-1].weight)
    torch.nn.init.zeros_(method.decoder[-1].bias)
    # Every pixel is drawn with probability one half: log 2 for each of 144 pixels and for each of two bits.
    view = torch.cat([torch.ones(2, 1, 12, 12), torch.zeros(2, 2, 12, 12)], 1)
    assert method.loss(Batch([view], torch.arange(2))).loss.item() == pytest.approx(146 * math.log(2))
