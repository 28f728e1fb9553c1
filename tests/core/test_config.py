"""Cells from suites, recipes and --set: which setting wins, all faults at once, --only, tiers, what belongs to the id."""

import copy

import pytest
import yaml

from generators.catalog import file_digest
from generators.dataset import UserError
from suppression_bench.cell import settings_key
from suppression_bench.config import cells_of_folder, flatten
from suppression_bench.suite import Request, cells_of_suite, suite_folder

SUITE = {
    "version": 1,
    "title": "test",
    "data": {"dataset": "randbit", "digit_source": "optdigits", "train": 100},
    "strength": "bits",
    "recipe": "randbit-small",
    "seeds": [0],
    "cells": [
        {"method": "simclr", "grid": {"temperature": [0.1, 0.2], "bits": [0, 4]}},
        {"method": "vae", "grid": {"planes": ["once"], "bits": [0, 4]}},
        {"method": "untrained", "grid": {"bits": [0, 4]}, "seeds": [0, 1]},
    ],
}


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
        "simclr temperature=0.1 bits=0 seed=0",
        "simclr temperature=0.1 bits=4 seed=0",
        "simclr temperature=0.2 bits=0 seed=0",
        "simclr temperature=0.2 bits=4 seed=0",
        "vae planes=once bits=0 seed=0",
        "vae planes=once bits=4 seed=0",
        "untrained bits=0 seed=0",
        "untrained bits=0 seed=1",
        "untrained bits=4 seed=0",
        "untrained bits=4 seed=1",
    ]
    assert (
        len({cell.cell.id for cell in cells(suite())}) == 10 == len({cell.cell.folder_name for cell in cells(suite())})
    )


def test_an_unknown_key_and_a_wrong_type_are_named_at_once(suite):
    broken = [
        {"method": "simclr", "grid": {"temprature": [0.1]}, "colour": 1},
        {"method": "byol", "set": {"steps": "many"}},
    ]
    text = faults(suite(cells=broken, sedes=[1], version="one"))
    for part in (
        "'sedes'",
        "did you mean 'seeds'",
        "version must be an integer",
        "'colour'",
        "'temprature'",
        "did you mean 'temperature'",
        "steps must be",
        "'many'",
    ):
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
    assert len({cell.cell.folder_name for cell in found}) == len(found)


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
    assert {cell.cell.method.name for cell in cells(suite(), only={"method": ["vae", "untrained"]})} == {
        "vae",
        "untrained",
    }
    assert [cell.cell.seed for cell in cells(suite(), only={"seed": [1]})] == [1, 1]
    assert len(cells(suite(), only={"bits": [4], "method": ["simclr"], "loss.temperature": ["0.2"]})) == 1


def test_only_with_an_unknown_key_or_no_cell_left_is_a_fault(suite):
    assert "did you mean 'temperature'" in faults(suite(), only={"temprature": [0.1]})
    text = faults(suite(), only={"temperature": [0.7]})
    assert "0.1" in text and "0.2" in text
    assert "byol" in faults(suite(), only={"method": ["byol"]})


def test_seeds_of_the_command_line_are_for_cells_that_name_none(suite):
    found = cells(suite(), seeds=3)
    by = {name: sorted({c.cell.seed for c in found if c.cell.method.name == name}) for name in ("simclr", "untrained")}
    assert by == {"simclr": [0, 1, 2], "untrained": [0, 1]}


@pytest.mark.parametrize("name", ["quick"])
def test_the_suites_of_the_package_are_valid(name):
    found = cells(name)
    assert len({cell.cell.id for cell in found}) == len(found) > 10


def test_the_notebooks_grid(mnist_folder):
    found = cells("randbit-mnist", set={"data.digit_source": f"mnist:{mnist_folder}"}, only={"method": ["simclr"]})
    grid = {
        (cell.cell.loss.options["temperature"], cell.cell.dataset.bits)
        for cell in found
        if cell.cell.loss.name == "nt-xent"
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


def test_set_wins_over_grid_cell_suite_and_recipe(suite):
    path = suite(
        set={"learning_rate": 0.5},
        cells=[{"method": "simclr", "set": {"learning_rate": 0.25}, "grid": {"learning_rate": [0.125]}}],
    )
    assert [cell.cell.train.learning_rate for cell in cells(path)] == [0.125]
    assert [cell.cell.train.learning_rate for cell in cells(path, set={"train.learning_rate": "1e-2"})] == [0.01]
    assert cells(suite(set={"learning_rate": 0.5}))[0].cell.train.learning_rate == 0.5
    path = suite(set={"learning_rate": 0.5}, cells=[{"method": "simclr", "set": {"learning_rate": 0.25}}])
    assert cells(path)[0].cell.train.learning_rate == 0.25
    assert cells(suite())[0].cell.train.learning_rate == 0.001


def test_a_setting_that_a_method_does_not_have_is_a_fault(suite):
    assert "unknown setting 'temperature'" in faults(suite(), set={"temperature": "0.3"})
    assert {
        c.cell.loss.options["temperature"] for c in cells(suite(cells=SUITE["cells"][:1]), set={"temperature": "0.3"})
    } == {0.3}


def test_the_identity_hangs_on_every_setting_and_on_nothing_else(suite):
    base = SUITE["cells"][:1]
    path = suite(cells=base)
    identity = cells(path)[0].cell.id
    assert cells(path)[0].cell.id == identity == cells(suite(cells=base, title="another title"))[0].cell.id
    changed = [
        {"learning_rate": "2e-3"},
        {"steps": "7"},
        {"bits": "3"},
        {"data.seed": "1"},
        {"area": "0.4,1.0"},
        {"head": "32,8"},
        {"pairs": "all"},
        {"encoder.name": "resnet18"},
        {"kinds": "sgd"},
        {"loss_weight": "1"},
        {"antialias": "false"},
    ]
    found = {cells(path, set=one)[0].cell.id for one in changed}
    assert identity not in found and len(found) == len(changed)
    assert cells(path, seeds=2)[1].cell.id != identity


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
    method = cell.cell.method
    assert (method.name, method.options, method.version) == ("my-method", {"depth": 5}, None)
    assert method.file == file_digest("suppression_bench.methods", str(path))
    assert cell.references["method"] == str(path) and str(tmp_path) not in str(cell.cell)
    path.write_text(METHOD + "\n# edited\n")
    [edited] = cells(suite(cells=[{"method": str(path)}]), set={"depth": "5"})
    assert edited.cell.id != cell.cell.id
    assert "did you mean 'depth'" in faults(suite(cells=[{"method": str(path)}]), set={"dept": "5"})
    assert "none.py" in faults(suite(cells=[{"method": str(tmp_path / "none.py")}]))


LOSS_FILE = """
from suppression_bench.loss import declares

@declares(normalises=False)
def mine(z1, z2, *, temperature: float = 0.9):
    return (z1 - z2).square().mean() / temperature
"""


def of_folder(folder, settings, method="simclr"):
    [located] = cells_of_folder(folder, method, "randbit-small", settings, 1)
    return located.cell


def refused(folder, settings, method="simclr"):
    with pytest.raises(UserError) as caught:
        of_folder(folder, settings, method)
    return str(caught.value)


def test_short_names_become_dotted_ones(randbit):
    for short, dotted in (("temperature", "loss.temperature"), ("steps", "train.steps"), ("bits", "data.bits")):
        assert of_folder(randbit, {short: "4"}).settings() == of_folder(randbit, {dotted: "4"}).settings()
    assert of_folder(randbit, {"learning-rate": "1"}).train.learning_rate == 1.0


def test_an_ambiguous_short_name_lists_its_owners(randbit):
    assert "method.momentum or train.momentum" in refused(randbit, {"momentum": "0.5"}, "byol")
    assert of_folder(randbit, {"method.momentum": "0.5"}, "byol").method.options["momentum"] == 0.5


def test_unknown_names_and_sections(randbit):
    for setting, hint in (("temperatur", "temperature"), ("trian.steps", "train"), ("train.step", "steps")):
        assert f"did you mean '{hint}'" in refused(randbit, {setting: "1"})
    assert "train.name" in refused(randbit, {"train.name": "1"})
    with pytest.raises(UserError, match="test"):
        flatten({"train": 5}, "test")


def test_steps_and_epochs_replace_each_other(randbit, suite):
    train = of_folder(randbit, {"steps": "7"}).train
    assert (train.steps, train.epochs) == (7, None)
    assert "exactly one" in refused(randbit, {"steps": "3", "epochs": "7"})  # in one layer they contradict each other


def test_naming_another_loss_or_encoder_drops_the_old_ones_options(randbit, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(LOSS_FILE)
    loss = of_folder(randbit, {"temperature": 0.3}).loss
    assert (loss.name, loss.options) == ("nt-xent", {"pairs": "cross", "temperature": 0.3})
    loss = of_folder(randbit, {"loss.name": str(path)}).loss
    assert (loss.name, loss.options) == ("mine", {"temperature": 0.9})
    assert of_folder(randbit, {"loss.name": str(path), "temperature": 0.2}).loss.options == {"temperature": 0.2}
    encoder = of_folder(randbit, {"encoder.name": "resnet18"}).encoder
    assert (encoder.name, encoder.options) == ("resnet18", {})


@pytest.mark.parametrize("name", ["nt_xent", "nt-xent"])
def test_naming_the_same_loss_again_keeps_its_options(randbit, name):
    assert of_folder(randbit, {"loss.name": name}).loss.options["pairs"] == "cross"


def test_options_of_a_loss_that_was_replaced_two_layers_ago_are_gone(suite, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(LOSS_FILE)
    [located] = cells(suite(cells=[{"method": "simclr"}], set={"loss.name": str(path)}), set={"loss.name": str(path)})
    assert located.cell.loss.options == {"temperature": 0.9}  # the recipe's had pairs=cross


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
        {"data.bits": "x"},
        {"loss.pairs": "some"},
    ],
)
def test_impossible_values_are_faults(randbit, wrong):
    text = refused(randbit, wrong)
    assert len(text.splitlines()) == 1 and next(iter(wrong)).partition(".")[2] in text


def test_values_are_converted_to_their_options_types(randbit):
    cell = of_folder(randbit, {"learning_rate": "1e-3", "area": "0.2,1", "shuffle": "false", "bits": "4"})
    assert cell.train.learning_rate == 0.001 and cell.augmentation.area == (0.2, 1.0)
    assert cell.train.shuffle is False and cell.dataset.bits == 4


def test_a_fixed_dataset_takes_no_options_but_bits(randbit):
    assert "did you mean" in refused(randbit, {"data.train": 3}) or "unknown setting" in refused(
        randbit, {"data.train": 3}
    )


def test_what_belongs_to_a_setting(suite):
    base = cells(suite(cells=SUITE["cells"][:1]))[0].cell
    same = cells(suite(cells=SUITE["cells"][:1]), set={"checkpoint_seconds": "5", "block_size": "10"})[0].cell
    assert settings_key(base) == settings_key(same) != base.id
    more_bits = cells(suite(cells=SUITE["cells"][:1]), set={"bits": "2"})[0].cell
    assert settings_key(base) != settings_key(more_bits)
    assert settings_key(base, dataset=False) == settings_key(more_bits, dataset=False)


FLAT = {
    "version": 1,
    "data": {"dataset": "randbit", "digit_source": "optdigits", "train": 100},
    "strength": "bits",
    "recipe": "randbit-small",
    "set": {"train": {"epochs": 3}, "loss.temperature": 0.3},
    "seeds": [0],
    "cells": [{"method": "simclr", "grid": {"bits": [0, 4]}}, {"method": "untrained", "seeds": [5]}],
}
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


def tier_cells(path, tier=None, **request):
    return cells_of_suite(path, Request(tier=tier, **request))


def tier_faults(path, tier=None, **request):
    with pytest.raises(UserError) as caught:
        tier_cells(path, tier, **request)
    return str(caught.value)


def test_the_default_tier_has_the_cells_of_a_flat_suite(write):
    flat = [cell.cell.id for cell in tier_cells(write(FLAT))]
    for tier in (None, "paper"):
        assert [cell.cell.id for cell in tier_cells(write(TIERED), tier)] == flat


def test_a_tier_extends_data_and_set_and_replaces_the_rest(write):
    quick = tier_cells(write(TIERED), "quick")
    assert [cell.cell.method.name for cell in quick] == ["simclr", "simclr", "untrained"]
    first = quick[0]
    assert first.cell.recipe == "randbit" and first.cell.seed == 7 and quick[2].cell.seed == 5
    assert first.dataset[1]["train"] == 60 and first.dataset[1]["digit_source"] == "optdigits"
    assert first.cell.train.steps == 2 and first.cell.train.epochs is None
    assert first.cell.loss.options["temperature"] == 0.3
    [small] = tier_cells(write(TIERED), "small")
    assert small.cell.method.name == "vae" and small.cell.train.epochs == 3
    assert small.dataset[1]["digit_source"] is None and small.dataset[1]["image_source"] == "leaves"


def test_the_tier_is_no_part_of_a_cell(write):
    data = {**FLAT["data"], "train": 60}
    own = {**FLAT, **TIERED["tiers"]["quick"], "data": data}
    own["set"] = {"loss.temperature": 0.3, "train.steps": 2}
    assert [cell.cell.id for cell in tier_cells(write(own))] == [
        cell.cell.id for cell in tier_cells(write(TIERED), "quick")
    ]


def test_the_common_part_may_lack_what_every_tier_has(write):
    content = {key: value for key, value in TIERED.items() if key != "cells"}
    content["tiers"] = {"paper": {"cells": FLAT["cells"]}, "quick": {}}
    text = tier_faults(write(content))
    assert text.splitlines() == ["suite mine, tier quick: the key 'cells' is missing"]
    del content["tiers"]["quick"]
    assert len(tier_cells(write(content))) == 3


def test_faults_of_all_tiers_are_named_at_once(write):
    content = copy.deepcopy(TIERED)
    content["tiers"]["quick"] |= {"sett": {}, "cells": [{"method": "simclr", "grid": {"temprature": [1]}}]}
    content["tiers"]["small"] |= {"recipe": "randbit_smal", "strength": "bits"}
    content["titel"] = "x"
    text = tier_faults(write(content), set={"train.epochs": 1})
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
    [found] = tier_cells(
        write(content), "quick", set={"loss.temperature": 0.2}
    )  # the small tier's vae has no such setting
    assert found.cell.loss.options["temperature"] == 0.2
    assert "loss.temperature" in tier_faults(write(content), "small", set={"loss.temperature": 0.2})


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
    assert words in tier_faults(write({**TIERED, **change}), tier)


def test_a_suite_without_tiers_or_without_a_default(write):
    assert tier_faults(write(FLAT), "quick") == "suite mine has no tiers: leave --tier quick out"
    without = {key: value for key, value in TIERED.items() if key != "tier"}
    assert "suite mine: the key 'tier' is missing" in tier_faults(write(without))
    assert "the suite has no tiers" in tier_faults(write({**FLAT, "tier": "quick"}))


def test_a_tier_has_a_folder_of_its_own_unless_it_is_the_default(write):
    path = write(TIERED)
    assert [suite_folder(path, tier) for tier in (None, "paper", "quick")] == ["mine", "mine", "mine-quick"]


def test_a_cell_may_stand_on_other_data(write):
    other = {
        "method": "vae",
        "data": {"dataset": "multidigits", "train": 50},
        "strength": "count",
        "recipe": "multidigits",
        "grid": {"count": [1, 2]},
    }
    found = tier_cells(write({**FLAT, "cells": [{"method": "untrained"}, other], "set": {}}))
    assert [cell.cell.dataset.name for cell in found] == ["randbit", "multidigits", "multidigits"]
    assert [(c.cell.strength.key, c.cell.strength.value) for c in found[1:]] == [("count", 1), ("count", 2)]
    assert found[1].cell.recipe == "multidigits" and found[1].dataset[1]["train"] == 50
