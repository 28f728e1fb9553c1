"""Summary numbers of suppression from records: a row per method and feature, with intervals over seeds."""

import math
from itertools import chain
from textwrap import wrap

import pandas

from suppression_bench.results.curves import Curves, curves, number_of
from suppression_bench.results.frame import BITS
from suppression_bench.results.pivot import BELOW, row_order, strength_order
from suppression_bench.results.tables import as_markdown, require_probe

FEWEST = 3  # initialisations that the protocol asks of a floor


def pivot(frame: pandas.DataFrame) -> list[tuple[str, pandas.DataFrame]]:
    """One table per dataset: rows by method, probe and feature; retention by strength, index, half point and score."""
    groups: dict[tuple, list] = {}
    for (*group, title, _, probe), own in curves(frame).items():
        if own.strengths():
            groups.setdefault(tuple(group), []).append((title, probe, own))
    tables = []
    for (dataset, pictures, variant, name), entries in groups.items():
        strengths = sorted({s for _, _, own in entries for s in own.strengths()}, key=strength_order)
        rows = []
        for title, probe, own in sorted(entries, key=lambda entry: row_order((entry[0], entry[1], ""))):
            for position, feature in enumerate(sorted(own.values, key=lambda f: (f == BITS, f))):
                rows.append(_row(title, probe, feature, own, strengths, with_score=position == 0))
        over = f" over {pictures}" * bool(pictures) + f" ({variant})" * bool(variant)
        tables.append((f"{dataset}{over}: what is kept, by {name}", pandas.DataFrame(rows)))
    return tables


def _row(title, probe, feature, own: Curves, strengths, with_score: bool) -> dict:
    kept = {f"R @{strength}": _kept(own, feature, strength) for strength in strengths}
    counts = [len(seeds) for seeds in own.values[feature].values()]
    index = _shown(own.index(feature), own.index_interval(feature))
    return {
        "method": title, "probe": probe, "feature": feature, "ceiling": own.source(feature), **kept,
        "SI": index, "s50": _half(own, feature),
        "score": _shown(own.score(), own.score_interval()) if with_score else "", "n": _count(counts),
    }  # fmt: skip


def _kept(own: Curves, feature: str, strength) -> str:
    if strength not in own.values[feature]:
        return ""
    text = _shown(own.retention(feature, strength), own.retention_interval(feature, strength))
    return f"{text} {BELOW}" if (feature, strength) in own.below else text


def _shown(value: float | None, interval: tuple | None) -> str:
    if value is None:
        return "undefined"
    return _digits(value) + (f" [{_digits(interval[0])}, {_digits(interval[1])}]" if interval else "")


def _digits(value: float) -> str:
    return f"{round(value, 2) + 0.0:.2f}"  # + 0.0: no -0.00


def _half(own: Curves, feature: str) -> str:
    value, between = own.half(feature), own.half_interval(feature)
    if value is None:
        return "undefined"
    return _place(own, feature, value) + (
        f" [{_place(own, feature, between[0])}, {_place(own, feature, between[1])}]" if between else ""
    )


def _place(own: Curves, feature: str, value: float) -> str:
    places = [s for s in own.strengths() if s in own.values[feature]]
    if math.isinf(value):
        return f"> {places[-1]}"
    # A curve that begins at its first strength may have fallen anywhere before it.
    return f"<= {places[0]}" if value == number_of(places[0]) and own.source(feature) != "own" else f"{value:.1f}"


def _count(counts: list[int]) -> str:
    return str(counts[0]) if len(set(counts)) == 1 else f"{min(counts)}-{max(counts)}"


def render(frame: pandas.DataFrame, probe: str = "all") -> str:
    """The tables as markdown, with what the columns mean.

    Raises:
        UserError: a probe that no cell has.
    """
    if probe != "all":
        require_probe(frame, probe)
        frame = frame[(frame["probe"] == probe) | frame["accuracy"].isna()]
    found = pivot(frame)
    texts = [as_markdown(heading, table) + "\n" for heading, table in found]
    lines = [wrap(note, 130, initial_indent="- ", subsequent_indent="  ") for note in notes(frame)]
    return ("\n".join(texts) + "\n" if texts else NOTHING) + "".join(f"{line}\n" for line in chain(*lines))


def notes(frame: pandas.DataFrame) -> list[str]:
    """What the columns mean, the floors that are missing or thin, and the cells that are not in the numbers."""
    good = any(own.strengths() for own in curves(frame).values())
    return [*(LEGEND if good else []), *_floor_notes(frame), *absent(frame)]


def absent(frame: pandas.DataFrame) -> list[str]:
    """A sentence for every cell that has no numbers: failed, diverged or missing, by name."""
    notes = []
    for row in frame[frame["accuracy"].isna()].itertuples():
        strength = f"{row.strength_name}={row.strength}" if row.strength_name else ""
        name = " ".join(filter(None, [row.method, row.setting or "", strength, f"seed={row.seed}"]))
        notes.append(f"Not in these numbers: {name}, {row.status}.")
    return notes


def _floor_notes(frame: pandas.DataFrame) -> list[str]:
    none, few, marked = set(), set(), False
    for (dataset, pictures, _, name, title, _, probe), own in curves(frame).items():
        for feature, places in own.values.items() if not title.startswith("untrained") else ():
            for strength in (place for place in places if place != 0):
                count = own.floors.get((feature, strength), 0)
                marked |= (feature, strength) in own.below
                where = f"{dataset}{f' over {pictures}' if pictures else ''} {name}={strength} by {probe}"
                if count == 0:
                    none.add(where)
                elif count < FEWEST:
                    few.add(f"{where} (n={count})")
    notes = [f"{BELOW} below untrained: the mean lies below that of the untrained encoders at the same strength."]
    notes = notes if marked else []
    if none:
        notes.append(f"No untrained encoder, so nothing can be marked {BELOW}: {', '.join(sorted(none))}.")
    if few:
        notes.append(f"Fewer than {FEWEST} untrained encoders, so {BELOW} says less: {', '.join(sorted(few))}.")
    return notes


NOTHING = "Nothing to summarise: no cell has numbers at a strength of a competitor above 0.\n"
LEGEND = [
    "R: retention, (accuracy - chance) / (ceiling - chance). The ceiling is 1 for the constant bits; for another feature its "
    "own accuracy without competitor (strength 0), or where no such cell is there, the supervised encoder's at the same "
    "strength.",
    "SI: suppression index, 1 - mean over the strengths above 0 of R cut to [0, 1]. s50: where R first falls to one half. "
    "score: mean over those strengths of the worst feature's R. Only rows with values at the same strengths can be compared.",
    "In brackets: 95 % interval over n seeds, the bootstrap standard error times Student's t (s50: the strengths where the "
    "interval of R holds one half). With n=1 there is none, nor where the strengths do not all have the same seeds.",
    "undefined: no ceiling (a supervised encoder is none for itself, and two that differ are none), or one that clears chance by "
    "less than .05.",
]
