"""The page about a study: complete, escaped, the same every time, quiet in a browser, and its commands are right."""

import re
import shlex
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from small_cells import make_record, make_spec, probe_entry
from small_studies import study_of

from generators import manifest
from suppression_bench.cell import DatasetSetting
from suppression_bench.config import cells_of_folder
from suppression_bench.results import record as records
from suppression_bench.results import report, reproduce

RESULTS = Path(__file__).parents[2] / "docs" / "results"
MARKUP = "<img src=x onerror=alert(1)>"
CHROMIUM = shutil.which("chromium")


class Page(HTMLParser):
    """The tags of a page, the attributes by which a browser would fetch something, and the text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.fetched, self.handlers, self.text = [], [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.fetched += [value for name, value in attributes if name in ("src", "href", "srcset", "data", "action")]
        self.handlers += [name for name, _ in attributes if name.startswith("on")]

    def handle_data(self, data):
        self.text += data


def study():
    """Three seeds of a method with markup in its name, a failed and a diverged cell, and one that is missing."""
    cells = [
        make_record([probe_entry(90 - 4 * bits + seed), probe_entry(95, feature="bit0")], MARKUP, seed, bits)
        for bits in (0, 5, 10)
        for seed in (0, 1, 2)
    ]
    why = "<script>alert(2)</script> & the encoder's file is gone"
    cells.append(make_record([], bits=5, status="failed", error=why))
    cells.append(make_record([], "byol", bits=5, status="diverged", error="the loss is not finite at step 17"))
    return study_of(cells, [make_record([], "vae", bits=5)])


@pytest.fixture(scope="module")
def text():
    return report.render(study())


def test_a_page_holds_what_a_reader_needs(text):
    page = Page(text)
    shown = " ".join(page.text.split())
    for part in (
        "12 cells: 9 ok, 1 diverged, 1 failed, 1 missing",
        "randbit over optdigits",
        "d" * 64,
        "the suite test",
        "the loss is not finite at step 17",
        "planned, and no record is there",
        "bench run ./test.yaml --out runs/test",
        "bench generate randbit --digit-source optdigits",
        "Intriguing Properties of Contrastive Losses",
        "@software{suppression_bench",
        "linear-probe top-1 %",
        "what is kept, by bits",
        "torch",
        "recipe: randbit",
    ):
        assert part in shown, part
    assert page.tags.count("figure") == 1 and page.tags.count("details") == 5


def test_markup_in_a_record_is_text(text):
    page = Page(text)
    assert MARKUP in page.text and "<script>alert(2)</script> & the encoder's file is gone" in page.text
    assert "script" not in page.tags and page.tags.count("img") == 1 and not page.handlers


def test_nothing_is_fetched(text):
    assert all(link.startswith(("#", "data:image/svg+xml;base64,")) for link in Page(text).fetched)
    assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:" in text
    assert "@import" not in text and "url(" not in text and "<script" not in text


def test_a_figure_of_one_panel_fits_a_phone_and_a_wider_one_is_scrolled():
    cells = [
        make_record(
            [probe_entry(40 + size), probe_entry(60 - size, feature="second")],
            seed=seed,
            strength={"key": "size", "value": size},
        )
        for size in (1, 9)
        for seed in (0, 1)
    ]
    images = re.findall(r'<img( class="narrow")? src="[^"]*" alt="([^;]*);', report.render(study_of(cells)))
    assert {title.split()[0]: bool(narrow) for narrow, title in images} == {"Suppression": False, "Trade-off": True}


def test_the_same_records_in_any_order_are_the_same_page(text, monkeypatch):
    assert report.render(study()) == text
    monkeypatch.setattr(report, "_figures", lambda study: [])
    cells = [*study().records.values(), *(make_record([probe_entry(40)], "moco", bits=bits) for bits in (0, 5))]
    assert report.render(study_of(cells)) == report.render(study_of(cells[::-1]))


def test_a_study_without_strengths_or_numbers_has_a_page_too():
    page = Page(report.render(study_of([make_record([], strength=None, status="failed", error="no memory")])))
    assert "no memory" in page.text and "figure" not in page.tags and "What is kept" not in page.text


@pytest.mark.parametrize("name", ["quick", "multidigits-untrained", "precision"])
def test_a_methods_command_gives_the_cells_of_the_records(name, monkeypatch):
    # The command's settings make the record's cell; where the data are, and what they hold, is the record's own.
    for record in list(records.read_study(RESULTS / f"{name}.jsonl"))[::9]:
        cell = record.spec
        words = shlex.split(reproduce.run([cell], record.data.digest, cell.seed + 1))
        method, recipe = (words[words.index(flag) + 1] for flag in ("--method", "--recipe"))
        assert words[words.index("--data") + 1] == reproduce.folder(cell.dataset, record.data.digest)
        pairs = [word.partition("=") for word in words[words.index("--set") + 1 : words.index("--out")]]
        facts = SimpleNamespace(
            dataset=cell.dataset.name,
            version=cell.dataset.version,
            options=cell.dataset.options,
            seed=cell.dataset.seed,
            recipe=recipe,
            strength=cell.strength and cell.strength.key,
            constant_channels=SimpleNamespace(max=32),
        )
        monkeypatch.setattr(manifest, "read", lambda folder, facts=facts: facts)
        settings = {key: yaml.safe_load(value) for key, _, value in pairs}
        again = cells_of_folder(Path("data"), method, recipe, settings, cell.seed + 1)[-1].cell
        for part in ("method", "loss", "encoder", "augmentation", "train", "probe", "recipe", "strength", "seed"):
            assert getattr(again, part) == getattr(cell, part), part
        assert again.dataset == cell.dataset


def test_cells_that_differ_in_their_bits_share_a_command():
    command = reproduce.run([make_spec(bits=bits) for bits in (5, 0)], "ab", 3)
    assert command.startswith("for bits in 0 5; do bench run --data data/randbit-ab --method simclr")
    assert "--seeds 3" in command and command.endswith("done")


def test_the_data_commands_name_what_the_user_has_to_give():
    options = {"digit_source": "mnist", "sizes": [20, 80], "train": None}
    assert reproduce.generate(DatasetSetting(name="multidigits", version=1, options=options), "abcdef0123") == (
        "bench generate multidigits --digit-source mnist:DIR --sizes 20 80 --out data/multidigits-abcdef01"
    )
    stripes = DatasetSetting(name="square-and-stripe", version=1, options={"image_source": "folder"})
    assert reproduce.generate(stripes, "") == (
        "bench generate ./square_and_stripe.py --image-source folder:DIR --out data/square-and-stripe"
    )


def test_the_suites_command():
    data = {"name": "multidigits", "version": 1, "options": {"digit_source": "mnist"}}
    command = "bench run './a suite.yaml' --digit-source mnist:DIR --out 'runs/a suite'"
    assert reproduce.suite(make_spec(suite={"name": "a suite", "version": 1}, dataset=data)) == command
    assert reproduce.suite(make_spec(suite=None)) is None
    quick = "bench run quick --out runs/quick"
    assert reproduce.suite(make_spec(suite={"name": "quick", "version": 1})) == quick


@pytest.mark.skipif(CHROMIUM is None, reason="needs Debian's chromium")
@pytest.mark.slow
def test_a_browser_shows_it_on_a_phone_without_a_word(text, tmp_path):
    """A frame of 390 pixels, as browsers without a head have no narrower windows; the page itself has no script."""
    policy = re.search(r'<meta http-equiv="Content-Security-Policy"[^>]*>', text).group()
    probe = "<script>parent.postMessage([document.documentElement.scrollWidth, innerWidth], '*')</script>"
    (tmp_path / "page.html").write_text(text.replace(policy, "").replace("</body>", probe + "</body>"))
    (tmp_path / "frame.html").write_text(
        "<script>onmessage = e => document.title = e.data.join(' ')</script>"
        '<iframe src="page.html" width="390" height="844" style="border:0"></iframe>'
    )
    (tmp_path / "plain.html").write_text(text)
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-sync",
        "--disable-background-networking",
        "--disable-component-update",
        "--enable-logging=stderr",
        f"--user-data-dir={tmp_path / 'profile'}",
        "--virtual-time-budget=3000",
        "--dump-dom",
    ]

    def shown(name):
        return subprocess.run(
            [CHROMIUM, *flags, f"file://{tmp_path / name}"], capture_output=True, text=True, timeout=120
        )

    width, inner = map(int, re.search(r"<title>(\d+) (\d+)</title>", shown("frame.html").stdout).groups())
    assert inner == 390 and width <= inner
    answer = shown("plain.html")
    assert "How to cite" in answer.stdout and "CONSOLE" not in answer.stderr
