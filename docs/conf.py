"""Sphinx: the pages of this folder as they stand, Markdown by MyST."""

project = "suppression-bench"
author = "the suppression-bench contributors"
copyright = author
extensions = ["myst_parser"]
root_doc = "index"
exclude_patterns = ["results"]  # records
myst_heading_anchors = 3
suppress_warnings = ["myst.xref_missing", "toc.not_included"]  # links to files beside docs/, as GitHub shows them
html_theme = "alabaster"
