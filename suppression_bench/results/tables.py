"""Tables rendered from records: the pivot that people paste, as markdown, csv, latex or json."""

import csv
import io
import numbers
from functools import lru_cache
from pathlib import Path

import pandas

from generators.dataset import UserError
from suppression_bench.results.frame import BITS, GROUP, KINDS, summarise

REFERENCE = Path(__file__).parent / "reference"
BELOW = "▼"
NOT_CONVERGED = "†"


@lru_cache(maxsize=1)
def reference() -> pandas.DataFrame:
    """The published numbers, in percent."""
    return pandas.concat(
        [pandas.read_csv(path, dtype={"strength": object}) for path in sorted(REFERENCE.glob("*.csv"))]
    )


def pivot(frame: pandas.DataFrame, probe: str = "all") -> list[tuple[str, pandas.DataFrame]]:
    """One table per dataset: a heading, and rows by method and probe against columns by feature and strength.

    Values are top-1 percent, mean and SD over n seeds where n > 1; failed, diverged and missing cells say so in place.
    """
    found = summarise(frame)
    if probe != "all":
        found = found[found["probe"] == probe]
    tables = []
    for group, part in frame.groupby(GROUP, dropna=False, sort=False):
        dataset, pictures, variant, name = group
        cells: dict[tuple, dict] = {}
        for row in found[(found[GROUP] == list(group)).all(axis=1)].itertuples():
            cells.setdefault((_title(row), row.probe, row.layer), {})[row.feature, row.strength] = _text(row)
        columns = sorted({key for entry in cells.values() for key in entry}, key=_column_order)
        _mark_absent(part, cells, columns)
        _add_published(dataset, pictures, cells, columns)
        rows = [
            {"method": title, "probe": kind, "layer": layer, **{_column(c, name): entry.get(c, "") for c in columns}}
            for (title, kind, layer), entry in sorted(cells.items(), key=lambda item: row_order(item[0]))
        ]
        over = f" over {pictures}" * bool(pictures) + f" ({variant})" * bool(variant)
        heading = f"{dataset}{over}: linear-probe top-1 % on the test split"
        tables.append((heading + (f", by {name}" if name else ""), pandas.DataFrame(rows)))
    return tables


def _title(row) -> str:
    return f"{row.method} {row.setting}".strip()


def strength_order(strength):
    """Numbers by size, texts behind them."""
    return (0, float(strength)) if isinstance(strength, numbers.Real) else (1, str(strength))  # pandas' own ints too


def _column_order(key):
    feature, strength = key
    return (feature == BITS, feature, strength_order(strength))


def row_order(key):
    """Methods by name, ceiling and floor last; a published row right below ours."""
    title, kind, layer = key
    method, own = title.split(" ")[0], kind.partition(",")[0]
    last = {"untrained": 2, "supervised": 1}.get(method, 0)
    return (last, method, title, KINDS.index(own) if own in KINDS else -1, own != kind, layer)


def _column(column, name) -> str:
    feature, strength = column
    return f"{feature} @{strength}" if name else feature


def _text(row) -> str:
    spread = f" ± {100 * row.deviation:.1f} (n={row.n})" if row.n > 1 else ""
    flags = (BELOW if row.below else "") + ("" if row.converged else NOT_CONVERGED)
    return f"{100 * row.mean:.1f}{spread}{' ' + flags if flags else ''}"


def _mark_absent(part: pandas.DataFrame, cells: dict, columns: list) -> None:
    # A cell without numbers is named where its numbers would stand, in every row of its method.
    for row in part[part["accuracy"].isna()].itertuples():
        title = f"{row.method} {row.setting or ''}".strip()
        own = [key for key in cells if key[0] == title] or [(title, "", "")]
        for key in own:
            for column in [c for c in columns if c[1] == row.strength] or [("status", row.strength)]:
                if column not in columns:
                    columns.append(column)
                entry = cells.setdefault(key, {})
                note = f"{row.status} (seed {row.seed})"
                entry[column] = f"{entry[column]}; {note}" if column in entry else note


def _add_published(dataset, pictures, cells: dict, columns: list) -> None:
    # The papers' values stand under ours, for the same method, setting, probe and strengths.
    known = reference()
    known = known[(known["dataset"] == dataset) & (known["pictures"] == pictures)]
    for title, kind, layer in list(cells):
        if layer != "encoder":
            continue
        for source, part in known.groupby("source"):
            mine = part[(part["method"] + " " + part["setting"] == title) & (part["probe"] == kind)]
            values = {(row.feature, _number(row.strength)): f"{row.value:.1f}" for row in mine.itertuples()}
            values = {column: value for column, value in values.items() if column in columns}
            if values:
                cells[title, f"{kind}, published", source] = values


def _number(text):
    return int(text) if str(text).isdigit() else text


def render(frame: pandas.DataFrame, form: str, probe: str = "all", long: bool = False) -> str:
    """The tables as text: markdown, csv, latex (booktabs) or json.

    Raises:
        UserError: a probe that no cell has, or the long form in a format that has none.
    """
    if probe != "all":
        require_probe(frame, probe)
    if long and form not in ("csv", "json"):
        raise UserError(f"the long table is csv or json, not {form}")
    if long or form == "json":
        chosen = frame if probe == "all" else frame[frame["probe"] == probe]
        if form == "json":
            return chosen.to_json(orient="records", indent=1)
        return _csv(chosen)
    tables = pivot(frame, probe)
    if form == "csv":
        return "\n".join(_csv(table) for _, table in tables)
    if form == "latex":
        return "% needs \\usepackage{booktabs}\n" + "\n\n".join(_latex(heading, table) for heading, table in tables)
    texts = [f"**{heading}**\n\n{table.to_markdown(index=False, disable_numparse=True)}\n" for heading, table in tables]
    return "\n".join(texts) + "\n" + legend(frame, texts)


def require_probe(frame: pandas.DataFrame, probe: str) -> None:
    """Refuse a probe that no cell has.

    Raises:
        UserError: naming those that are there.
    """
    there = [kind for kind in KINDS if kind in set(frame["probe"])]
    if probe not in there:
        raise UserError(f"no cell has results by the probe {probe!r}; there are: {', '.join(there) or 'none'}")


def legend(frame: pandas.DataFrame, texts: list[str]) -> str:
    """The footnotes that the tables need: what the marks mean, and where the numbers come from."""
    notes = ["bits: mean over the bits' own probes."] if "bits @" in "".join(texts) else []
    if BELOW in "".join(texts):
        notes.append(f"{BELOW} below the mean of the untrained encoders at the same strength.")
    if NOT_CONVERGED in "".join(texts):
        notes.append(f"{NOT_CONVERGED} the probe did not converge.")
    absent = frame[frame["absent"].astype(object).fillna("") != ""]
    for feature, classes in sorted(set(zip(absent["feature"], absent["absent"], strict=True))):
        notes.append(f"{feature}: classes {classes} are absent from the probe's train split.")
    collapsed = sorted(set(frame[frame["collapsed"].eq(True)]["method"]))
    notes += [f"{name}: collapsed, its features are constant in a cell." for name in collapsed]
    if "planes=" in "".join(texts):
        notes.append(
            "vae planes: once counts each constant bit as one binary variable (default), every-pixel counts all its copies."
        )
    notes += [
        "lbfgs: logistic regression on standardised features, L2 chosen on held-out train samples. online: a dense layer "
        "trained beside the method. sgd: plain SGD on raw features. Last training step, nothing chosen on test data."
    ]
    versions = sorted(
        {f"torch {row.torch} on {row.device}" for row in frame.itertuples() if isinstance(row.torch, str)}
    )
    digests = sorted({digest[:12] for digest in frame["digest"].dropna() if digest})
    seeds = ", ".join(map(str, sorted(set(frame["seed"]))))
    notes.append(f"Seeds {seeds}; data {', '.join(digests)}; {'; '.join(versions)}.")
    return "\n".join(f"- {note}" for note in notes) + "\n"


def _csv(table: pandas.DataFrame) -> str:
    # A text cell must not start a formula in a spreadsheet.
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(table.columns)
    for row in table.itertuples(index=False):
        writer.writerow([_guard(value) for value in row])
    return buffer.getvalue()


def _guard(value):
    value = value.replace("\r", " ") if isinstance(value, str) else value
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t"):
        return "'" + value
    return "" if value is None or value is pandas.NA or (isinstance(value, float) and value != value) else value


def _latex(heading: str, table: pandas.DataFrame) -> str:
    escaped = table.map(_escape)
    escaped.columns = [_escape(column) for column in table.columns]
    style = escaped.style.hide(axis="index")
    return style.to_latex(
        hrules=True, caption=_escape(heading), position="ht", column_format="lll" + "r" * (table.shape[1] - 3)
    )


def _escape(text) -> str:
    for old, new in (("\\", r"\textbackslash{}"), ("&", r"\&"), ("%", r"\%"), ("_", r"\_"), ("#", r"\#"), ("$", r"\$")):
        text = str(text).replace(old, new)
    return text.replace("±", r"$\pm$").replace(BELOW, r"$\blacktriangledown$").replace(NOT_CONVERGED, r"$\dagger$")


def write_csv(frame: pandas.DataFrame, path: Path) -> None:
    """The long table as a file."""
    path.write_text(_csv(frame))
