"""The weights of a trained encoder: written when a cell ends, and the encoder built again from them and its record."""

from dataclasses import dataclass
from pathlib import Path

from generators import catalog
from generators.dataset import UserError
from suppression_bench.encoder import Encoder
from suppression_bench.results import record as records

NAME = "encoder.safetensors"
MOST = 3  # cells that an error names
SHAPE = "picture_shape"  # the entry of the weights' header, "height width channels"


@dataclass(frozen=True)
class Trained:
    """An encoder in evaluation mode on the CPU.

    encoder: with the weights of the last training step.
    image_shape: (height, width, channels) of the pictures it was trained on, without constant channels.
    bits: number of constant channels that it takes behind them.
    spec: of its cell.
    """

    encoder: Encoder
    image_shape: tuple[int, int, int]
    bits: int
    spec: dict


def find(run: Path) -> Path:
    """The folder of the one cell of a run that has a trained encoder; a cell's own folder is found as itself.

    Raises:
        UserError: no such folder, no cell with an encoder in it, or several.
    """
    if not run.is_dir():
        raise UserError(f"{run}: no such folder; name a cell's folder or a run's folder that `bench run` wrote")
    recorded = sorted(path.parent for path in run.rglob(records.NAME))
    found = [folder for folder in recorded if (folder / NAME).is_file()]
    if not recorded:
        raise UserError(
            f"{run}: no {records.NAME} in it; name a cell's folder or a run's folder that `bench run` wrote"
        )
    if not found:
        raise UserError(f"{run}: none of its cells has {NAME}; {_why(recorded)}")
    if len(found) > 1:
        listed = "\n".join(f"  {folder}" for folder in found)
        raise UserError(f"{run}: {len(found)} of its cells have a trained encoder; name the folder of one:\n{listed}")
    return found[0]


def _why(folders: list[Path]) -> str:
    # Cells that failed or diverged have no encoder to keep; of the others an older version kept none.
    ended = [records.read(folder / records.NAME)["run"] for folder in folders]
    bad = [
        f"{folder.name}: {one['status']} ({one['error']})"
        for folder, one in zip(folders, ended, strict=True)
        if one["status"] in ("failed", "diverged")
    ]
    if not bad:
        return "run them again, and each keeps its encoder"
    listed = "; ".join(bad[:MOST]) + (f"; and {len(bad) - MOST} more" if len(bad) > MOST else "")
    return f"{listed}; mend the cause or change the settings, and run again"


def load(folder: Path, manifest: dict | None = None, reference: str | None = None) -> Trained:
    """The encoder of a cell's folder.

    Arguments:
        folder: holds the record and the weights.
        manifest: of a dataset; weights written before their header told the pictures' shape take it from here, if the
            cell was trained on this very dataset.
        reference: the .py file of the user's own encoder, where the cell has one.

    Raises:
        UserError: weights without a shape, damaged or of another encoder; a user's encoder whose file is not given or
            was edited since.
    """
    from safetensors import SafetensorError, safe_open

    path, spec = folder / NAME, records.read(folder / records.NAME)["spec"]
    try:
        with safe_open(path, "pt") as file:
            written = (file.metadata() or {}).get(SHAPE, "")
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no dictionary)
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path}: cannot be read ({error}); delete the cell's folder and run the cell again") from None
    parts = written.split()
    if len(parts) == 3 and all(part.isdecimal() for part in parts):
        image_shape = (int(parts[0]), int(parts[1]), int(parts[2]))
    elif manifest and manifest["content_digest"] == spec["data"]["digest"]:
        image_shape = tuple(manifest["picture_shape"])
    else:
        raise UserError(
            f"{path}: does not say the shape of its pictures (an older version wrote it); let --images name the dataset "
            "folder that it was trained on, or delete the cell's folder and run the cell again"
        )
    bits = spec["data"]["bits"]
    encoder_class = catalog.load_class("suppression_bench.encoders", _reference(spec, reference), Encoder)
    encoder = encoder_class(image_shape[0], image_shape[2] + bits, **spec["encoder"]["options"])
    try:
        encoder.load_state_dict(weights, strict=True)
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:300]
        raise UserError(f"{path}: these are not the weights of {spec['encoder']['name']} ({reason})") from None
    return Trained(encoder.eval(), image_shape, bits, spec)


def _reference(spec: dict, given: str | None) -> str:
    # A user's own encoder is known by its file's SHA-256; its path is in no record.
    package, name, digest = "suppression_bench.encoders", spec["encoder"]["name"], spec["encoder"].get("file")
    if digest is None:
        if given:
            raise UserError(f"--encoder {given}: this cell's encoder is {name}, which is in the package; leave it out")
        return name
    if not given:
        raise UserError(f"this cell's encoder {name} is a file of your own; name it with --encoder PATH.py")
    if catalog.file_digest(package, given) != digest:
        raise UserError(f"--encoder {given}: not the file that the cell was run with (SHA-256 {digest[:12]}...)")
    return given
