"""``sgfi coordinates``: every token or cell of a tensor inverted, and, independently, intervened on."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import torch
import typer

from sgfi.cli import options
from sgfi.cli.decisions import (
    Calibration,
    Correct,
    Count,
    Depth,
    Experiment,
    Inputs,
    OutFolder,
    Show,
    calibration_means,
    free_folder,
    model_name,
    read_experiment,
    shown_inputs,
    studied_inputs,
    typed_command,
    write_json,
)
from sgfi.cli.loading import OpenEstimator, open_estimator
from sgfi.cli.outcomes import command, say
from sgfi.decisions import CoordinateSettings, CoordinateStudy, coordinate_study


@command
def coordinates(
    maps: options.Source,
    data: Inputs,
    out: OutFolder = Path("coordinates"),
    calibration: Calibration = None,
    experiment: Experiment = None,
    depth: Depth = None,
    prefix: Annotated[int | None, typer.Option(help="Tokens before the patches; default: inferred.")] = None,
    protocol: Annotated[str | None, typer.Option(help="What an edited cell becomes: zero or mean.")] = None,
    chunk: Annotated[int | None, typer.Option(help="Queries stacked at a time, where memory is short.")] = None,
    count: Count = 4,
    correct: Correct = False,
    show: Show = None,
    batch_size: options.BatchSize = 16,
    model: options.ModelOverride = None,
    weights: options.WeightsOverride = None,
    size: options.SourceSize = None,
    force: options.Force = False,
    quiet: options.Quiet = False,
) -> None:
    """Invert every token or cell on its own, measure its support, and zero every cell of the original.

    Writes results.json, tables.md, queries.png, support.png and cells.png. No inverse is fed back to the model.

    Examples:

      sgfi coordinates maps/vit heldout/ --count 8

      sgfi coordinates maps/vit heldout/ --depth blocks.0 --depth blocks.6 --depth norm --show cat.jpg

      sgfi coordinates maps/resnet18 heldout/ --depth layer3.1.add --protocol mean
    """
    folder = free_folder(out, force)
    given = {"depths": tuple(depth) if depth else None, "prefix": prefix, "protocol": protocol, "chunk": chunk}
    declared = {**read_experiment(experiment), **{k: v for k, v in given.items() if v is not None}}
    settings = CoordinateSettings.from_dict(declared)
    opened = open_estimator(maps, model, weights, size)
    needed = settings.interventions and settings.protocol == "mean"
    means = calibration_means(opened, maps, calibration, batch_size, settings.depths, quiet) if needed else None
    x, names = studied_inputs(opened, data, count, correct, batch_size, settings.output)
    started = time.monotonic()
    study = coordinate_study(opened.estimator, x, settings, means, names, progress=not quiet)
    record = study.as_dict()
    seconds = round(time.monotonic() - started, 1)
    folder.mkdir(parents=True, exist_ok=True)
    head = {"command": typed_command(), "maps": maps, "data": str(data), "model": model_name(opened)}
    write_json(folder / "results.json", {**head, "seconds": seconds, "study": record})
    (folder / "tables.md").write_text(f"`{typed_command()}`\n\n{study.tables()}\n", encoding="utf-8")
    _draw(opened, x, names, study, settings, folder, show)
    typer.echo(study.tables())
    say(f"{record['inversions']} inversions and {record['interventions']} interventions in {seconds} s", quiet)
    typer.echo(str(folder))


def _draw(
    opened: OpenEstimator,
    x: torch.Tensor,
    names: list[str],
    study: CoordinateStudy,
    settings: CoordinateSettings,
    folder: Path,
    show: Path | None,
) -> None:
    from sgfi.figures import save_figure
    from sgfi.figures.coordinates import cell_decisions, query_atlas, support_matrices

    prepared = opened.loaded.preprocessing
    depths = [depth.node for depth in study.depths]
    pictures, shown = shown_inputs(opened, x, names, show)
    if settings.inversions:
        title = f"Coordinate queries of {model_name(opened)}: {shown[0]}"
        atlas = query_atlas(
            opened.estimator,
            pictures[:1],
            depths,
            prefix=settings.prefix,
            chunk=settings.chunk,
            title=title,
            preprocessing=prepared,
        )
        save_figure(atlas, folder / "queries.png", overwrite=True)
        save_figure(support_matrices(study), folder / "support.png", overwrite=True)
    if settings.interventions:
        chosen = depths[len(depths) // 2]
        drawn = study if show is None else _shown_alone(opened, pictures, shown, settings, depths)
        rows = range(len(pictures))
        figure = cell_decisions(opened.estimator, pictures, drawn, chosen, images=rows, preprocessing=prepared)
        save_figure(figure, folder / "cells.png", overwrite=True)


def _shown_alone(
    opened: OpenEstimator, pictures: torch.Tensor, names: list[str], settings: CoordinateSettings, depths: list[str]
) -> CoordinateStudy:
    """A study of the shown pictures alone, for a figure without the studied images."""
    changed = replace(settings, inversions=False, protocol="zero", depths=tuple(depths))
    return coordinate_study(opened.estimator, pictures, changed, names=names)
