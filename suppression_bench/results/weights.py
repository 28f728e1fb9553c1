"""The weights of a trained encoder: written when a cell ends, and the encoder built again from them and its record."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from generators import catalog
from generators.dataset import UserError
from suppression_bench.cell import Cell
from suppression_bench.encoder import Encoder
from suppression_bench.results import record as records

NAME = "encoder.safetensors"
MOST = 3  # cells that an error names
SHAPE = "picture_shape"  # the entry of the file's header, "height width channels"


@dataclass(frozen=True)
class Trained:
    """An encoder in evaluation mode on the CPU.

    encoder: with the weights of the last training step.
    image_shape: (height, width, channels) of the images it was trained on, without constant channels.
    spec: of its cell, whose dataset says how many constant channels it takes behind them.
    """

    encoder: Encoder
    image_shape: tuple[int, int, int]
    spec: Cell

    @property
    def bits(self) -> int:
        return self.spec.dataset.bits


def save(encoder: Encoder, path: Path, image_shape: tuple[int, int, int]) -> None:
    """Write the frozen encoder's weights as safetensors, whole or not at all.

    The header holds the images' shape: the record does not, and without it `load` could not build the encoder again.
    """
    from safetensors.torch import save

    tensors = {name: tensor.contiguous().cpu() for name, tensor in encoder.state_dict().items()}
    # One entry only: the order of several is left to chance in the file.
    records.write_atomic(path, save(tensors, metadata={SHAPE: " ".join(map(str, image_shape))}))


def find(run: Path) -> Path:
    """The folder of the one cell of a run that has a trained encoder; a cell's own folder is found as itself.

    Raises:
        UserError: no such folder, no cell with an encoder in it, or several.
    """
    if not run.is_dir():
        raise UserError(f"{run}: no such folder; name a cell's folder or a run's folder that `bench run` wrote")
    recorded = sorted(path.parent for path in run.rglob(records.NAME))
    trained = [folder for folder in recorded if (folder / NAME).is_file()]
    if not recorded:
        raise UserError(
            f"{run}: no {records.NAME} in it; name a cell's folder or a run's folder that `bench run` wrote"
        )
    if not trained:
        raise UserError(f"{run}: none of its cells has {NAME}; {_why(recorded)}")
    if len(trained) > 1:
        listed = "\n".join(f"  {folder}" for folder in trained)
        raise UserError(f"{run}: {len(trained)} of its cells have a trained encoder; name the folder of one:\n{listed}")
    return trained[0]


def _why(folders: list[Path]) -> str:
    # Cells that failed or diverged have no encoder to keep; of the others an older version kept none.
    runs = {folder.name: records.read(folder / records.NAME).run for folder in folders}
    bad = [f"{name}: {run.status} ({run.error})" for name, run in runs.items() if run.status in ("failed", "diverged")]
    if not bad:
        return "run them again, and each keeps its encoder"
    listed = "; ".join(bad[:MOST]) + (f"; and {len(bad) - MOST} more" if len(bad) > MOST else "")
    return f"{listed}; mend the cause or change the settings, and run again"


def load(folder: Path, reference: str | None = None) -> Trained:
    """The encoder of a cell's folder.

    Arguments:
        folder: holds the record and the weights.
        reference: the .py file of the user's own encoder, where the cell has one.

    Raises:
        UserError: weights without a shape, damaged or of another encoder; a user's encoder whose file is not given or
            was edited since.
    """
    spec = records.read(folder / records.NAME).spec
    image_shape, tensors = read(folder / NAME)
    return Trained(build(spec, folder / NAME, image_shape, tensors, reference).eval(), image_shape, spec)


def read(path: Path) -> tuple[tuple[int, int, int], dict[str, Any]]:
    """The images' shape and the tensors of a file of weights.

    Raises:
        UserError: it is damaged, or does not say the shape.
    """
    from safetensors import SafetensorError, safe_open

    remedy = "delete the cell's folder and run the cell again"
    try:
        with safe_open(path, "pt") as file:
            shape = [int(part) for part in (file.metadata() or {}).get(SHAPE, "").split() if part.isdecimal()]
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no dictionary)
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path}: cannot be read ({error}); {remedy}") from None
    if len(shape) != 3:
        raise UserError(f"{path}: does not say the shape of its images; {remedy}")
    return (shape[0], shape[1], shape[2]), tensors


def build(
    spec: Cell, path: Path, image_shape: tuple[int, int, int], tensors: dict[str, Any], reference: str | None = None
) -> Encoder:
    """The encoder of a spec with the tensors of a file.

    Raises:
        UserError: tensors of another encoder; a user's encoder whose file is not given or was edited since.
    """
    name = _reference(spec, reference)
    encoder_class = catalog.load_class("suppression_bench.encoders", name, Encoder)
    encoder = encoder_class(image_shape[0], image_shape[2] + spec.dataset.bits, **spec.encoder.options)
    try:
        encoder.load_state_dict(tensors, strict=True)
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:300]
        raise UserError(f"{path}: these are not the weights of {spec.encoder.name} ({reason})") from None
    return encoder


def _reference(spec: Cell, reference: str | None) -> str:
    # A user's own encoder is known by its file's SHA-256; its path is in no record.
    name, digest = spec.encoder.name, spec.encoder.file
    if digest is None:
        if reference:
            raise UserError(
                f"--encoder {reference}: this cell's encoder is {name}, which is in the package; leave it out"
            )
        return name
    if not reference:
        raise UserError(f"this cell's encoder {name} is a file of your own; name it with --encoder PATH.py")
    if catalog.file_digest("suppression_bench.encoders", reference) != digest:
        raise UserError(f"--encoder {reference}: not the file that the cell was run with (SHA-256 {digest[:12]}...)")
    return reference
