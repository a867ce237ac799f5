"""``sgfi coordinates``: every token or cell of a tensor inverted, and, independently, intervened on."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import torch
import typer

from sgfi.cli import options
from sgfi.cli.decisions import Count, OutFolder, StudyOptions
from sgfi.cli.outcomes import command, say
from sgfi.decisions import CoordinateSettings, CoordinateStudy, coordinate_study


@command
def coordinates(
    asked: StudyOptions,
    out: OutFolder = Path("coordinates"),
    prefix: Annotated[int | None, typer.Option(min=0, help="Tokens before the patches; default: inferred.")] = None,
    protocol: Annotated[str | None, typer.Option(help="What an edited cell becomes: zero or mean.")] = None,
    chunk: Annotated[int | None, typer.Option(min=1, help="Queries stacked at a time, where memory is short.")] = None,
    count: Count = 4,
) -> None:
    """Invert every token or cell on its own, measure its support, and zero every cell of the original.

    Writes results.json, tables.md, queries.png, support.png and cells.png. No inverse is fed back to the model.

    Examples:

      sgfi coordinates maps/vit heldout/ --count 8
      sgfi coordinates maps/vit heldout/ --depth blocks.0 --depth blocks.6 --depth norm --show cat.jpg
      sgfi coordinates maps/resnet18 heldout/ --depth layer3.1.add --protocol mean
    """
    folder = options.free_path(out, asked.force)
    settings = asked.settings(CoordinateSettings, prefix=prefix, protocol=protocol, chunk=chunk)
    needed = settings.interventions and settings.protocol == "mean"
    means = asked.means(settings.depths) if needed else None
    x, names = asked.inputs(count, settings.output)
    started = time.monotonic()
    study = coordinate_study(asked.opened.estimator, x, settings, means, names, progress=not asked.quiet)
    record = study.as_dict()
    seconds = round(time.monotonic() - started, 1)
    asked.write(folder, {"seconds": seconds, "study": record}, "tables.md", study.tables())
    _draw(asked, x, names, study, folder)
    typer.echo(study.tables())
    say(f"{record['inversions']} inversions and {record['interventions']} interventions in {seconds} s", asked.quiet)
    typer.echo(str(folder))


def _draw(asked: StudyOptions, x: torch.Tensor, names: list[str], study: CoordinateStudy, folder: Path) -> None:
    from sgfi.figures import save_figure
    from sgfi.figures.coordinates import cell_decisions, query_atlas, support_matrices

    estimator, prepared, settings = asked.opened.estimator, asked.opened.loaded.preprocessing, study.settings
    depths = [depth.node for depth in study.depths]
    pictures, shown = asked.shown(x, names)
    if settings.inversions:
        title = f"Coordinate queries of {asked.model_name}: {shown[0]}"
        queries = {"prefix": settings.prefix, "chunk": settings.chunk}
        atlas = query_atlas(estimator, pictures[:1], depths, **queries, title=title, preprocessing=prepared)
        save_figure(atlas, folder / "queries.png", overwrite=True)
        save_figure(support_matrices(study), folder / "support.png", overwrite=True)
    if settings.interventions:
        if asked.show is not None:  # a study of the shown pictures alone
            alone = replace(settings, inversions=False, protocol="zero", depths=tuple(depths))
            study = coordinate_study(estimator, pictures, alone, names=shown)
        rows, chosen = range(len(pictures)), depths[len(depths) // 2]
        figure = cell_decisions(estimator, pictures, study, chosen, images=rows, preprocessing=prepared)
        save_figure(figure, folder / "cells.png", overwrite=True)
