"""Where an entry's numbers come from: seeds, data, code, machine and settings, each value with the cells that have it."""

from collections import Counter
from collections.abc import Callable, Iterable

import yaml

from generators import strict_json
from suppression_bench.leaderboard.entry import place
from suppression_bench.leaderboard.submission import Submission

SETTINGS = ("recipe", "method", "loss", "encoder", "augmentation", "train", "probe", "probe_version")
MACHINE = ("device", "cpu_capability", "threads", "platform")


def facts(submission: Submission) -> list[tuple[str, list[str]]]:
    """Terms and their values; a value that not all cells share says how many have it.

    Arguments:
        submission: as loaded.
    """
    cells = submission.records

    def each(read: Callable[[dict], object]) -> list[str]:
        return tally(map(read, cells))

    seconds = sum(cell["run"]["seconds"] for cell in cells)
    return [
        ("seeds", [", ".join(map(str, sorted({place(cell)[1] for cell in cells}))) or "none"]),
        ("cells", [f"{len(cells)}, trained in {_time(seconds)}, resumed {sum(cell['run']['resumes'] for cell in cells)} times"]),
        ("data", each(lambda cell: f"{cell['spec']['data']['dataset']} version {cell['spec']['data'].get('version')}, "
                                   f"seed {cell['spec']['data']['seed']}{_options(cell['spec']['data'])}")),
        ("data digest", each(lambda cell: cell["spec"]["data"].get("digest") or "none")),
        ("suppression-bench", each(lambda cell: cell["code"]["version"])),
        ("commit", each(lambda cell: cell["code"]["commit"] or "unknown")),
        ("digest of the sources", each(lambda cell: cell["code"]["sources"])),
        ("digest of the method's file", each(lambda cell: cell["code"]["method"])),
        ("digest of the submission", [submission.digest or "none"]),
        ("versions", each(lambda cell: ", ".join(
            f"{key} {value}" for key, value in sorted(cell["environment"].items()) if key not in MACHINE))),
        ("hardware", each(lambda cell: ", ".join(
            f"{key.replace('_', ' ')} {cell['environment'][key]}" for key in MACHINE if key in cell["environment"]))),
    ]  # fmt: skip


def settings(submission: Submission) -> list[str]:
    """The recipe's options as YAML, once for each different set of them."""
    counts = Counter(strict_json.dumps({key: cell["spec"][key] for key in SETTINGS}) for cell in submission.records)
    texts = []
    for text, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        values = strict_json.loads(text, "settings", floats=True)
        own = {key: values[key] for key in SETTINGS if values[key] is not None}
        head = f"# {_cells(count)}\n" if len(counts) > 1 else ""
        texts.append(head + yaml.safe_dump(own, sort_keys=False, allow_unicode=True, default_flow_style=None, width=80))
    return texts


def tally(values: Iterable) -> list[str]:
    """Different values as texts, the most frequent first, with the number of cells where there are several.

    >>> tally(["a", "a"]), tally(["b", "a", "a"])
    (['a'], ['a (2 cells)', 'b (1 cell)'])
    """
    counts = Counter(map(str, values))
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [f"{text} ({_cells(count)})" if len(ordered) > 1 else text for text, count in ordered]


def _cells(count: int) -> str:
    return f"{count} cell{'s' * (count != 1)}"


def _options(data: dict) -> str:
    found = {key: value for key, value in sorted((data.get("options") or {}).items()) if value is not None}
    return "".join(f", {key} {value}" for key, value in found.items())


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
