"""Datasets with competing features: drawn from named randomness, written as webdataset shards with a manifest."""

from generators.opened import open_folder as open

__all__ = ["open"]
