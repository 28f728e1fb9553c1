"""bench speed: every part is timed and printed, the ceiling is the same network, the arithmetic is right."""

import json

import pytest
import torch
from small_cells import CPU, make_cell

from suppression_bench import speed
from suppression_bench.cli import main
from suppression_bench.commands.run import EMBEDDED, timed_cell
from suppression_bench.encoder import Encoder
from suppression_bench.training import loop, precision
from suppression_bench.training.data import CAP
from suppression_bench.training.gradient_cache import GradientCache

SHORT = ["--device", "cpu", "--threads", "1", "--steps", "3"]


def bench(*arguments):
    return main(["speed", *map(str, arguments)])


def test_every_part_is_printed(randbit, capsys):
    assert bench("--data", randbit, "--set", "bits=2", "batch_size=50", "probe.l2=[0.01]", *SHORT) == 0
    printed = capsys.readouterr().out
    for part in speed.PARTS[:-1]:
        assert f"\n| {part} | " in printed
    for words in (
        "training, as `bench run` does it",
        "the same network on random tensors",
        "% of its ceiling",
        "Peak:",
        "1 threads",
        f"torch {torch.__version__}",
        "fp32",
        "batch 50, 2 views",
        "28 x 28 x 3",
        "lbfgs",
    ):
        assert words in printed, words
    assert "online probe" not in printed and not any(name in printed for name in speed.EXECUTION)
    shares = [
        float(line.split("|")[3].strip(" %")) for line in printed.splitlines() if line.split(" |")[0][2:] in speed.PARTS
    ]
    assert len(shares) == 5 and sum(shares) == pytest.approx(100, abs=0.3)


def test_json_holds_what_is_printed(randbit, capsys, monkeypatch):
    ready = []
    monkeypatch.setattr(precision, "prepare_process", lambda: ready.append(True))
    flags = ("--data", randbit, "--recipe", "randbit", "--format", "json", "--method", "supervised")
    assert bench(*flags, "--set", "train.batch_size=50", "probe.l2=[0.01]", *SHORT) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found["parts"]) == list(speed.PARTS)  # this recipe's online probe is a part too
    assert all(value >= 0 for value in found["parts"].values()) and found["parts"]["forward and backward"] > 0
    assert found["turns"] == found["steps"] == 3 and found["views"] == 1 and found["environment"]["threads"] == 1
    for side in ("training", "ceiling"):
        low, high = found["range"][side]
        assert 0 < low <= found["views_per_second"][side] <= high
        step = found["batch_size"] * found["views"] / found["views_per_second"][side]
        assert found["of_peak"][side] == pytest.approx(
            found["flops_per_step"] / step / found["peak"]["flops_per_second"]
        )
    assert speed.markdown(found).count("\n") > 10
    assert ready  # for train.deterministic on a GPU


def test_the_default_data_are_embedded(tmp_path, monkeypatch):
    made = timed_cell(None, None, "simclr", [])
    assert made.dataset[0] == "randbit" and made.cell.recipe == "randbit-small" and made.cell.seed == 0
    for recipe in EMBEDDED:
        made = timed_cell(None, recipe, "simclr", [])
        assert made.cell.recipe == recipe and made.dataset[0] == EMBEDDED[recipe]["dataset"]


def test_every_recipe_has_embedded_data():
    from suppression_bench.config import RECIPES

    assert set(EMBEDDED) == {path.stem for path in RECIPES.glob("*.yaml")}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--recipe", "randbit-smal"], "did you mean 'randbit-small'"),
        (["--method", "simclrr"], "did you mean 'simclr'"),
        (["--method", "untrained"], "does not train; name one that does"),
        (["--data", "nowhere"], "bench generate"),
        (["--device", "cuda"], "torch sees no CUDA device"),
        (["--steps", "0"], "--steps must be at least 1"),
        (["--threads", "0"], "--threads must be at least 1"),
        (["--set", "train.batch_size=4000"], "larger than the 200 training samples"),
        (["--set", "batchsize=4"], "unknown setting"),
        (["--stepz", "4"], "did you mean '--steps'"),
    ],
)
def test_a_wrong_flag_is_one_sentence(randbit, arguments, words, capsys):
    if "cuda" in arguments and torch.cuda.is_available():
        pytest.skip("there is a CUDA device here")
    data = [] if "--data" in arguments or "--recipe" in arguments else ["--data", randbit]
    assert bench(*data, *arguments) == 2
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1


def test_a_recipe_of_ones_own_needs_data(tmp_path, capsys):
    (tmp_path / "mine.yaml").write_text("encoder: {name: randbit_conv}\ntrain: {steps: 5}\n")
    assert bench("--recipe", tmp_path / "mine.yaml") == 2
    assert "name a folder with --data DIR" in capsys.readouterr().err


def test_the_steps_of_a_turn_and_the_share_of_an_epochs_tables(randbit, monkeypatch):
    """Four steps an epoch: the table of a turn that begins an epoch is taken out, and a quarter of one is added to each."""
    timer = speed.CellTimer(make_cell("simclr", randbit, train__batch_size=50), CPU, 6, print)
    seconds = iter(float(value) for value in range(0, 10_000, 3))  # three seconds between any two looks at the clock
    original = speed.Turns
    monkeypatch.setattr(speed, "Turns", lambda *arguments: original(*arguments, clock=lambda: next(seconds)))
    monkeypatch.setattr(speed, "timed", lambda device, work: work() and 2.0)
    training, ceiling = timer.sides(tables=0.4)
    assert timer.per_epoch == 4 and ceiling == [2.0] * 6
    assert training == pytest.approx([3.1, 3.1, 2.7, 3.1, 3.1, 3.1])  # steps 2 to 7: an epoch begins with step 4


def test_turns_leave_training_as_it_is(randbit):
    cell = make_cell("simclr", randbit, train__batch_size=50)
    timed, plain = (speed.CellTimer(cell, CPU, 3, print) for _ in range(2))
    timed.sides(tables=0.0)
    loop.train(plain.method, plain.samples, plain.training, plain.augmentation, seed=0)
    for name, value in timed.method.state_dict().items():
        assert torch.equal(value, plain.method.state_dict()[name]), name


def test_both_sides_and_the_parts_take_a_step_alike(randbit, monkeypatch):
    """In parts, compiled, with the cell's number format and kernels; only the count of operations is not compiled."""
    settings = {"precision": "tf32", "compile": "default", "micro_batch": 25, "deterministic": True}
    cell = make_cell(
        "simclr", randbit, train__batch_size=50, **{f"train__{name}": value for name, value in settings.items()}
    )
    original, steps = GradientCache.loss, []

    def loss(self, batch):
        compiled = self.method.encoder._compiled_call_impl is not None
        switches = torch.backends.cudnn.allow_tf32, torch.are_deterministic_algorithms_enabled()
        steps.append((id(self.method), self.rows, compiled, *switches))
        return original(self, batch)

    def compile_(encoder, **options):  # no compiler: what counts is whose encoder was asked
        encoder._compiled_call_impl = encoder._call_impl

    monkeypatch.setattr(GradientCache, "loss", loss)
    monkeypatch.setattr(Encoder, "compile", compile_)
    measured = speed.measure(cell, CPU, 2, print)
    assert len({network for network, *_ in steps}) == 2
    assert all(how == [25, True, True, True] for _, *how in steps[:-1]) and steps[-1][1:] == (25, False, True, True)
    assert measured["precision"] == "tf32"
    assert measured["execution"] == {name: settings[name] for name in speed.EXECUTION}
    assert "2 views, tf32, compile default, micro_batch 25, deterministic True, images" in speed.markdown(measured)


def test_a_gradient_caches_second_pass_is_counted(randbit):
    """Two passes forward and one backward, where a whole batch takes one of each: 4 / 3, less what the first layer saves."""
    whole, parts = (
        speed.CellTimer(make_cell("simclr", randbit, train__batch_size=50, **given), CPU, 1, print).ceiling.flops()
        for given in ({}, {"train__micro_batch": 25})
    )
    assert 1.3 < parts / whole < 1.5


def test_the_peak_has_the_cells_number_format(monkeypatch):
    """On a GPU the switch decides; a CPU has no TF32 and says so."""
    seen, backend = [], torch.backends.cuda.matmul
    monkeypatch.setattr(speed, "timed", lambda device, work: seen.append(backend.allow_tf32) or 1.0)
    before = backend.allow_tf32
    assert [speed.peak(CPU, name)["type"] for name in ("fp32", "tf32", "bf16")] == ["fp32", "fp32", "bf16"]
    times = speed.PRODUCTS
    assert seen == [False] * times + [True] * times + [False] * times and backend.allow_tf32 == before


def test_the_operations_of_a_dense_layer(randbit, monkeypatch):
    """Forward 2 B I O, backward as much for the weights and nothing for the images, which need no gradient."""
    from small_cells import Recorder

    monkeypatch.setattr(speed.CellTimer, "_method", lambda self: Recorder(views=1, channels=3))
    timer = speed.CellTimer(make_cell("simclr", randbit, data__bits=2, train__batch_size=50), CPU, 1, print)
    assert timer.ceiling.flops() == 2 * (2 * 50 * (3 * 28 * 28) * 3)


def test_a_streamed_split_is_timed_too(randbit, monkeypatch, capsys):
    monkeypatch.setenv(CAP, "1000")
    assert bench("--data", randbit, "--set", "batch_size=50", "probe.l2=[0.01]", "--format", "json", *SHORT) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["images"] == "mapped" and "do not fit" in printed.err
