"""The memory bank: each sample's own average, and eq. 2 by loops."""

import math

import pytest
import torch
from small_cells import pull

from generators import catalog
from suppression_bench.conformance.toy import COUNT, Toy
from suppression_bench.methods.memory_bank import MemoryBank


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
