"""Image sources, under the name that other rooms still use."""

from generators.sources import ImageSource

__all__ = ["ImageSource"]
