"""What an entry may be called: texts that are short and visible, links that are https, names that look like no other's."""

import re
import unicodedata
from urllib.parse import urlsplit

from suppression_bench.leaderboard import shape
from suppression_bench.leaderboard.submission import MOST, SLUG

NAME, CONTACT, URL = 60, 200, 300  # characters
LINK = re.compile(r"https://[!-~]+")
# Characters that look like a small Latin letter (l for i and 1), after case folding and removing accents.
LOOKS = str.maketrans(
    "авекмнорстухѕіјһԁԛԝαβγεηικμνορτυχω0135i|ıøłđ",
    "abekmhopctyxsljhdqwabyenlkuvoptuxwoleslllold",
)


def faults(form: dict) -> list[str]:
    """What is wrong with the texts of a `submission.json`, whose schema is known to be in order."""
    found = _text_faults("name", form["name"], NAME)
    if form["contact"] is not None:
        found += _text_faults("contact", form["contact"], CONTACT)
    found += url_faults(form["url"])
    if not skeleton(form["name"]):
        found.append(f"name {form['name'][:NAME]!a} has no letter or digit")
    found += [f"name {form['name'][:NAME]!a}: the word {word!a} mixes alphabets" for word in _mixed(form["name"])]
    for key in ("slug", "supersedes"):
        if form[key] is not None and not is_slug(form[key]):
            found.append(
                f"{key} {form[key][:MOST]!a}: small letters, digits and single hyphens, at most {MOST} characters"
            )
    return found


def _text_faults(key: str, text: str, most: int) -> list[str]:
    found = []
    if not 1 < len(text) <= most:
        found.append(f"{key} has {len(text)} characters, from 2 to {most} are allowed")
    if text != text.strip() or "  " in text:
        found.append(f"{key} {text[:most]!a} has blanks at its ends or two in a row")
    if text != unicodedata.normalize("NFC", text):
        found.append(f"{key} {text[:most]!a} is not in Unicode's form NFC")
    return found + [f"{key}: {fault}" for fault in shape.text_faults(text)]


def visible(sentence: str) -> str:
    """A sentence that may quote foreign text, for a terminal: what is not printable stands as its escape, a line's end too.

    >>> print(visible("a \\x1b[31m\\nb, Café"))
    a \\x1b[31m\\nb, Café
    """
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in sentence)


def is_slug(text: str) -> bool:
    """Whether a text may be an entry's folder.

    >>> is_slug("simclr-quick"), is_slug("-simclr"), is_slug("../simclr")
    (True, False, False)
    """
    return len(text) <= MOST and bool(SLUG.fullmatch(text))


def url_faults(url: str) -> list[str]:
    """Why a link cannot stand on the page.

    >>> url_faults("https://example.org/paper"), url_faults("http://example.org")[0][:36]
    ([], "url 'http://example.org' must begin ")
    """
    shown = f"url {url[:80]!a}"
    if len(url) > URL:
        return [f"url has {len(url)} characters, at most {URL} are allowed"]
    if not LINK.fullmatch(url):
        return [f"{shown} must begin with https:// and hold visible ASCII characters only"]
    if any(one in url for one in "<>\"'\\`{}|^"):
        return [f"{shown} holds a character that must be written as %XX in a link"]
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        return [f"{shown} is no link ({error})"]
    if "@" in parts.netloc:
        return [f"{shown} holds a user's name or password; leave it out"]
    if not re.fullmatch(r"[a-z0-9-]+(\.[a-z0-9-]+)+", host):
        return [f"{shown} names no host such as example.org"]
    return []


def skeleton(name: str) -> str:
    """What is left of a name to the eye: two names of one skeleton may be taken for each other.

    >>> skeleton("Sim-CLR") == skeleton("simclr") == skeleton("SіmСLR")  # the last with Cyrillic letters
    True
    >>> skeleton("VICReg") == skeleton("VlCReg"), skeleton("T 0.1") == skeleton("T 0.2")
    (True, False)
    """
    plain = unicodedata.normalize("NFKD", name)
    plain = "".join(one for one in plain if unicodedata.category(one) != "Mn").casefold()
    plain = plain.translate(LOOKS)
    return "".join(one for one in plain if one.isalnum()).replace("rn", "m").replace("vv", "w")


def _mixed(name: str) -> list[str]:
    # Cherokee, Lisu and others have letters that look Latin too; NFKC, as a raised 2 or a full-width A is no other alphabet.
    found = []
    for word in re.findall(r"[^\W\d_]+", unicodedata.normalize("NFKC", name)):
        scripts = {unicodedata.name(one, "").partition(" ")[0] for one in word if one.isalpha()}
        found += [word] if len(scripts) > 1 and scripts & {"LATIN", "CYRILLIC", "GREEK"} else []
    return found


def make_slug(name: str) -> str:
    """A folder's name from a method's.

    >>> make_slug("SimCLR, τ = 0.1 (ours)")
    'simclr-0-1-ours'
    """
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain)[:MOST].strip("-")
