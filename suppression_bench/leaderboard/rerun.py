"""An entry measured again: its encoders probed anew (V2), its method trained anew on seeds nobody knew (V3).

Foreign code trains in a sandbox; every number comes from this process, which runs nothing of the submission.
"""

import hashlib
import secrets
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec
import torch
import yaml

from generators import build, catalog, executor
from generators.dataset import UserError, is_source
from generators.files import dumps_json, loads_json
from generators.sources import data_root
from suppression_bench import config
from suppression_bench import run as running
from suppression_bench import suite as suites
from suppression_bench.cell import Cell, Probing, settings_key, strength_text, value_text
from suppression_bench.encoder import Encoder
from suppression_bench.evaluation.probes import measure
from suppression_bench.leaderboard import sandbox, tracks, verdict
from suppression_bench.leaderboard.check import Report
from suppression_bench.leaderboard.entry import (
    ENCODERS,
    REPROBED,
    RESCORED,
    Rerun,
    Submission,
    cell_name,
    load,
    without_strength,
)
from suppression_bench.leaderboard.tracks import BITS, LAYER, PROBE, Track
from suppression_bench.method import Batch, Info, Method, Output
from suppression_bench.results import provenance, weights
from suppression_bench.results import record as records
from suppression_bench.results.record import Code, Environment, Probe
from suppression_bench.training.data import Data

PLAN = "rerun.json"
HIGHEST = 2**31  # of fresh seeds


# ---- data and encoders ----


def build_data(submission: Submission, sources: dict[str, str], workers: int, say: Callable) -> dict[str, Path]:
    """Strength as text -> folder of the data, built by this package where missing and of the track's digest.

    Arguments:
        submission: whose cells are in order.
        sources: option -> source with its folder.
        workers: processes.
        say: prints a line.

    Raises:
        UserError: a source that is not there, or data of another digest.
    """
    track, folders = tracks.read(submission.entry.track), {}
    for cell in (record.spec for record in submission.records):
        strength = strength_text(cell.strength)
        if strength in folders:
            continue
        reference = (cell.dataset.name, {**cell.dataset.options, **sources})
        plan = running.plan_data(config.LocatedCell(cell, {}, reference))
        facts = build(
            catalog.dataset(*reference),
            plan.folder,
            seed=cell.dataset.seed,
            workers=workers,
            reference=cell.dataset.name,
            say=say,
        )
        expected = track.digest(strength)
        if expected and facts.content_digest != expected:
            raise UserError(f"{plan.folder}: not the data of the track {track.name} (digest {expected[:12]}...)")
        folders[strength] = plan.folder
    return folders


def offline_sources(track: Track, sources: dict[str, str]) -> dict[str, str]:
    """Where the sources lie, for a process without a network: MNIST that was fetched is in the data root."""
    options = {key: value for key, value in track.data.items() if is_source(key) and value is not None}
    fetched = {key: f"mnist:{data_root()}" for key, value in options.items() if value == "mnist"}
    located = {}
    for key, value in {**fetched, **sources}.items():
        kind, colon, folder = value.partition(":")
        located[key] = f"{kind}:{Path(folder).absolute()}" if colon else kind
    return located


class Frozen(Method):
    """An encoder that is only looked at."""

    trains = False

    def loss(self, batch: Batch) -> Output:
        raise NotImplementedError("a frozen encoder is not trained")


def load_encoder(spec: Cell, path: Path, data: Data) -> Encoder:
    """An encoder of the package with weights from anybody's safetensors file.

    Raises:
        UserError: an encoder of somebody's own, damaged weights, or those of another network.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    name, package = spec.encoder.name, config.PACKAGES["encoder"]
    if name not in catalog.names(package) or spec.encoder.file is not None:
        raise UserError(f"{path}: its encoder {name[:80]!a} is none of the package's")
    encoder = catalog.load_class(package, name, Encoder)(data.image_shape[0], data.channels, **spec.encoder.options)
    try:
        encoder.load_state_dict(load_file(path), strict=True)
    except (SafetensorError, OSError, RuntimeError) as error:
        raise UserError(f"{path}: no weights of {name} ({' '.join(str(error).split())[:200]})") from None
    return encoder.eval()


def probe_again(spec: Cell, path: Path, data: Data, device: torch.device) -> list[Probe]:
    """A cell's probes from features computed anew: PROBE on LAYER.

    Arguments:
        spec: of the cell.
        path: its encoder's safetensors file.
        data: opened with the cell's bits; its digest is the caller's to compare.
        device: where to compute.

    Raises:
        UserError: weights that cannot be used, or features that are not finite.
    """
    frozen = Frozen(load_encoder(spec, path, data), Info(data.image_shape, data.bits, 1, {})).to(device)
    options = Probing(kinds=(PROBE,), layers=(LAYER,), l2=spec.probe.l2, metric_samples=0)
    probes, _, finite = measure(data, frozen, options, {}, 0, device)
    if not finite:
        raise UserError(f"{path}: its features are not finite")
    return msgspec.convert(probes, list[Probe])


def encoder_faults(submission: Submission, folders: dict[str, Path], device: torch.device) -> list[str]:
    """Probes every encoder of a submission again; where its numbers are not those of its weights, as sentences.

    Two machines differ in a few of the samples next to a boundary: up to one in fifty (and two) may.

    Arguments:
        submission: whose cells are in order.
        folders: strength as text -> folder of the data.
        device: where to compute.
    """
    faults = []
    for record in submission.records:
        name = cell_name(record)
        path = submission.folder / ENCODERS / f"{name}.safetensors"
        if not path.is_file():
            faults.append(f"{name}: no encoder; all cells have one, or none has")
            continue
        data = Data(folders[strength_text(record.spec.strength)], record.spec.dataset.bits)
        try:
            again = {probe.feature: probe for probe in probe_again(record.spec, path, data, device)}
        except UserError as error:
            faults.append(str(error).replace(f"{submission.folder}/", ""))
            continue
        for probe in record.probes:
            fresh = again.get(probe.feature)
            if (probe.probe, probe.layer) != (PROBE, LAYER) or fresh is None:
                continue
            if abs(fresh.correct - probe.correct) > max(2, probe.n // 50):
                faults.append(
                    f"{name}: {probe.feature}: its encoder gives {fresh.correct} of {fresh.n} right, the entry says "
                    f"{probe.correct}"
                )
    return faults


def reprobe(folder: Path, report: Report, sources: dict[str, str], say: Callable) -> None:
    """Raise a checked submission to V2 where the encoders that it brings give its numbers; else note faults or the reason.

    Arguments:
        folder: of the submission.
        report: of its check, without faults; it is changed.
        sources: option -> source with its folder.
        say: prints a line.
    """
    if report.level < RESCORED:
        return
    if not (folder / ENCODERS).is_dir():
        report.reason = "it brings no encoders"
        return
    submission = load(folder)
    folders = build_data(submission, sources, executor.cores(), say)
    report.faults += encoder_faults(submission, folders, running.device_of("auto"))
    report.level, report.reason = REPROBED, ""


# ---- training again ----


@dataclass(frozen=True)
class Machine:
    """Where and how a rerun trains: device, cells at once, torch threads of each, limits and kind of the sandbox."""

    device: str
    workers: int
    threads: int
    limits: sandbox.Limits
    kind: sandbox.Kind


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a rerun's folder is about: entry by digest, seeds; kept in it, so that a stopped rerun goes on with them."""

    entry: records.Digest
    nonce: str
    submitted_seeds: list[int]
    fresh_seeds: list[int]

    @property
    def seeds(self) -> list[int]:
        return [*self.submitted_seeds, *self.fresh_seeds]


def draw_seeds(digest: str, nonce: str, submitted: list[int], again: int, fresh: int) -> tuple[list[int], list[int]]:
    """The seeds of a rerun: some of the submitted ones and new ones, from the entry's digest and a maintainer's nonce.

    Nobody can know them before both are fixed, and everybody can draw them again afterwards.

    Arguments:
        digest: of the entry.
        nonce: any text of the maintainer's.
        submitted: the submitted seeds.
        again: how many of these.
        fresh: how many others.

    >>> draw_seeds("digest", "nonce", [0, 1, 2], 1, 2) == draw_seeds("digest", "nonce", [0, 1, 2], 1, 2)
    True
    """

    def number(purpose: str, turn: int) -> int:
        text = f"suppression-bench/rerun/1\0{digest}\0{nonce}\0{purpose}\0{turn}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")

    order = sorted(submitted, key=lambda seed: (number("submitted", seed), seed))
    drawn: list[int] = []
    turn = 0
    while len(drawn) < fresh:
        seed = number("fresh", turn) % HIGHEST
        drawn += [seed] if seed not in submitted and seed not in drawn else []
        turn += 1
    return sorted(order[:again]), drawn


def plan(submission: Submission, folder: Path, again: int, fresh: int, nonce: str | None) -> Plan:
    """The plan of a rerun's folder: the one that is in it, or a new one.

    Raises:
        UserError: the folder holds another rerun, or more seeds are asked for than were submitted.
    """
    submitted = sorted({record.spec.seed for record in submission.records})
    if again > len(submitted):
        raise UserError(f"--seeds {again}: {submission.slug} has {len(submitted)} seeds")
    path = folder / PLAN
    if path.exists():
        content = loads_json(path.read_bytes(), str(path))
        before = records.convert(content, Plan, str(path), "name another folder with --out")
        counts = (len(before.submitted_seeds), len(before.fresh_seeds))
        if before.entry != submission.digest or counts != (again, fresh) or nonce not in (None, before.nonce):
            raise UserError(
                f"{folder}: holds another rerun (other entry, seeds or nonce); name another folder with --out"
            )
        return before
    nonce = nonce or secrets.token_hex(16)
    kept, drawn = draw_seeds(submission.digest, nonce, submitted, again, fresh)
    planned = Plan(entry=submission.digest, nonce=nonce, submitted_seeds=kept, fresh_seeds=drawn)
    folder.mkdir(parents=True, exist_ok=True)
    records.write_atomic(path, dumps_json(msgspec.to_builtins(planned)) + "\n")
    return planned


def suite_file(submission: Submission, track: Track, seeds: list[int], sources: dict[str, str], folder: Path) -> Path:
    """A suite that trains the entry's cells under other seeds, its own files beside it under their own names."""
    code = folder / "code"
    code.mkdir(exist_ok=True)
    setting = submission.entry.setting
    references = {kind: plugin.name for kind, plugin in (("method", setting.method), ("loss", setting.loss)) if plugin}
    for kind, name in submission.entry.own_files.items():
        path = (code / f"{references[kind].replace('-', '_')}.py").absolute()
        shutil.copyfile(submission.folder / name, path)
        references[kind] = str(path)
    chosen = {key: value for key, value in setting.settings().items() if not key.startswith("data.")}
    chosen |= {"loss.name": references["loss"]} if "loss" in references else {}
    del chosen["method.name"]
    dataset = {**track.data, **sources, "dataset": setting.dataset.name, "seed": setting.dataset.seed}
    suite = {
        "version": 1,
        "title": f"Rerun of {submission.slug}",
        "data": {key: value for key, value in dataset.items() if value is not None},
        "strength": track.strength,
        "recipe": _recipe(track),
        "seeds": seeds,
        "cells": [{"method": references["method"], "grid": {track.strength: track.grid}, "set": chosen}],
    }
    path = folder / "rerun.yaml"
    plain = loads_json(dumps_json(suite), str(path), floats=True)  # lists for tuples, which YAML would mark
    path.write_text(yaml.safe_dump(plain, sort_keys=False), encoding="utf-8")
    return path


def rerun(
    submission: Submission, planned: Plan, out: Path, sources: dict[str, str], machine: Machine, say: Callable
) -> Rerun:
    """Train an entry again and judge it: the whole story.

    Arguments:
        submission: whose files are in order.
        planned: its seeds.
        out: the rerun's folder; a stopped rerun goes on in it.
        sources: option -> source with its folder.
        machine: where it trains.
        say: prints a line.

    Raises:
        UserError: data that cannot be had, the time was over, or the process ended without a record.
    """
    track = tracks.read(submission.entry.track)
    folders = build_data(submission, sources, executor.cores(), say)
    located = offline_sources(track, sources)
    suite = suite_file(submission, track, planned.seeds, located, out)
    train(suite, out, folders, located, machine)
    return judge(submission, track, planned, out, folders, machine)


def _recipe(track: Track) -> str:
    # The track's own: a submission's may be called anything.
    content, _ = config.read_yaml(suites.SUITES, track.suite)
    tiers = suites.tiers_of(content, track.suite, config.Faults())
    return next(tier.content["recipe"] for tier in tiers if tier.name == (track.tier or ""))


def train(suite: Path, folder: Path, folders: dict[str, Path], sources: dict[str, str], machine: Machine) -> None:
    """Run the suite in a sandbox, on a copy of the data, which it may spoil without harm to what judges it.

    Raises:
        UserError: the time was over, or the process ended without a record.
    """
    for source in dict.fromkeys(folders.values()):
        copy = folder / "data" / "datasets" / source.name
        if not copy.exists():
            partial = copy.with_name(f".{copy.name}.partial")
            shutil.rmtree(partial, ignore_errors=True)
            shutil.copytree(source, partial)
            partial.rename(copy)
    home = folder / "home"
    home.mkdir(exist_ok=True)
    env = sandbox.environment(home.absolute(), (folder / "data").absolute(), machine.threads)
    arguments = ["run", str(suite.absolute()), "--out", str((folder / "run").absolute()), "--device", machine.device]
    arguments += ["--workers", str(machine.workers), "--threads", str(machine.threads)]
    readable = [Path(value.partition(":")[2]) for value in sources.values() if ":" in value]
    code = sandbox.run(arguments, folder, env, machine.limits, machine.kind, readable, gpu=machine.device == "cuda")
    if code is None:
        raise UserError(f"{folder}: not done in {machine.limits.hours:g} hours; the same command goes on", exit_code=4)
    if code not in (0, 1):  # 1: a cell failed, and its record says why
        last = (folder / "log.txt").read_text(errors="replace").strip().split("\n")[-1][-300:]
        raise UserError(f"{folder / 'log.txt'}: the training ended with exit code {code} ({last!a})")


def judge(
    submission: Submission, track: Track, planned: Plan, folder: Path, folders: dict[str, Path], machine: Machine
) -> Rerun:
    """The finding: every retrained encoder probed again by this process."""
    trained, failed, probes = _trained_cells(folder / "run", submission, track), [], {}
    device = torch.device(machine.device)
    for value in track.grid:
        for seed in planned.seeds:
            strength = value_text(value)
            what, cell = f"{track.strength}={strength} seed={seed}", trained.get((strength, seed))
            if cell is None or not (cell / weights.NAME).is_file():
                failed.append(f"{what}: no trained encoder")
                continue
            data = Data(folders[strength], value if track.strength == BITS and isinstance(value, int) else 0)
            try:
                probes[strength, seed] = probe_again(submission.entry.setting, cell / weights.NAME, data, device)
            except UserError as error:
                failed.append(f"{what}: {str(error).replace(str(folder), '')}")
    judged = verdict.compare(submission.records, probes, set(planned.fresh_seeds))
    return Rerun(
        slug=submission.slug,
        entry=submission.digest,
        track=track.name,
        nonce=planned.nonce,
        submitted_seeds=planned.submitted_seeds,
        fresh_seeds=planned.fresh_seeds,
        sandbox=machine.kind,
        code=msgspec.convert(provenance.code("untrained"), Code),
        environment=msgspec.convert(provenance.environment(device), Environment),
        cells=judged,
        failed=failed,
        allowed=verdict.allowed(len(judged)),
    )


def _trained_cells(run: Path, submission: Submission, track: Track) -> dict[tuple[str, int], Path]:
    recipe, by_key = submission.entry.setting.recipe, {}
    expected = settings_key(submission.entry.setting)
    for path in sorted((run / "cells").glob(f"*/{records.NAME}")):
        try:
            spec = records.read(path).spec
        except UserError as error:
            raise UserError(f"{error}; or delete its folder and run the command again") from None
        setting = without_strength(msgspec.structs.replace(spec, recipe=recipe), track.strength)
        if settings_key(setting) != expected:
            raise UserError(f"{path}: was not trained with the entry's settings")
        by_key[strength_text(spec.strength), spec.seed] = path.parent
    return by_key


def text(finding: Rerun) -> str:
    """A finding as lines for people."""
    lines = [
        f"{'fresh' if cell.fresh else 'again'} {cell.strength:>8} seed={cell.seed:<11} {cell.feature:<10} "
        f"{cell.correct / cell.n:.3f} in {cell.low:.3f}..{cell.high:.3f} "
        f"{'far outside' if cell.far else 'yes' if cell.inside else 'outside'}"
        for cell in finding.cells
    ]
    outside = sum(not cell.inside for cell in finding.cells)
    widest = max((cell.high - cell.low for cell in finding.cells), default=0.0)
    conclusion = "the claim holds" if finding.passed else "the claim does NOT hold"
    lines += finding.failed
    lines.append(f"widest interval {widest:.3f}: a claim of more seeds has narrower ones")
    lines.append(f"{outside} of {len(finding.cells)} outside, {finding.allowed} may be: {conclusion}")
    if finding.sandbox == "unsandboxed":
        lines.append("unsandboxed: this run raises no level")
    return "\n".join(lines)
