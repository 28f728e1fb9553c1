"""Check submissions as the server does; nothing of them is executed."""

from pathlib import Path

from generators.dataset import UserError
from suppression_bench.commands._parser import Parser, set_data_root

ROOT = "leaderboard/submissions"
SOURCES = ("digit_source", "image_source")


def _flags(arguments: list[str]):
    parser = Parser(
        "leaderboard check",
        "Check submissions: files, texts, code, records, track, predictions against the official labels. Nothing of them is "
        "imported or executed. Exit code 2 and every fault if one is refused.",
    )
    parser.add_argument("submissions", type=str, nargs="*", help="slugs or folders (default: all of --root)")
    parser.add_argument("--root", type=str, default=ROOT, help="where submissions lie")
    parser.add_argument(
        "--accepted", type=str, default=None, help="the folder of accepted entries to compare with (default: --root)"
    )
    parser.add_argument(
        "--changed", type=str, nargs="+", default=None, metavar="FILE",
        help="the files of a pull request, from the repository's root: one submission's folder and nothing else",
    )  # fmt: skip
    parser.add_argument(
        "--changed-list", type=str, default=None, help="the same from a file, separated by zero bytes (git diff -z)"
    )
    parser.add_argument(
        "--reprobe", action="store_true", help="probe the encoders again, where a submission brings them: level V2"
    )
    parser.add_argument("--keep", action="store_true", help="maintainers: note the level in leaderboard/checks/")
    parser.add_argument("--digit-source", type=str, default=None, help="where the digits lie here, as mnist:DIR")
    parser.add_argument("--image-source", type=str, default=None, help="where the pictures lie here, as cifar10:DIR")
    parser.add_argument("--data-root", type=str, default=None, help="where downloaded sources are kept")
    flags = parser.read(arguments)
    if flags.changed is not None and flags.changed_list is not None:
        raise UserError("bench leaderboard check: give one of --changed and --changed-list")
    return flags


def run(arguments: list[str]) -> int:
    """0 if all are in order; otherwise every fault of all."""
    flags = _flags(arguments)
    set_data_root(flags.data_root)
    from suppression_bench.leaderboard import changed, levels
    from suppression_bench.leaderboard.check import check

    root = Path(flags.root)
    for name in ("root", "accepted"):
        if getattr(flags, name) is not None and not Path(getattr(flags, name)).is_dir():
            raise UserError(f"bench leaderboard check: --{name} {getattr(flags, name)}: no such folder")
    sources = {name: getattr(flags, name) for name in SOURCES if getattr(flags, name)}
    folders, faults = [_folder(root, name) for name in flags.submissions], []
    if flags.changed is not None or flags.changed_list is not None:
        files = flags.changed or changed.read_list(Path(flags.changed_list))
        slug, faults = changed.judge(files)
        folders += [root / slug] if slug and root / slug not in folders else []
    elif not folders:
        folders = sorted(path for path in root.iterdir() if path.is_dir() and path.name[0] != ".")
    for folder in folders:
        report = check(folder, Path(flags.accepted or root), sources)
        for note in report.notes:
            print(f"{report.slug}: note: {note}")
        if flags.reprobe and not report.faults:
            _reprobe(folder, report, sources)
        if report.faults:
            print(f"{report.slug!a}: refused, {len(report.faults)} faults")
            faults += [f"{report.slug[:80]!a}: {fault}" for fault in report.faults]
            continue
        why = f" ({report.reason})" if report.reason else ""
        print(f"{report.slug}: in order, level {levels.NAMES[report.level]}{why}")
        if flags.keep:
            print(f"written: {_keep(folder, report)}")
    if not folders and not faults:
        print(f"no submission in {root}")
    if faults:
        raise UserError("\n".join(faults))
    return 0


def _reprobe(folder: Path, report, sources: dict[str, str]) -> None:
    from generators import executor
    from suppression_bench.cell import device_of
    from suppression_bench.leaderboard import data, levels, reprobe, tracks
    from suppression_bench.leaderboard.submission import ENCODERS, read_form

    if not (folder / ENCODERS).is_dir() or report.level < levels.RESCORED:
        report.reason = report.reason if report.level < levels.RESCORED else "it brings no encoders"
        return
    folders = data.make_data(tracks.read(read_form(folder)["track"]), sources, executor.cores(), print)
    report.faults += reprobe.check(folder, folders, device_of("auto"))
    report.level, report.reason = levels.REPROBED, ""


def _keep(folder: Path, report) -> Path:
    from suppression_bench.leaderboard import levels
    from suppression_bench.leaderboard.submission import digest

    found = {"schema": levels.SCHEMA, "slug": report.slug, "submission": digest(folder), "level": report.level}
    return levels.write(levels.check_file(folder.parent, report.slug), found)


def _folder(root: Path, name: str) -> Path:
    # A slug, or a path to a folder.
    folder = Path(name) if "/" in name or Path(name).is_dir() else root / name
    if not folder.is_dir():
        raise UserError(f"{name}: no such submission; give a slug of {root} or the path of a folder")
    return folder
