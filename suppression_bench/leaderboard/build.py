"""The leaderboard's rendered files: the page, and the table in the README, from the submissions and nothing else."""

from collections.abc import Sequence
from pathlib import Path

from generators.dataset import UserError
from suppression_bench.leaderboard import page, ranking, submission, tracks
from suppression_bench.leaderboard.entry import Entry
from suppression_bench.leaderboard.ranking import Board

PAGE, README = "site/index.html", "README.md"  # beside the folder of submissions
BEGIN, END = "<!-- table: begin (bench leaderboard build) -->", "<!-- table: end -->"
HEAD = "| rank | entry | score [95 %] | mean accuracy | seeds | level | labels |"
MARKS = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")  # what Markdown may take for markup


def render(root: Path) -> dict[Path, str]:
    """Each rendered file and what it must hold.

    Arguments:
        root: the folder of submissions, which need not be there; README.md lies beside it.

    Raises:
        UserError: no such folder, a README without the marks, a damaged submission, one of an unknown track.
    """
    place = Path(root).parent
    if not place.is_dir():
        raise UserError(f"{place}: no such folder; run this in the repository, or name the submissions with --root")
    found = submission.load_all(root)
    known = tracks.names()
    if lost := [one for one in found if one.track not in known]:
        raise UserError(
            "\n".join(f"{one.folder}: unknown track {one.track!a}; there are {', '.join(known)}" for one in lost)
        )
    boards = [ranking.board(tracks.read(name), found) for name in known]
    used = {one.track for one in found}
    boards.sort(key=lambda board: (board.track.name not in used, board.track.name))
    return {place / PAGE: page.render(boards), place / README: _readme(place / README, table(boards))}


def build(root: Path) -> list[Path]:
    """Write what has changed; returns those files.

    Raises:
        UserError: as `render`.
    """
    wanted = render(root)
    changed = differing(wanted)
    for path in changed:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(wanted[path].encode())
    return changed


def differing(wanted: dict[Path, str]) -> list[Path]:
    """The files that are not there or hold something else."""
    return [path for path, text in wanted.items() if not path.is_file() or path.read_bytes() != text.encode()]


def first_difference(path: Path, wanted: str) -> str:
    """Where a file departs from what it must hold, as a sentence."""
    if not path.is_file():
        return f"{path} is not there"
    lines, ours = path.read_bytes().decode(errors="replace").split("\n"), wanted.split("\n")
    pairs = enumerate(zip(lines, ours, strict=False), 1)
    place = next((number for number, (one, other) in pairs if one != other), min(len(lines), len(ours)) + 1)
    return f"{path} differs from line {place} on"


def table(boards: Sequence[Board]) -> str:
    """The entries as Markdown, a table for each track that has any."""
    parts = []
    for board in boards:
        rows = [_row(one, page.ranks(one) or "none", board) for one in (*board.ranked, *board.undefined)]
        rows += [_row(one, "ceiling", board) for one in board.ceilings] + [
            _row(one, "floor", board) for one in board.floors
        ]
        if rows:
            heading = f"**{board.track.name}**: {board.track.title}\n"
            parts.append("\n".join([heading, HEAD, "|---" * HEAD.count(" | ") + "|---|", *rows]))
    return "\n\n".join(parts) if parts else "No entry yet."


def _row(entry: Entry, rank: str, board: Board) -> str:
    own = entry.submission
    score = (
        " ".join(filter(None, [page.number(entry.score), page.interval(entry)])) or f"undefined: {text(entry.reason)}"
    )
    mark = " ▼" if page.below(entry, board) else ""
    shown = [
        rank, f"[{text(own.name)}](submissions/{own.slug}/){mark}", score, page.percent(entry.accuracy),
        str(len(entry.seeds)), f"V{own.level}", "used" if own.label_use else "not used",
    ]  # fmt: skip
    return f"| {' | '.join(shown)} |"


def text(foreign: str) -> str:
    """Foreign text as Markdown that shows it: nothing in it is markup, a cell's end or a link.

    >>> text("a|b <b>*")
    'a\\\\|b \\\\<b\\\\>\\\\*'
    """
    return "".join(f"\\{one}" if one in MARKS else one for one in " ".join(foreign.split()))


def _readme(path: Path, made: str) -> str:
    if not path.is_file():
        raise UserError(f"{path}: no such file; it holds the table, between the lines {BEGIN} and {END}")
    before = path.read_bytes().decode()
    if before.count(BEGIN) != 1 or before.count(END) != 1 or before.index(BEGIN) > before.index(END):
        raise UserError(f"{path}: the lines {BEGIN} and {END} must stand in it once each, in this order")
    head, rest = before.split(BEGIN)
    return f"{head}{BEGIN}\n\n{made}\n\n{END}{rest.split(END)[1]}"
