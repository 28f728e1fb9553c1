"""Cards of datasets, under the name that other rooms still use."""

from generators.describe import card, table
from generators.describe import write_card as write

__all__ = ["card", "table", "write"]
