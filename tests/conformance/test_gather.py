"""Gathering: the same tensor in one process, the joined batch's value and gradient in two."""

import pytest
import torch
from torch import distributed

from generators import catalog
from suppression_bench.conformance.losses import run_gathered
from suppression_bench.training.distributed import gather

# A loss of a user's own goes through the same pair of processes, found there by its path.
OWN = """
import torch
from suppression_bench.loss import declares

@declares(normalises=False, needs_labels=True)
def own(z1, z2, *, labels=None):
    return (z1 - z2.flip(0)).square().mean() + (z1.mean(1) * labels).sum()
"""


def without_gradient(rows):
    """What torch's own all_gather does: the other processes' rows, and one's own, are constants."""
    parts = [torch.empty_like(rows) for _ in range(distributed.get_world_size())]
    distributed.all_gather(parts, rows.contiguous())
    return torch.cat(parts)


def own_part_only(rows):
    """A well-known half measure: one's own rows have a gradient, but it is not summed over the processes."""
    parts = list(without_gradient(rows.detach()).chunk(distributed.get_world_size()))
    parts[distributed.get_rank()] = rows
    return torch.cat(parts)


def test_one_process_gathers_nothing():
    rows = torch.randn(3, 2, requires_grad=True)
    assert gather(rows) is rows


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """One pair of processes for everything: starting them is what takes the time."""
    path = tmp_path_factory.mktemp("own") / "own.py"
    path.write_text(OWN)
    jobs = [(name, gather) for name in [*catalog.names("suppression_bench.losses"), str(path)]]
    jobs += [("nt-xent", without_gradient), ("nt-xent", own_part_only)]
    return dict(zip([*[name for name, _ in jobs[:-2]], "dropped", "partial"], run_gathered(jobs), strict=True))


def test_two_processes_equal_one(outcomes):
    planted = {"dropped", "partial"}
    assert {name: check.detail for name, check in outcomes.items() if not check.passed and name not in planted} == {}
    assert len(outcomes) == len(catalog.names("suppression_bench.losses")) + 1 + len(planted)


def test_a_gather_without_gradient_is_caught(outcomes):
    assert not outcomes["dropped"].passed and "does not require grad" in outcomes["dropped"].detail


def test_a_gather_that_does_not_sum_is_caught(outcomes):
    assert not outcomes["partial"].passed and "the gradient by" in outcomes["partial"].detail
