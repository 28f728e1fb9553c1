"""Datasets with competing features: drawn from named randomness, written as webdataset shards with a manifest.

>>> import tempfile, generators
>>> from generators import catalog
>>> with tempfile.TemporaryDirectory() as folder:
...     manifest = generators.build(catalog.dataset("randbit", {"train": 3, "test": 2}), folder)
...     image, labels = generators.open(folder)[0]
>>> image.shape, sorted(labels)
((28, 28, 1), ['code', 'digit'])
"""

from generators.build import build
from generators.dataset import ConstantChannels, Dataset, Feature, Sample, UserError
from generators.inspect import open_folder as open

__all__ = ["ConstantChannels", "Dataset", "Feature", "Sample", "UserError", "build", "open"]
