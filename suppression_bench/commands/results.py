"""Commands that render finished runs: table, plot, report, localize."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from generators.dataset import UserError
from suppression_bench.commands.shared import AT_LEAST_ONE

MOST_IMAGES = 20  # on a sheet of label maps


def table(
    runs: list[Path],
    /,
    *,
    form: Annotated[Literal["markdown", "csv", "latex", "json", "html"] | None, Parameter(name="--format")] = None,
    probe: Literal["all", "lbfgs", "online", "sgd"] = "all",
    paper: bool = False,
    long: bool = False,
    metrics: bool = False,
    summary: bool = False,
    out: Path | None = None,
) -> int:
    """Print results: one row per method and probe, columns by feature and strength.

    Arguments:
        runs: folders that `bench run` wrote, single cells, or .jsonl files of records, in any mix.
        form: how to print it (default: markdown).
        probe: which probe.
        paper: the published value and the difference beside each cell.
        long: one line per cell, probe and feature (csv or json).
        metrics: k-NN, alignment, uniformity and so on (markdown).
        summary: retention, suppression index, score (markdown).
        out: write to a file in place of printing.
    """
    for flag, chosen in (("--metrics", metrics), ("--summary", summary)):
        if chosen and (long or form not in (None, "markdown")):
            raise UserError(f"bench table: {flag} is printed as markdown; leave --long and --format out")
    if metrics and summary:
        raise UserError("bench table: give one of --metrics and --summary")
    if metrics and probe != "all":
        raise UserError("bench table: --metrics are of the features, not of a probe; leave --probe out")
    if summary and paper:
        raise UserError("bench table: the papers print no such summary; leave --paper or --summary out")
    from suppression_bench.results import frame, tables

    study = frame.read(runs)
    form = form or ("csv" if long else "markdown")
    if metrics:
        text = tables.metrics_tables(study, paper).markdown()
    elif summary:
        text = tables.suppression_tables(study, probe).markdown()
    elif long or form == "json":
        text = tables.long_text(study, form, probe, paper)
    else:
        text = tables.accuracy_tables(study, probe, paper).text(form)
    if out:
        out.write_text(text, encoding="utf-8")
    else:
        print(text)
    return 0


def plot(
    runs: list[Path],
    /,
    *,
    kind: Literal["curves", "trade-off", "learning", "temperature", "align-uniform"] | None = None,
    out: Path | None = None,
    probe: Literal["lbfgs", "online", "sgd"] | None = None,
) -> int:
    """Draw a figure: suppression curves, trade-offs, learning orders or metrics.

    Arguments:
        runs: folders that `bench run` wrote, or .jsonl files of records.
        kind: which figure (default: curves, or the first that these records allow).
        out: a .png or .svg file (default: KIND.png).
        probe: which probe (default: lbfgs).
    """
    if out:
        _require_ending("plot", out, ".png", ".svg")
    from suppression_bench.results import figures, frame

    study = frame.read(runs)
    possible = [kind] if kind else figures.drawable(study)
    if not possible:
        raise UserError(
            "bench plot: nothing can be drawn from these records, not even curves, which need results at two strengths; "
            "`bench plot RUNS --kind KIND` says what a kind needs"
        )
    name = possible[0]
    out = out or Path(f"{name}.png")
    if probe and not figures.KINDS[name].by_probe:
        raise UserError(f"bench plot: --kind {name} shows the probe that its records name; leave --probe out")
    figures.draw(study, name, out, probe)
    print(f"written: {out}")
    return 0


def report(runs: list[Path], /, *, out: Path = Path("report.html")) -> int:
    """Write one page with tables, figures, settings and provenance; it opens without a network.

    Arguments:
        runs: folders that `bench run` wrote, single cells, or .jsonl files of records.
        out: a .html file.
    """
    _require_ending("report", out, ".html", ".htm")
    from suppression_bench.results import frame
    from suppression_bench.results.report import render

    out.write_text(render(frame.read(runs)), encoding="utf-8")
    print(f"written: {out}")
    return 0


def localize(
    run: Path,
    /,
    *,
    images: Path,
    clusters: tuple[int, ...] = (2, 5, 10),
    stages: tuple[int, ...] | None = None,
    limit: Annotated[int, AT_LEAST_ONE] = 5,
    out: Path = Path("localize.png"),
    encoder: str | None = None,
) -> int:
    """Draw k-means label maps of an encoder's stages beside the images and their raw patches.

    The positions of all images are clustered together, on l2-normalised features; labels run from dark to bright.

    Arguments:
        run: a cell's folder, or a run's folder with one trained encoder.
        images: a folder of .png and .jpg images, or a generated dataset's folder.
        clusters: each k of k-means.
        stages: numbers from 1 (default: the last three).
        limit: how many images, spread over the folder (at most 20).
        out: a .png or .svg file.
        encoder: the .py file of an encoder of your own.
    """
    if limit > MOST_IMAGES:
        raise UserError(f"bench localize: --limit {limit}: a sheet shows at most {MOST_IMAGES} images")
    _require_ending("localize", out, ".png", ".svg")
    import torch

    from suppression_bench.evaluation import label_sheet
    from suppression_bench.evaluation.localize import localize as label_maps
    from suppression_bench.evaluation.localize import read_images
    from suppression_bench.results import weights

    folder = weights.find(run)
    model = weights.load(folder, encoder)
    shown = read_images(images, limit, model.image_shape)
    tensor = torch.from_numpy(shown.images).permute(0, 3, 1, 2).float() / 255
    ks = list(dict.fromkeys(clusters))
    maps = label_maps(model.encoder, tensor, model.bits, list(stages) if stages else None, ks)
    side = model.image_shape[0]
    title = f"{folder.resolve().name} ({model.spec.encoder.name}, {model.spec.dataset.name}, {side} px)"
    note = (
        "k-means over all positions of these pictures together; a cluster's colour is the darker, the darker the "
        "pixels below it."
    )
    if model.bits:
        note += f" The encoder's {model.bits} constant channels are fed as 0."
    label_sheet.draw(shown.images, shown.names, maps, title, note, out)
    print(f"written: {out}")
    return 0


def _require_ending(command: str, out: Path, *endings: str) -> None:
    if out.suffix not in endings:
        raise UserError(f"bench {command}: --out {out} must end in {' or '.join(endings)}")
