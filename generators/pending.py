"""What opening a source of pictures would first have to do: a download, or a pass over every file of a folder."""

from generators import catalog
from generators.image_source import ImageSource
from generators.sources import MNIST_FILES, data_root


def pending(name: str) -> str:
    """What would come before the first picture of a source, as half a sentence; "" where nothing would.

    Arguments:
        name: as of `--digit-source` or `--image-source`.

    >>> pending("optdigits"), pending("leaves")
    ('', '')
    """
    kind, _, place = name.partition(":")
    if name == "mnist":
        folder = data_root() / "MNIST" / "raw"
        here = all((folder / file).is_file() or (folder / f"{file}.gz").is_file() for file in MNIST_FILES)
        return "" if here else "MNIST would be downloaded first (12 MB; mnist:DIR names a folder that has it)"
    if place and kind.replace("_", "-") in catalog.names("generators.image_sources"):
        return catalog.load_class("generators.image_sources", kind, ImageSource).pending(place)
    return ""
