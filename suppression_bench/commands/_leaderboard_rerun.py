"""Maintainers: train a submission again on one of its seeds and two fresh ones. This runs foreign code."""

from pathlib import Path

from generators import executor
from generators.dataset import UserError
from suppression_bench.commands._parser import Parser, set_data_root


def _flags(arguments: list[str]):
    parser = Parser(
        "leaderboard rerun",
        "Train a submission again and judge each number by the claim's 99 % prediction interval. THIS RUNS FOREIGN CODE: read "
        "the submission's files first, and do it in a container without secrets.",
    )
    parser.add_argument("submission", type=str, help="slug or folder")
    parser.add_argument("--seeds", type=int, default=1, help="how many of its own seeds (default: 1)")
    parser.add_argument("--fresh-seeds", type=int, default=2, help="how many that nobody knew before (default: 2)")
    parser.add_argument("--nonce", type=str, default=None, help="a text that the fresh seeds hang on (default: random)")
    parser.add_argument("--root", type=str, default="leaderboard/submissions", help="where submissions lie")
    parser.add_argument("--out", type=str, default=None, help="the rerun's folder (default: runs/rerun-SLUG)")
    parser.add_argument("--hours", type=float, default=6.0, help="the most that the training may take (default: 6)")
    parser.add_argument("--memory", type=float, default=None, help="address space in GiB (default: 32, none with CUDA)")
    parser.add_argument("--device", type=str, default="auto", choices=["auto", "cpu", "cuda"], help="where to train")
    parser.add_argument("--workers", type=int, default=None, help="cells at once (default: as in bench run)")
    parser.add_argument("--threads", type=int, default=None, help="torch threads per worker (default: cores / workers)")
    parser.add_argument("--digit-source", type=str, default=None, help="where the digits lie here, as mnist:DIR")
    parser.add_argument("--image-source", type=str, default=None, help="where the pictures lie here, as cifar10:DIR")
    parser.add_argument(
        "--data-root", type=str, default=None, help="where data is kept (default: $SUPPRESSION_BENCH_CACHE)"
    )
    flags = parser.read(arguments)
    parser.require_positive(flags, "fresh_seeds", *(name for name in ("workers", "threads") if getattr(flags, name)))
    if flags.seeds < 0 or not flags.hours > 0 or (flags.memory is not None and flags.memory < 0):
        raise UserError("bench leaderboard rerun: --seeds and --memory must be at least 0, --hours above 0")
    return flags


def run(arguments: list[str]) -> int:
    """0 if the claim holds, 1 if it does not."""
    flags = _flags(arguments)
    set_data_root(flags.data_root)
    from suppression_bench import cell
    from suppression_bench.leaderboard import data, rerun, sandbox, submission, tracks
    from suppression_bench.leaderboard.check import check

    device = cell.device_of(flags.device).type
    folder = Path(flags.submission) if "/" in flags.submission else Path(flags.root) / flags.submission
    if not folder.is_dir():
        raise UserError(f"{flags.submission}: no such submission; give a slug of {flags.root} or the path of a folder")
    sources = {name: getattr(flags, name) for name in ("digit_source", "image_source") if getattr(flags, name)}
    report = check(folder, folder.parent, sources)
    if report.faults:
        raise UserError("\n".join(f"{folder.name}: {fault}" for fault in report.faults))
    found = submission.load(folder)
    track = tracks.read(found.track)
    place = Path(flags.out or f"runs/rerun-{found.slug}")
    planned = rerun.plan(found, place, flags.seeds, flags.fresh_seeds, flags.nonce)
    seeds = [*planned["submitted_seeds"], *planned["fresh_seeds"]]
    print(
        f"{found.slug}: {len(seeds) * len(track.grid)} cells, seeds {seeds}, nonce {planned['nonce']}, into {place}",
        flush=True,
    )
    workers = flags.workers or (1 if device == "cuda" else executor.cores())
    threads = flags.threads or max(1, executor.cores() // workers)
    memory = flags.memory if flags.memory is not None else 0.0 if device == "cuda" else 32.0
    machine = rerun.Machine(device, workers, threads, sandbox.Limits(flags.hours, memory))
    if not sandbox.no_network():
        print("note: this system gives a process no network of its own; cut the container's", flush=True)
    folders = data.make_data(track, sources, executor.cores(), print)
    suite = rerun.suite_file(found, track, seeds, data.places(track, sources), place)
    rerun.train(suite, place, folders, machine)
    finding = rerun.judge(found, track, planned, place, folders, device)
    print(rerun.text(finding))
    print(f"written: {rerun.keep(folder.parent, finding)}")
    return 0 if finding["passed"] else 1
