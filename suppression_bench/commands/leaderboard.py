"""Commands of the leaderboard: submit an entry; check, train again and render what competes."""

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from generators.dataset import UserError
from suppression_bench.commands.shared import AT_LEAST_ONE, Machine, Sources, at_least, pairs

ROOT = Path("leaderboard/entries")


@Parameter(name="*")
@dataclass(frozen=True)
class Root:
    """Where entries are kept.

    Arguments:
        root: the folder of entries; the page and README.md are beside it.
    """

    root: Path = ROOT

    def folder(self, name: str) -> Path:
        """A submission by its slug or by its path.

        Raises:
            UserError: no such folder.
        """
        folder = Path(name) if "/" in name or Path(name).is_dir() else self.root / name
        if not folder.is_dir():
            raise UserError(f"{name}: no such submission; give a slug of {self.root} or the path of a folder")
        return folder


def submit(
    runs: list[Path],
    /,
    *,
    name: str,
    url: str,
    contact: str | None = None,
    track: str = "quick",
    only: Annotated[list[str] | None, Parameter(metavar="KEY=VALUES")] = None,
    method: str | None = None,
    loss: str | None = None,
    with_encoder: bool = False,
    supersedes: Annotated[str | None, Parameter(metavar="SLUG")] = None,
    slug: str = "",
    out: Path = ROOT,
    sources: Sources = Sources(),
) -> int:
    """Make a leaderboard entry from finished runs, and check it as the server will.

    Nothing is sent anywhere: the folder goes into a pull request.

    Arguments:
        runs: folders that `bench run` wrote.
        name: what the method is called on the page.
        url: where to read about it (https).
        contact: who answers questions, public.
        track: what it competes in.
        only: the cells of the entry, where the runs hold others: method=simclr temperature=0.1.
        method: the .py file of a method of your own.
        loss: the .py file of a loss of your own.
        with_encoder: add the trained encoders (large).
        supersedes: an older entry that this replaces.
        slug: the folder's name (default: from name and track).
        out: the folder of entries.
    """
    sources.use()
    from suppression_bench.leaderboard import check as checks
    from suppression_bench.leaderboard import submission
    from suppression_bench.leaderboard.entry import LEVELS

    files = {kind: file for kind, file in (("method", method), ("loss", loss)) if file}
    request = submission.Request(name, url, contact, track, supersedes, slug, files, with_encoder)
    cells = submission.gather(runs, pairs(only or [], "--only", split=True))
    entry = submission.write(cells, request, out)
    report = checks.check(entry, out, sources.named())
    for note in report.notes:
        print(f"note: {note}")
    if report.faults:
        shutil.rmtree(entry)
        raise UserError("\n".join(report.faults))
    print(f"written: {entry}, {len(cells)} cells, level {LEVELS[report.level]} ({report.reason})")
    print(
        f"""Next, in a clone of the project's repository (a fork of yours):
  git checkout -b submit-{entry.name}
  cp -r {entry} {ROOT}/   # unless it lies there already
  git add {ROOT}/{entry.name}
  git commit -m "Submission: {entry.name}"
  git push origin submit-{entry.name}      # then open a pull request that changes nothing else"""
    )
    return 0


def check(
    submissions: list[str] | None = None,
    /,
    *,
    root: Root = Root(),
    accepted: Path | None = None,
    changed: Annotated[list[str] | None, Parameter(metavar="FILE")] = None,
    changed_list: Path | None = None,
    reprobe: bool = False,
    keep: bool = False,
    sources: Sources = Sources(),
) -> int:
    """Check submissions as the server does; nothing of them is executed.

    Files, texts, code, records, track, predictions against the official labels. Exit code 2 and every fault if one
    is refused.

    Arguments:
        submissions: slugs or folders (default: all of --root).
        accepted: the folder of accepted entries to compare with (default: --root).
        changed: the files of a pull request, from the repository's root: one submission's folder and nothing else.
        changed_list: the same from a file, separated by zero bytes (git diff -z).
        reprobe: probe the encoders again, where a submission brings them: level V2.
        keep: maintainers: note the level in leaderboard/checks/.
    """
    if changed is not None and changed_list is not None:
        raise UserError("bench leaderboard check: give one of --changed and --changed-list")
    for flag, folder in (("--root", root.root), ("--accepted", accepted)):
        if folder is not None and not folder.is_dir():
            raise UserError(f"bench leaderboard check: {flag} {folder}: no such folder")
    sources.use()
    from suppression_bench.leaderboard import check as checks
    from suppression_bench.leaderboard import entry

    folders, faults = [root.folder(name) for name in submissions or ()], []
    if changed_list is not None:
        changed = checks.read_changed(changed_list)
    if changed is not None:
        slug, faults = checks.judge_changed(changed)
        folders += [root.root / slug] if slug and root.root / slug not in folders else []
    elif not folders:
        folders = sorted(path for path in root.root.iterdir() if path.is_dir() and path.name[0] != ".")
    for folder in folders:
        report = checks.check(folder, accepted or root.root, sources.named())
        for note in report.notes:
            print(f"{report.slug}: note: {note}")
        if reprobe and not report.faults:
            from suppression_bench.leaderboard.rerun import reprobe as probe_encoders  # loads torch

            probe_encoders(folder, report, sources.named(), print)
        if report.faults:
            print(f"{report.slug!a}: refused, {len(report.faults)} faults")
            faults += [f"{report.slug[:80]!a}: {fault}" for fault in report.faults]
            continue
        reason = f" ({report.reason})" if report.reason else ""
        print(f"{report.slug}: in order, level {entry.LEVELS[report.level]}{reason}")
        if keep:
            finding = entry.Check(slug=report.slug, entry=entry.digest(folder), level=report.level)
            print(f"written: {entry.write_finding(folder, finding)}")
    if not folders and not faults:
        print(f"no submission in {root.root}")
    if faults:
        raise UserError("\n".join(faults))
    return 0


def rerun(
    submission: str,
    /,
    *,
    seeds: Annotated[int, at_least(0)] = 1,
    fresh_seeds: Annotated[int, AT_LEAST_ONE] = 2,
    nonce: str | None = None,
    root: Root = Root(),
    out: Path | None = None,
    hours: float = 6.0,
    memory: Annotated[float | None, at_least(0)] = None,
    i_trust_this_code: bool = False,
    machine: Machine = Machine(),
    sources: Sources = Sources(),
) -> int:
    """Maintainers: train a submission again on one of its seeds and two fresh ones. This runs foreign code.

    Each number is judged by the claim's 99 % prediction interval; exit code 1 if the claim does not hold. Foreign code
    runs in a sandbox (bubblewrap), or in a container without a network; read the submission's files first.

    Arguments:
        submission: slug or folder.
        seeds: how many of its own seeds.
        fresh_seeds: how many that nobody knew before.
        nonce: a text that the fresh seeds hang on (default: random).
        out: the rerun's folder (default: runs/rerun-SLUG).
        hours: the most that the training may take.
        memory: address space in GiB (default: 32, none with CUDA).
        i_trust_this_code: run code of your own where there is no sandbox; such a rerun raises no level.
    """
    if not hours > 0:
        raise UserError(f"bench leaderboard rerun: --hours must be above 0, got {hours}")
    sources.use()
    from suppression_bench.leaderboard import check as checks
    from suppression_bench.leaderboard import entry, sandbox
    from suppression_bench.leaderboard import rerun as reruns
    from suppression_bench.run import device_of

    device = device_of(machine.device).type
    folder = root.folder(submission)
    report = checks.check(folder, folder.parent, sources.named())
    if report.faults:
        raise UserError("\n".join(f"{folder.name}: {fault}" for fault in report.faults))
    claim = entry.load(folder)
    kind = sandbox.choose(bool(claim.entry.own_files), i_trust_this_code)
    out = out or Path(f"runs/rerun-{claim.slug}")
    planned = reruns.plan(claim, out, seeds, fresh_seeds, nonce)
    print(f"{claim.slug}: seeds {planned.seeds}, nonce {planned.nonce}, sandbox: {kind}, into {out}", flush=True)
    memory = memory if memory is not None else 0.0 if device == "cuda" else 32.0
    limited = reruns.Machine(device, *machine.share(device), sandbox.Limits(hours, memory), kind)
    finding = reruns.rerun(claim, planned, out, sources.named(), limited, print)
    print(reruns.text(finding))
    print(f"written: {entry.write_finding(folder, finding)}")
    return 0 if finding.passed else 1


def build(*, root: Root = Root(), check: bool = False) -> int:
    """Render the page and the table in the README from the entries.

    Arguments:
        check: write nothing; exit code 1 where a file is not what it must be.
    """
    from suppression_bench.leaderboard import page

    if not check:
        written = page.build(root.root)
        print("\n".join(f"written: {path}" for path in written) or "nothing has changed")
        return 0
    rendered = page.files(root.root)
    outdated = page.differing(rendered)
    for path in outdated:
        print(f"bench leaderboard build: {page.first_difference(path, rendered[path])}", file=sys.stderr)
    if outdated:
        flag = "" if root.root == ROOT else f" --root {root.root}"
        print(f"bench leaderboard build: render them anew with `bench leaderboard build{flag}`", file=sys.stderr)
    else:
        print("the page and the table are up to date")
    return int(bool(outdated))
