"""A submission trained again by a maintainer: on one of its seeds and two that nobody knew when it was submitted."""

import hashlib
import json
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path

import torch
import yaml

from generators import strict_json
from generators.dataset import UserError
from suppression_bench import provenance, tiers
from suppression_bench.leaderboard import cells, levels, reprobe, sandbox, tracks, verdict
from suppression_bench.leaderboard.submission import Submission, strength_text
from suppression_bench.leaderboard.tracks import Track
from suppression_bench.results import record as records
from suppression_bench.spec import read_yaml
from suppression_bench.suite import SUITES
from suppression_bench.trained import WEIGHTS
from suppression_bench.training.data import Data

PLAN = "rerun.json"
PLAN_KEYS = {"submission": str, "nonce": str, "submitted_seeds": list, "fresh_seeds": list}
HIGHEST = 2**31  # of fresh seeds


@dataclass(frozen=True)
class Machine:
    """Where and how a rerun trains: device, cells at once, torch threads of each, limits of the process."""

    device: str
    workers: int
    threads: int
    limits: sandbox.Limits


def draw_seeds(digest: str, nonce: str, own: list[int], again: int, fresh: int) -> tuple[list[int], list[int]]:
    """The seeds of a rerun: some of the submitted ones and new ones, from the submission's digest and a maintainer's nonce.

    Nobody can know them before both are fixed, and everybody can draw them again afterwards.

    Arguments:
        digest: of the submission.
        nonce: any text of the maintainer's.
        own: the submitted seeds.
        again: how many of these.
        fresh: how many others.

    >>> draw_seeds("digest", "nonce", [0, 1, 2], 1, 2) == draw_seeds("digest", "nonce", [0, 1, 2], 1, 2)
    True
    """

    def number(purpose: str, turn: int) -> int:
        text = f"suppression-bench/rerun/1\0{digest}\0{nonce}\0{purpose}\0{turn}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")

    order = sorted(own, key=lambda seed: (number("submitted", seed), seed))
    found: list[int] = []
    turn = 0
    while len(found) < fresh:
        seed = number("fresh", turn) % HIGHEST
        found += [seed] if seed not in own and seed not in found else []
        turn += 1
    return sorted(order[:again]), found


def plan(found: Submission, place: Path, again: int, fresh: int, nonce: str | None) -> dict:
    """What a rerun folder is about, kept in it, so that a stopped rerun goes on with the same seeds.

    Raises:
        UserError: the folder holds another rerun, or more seeds are wanted than were submitted.
    """
    own = sorted({record["spec"]["seed"] for record in found.records})
    if again > len(own):
        raise UserError(f"--seeds {again}: {found.slug} has {len(own)} seeds")
    path = place / PLAN
    if path.exists():
        old = strict_json.loads(path.read_bytes(), str(path))
        if faults := strict_json.faults(old, PLAN_KEYS, "it"):
            raise UserError(f"{path}: {'; '.join(faults)}; name another folder with --out")
        counts = (len(old["submitted_seeds"]), len(old["fresh_seeds"]))
        if old["submission"] != found.digest or counts != (again, fresh) or nonce not in (None, old["nonce"]):
            raise UserError(
                f"{place}: holds another rerun (other submission, seeds or nonce); name another folder with --out"
            )
        return old
    nonce = nonce or secrets.token_hex(16)
    submitted, drawn = draw_seeds(found.digest, nonce, own, again, fresh)
    made = {"submission": found.digest, "nonce": nonce, "submitted_seeds": submitted, "fresh_seeds": drawn}
    place.mkdir(parents=True, exist_ok=True)
    levels.write(path, made)
    return made


def suite_file(found: Submission, track: Track, seeds: list[int], sources: dict[str, str], place: Path) -> Path:
    """A suite that trains the submission's cells under other seeds, its own files beside it under their own names."""
    code = place / "code"
    code.mkdir(exist_ok=True)
    own = cells.common(found.records[0])
    named = {}
    for kind, file in (("method", found.method_file), ("loss", found.loss_file)):
        named[kind] = own.get(f"{kind}.name")
        if file:
            named[kind] = str((code / f"{named[kind].replace('-', '_')}.py").absolute())
            shutil.copyfile(found.folder / file, named[kind])
    skipped = {"method.name", "method.file", "loss.file", "probe.version"}
    chosen = {key: value for key, value in own.items() if not key.startswith("data.") and key not in skipped}
    if named["loss"]:
        chosen["loss.name"] = named["loss"]
    data = {**track.data, **sources, "dataset": track.locked["data.dataset"], "seed": track.locked["data.seed"]}
    content, _ = read_yaml(SUITES, track.suite)
    variants, _ = tiers.variants(content, track.suite)
    recipe = next(one.content["recipe"] for one in variants if one.tier == (track.tier or ""))
    suite = {
        "version": 1, "title": f"Rerun of {found.slug}", "data": {key: value for key, value in data.items() if value is not None},
        "strength": track.strength, "recipe": recipe, "seeds": seeds,
        "cells": [{"method": named["method"], "grid": {track.strength: track.grid}, "set": chosen}],
    }  # fmt: skip
    path = place / "rerun.yaml"
    path.write_text(yaml.safe_dump(suite, sort_keys=False))
    return path


def train(suite: Path, place: Path, folders: dict[str, Path], machine: Machine) -> None:
    """Run the suite in a process of its own, on a copy of the data, which it may spoil without harm to what judges it.

    Raises:
        UserError: the time was over, or the process ended without a record.
    """
    for folder in dict.fromkeys(folders.values()):
        copy = place / "data" / "datasets" / folder.name
        if not copy.exists():
            partial = copy.with_name(f".{copy.name}.partial")
            shutil.rmtree(partial, ignore_errors=True)
            shutil.copytree(folder, partial)
            partial.rename(copy)
    home = place / "home"
    home.mkdir(exist_ok=True)
    env = sandbox.environment(home.absolute(), (place / "data").absolute(), machine.threads)
    arguments = ["run", str(suite.absolute()), "--out", str((place / "run").absolute()), "--device", machine.device]
    arguments += ["--workers", str(machine.workers), "--threads", str(machine.threads)]
    code = sandbox.run(arguments, place, env, machine.limits, place / "log.txt", sandbox.no_network())
    if code is None:
        raise UserError(f"{place}: not done in {machine.limits.hours:g} hours; the same command goes on", exit_code=4)
    if code not in (0, 1):  # 1: a cell failed, and its record says why
        last = (place / "log.txt").read_text(errors="replace").strip().split("\n")[-1][-300:]
        raise UserError(f"{place / 'log.txt'}: the training ended with exit code {code} ({last!a})")


def judge(found: Submission, track: Track, planned: dict, place: Path, folders: dict[str, Path], device: str) -> dict:
    """The finding: every retrained encoder probed again by this process, which runs nothing of the submission."""
    seeds = [*planned["submitted_seeds"], *planned["fresh_seeds"]]
    there, failed, probes = _cells(place / "run", cells.common(found.records[0])), [], {}
    for value in track.grid:
        for seed in seeds:
            strength = tracks.text(value)
            what, folder = f"{track.strength}={strength} seed={seed}", there.get((strength, seed))
            if folder is None or not (folder / WEIGHTS).is_file():
                failed.append(f"{what}: no trained encoder")
                continue
            spec = {**found.records[0]["spec"], "seed": seed}
            data = Data(folders[strength], value if track.strength == "bits" else 0)
            try:
                probes[strength, seed] = reprobe.probes(spec, folder / WEIGHTS, data, torch.device(device))
            except UserError as error:
                failed.append(f"{what}: {str(error).replace(str(place), '')}")
    judged = verdict.judge(found.records, probes, set(planned["fresh_seeds"]))
    return {
        "schema": levels.SCHEMA, "slug": found.slug, "submission": found.digest, "track": found.track,
        "nonce": planned["nonce"], "submitted_seeds": planned["submitted_seeds"], "fresh_seeds": planned["fresh_seeds"],
        "code": provenance.code("untrained"), "environment": provenance.environment(torch.device(device)),
        "cells": judged, "failed": failed, "allowed": verdict.allowed(len(judged)),
        "passed": verdict.passed(judged, failed),
    }  # fmt: skip


def _cells(run: Path, wanted: dict) -> dict[tuple[str, int], Path]:
    found = {}
    for path in sorted((run / "cells").glob(f"*/{records.NAME}")):
        try:
            record = records.read(path)
            own = cells.common(record)
            differing = sorted(key for key in own.keys() | wanted.keys() if own.get(key) != wanted.get(key))
            found[strength_text(record), record["spec"]["seed"]] = path.parent
        except (UserError, ArithmeticError, ValueError, TypeError, KeyError) as error:
            raise UserError(
                f"{path}: not a valid record ({error}); delete its folder and run the command again"
            ) from None
        if differing:
            raise UserError(
                f"{path}: was not trained with the submission's settings ({', '.join(differing[:5])} differ)"
            )
    return found


def text(found: dict) -> str:
    """A finding as lines for people."""
    lines = [
        f"{'fresh' if cell['fresh'] else 'again'} {cell['strength']:>8} seed={cell['seed']:<11} {cell['feature']:<10} "
        f"{cell['correct'] / cell['n']:.3f} in {cell['low']:.3f}..{cell['high']:.3f} "
        f"{'far outside' if cell['far'] else 'yes' if cell['inside'] else 'outside'}"
        for cell in found["cells"]
    ]
    outside = sum(not cell["inside"] for cell in found["cells"])
    widest = max((cell["high"] - cell["low"] for cell in found["cells"]), default=0.0)
    said = "the claim holds" if found["passed"] else "the claim does NOT hold"
    return "\n".join(
        [
            *lines,
            *found["failed"],
            f"widest interval {widest:.3f}: a claim of more seeds has narrower ones",
            f"{outside} of {len(found['cells'])} outside, {found['allowed']} may be: {said}",
        ]
    )


def keep(root: Path, found: dict) -> Path:
    """Write the finding to `leaderboard/reruns/SLUG.json`."""
    return levels.write(levels.rerun_file(root, found["slug"]), json.loads(json.dumps(found)))
