"""Settings: dotted and short names, layers, replacements."""

import pytest

from generators.dataset import UserError
from suppression_bench.settings import find_targets, flatten, full_name, merge, resolve
from suppression_bench.spec import Origin, make_cells


@pytest.fixture
def targets():
    return find_targets("randbit", "byol", "nt_xent", "randbit_conv", fixed_data=False)


@pytest.fixture
def simclr():
    return find_targets("randbit", "simclr", "nt_xent", "randbit_conv", fixed_data=False)


def refused(call, *arguments):
    with pytest.raises(UserError) as caught:
        call(*arguments)
    return str(caught.value)


def test_short_names_become_dotted_ones(simclr):
    known = simclr.known()
    for short, name in (
        ("temperature", "loss.temperature"),
        ("steps", "train.steps"),
        ("bits", "data.bits"),
        ("head", "method.head"),
        ("area", "augmentation.area"),
        ("kinds", "probe.kinds"),
        ("digit-source", "data.digit_source"),
    ):
        assert full_name(short, known, "test") == name == full_name(name, known, "test")
    assert full_name("loss.name", known, "test") == "loss.name"


def test_an_ambiguous_short_name_lists_its_owners(targets):
    known = targets.known()
    assert "method.momentum or train.momentum" in refused(full_name, "momentum", known, "test")
    assert full_name("method.momentum", known, "test") == "method.momentum"


def test_unknown_names_and_sections(simclr):
    known = simclr.known()
    assert "did you mean 'temperature'" in refused(full_name, "temperatur", known, "test")
    assert "did you mean 'train'" in refused(full_name, "trian.steps", known, "test")
    assert "did you mean 'steps'" in refused(full_name, "train.step", known, "test")
    assert "train.name" in refused(full_name, "train.name", known, "test")
    assert "test" in refused(flatten, {"train": 5}, "test")


def test_later_layers_win_whatever_way_a_setting_is_named(simclr):
    layers = [("a", {"train.steps": 1, "temperature": 0.1}), ("b", {"steps": 2}), ("c", {"loss.temperature": 0.3})]
    merged, faults = merge(layers, simclr.known())
    assert merged == {"train.steps": 2, "loss.temperature": 0.3} and not faults


def test_steps_and_epochs_replace_each_other(simclr):
    known = simclr.known()
    assert merge([("a", {"epochs": 3}), ("b", {"steps": 7})], known)[0] == {"train.steps": 7}
    assert merge([("a", {"steps": 3}), ("b", {"train.epochs": 7})], known)[0] == {"train.epochs": 7}
    both, _ = merge([("a", {"steps": 3, "epochs": 7})], known)
    assert both == {"train.steps": 3, "train.epochs": 7}  # in one layer they contradict each other
    assert any("exactly one" in fault for fault in resolve(both, simclr, False)[1])


LOSS_FILE = """
from suppression_bench.loss import declares

@declares(normalises=False)
def mine(z1, z2, *, temperature: float = 0.9):
    return (z1 - z2).square().mean() / temperature
"""


def resolved(randbit, settings):
    origin = Origin("test", folder=str(randbit))
    [cell], faults = make_cells("simclr", "randbit-small", [("--set", settings)], [0], origin)
    assert not faults
    return cell.spec


def test_naming_another_loss_or_encoder_drops_the_old_ones_options(randbit, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(LOSS_FILE)
    assert resolved(randbit, {"temperature": 0.3})["loss"] == {
        "name": "nt-xent",
        "options": {"pairs": "cross", "temperature": 0.3},
    }
    found = resolved(randbit, {"loss.name": str(path)})["loss"]
    assert (found["name"], found["options"]) == ("mine", {"temperature": 0.9})
    assert resolved(randbit, {"loss.name": str(path), "temperature": 0.2})["loss"]["options"] == {"temperature": 0.2}
    assert resolved(randbit, {"encoder.name": "resnet18"})["encoder"] == {"name": "resnet18", "options": {}}


@pytest.mark.parametrize("name", ["nt_xent", "nt-xent"])
def test_naming_the_same_loss_again_keeps_its_options(randbit, name):
    assert resolved(randbit, {"loss.name": name})["loss"]["options"]["pairs"] == "cross"


def test_options_of_a_loss_that_was_replaced_two_layers_ago_are_gone(randbit, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(LOSS_FILE)
    layers = [("suite", {"loss.name": str(path)}), ("--set", {"loss.name": str(path)})]  # the recipe's had pairs=cross
    [cell], faults = make_cells("simclr", "randbit-small", layers, [0], Origin("test", folder=str(randbit)))
    assert not faults and cell.spec["loss"]["options"] == {"temperature": 0.9}


def test_every_fault_is_collected(simclr):
    _, faults = merge([("a", {"temprature": 1, "setps": 3}), ("b", {"nothing.x": 1})], simclr.known())
    assert len(faults) == 3
    _, faults = resolve(
        {"train.steps": "many", "loss.pairs": "some", "data.bits": "x", "data.train": 0.5}, simclr, False
    )
    assert len(faults) == 4


def test_values_are_converted_to_their_options_types(simclr):
    given = {
        "train.steps": "5",
        "train.learning_rate": "1e-3",
        "augmentation.area": "0.2,1",
        "train.shuffle": "false",
        "data.bits": "4",
    }
    sections, faults = resolve(given, simclr, False)
    assert not faults and sections["data"]["bits"] == 4 and sections["train"]["shuffle"] is False
    assert sections["train"]["learning_rate"] == 0.001 and sections["augmentation"]["area"] == [0.2, 1.0]
    assert sections["data"]["seed"] == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"train.learning_rate": "nan"},
        {"train.steps": 2.5},
        {"train.steps": True},
        {"train.optimizer": "adan"},
        {"augmentation.area": "0.2"},
        {"train.batch_size": 0},
        {"probe.kinds": ["forest"]},
    ],
)
def test_impossible_values_are_faults(simclr, wrong):
    _, faults = resolve({"train.steps": 1, **wrong}, simclr, False)
    assert len(faults) == 1 and next(iter(wrong)).partition(".")[2] in faults[0]


def test_a_fixed_dataset_takes_no_options_but_bits(simclr):
    fixed = find_targets("", "simclr", "nt_xent", "randbit_conv", fixed_data=True)
    sections, faults = resolve({"train.steps": 1, "data.bits": 3}, fixed, True)
    assert sections["data"]["bits"] == 3 and not faults
    assert "train" not in fixed.known()["data"]


def test_all_unknown_plug_ins_are_named_at_once():
    text = refused(find_targets, "randbitt", "simclrr", "nt_xent", "resnett18", False)
    assert all(word in text for word in ("randbit", "simclr", "resnet18"))
