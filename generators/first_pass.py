"""Decoding of image files, under the name that other rooms still use."""

from generators.image_files import Unreadable, decode

__all__ = ["Unreadable", "decode"]
