"""`bench check`, tier A: small deterministic cells against references, bit for bit where the machine is the same."""

from dataclasses import dataclass

from suppression_bench.results.exact import Exact, Result

# Share of a probe's test samples whose place in the confusion matrix may differ between kinds of machine: twice the most that
# was seen between the instructions that torch can be held to on one processor. Training blows rounding up.
BAND = 0.15


@dataclass(frozen=True)
class Finding:
    """A cell's name, whether it passed, the rule that applied (bit-exact | band), and what was found."""

    title: str
    passed: bool
    rule: str
    text: str


def needs_repeat(references: dict, cells: dict) -> bool:
    """Whether a cell has no reference of its own machine, so that it must be run a second time."""
    return any(
        _same_machine(references[key], cell.results[0]) is None for key, cell in cells.items() if key in references
    )


def faults(references: dict, cells: dict) -> list[str]:
    """What forbids a verdict: missing and extra cells, other data."""
    found = [f"{cell.title}: missing, the references have it" for key, cell in references.items() if key not in cells]
    for key, cell in cells.items():
        if key not in references:
            found.append(f"{cell.title}: extra, the references do not have it")
        elif references[key].digest != cell.digest:
            old, new = references[key].digest[:12], cell.digest[:12]
            found.append(f"{cell.title}: other data, digest {new} where the references have {old}")
    return found


def judge(references: dict, cells: dict, repeated: dict | None) -> list[Finding]:
    """A finding for every cell that has a reference and the same data.

    Arguments:
        references: of `exact.read`.
        cells: what this machine gave.
        repeated: what it gave the second time, or None where every cell has a reference of this machine.
    """
    return [
        _finding(references[key], cell, repeated[key].results[0] if repeated else None)
        for key, cell in cells.items()
        if key in references and references[key].digest == cell.digest
    ]


def _same_machine(reference: Exact, result: Result) -> Result | None:
    return next((other for other in reference.results if other.machine == result.machine), None)


def _finding(reference: Exact, cell: Exact, again: Result | None) -> Finding:
    result = cell.results[0]
    exact = _same_machine(reference, result)
    if exact is not None:
        return _exactly(cell.title, exact, result)
    if again is None or again.weights != result.weights or again.matrices != result.matrices:
        return Finding(cell.title, False, "band", "run twice, it gave other bits the second time")
    nearest = min(moved(other, result) for other in reference.results)
    text = f"run twice with equal bits; {100 * nearest:.1f} % of the test samples moved against the nearest reference"
    return Finding(cell.title, nearest <= BAND, "band", text + f" (at most {100 * BAND:g} %)")


def _exactly(title: str, reference: Result, result: Result) -> Finding:
    other = [name for name in reference.matrices if reference.matrices[name] != result.matrices.get(name)]
    other += [name for name in result.matrices if name not in reference.matrices]
    if other:
        share = moved(reference, result)
        text = f"other predictions by {', '.join(other)}; {100 * share:.1f} % of the test samples moved"
        return Finding(title, False, "bit-exact", text)
    if reference.weights != result.weights:
        return Finding(title, False, "bit-exact", "the encoder's weights differ in their bits, the predictions agree")
    return Finding(title, True, "bit-exact", "equal bits")


def moved(reference: Result, result: Result) -> float:
    """The largest share, over the probes, of test samples that stand elsewhere in the confusion matrix; 1 where probes differ.

    >>> one, two = (Result(("",) * 4, "", {"p": rows}) for rows in ([[5, 0], [0, 5]], [[4, 1], [0, 5]]))
    >>> moved(one, two)
    0.1
    """
    if reference.matrices.keys() != result.matrices.keys():
        return 1.0
    return max(_moved(reference.matrices[name], result.matrices[name]) for name in reference.matrices)


def _moved(old: list[list[int]], new: list[list[int]]) -> float:
    if len(old) != len(new):
        return 1.0
    differing = sum(abs(a - b) for one, two in zip(old, new, strict=True) for a, b in zip(one, two, strict=True))
    return differing / 2 / max(sum(map(sum, old)), 1)
