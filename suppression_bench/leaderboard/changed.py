"""Which files a pull request touches: one submission's folder and nothing else."""

from pathlib import Path

from generators.dataset import UserError
from suppression_bench.leaderboard import folder, texts

PLACE = "leaderboard/submissions/"
MOST_NAMED = 10


def read_list(path: Path) -> list[str]:
    """The names of a file that `git diff --name-only -z` wrote.

    Raises:
        UserError: no such file, or names that are no UTF-8.
    """
    try:
        return [name for name in path.read_bytes().decode().split("\0") if name]
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not a list of names separated by zero bytes ({error})") from None


def judge(files: list[str]) -> tuple[str | None, list[str]]:
    """The slug of the one submission that the files belong to, and what is wrong with them.

    Arguments:
        files: names from the repository's root.

    >>> judge(["leaderboard/submissions/mine/submission.json"])
    ('mine', [])
    >>> judge(["leaderboard/submissions/mine/submission.json", "setup.py"])[1]
    ["the pull request changes 'setup.py'; a submission's pull request only adds files of its own folder"]
    """
    faults, slugs = [], {}
    for name in files:
        slug, slash, rest = name.removeprefix(PLACE).partition("/")
        if not (name.startswith(PLACE) and slash and texts.is_slug(slug) and folder.is_allowed(rest)):
            faults.append(
                f"the pull request changes {name[:200]!a}; a submission's pull request only adds files of its own folder"
            )
        else:
            slugs[slug] = True
    if len(slugs) > 1:
        faults.append(
            f"the pull request changes the folders of {len(slugs)} submissions ({', '.join(slugs)}); one at a time"
        )
    if not files:
        faults.append("the pull request changes no file")
    more = [f"and {len(faults) - MOST_NAMED} more such files"] if len(faults) > MOST_NAMED else []
    return next(iter(slugs), None) if len(slugs) == 1 else None, faults[:MOST_NAMED] + more
