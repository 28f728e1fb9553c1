"""entry.json is read strictly, its level comes from files beside it."""

import json

import msgspec
import pytest
from small_entries import cells, entry, rerun, write

from generators.dataset import UserError
from suppression_bench.leaderboard import entry as entries
from suppression_bench.leaderboard.entry import Check, Rerun


@pytest.fixture
def folder(tmp_path):
    write(tmp_path, [entry("one", cells({0: 50, 4: 40}, seeds=(1, 0)), name="One")])
    return tmp_path / "entries" / "one"


def test_a_folder_is_read_back_as_it_was_written(folder):
    submission = entries.load(folder)
    assert (submission.slug, submission.entry.name, submission.entry.track, submission.level) == (
        "one",
        "One",
        "quick",
        0,
    )
    expected = sorted(
        cells({0: 50, 4: 40}, seeds=(1, 0)), key=lambda record: (record.spec.dataset.bits, record.spec.seed)
    )
    assert submission.records == expected  # ids, groups and numbers
    assert entries.to_text(submission.entry) == (folder / "entry.json").read_text()
    assert entries.folders(folder.parent) == [folder]


def change(content, path, value):
    *above, last = path.split(".")
    for key in above:
        content = content[int(key) if isinstance(content, list) else key]
    content[last] = value


DEEP = json.loads("[" * 30 + "1" + "]" * 30)


@pytest.mark.parametrize(
    "path, value, words",
    [
        ("extra", 1, "extra"),
        ("label_use", 1, "label_use"),
        ("schema", 1, "schema"),
        ("slug", "two", "folder's name"),
        ("setting.method", {"name": "simclr"}, "setting.method"),
        ("setting.train.batch_size", -1, "batch_size"),
        ("setting.method.options", {"head": DEEP}, "nested"),
        ("setting.method.options", {"a" * 501: 1}, "501 characters"),
        ("setting.varied", {"a\x07": 1}, "'a\\x07'"),
        ("environment.0.device", "x\x1b[2J", "x\\x1b[2J"),
        ("environment.0.threads", -1, "threads"),
        ("code.0.sources", 1, "sources"),
        ("files", {"method.py": "0"}, "files"),
        ("cells.0.seed", -1, "seed"),
        ("cells.0.code", 1, "code or environment"),
        ("cells.0.run.seconds", -5, "seconds"),
        ("cells.0.run.seconds", 10**400, "whole number"),
        ("cells.0.probes.0.n", 101, "add up to n"),
        ("cells.0.probes.0.chance", 0.2, "chance"),
        ("cells.0.probes.0.confusion", [[1.5]], "confusion"),
        ("cells.0.probes.0.splits", ["pretrain"], "splits"),
        ("cells.0.probes.0.absent", [10**400], "whole number"),
    ],
)
def test_an_entry_that_is_not_in_order_is_refused(folder, path, value, words):
    content = json.loads((folder / "entry.json").read_text())
    change(content, path, value)
    (folder / "entry.json").write_text(json.dumps(content))
    with pytest.raises(UserError) as error:
        entries.load(folder)
    assert words in str(error.value)


@pytest.mark.parametrize("text", ["{", '{"schema": 1, "schema": 1}', '{"schema": NaN}', "[" * 10_000, "[]", "\xff"])
def test_what_is_no_strict_json_is_refused(folder, text):
    (folder / "entry.json").write_text(text, encoding="latin-1")
    with pytest.raises(UserError, match=r"entry\.json"):
        entries.read(folder)


def test_the_level_comes_from_findings_on_this_very_content(folder):
    digest = entries.digest(folder)
    path = entries.write_finding(folder, Check(slug="one", entry=digest, level=1))
    assert path == folder.parent.parent / "checks" / "one.json" and entries.load(folder).level == 1
    entries.write_finding(folder, rerun("one", entry=digest))
    assert entries.load(folder).level == 3
    entries.write_finding(folder, rerun("one", entry=digest, sandbox="unsandboxed"))
    assert entries.load(folder).level == 1  # foreign code outside a sandbox raises nothing
    outside = msgspec.to_builtins(rerun("one").cells[0]) | {"inside": False}
    entries.write_finding(folder, rerun("one", entry=digest, cells=[outside]))
    assert entries.load(folder).level == 1
    (folder / "note.txt").write_text("edited")
    assert entries.load(folder).level == 0


@pytest.mark.parametrize("changes", [{"slug": "two"}, {"level": 3}, {"schema": 1}, {"entry": "x"}, {"extra": 1}])
def test_a_damaged_finding_is_named(folder, changes):
    finding = msgspec.to_builtins(Check(slug="one", entry="a" * 64, level=1)) | changes
    path = entries.finding_path(folder, Check)
    path.parent.mkdir()
    path.write_text(json.dumps(finding))
    with pytest.raises(UserError, match=r"checks/one\.json"):
        entries.load(folder)


def test_a_rerun_passes_by_its_cells():
    inside = msgspec.to_builtins(rerun("a").cells[0])
    outside, far = {**inside, "inside": False}, {**inside, "inside": False, "far": True}

    def passed(cells, **changes):
        return rerun("a", cells=cells, allowed=2, **changes).passed

    assert passed([inside] * 28 + [outside] * 2) and not passed([inside] * 27 + [outside] * 3)
    assert not passed([inside] * 29 + [far])  # a gross miss is never excused
    assert not passed([inside], failed=["a cell"]) and not passed([])
    assert isinstance(rerun("a"), Rerun)


def test_a_group_may_not_hide_a_feature():
    """Only bits are grouped, by their names: no file says which features a mean is over."""
    [record] = entry("one", cells({4: 40}, seeds=(0,))).entry.records("bits")
    assert record.data.groups == {"bits": ["bit00", "bit01", "bit02", "bit03"]} and record.group_of("digit") == "digit"
