"""From a dataset to a folder: resumable, on any number of workers, with the same bytes whatever happened on the way."""

import contextlib
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from threadpoolctl import threadpool_limits

from generators import catalog, estimate, executor, journal, manifest, strict_json
from generators.dataset import Dataset, Sample, UserError
from generators.shards import ShardResult, write_shard

SHARD_SIZE = 2000
MARGIN = 1.1
NOTE_EVERY = 250  # samples between two signs of life
MOST = 10**8  # samples of a split: their names have eight digits


@dataclass(frozen=True)
class Plan:
    """One unit of work: a shard, and all that a worker needs to make it."""

    dataset: str
    options: dict
    seed: int
    split: str
    start: int
    stop: int
    path: str


def build(
    dataset: Dataset,
    out: str | Path,
    *,
    seed: int = 0,
    workers: int = 1,
    shard_size: int = SHARD_SIZE,
    reference: str | None = None,
    progress: Callable[[int, int], None] | None = None,
    say: Callable[[str], None] | None = None,
) -> dict:
    """Write a dataset's shards and manifest into `out` and return the manifest.

    Can be killed at any moment: a restart keeps valid shards, redoes the rest, and ends byte-identical. The manifest
    is written last, so a folder without one is not a dataset.

    Arguments:
        dataset: from `catalog.dataset`.
        out: the folder; empty, new, or one that holds this very dataset (finished or not).
        seed: names the draw.
        workers: number of processes.
        shard_size: samples per shard.
        reference: name or path by which workers find the dataset (default: its name).
        progress: called with (samples done, samples in all).
        say: called with a line on the size before anything is written.

    Raises:
        UserError: `out` holds something else, or the machine cannot take the data (exit code 4).
    """
    out = Path(out)
    if shard_size < 1 or workers < 1:
        raise UserError(f"--shard-size {shard_size} and --workers {workers} must be at least 1")
    identity = manifest.identity(dataset, seed)
    finished = _finished(out, dataset, identity, shard_size)
    if finished:
        return finished
    _make_room(dataset, out, seed, shard_size, say)
    plans = _plans(dataset, reference or dataset.name, out, seed, shard_size)
    head = _head(identity, shard_size)
    results = journal.resume(out, head, {Path(plan.path).name for plan in plans})
    total, done = sum(dataset.splits.values()), sum(result.count for result in results.values())
    todo = [plan for plan in plans if Path(plan.path).name not in results]
    growing: dict[int, int] = {}  # position -> samples of shards that are being written

    def note(position: int, count: int) -> None:
        growing[position] = count
        if progress:
            progress(done + sum(growing.values()), total)

    for outcome in executor.run(make_shard, todo, workers, note):
        if outcome.error is not None:
            raise _explained(outcome, todo[outcome.position])
        growing.pop(outcome.position, None)
        results[outcome.value.name] = outcome.value
        journal.append(out, outcome.value)
        done += outcome.value.count
        if progress:
            progress(done, total)
    by_split = {name: [] for name in dataset.splits}
    for plan in plans:
        by_split[plan.split].append(results[Path(plan.path).name])
    whole = manifest.assemble(identity, by_split)
    manifest.write(out, whole)
    (out / journal.NAME).unlink(missing_ok=True)
    return whole


def _explained(outcome: executor.Outcome, plan: Plan) -> Exception:
    if isinstance(outcome.error, (UserError, OSError)):
        return outcome.error
    places = [line.strip() for line in outcome.trace.split("\n") if line.strip().startswith("File ")]
    where = f" ({places[-1]})" if places else ""
    return UserError(
        f"{plan.dataset}: {outcome.error!r} while drawing {Path(plan.path).name}{where}; mend it and run again"
    )


def make_shard(plan: Plan, note: Callable) -> ShardResult:
    """Draw, render and write one shard; runs in any process."""
    dataset = _dataset(plan.dataset, strict_json.dumps(plan.options))
    samples = dataset.samples(plan.split, plan.start, plan.stop, plan.seed)
    # The matrices of a resize are small: threads would only fight with the other workers' over the cores.
    with threadpool_limits(1):
        return write_shard(Path(plan.path), _noting(samples, note), dataset.features)


def _noting(samples: Iterator[Sample], note: Callable) -> Iterator[Sample]:
    for count, sample in enumerate(samples, 1):
        yield sample
        if count % NOTE_EVERY == 0:
            note(count)


_made: dict = {}


def _dataset(reference: str, options: str) -> Dataset:
    # One dataset per process, file and options: opening a source costs more than a shard.
    key = reference, options, catalog.file_digest("generators.datasets", reference)
    if key not in _made:
        _made.clear()
        _made[key] = catalog.dataset(reference, strict_json.loads(options, "options", floats=True))
    return _made[key]


def _plans(dataset, reference, out, seed, shard_size) -> list[Plan]:
    if catalog.is_path(reference):
        reference = str(Path(reference).absolute())
    return [
        Plan(
            reference,
            dataset.options,
            seed,
            split,
            start,
            min(start + shard_size, count),
            str(out / f"{split}-{number:05d}.tar"),
        )
        for split, count in dataset.splits.items()
        for number, start in enumerate(range(0, count, shard_size))
    ]


def _finished(out: Path, dataset: Dataset, identity: dict, shard_size: int) -> dict | None:
    if not (out / manifest.NAME).exists():
        return None
    found = manifest.read(out)
    different = manifest.differences({key: found[key] for key in identity}, identity)
    if different:
        raise UserError(f"{out} already holds another dataset ({different}); choose another --out or delete the folder")
    there = {name: [shard["count"] for shard in split["shards"]] for name, split in found["splits"].items()}
    asked = {
        name: [min(shard_size, count - start) for start in range(0, count, shard_size)]
        for name, count in dataset.splits.items()
    }
    if there != asked:
        size = max(count for counts in there.values() for count in counts)
        raise UserError(
            f"{out} already holds this dataset in shards of up to {size} samples, asked were {shard_size}; choose another --out"
        )
    broken = [s["name"] for split in found["splits"].values() for s in split["shards"] if not journal.valid(out, s)]
    if not broken:
        (out / journal.NAME).unlink(missing_ok=True)
        return found
    # Damaged shards are made anew. Until that is done the folder is no dataset, and a journal vouches for the rest.
    journal.recover(out, found, _head(identity, shard_size), broken)
    (out / manifest.NAME).unlink()
    return None


def _head(identity: dict, shard_size: int) -> str:
    return strict_json.dumps({"identity": identity, "shard_size": shard_size})


def _make_room(dataset: Dataset, out: Path, seed: int, shard_size: int, say: Callable | None) -> None:
    if out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file; --out must name a folder")
    there = list(out.iterdir()) if out.is_dir() else []
    foreign = [path.name for path in there if not _ours(path.name, dataset)]
    if foreign:
        raise UserError(f"{out} holds other files ({', '.join(sorted(foreign)[:3])}); choose an empty or new folder")
    large = [f"{name} {count}" for name, count in dataset.splits.items() if count > MOST]
    if large:
        raise UserError(f"{dataset.name}: {', '.join(large)}: a split holds at most {MOST} samples; make several seeds")
    expected = estimate.expected_bytes(dataset, seed)
    make_folder(out)
    free, held = shutil.disk_usage(out).free, 0
    for path in there:  # a restart has part of it already
        with contextlib.suppress(FileNotFoundError):
            held += path.stat().st_size
    if say:
        size, shards = estimate.words(expected), estimate.files(dataset, shard_size)
        say(f"{out}: about {size} in {shards} shards ({estimate.words(free)} are free)")
    # A few samples estimate the mean to a few percent, and one shard beside the others is whole before it is renamed.
    need = expected * MARGIN - held
    if free < need:
        raise UserError(
            f"{out}: about {estimate.words(need)} are needed, {estimate.words(free)} are free; choose another disk", 4
        )


def make_folder(folder: Path) -> None:
    """Make a folder and its parents.

    Raises:
        UserError: the machine does not allow it (exit code 4).
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder}: the folder cannot be made ({error.strerror}); choose another", 4) from None


def _ours(name: str, dataset: Dataset) -> bool:
    splits = "|".join(map(re.escape, dataset.splits))
    shard, record = rf"({splits})-\d{{5,}}\.tar(\.\d+-\d+\.tmp)?", rf"{re.escape(manifest.NAME)}(\.\d+\.tmp)?"
    return name == journal.NAME or re.fullmatch(f"{shard}|{record}", name) is not None
