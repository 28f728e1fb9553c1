"""The learning order: log-spaced steps, the very training of an untraced cell, the same points after a kill."""

import msgspec
import pytest
import torch
import torch._dynamo.testing
from small_cells import CPU, built, make_cell, run
from torch import nn

from generators.dataset import UserError
from suppression_bench.cell import Probing
from suppression_bench.commands.run import Selection, cells_of
from suppression_bench.commands.shared import Sources
from suppression_bench.evaluation import trace as traces
from suppression_bench.evaluation.probes import Task, extract, fit_lbfgs
from suppression_bench.evaluation.trace import Trace, trace_steps
from suppression_bench.results import record as records
from suppression_bench.training import loop, precision

SETTINGS = dict(
    data__bits=2, train__steps=8, train__batch_size=50, train__checkpoint_seconds=0.0, probe__metric_samples=0
)


def weights(folder):
    return (folder / "encoder.safetensors").read_bytes()


def points(record):
    return [(point["step"], point["feature"]) for point in msgspec.to_builtins(record.trace)["points"]]


@pytest.mark.parametrize(("steps", "count"), [(600, 12), (7, 100), (100_000, 5), (1, 3)])
def test_steps_are_log_spaced_from_the_first_to_the_last(steps, count):
    found = trace_steps(steps, count)
    assert found[0] == 1 and found[-1] == steps and found == sorted(set(found)) and len(found) <= count
    exact = [steps ** (i / (count - 1)) for i in range(count)]
    assert all(min(abs(e - s) for e in exact) <= 0.5 for s in found)


@pytest.mark.parametrize("method", ["byol", "vae"])
def test_training_is_the_same_bit_for_bit_with_and_without_it(randbit, tmp_path, method):
    plain = run(method, randbit, tmp_path / "plain", **SETTINGS)
    traced = run(method, randbit, tmp_path / "traced", **SETTINGS, probe__trace=4)
    assert weights(tmp_path / "plain") == weights(tmp_path / "traced")
    assert plain.run.loss == traced.run.loss and plain.probes == traced.probes
    assert plain.trace is None and traced.trace.probe == "lbfgs" and traced.trace.l2 == traces.L2
    assert points(traced) == [(step, name) for step in (1, 2, 4, 8) for name in ("bit00", "bit01", "digit")]


def test_looking_changes_neither_weights_nor_statistics_nor_modes(randbit):
    method, data = built("simclr", randbit, data__bits=2)
    method.train()
    still = next(part for part in method.modules() if isinstance(part, nn.BatchNorm2d))
    still.eval()  # a method may keep a part of itself frozen
    before = {name: value.clone() for name, value in method.state_dict().items()}
    random = torch.random.get_rng_state()
    trace = Trace(data, method, Probing(trace=1), 1, 0)
    trace(0, torch.zeros(1), torch.zeros(1, dtype=torch.long))
    assert len(trace.points) == 3
    assert all(torch.equal(value, before[name]) for name, value in method.state_dict().items())
    assert torch.equal(torch.random.get_rng_state(), random)
    assert method.training and [part for part in method.modules() if not part.training] == [still]


def test_a_point_is_the_probe_of_the_encoder_at_that_step(randbit):
    method, data = built("simclr", randbit, data__bits=1)
    trace = Trace(data, method, Probing(trace=1), 1, 0)
    trace(0, torch.zeros(1), torch.zeros(1, dtype=torch.long))
    for name, point in zip(("bit00", "digit"), trace.points, strict=True):
        train, test = (extract(method, data.samples(s, CPU), ["encoder"], 1000)["encoder"] for s in point["splits"])
        task = Task(name, data.classes(name), data.labels(point["splits"][0], name))
        [probe] = fit_lbfgs(train, [task], [1e-3])
        right = int((probe.predict(test).numpy() == data.labels(point["splits"][1], name)).sum())
        assert (point["feature"], point["correct"], point["n"], point["train_n"]) == (name, right, 100, 200)


def test_large_splits_are_probed_on_a_fixed_part(randbit, monkeypatch):
    monkeypatch.setattr(traces, "MOST", 60)
    method, data = built("simclr", randbit)
    both = []
    for _ in range(2):
        trace = Trace(data, method, Probing(trace=1), 1, 0)
        trace(0, torch.zeros(1), torch.zeros(1, dtype=torch.long))
        both.append(trace.points)
    assert both[0] == both[1] and (both[0][0]["n"], both[0][0]["train_n"]) == (60, 60)


@pytest.mark.parametrize("kind", ["sgd", "online"])
def test_the_cells_first_kind_of_probe_is_used(randbit, tmp_path, kind):
    record = run("simclr", randbit, tmp_path, **SETTINGS, probe__trace=3, probe__kinds=[kind, "lbfgs"])
    assert record.trace.probe == kind and record.trace.l2 is None
    last = {p["feature"]: p["correct"] for p in msgspec.to_builtins(record.trace)["points"] if p["step"] == 8}
    final = {
        p.feature: p.correct for p in record.probes if p.probe == kind
    }  # the same probe, the same samples: the last point is the record's own result
    assert last == final


def test_a_killed_cell_ends_with_the_same_trace(randbit, tmp_path, monkeypatch):
    settings = {**SETTINGS, "probe__trace": 5}
    whole = run("byol", randbit, tmp_path / "whole", **settings)
    original, calls = loop.set_learning_rate, []

    def stop(*arguments):
        calls.append(1)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return original(*arguments)

    monkeypatch.setattr(loop, "set_learning_rate", stop)
    with pytest.raises(KeyboardInterrupt):
        run("byol", randbit, tmp_path / "again", **settings)
    assert not (tmp_path / "again" / records.NAME).exists()
    again = run("byol", randbit, tmp_path / "again", **settings)
    assert again.run.resumes == 1 and again.trace == whole.trace
    assert weights(tmp_path / "again") == weights(tmp_path / "whole")
    assert records.read(tmp_path / "again" / records.NAME).trace == whole.trace


def test_ids_of_cells_without_a_trace_are_the_old_ones(randbit):
    plain, traced = make_cell("simclr", randbit), make_cell("simclr", randbit, probe__trace=12)
    assert make_cell("simclr", randbit, probe__trace=0).cell.id == plain.cell.id
    assert traced.cell.probe.trace == 12 and traced.cell.id != plain.cell.id
    untrained = make_cell("untrained", randbit, probe__trace=12)  # there is no step to look at
    assert untrained.cell.id == make_cell("untrained", randbit).cell.id


def test_features_that_are_not_finite_have_no_point(randbit):
    method, data = built("simclr", randbit)
    with torch.no_grad():
        next(method.encoder.parameters()).fill_(float("nan"))
    trace = Trace(data, method, Probing(trace=1), 1, 0)
    trace(0, torch.zeros(1), torch.zeros(1, dtype=torch.long))
    assert trace.points == []


@pytest.mark.parametrize("number", [-1, 101])
def test_a_number_out_of_range_is_refused(number):
    with pytest.raises(UserError, match=f"probe.trace must be .* 0 .* 100, got {number}"):
        Probing(trace=number)


def test_the_flag_is_short_for_the_setting():
    only = ("method=byol", "bits=8")
    [plain] = cells_of("quick", Selection(only=only), Sources())
    [traced] = cells_of("quick", Selection(only=only, trace=True), Sources())
    [fewer] = cells_of("quick", Selection(only=only, trace=True, settings=("trace=5",)), Sources())
    assert [located.cell.probe.trace for located in (plain, traced, fewer)] == [0, 12, 5]
    assert plain.label == traced.label == fewer.label  # a trace moves no number: nothing to show


def test_a_look_leaves_compilation_and_kernels_as_they_were(randbit):
    method, _ = built("simclr", randbit)
    method.encoder._compiled_call_impl = marker = object()
    with precision.deterministic_kernels(), precision.interrupted(method):
        assert method.encoder._compiled_call_impl is None and not torch.are_deterministic_algorithms_enabled()
    assert method.encoder._compiled_call_impl is marker


@pytest.mark.slow
def test_an_encoder_is_compiled_once_whoever_looks(randbit, tmp_path, monkeypatch):
    # "eager" instead of a compiler: what is compiled, how often and for which shapes is the same, in no time.
    counter, original = torch._dynamo.testing.CompileCounter(), torch.compile
    monkeypatch.setattr(torch, "compile", lambda call, **options: original(call, backend=counter, dynamic=False))
    settings = {**SETTINGS, "train__compile": "default", "train__deterministic": True}
    for name, count in (("plain", 0), ("traced", 4)):
        run("simclr", randbit, tmp_path / name, **settings, probe__trace=count)
    assert counter.frame_count == 1  # for training; a look meets the encoder as it is
    run("simclr", randbit, tmp_path / "uncompiled", **{**settings, "train__compile": "none"})
    assert weights(tmp_path / "plain") == weights(tmp_path / "traced") == weights(tmp_path / "uncompiled")
