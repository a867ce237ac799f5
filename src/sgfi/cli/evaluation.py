"""``sgfi evaluate``: alignment numbers on a data set, written to a file and shown as a table."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated

import typer

from sgfi.cli import options
from sgfi.cli.outcomes import command, say
from sgfi.evaluation.tables import as_text, measure
from sgfi.inputs.data import open_data
from sgfi.inversion import Query, depth_targets
from sgfi.storage import write_text


@command
def evaluate(
    asked: options.EstimatorOptions,
    data: Annotated[Path, typer.Argument(help="Held-out inputs: folder, array or text file.")],
    query: Annotated[list[str] | None, typer.Option(help=options.QUERY_HELP)] = None,
    depths: Annotated[int, typer.Option(min=1, help="Without --query: number of target depths.")] = 1,
    out: Annotated[Path, typer.Option(help="JSON file for every number.")] = Path("results.json"),
    limit: options.Limit = None,
    batch_size: options.BatchSize = 16,
    quiet: options.Quiet = False,
    force: options.Force = False,
) -> None:
    """Measure how inverses align with their inputs, per stage (raw, first, final) and query.

    Examples:

      sgfi evaluate maps/resnet18 heldout/
      sgfi evaluate maps/resnet18 heldout/ --depths 5 --out depths.json
      sgfi evaluate maps/resnet18 heldout/ --query layer3.1.add:17 --query layer3.1.add
    """
    options.free_path(out, force)
    queries = [Query.parse(text) for text in query or []]
    opened = asked.opened
    if not queries:
        queries = [Query(name) for name in depth_targets(opened.estimator, depths)[-depths:]]
    batches = open_data(data, opened.loaded, batch_size, limit)
    described = batches.describe()
    if opened.fitted_on == described["digest"]:
        say("warning: these are the inputs the maps were fitted on; the numbers flatter them")
    started = time.monotonic()
    results = measure(opened.estimator, batches, queries, progress=not quiet)
    record = {
        "maps": asked.maps,
        "estimator": opened.estimator.describe(),
        "data": {"path": str(data), **described},
        "seconds": round(time.monotonic() - started, 2),
        "results": results,
    }
    write_text(out, json.dumps(record, indent=1))
    typer.echo(as_text(results))
    typer.echo(str(out))
