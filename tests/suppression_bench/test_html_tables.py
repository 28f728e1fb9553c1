"""HTML tables: whole, escaped, semantic, self-contained."""

from html.parser import HTMLParser

import pytest
from small_cells import make_record, probe_entry, write_records

from generators.dataset import UserError
from suppression_bench.cli import main
from suppression_bench.results import html_tables
from suppression_bench.results.frame import long_table

VOID = {"meta"}


class Reader(HTMLParser):
    """Rows of (tag, attributes, text) per cell; complains about tags that do not close."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.rows = [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("th", "td"):
            self.rows[-1].append([tag, dict(attributes), ""])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if {"th", "td"} & set(self.open):
            self.rows[-1][-1][2] += data


@pytest.fixture
def frame(tmp_path):
    made = [make_record([probe_entry(r)], bits=b, seed=s) for b, r in ((0, 80), (5, 40)) for s in (0, 1)]
    made += [make_record([probe_entry(r + s)], method="byol", bits=5, seed=s) for r in (70,) for s in (0, 1)]
    made += [make_record([probe_entry(50)], method="untrained", bits=5, seed=s) for s in range(3)]
    made += [make_record([probe_entry(99)], method="supervised", bits=5)]
    made += [make_record([], bits=5, seed=2, status="failed", error="<b>why</b>")]
    return long_table([write_records(tmp_path, made)])


def test_a_semantic_table_with_classes(frame):
    found = Reader(html_tables.fragment(frame))
    names = [tag for tag, _ in found.tags]
    assert names.count("caption") == names.count("thead") == names.count("tbody") == 1
    head, *body = found.rows
    assert all(tag == "th" and given == {"scope": "col"} for tag, given, _ in head)
    assert [text for *_, text in head] == ["method", "probe", "layer", "digit @0", "digit @5"]
    assert all(row[0][0] == "th" and row[0][1] == {"scope": "row"} and len(row) == 5 for row in body)
    assert [row[0][2] for row in body] == ["byol", "simclr", "supervised", "untrained"]
    rows = [given.get("class") for tag, given in found.tags if tag == "tr"]
    assert rows == [None, None, None, "ceiling", "floor"]
    byol, simclr = body[0], body[1]
    assert byol[4][2] == "70.5 ± 0.7 (n=2)" and "class" not in byol[4][1]
    assert simclr[4][2] == "40.0 ± 0.0 (n=2) ▼; failed (seed 2)" and simclr[4][1]["class"] == "below failed"
    assert byol[3][2] == ""


def test_the_best_is_bold(tmp_path):
    made = [make_record([probe_entry(r)], method=m, seed=s) for m, b in (("byol", 40), ("vae", 80))
            for s, r in enumerate((b, b + 1, b + 2))]  # fmt: skip
    text = html_tables.fragment(long_table([write_records(tmp_path, made)]))
    assert text.count("<b>") == 1 and '<td class="best"><b>81.0 ± 1.0 (n=3)</b></td>' in text


def test_everything_is_escaped(tmp_path):
    attack = "<script>alert('x')</script>"
    data = {"dataset": attack, "version": 1, "options": {"note": "<img src=x>"}, "seed": 0, "digest": "<i>", "bits": 0}
    made = make_record([probe_entry(70, feature='"><b>')], method=attack, data=data, varied={"method.a": "</td>&"})
    for text in (html_tables.fragment(long_table([write_records(tmp_path, [made])])),
                 html_tables.page(long_table([tmp_path]), paper=True)):  # fmt: skip
        found = Reader(text)
        assert not {"script", "img", "i", "b"} & {tag for tag, _ in found.tags}
        assert found.rows[1][0][2] == f"{attack} a=</td>&"
        assert "&lt;script&gt;alert(&#39;x&#39;)" in text


def test_published_rows_and_values(tmp_path):
    data = {
        "dataset": "randbit",
        "version": 1,
        "options": {"digit_source": "mnist"},
        "seed": 0,
        "digest": "e" * 64,
        "bits": 5,
    }
    made = make_record([probe_entry(70, probe="online")], bits=5, data=data, varied={"loss.temperature": 0.05})
    frame = long_table([write_records(tmp_path, [made])])
    _, ours, theirs = Reader(html_tables.fragment(frame)).rows
    assert ours[3][2] == "70.0" and theirs[3][2] == "70.6" and theirs[1][2] == "online, published"
    assert 'class="published"' in html_tables.fragment(frame)
    _, ours = Reader(html_tables.fragment(frame, paper=True)).rows
    assert ours[3][2] == "70.0 (70.6, -0.6)"


def test_the_page_is_whole_and_needs_nothing_else(frame, tmp_path, capsys):
    folder = write_records(tmp_path / "one", [make_record([probe_entry(70)])])
    assert main(["table", str(folder), "--format", "html"]) == 0
    text = capsys.readouterr().out
    found = Reader(text.removeprefix("<!doctype html>\n"))
    assert [tag for tag, _ in found.tags][:2] == ["html", "head"] and "<code>bench run --data DIR" in text
    given = {name for _, attributes in found.tags for name in attributes}
    assert not given & {"src", "href", "onclick", "style"} and "url(" not in text and "@import" not in text
    assert main(["table", str(folder), "--format", "html", "--long"]) == 2
    assert main(["table", str(folder), "--format", "html", "--metrics"]) == 2
    assert main(["table", str(folder), "--summary", "--paper"]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_a_probe_that_no_cell_has(frame):
    with pytest.raises(UserError, match="there are: lbfgs"):
        html_tables.fragment(frame, probe="sgd")
    assert "80.0" in html_tables.fragment(frame, probe="lbfgs")
