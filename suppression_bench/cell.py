"""One cell, the story in one function: data, training, probes, record."""

import json
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch

from generators import catalog, strict_json
from generators.dataset import UserError
from generators.randomness import random_words
from suppression_bench import provenance, trained
from suppression_bench.encoder import Encoder
from suppression_bench.evaluation import probes as probing
from suppression_bench.evaluation.probes import OnlineProbe, Representation, measure
from suppression_bench.evaluation.trace import Trace
from suppression_bench.method import Info, Method
from suppression_bench.results import predictions
from suppression_bench.results import record as records
from suppression_bench.spec import Cell
from suppression_bench.training import gradient_cache, loop, optim
from suppression_bench.training.data import Data
from suppression_bench.training.options import Augmentation, Training


def run(cell: Cell, folder: Path, device: torch.device, note: Callable[[int, int], None] | None = None) -> dict:
    """Run a cell to its record, or return the record that is there.

    Killed at any moment, the next call goes on from the last checkpoint and ends with the same weights (on a CPU).

    Arguments:
        cell: resolved, its data folder known.
        folder: where the record, the weights and the checkpoints go.
        device: where to train.
        note: called now and then with (steps done, steps in all).

    Raises:
        UserError: damaged data, or a checkpoint of a run that has changed.
    """
    if (folder / records.NAME).exists():
        found = records.read(folder / records.NAME)
        if found["run"]["status"] != "failed":
            return found
    began = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    spec = cell.spec
    data = Data(cell.folder, spec["data"]["bits"])
    training, augmentation = Training(**spec["train"]), Augmentation(**spec["augmentation"])
    options = probing.Probing(**spec["probe"])
    samples = data.samples("pretrain", device)
    method = build(cell, data, len(samples)).to(device, memory_format=torch.channels_last)
    watching, traces, outcome = [], [], loop.Outcome("ok", 0, float("nan"), 0, 0.0)
    if method.trains:
        if "online" in options.kinds:
            watching = _online(data, method, training, len(samples), spec["seed"], device)
        if options.trace:
            steps = training.total_steps(len(samples))
            traces = [Trace(data, method, options, steps, spec["seed"], *watching)]
        labels = _labels(data, method, device) if method.needs_labels else None
        outcome = loop.train(
            method, samples, training, augmentation, seed=spec["seed"], labels=labels,
            observers=[*watching, *traces], folder=folder, identity=_identity(cell, device), note=note,
        )  # fmt: skip
    status, probes, collapsed, metrics = outcome.status, [], [], {}
    if status == "ok":
        online = {probe.feature: probe for observer in watching for probe in observer.probes()}
        describe = Representation(data, method, options, augmentation, spec["seed"]) if options.metric_samples else None
        kept: dict = {}
        probes, collapsed, finite = measure(data, method, options, online, spec["seed"], device, describe, kept)
        metrics = describe.found() if describe and finite else {}
        status = "ok" if finite else "invalid_features"
        save_encoder(method.encoder, folder / trained.WEIGHTS, data.image_shape)
        if finite:
            predictions.write(folder, cell.identity, kept)
    views = outcome.steps * training.batch_size
    seconds = outcome.seconds - sum(trace.seconds for trace in traces)
    run_part = {
        "status": status,
        "error": None if status != "diverged" else f"the loss was not finite at step {outcome.steps}",
        "steps": outcome.steps,
        "resumes": outcome.resumes,
        "seconds": round(time.monotonic() - began, 3),
        "images_per_second": round(views / seconds, 1) if seconds > 0 else 0,
        "peak_memory_bytes": provenance.peak_memory(device),
        "loss": outcome.loss if np.isfinite(outcome.loss) else None,
        "collapsed": collapsed,
    }
    traced = {records.TRACE: traces[0].found()} if traces and traces[0].points else {}
    made = _store(cell, folder, device, run_part, probes, metrics, traced)
    loop.clear_checkpoints(folder)
    (folder / "traceback.txt").unlink(missing_ok=True)  # of an earlier try
    return made


def check(cell: Cell) -> None:
    """What can be known of a cell before anything is written: its options fit each other and its batches can be filled.

    Raises:
        UserError: a batch larger than the training split, options that the loss refuses, colours to change
            where there are none, or parts of a batch for a method that has none.
    """
    data = Data(cell.folder, cell.spec["data"]["bits"])
    method = catalog.load_class("suppression_bench.methods", cell.references["method"], Method)
    Augmentation(**cell.spec["augmentation"]).check(data.image_shape, method.views)
    if cell.spec["loss"]:
        _try_loss(cell, method)
    if method.trains:
        training = Training(**cell.spec["train"])
        training.steps_per_epoch(data.manifest["splits"]["pretrain"]["count"])
        if training.micro_batch:
            gradient_cache.require(method, cell.spec["method"]["name"])


def _try_loss(cell: Cell, method: type[Method]) -> None:
    # On a few random projections: a loss says only then what is wrong with its options, and a suite's other cells would
    # have trained for hours until the turn of this one.
    generator = torch.Generator().manual_seed(0)
    first, second, negatives = torch.randn(3, 8, 16, generator=generator)
    given = {"negatives": negatives, "labels": torch.arange(8) // 2}
    try:
        _loss(cell)(first, second, **{name: given[name] for name in method.passes})
    except UserError as error:
        raise UserError(f"{cell.label}: {error}") from None
    except Exception:
        return  # a user's loss may want other shapes: what it says in training goes into the record


def failure(cell: Cell, folder: Path, error: str) -> dict:
    """Write the record of a cell that ended with an error; the next run tries it again."""
    folder.mkdir(parents=True, exist_ok=True)
    run_part = {"status": "failed", "error": error, "steps": 0, "resumes": 0, "seconds": 0.0, "images_per_second": 0}
    run_part |= {"peak_memory_bytes": 0, "loss": None, "collapsed": []}
    return _store(cell, folder, torch.device("cpu"), run_part, [], {}, {})


def _store(cell: Cell, folder: Path, device, run_part: dict, probes: list, metrics: dict, more: dict) -> dict:
    made = {
        "schema": records.SCHEMA,
        "id": cell.identity,
        "spec": cell.spec,
        "code": provenance.code(cell.references["method"]),
        "environment": provenance.environment(device),
        "run": run_part,
        "probes": probes,
        "metrics": metrics,
        **more,
    }
    records.write(folder, made)
    return made


def _loss(cell: Cell) -> Callable:
    """The cell's loss with its options filled in."""
    function = catalog.load_function("suppression_bench.losses", cell.references["loss"])
    return partial(function, **cell.spec["loss"]["options"])


def build(cell: Cell, data: Data, count: int) -> Method:
    """The cell's method around its encoder, initialised from the seed."""
    spec, references = cell.spec, cell.references
    encoder_class = catalog.load_class("suppression_bench.encoders", references["encoder"], Encoder)
    method_class = catalog.load_class("suppression_bench.methods", references["method"], Method)
    loop.seed_torch(loop.training_key(spec["seed"]), loop.INITIAL)
    encoder = encoder_class(data.image_shape[0], data.channels, **spec["encoder"]["options"])
    targets = data.targets() if method_class.needs_labels else {}
    info = Info(data.image_shape, data.bits, count, targets)
    arguments = []
    if spec["loss"]:
        arguments = [_loss(cell)]
    method = method_class(encoder, info, *arguments, **spec["method"]["options"])
    if spec["train"]["initialisation"] == "glorot":
        optim.glorot(method)
    method.after_build()
    return method


def save_encoder(encoder: Encoder, path: Path, image_shape: tuple[int, int, int]) -> None:
    """The frozen encoder's weights as safetensors, whole or not at all; the header holds the pictures' shape.

    The record does not say the shape, and without it `trained.load` could not build the encoder again.
    """
    from safetensors.torch import save

    partial_path = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    weights = {name: tensor.contiguous().cpu() for name, tensor in encoder.state_dict().items()}
    # One entry only: the order of several is left to chance in the file.
    partial_path.write_bytes(save(weights, metadata={trained.SHAPE: " ".join(map(str, image_shape))}))
    partial_path.replace(path)


def _labels(data: Data, method: Method, device) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(data.labels("pretrain", name)).to(device) for name in method.info.targets}


def _online(data: Data, method: Method, training: Training, count: int, seed: int, device) -> list[OnlineProbe]:
    tasks = [
        probing.Task(feature, data.classes(feature), data.labels("pretrain", feature))
        for feature in data.probes()
        if data.has_label("pretrain", feature)
    ]
    if not tasks:  # no feature that is probed has a label on the training split
        return []
    steps, warmup = training.total_steps(count), training.warmup_epochs * training.steps_per_epoch(count)
    head_seed = int(random_words(loop.training_key(seed), loop.INITIAL, 1, count=1)[0] >> np.uint64(1))
    return [OnlineProbe(method.encoder.width, tasks, training, steps, warmup, head_seed, device)]


def _identity(cell: Cell, device: torch.device) -> dict:
    # Flat, so that a refusal can name each differing field.
    flat = {
        f"code.{key}": value for key, value in provenance.code(cell.references["method"]).items() if key != "commit"
    }
    flat.update({key: provenance.environment(device)[key] for key in ("torch", "device", "threads")})
    for section, value in cell.spec.items():
        pairs = value.items() if isinstance(value, dict) else [("", value)]
        flat.update({f"{section}.{name}".rstrip("."): _plain(inner) for name, inner in pairs})
    return flat


def _plain(value):
    return value if isinstance(value, (str, int, float, bool, type(None))) else json.loads(strict_json.dumps(value))


def device_of(name: str) -> torch.device:
    """The device of --device: auto takes CUDA where there is one.

    Raises:
        UserError: cuda where there is none.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise UserError("--device cuda: torch sees no CUDA device here; use --device cpu or auto")
    return torch.device(name)
