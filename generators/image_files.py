"""Image files of all kinds: decoded and checked by Pillow, turned upright, brought to RGB."""

import io

import numpy as np
from PIL import ExifTags, Image, UnidentifiedImageError

FORMATS = ("JPEG", "PNG", "BMP", "GIF", "PPM", "WEBP", "TIFF")
GREY_16 = ("I", "I;16", "I;16L", "I;16B", "I;16N")
MODES = (*GREY_16, "1", "L", "LA", "La", "P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr")
MAX_PIXELS = 178_956_970  # Pillow's own limit; ours holds where somebody has lifted Pillow's
TOO_LARGE = "is too large (more than 178 million pixels)"
TURNS = {  # EXIF orientation -> what puts the image upright
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


class Unreadable(Exception):
    """Why a file is no image that can be used: half a sentence that follows the file's name."""


def decode(data: bytes, small: bool = False) -> Image.Image:
    """The image (the first, where there are several) of a file's bytes, decoded, in the mode that the file has.

    Arguments:
        data: the file's bytes.
        small: at an eighth of the size where the format allows it (JPEG): the data are still read to their end.

    A file that lacks only bytes behind its last pixel (a PNG's end mark) is whole.

    Raises:
        Unreadable: no bytes, no image of the known formats, too large, damaged, or in a mode that has no RGB form.
    """
    if not data:
        raise Unreadable("is empty")
    try:
        image = Image.open(io.BytesIO(data), formats=FORMATS)
        enormous = image.width * image.height > MAX_PIXELS
        if not enormous:
            if small:
                image.draft(None, (1, 1))
            image.load()
    except Image.DecompressionBombError:
        raise Unreadable(TOO_LARGE) from None
    except UnidentifiedImageError:
        raise Unreadable(f"is not an image in a known format ({', '.join(FORMATS)})") from None
    except Exception as error:  # Pillow's readers raise nearly anything on damaged bytes, SyntaxError too
        raise Unreadable(f"is truncated or damaged ({str(error) or type(error).__name__})") from None
    if enormous:
        raise Unreadable(TOO_LARGE)
    if image.mode not in MODES:
        raise Unreadable(f"has the mode {image.mode}, which has no RGB form here: save it as 8-bit RGB or grey")
    return image


def upright(image: Image.Image) -> Image.Image:
    """The image as its EXIF orientation wants it seen; an EXIF block that cannot be read says nothing.

    Not ImageOps.exif_transpose, which turns alike but copies the image and writes a new EXIF block (and fails on bad ones).
    """
    try:
        orientation = image.getexif().get(ExifTags.Base.Orientation)
    except Exception:  # an image is not lost for its metadata, whatever Pillow raises on them
        return image
    turn = TURNS.get(orientation) if isinstance(orientation, int) else None
    return image if turn is None else image.transpose(turn)


def rgb(image: Image.Image) -> Image.Image:
    """An image of any of `MODES` as RGB: grey repeated, alpha dropped, 16-bit grey to its upper 8 bits.

    The mode I holds 32 bits, but readers fill it with 16-bit grey: what lies beyond after the shift is clipped to 0..255.

    >>> rgb(Image.new("L", (1, 1), 7)).getpixel((0, 0))
    (7, 7, 7)
    """
    if image.mode in GREY_16:
        grey = np.clip(np.asarray(image).astype(np.int64) >> 8, 0, 255)
        image = Image.fromarray(grey.astype(np.uint8))
    if image.mode == "La":
        image = image.convert("LA")
    if image.mode in ("P", "PA", "RGBa"):
        image = image.convert("RGBA")
    return image.convert("RGB")
