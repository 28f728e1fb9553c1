"""The leaderboard's rendered files: one self-contained page and the README's table, from the entries and nothing else.

No request, no date, the same bytes for the same entries. Everything that entries hold is foreign text: the templates
escape it, and only https addresses become links.
"""

import base64
import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import numpy as np
import yaml
from markupsafe import Markup

from generators.dataset import UserError
from suppression_bench.leaderboard import entry as entries
from suppression_bench.leaderboard import rank, tracks
from suppression_bench.leaderboard.entry import Entry, Rerun, Submission
from suppression_bench.leaderboard.rank import Accuracies, Board, Standing, features_in_order
from suppression_bench.results.record import Environment, Record
from suppression_bench.results.renderers import environment

TEMPLATES = Path(__file__).parent / "templates"
ENTRIES = "../entries"  # seen from leaderboard/site/
PROOFS = (  # of the levels
    "The files are complete and agree: every strength and seed is there, the counts add up, the settings are the track's. "
    "Nothing was measured again.",
    "The predictions handed in, one for each test sample, were counted against the official labels and give the numbers.",
    "The encoder handed in was run by us: its features and its probes, computed anew, give the numbers.",
    "We trained the method again, on one submitted seed and two seeds drawn after the submission. The results lie inside the "
    "99 % prediction intervals of the submitted ones, but for as few as chance allows.",
)


def render(boards: Sequence[Board]) -> str:
    """The page as text.

    Arguments:
        boards: the tracks' rankings, in the order of the page.
    """
    style, script = (Markup((TEMPLATES / name).read_text(encoding="utf-8")) for name in ("page.css", "page.js"))
    # The template reads the boards themselves, and calls the functions of this module by their names.
    return environment(TEMPLATES).get_template("page.html").render(globals(), boards=boards, style=style, script=script)


def policy_hash(text: str) -> str:
    """How a content security policy names an inline script or style: by its SHA-256.

    >>> policy_hash("")
    'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='
    """
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def plain(value: Any) -> str:
    """A setting in words.

    >>> plain(None), plain(True), plain([0.5, 1.0]), plain("fp32")
    ('none', 'yes', '0.5, 1.0', 'fp32')
    """
    if isinstance(value, list):
        return ", ".join(map(plain, value))
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    return str(value)


def ranks(standing: Standing) -> str:
    """The ranks that the seeds leave open: "2" or "1–3", "" outside the ranking."""
    if not standing.ranks:
        return ""
    best, worst = standing.ranks
    return str(best) if best == worst else f"{best}–{worst}"


def number(value: float | None) -> str:
    """Two digits, "" for None; + 0.0: no -0.00."""
    return "" if value is None else f"{round(value, 2) + 0.0:.2f}"


def percent(share: float | None) -> str:
    """A share as a table has it: "81.3 %", "undefined" for None."""
    return "undefined" if share is None else f"{100 * share:.1f} %"


def interval(standing: Standing) -> str:
    """Of the score, "" with one seed."""
    return f"[{', '.join(map(number, standing.interval))}]" if standing.interval else ""


def exact(value: float | None) -> str:
    """What the page's script sorts by."""
    return "" if value is None else f"{value:.9f}"


def entry_folder(slug: str) -> str:
    """An entry's folder, seen from the page."""
    return f"{ENTRIES}/{quote(slug, safe='')}/"


def below(standing: Standing, board: Board) -> list[str]:
    """Where an entry lies below the untrained encoder, in words; a method that is worse than none should be seen."""
    strengths: dict[str, list[str]] = {}
    for feature, strength in standing.below:
        strengths.setdefault(feature, []).append(str(strength))
    where = "; ".join(f"{feature} at {', '.join(values)}" for feature, values in strengths.items())
    texts = [f"below the untrained encoder: {where}"] if where else []
    score, floor = standing.score, board.floor_score
    if standing.ranks and score is not None and floor is not None and score <= floor:
        texts.insert(0, f"score not above the untrained encoder's, {number(floor)}")
    return texts


def finding(rerun: Rerun) -> str:
    """What a repetition by the maintainers found."""
    inside = sum(cell.inside for cell in rerun.cells)
    seeds = ", ".join(map(str, (*rerun.submitted_seeds, *rerun.fresh_seeds)))
    text = f"retrained on seeds {seeds}: {inside} of {len(rerun.cells)} numbers inside the prediction interval"
    if rerun.sandbox == "unsandboxed":
        text += ", outside a sandbox"
    if rerun.failed:
        text += f", {len(rerun.failed)} cells without a number"
    return text


def number_rows(standing: Standing, board: Board) -> list[tuple[str, list[str]]]:
    """A title and a number for each strength, per feature and for the floor's."""
    rows, curves = [], standing.curves
    for feature in features_in_order(curves.values, board.floor):
        chance = curves.chance.get(feature)
        title = feature + (f" (chance {100 * chance:.3g})" if chance is not None else "")
        rows.append(_numbers_row(title, curves.values.get(feature, {}), board.grid))
        if feature in board.floor:
            rows.append(_numbers_row(f"{feature}, untrained", board.floor[feature], board.grid))
    return rows


def _numbers_row(title: str, by_strength: dict, grid: Sequence) -> tuple[str, list[str]]:
    counts = sorted({len(seeds) for seeds in by_strength.values()})
    n = f", n={'-'.join(map(str, dict.fromkeys((counts[0], counts[-1]))))}" if counts else ""
    return title + n, [_mean_and_spread(by_strength.get(strength, {})) for strength in grid]


def _mean_and_spread(seeds: dict[int, float]) -> str:
    values = 100 * np.array(list(seeds.values()))
    spread = f" ± {values.std(ddof=1):.1f}" if len(values) > 1 else ""
    return f"{values.mean():.1f}{spread}" if len(values) else ""


# ---- where the numbers come from ----

MACHINE = ("device", "cpu_capability", "threads", "platform")


def facts(submission: Submission) -> list[tuple[str, list[str]]]:
    """Terms and their values; a value that not all cells share says how many have it."""
    cells = submission.records

    def each(read: Callable[[Record], Any]) -> list[str]:
        return tally(map(read, cells))

    seconds, resumes = sum(cell.run.seconds for cell in cells), sum(cell.run.resumes for cell in cells)
    return [
        ("seeds", [", ".join(map(str, sorted({cell.spec.seed for cell in cells}))) or "none"]),
        ("cells", [f"{len(cells)}, trained in {_time(seconds)}, resumed {resumes} times"]),
        ("data", each(_dataset)),
        ("data digest", each(lambda cell: cell.data.digest)),
        ("suppression-bench", each(lambda cell: cell.code.version)),
        ("commit", each(lambda cell: cell.code.commit or "unknown")),
        ("digest of the sources", each(lambda cell: cell.code.sources)),
        ("digest of the method's file", each(lambda cell: cell.code.method)),
        ("digest of the entry", [submission.digest or "none"]),
        ("versions", each(lambda cell: _listed(cell.environment, False))),
        ("hardware", each(lambda cell: _listed(cell.environment, True))),
    ]


def _dataset(cell: Record) -> str:
    dataset = cell.spec.dataset
    options = "".join(f", {key} {value}" for key, value in sorted(dataset.options.items()) if value is not None)
    return f"{dataset.name} version {dataset.version}, seed {dataset.seed}{options}"


def _listed(values_of: Environment, machine: bool) -> str:
    values = msgspec.to_builtins(values_of)
    names = MACHINE if machine else sorted(values.keys() - set(MACHINE))
    return ", ".join(f"{name.replace('_', ' ')} {values[name]}" for name in names)


def setting_text(entry: Entry) -> str:
    """The setting as YAML: what one needs to run it again."""
    shown = ("recipe", "method", "loss", "encoder", "augmentation", "train", "probe", "probe_version")
    setting = msgspec.json.decode(msgspec.json.encode(entry.setting))  # lists for tuples, which YAML would mark
    values = {key: setting[key] for key in shown if setting[key] is not None}
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True, default_flow_style=None, width=80)


def tally(values: Iterable) -> list[str]:
    """Different values as texts, the most frequent first, with the number of cells where there are several.

    >>> tally(["a", "a"]), tally(["b", "a", "a"])
    (['a'], ['a (2 cells)', 'b (1 cell)'])
    """
    counts = Counter(map(str, values))
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [f"{text} ({count} cell{'s' * (count != 1)})" if len(ordered) > 1 else text for text, count in ordered]


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


# ---- geometry of the drawings: accuracies against the strength, and the score on a line from 0 to 1 ----

WIDTH, HEIGHT = 360, 210
LEFT, RIGHT, TOP, BOTTOM = 46, 14, 10, 40  # room for the axes
BAR = 120
LOOKS = 4  # of markers, lines and colours
SIZE = 4.0
DASHES = ("none", "7 3", "2 2.5", "8 3 2 3")


def curve(standing: Standing, grid: Sequence, floor: Accuracies) -> dict[str, Any]:
    """What the template draws: axes, and per feature a line with markers and 95 % bars beside that of the floor.

    Strengths stand at equal distances, in the track's order; accuracies run from 0 to 1.

    Arguments:
        standing: with its accuracies.
        grid: all strengths of the track.
        floor: of the untrained encoder.
    """
    step = (WIDTH - LEFT - RIGHT) / max(1, len(grid) - 1)
    across = {strength: LEFT + step * position for position, strength in enumerate(grid)}
    values = standing.curves.values
    return {
        "across": [(_digits(x), strength) for strength, x in across.items()],
        "up": [(_digits(_up(share)), f"{share:.0%}") for share in (0, 0.25, 0.5, 0.75, 1)],
        "lines": [
            _line(feature, position % LOOKS, values.get(feature, {}), floor.get(feature, {}), across)
            for position, feature in enumerate(features_in_order(values, floor))
        ],
    }


def _line(feature: str, look: int, by_strength: dict, floor: dict, across: dict) -> dict[str, Any]:
    points = [
        (x, _mean(seeds), rank.mean_interval(list(seeds.values())) or (_mean(seeds),) * 2)
        for strength, x in across.items()
        if (seeds := by_strength.get(strength))
    ]
    untrained = [(x, _mean(floor[strength])) for strength, x in across.items() if floor.get(strength)]
    return {
        "feature": feature,
        "look": look,
        "dash": DASHES[look],
        "key": marker(look, 17, 6),
        "path": _path([(x, _up(share)) for x, share, _ in points]),
        "floor": _path([(x, _up(share)) for x, share in untrained]),
        "markers": " ".join(marker(look, x, _up(share)) for x, share, _ in points),
        "floor_markers": " ".join(marker(look, x, _up(share), SIZE * 0.75) for x, share in untrained),
        "bars": " ".join(f"M{_digits(x)} {_digits(_up(low))}V{_digits(_up(high))}" for x, _, (low, high) in points),
    }


def marker(look: int, x: float, y: float, size: float = SIZE) -> str:
    """A closed path: circle, square, triangle or diamond.

    >>> marker(1, 10, 20)
    'M6.5 16.5h7v7h-7z'
    """
    if look == 0:
        r, d = _digits(size), _digits(2 * size)
        return f"M{_digits(x - size)} {_digits(y)}a{r} {r} 0 1 0 {d} 0a{r} {r} 0 1 0 -{d} 0z"
    if look == 1:
        side = _digits(1.75 * size)
        return f"M{_digits(x - 0.875 * size)} {_digits(y - 0.875 * size)}h{side}v{side}h-{side}z"
    corners = {
        2: [(0, -1.2), (1.15, 0.9), (-1.15, 0.9)],
        3: [(0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)],
    }[look]
    return _path([(x + size * a, y + size * b) for a, b in corners]) + "z"


def bar(standing: Standing) -> dict[str, Any] | None:
    """Where score and interval stand on a line BAR wide."""
    if standing.score is None:
        return None
    low, high = standing.interval or (standing.score, standing.score)
    return {"x": _digits(BAR * standing.score), "low": _digits(BAR * low), "high": _digits(BAR * high)}


def _mean(seeds: dict[int, float]) -> float:
    return sum(seeds.values()) / len(seeds)


def _up(share: float) -> float:
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - share)


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{_digits(x)} {_digits(y)}" for x, y in points) if points else ""


def _digits(value: float) -> str:
    # A tenth of a pixel, without -0 and without zeros that say nothing.
    return f"{round(value, 1) + 0.0:g}"


# ---- the files: the page, and the README's table between its marks ----

PAGE, README = "site/index.html", "README.md"  # beside the folder of entries
BEGIN, END = "<!-- table: begin (bench leaderboard build) -->", "<!-- table: end -->"
HEAD = "| rank | entry | score [95 %] | mean accuracy | seeds | level | labels |"
MARKS = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")  # what Markdown may take for markup


def files(root: Path) -> dict[Path, str]:
    """Each rendered file and what it must hold.

    Arguments:
        root: the folder of entries, which need not be there; README.md lies beside it.

    Raises:
        UserError: no such folder, a README without the marks, a damaged entry, one of an unknown track.
    """
    if not root.parent.is_dir():
        raise UserError(f"{root.parent}: no such folder; run this in the repository, or name the entries with --root")
    submissions = [entries.load(folder) for folder in entries.folders(root)]
    boards = [rank.board(tracks.read(name), submissions) for name in tracks.names()]
    used = {submission.entry.track for submission in submissions}
    boards.sort(key=lambda board: (board.track.name not in used, board.track.name))
    readme = root.parent / README
    return {root.parent / PAGE: render(boards), readme: _readme(readme, table(boards))}


def differing(rendered: dict[Path, str]) -> list[Path]:
    """The files that are not there or hold something else."""
    return [path for path, text in rendered.items() if not path.is_file() or path.read_bytes() != text.encode()]


def build(root: Path) -> list[Path]:
    """Write what has changed; returns those files.

    Raises:
        UserError: as `files`.
    """
    rendered = files(root)
    changed = differing(rendered)
    for path in changed:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(rendered[path].encode())
    return changed


def first_difference(path: Path, rendered: str) -> str:
    """Where a file departs from what it must hold, as a sentence."""
    if not path.is_file():
        return f"{path} is not there"
    present, lines = path.read_bytes().decode(errors="replace").split("\n"), rendered.split("\n")
    pairs = enumerate(zip(present, lines, strict=False), 1)
    line = next((line for line, (before, after) in pairs if before != after), min(len(present), len(lines)) + 1)
    return f"{path} differs from line {line} on"


def table(boards: Sequence[Board]) -> str:
    """The entries as Markdown, a table for each track that has any."""
    parts = []
    for board in boards:
        rows = [_table_row(entry, ranks(entry) or "none", board) for entry in (*board.ranked, *board.undefined)]
        rows += [_table_row(entry, "ceiling", board) for entry in board.ceilings]
        rows += [_table_row(entry, "floor", board) for entry in board.floors]
        if rows:
            heading = f"**{board.track.name}**: {board.track.title}\n"
            parts.append("\n".join([heading, HEAD, "|---" * HEAD.count(" | ") + "|---|", *rows]))
    return "\n\n".join(parts) if parts else "No entry yet."


def _table_row(standing: Standing, shown_rank: str, board: Board) -> str:
    entry = standing.submission.entry
    score = " ".join(filter(None, [number(standing.score), interval(standing)]))
    mark = " ▼" if below(standing, board) else ""
    cells = [
        shown_rank,
        f"[{escape(entry.name)}](entries/{entry.slug}/){mark}",
        score or f"undefined: {escape(standing.reason)}",
        percent(standing.accuracy),
        str(len(standing.seeds)),
        f"V{standing.submission.level}",
        "used" if entry.label_use else "not used",
    ]
    return f"| {' | '.join(cells)} |"


def escape(foreign: str) -> str:
    """Foreign text as Markdown that shows it: nothing in it is markup, a cell's end or a link.

    >>> escape("a|b <b>*")
    'a\\\\|b \\\\<b\\\\>\\\\*'
    """
    return "".join(f"\\{char}" if char in MARKS else char for char in " ".join(foreign.split()))


def _readme(path: Path, rendered: str) -> str:
    if not path.is_file():
        raise UserError(f"{path}: no such file; it holds the table, between the lines {BEGIN} and {END}")
    before = path.read_bytes().decode()
    if before.count(BEGIN) != 1 or before.count(END) != 1 or before.index(BEGIN) > before.index(END):
        raise UserError(f"{path}: the lines {BEGIN} and {END} must stand in it once each, in this order")
    head, rest = before.split(BEGIN)
    return f"{head}{BEGIN}\n\n{rendered}\n\n{END}{rest.split(END)[1]}"
