"""Tiers of a suite: what each makes of the common part, and faults of all of them at once."""

import copy

import pytest
import yaml

from generators.dataset import UserError
from suppression_bench.suite import Request, cells_of_suite, folder_name

FLAT = {
    "version": 1, "data": {"dataset": "randbit", "digit_source": "optdigits", "train": 100}, "strength": "bits",
    "recipe": "randbit-small", "set": {"train": {"epochs": 3}, "loss.temperature": 0.3}, "seeds": [0],
    "cells": [{"method": "simclr", "grid": {"bits": [0, 4]}}, {"method": "untrained", "seeds": [5]}],
}  # fmt: skip
TIERED = {
    **FLAT,
    "tier": "paper",
    "tiers": {
        "paper": {},
        "quick": {"data": {"train": 60}, "set": {"train.steps": 2}, "seeds": [7], "recipe": "randbit"},
        "small": {"cells": [{"method": "vae"}], "data": {"digit_source": None, "image_source": "leaves"}},
    },
}


@pytest.fixture
def write(tmp_path):
    def make(content, name="mine.yaml"):
        (tmp_path / name).write_text(yaml.safe_dump(copy.deepcopy(content), sort_keys=False))
        return str(tmp_path / name)

    return make


def cells(path, tier=None, **request):
    return cells_of_suite(path, Request(tier=tier, **request))


def faults(path, tier=None, **request):
    with pytest.raises(UserError) as caught:
        cells(path, tier, **request)
    return str(caught.value)


def test_the_default_tier_has_the_cells_of_a_flat_suite(write):
    flat = [cell.identity for cell in cells(write(FLAT))]
    for tier in (None, "paper"):
        assert [cell.identity for cell in cells(write(TIERED), tier)] == flat


def test_a_tier_extends_data_and_set_and_replaces_the_rest(write):
    quick = cells(write(TIERED), "quick")
    assert [cell.spec["method"]["name"] for cell in quick] == ["simclr", "simclr", "untrained"]
    first = quick[0]
    assert first.spec["recipe"] == "randbit" and first.spec["seed"] == 7 and quick[2].spec["seed"] == 5
    assert first.dataset[1]["train"] == 60 and first.dataset[1]["digit_source"] == "optdigits"
    assert first.spec["train"]["steps"] == 2 and first.spec["train"]["epochs"] is None
    assert first.spec["loss"]["options"]["temperature"] == 0.3
    [small] = cells(write(TIERED), "small")
    assert small.spec["method"]["name"] == "vae" and small.spec["train"]["epochs"] == 3
    assert small.dataset[1]["digit_source"] is None and small.dataset[1]["image_source"] == "leaves"


def test_the_tier_is_no_part_of_a_cell(write):
    data = {**FLAT["data"], "train": 60}
    own = {**FLAT, **TIERED["tiers"]["quick"], "data": data}
    own["set"] = {"loss.temperature": 0.3, "train.steps": 2}
    assert [cell.identity for cell in cells(write(own))] == [cell.identity for cell in cells(write(TIERED), "quick")]


def test_the_common_part_may_lack_what_every_tier_has(write):
    content = {key: value for key, value in TIERED.items() if key != "cells"}
    content["tiers"] = {"paper": {"cells": FLAT["cells"]}, "quick": {}}
    text = faults(write(content))
    assert text.splitlines() == ["suite mine, tier quick: the key 'cells' is missing"]
    del content["tiers"]["quick"]
    assert len(cells(write(content))) == 3


def test_faults_of_all_tiers_are_named_at_once(write):
    content = copy.deepcopy(TIERED)
    content["tiers"]["quick"] |= {"sett": {}, "cells": [{"method": "simclr", "grid": {"temprature": [1]}}]}
    content["tiers"]["small"] |= {"recipe": "randbit_smal", "strength": "bits"}
    content["titel"] = "x"
    text = faults(write(content), set={"train.epochs": 1})
    for part in (
        "suite mine: unknown key 'titel', did you mean 'title'?",
        "suite mine, tier quick: unknown key 'sett', did you mean 'set'?",
        "suite mine, tier quick, cell 1: unknown setting 'temprature', did you mean 'temperature'?",
        "suite mine, tier small: unknown key 'strength'",
        "did you mean 'randbit-small'?",
    ):
        assert part in text, part


def test_the_command_lines_settings_are_for_the_chosen_tier_alone(write):
    content = {**TIERED, "set": {}, "cells": [{"method": "simclr"}]}
    [found] = cells(write(content), "quick", set={"loss.temperature": 0.2})  # the small tier's vae has no such setting
    assert found.spec["loss"]["options"]["temperature"] == 0.2
    assert "loss.temperature" in faults(write(content), "small", set={"loss.temperature": 0.2})


@pytest.mark.parametrize(
    ("tier", "change", "words"),
    [
        ("quik", {}, "suite mine: unknown tier 'quik', did you mean 'quick'? (known: paper, quick, small)"),
        (None, {"tier": "papers"}, "suite mine: unknown default tier 'papers', did you mean 'paper'?"),
        (None, {"tier": 3}, "suite mine: tier must be a text, got 3"),
        (None, {"tiers": {}}, "suite mine: tiers is empty"),
        (None, {"tiers": {"paper": None}}, "suite mine, tier paper: expected names and values, got None"),
        (None, {"tiers": ["paper"]}, "suite mine: tiers must be names and values, got ['paper']"),
        (None, {"tiers": {"paper": {"cells": []}}}, "suite mine, tier paper: cells is empty"),
        (
            None,
            {"tiers": {"paper": {"cells": [3]}}},
            "suite mine, tier paper, cell 1: expected names and values, got 3",
        ),
        (
            None,
            {"tiers": {"paper": {"seeds": [-1]}}},
            "suite mine, tier paper: seeds must be a list of integers from 0",
        ),
    ],
)
def test_wrong_tiers_are_sentences(write, tier, change, words):
    assert words in faults(write({**TIERED, **change}), tier)


def test_a_suite_without_tiers_or_without_a_default(write):
    assert faults(write(FLAT), "quick") == "suite mine has no tiers: leave --tier quick out"
    without = {key: value for key, value in TIERED.items() if key != "tier"}
    assert "suite mine: the key 'tier' is missing" in faults(write(without))
    assert "the suite has no tiers" in faults(write({**FLAT, "tier": "quick"}))


def test_a_tier_has_a_folder_of_its_own_unless_it_is_the_default(write):
    path = write(TIERED)
    assert [folder_name(path, tier) for tier in (None, "paper", "quick")] == ["mine", "mine", "mine-quick"]


def test_a_cell_may_stand_on_other_data(write):
    other = {
        "method": "vae", "data": {"dataset": "multidigits", "train": 50}, "strength": "count", "recipe": "multidigits",
        "grid": {"count": [1, 2]},
    }  # fmt: skip
    found = cells(write({**FLAT, "cells": [{"method": "untrained"}, other], "set": {}}))
    assert [cell.spec["data"]["dataset"] for cell in found] == ["randbit", "multidigits", "multidigits"]
    assert [cell.spec["strength"] for cell in found[1:]] == [{"key": "count", "value": n} for n in (1, 2)]
    assert found[1].spec["recipe"] == "multidigits" and found[1].dataset[1]["train"] == 50
