"""Checked folders, under the name that other rooms still use."""

from generators.inspect import check_shards as check_folder

__all__ = ["check_folder"]
