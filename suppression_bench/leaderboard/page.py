"""The leaderboard as one self-contained page: no request, no date, the same bytes for the same entries."""

import base64
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote, urlsplit

import jinja2
import numpy as np
from markupsafe import Markup

from suppression_bench.leaderboard import drawing, levels, provenance
from suppression_bench.leaderboard.entry import PROBE, Entry
from suppression_bench.leaderboard.ranking import Board
from suppression_bench.leaderboard.submission import RECORDS
from suppression_bench.results.frame import BITS

TEMPLATES = Path(__file__).parent / "templates"
SUBMISSIONS = "../submissions"  # seen from leaderboard/site/
PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")  # a file's name that needs no thought in an address
LEVELS = (
    "The files are complete and agree: every strength and seed is there, the counts add up, the settings are the track's. "
    "Nothing was measured again.",
    "The predictions handed in, one for each test sample, were counted against the official labels and give the numbers.",
    "The encoder handed in was run by us: its features and its probes, computed anew, give the numbers.",
    "We trained the method again, on one submitted seed and two seeds drawn after the submission. The results lie inside the "
    "99 % prediction intervals of the submitted ones, but for as few as chance allows.",
)


def render(boards: Sequence[Board]) -> str:
    """The page as text.

    Everything that entries hold is foreign text: the template escapes it, and only https addresses become links.

    Arguments:
        boards: the tracks' rankings, in the order of the page.

    Raises:
        UserError: a damaged finding of the maintainers.
    """
    style, script = (Markup((TEMPLATES / name).read_text(encoding="utf-8")) for name in ("page.css", "page.js"))
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    return environment.get_template("page.html").render(
        style=style, script=script, style_hash=policy_hash(style), script_hash=policy_hash(script),
        tracks=[_track(one) for one in boards], level_names=levels.NAMES,
        levels=list(zip(levels.NAMES, LEVELS, strict=True)),
    )  # fmt: skip


def policy_hash(text: str) -> str:
    """How a content security policy names an inline script or style: by its SHA-256.

    >>> policy_hash("")
    'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='
    """
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def link(url: str) -> str | None:
    """An address that may be a link: plain https with a host and no name or password before it; None for any other.

    >>> link("https://example.org/a"), link("javascript:alert(1)"), link("https://me@example.org")
    ('https://example.org/a', None, None)
    """
    try:
        parts = urlsplit(url)
        good = parts.scheme == "https" and parts.hostname and "@" not in parts.netloc and parts.port in (None, 443)
    except ValueError:
        return None
    return url if good and re.fullmatch(r"[!-~]+", url) and not set(url) & set('\\"<>`{}|^') else None


def _track(board: Board) -> dict:
    track = board.track
    names = {one.submission.slug: one.submission.name for one in board.ranked}
    ranked = [_entry(one, board, place, names) for place, one in enumerate((*board.ranked, *board.undefined), 1)]
    beside = [
        _entry(one, board, place, names, kind)
        for kind, found in (("ceiling", board.ceilings), ("floor", board.floors))
        for place, one in enumerate(found, 1 + len(board.ceilings) * (kind == "floor"))
    ]
    return {
        "name": track.name, "title": track.title, "strength": track.strength, "probe": PROBE, "grid": board.grid,
        "least": track.least, "suite": f"{track.suite} --tier {track.tier}" if track.tier else track.suite,
        "digests": sorted(track.digests.items()), "locked": [(key, plain(value)) for key, value in sorted(track.locked.items())],
        "ranked": ranked, "beside": beside,
        "superseded": [{"slug": slug, "by": by, "href": _folder(slug)} for slug, by in board.superseded],
    }  # fmt: skip


def _entry(entry: Entry, board: Board, place: int, names: dict, kind: str = "") -> dict:
    own = entry.submission
    finding, refuted = _findings(entry)
    files = [("method file", own.method_file), ("loss file", own.loss_file)]
    return {
        "slug": own.slug, "name": own.name, "kind": kind, "link": link(own.url), "url": own.url, "contact": own.contact,
        "place": place if entry.ranks or kind else "", "rank": ranks(entry), "reason": entry.reason,
        "below": below(entry, board),
        "score": number(entry.score), "score_value": _exact(entry.score), "interval": interval(entry),
        "bar": drawing.score(entry) if entry.score is not None else None,
        "accuracy": percent(entry.accuracy), "accuracy_value": _exact(entry.accuracy),
        "seeds": len(entry.seeds), "level": own.level, "level_name": levels.NAMES[own.level],
        "labels": "yes" if own.label_use else "no", "finding": finding, "refuted": refuted,
        "alike": [names[slug] for slug in entry.alike] if entry.ranks and len(names) > 1 else None,
        "scores": [(seed, f"{score:.3f}") for seed, score in zip(entry.seeds, entry.scores, strict=False)],
        "curve": drawing.curve(entry, board.grid, board.floor), "numbers": _numbers(entry, board),
        "folder": _folder(own.slug) + RECORDS + "/",
        "files": [(title, name, _folder(own.slug) + name if PLAIN.fullmatch(name) else None) for title, name in files if name],
        "replaces": [{"slug": old, "href": _folder(old)} for old, new in board.superseded if new == own.slug],
        "facts": provenance.facts(own), "settings": provenance.settings(own),
    }  # fmt: skip


def plain(value) -> str:
    """A setting in words.

    >>> plain(None), plain(True), plain([0.5, 1.0]), plain("fp32")
    ('none', 'yes', '0.5, 1.0', 'fp32')
    """
    if isinstance(value, list):
        return ", ".join(map(plain, value))
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    return str(value)


def ranks(entry: Entry) -> str:
    """The ranks that the seeds leave open: "2" or "1–3", "" outside the ranking."""
    if not entry.ranks:
        return ""
    best, worst = entry.ranks
    return str(best) if best == worst else f"{best}–{worst}"


def number(value: float | None) -> str:
    """Two digits, "" for None; + 0.0: no -0.00."""
    return "" if value is None else f"{round(value, 2) + 0.0:.2f}"


def percent(share: float | None) -> str:
    """A share as a table has it: "81.3 %", "undefined" for None."""
    return "undefined" if share is None else f"{100 * share:.1f} %"


def interval(entry: Entry) -> str:
    """Of the score, "" with one seed."""
    return f"[{', '.join(map(number, entry.interval))}]" if entry.interval else ""


def _exact(value: float | None) -> str:
    return "" if value is None else f"{value:.9f}"


def _folder(slug: str) -> str:
    return f"{SUBMISSIONS}/{quote(slug, safe='')}/"


def below(entry: Entry, board: Board) -> list[str]:
    """Where an entry lies below the untrained encoder, in words; a method that is worse than none should be seen."""
    found: dict[str, list[str]] = {}
    for feature, strength in entry.below:
        found.setdefault(feature, []).append(str(strength))
    places = "; ".join(f"{feature} at {', '.join(strengths)}" for feature, strengths in found.items())
    texts = [f"below the untrained encoder: {places}"] if places else []
    if entry.ranks and board.floor_score is not None and entry.score <= board.floor_score:
        texts.insert(0, f"score not above the untrained encoder's, {number(board.floor_score)}")
    return texts


def _findings(entry: Entry) -> tuple[str, str]:
    """What a repetition by the maintainers found of this very content, and a sentence for the row where it failed."""
    own = entry.submission
    rerun = levels.read_rerun(own.folder.parent, own.slug)
    if not rerun or rerun["submission"] != own.digest:
        return "", ""
    inside = sum(cell["inside"] for cell in rerun["cells"])
    seeds = f"seeds {', '.join(map(str, (*rerun['submitted_seeds'], *rerun['fresh_seeds'])))}"
    text = f"retrained on {seeds}: {inside} of {len(rerun['cells'])} numbers inside the prediction interval"
    if rerun["failed"]:
        text += f", {len(rerun['failed'])} cells without a number"
    return text, "" if rerun["passed"] else f"not confirmed: {text}"


def _numbers(entry: Entry, board: Board) -> dict:
    rows = []
    for feature in sorted(set(entry.curves.values) | set(board.floor), key=lambda name: (name == BITS, name)):
        chance = entry.curves.chance.get(feature)
        title = feature + (f" (chance {100 * chance:.3g})" if chance is not None else "")
        rows.append(_row(title, entry.curves.values.get(feature, {}), board.grid))
        if feature in board.floor:
            rows.append(_row(f"{feature}, untrained", board.floor[feature], board.grid))
    return {"name": board.track.strength, "grid": board.grid, "rows": rows}


def _row(title: str, own: dict, grid: Sequence) -> dict:
    counts = sorted({len(seeds) for seeds in own.values()})
    n = f", n={'-'.join(map(str, {counts[0]: 0, counts[-1]: 0}))}" if counts else ""
    return {"title": title + n, "cells": [_cell(own.get(strength, {})) for strength in grid]}


def _cell(seeds: dict[int, float]) -> str:
    values = 100 * np.array(list(seeds.values()))
    spread = f" ± {values.std(ddof=1):.1f}" if len(values) > 1 else ""
    return f"{values.mean():.1f}{spread}" if len(values) else ""
