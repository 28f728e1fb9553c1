"""Registered datasets, under the name that other rooms still use."""

from generators.manifest import registered as entries
from generators.manifest import registered_as as describe

__all__ = ["describe", "entries"]
