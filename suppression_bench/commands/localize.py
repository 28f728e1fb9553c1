"""Draw what an encoder's stages hold alike: bench localize RUN --images DIR --clusters 2 5 10 --out sheet.png."""

from pathlib import Path

from generators import manifest
from generators.dataset import UserError
from suppression_bench.commands._parser import Parser

MOST = 20


def run(arguments: list[str]) -> int:
    """k-means label maps of intermediate features beside the pictures and their raw patches."""
    flags = _flags(arguments)
    import torch

    from suppression_bench import trained
    from suppression_bench.evaluation import localize
    from suppression_bench.results import label_sheet

    folder, images = trained.find(Path(flags.run)), Path(flags.images)
    model = trained.load(folder, manifest.read(images) if localize.is_dataset(images) else None, flags.encoder)
    shown = localize.read_images(images, flags.limit, model.image_shape)
    tensor = torch.from_numpy(shown.images).permute(0, 3, 1, 2).float() / 255
    maps = localize.localize(model.encoder, tensor, model.bits, flags.stages, flags.clusters)
    side = model.image_shape[0]
    title = f"{folder.resolve().name} ({model.spec['encoder']['name']}, {model.spec['data']['dataset']}, {side} px)"
    label_sheet.draw(shown.images, shown.names, maps, title, _note(model.bits), Path(flags.out))
    print(f"written: {flags.out}")
    return 0


def _flags(arguments: list[str]):
    parser = Parser(
        "localize",
        "k-means label maps of an encoder's l2-normalised stages beside the pictures and their raw patches; the "
        "positions of all pictures are clustered together, labels run from dark to bright.",
    )
    parser.add_argument("run", type=str, help="a cell's folder, or a run's folder with one trained encoder")
    parser.add_argument(
        "--images", type=str, required=True, help="a folder of .png and .jpg pictures, or a generated dataset's folder"
    )
    parser.add_argument("--clusters", type=int, nargs="+", default=[2, 5, 10], help="each k of k-means")
    parser.add_argument("--stages", type=int, nargs="+", default=None, help="numbers from 1 (default: the last three)")
    parser.add_argument(
        "--limit", type=int, default=5, help=f"how many pictures, spread over the folder (at most {MOST})"
    )
    parser.add_argument("--out", type=str, default="localize.png", help="a .png or .svg file")
    parser.add_argument("--encoder", type=str, default=None, help="the .py file of an encoder of your own")
    flags = parser.read(arguments)
    parser.require_positive(flags, "limit")
    if flags.limit > MOST:
        raise UserError(f"bench localize: --limit {flags.limit}: a sheet shows at most {MOST} pictures")
    if Path(flags.out).suffix not in (".png", ".svg"):
        raise UserError(f"bench localize: --out {flags.out} must end in .png or .svg")
    flags.clusters = list(dict.fromkeys(flags.clusters))
    return flags


def _note(bits: int) -> str:
    note = "k-means over all positions of these pictures together; a cluster's colour is the darker, the darker the "
    note += "pixels below it."
    return note + (f" The encoder's {bits} constant channels are fed as 0." if bits else "")
