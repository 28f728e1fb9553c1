"""References of `bench check --tier a`: which rule applies, what fails it, and their file."""

import pytest
from small_cells import make_record, probe_entry

from generators.dataset import UserError
from suppression_bench.regression import exact
from suppression_bench.regression.exact import ExactCell, Reference

HERE, THERE = ("2.10", "Linux", "AVX2", "one"), ("2.11", "Linux", "AVX2", "one")
MORE = {"bits": [[1]]}


def result(off=0, machine=HERE, weights="a" * 64, more=()) -> Reference:
    """A reference in which `off` of 100 test samples stand elsewhere."""
    torch, platform, capability, processor = machine
    return Reference(
        torch=torch,
        platform=platform,
        cpu_capability=capability,
        processor=processor,
        weights=weights,
        matrices={"digit": [[50 - off, off], [0, 50]], **dict(more)},
    )


def cell(*references: Reference, digest="d" * 64) -> exact.Cells:
    made = ExactCell(settings="a" * 64, seed=0, title="cell", digest=digest, references=list(references))
    return exact.by_key([made])


def judged(references, current, again=None) -> tuple[bool, str]:
    [finding] = exact.judge(references, current, again)
    return finding.passed, finding.rule


@pytest.mark.parametrize(
    ("reference", "current", "passed"),
    [
        (result(), result(), True),
        (result(), result(1), False),
        (result(), result(weights="b" * 64), False),
        (result(), result(more=MORE), False),
        (result(more=MORE), result(), False),
    ],
)
def test_on_the_same_machine_every_bit_must_agree(reference, current, passed):
    assert judged(cell(reference), cell(current)) == (passed, "bit-exact")
    assert judged(cell(result(3, THERE), reference), cell(current)) == (passed, "bit-exact")
    assert not exact.needs_repeat(cell(result(3, THERE), reference), cell(current))


@pytest.mark.parametrize(
    ("current", "again", "passed"),
    [
        (result(12), result(12), True),
        (result(20), result(20), False),
        (result(12), result(3), False),  # not repeatable
        (result(), result(weights="b" * 64), False),  # not repeatable
        (result(), None, False),  # never repeated
        (result(more=MORE), result(more=MORE), False),  # other probes
    ],
)
def test_on_another_machine_cells_are_repeated_and_lie_in_a_band(current, again, passed):
    other = cell(result(machine=THERE))
    assert exact.needs_repeat(other, cell(current))
    assert judged(other, cell(current), again and cell(again)) == (passed, "band")


def test_every_part_of_a_machine_counts_and_the_nearest_reference():
    for position in range(4):
        machine = tuple("other" if at == position else part for at, part in enumerate(HERE))
        assert judged(cell(result(machine=machine)), cell(result()), cell(result())) == (True, "band")
    near = cell(result(20, THERE), result(2, ("1", "", "", "")))
    assert judged(near, cell(result()), cell(result())) == (True, "band")
    assert exact.moved(result(), result(5)) == pytest.approx(0.05) and exact.BAND == 0.15
    assert exact.moved_share([[1]], [[1, 0], [0, 0]]) == 1.0


def test_missing_extra_and_other_data_forbid_a_verdict():
    assert exact.judge(cell(result(), digest="e" * 64), cell(result()), None) == []
    assert "other data" in exact.faults_of(cell(result(), digest="e" * 64), cell(result()))[0]
    assert "missing" in exact.faults_of(cell(result()), {})[0] and "extra" in exact.faults_of({}, cell(result()))[0]
    assert exact.faults_of(cell(result()), cell(result())) == []


def test_the_report_counts_and_says_which_rules_applied():
    good, bad = exact.Finding("a", True, "bit-exact", "equal bits"), exact.Finding("b", False, "band", "far off")
    report = exact.render([good, bad], [], "a note")
    assert "1 of 2 cells differ" in report.markdown and "| a | bit-exact |" in report.markdown
    assert exact.RULES["band"] in report.markdown and exact.RULES["bit-exact"] in report.markdown
    assert [line.state for line in report.lines] == ["ok", "failed"] and report.exit_code == 1
    report = exact.render([good], [], "a note")
    assert "all 1 cells agree" in report.summary and "band" not in report.summary and report.exit_code == 0
    report = exact.render([], ["a: missing"], "a note")
    assert "no verdict, 1 faults" in report.markdown and report.exit_code == 2 and report.lines[0].state == "error"
    assert exact.render([], [], "a note").exit_code == 2, "nothing compared is no pass"


# ---- the file ----


def one_cell(tmp_path, torch="2", right=60) -> exact.Cells:
    environment = {"device": "cpu", "torch": torch, "platform": "Linux", "cpu_capability": "AVX2"}
    (tmp_path / "weights").write_bytes(b"w")
    record = make_record([probe_entry(right)], environment=environment)
    return exact.by_key([exact.exact_cell(record, tmp_path / "weights")])


def test_references_come_back_and_those_of_other_machines_stay(tmp_path):
    path = tmp_path / "tiny.json"
    exact.write(one_cell(tmp_path), None, path)
    exact.write(exact.renewed(exact.read(path), one_cell(tmp_path, "3", 61)), None, path)
    exact.write(exact.renewed(exact.read(path), one_cell(tmp_path, "2", 62)), None, path)
    [read] = exact.read(path).values()
    right = {reference.torch: reference.matrices["lbfgs encoder digit"][0][0] for reference in read.references}
    assert right == {"2": 62, "3": 61} and read.title == "simclr bits=0 seed=0" and path.read_text().count("\n") == 3
    [alone] = exact.renewed(cell(result(), digest="e" * 64), cell(result(1, THERE))).values()
    assert [reference.machine for reference in alone.references] == [THERE], "references of other data go"


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ('"torch":"2"', '"torch":"3"', "a machine stands twice"),
        ('"seed":0', '"seed":0.5', "not valid JSON"),
        ('"lbfgs encoder digit":[[', '"lbfgs encoder digit":[[-1],[', "matrices"),
        ('"lbfgs encoder digit":[[', '"lbfgs encoder digit":[[1],[', "no square"),
        ('"references"', '"reference"', "`reference`"),
        ('"weights":"', '"weights":"x', "weights"),
        ('"schema":1', '"schema":2', "schema"),
    ],
)
def test_damaged_references_are_refused(tmp_path, old, new, word):
    path = tmp_path / "tiny.json"
    exact.write(exact.renewed(one_cell(tmp_path), one_cell(tmp_path, "3")), None, path)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(UserError, match=word):
        exact.read(path)


def test_a_cell_that_stands_twice_or_diverged_is_refused(tmp_path):
    [made] = cell(result()).values()
    with pytest.raises(UserError, match="no cell"):
        exact.write({}, None, tmp_path / "tiny.json")
    with pytest.raises(UserError, match="stands twice"):
        exact.write({("a", 0): made, ("b", 0): made}, None, tmp_path / "tiny.json")
    with pytest.raises(UserError, match="diverged"):
        exact.exact_cell(make_record([], status="diverged"), tmp_path / "weights")
