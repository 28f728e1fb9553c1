"""The resolved cell: which setting wins, what belongs to its identity, a user's own method."""

import copy

import pytest
import yaml

from generators.catalog import file_digest
from generators.dataset import UserError
from suppression_bench.suite import Request, cells_of_suite

SUITE = {
    "version": 1, "title": "test", "data": {"dataset": "randbit", "digit_source": "optdigits", "train": 100}, "strength": "bits",
    "recipe": "randbit-small", "seeds": [0],
    "cells": [
        {"method": "simclr", "grid": {"temperature": [0.1, 0.2], "bits": [0, 4]}},
        {"method": "vae", "grid": {"planes": ["once"], "bits": [0, 4]}},
        {"method": "untrained", "grid": {"bits": [0, 4]}, "seeds": [0, 1]},
    ],
}  # fmt: skip


@pytest.fixture
def suite(tmp_path):
    """Edits of the suite -> the path of its file."""

    def make(**changes):
        path = tmp_path / "mine.yaml"
        path.write_text(yaml.safe_dump({**copy.deepcopy(SUITE), **changes}, sort_keys=False))
        return str(path)

    return make


def cells(path, set=None, only=None, seeds=None):
    return cells_of_suite(path, Request(set or {}, only or {}, seeds))


def faults(path, **request):
    with pytest.raises(UserError) as caught:
        cells(path, **request)
    return str(caught.value)


def test_set_wins_over_grid_cell_suite_and_recipe(suite):
    path = suite(
        set={"learning_rate": 0.5},
        cells=[{"method": "simclr", "set": {"learning_rate": 0.25}, "grid": {"learning_rate": [0.125]}}],
    )
    assert [cell.spec["train"]["learning_rate"] for cell in cells(path)] == [0.125]
    assert [cell.spec["train"]["learning_rate"] for cell in cells(path, set={"train.learning_rate": "1e-2"})] == [0.01]
    assert cells(suite(set={"learning_rate": 0.5}))[0].spec["train"]["learning_rate"] == 0.5
    path = suite(set={"learning_rate": 0.5}, cells=[{"method": "simclr", "set": {"learning_rate": 0.25}}])
    assert cells(path)[0].spec["train"]["learning_rate"] == 0.25
    assert cells(suite())[0].spec["train"]["learning_rate"] == 0.001


def test_a_setting_that_a_method_does_not_have_is_a_fault(suite):
    assert "unknown setting 'temperature'" in faults(suite(), set={"temperature": "0.3"})
    assert {
        c.spec["loss"]["options"]["temperature"]
        for c in cells(suite(cells=SUITE["cells"][:1]), set={"temperature": "0.3"})
    } == {0.3}


def test_the_identity_hangs_on_every_setting_and_on_nothing_else(suite):
    base = SUITE["cells"][:1]
    path = suite(cells=base)
    identity = cells(path)[0].identity
    assert cells(path)[0].identity == identity == cells(suite(cells=base, title="another title"))[0].identity
    changed = [
        {"learning_rate": "2e-3"}, {"steps": "7"}, {"bits": "3"}, {"data.seed": "1"}, {"area": "0.4,1.0"}, {"head": "32,8"},
        {"pairs": "all"}, {"encoder.name": "resnet18"}, {"kinds": "sgd"}, {"loss_weight": "1"}, {"antialias": "false"},
    ]  # fmt: skip
    found = {cells(path, set=one)[0].identity for one in changed}
    assert identity not in found and len(found) == len(changed)
    assert cells(path, seeds=2)[1].identity != identity


METHOD = '''"""Mine."""
from suppression_bench.method import Method

class Mine(Method):
    def __init__(self, encoder, info, *, depth: int = 2):
        super().__init__(encoder, info)

    def loss(self, batch):
        pass
'''


def test_a_users_method_by_path_is_known_by_its_digest(suite, tmp_path):
    path = tmp_path / "my_method.py"
    path.write_text(METHOD)
    [cell] = cells(suite(cells=[{"method": str(path)}]), set={"depth": "5"})
    assert cell.spec["method"] == {
        "name": "my-method",
        "options": {"depth": 5},
        "file": file_digest("suppression_bench.methods", str(path)),
    }
    assert cell.references["method"] == str(path) and str(tmp_path) not in str(cell.spec)
    path.write_text(METHOD + "\n# edited\n")
    [edited] = cells(suite(cells=[{"method": str(path)}]), set={"depth": "5"})
    assert edited.identity != cell.identity
    assert "did you mean 'depth'" in faults(suite(cells=[{"method": str(path)}]), set={"dept": "5"})
    assert "none.py" in faults(suite(cells=[{"method": str(tmp_path / "none.py")}]))
