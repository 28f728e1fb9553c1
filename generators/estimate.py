"""Sizes of datasets, under the name that other rooms still use."""

from generators.build import expected_bytes
from generators.build import size_text as words

__all__ = ["expected_bytes", "words"]
