"""The page about a study: complete, escaped, the same every time, quiet in a browser, and its commands are right."""

import re
import shlex
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest
from small_cells import make_record, probe_entry, write_records

from generators import strict_json
from generators.dataset import UserError
from suppression_bench.cli import app_for, main
from suppression_bench.commands.run import cells_of
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


def study(folder):
    """Three seeds of a method with markup in its name, a failed and a diverged cell, and one that is missing."""
    made = [
        make_record([probe_entry(90 - 4 * bits + seed), probe_entry(95, feature="bit0")], MARKUP, seed, bits)
        for bits in (0, 5, 10)
        for seed in (0, 1, 2)
    ]
    made.append(
        make_record([], bits=5, status="failed", error="<script>alert(2)</script> & the encoder's file is gone")
    )
    made.append(make_record([], "byol", bits=5, status="diverged", error="the loss is not finite at step 17"))
    write_records(folder, made)
    planned = make_record([], "vae", bits=5)
    plan = [{"id": one["id"], "spec": one["spec"], "folder": "x"} for one in (*made, planned)]
    (folder / "cells.json").write_text(strict_json.dumps(plan))
    return folder


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return report.render([study(tmp_path_factory.mktemp("study"))])


@pytest.fixture
def undrawn(monkeypatch):
    monkeypatch.setattr(report, "_figures", lambda folders: [])


def test_a_page_holds_what_a_reader_needs(text):
    page = Page(text)
    shown = " ".join(page.text.split())
    for part in (
        "12 cells: 9 ok, 1 diverged, 1 failed, 1 missing", "randbit over optdigits", "d" * 64, "the suite test",
        "the loss is not finite at step 17", "planned, and no record is there", "bench run ./test.yaml --out runs/test",
        "bench generate randbit --digit-source optdigits", "Intriguing Properties of Contrastive Losses",
        "@software{suppression_bench", "linear-probe top-1 %", "what is kept, by bits", "torch", "recipe: randbit",
    ):  # fmt: skip
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


def test_a_figure_of_one_panel_fits_a_phone_and_a_wider_one_is_scrolled(tmp_path):
    made = [
        make_record(
            [probe_entry(40 + size), probe_entry(60 - size, feature="second")],
            seed=seed,
            strength={"key": "size", "value": size},
        )
        for size in (1, 9)
        for seed in (0, 1)
    ]
    images = re.findall(
        r'<img( class="narrow")? src="[^"]*" alt="([^;]*);', report.render([write_records(tmp_path, made)])
    )
    found = {title.split()[0]: bool(narrow) for narrow, title in images}
    assert found == {"Suppression": False, "Trade-off": True}, images


def test_the_same_records_are_the_same_page(text, tmp_path):
    assert report.render([study(tmp_path)]) == text


def test_the_order_of_the_folders_is_nothing(undrawn, tmp_path):
    first = study(tmp_path / "a")
    other = write_records(tmp_path / "b", [make_record([probe_entry(40)], "moco", bits=bits) for bits in (0, 5)])
    assert report.render([first, other]) == report.render([other, first])


def test_a_study_without_strengths_or_numbers_has_a_page_too(tmp_path):
    folder = write_records(tmp_path, [make_record([], strength=None, status="failed", error="no memory")])
    page = Page(report.render([folder]))
    assert "no memory" in page.text and "figure" not in page.tags and "What is kept" not in page.text


@pytest.mark.parametrize("name", ["quick", "multidigits-untrained", "precision"])
def test_a_methods_command_gives_the_cells_of_the_records(name, tmp_path, monkeypatch):
    # The command is parsed as `bench run` would; where the data is, and what it holds, is the record's own.
    for path in sorted((RESULTS / name).rglob("result.json"))[::9]:
        spec = strict_json.loads(path.read_bytes(), str(path), floats=True)["spec"]
        words = shlex.split(reproduce.run([spec], spec["seed"] + 1))
        data = {**spec["data"], "content_digest": spec["data"]["digest"], "constant_channels": {"max": 32}}
        data |= {"recipe": spec["recipe"], "strength": (spec["strength"] or {"key": None})["key"]}
        monkeypatch.setattr("generators.manifest.read", lambda folder, found=data: found)
        _, bound, _ = app_for(words[1:]).parse_args(words[1:])
        bound.apply_defaults()
        made = cells_of(bound.arguments["suite"], bound.arguments["selection"], bound.arguments["sources"])[-1].spec
        assert made["seed"] == spec["seed"] and made["data"]["bits"] == spec["data"]["bits"]
        for part in ("method", "loss", "encoder", "recipe", "strength"):
            assert made[part] == spec[part], part
        for part in ("augmentation", "train", "probe"):
            assert {key: made[part][key] for key in spec[part]} == spec[part], part


def test_the_data_commands_name_what_the_user_has_to_give():
    data = {"dataset": "multidigits", "digest": "abcdef0123", "seed": 0,
            "options": {"digit_source": "mnist", "sizes": [20, 80], "train": None}}  # fmt: skip
    assert reproduce.generate(data) == (
        "bench generate multidigits --digit-source mnist:DIR --sizes 20 80 --out data/multidigits-abcdef01"
    )
    spec = {"suite": {"name": "a suite", "version": 1, "tier": "full"}, "data": data}
    assert (
        reproduce.suite(spec) == "bench run './a suite.yaml' --tier full --digit-source mnist:DIR --out 'runs/a suite'"
    )
    assert reproduce.suite({**spec, "suite": None}) is None
    data = {"dataset": "square-and-stripe", "digest": "", "seed": 0, "options": {"image_source": "folder"}}
    assert reproduce.generate(data) == (
        "bench generate ./square_and_stripe.py --image-source folder:DIR --out data/square-and-stripe"
    )
    spec = {"suite": {"name": "randbit-images", "version": 1}, "data": {"options": {"image_source": "cifar10"}}}
    assert reproduce.suite(spec) == "bench run randbit-images --image-source cifar10:DIR --out runs/randbit-images"


def test_the_command_writes_a_page_and_refuses_other_endings(undrawn, tmp_path, capsys):
    folder = study(tmp_path / "runs")
    assert main(["report", str(folder), "--out", str(tmp_path / "page.html")]) == 0
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == report.render([folder])
    assert main(["report", str(folder), "--out", "page.pdf"]) == 2 and "must end in .html" in capsys.readouterr().err
    with pytest.raises(UserError, match="no such folder"):
        report.render([tmp_path / "nowhere"])


@pytest.mark.skipif(CHROMIUM is None, reason="needs Debian's chromium")
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
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
             "--disable-background-networking", "--disable-component-update", "--enable-logging=stderr",
             f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=3000", "--dump-dom"]  # fmt: skip

    def shown(name):
        return subprocess.run(
            [CHROMIUM, *flags, f"file://{tmp_path / name}"], capture_output=True, text=True, timeout=120
        )

    width, inner = map(int, re.search(r"<title>(\d+) (\d+)</title>", shown("frame.html").stdout).groups())
    assert inner == 390 and width <= inner
    answer = shown("plain.html")
    assert "How to cite" in answer.stdout and "CONSOLE" not in answer.stderr
