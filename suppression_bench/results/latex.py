"""Tables as LaTeX with booktabs' rules: what a paper pastes, never wider than its text, the notes below the last one."""

import re

import pandas

from suppression_bench.results.pivot import BELOW, NOT_CONVERGED

NEEDS = "% needs \\usepackage{booktabs,amssymb,adjustbox}\n"
SPECIAL = {
    **{one: "\\" + one for one in "&%_#${}"}, "\\": r"\textbackslash{}", "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}", "<": "$<$", ">": "$>$", "|": r"\textbar{}",
    "±": r"$\pm$", BELOW: r"$\blacktriangledown$", NOT_CONVERGED: r"$\dagger$",
}  # fmt: skip


def document(headings: list[str], texts: list[pandas.DataFrame], notes: list[str]) -> str:
    """One `table` environment a heading; cells are escaped by the caller, so that they can hold commands.

    The notes stand inside the last environment: outside they would stay behind when the table floats.
    """
    inside = [_table(heading, cells) for heading, cells in zip(headings, texts, strict=True)]
    below = "\n".join(rf"\par\noindent{{\footnotesize {_commands(note)}}}" for note in notes)
    inside[-1] += f"\n\n\\raggedright\\smallskip\n{below}"
    return NEEDS + "\n\n".join(f"\\begin{{table}}[ht]\n{block}\n\\end{{table}}" for block in inside) + "\n"


def escape(text: str) -> str:
    r"""The text with LaTeX's own characters made harmless.

    >>> escape("50 %")
    '50 \\%'
    """
    return text.translate(str.maketrans(SPECIAL))


def bold(escaped: str) -> str:
    """A cell that is already escaped, in bold."""
    return rf"\textbf{{{escaped}}}"


def _table(heading: str, cells: pandas.DataFrame) -> str:
    columns = "lll" + "r" * (len(cells.columns) - 3)
    tabular = cells.style.hide(axis="index").to_latex(hrules=True, column_format=columns)
    # Twelve columns are wider than any page: the box shrinks those and leaves the narrow ones alone.
    box = f"\\begin{{adjustbox}}{{max width=\\textwidth}}\n{tabular}\\end{{adjustbox}}"
    return f"\\caption{{{escape(heading)}}}\n\\centering\n{box}"


def _commands(note: str) -> str:
    return re.sub(r"`([^`]*)`", r"\\texttt{\1}", escape(note))
