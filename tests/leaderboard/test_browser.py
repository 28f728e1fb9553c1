"""The leaderboard's page in a headless browser: it sorts, filters, opens entries, fits a phone, and runs nothing foreign."""

import html
import json
import re
import shutil
import subprocess

import pytest
from small_entries import a_track, board, cells, entry
from test_page import MARKUP, hostile

from suppression_bench.leaderboard import page, tracks

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    "--enable-logging=stderr",
    "--virtual-time-budget=5000",
    "--dump-dom",
]
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs a Chromium")

# What the visits below are written in; `done` hands a value back through the page itself.
STEPS = """
const all = (what, within = document) => [...within.querySelectorAll(what)];
const seen = (one) => one.checkVisibility();
const names = (within = document) => all("tbody.entry", within).filter(seen).map((one) => one.id.slice(6));
const first = document.querySelector("table.board");
const button = (text) => all("button", first).find((one) => one.textContent.startsWith(text));
const choose = (name, value) => {
  const one = document.querySelector(`select[name=${name}]`);
  one.value = value;
  one.dispatchEvent(new Event("change", { bubbles: true }));
};
const said = () => document.getElementById("shown").textContent;
const later = () => new Promise((go) => setTimeout(go, 50));
const done = (value) => {
  const result = document.createElement("pre");
  result.id = "result";
  result.textContent = JSON.stringify(value);
  document.body.append(result);
};
"""


def text(more=()):
    """A page with two tracks; on the first five entries and one whose score is undefined."""
    submissions = [*a_track(), entry("lost", cells({0: 90, 4: 80, 8: 60})[:-1]), *more]
    return page.render([board(submissions), board(submissions, tracks.read("randbit-mnist"))])


def browse(folder, name, *flags):
    command = [CHROMIUM, *FLAGS, *flags, f"--user-data-dir={folder / 'profile'}", f"file://{folder / name}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def visit(folder, content, script, *flags):
    """What a script finds in the page; the copy's policy allows that script as well."""
    added = f"{STEPS}(async () => {{ {script} }})();"
    allowed = re.search("script-src '[^']+'", content).group()
    content = content.replace(allowed, f"{allowed} '{page.policy_hash(added)}'")
    (folder / "page.html").write_text(content.replace("</body>", f"<script>{added}</script></body>"), encoding="utf-8")
    answer = browse(folder, "page.html", *flags)
    result = re.search(r'<pre id="result">(.*?)</pre>', answer.stdout, re.DOTALL)
    assert result, answer.stderr[-2000:]
    return json.loads(html.unescape(result.group(1)))


def test_it_is_quiet_and_styled(tmp_path):
    (tmp_path / "plain.html").write_text(text(), encoding="utf-8")
    answer = browse(tmp_path, "plain.html")
    assert "6 of 6 entries shown." in answer.stdout and "CONSOLE" not in answer.stderr
    assert '<button type="button">rank</button>' in answer.stdout


def test_a_policy_is_in_force(tmp_path):
    """An inline handler, a style and a foreign script that got into the page by some fault would not run."""
    planted = '<p id="bad" style="color: red" onclick="document.title = 1">x</p><script>document.title = "ran"</script>'
    result = visit(
        tmp_path,
        text().replace("<main>", "<main>" + planted),
        """
        const bad = document.getElementById("bad"), refused = [];
        document.addEventListener("securitypolicyviolation", (event) => refused.push(event.effectiveDirective));
        bad.setAttribute("onclick", "document.title = 2");
        bad.click();
        bad.innerHTML = "<img src='https://example.org/x.png'>";
        await fetch("https://example.org/").catch(() => 0);
        await later();
        done([document.title, getComputedStyle(bad).color === "rgb(255, 0, 0)", refused.sort()]);""",
    )
    title, red, refused = result  # the planted parts' own violations may come before the listener or after it
    assert (title, red) == ("suppression-bench: leaderboard", False)
    assert {"connect-src", "img-src", "script-src-attr"} <= set(refused)


def test_it_sorts(tmp_path):
    result = visit(
        tmp_path,
        text(),
        """
        const heads = () => all("th[aria-sort]", first).map((one) => [one.textContent, one.getAttribute("aria-sort")]);
        const steps = [[names(first), heads(), ""]];
        for (const name of ["score", "score", "level", "entry", "entry", "rank", "rank"]) {
          button(name).click();
          steps.push([names(first), heads(), said()]);
        }
        done(steps);""",
    )
    start, down, up, level, entries, back, rank, turned = result
    assert start[:2] == [["alpha", "beta", "gamma", "lost"], [["rank", "ascending"]]]
    assert down[:2] == [["alpha", "beta", "gamma", "lost"], [["score [95 %]", "descending"]]]
    assert up[:2] == [["gamma", "beta", "alpha", "lost"], [["score [95 %]", "ascending"]]]  # undefined stays last
    assert up[2] == "Sorted by score [95 %], ascending. 6 of 6 entries shown."
    assert level[0] == ["alpha", "gamma", "lost", "beta"]
    assert entries[0] == ["alpha", "beta", "gamma", "lost"] and back[0] == entries[0][::-1]
    assert rank[0] == start[0] and turned[0] == ["gamma", "beta", "alpha", "lost"]


def test_it_filters(tmp_path):
    result = visit(
        tmp_path,
        text(),
        """
        const steps = [];
        for (const [name, value] of [["level", "1"], ["level", "3"], ["labels", "yes"], ["level", "0"], ["labels", "no"],
                                     ["labels", ""], ["track", "randbit-mnist"], ["track", "quick"]]) {
          choose(name, value);
          const none = all("p.none").filter(seen).map((one) => one.textContent);
          steps.push([names(), said(), none, all("section.track").filter(seen).map((one) => one.dataset.track)]);
        }
        done(steps);""",
    )
    empty, lacking = "No entry here passes the filters.", "No entry without labels yet. How to submit one."
    tracks_shown = ["quick", "randbit-mnist"]
    rescored, three, labels, every, without, free, second, quick = result
    assert rescored[:2] == [["alpha", "gamma", "lost", "labels", "floor"], "5 of 6 entries shown."]
    assert three == [["alpha"], "1 of 6 entries shown.", [empty, lacking], tracks_shown]
    assert labels == [[], "0 of 6 entries shown.", [empty, empty, lacking], tracks_shown]
    assert every[0] == ["labels"] and without[0] == ["alpha", "beta", "gamma", "lost", "floor"]
    assert free == [
        ["alpha", "beta", "gamma", "lost", "labels", "floor"],
        "6 of 6 entries shown.",
        [lacking],
        tracks_shown,
    ]
    assert second == [[], "0 of 6 entries shown.", [lacking], ["randbit-mnist"]]
    assert quick[0] == free[0] and quick[3] == ["quick"]


def test_it_shows_an_entry(tmp_path):
    result = visit(
        tmp_path,
        text(),
        """
        const body = document.getElementById("entry-alpha");
        const inside = body.querySelector(".opened");
        const before = seen(inside);
        body.querySelector("summary").click();
        const drawn = body.querySelector("svg.curve").getBoundingClientRect();
        const steps = [before, seen(inside), inside.innerText.includes("d".repeat(64)), drawn.width > 200 && drawn.height > 100];
        choose("track", "randbit-mnist");
        location.hash = "#entry-gamma";
        await later();
        const other = document.getElementById("entry-gamma");
        steps.push(seen(other.querySelector(".opened")), Math.abs(other.getBoundingClientRect().top) < 40);
        done(steps);""",
    )
    assert result == [False, True, True, True, True, True]


def test_a_keyboard_reaches_everything_and_sees_where_it_is(tmp_path):
    script = """
        const focused = document.hasFocus();
        const wanted = all("a, button, select, summary, [tabindex]").filter(seen);
        const bad = [];
        for (const one of wanted) {
          one.focus({ focusVisible: true });
          const ring = getComputedStyle(one);
          if (document.activeElement !== one || ring.outlineStyle === "none") bad.push(one.outerHTML.slice(0, 80));
        }
        const unnamed = all("select").filter((one) => !one.labels.length || !one.labels[0].textContent.trim());
        const heads = all(".board > thead th").filter((one) => one.querySelectorAll("button").length !== 1);
        done([focused, wanted.length > 25, bad, unnamed.length, heads.length, document.documentElement.lang]);"""
    for _ in range(5):  # a busy machine may not have given the window its focus yet, and without it no ring is drawn
        focused, *result = visit(tmp_path, text(), script)
        if focused:
            break
    assert result == [True, [], 0, 0, "en"]


def test_it_fits_every_width(tmp_path):
    """In frames, as browsers without a head have no window as narrow as a phone; every entry is open."""
    widths = [320, 375, 700, 800, 960, 961, 1280]
    policy = re.search(r'<meta http-equiv="Content-Security-Policy"[^>]*>', text()).group()
    probe = "<script>parent.postMessage([innerWidth, document.documentElement.scrollWidth], '*')</script>"
    submissions = [
        entry("a", cells({0: 90, 4: 80, 8: 60, 10: 33, 14: 12}, seeds=range(10)), name="Averylongname" * 12, level=2),
        entry("b", cells({0: 90, 4: 80})[:-1], name="A long name " * 12, url="https://a.org/" + "x" * 200),
        entry("c", cells({0: 94, 4: 88, 8: 70, 10: 62, 14: 50}, method="untrained")),
    ]
    opened = page.render([board(submissions, tracks.read("quick"))]).replace(policy, "")
    opened = opened.replace("<details>", "<details open>").replace("</body>", probe + "</body>")
    (tmp_path / "page.html").write_text(opened, encoding="utf-8")
    frames = "".join(
        f'<iframe src="page.html" width="{width}" height="800" style="border:0"></iframe>' for width in widths
    )
    (tmp_path / "frame.html").write_text(f"<script>onmessage = e => document.title += e.data + ';'</script>{frames}")
    answer = browse(tmp_path, "frame.html")
    pairs = re.search("<title>(.*?);</title>", answer.stdout).group(1).split(";")
    result = dict(tuple(map(int, pair.split(","))) for pair in pairs)
    assert sorted(result) == widths and all(result[width] <= width for width in widths), result


def test_dark_and_light_both_have_contrast(tmp_path):
    """WCAG 2's ratio of 4.5 between every text and the page behind it, in both colour schemes."""
    script = """
        for (const one of all("details")) one.open = true;
        const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
        const light = (colour) => {
          const [r, g, b] = numbers(colour).map((v) => v / 255).map((v) => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
          return .2126 * r + .7152 * g + .0722 * b;
        };
        const behind = (one) => {
          for (let place = one; place; place = place.parentElement) {
            const colour = getComputedStyle(place).backgroundColor;
            if (numbers(colour)[3] !== 0) return colour;
          }
        };
        const low = [];
        const written = (one) => [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
        for (const one of all("body *").filter((each) => seen(each) && written(each))) {
          const ink = getComputedStyle(one)[one.namespaceURI.endsWith("svg") ? "fill" : "color"];
          const pair = [light(ink), light(behind(one))].sort((a, b) => b - a);
          const ratio = (pair[0] + .05) / (pair[1] + .05);
          if (ratio < 4.5) low.push([one.tagName, one.textContent.slice(0, 30), ratio]);
        }
        done([low, getComputedStyle(document.body).backgroundColor]);"""
    light = visit(tmp_path, text(), script, "--blink-settings=preferredColorScheme=1")
    dark = visit(tmp_path, text(), script, "--blink-settings=preferredColorScheme=0")
    assert light == [[], "rgb(255, 255, 255)"] and dark == [[], "rgb(20, 24, 29)"]


def test_foreign_markup_is_seen_and_not_run(tmp_path):
    evil = hostile()
    content = page.render([board([evil, *a_track()])])
    answer = visit(
        tmp_path,
        content,
        """
        for (const one of all("details")) one.open = true;
        await later();
        done([document.title, all("img, iframe, object, embed, svg script, [onerror]").length, all("script").length,
              document.getElementById("entry-evil").innerText]);""",
    )
    title, foreign, scripts, shown = answer
    assert (title, foreign, scripts) == ("suppression-bench: leaderboard", 0, 2)  # the page's own and this test's
    assert "name " + MARKUP in shown and "contact " + MARKUP in shown


def test_without_scripts_it_is_a_plain_table(tmp_path):
    content = text()
    bare = content.replace(re.search("<script>.*?</script>", content, re.DOTALL).group(), "")
    (tmp_path / "bare.html").write_text(bare, encoding="utf-8")
    answer = browse(tmp_path, "bare.html")
    assert "Method alpha" in answer.stdout and "<button" not in answer.stdout
    assert '<form id="filters" aria-label="Filters" hidden' in answer.stdout
