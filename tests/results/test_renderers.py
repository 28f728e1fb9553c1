"""The formats of a table: whole, escaped, and the same content in each."""

import csv
import io
from html.parser import HTMLParser

import pytest

from suppression_bench.results.renderers import BELOW, Entry, Row, Table, Tables, csv_of

VOID = {"meta"}
ATTACK = "<script>alert('x')</script>"


class Reader(HTMLParser):
    """Rows of (tag, attributes, text) per cell; complains about tags that do not close."""

    def __init__(self, text: str):
        super().__init__()
        self.open, self.tags, self.rows = [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("th", "td"):
            self.rows[-1].append([tag, dict(attrs), ""])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if {"th", "td"} & set(self.open):
            self.rows[-1][-1][2] += data


def tables_of(*rows: Row, columns=("digit @0", "digit @5"), notes=("Run `bench run` again: 50 %.",)) -> Tables:
    return Tables([Table("data: accuracy", ("method", "probe"), list(columns), list(rows))], list(notes))


@pytest.fixture
def results():
    rows = [
        Row(("byol", "lbfgs"), [Entry(), Entry("70.5 ± 0.7 (n=2)", best=True)]),
        Row(("byol", "published"), [Entry("80.0"), Entry()], "published"),
        Row(("odd_name=a&b", "lbfgs"), [Entry("80.0"), Entry("40.0", BELOW, "(41.0, -1.0)", "failed (seed 2)")]),
        Row(("supervised", "lbfgs"), [Entry("99.0"), Entry("98.0")], "ceiling"),
    ]
    return tables_of(*rows)


LOST = "40.0 ▼ (41.0, -1.0); failed (seed 2)"


def test_markdown(results):
    text = results.markdown()
    assert text.startswith("**data: accuracy**") and f"| {LOST} |" in text and "| **70.5 ± 0.7 (n=2)** " in text
    assert text.endswith("\n- Run `bench run` again: 50 %.\n")


def test_csv(results):
    head, *rows = csv.reader(io.StringIO(results.csv()))
    assert head == ["method", "probe", "digit @0", "digit @5"] and rows[0] == ["byol", "lbfgs", "", "70.5 ± 0.7 (n=2)"]
    assert rows[2][3] == LOST and len(rows) == 4


def test_latex_is_escaped_and_whole(results):
    text = results.latex()
    assert r"\toprule" in text and r"\bottomrule" in text and r"odd\_name=a\&b" in text
    assert (
        r"\textbf{70.5 $\pm$ 0.7 (n=2)}" in text and r"40.0 $\blacktriangledown$ (41.0, -1.0); failed (seed 2)" in text
    )
    assert "±" not in text and BELOW not in text and r"\texttt{bench run} again: 50 \%" in text
    assert text.count("{") == text.count("}") and text.count(r"\begin") == text.count(r"\end")
    wrapped = r"\begin{adjustbox}{max width=\textwidth}"
    assert text.index(wrapped) < text.index(r"\begin{tabular}{llrr}") < text.index(r"\end{adjustbox}")
    assert text.index("bench run") < text.index(r"\end{table}")  # notes float with their table
    assert "adjustbox" in text.splitlines()[0]


def test_html_is_a_semantic_table_with_classes(results):
    page = Reader(results.html())
    names = [tag for tag, _ in page.tags]
    assert names.count("caption") == names.count("thead") == names.count("tbody") == 1
    head, *body = page.rows
    assert all(tag == "th" and attributes == {"scope": "col"} for tag, attributes, _ in head)
    assert all(row[0][:2] == ["th", {"scope": "row"}] and len(row) == 4 for row in body)
    assert [attributes.get("class") for tag, attributes in page.tags if tag == "tr"] == [
        None,
        None,
        "published",
        None,
        "ceiling",
    ]
    assert body[0][3][1] == {"class": "best"} and body[0][2][1:] == [{}, ""] and names.count("b") == 1
    assert body[2][3][1:] == [{"class": "below failed"}, LOST]
    assert '<em class="lost">failed (seed 2)</em>' in results.html() and "<code>bench run</code>" in results.html()


def test_the_page_needs_nothing_else(results):
    page = Reader(results.page().removeprefix("<!doctype html>\n"))
    assert [tag for tag, _ in page.tags][:2] == ["html", "head"]
    attributes = {name for _, names in page.tags for name in names}
    assert not attributes & {"src", "href", "onclick", "style"}
    assert "url(" not in results.page() and "@import" not in results.page()


def test_markup_of_a_record_is_text_in_every_format():
    results = tables_of(Row((ATTACK, "a|b</td>&"), [Entry("<i>1</i>"), Entry(lost='"><b>')]), notes=["<b>why</b>"])
    for text in (results.html(), results.page()):
        page = Reader(text)
        assert not {"script", "img", "i", "b"} & {tag for tag, _ in page.tags}
        assert page.rows[1][0][2] == ATTACK and page.rows[1][1][2] == "a|b</td>&"
    lines = [line for line in results.markdown().splitlines() if line.startswith("|")]
    assert r"\<script>" in lines[2] and r"a\|b\</td>&" in lines[2]
    assert {line.replace(r"\|", "").count("|") for line in lines} == {5}


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_no_csv_cell_starts_a_formula(start):
    frame = (
        tables_of(Row((f"{start}cmd|calc", "lbfgs"), [Entry("-1.0"), Entry(f'{start}HYPERLINK("x")')]))
        .tables[0]
        .frame()
    )
    for line in csv.reader(io.StringIO(csv_of(frame))):
        assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r")) for cell in line), line
