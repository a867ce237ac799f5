"""``sgfi moments gather | merge | solve | info``: maps from sums that add, over machines and over time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

import sgfi
from sgfi.calibration import gather_moments, load_moments, save_moments
from sgfi.calibration.moment_files import read_description
from sgfi.cli import options
from sgfi.cli.loading import capture_model, recorded_model
from sgfi.cli.outcomes import command, say
from sgfi.errors import StoreError
from sgfi.inputs.data import open_data
from sgfi.inputs.loaded import LoadedModel

Folder = Annotated[Path, typer.Argument(help="Folder of moments.")]
After = Annotated[
    Path | None,
    typer.Option(help="Maps that this one follows: the moments are of the next map. Default: of the first maps."),
]
NewFolder = Annotated[Path, typer.Option(help="Folder for the moments; must not exist yet.")]


@command
def gather(
    model: options.Model,
    data: Annotated[Path, typer.Option(help="Folder of images, an .npy/.safetensors of inputs, or a text file.")],
    out: NewFolder,
    after: After = None,
    target: options.Target = None,
    boundaries: options.Boundaries = "stage",
    partition: Annotated[
        str, typer.Option(help="As for calibrate; larger groups can be solved for later.")
    ] = "singleton",
    operator: Annotated[
        str, typer.Option(help="As for calibrate; full sums give every other but causal ones.")
    ] = "full",
    on: Annotated[str, typer.Option(help="states, tangents or tangentsK, as for calibrate.")] = "states",
    children: Annotated[str, typer.Option(help="Only 'true' child states have moments that add.")] = "true",
    weights: options.Weights = None,
    partial_weights: options.Partial = False,
    size: options.Size = None,
    limit: options.Limit = None,
    batch_size: options.BatchSize = 16,
    memory: Annotated[str | None, typer.Option(help="Memory budget such as 4GiB; more passes when small.")] = None,
    quiet: options.Quiet = False,
    force: options.Force = False,
) -> None:
    """Sum up what the next map of every node is solved from, over one part of the data.

    Parts may be on different machines and of different days. A correction map's sums belong to the first maps they were
    gathered on (--after): merge and solve these first. Online child states need all data at every node, so they have no
    such sums: use calibrate, under torchrun for several processes.

    Examples:

      sgfi moments gather torchvision:resnet18 --data part1/ --out first/part1
      sgfi moments gather torchvision:resnet18 --data part1/ --after maps/first --out second/part1
    """
    free_moments_folder(out, force)
    loaded, graph = capture_model(model, weights, size, partial_weights)
    earlier = None if after is None else sgfi.load(after, graph)
    if earlier is None:
        planned = sgfi.plan(graph, target, options.boundary_choice(boundaries), partition=partition, operator=operator)
    else:
        planned = earlier.plan
    batches = open_data(data, loaded, batch_size, limit)
    how: dict[str, Any] = {"on": on, "children": children, "memory": memory, "progress": not quiet}
    moments = gather_moments(planned, batches, earlier, **how)
    record = {"model": loaded.provenance, "data": {"path": str(data), **batches.describe()}}
    save_moments(replace(moments, provenance=(record,)), out, overwrite=force)
    say(f"{moments.count} samples, map {moments.number} of {len(planned.fitted)} nodes", quiet)
    typer.echo(str(out))


@command
def merge(
    moments: Annotated[list[Path], typer.Argument(metavar="MOMENTS...", help="Folders of moments.")],
    out: NewFolder,
    model: options.ModelOverride = None,
    weights: options.WeightsOverride = None,
    quiet: options.Quiet = False,
    force: options.Force = False,
) -> None:
    """Add moments of different samples. Another model, plan or map, and samples that are in two parts, are refused.

    Example:

      sgfi moments merge first/part1 first/part2 first/part3 --out first/all
    """
    free_moments_folder(out, force)
    loaded = _model(moments[0], model, weights)
    graph = sgfi.capture(loaded.model, loaded.example)
    first, *others = (load_moments(folder, graph) for folder in moments)
    merged = first.merge(*others)
    save_moments(merged, out, overwrite=force)
    say(f"{merged.count} samples of {len(moments)} parts", quiet)
    typer.echo(str(out))


@command
def solve(
    moments: Folder,
    out: Annotated[Path, typer.Option(help="Folder for the maps; must not exist yet.")],
    after: After = None,
    ridge: Annotated[float, typer.Option(help="Relative ridge.")] = 0.01,
    partition: Annotated[str | None, typer.Option(help="Another partition, of larger groups (first maps).")] = None,
    operator: Annotated[str | None, typer.Option(help="Another operator that the sums give (first maps).")] = None,
    model: options.ModelOverride = None,
    weights: options.WeightsOverride = None,
    quiet: options.Quiet = False,
    force: options.Force = False,
) -> None:
    """Maps from moments, without the data: with any ridge; first maps also with larger groups or another operator.

    Examples:

      sgfi moments solve first/all --out maps/first --ridge 0.01
      sgfi moments solve first/all --out maps/small --partition blocks2
      sgfi moments solve second/all --after maps/first --out maps/both
    """
    options.free_map_folder(out, force)
    loaded = _model(moments, model, weights)
    graph = sgfi.capture(loaded.model, loaded.example)
    earlier = None if after is None else sgfi.load(after, graph)
    family = load_moments(moments, graph).solve(ridge, partition, operator, earlier)
    sgfi.save(family, out, overwrite=force)
    say(f"{family!r}", quiet)
    typer.echo(str(out))


@command
def info(moments: Folder) -> None:
    """What a folder of moments holds.

    Example:

      sgfi moments info first/all
    """
    description = read_description(moments)
    plan, parts = description["plan"], description["provenance"]
    spec = next((str(part["model"].get("spec")) for part in parts if isinstance(part.get("model"), dict)), None)
    size = sum(entry["bytes"] for entry in description["files"].values())
    facts = {
        "model": spec or description["model"]["class"],
        "fingerprint": description["model"]["fingerprint"][:16],
        "target": plan["target"],
        "boundaries": f"{plan['mode']}, {len(description['files'])} fitted nodes",
        "map": f"number {description['number']}"
        + (f", after {description['after'][:16]}" if description["after"] else ""),
        "samples": f"{description['count']}, on {description['on']}, {max(1, len(parts))} parts",
        "size": f"{size / 2**20:.1f} MiB",
    }
    for name, value in facts.items():
        typer.echo(f"{name:14}{value}")


def free_moments_folder(path: Path, force: bool) -> None:
    """Refuse early, before any pass over the data; only moments are written over."""
    if path.exists() and not (force and (path / "moments.json").is_file()):
        todo = "Choose another, or pass --force for a folder of moments."
        raise StoreError("an output path that is free", f"{path}, which exists", todo)


def _model(path: Path, spec: str | None, weights: str | None) -> LoadedModel:
    """The model that the moments name, or the one of the command line."""
    parts = read_description(path)["provenance"]
    record: Mapping[str, Any] = next((part["model"] for part in parts if isinstance(part.get("model"), dict)), {})
    return recorded_model(path, record, spec, weights)
