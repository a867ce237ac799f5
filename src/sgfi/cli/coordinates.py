"""``sgfi coordinates``: every token or cell of a tensor inverted, and, independently, intervened on."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import torch
import typer

from sgfi.cli import decisions, options
from sgfi.cli.loading import OpenEstimator, open_estimator
from sgfi.cli.outcomes import command, say
from sgfi.decisions import CoordinateSettings, CoordinateStudy, coordinate_study


@command
def coordinates(
    maps: options.Source,
    data: decisions.Inputs,
    out: decisions.OutFolder = Path("coordinates"),
    calibration: decisions.Calibration = None,
    experiment: decisions.Experiment = None,
    depth: decisions.Depth = None,
    prefix: Annotated[int | None, typer.Option(help="Tokens before the patches; default: inferred.")] = None,
    protocol: Annotated[str | None, typer.Option(help="What an edited cell becomes: zero or mean.")] = None,
    chunk: Annotated[int | None, typer.Option(help="Queries stacked at a time, where memory is short.")] = None,
    count: decisions.Count = 4,
    correct: decisions.Correct = False,
    show: decisions.Show = None,
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
    folder = options.free_path(out, force)
    given = {"depths": depth, "prefix": prefix, "protocol": protocol, "chunk": chunk}
    settings = CoordinateSettings.from_dict(decisions.declared(experiment, given))
    opened = open_estimator(maps, model, weights, size)
    needed = settings.interventions and settings.protocol == "mean"
    means = (
        decisions.calibration_means(opened, maps, calibration, batch_size, settings.depths, quiet) if needed else None
    )
    x, names = decisions.studied_inputs(opened, data, count, correct, batch_size, settings.output)
    started = time.monotonic()
    study = coordinate_study(opened.estimator, x, settings, means, names, progress=not quiet)
    record = study.as_dict()
    seconds = round(time.monotonic() - started, 1)
    head = {"maps": maps, "data": str(data), "model": decisions.model_name(opened), "seconds": seconds}
    decisions.write_results(folder, {**head, "study": record}, "tables.md", study.tables())
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
    pictures, shown = decisions.shown_inputs(opened, x, names, show)
    if settings.inversions:
        title = f"Coordinate queries of {decisions.model_name(opened)}: {shown[0]}"
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
