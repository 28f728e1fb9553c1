"""Contact sheets, under the name that other rooms still use."""

from generators.describe import positions, save, sheet, tiles_of_dataset, tiles_of_folder

__all__ = ["positions", "save", "sheet", "tiles_of_dataset", "tiles_of_folder"]
