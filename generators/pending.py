"""Pending work of sources, under the name that other rooms still use."""

from generators.sources import pending

__all__ = ["pending"]
