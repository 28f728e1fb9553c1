"""From a dataset to a folder: resumable, on any number of workers, with the same bytes whatever happened on the way."""

import contextlib
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from threadpoolctl import threadpool_limits

from generators import catalog, executor, manifest, shards
from generators.dataset import Dataset, Sample, UserError, draw_sample
from generators.files import dumps_json, is_abandoned, loads_json, make_folder, write_atomic
from generators.manifest import UNFINISHED, Manifest

SHARD_SIZE = 2000
MARGIN = 1.1  # a few samples estimate the mean size to a few percent, and a shard is whole before it is renamed
ESTIMATED_SAMPLES = 8  # per split
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

    @property
    def name(self) -> str:
        return Path(self.path).name


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
) -> Manifest:
    """Write a dataset's shards and manifest into `out` and return the manifest.

    Can be killed at any moment: a shard with its final name is whole, since it got the name by a rename, so a restart
    keeps it, makes the rest, and ends byte-identical. The manifest is written last, so a folder without one is not a
    dataset; until then `unfinished.json` says what is being built there.

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
    large = [f"{name} {count}" for name, count in dataset.splits.items() if count > MOST]
    if large:
        raise UserError(f"{dataset.name}: {', '.join(large)}: a split holds at most {MOST} samples; make several seeds")
    identity = manifest.identity(dataset, seed)
    plans = _plans(dataset, reference or dataset.name, out, seed, shard_size)
    claim = dumps_json({"identity": identity.builtins(), "shard_size": shard_size}).encode()
    resumed = _is_resumed(out, claim)  # before the manifest, which a rival process writes before it takes this back
    if (out / manifest.NAME).exists():
        if finished := _finished(out, identity, plans, claim):
            return finished
        resumed = True
    _check_folder(out, dataset)
    _make_room(dataset, out, seed, len(plans), say)
    _claim(out, claim, resumed, {plan.name for plan in plans})
    results = _make_shards(plans, workers, progress)
    by_split = {split: [results[plan.name] for plan in plans if plan.split == split] for split in dataset.splits}
    whole = manifest.assemble(identity, by_split)
    manifest.write(out, whole)
    (out / UNFINISHED).unlink(missing_ok=True)
    return whole


def _plans(dataset: Dataset, reference: str, out: Path, seed: int, shard_size: int) -> list[Plan]:
    if catalog.is_path(reference):
        reference = str(Path(reference).absolute())
    plans = []
    for split, count in dataset.splits.items():
        for number, start in enumerate(range(0, count, shard_size)):
            path = str(out / f"{split}-{number:05d}.tar")
            stop = min(start + shard_size, count)
            plans.append(Plan(reference, dataset.options, seed, split, start, stop, path))
    return plans


# The folder before


def _is_resumed(out: Path, claim: bytes) -> bool:
    # Whether the folder holds an unfinished build of this dataset.
    try:
        if (out / UNFINISHED).read_bytes() == claim:
            return True
    except (FileNotFoundError, NotADirectoryError):
        return False
    raise UserError(
        f"{out} holds the unfinished build of another dataset or shard size; choose another --out or delete the folder"
    )


def _finished(out: Path, identity: manifest.Identity, plans: list[Plan], claim: bytes) -> Manifest | None:
    # The manifest of a folder that needs nothing. Damaged shards are removed: the build then goes on like a killed one.
    present = manifest.read(out)
    before, after = present.builtins(), identity.builtins()
    if different := manifest.differences({key: before[key] for key in after}, after):
        raise UserError(f"{out} already holds another dataset ({different}); choose another --out or delete the folder")
    # As sets: a manifest's splits stand in the order of their names, the dataset's in its own.
    if {(shard.name, shard.count) for shard in present.shards} != {(p.name, p.stop - p.start) for p in plans}:
        size = max(shard.count for shard in present.shards)
        raise UserError(f"{out} already holds this dataset in shards of up to {size} samples; choose another --out")
    damaged = []
    for shard in present.shards:
        try:
            shards.check_shard(out, shard)
        except UserError:
            damaged.append(out / shard.name)
    if not damaged:
        (out / UNFINISHED).unlink(missing_ok=True)
        return present
    _write(out / UNFINISHED, claim)
    for path in [out / manifest.NAME, *damaged]:  # without a manifest the folder is no dataset until it is mended
        path.unlink(missing_ok=True)
    return None


def _check_folder(out: Path, dataset: Dataset) -> None:
    if out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file; --out must name a folder")
    splits = "|".join(map(re.escape, dataset.splits))
    files = rf"({splits})-\d{{5,}}\.tar|{re.escape(manifest.NAME)}|{re.escape(UNFINISHED)}"
    names = [path.name for path in out.iterdir()] if out.is_dir() else []
    foreign = sorted(name for name in names if not re.fullmatch(rf"({files})(\.\d+-\d+\.tmp)?", name))
    if foreign:
        raise UserError(f"{out} holds other files ({', '.join(foreign[:3])}); choose an empty or new folder")


def _make_room(dataset: Dataset, out: Path, seed: int, count: int, say: Callable[[str], None] | None) -> None:
    expected = expected_bytes(dataset, seed)
    make_folder(out)
    free, held = shutil.disk_usage(out).free, 0
    for path in out.iterdir():  # a restart has part of it already
        with contextlib.suppress(FileNotFoundError):
            held += path.stat().st_size
    if say:
        say(f"{out}: about {size_text(expected)} in {count} shards ({size_text(free)} are free)")
    need = expected * MARGIN - held
    if free < need:
        raise UserError(
            f"{out}: about {size_text(need)} are needed, {size_text(free)} are free; choose another disk", exit_code=4
        )


def _claim(out: Path, claim: bytes, resumed: bool, names: set[str]) -> None:
    # Leaves only shards that belong to this build. Without a claim before, no shard is known to.
    for path in out.iterdir():
        stray = path.suffix == ".tar" and (not resumed or path.name not in names)
        if stray or (path.suffix == ".tmp" and is_abandoned(path)):
            path.unlink(missing_ok=True)
    if not resumed:
        _write(out / UNFINISHED, claim)


def _write(path: Path, data: bytes) -> None:
    with write_atomic(path) as file:
        file.write(data)


# The shards


def _make_shards(plans: list[Plan], workers: int, progress: Callable | None) -> dict[str, shards.ShardResult]:
    total, done = sum(plan.stop - plan.start for plan in plans), 0
    growing: dict[int, int] = {}  # position -> samples of shards that are being written
    results = {}

    def note(position: int, count: int) -> None:
        growing[position] = count
        if progress:
            progress(done + sum(growing.values()), total)

    for outcome in executor.run(make_shard, plans, workers, note):
        if outcome.error is not None:
            raise _explained(outcome, plans[outcome.position])
        growing.pop(outcome.position, None)
        results[outcome.value.name] = outcome.value
        done += outcome.value.count
        if progress:
            progress(done, total)
    return results


def _explained(outcome: executor.Outcome, plan: Plan) -> Exception:
    if isinstance(outcome.error, (UserError, OSError)):
        return outcome.error
    lines = [line.strip() for line in outcome.trace.split("\n") if line.strip().startswith("File ")]
    where = f" ({lines[-1]})" if lines else ""
    return UserError(f"{plan.dataset}: {outcome.error!r} while drawing {plan.name}{where}; mend it and run again")


def make_shard(plan: Plan, note: Callable) -> shards.ShardResult:
    """Draw, render and write one shard, or read back the one that a build before has left; runs in any process."""
    path, dataset = Path(plan.path), _dataset(plan.dataset, dumps_json(plan.options))
    if path.exists():
        classes = {name: feature.classes for name, feature in dataset.features.items()}
        with contextlib.suppress(UserError):  # damaged since: made anew
            return shards.read_back(path, dataset.image_shape, classes, plan.start, plan.stop - plan.start)
    samples = dataset.samples(plan.split, plan.start, plan.stop, plan.seed)
    # The matrices of a resize are small: threads would only fight with the other workers' over the cores.
    with threadpool_limits(1):
        return shards.write_shard(path, _noting(samples, note), dataset.features)


def _noting(samples: Iterator[Sample], note: Callable) -> Iterator[Sample]:
    for count, sample in enumerate(samples, 1):
        yield sample
        if count % NOTE_EVERY == 0:
            note(count)


_datasets: dict[tuple[str, str, str], Dataset] = {}


def _dataset(reference: str, options: str) -> Dataset:
    # One dataset per process, file and options: opening a source costs more than a shard.
    key = reference, options, catalog.file_digest("generators.datasets", reference)
    if key not in _datasets:
        _datasets.clear()
        _datasets[key] = catalog.dataset(reference, loads_json(options, "options", floats=True))
    return _datasets[key]


# Its size


def expected_bytes(dataset: Dataset, seed: int = 0) -> int:
    """The expected bytes of all shards: each split's mean over a few samples, evenly spaced, times its length.

    Raises:
        UserError: the dataset fails on one of them.

    >>> 1e6 < expected_bytes(catalog.dataset("randbit", {})) < 5e6
    True
    """
    total = 0
    for split, count in dataset.splits.items():
        positions = range(0, count, max(1, -(-count // ESTIMATED_SAMPLES)))
        samples = [draw_sample(dataset, split, index, seed) for index in positions]
        missing = [feature for sample in samples for feature in dataset.missing_labels(split, sample.labels)]
        if missing:
            labels = ", ".join(samples[0].labels) or "none"
            raise UserError(
                f"{dataset.name}: {missing[0]!r} is probed on {split}, but `draw` gives it no such label (it gives {labels})"
            )
        sizes = [len(shards.members(s.index, shards.encode_png(s.image), shards.record_text(s))) for s in samples]
        total += count * sum(sizes) // len(sizes)
    return total


def size_text(size: float) -> str:
    """A size in bytes for people.

    >>> size_text(1.3e9), size_text(2_345_678), size_text(130e9), size_text(999_600)
    ('1.3 GB', '2.3 MB', '130 GB', '1 MB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        rounded = float(f"{size:.3g}" if size >= 100 or unit == "B" else f"{size:.2g}")
        if rounded < 1000:
            return f"{rounded:.15g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"
