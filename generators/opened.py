"""Opened folders, under the name that other rooms still use."""

from generators.inspect import Opened, open_folder

__all__ = ["Opened", "open_folder"]
