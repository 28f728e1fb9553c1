"""Suites: every fault at once, --only, --set, and what belongs to a cell's identity."""

import copy

import pytest
import yaml

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


def test_grid_times_methods_times_seeds(suite):
    labels = [cell.label for cell in cells(suite())]
    assert labels == [
        "simclr temperature=0.1 bits=0 seed=0", "simclr temperature=0.1 bits=4 seed=0", "simclr temperature=0.2 bits=0 seed=0",
        "simclr temperature=0.2 bits=4 seed=0", "vae planes=once bits=0 seed=0", "vae planes=once bits=4 seed=0",
        "untrained bits=0 seed=0", "untrained bits=0 seed=1", "untrained bits=4 seed=0", "untrained bits=4 seed=1",
    ]  # fmt: skip
    assert len({cell.identity for cell in cells(suite())}) == 10 == len({cell.folder_name for cell in cells(suite())})


def test_an_unknown_key_and_a_wrong_type_are_named_at_once(suite):
    broken = [
        {"method": "simclr", "grid": {"temprature": [0.1]}, "colour": 1},
        {"method": "byol", "set": {"steps": "many"}},
    ]
    text = faults(suite(cells=broken, sedes=[1], version="one"))
    for part in ("'sedes'", "did you mean 'seeds'", "version must be an integer", "'colour'", "'temprature'",
                 "did you mean 'temperature'", "steps must be", "'many'"):  # fmt: skip
        assert part in text, part
    assert "cell 1" in text


@pytest.mark.parametrize("kind", ["method", "encoder", "loss", "dataset", "recipe"])
def test_unknown_names_come_with_a_suggestion(suite, kind):
    change = {
        "method": {"cells": [{"method": "simclar"}]},
        "encoder": {"set": {"encoder.name": "resnet81"}},
        "loss": {"set": {"loss.name": "nt_xen"}},
        "dataset": {"data": {"dataset": "randbits"}},
        "recipe": {"recipe": "randbit_small"},
    }[kind]
    wanted = {
        "method": "simclr",
        "encoder": "resnet18",
        "loss": "nt-xent",
        "dataset": "randbit",
        "recipe": "randbit-small",
    }
    assert f"did you mean '{wanted[kind]}'" in faults(suite(**change))


@pytest.mark.parametrize("grid", [{"bits": []}, {"bits": None}])
def test_a_grid_without_values_is_a_fault(suite, grid):
    assert "bits" in faults(suite(cells=[{"method": "simclr", "grid": grid}]))


@pytest.mark.parametrize(
    "change",
    [
        {"seeds": [0, 0]},
        {"cells": [{"method": "simclr"}, {"method": "simclr"}]},
        {"cells": [{"method": "simclr", "grid": {"bits": [1, 1]}}]},
    ],
)
def test_a_cell_that_is_named_twice_runs_once(suite, change):
    # Two workers in one folder would spoil each other's checkpoints.
    try:
        found = cells(suite(**change))
    except UserError:
        return
    assert len({cell.folder_name for cell in found}) == len(found)


@pytest.mark.parametrize(
    "bad",
    [
        {"seeds": []},
        {"seeds": [-1]},
        {"seeds": ["a"]},
        {"seeds": [True]},
        {"cells": []},
        {"cells": {}},
        {"cells": [3]},
        {"data": {}},
        {"data": []},
        {"set": {"train": 3}},
        {"recipe": ""},
    ],
)
def test_broken_suites_are_user_errors(suite, bad):
    assert faults(suite(**bad))


def test_more_bits_than_the_data_has_are_a_fault(suite):
    assert "32" in faults(suite(cells=[{"method": "simclr", "grid": {"bits": [0, 33]}}]))


def test_only_keeps_the_named_values_and_drops_cells_without_the_key(suite):
    found = cells(suite(), only={"temperature": [0.1]})
    assert [cell.label for cell in found] == [
        "simclr temperature=0.1 bits=0 seed=0",
        "simclr temperature=0.1 bits=4 seed=0",
    ]
    assert len(cells(suite(), only={"bits": [4]})) == 5
    assert {cell.spec["method"]["name"] for cell in cells(suite(), only={"method": ["vae", "untrained"]})} == {
        "vae",
        "untrained",
    }
    assert [cell.spec["seed"] for cell in cells(suite(), only={"seed": [1]})] == [1, 1]
    assert len(cells(suite(), only={"bits": [4], "method": ["simclr"], "loss.temperature": ["0.2"]})) == 1


def test_only_with_an_unknown_key_or_no_cell_left_is_a_fault(suite):
    assert "did you mean 'temperature'" in faults(suite(), only={"temprature": [0.1]})
    text = faults(suite(), only={"temperature": [0.7]})
    assert "0.1" in text and "0.2" in text
    assert "byol" in faults(suite(), only={"method": ["byol"]})


def test_seeds_of_the_command_line_are_for_cells_that_name_none(suite):
    found = cells(suite(), seeds=3)
    by = {
        name: sorted({c.spec["seed"] for c in found if c.spec["method"]["name"] == name})
        for name in ("simclr", "untrained")
    }
    assert by == {"simclr": [0, 1, 2], "untrained": [0, 1]}


@pytest.mark.parametrize("name", ["quick"])
def test_the_suites_of_the_package_are_valid(name):
    found = cells(name)
    assert len({cell.identity for cell in found}) == len(found) > 10


def test_the_notebooks_grid(mnist_folder):
    found = cells("randbit-mnist", set={"data.digit_source": f"mnist:{mnist_folder}"}, only={"method": ["simclr"]})
    grid = {
        (cell.spec["loss"]["options"]["temperature"], cell.spec["data"]["bits"])
        for cell in found
        if cell.spec["loss"]["name"] == "nt-xent"
    }
    assert grid == {(temperature, bits) for temperature in (0.05, 0.1, 0.2) for bits in (0, 5, 10, 15, 20)}


test_the_notebooks_grid = pytest.mark.real_data(test_the_notebooks_grid)


def test_an_unknown_recipe_hides_no_other_name(suite):
    text = faults(suite(recipe="randbit-smal", data={"dataset": "randbitt"}, cells=[{"method": "simclar"}]))
    for name in ("randbit-small", "randbit", "simclr"):
        assert f"did you mean '{name}'" in text, name


def test_data_that_name_no_dataset(suite):
    assert "data: the key 'dataset' is missing; it is one of digit-on-imagenet" in faults(suite(data={}))
    text = faults(suite(cells=[{"method": "byol", "data": {"digit_source": "optdigits"}}]))
    assert "cell 1: data: the key 'dataset' is missing" in text


def test_a_suite_file_that_is_no_text(tmp_path):
    for content in (b"\xff\xfe\x00version: 1", b"version: 2020-13-45", b"version: 1\nversion: 1"):
        (tmp_path / "mine.yaml").write_bytes(content)
        assert "mine.yaml: not valid YAML" in faults(str(tmp_path / "mine.yaml"))
