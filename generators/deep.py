"""Samples drawn anew, under the name that other rooms still use."""

from generators import inspect
from generators.inspect import REDRAWN_SAMPLES as SAMPLES
from generators.inspect import redraw


def dataset_of(found, reference=None, sources=None):
    """`inspect.dataset_of` of a manifest."""
    return inspect.dataset_of(found["dataset"], found["options"], reference, sources)


__all__ = ["SAMPLES", "dataset_of", "redraw"]
