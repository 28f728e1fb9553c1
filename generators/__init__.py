"""Datasets with competing features: drawn from named randomness, written as webdataset shards with a manifest."""
