"""What `bench check` prints: markdown, a short summary for a pull request, and JUnit's XML for a CI system."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from xml.etree import ElementTree

from generators.card import table
from suppression_bench.evaluation.comparison import CONFIRM, POWER, smallest_change
from suppression_bench.regression import HIGHER, LOWER, OK, UNDECIDED, Report, Verdict
from suppression_bench.repeatability import BAND, Finding
from suppression_bench.results import observed as places

HEAD = ["cell", "feature", "probe", "seeds", "baseline", "now", "difference", "95 %", "p", "smallest change", "verdict"]
WORDS = {OK: "ok", LOWER: "**lower**", HIGHER: "**higher: baseline outdated**", UNDECIDED: "undecided"}
STATES = {OK: "ok", LOWER: "failed", HIGHER: "failed", UNDECIDED: "undecided"}
LEGEND = f"""\
- Percent; mean ± SD over seeds (ddof 1). seeds: of the baseline + fresh ones of the last stage that was run.
- Stage 1, three fresh seeds: pooled two-sided t-test (Fisher's test on the share of suppressed seeds where the baseline's form
  two groups, marked F), p < .05 makes a suspect. Stage 2, seven more for suspects: Holm at .01. Fails: both stages the same way,
  and a difference of at least 2 points and half an SD.
- smallest change: what both stages would have caught with power {POWER:g}; `none`: no change, this number is not guarded.
"""
ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd]")  # in XML


@dataclass(frozen=True)
class Line:
    """One checked thing for any report: its name, ok | failed | undecided | error, and a sentence."""

    name: str
    state: str
    text: str


def markdown(report: Report, note: str) -> str:
    """The whole verdict: a heading, faults, a row for every number, what the columns mean.

    Arguments:
        report: of `regression.judge`.
        note: where the numbers come from.
    """
    parts = [f"**{headline(report)}**\n", _fault_list(report.faults)]
    if report.verdicts:
        parts += [table(HEAD, [_row(verdict, report) for verdict in report.verdicts]) + "\n", LEGEND]
    return "\n".join(filter(None, [*parts, _wanted(report), f"- {note}"])) + "\n"


def summary(report: Report, note: str) -> str:
    """The verdict in short: only what is not in order has a row."""
    rows = [_row(verdict, report) for verdict in report.verdicts if verdict.verdict != OK]
    shown = table(HEAD, rows) + "\n" if rows else ""
    return (
        "\n".join(
            filter(None, [f"### {headline(report)}\n", _fault_list(report.faults), shown, _wanted(report), f"- {note}"])
        )
        + "\n"
    )


def headline(report: Report) -> str:
    """The verdict in one sentence."""
    count = {kind: sum(v.verdict == kind for v in report.verdicts) for kind in WORDS}
    total = len(report.verdicts)
    if report.exit_code == 2:
        return f"bench check: no verdict, {max(len(report.faults), 1)} faults in the data"
    if report.exit_code == 1:
        return f"bench check: {count[LOWER]} of {total} numbers are lower, {count[HIGHER]} higher than the baseline"
    if report.exit_code == 3:
        return f"bench check: inconclusive, {count[UNDECIDED]} of {total} numbers need more seeds"
    return f"bench check: none of {total} numbers has moved"


def lines(report: Report) -> list[Line]:
    """A line for every number and every fault."""
    found = [Line(name_of(v), STATES[v.verdict], _sentence(v)) for v in report.verdicts]
    return found + [Line("data", "error", fault) for fault in report.faults]


def junit(found: Sequence[Line], name: str = "bench check") -> str:
    """JUnit's XML: a test case for every line; undecided ones are skipped, errors are errors.

    >>> print(junit([Line("simclr, digit", "ok", "as before")]).splitlines()[1])
    <testsuite name="bench check" tests="1" failures="0" errors="0" skipped="0">
    """
    states = [line.state for line in found]
    counts = {"failures": "failed", "errors": "error", "skipped": "undecided"}
    suite = ElementTree.Element("testsuite", name=name, tests=str(len(found)))
    for key, state in counts.items():
        suite.set(key, str(states.count(state)))
    tags = {"failed": "failure", "error": "error", "undecided": "skipped"}
    for line in found:
        case = ElementTree.SubElement(suite, "testcase", classname=name, name=_clean(line.name))
        if line.state in tags:
            ElementTree.SubElement(case, tags[line.state], message=_clean(line.text))
        else:
            ElementTree.SubElement(case, "system-out").text = _clean(line.text)
    ElementTree.indent(suite)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(suite, encoding="unicode") + "\n"


def name_of(verdict: Verdict) -> str:
    """The number's name, the same in every report."""
    return f"{verdict.baseline.names['dataset']}: {places.describe(verdict.place, verdict.baseline.names)}"


def _row(verdict: Verdict, report: Report) -> list[str]:
    place, names = verdict.place, verdict.baseline.names
    alike = [
        other.place
        for other in report.verdicts
        if (other.baseline.names, *_after(other.place)) == (names, *_after(place)) and other.place != place
    ]
    title = places.cell_title(names) + (f" #{place.settings[:6]}" if alike else "")
    if len({other.baseline.names["dataset"] for other in report.verdicts}) > 1:
        title = f"{names['dataset']}: {title}"
    probe = place.probe if place.layer == "encoder" else f"{place.probe} {place.layer}"
    values = verdict.baseline.shares(sorted(verdict.baseline.correct))
    cells = [title, place.feature, probe, f"{len(values)} + {len(verdict.used)}", _spread(fmean(values), stdev(values))]
    found = verdict.deciding
    if found is None:
        cells += [""] * 4
    else:
        cells[3] = f"{len(values)} + {found.count}"
        p = ("<.0001" if found.p < 1e-4 else f"{found.p:.4f}".lstrip("0")) + (" F" if found.test == "fisher" else "")
        cells += [
            _spread(found.mean, found.deviation), f"{100 * found.difference:+.1f}",
            f"{100 * found.low:+.1f} to {100 * found.high:+.1f}", p,
        ]  # fmt: skip
    seen = smallest_change(values, verdict.baseline.n, CONFIRM / max(report.suspects, 1))
    cells += ["none" if seen is None else f"{100 * seen:.1f}", WORDS[verdict.verdict]]
    return [cell.replace("|", r"\|") for cell in cells]


def _after(place: places.Place) -> tuple[str, str, str]:
    return place.probe, place.layer, place.feature


def _spread(mean: float, deviation: float) -> str:
    return f"{100 * mean:.1f} ± {100 * deviation:.1f}"


def _sentence(verdict: Verdict) -> str:
    found = verdict.deciding
    if found is None:
        return f"needs {verdict.wanted} more seeds: {places.seeds_text(verdict.seeds_wanted)}"
    text = (
        f"{100 * found.mean:.1f} % over {found.count} fresh seeds, {100 * found.difference:+.1f} points against the baseline "
        f"(95 % {100 * found.low:+.1f} to {100 * found.high:+.1f}, p = {found.p:.2g})"
    )
    if verdict.verdict == UNDECIDED:
        return f"{text}; a suspect, needs {verdict.wanted} more seeds: {places.seeds_text(verdict.seeds_wanted)}"
    return text + ("; beyond the tolerance, the baseline is outdated" if verdict.verdict == HIGHER else "")


def _fault_list(faults: Sequence[str]) -> str:
    return "".join(f"- error: {fault}\n" for fault in faults)


def _wanted(report: Report) -> str:
    wanted: dict[tuple, list[str]] = {}
    for verdict in report.verdicts:
        if verdict.wanted:
            names = wanted.setdefault(tuple(verdict.seeds_wanted), [])
            names.append(places.cell_title(verdict.baseline.names))
    return "\n".join(
        f"- Still to run, {places.seeds_text(seeds)}: {'; '.join(dict.fromkeys(names))}. "
        "`bench check SUITE --baseline FILE` runs what it needs by itself."
        for seeds, names in wanted.items()
    )


def _clean(text: str) -> str:
    return ILLEGAL.sub("?", text)


def exact_markdown(findings: Sequence[Finding], faults: Sequence[str], note: str) -> str:
    """The findings of tier A: how many cells passed by which rule, and a row for each."""
    failed = sum(not finding.passed for finding in findings)
    if faults or not findings:
        head = f"bench check, tier a: no verdict, {max(len(faults), 1)} faults in the data"
    elif failed:
        head = f"bench check, tier a: {failed} of {len(findings)} cells differ"
    else:
        head = f"bench check, tier a: all {len(findings)} cells agree"
    rules = {finding.rule for finding in findings}
    applied = [f"- {RULES[rule]}" for rule in RULES if rule in rules]
    rows = [[f.title, f.rule, f.text, "ok" if f.passed else "**differs**"] for f in findings]
    shown = [table(["cell", "rule", "found", "verdict"], rows) + "\n"] if rows else []
    return "\n".join(filter(None, [f"### {head}\n", _fault_list(faults), *shown, *applied, f"- {note}"])) + "\n"


def exact_lines(findings: Sequence[Finding], faults: Sequence[str]) -> list[Line]:
    """A line for every cell of tier A and every fault."""
    found = [Line(f.title, "ok" if f.passed else "failed", f"{f.rule}: {f.text}") for f in findings]
    return found + [Line("data", "error", fault) for fault in faults]


KIND = "of this torch version, platform, instructions and processor"
RULES = {
    "bit-exact": f"bit-exact: there is a reference {KIND}; every bit must agree.",
    "band": f"band: no reference {KIND}; the cells were run twice and must give equal bits, and their confusion matrices lie "
    f"within {100 * BAND:g} % of the nearest reference of another machine.",
}
