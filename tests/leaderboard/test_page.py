"""The leaderboard's page and the README's table: complete, foreign text shown as text, up to date in the repository."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import msgspec
import pytest
import yaml
from small_cells import make_spec, probe_entry
from small_entries import TRACK, a_track, board, cells, entry, rerun, write

from generators.dataset import UserError
from suppression_bench.cell import PlugIn
from suppression_bench.cli import main
from suppression_bench.leaderboard import page, rank, tracks
from suppression_bench.leaderboard.entry import is_link

LEADERBOARD = Path(__file__).parents[2] / "leaderboard"
MARKUP = "<img src=x onerror=alert(1)><script>alert(2)</script>\"'>&amp;{{ 7*7 }}](javascript:alert(3)) | `x`"


class Page(HTMLParser):
    """The tags of a page, what a browser would fetch or follow, handlers, ids, and the text outside script and style."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.links, self.fetched, self.handlers, self.styles, self.text = [], [], [], [], [], ""
        self.opened = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.opened.append((tag, dict(attributes)))
        self.links += [value for name, value in attributes if name == "href"]
        self.fetched += [value for name, value in attributes if name in ("src", "srcset", "data", "action", "poster")]
        self.handlers += [name for name, _ in attributes if name.startswith("on")]
        self.styles += [value for name, value in attributes if name == "style"]

    def handle_endtag(self, tag):
        self.text += " " * (tag in ("td", "th"))

    def handle_data(self, data):
        if self.cdata_elem is None:
            self.text += data


def shown(submissions, track=TRACK):
    return Page(page.render([board(submissions, track)]))


def words(parsed):
    return " ".join(parsed.text.split())


def test_an_entry_shows_its_numbers_and_where_they_come_from():
    text = words(shown(a_track()))
    for part in (
        "1–2",
        "0.76",
        "[0.74, 0.77]",
        "84.0 %",
        "V3 retrained",
        "V0 reported",
        "not used",
        "ceiling",
        "floor",
        "▼ below the untrained encoder: digit at 4, 8",
        "▼ score not above the untrained encoder's, 0.65",
        "Its seeds cannot tell it from: Method beta.",
        "Its seeds tell it apart from every other ranked entry.",
        "seed 0: 0.750, seed 1: 0.756, seed 2: 0.762",
        "d" * 64,
        "c" * 40,
        "5" * 64,
        "torch 2.15.0",
        "device cpu, cpu capability AVX512",
        "recipe: randbit",
        "digit (chance 10), n=3 92.0 ± 2.0 82.0 ± 2.0 62.0 ± 2.0",
        "digit, untrained, n=3 89.0 ± 1.0 71.0 ± 1.0 51.0 ± 1.0",
        "the method is one of the package's own",
        "V0 and V1 prove that a submission is consistent, not that it is honest",
        "bench run quick",
    ):
        assert part in text, part


def test_links_lead_to_https_and_to_the_submissions_files():
    odd = entry("odd", cells({0: 90, 4: 80, 8: 60}), url="http://example.org")
    setting = msgspec.structs.replace(odd.entry.setting, loss=PlugIn(name="mine", options={}, file="a" * 64))
    odd = replace(odd, entry=msgspec.structs.replace(odd.entry, setting=setting))
    parsed = shown([*a_track(), odd])
    outside = [attributes for tag, attributes in parsed.opened if tag == "a" and "://" in attributes["href"]]
    assert len(outside) == 10 and all(shown_entry["href"].startswith("https://") for shown_entry in outside)
    assert {shown_entry["rel"] for shown_entry in outside} == {"noopener nofollow"}
    inside = {link for link in parsed.links if "://" not in link and link[0] != "#"}
    assert {"../entries/beta/method.py", "../entries/odd/loss.py", "../entries/alpha/entry.json"} < inside
    assert inside - {"../README.md"} == {link for link in inside if link.startswith("../entries/")}
    ids = {attributes.get("id") for _, attributes in parsed.opened}
    assert {link[1:] for link in parsed.links if link[0] == "#"} <= ids
    assert "no plain https address" in parsed.text and "http://example.org" in parsed.text


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "http://a.org",
        "//a.org",
        "https:a",
        "https://",
        "https://me:pw@a.org",
        "https://a.org:x/",
        "https://exämple.org",
        "https://localhost",
        "https://a.org:99999",
        "https://a.org/" + "a" * 300,
        "https://a.org/\u202e",
        "https://a.org/ b",
        'https://a.org/"',
        "https://a.org\\@b.org",
        "data:text/html,x",
        "https://[",
        "",
    ],
)
def test_no_other_address_becomes_a_link(url):
    assert not is_link(url)


def hostile():
    """An entry whose every text carries markup, and the maintainers' words about it too."""

    def tainted(struct, **kept):
        values = msgspec.to_builtins(struct)
        return msgspec.convert(
            {k: v + MARKUP if isinstance(v, str) else v for k, v in values.items()} | kept, type(struct)
        )

    records = [
        msgspec.structs.replace(
            record, code=tainted(record.code), environment=tainted(record.environment, device="cpu")
        )
        for record in cells({0: 90, 4: 80, 8: 60})
    ]
    records[0] = msgspec.structs.replace(records[0], probes=[*records[0].probes, probe_entry(50, feature=MARKUP)])
    options = {"x": MARKUP, MARKUP: 1}
    setting = msgspec.structs.replace(
        make_spec(), recipe="recipe " + MARKUP, encoder=PlugIn(name="randbit-conv" + MARKUP, options=options)
    )
    texts = {"name": "name " + MARKUP, "contact": "contact " + MARKUP}
    submission = entry("evil", records, url="https://a.org/" + MARKUP, method_file=True, **texts)
    finding = rerun("evil", track=MARKUP, nonce=MARKUP, failed=[MARKUP], cells=[])
    evil = msgspec.structs.replace(submission.entry, setting=setting)
    return replace(submission, entry=evil, rerun=finding)


def test_markup_in_any_text_is_text():
    evil = hostile()
    renamed = msgspec.structs.replace(evil.entry, slug=MARKUP, supersedes="old")
    twin, old = replace(evil, entry=renamed), entry("old", [])
    track = msgspec.structs.replace(TRACK, title="title " + MARKUP, locked={**TRACK.locked, MARKUP: MARKUP})
    text = page.render([board([evil, twin, old, *a_track()], track)])
    parsed = Page(text)
    plain = shown([evil, *a_track()], TRACK)
    assert set(parsed.tags) <= {*plain.tags, "a"} and "img" not in parsed.tags
    assert parsed.tags.count("script") == parsed.tags.count("style") == 1
    assert not parsed.handlers and not parsed.styles and not parsed.fetched
    for part in ("name ", "contact ", "title ", "https://a.org/", "AVX512", "0.1.0", "c" * 40):
        assert part + MARKUP in parsed.text, part
    assert "randbit-conv<img src=x" in parsed.text  # YAML breaks and quotes the rest
    assert parsed.text.count(MARKUP) > 30
    assert all(re.fullmatch(r"[!-~]+", link) for link in parsed.links)
    assert not [link for link in parsed.links if link.startswith("javascript") or ".." in link.removeprefix("../")]
    line = next(line for line in page.table([board([evil])]).split("\n") if "name" in line)
    assert len(re.findall(r"(?<!\\)\|", line)) == 8 and not re.search(r"(?<!\\)[<>`{]", line)


def test_the_policy_allows_this_style_and_this_script_and_nothing_else():
    text = page.render([board(a_track())])
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', text).group(1)
    [script] = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    [style] = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    assert policy == (
        f"default-src 'none'; style-src '{page.policy_hash(style)}'; script-src '{page.policy_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    assert text.index("Content-Security-Policy") < text.index("<style>")
    assert not re.search(
        r"@import|url\(|fetch\(|XMLHttp|innerHTML|insertAdjacent|document\.write|eval\(", style + script
    )


def test_an_undefined_score_a_rerun_and_an_older_entry_are_named():
    evil = hostile()
    evil = replace(evil, entry=msgspec.structs.replace(evil.entry, name="Evil"))
    lost = entry("lost", cells({0: 90, 4: 80, 8: 60})[:-1], supersedes="old")
    parsed = shown([*a_track(), evil, lost, entry("old", [])])
    assert "undefined strength 8, seed 2: no record" in words(parsed)
    assert "▼ not confirmed: retrained on seeds 0, 7, 8: 0 of 0 numbers" in words(parsed)
    assert "a newer entry supersedes them: old (by lost)" in words(parsed)


def test_a_rerun_without_a_sandbox_is_shown_as_such():
    mine = replace(entry("own", cells({0: 90, 4: 80, 8: 60})), rerun=rerun("own", sandbox="unsandboxed"))
    text = words(shown([mine]))
    assert "outside a sandbox" in text and "V3 retrained of own" not in text and mine.level == 1


def test_an_entry_with_one_seed_has_no_interval():
    assert "no interval, one seed" in words(shown([entry("a", cells({0: 90, 4: 80, 8: 60}, seeds=(3,)))]))


def test_without_entries_there_is_a_page_too():
    text = page.render([board([]), rank.board(tracks.read("randbit-mnist"), [])])
    assert words(Page(text)).count("No entry without labels yet. How to submit one.") == 2


def test_the_curves_points_stand_where_the_numbers_are():
    shown_entry = board(a_track()).ranked[0]
    drawn = page.curve(shown_entry, (0, 4, 8), {})
    [digit, bits] = drawn["lines"]
    height = page.HEIGHT - page.TOP - page.BOTTOM
    points = [tuple(map(float, point.split())) for point in digit["path"][1:].split("L")]
    assert [x for x, _ in points] == [46, 196, 346]
    assert [1 - (y - page.TOP) / height for _, y in points] == pytest.approx([0.92, 0.82, 0.62], abs=1e-3)
    assert bits["path"].count("L") == 1 and digit["floor"] == ""
    assert digit["look"] != bits["look"] and digit["dash"] != bits["dash"]


def test_values_that_not_all_cells_share_are_counted():
    first, *others = cells({0: 90, 4: 80, 8: 60})
    changed = msgspec.structs.replace(first, code=msgspec.structs.replace(first.code, commit="f" * 40))
    facts = dict(page.facts(entry("a", [changed, *others])))
    assert facts["commit"] == [f"{'c' * 40} (8 cells)", f"{'f' * 40} (1 cell)"] and facts["suppression-bench"] == [
        "0.1.0"
    ]


def test_every_track_has_the_probe_that_counts():
    for name in tracks.names():
        track = tracks.read(name)
        assert tracks.PROBE in track.locked["probe.kinds"], name
        assert all(track.features(strength) for strength in track.grid), name


README = f"# Title\n\n{page.BEGIN}\nold\n{page.END}\n\nThe end.\n"


@pytest.fixture
def root(tmp_path):
    """A leaderboard's folder with two entries of the track quick."""
    grid = {0: 90, 4: 80, 8: 70, 10: 60, 14: 50}
    write(tmp_path, [entry("one", cells(grid)), entry("two", cells(grid), method_file=True)])
    (tmp_path / "README.md").write_text(README)
    return tmp_path


def test_the_command_writes_checks_and_tells_what_differs(root, capsys):
    command = ["leaderboard", "build", "--root", str(root / "entries")]
    assert main([*command, "--check"]) == 1
    printed = capsys.readouterr().err
    assert "site/index.html is not there" in printed and "README.md differs from line 4 on" in printed
    assert f"`bench leaderboard build --root {root / 'entries'}`" in printed and not (root / "site").exists()
    assert main(command) == 0 and main([*command, "--check"]) == 0
    readme = (root / "README.md").read_text()
    assert readme.startswith("# Title\n") and readme.endswith("\nThe end.\n") and "old" not in readme
    assert "| 1–2 | [Method one](entries/one/) | 0." in readme and "| 3 | V0 | not used |" in readme
    page_before = (root / "site" / "index.html").read_bytes()
    assert main(command) == 0 and "nothing has changed" in capsys.readouterr().out
    assert (root / "site" / "index.html").read_bytes() == page_before
    (root / "site" / "index.html").write_bytes(page_before.replace(b"Method one", b"Method won"))
    assert main([*command, "--check"]) == 1 and "index.html differs from line" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["no marks", README + README, f"{page.END}\n{page.BEGIN}\n"])
def test_a_readme_without_its_marks_is_refused(root, text, capsys):
    (root / "README.md").write_text(text)
    assert main(["leaderboard", "build", "--root", str(root / "entries")]) == 2
    assert "must stand in it once each" in capsys.readouterr().err and (root / "README.md").read_text() == text


def test_what_cannot_be_rendered_is_refused(root, tmp_path, capsys):
    assert main(["leaderboard", "build", "--root", str(tmp_path / "nowhere" / "entries")]) == 2
    assert main(["leaderboard", "biuld"]) == 2 and "did you mean 'build'" in capsys.readouterr().err
    path = root / "entries" / "one" / "entry.json"
    path.write_text(path.read_text().replace('"track": "quick"', '"track": "quack"'))
    with pytest.raises(UserError, match=r"unknown track 'quack'.*did you mean 'quick'"):
        page.files(root / "entries")
    assert main(["leaderboard"]) == 0 and "build" in capsys.readouterr().out


def test_the_repositorys_page_and_table_are_what_the_build_makes():
    """Render them anew with `bench leaderboard build`."""
    assert [
        page.first_difference(path, text)
        for path, text in page.files(LEADERBOARD / "entries").items()
        if path in page.differing({path: text})
    ] == []


def test_a_submissions_pull_request_is_not_asked_for_the_page():
    """It may touch its own folder only, so the page must be allowed to wait for the merge."""
    ci = yaml.safe_load((LEADERBOARD.parent / ".github/workflows/ci.yml").read_text())
    changed = yaml.safe_load((LEADERBOARD.parent / ".github/workflows/leaderboard.yml").read_text())
    ours, theirs = (workflow[True]["pull_request"] for workflow in (ci, changed))  # YAML reads `on` as true
    assert ours == {"paths-ignore": theirs["paths"]}


# From trained cells to a page: submit, check, build, as the documentation tells it.


def test_from_cells_to_a_page(toy, tmp_path):
    (tmp_path / "README.md").write_text(README)
    root = tmp_path / "entries"
    named = {"mine": ["--method", str(toy / "mine.py")], "supervised": [], "untrained": []}
    for method, more in named.items():
        command = ["submit", str(toy / ("mine" if more else "package")), "--name", f"The {method}", *more]
        command += ["--url", "https://example.org", "--track", "toy", "--out", str(root)]
        assert main([*command, "--only", f"method={method}"]) == 0
    assert main(["leaderboard", "check", *map(str, sorted(root.iterdir())), "--keep"]) == 0
    assert main(["leaderboard", "build", "--root", str(root)]) == 0
    assert main(["leaderboard", "build", "--root", str(root), "--check"]) == 0
    parsed = Page((tmp_path / "site" / "index.html").read_text(encoding="utf-8"))
    text = words(parsed)
    assert "The mine" in text and "V1 rescored" in text and "V0 reported of" not in text
    assert "ceiling The supervised" in text and "floor The untrained" in text
    kept = [line for line in (tmp_path / "README.md").read_text().split("\n") if line.startswith("| ")]
    assert [line.split(" | ")[0] for line in kept] == ["| rank", "| 1", "| ceiling", "| floor"]
    for link in parsed.links:
        if link.startswith("../"):
            assert (tmp_path / "site" / unquote(link)).exists(), link
