"""`bench check`, tier a: small deterministic cells against references, bit for bit where the machine is the same."""

import hashlib
import platform
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from generators.dataset import UserError
from generators.describe import table
from suppression_bench.cell import SuiteName, settings_key
from suppression_bench.regression.baseline import read_strictly, write_by_line
from suppression_bench.regression.check import Line, Rendered, SuiteCells, fault_list, joined
from suppression_bench.results import weights
from suppression_bench.results.record import Count, Digest, Record, Struct

SCHEMA = 1
LARGEST = 4_000_000  # bytes
# Share of a probe's test samples whose place in the confusion matrix may differ between kinds of machine: twice the most
# that was seen between the instructions that torch can be held to on one processor. Training blows rounding up.
BAND = 0.15
KIND = "of this torch version, platform, instructions and processor"
RULES = {
    "bit-exact": f"bit-exact: there is a reference {KIND}; every bit must agree.",
    "band": f"band: no reference {KIND}; the cells were run twice and must give equal bits, and their confusion matrices "
    f"lie within {100 * BAND:g} % of the nearest reference of another machine.",
}


class Reference(Struct, frozen=True):
    """What one cell gave on one machine.

    torch, platform, cpu_capability (the instructions that torch uses), processor: the machine; the libraries below torch
        choose their kernels by the processor themselves, so equal instructions do not promise equal bits.
    weights: SHA-256 of the encoder's file.
    matrices: "probe layer feature" -> confusion matrix.
    """

    torch: str
    platform: str
    cpu_capability: str
    processor: str
    weights: Digest
    matrices: dict[str, list[list[Count]]]

    def __post_init__(self):
        if not self.matrices:
            raise ValueError("no confusion matrix")
        for name, rows in self.matrices.items():
            if any(len(row) != len(rows) for row in rows) or not sum(map(sum, rows)):
                raise ValueError(f"{name}: the confusion matrix is no square of counts")

    @property
    def machine(self) -> tuple[str, str, str, str]:
        return self.torch, self.platform, self.cpu_capability, self.processor


class ExactCell(Struct, frozen=True):
    """A cell by its settings (`settings_key`) and seed, its title, its data's digest, and a reference per machine."""

    settings: Digest
    seed: Count
    title: str
    digest: Digest
    references: list[Reference]

    def __post_init__(self):
        if not self.references:
            raise ValueError(f"{self.title}: no reference")
        if len({reference.machine for reference in self.references}) < len(self.references):
            raise ValueError(f"{self.title}: a machine stands twice")


class File(Struct, frozen=True):
    """The file of references."""

    schema: Literal[1]
    suite: SuiteName | None
    cells: list[ExactCell]

    def __post_init__(self):
        if not self.cells:
            raise ValueError("it has no cell")
        if len(by_key(self.cells)) < len(self.cells):
            raise ValueError("a cell stands twice")


Cells = dict[tuple[str, int], ExactCell]  # by settings and seed


def by_key(cells: Sequence[ExactCell]) -> Cells:
    """Cells by settings and seed."""
    return {(cell.settings, cell.seed): cell for cell in cells}


def read(path: Path) -> Cells:
    """References, strictly read.

    Raises:
        UserError: no such file, too large, no strict JSON, or anything but the schema.
    """
    remedy = f"make it with `bench check SUITE --tier a --record --out {path}`"
    return by_key(read_strictly(path, File, LARGEST, remedy).cells)


def write(cells: Cells, suite: SuiteName | None, path: Path) -> None:
    """Write references whole or not at all.

    Raises:
        UserError: they break their own schema (a fault of this program).
    """
    head = {"schema": SCHEMA, "suite": msgspec.to_builtins(suite)}
    write_by_line(path, head, msgspec.to_builtins(list(cells.values())), File)


# ---- this machine's cells ----


def run(cells: SuiteCells) -> Cells:
    """What the suite's cells give on this machine, under the suite's own seeds.

    Raises:
        UserError: a cell failed or diverged.
    """
    # A new folder each time: a record that exists would be no run.
    with tempfile.TemporaryDirectory() as folder:
        finished = cells.run(cells.seeds(), Path(folder))
        return by_key([exact_cell(record, cell_folder / weights.NAME) for record, cell_folder in finished])


def exact_cell(record: Record, weights_file: Path) -> ExactCell:
    """A cell with one reference, from its record and its encoder's weights.

    Raises:
        UserError: the cell failed or diverged.
    """
    cell, environment = record.spec, record.environment
    if not record.is_ok:
        raise UserError(f"{cell.label}: {record.run.status} ({record.run.error}); a check needs all its cells")
    reference = Reference(
        torch=environment.torch,
        platform=environment.platform,
        cpu_capability=environment.cpu_capability,
        processor=processor(),
        weights=hashlib.sha256(weights_file.read_bytes()).hexdigest(),
        matrices={f"{probe.probe} {probe.layer} {probe.feature}": probe.confusion for probe in record.probes},
    )
    return ExactCell(
        settings=settings_key(cell, code=False),
        seed=cell.seed,
        title=cell.label,
        digest=record.data.digest,
        references=[reference],
    )


def processor() -> str:
    """The processor's name, as the system says it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:  # not Linux
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def machine_of(cells: Cells) -> str:
    """The machine that ran these cells, as text."""
    return ", ".join(next(iter(cells.values())).references[0].machine)


def record(cells: SuiteCells, path: Path) -> str:
    """Add this machine's references to a file, or renew them; what was done, as text.

    Raises:
        UserError: a damaged file, or two runs on this machine that differ.
    """
    old = read(path) if path.exists() else {}
    first, second = run(cells), run(cells)
    if differing := [cell.title for key, cell in first.items() if cell.references != second[key].references]:
        raise UserError(f"{differing[0]}: two runs on this machine differ in their bits; no reference is written")
    write(renewed(old, first), cells.suite, path)
    return f"written: {path}, {len(first)} cells, a reference of {machine_of(first)}"


def renewed(old: Cells, new: Cells) -> Cells:
    """References of which one machine's are new; those of other machines stay where the cell's data are the same."""
    cells = {}
    for key, cell in new.items():
        machines = {reference.machine for reference in cell.references}
        earlier = old[key].references if key in old and old[key].digest == cell.digest else []
        kept = [reference for reference in earlier if reference.machine not in machines]
        references = sorted(kept + cell.references, key=lambda reference: reference.machine)
        cells[key] = msgspec.structs.replace(cell, references=references)
    return cells


# ---- findings ----


@dataclass(frozen=True)
class Finding:
    """A cell's title, whether it passed, the rule that applied (bit-exact | band), and a sentence."""

    title: str
    passed: bool
    rule: str
    text: str


def check(cells: SuiteCells, path: Path) -> Rendered:
    """Run the suite's cells, twice where this machine has no references, and compare.

    Raises:
        UserError: a damaged file, or a cell that failed or diverged.
    """
    references = read(path)
    current = run(cells)
    faults = faults_of(references, current)
    again = run(cells) if not faults and needs_repeat(references, current) else None
    findings = [] if faults else judge(references, current, again)
    return render(findings, faults, f"Against {path}; this machine: {machine_of(current)}.")


def needs_repeat(references: Cells, current: Cells) -> bool:
    """Whether a cell has no reference of its own machine, so that it must be run a second time."""
    return any(
        _of_same_machine(references[key], cell.references[0]) is None
        for key, cell in current.items()
        if key in references
    )


def faults_of(references: Cells, current: Cells) -> list[str]:
    """What forbids a verdict: missing and extra cells, other data."""
    faults = [
        f"{cell.title}: missing, the references have it" for key, cell in references.items() if key not in current
    ]
    for key, cell in current.items():
        if key not in references:
            faults.append(f"{cell.title}: extra, the references do not have it")
        elif references[key].digest != cell.digest:
            old, new = references[key].digest[:12], cell.digest[:12]
            faults.append(f"{cell.title}: other data, digest {new} where the references have {old}")
    return faults


def judge(references: Cells, current: Cells, repeated: Cells | None) -> list[Finding]:
    """A finding for every cell that has a reference and the same data.

    Arguments:
        references: of the file.
        current: what this machine gave.
        repeated: what it gave the second time, or None where every cell has a reference of this machine.
    """
    return [
        _finding(references[key], cell, repeated[key].references[0] if repeated else None)
        for key, cell in current.items()
        if key in references and references[key].digest == cell.digest
    ]


def _of_same_machine(cell: ExactCell, result: Reference) -> Reference | None:
    return next((reference for reference in cell.references if reference.machine == result.machine), None)


def _finding(expected: ExactCell, current: ExactCell, again: Reference | None) -> Finding:
    result = current.references[0]
    if (reference := _of_same_machine(expected, result)) is not None:
        return _exact_finding(current.title, reference, result)
    if again is None or again.weights != result.weights or again.matrices != result.matrices:
        return Finding(current.title, False, "band", "run twice, it gave other bits the second time")
    nearest = min(moved(reference, result) for reference in expected.references)
    text = f"run twice with equal bits; {100 * nearest:.1f} % of the test samples moved against the nearest reference"
    return Finding(current.title, nearest <= BAND, "band", text + f" (at most {100 * BAND:g} %)")


def _exact_finding(title: str, reference: Reference, result: Reference) -> Finding:
    names = dict.fromkeys([*reference.matrices, *result.matrices])
    differing = [name for name in names if reference.matrices.get(name) != result.matrices.get(name)]
    if differing:
        share = moved(reference, result)
        text = f"other predictions by {', '.join(differing)}; {100 * share:.1f} % of the test samples moved"
        return Finding(title, False, "bit-exact", text)
    if reference.weights != result.weights:
        return Finding(title, False, "bit-exact", "the encoder's weights differ in their bits, the predictions agree")
    return Finding(title, True, "bit-exact", "equal bits")


def moved(reference: Reference, result: Reference) -> float:
    """The largest share, over the probes, of test samples elsewhere in the confusion matrix; 1 where probes differ."""
    if reference.matrices.keys() != result.matrices.keys():
        return 1.0
    return max(moved_share(reference.matrices[name], result.matrices[name]) for name in reference.matrices)


def moved_share(before: list[list[int]], after: list[list[int]]) -> float:
    """Half the sum of absolute differences, over the number of test samples.

    >>> moved_share([[5, 0], [0, 5]], [[4, 1], [0, 5]])
    0.1
    """
    if len(before) != len(after):
        return 1.0
    pairs = zip((count for row in before for count in row), (count for row in after for count in row), strict=True)
    return sum(abs(a - b) for a, b in pairs) / 2 / sum(map(sum, before))


def render(findings: Sequence[Finding], faults: list[str], note: str) -> Rendered:
    """The report: how many cells passed by which rule, and a row for each."""
    failed = sum(not finding.passed for finding in findings)
    if faults or not findings:
        head = f"bench check, tier a: no verdict, {max(len(faults), 1)} faults in the data"
    elif failed:
        head = f"bench check, tier a: {failed} of {len(findings)} cells differ"
    else:
        head = f"bench check, tier a: all {len(findings)} cells agree"
    rows = [[f.title, f.rule, f.text, "ok" if f.passed else "**differs**"] for f in findings]
    shown = [table(["cell", "rule", "found", "verdict"], rows) + "\n"] if rows else []
    applied = [f"- {text}" for rule, text in RULES.items() if any(finding.rule == rule for finding in findings)]
    text = joined([f"### {head}\n", fault_list(faults), *shown, *applied, f"- {note}"])
    lines = [Line(f.title, "ok" if f.passed else "failed", f"{f.rule}: {f.text}") for f in findings]
    lines += [Line("data", "error", fault) for fault in faults]
    return Rendered(text, text, lines, faults, 2 if faults or not findings else 1 if failed else 0)
