"""Leaves: ten classes of textured "dead leaves" images, drawn in integers and the same on every machine."""

import hashlib
import math
from functools import lru_cache

import numpy as np

from generators.dataset import UserError
from generators.randomness import Stream, stream_key
from generators.sources import ImageSource

VERSION = 1
SIDE = 64
PARTS = {"train": 1000, "test": 200}  # images of each class
LEAVES_SHA256 = "bb9c5ef4c9b4d5f23e9c5c9a59f3ed1452f1e6adcafae30f9d6b8f238dcfa352"

# Shape, texture, palette, orientation. Any two classes differ in two factors or more and every value serves several
# classes, so that no factor alone tells the class. An image and its mirror image are of one class.
CLASSES = (
    "discs-smooth-warm-slanted",
    "discs-smooth-green-lying",
    "discs-rough-warm-lying",
    "discs-rough-cool-slanted",
    "boxes-smooth-green-upright",
    "boxes-rough-warm-upright",
    "boxes-rough-cool-lying",
    "shards-smooth-warm-upright",
    "shards-smooth-green-slanted",
    "shards-rough-cool-upright",
)
SHAPES = ("discs", "boxes", "shards")
AREA = {"discs": 256, "boxes": 226, "shards": 300}  # the half axes are scaled by these / 256, to cover alike
# Weight of each octave of noise, from 4 cells a side to 512: steep and shallow spectra of about equal contrast.
OCTAVES = {"smooth": (40, 52, 34, 14, 6, 3, 2, 1), "rough": (14, 16, 26, 40, 46, 40, 30, 20)}
PALETTES = {  # four anchors each, near colours of soil and autumn, of water and stone, of grass and moss
    "warm": ((196, 118, 62), (134, 62, 42), (226, 190, 132), (84, 58, 44)),
    "cool": ((62, 96, 142), (128, 160, 176), (46, 62, 92), (190, 198, 206)),
    "green": ((92, 122, 52), (152, 158, 84), (50, 72, 42), (186, 184, 126)),
}
ORIENTATIONS = {"lying": 0, "slanted": 12, "upright": 24}  # in turns / 96
STRAY_SHAPES, STRAY_COLOURS, STRAY_ANGLES = 30, 36, 20  # percent of an image's leaves that follow another value

UNIT_BITS = 14  # the scene is 2^14 units wide at every resolution
SIDE_UNITS = 1 << UNIT_BITS
SMALLEST, LARGEST = SIDE_UNITS // 28, SIDE_UNITS // 3  # long half axis of a leaf
FEWEST, MOST = 40, 110  # leaves in an image
TURN = 96
# Rounded, hence the same integers whatever the last bit of the platform's cosine.
COSINE = np.array([round(1024 * math.cos(2 * math.pi * k / TURN)) for k in range(TURN)], dtype=np.int32)
SINE = np.roll(COSINE, TURN // 4)

# One constant per decision: never renumber, a later decision takes the next number.
COUNT, SIZE, ASPECT, ROW, COLUMN, SHAPE, SIDEWAYS, LEAN, ANGLE, STRAY_ANGLE, FLIP = range(11)
PALETTE, ANCHOR, MIX, LIGHT, ILLUMINANT, SATURATION, HAZE, CONTRAST, TINT, PHASE, ZOOM = range(11, 22)
OCTAVE = 100  # octave 2^l of the texture takes OCTAVE + l


class Leaves(ImageSource):
    """Occluding textured leaves of random sizes over a textured ground; a class is shape x texture x palette x tilt.

    Reference: Lee, Mumford & Huang (IJCV 2001), the dead leaves model of natural images; Baradad et al. (NeurIPS
    2021), "Learning to See by Looking at Noise", which trains encoders on such images. A scene is a list of leaves
    in integer coordinates, so a larger side shows the same leaves in more detail.

    Arguments:
        location: nothing; the images are computed.

    >>> leaves = Leaves()
    >>> leaves.image("test", 3, side=64).shape, leaves.classes[leaves.labels["test"][3]]
    ((64, 64, 3), 'discs-smooth-warm-slanted')
    """

    name = "leaves"
    licence = "CC0 1.0 (generated)"
    side = SIDE

    def __init__(self, location: str = ""):
        if location:
            raise UserError(f"leaves:{location}: the leaves are computed and lie in no folder; write leaves")
        self.digest = _checked_digest(LEAVES_SHA256)
        self.classes = list(CLASSES)
        self.labels = {part: np.repeat(np.arange(len(CLASSES), dtype=np.int64), each) for part, each in PARTS.items()}

    def image(self, part: str, index: int, side: int) -> np.ndarray:
        """Image `index` of a part, drawn at (side, side, 3) uint8 for a side of 16 to 512 pixels; a new array.

        Raises:
            UserError: a side outside 16..512.
            IndexError: no such image.
        """
        if not 16 <= side <= 512:
            raise UserError(f"leaves are drawn with a side of 16 to 512 pixels, not {side}")
        if not 0 <= index < len(CLASSES) * PARTS[part]:
            raise IndexError(f"leaves has no {part} image {index}: 0 to {len(CLASSES) * PARTS[part] - 1}")
        return _draw(part, index, side)


@lru_cache(maxsize=2)
def _checked_digest(expected: str) -> str:
    # The pixels of a few images stand for all: their classes have every shape, texture, palette and orientation.
    digest = hashlib.sha256(f"leaves {VERSION}".encode())
    for part, index in (("train", 0), ("train", 6100), ("train", 9999), ("test", 900), ("test", 1700)):
        digest.update(_draw(part, index, SIDE).tobytes())
    if digest.hexdigest() != expected:
        raise UserError(
            f"leaves: the images drawn here have the SHA-256 {digest.hexdigest()[:12]}..., expected {expected[:12]}"
            f"...; numpy {np.__version__} gives other images here, install another version"
        )
    return expected


def _draw(part: str, index: int, side: int) -> np.ndarray:
    # Drawn at twice the side and averaged 2x2, so that outlines are smooth.
    stream = Stream(stream_key("leaves", VERSION, part, 0), index)
    shape, texture, palette, orientation = CLASSES[index // PARTS[part]].split("-")
    count = FEWEST + int(stream.below(COUNT, MOST - FEWEST + 1, 1)[0])
    angles = _angles(stream, count, ORIENTATIONS[orientation])
    owner = _outlines(stream, count, 2 * side, SHAPES.index(shape), angles)
    grain = _grain(stream, count, owner, angles, OCTAVES[texture])
    base, gain = _colours(stream, count, palette)
    image = np.empty((side, side, 3), dtype=np.uint8)
    for channel in range(3):
        fine = base[channel].take(owner) + ((grain * gain[channel].take(owner)) >> 8)
        np.clip(fine, 0, 255, out=fine)
        rows = fine[0::2] + fine[1::2]
        image[:, :, channel] = (rows[:, 0::2] + rows[:, 1::2] + 2) >> 2
    return image


def _angles(stream: Stream, count: int, angle: int) -> np.ndarray:
    # Angle of each leaf in turns / TURN, (count + 1,): the class's, leaning with the image and scattered by leaf.
    # Row 0 is the ground, here and below.
    if stream.below(SIDEWAYS, 2, 1)[0]:
        angle = -angle
    lean = int(stream.below(LEAN, 9, 1)[0]) - 4
    scatter = stream.below(ANGLE, 9, 2 * count + 2).reshape(2, -1).sum(0) - 8
    stray = stream.below(STRAY_ANGLE, 100 * TURN, count + 1)
    angles = np.where(stray % 100 < STRAY_ANGLES, stray // 100, angle + lean + scatter)
    return (angles + TURN // 2 * stream.below(FLIP, 2, count + 1)) % TURN


def _outlines(stream: Stream, count: int, resolution: int, shape: int, angles: np.ndarray) -> np.ndarray:
    # The leaf that is seen at each point, (resolution, resolution) int32: 0 for the ground, later leaves on top.
    # Long half axes have the density 1 / r^2 (their areas' tail is a power law too): many small, few large.
    long = SMALLEST * LARGEST // (LARGEST - stream.below(SIZE, LARGEST - SMALLEST, count))
    stray = stream.below(SHAPE, 300, count)
    kinds = np.where(stray < 3 * STRAY_SHAPES, stray % 3, shape)
    long = long * np.array([AREA[name] for name in SHAPES])[kinds] >> 8
    short = long * (100 + stream.below(ASPECT, 100, count)) >> 8
    cosine, sine = COSINE[angles[1:]], SINE[angles[1:]]
    wide = (np.abs(cosine) * long + np.abs(sine) * short) >> 10
    high = (np.abs(sine) * long + np.abs(cosine) * short) >> 10
    column, row = stream.below(COLUMN, SIDE_UNITS, count), stream.below(ROW, SIDE_UNITS, count)
    boxes = [np.clip(edge, 0, SIDE_UNITS) * resolution >> UNIT_BITS for edge in (row - high, column - wide)]
    boxes += [-(np.clip(-edge, -SIDE_UNITS, 0) * resolution >> UNIT_BITS) for edge in (row + high, column + wide)]
    # Coordinates along and across a leaf, 2^26 at its ends: they stay below 2^31 over its box.
    slopes = [(part << 16) // axis for axis in (long, short) for part in (cosine.astype(np.int64), sine)]
    owner = np.zeros((resolution, resolution), dtype=np.int32)
    centres = _centres(resolution)
    rows = np.stack([*boxes, row, column, kinds, *slopes], axis=1).tolist()
    for leaf, (top, left, bottom, right, y, x, kind, *slope) in enumerate(rows, start=1):
        inside = _inside(centres[left:right] - x, centres[top:bottom, None] - y, kind, slope)
        owner[top:bottom, left:right][inside] = leaf
    return owner


def _inside(x: np.ndarray, y: np.ndarray, kind: int, slope: list[int]) -> np.ndarray:
    # Which points (y, x), in units from the leaf's centre, lie in it: x (w,), y (h, 1) -> (h, w) bool.
    along = (x * slope[0] + y * slope[1]) >> 14
    across = (y * slope[2] - x * slope[3]) >> 14
    if SHAPES[kind] == "discs":
        return along * along + across * across <= 1 << 24
    np.abs(across, out=across)
    if SHAPES[kind] == "boxes":
        return np.maximum(np.abs(along), across) <= 1 << 12
    return (2 * across + along <= 1 << 12) & (along >= -(1 << 12))


def _centres(resolution: int) -> np.ndarray:
    # Centres of the points in units, (resolution,) int32.
    return ((2 * np.arange(resolution) + 1) * SIDE_UNITS // (2 * resolution)).astype(np.int32)


def _grain(stream: Stream, count: int, owner: np.ndarray, angles: np.ndarray, octaves: tuple[int, ...]) -> np.ndarray:
    # Each leaf reads the image's one texture at a point, angle and zoom of its own, two times longer than wide.
    resolution = len(owner)
    bits = (resolution - 1).bit_length()
    texture = _texture(stream, octaves, bits)
    phase = stream.below(PHASE, 1 << 24, 2 * count + 2).reshape(2, -1).astype(np.int32)
    zoom = stream.below(ZOOM, 128, count + 1).astype(np.int32) + 160
    centres, shift, last = _centres(resolution), 10 + UNIT_BITS - bits, (1 << bits) - 1
    cosine, sine = COSINE[angles] * zoom >> 8, SINE[angles] * zoom >> 8
    along = (cosine >> 1).take(owner) * centres + (sine >> 1).take(owner) * centres[:, None] + phase[0].take(owner)
    across = cosine.take(owner) * centres[:, None] - sine.take(owner) * centres + phase[1].take(owner)
    return texture.take((((across >> shift) & last) << bits) + ((along >> shift) & last))


def _texture(stream: Stream, octaves: tuple[int, ...], bits: int) -> np.ndarray:
    # A torus of 2^bits texels a side, int32: octaves of lattice noise, each enlarged by doubling (quadratic splines).
    # The finest octave has cells of two texels, so a larger texture is the smaller one with finer octaves added.
    field = np.zeros((2, 2), dtype=np.int32)
    for level in range(2, bits + 1):
        field = _doubled(_doubled(field).T).T
        if level < bits:
            noise = stream.words(OCTAVE + level, 4**level // 8).astype("<u8").view(np.uint8).reshape(2**level, -1)
            field += (noise.astype(np.int32) - 128) * octaves[level - 2]
    return field >> 6


def _doubled(field: np.ndarray) -> np.ndarray:
    # Twice the rows, each 3/4 of the nearest and 1/4 of the next one, around the torus.
    fine = np.empty((2 * len(field), field.shape[1]), dtype=np.int32)
    fine[0::2] = (3 * field + np.roll(field, 1, axis=0) + 2) >> 2
    fine[1::2] = (3 * field + np.roll(field, -1, axis=0) + 2) >> 2
    return fine


def _colours(stream: Stream, count: int, palette: str) -> tuple[np.ndarray, np.ndarray]:
    # Mean colour and strength of the texture (256 = as it is) by channel and leaf, each (3, count + 1) int32.
    anchors = np.array(list(PALETTES.values()))  # (3, 4, 3)
    family, stray = list(PALETTES).index(palette), stream.below(PALETTE, 300, count + 1)
    families = np.where(stray < 3 * STRAY_COLOURS, stray % 3, family)
    pair, mix = stream.below(ANCHOR, 4, 2 * count + 2).reshape(2, -1), stream.below(MIX, 257, count + 1)[:, None]
    colour = (anchors[families, pair[0]] * mix + anchors[families, pair[1]] * (256 - mix)) >> 8  # (count + 1, 3)
    grey = colour.sum(1, keepdims=True) // 3
    colour = grey + ((colour - grey) * (110 + stream.below(SATURATION, 140, 1)) >> 8)
    light = 150 + stream.below(LIGHT, 150, count + 1)[:, None]
    illuminant = 216 + stream.below(ILLUMINANT, 81, 3)
    colour = (colour * light * illuminant >> 16) + stream.below(HAZE, 30, 1)
    contrast = 100 + stream.below(CONTRAST, 220, count + 1)[:, None]
    tint = 200 + stream.below(TINT, 113, 3 * count + 3).reshape(-1, 3)
    return colour.T.astype(np.int32), (contrast * tint >> 8).T.astype(np.int32)
