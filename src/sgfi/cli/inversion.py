"""``sgfi invert`` and ``sgfi atlas``: from maps and inputs to pictures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import torch
import typer

import sgfi
from sgfi.cli import options
from sgfi.cli.loading import OpenEstimator, open_family
from sgfi.cli.outcomes import command, say
from sgfi.figures.style import counted
from sgfi.inputs.data import open_data
from sgfi.inversion import Query, depth_targets
from sgfi.storage import draft_of
from sgfi.storage.files import write_tensors

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Kind = Literal["depth", "stages", "channels", "groups", "coords", "images", "swap", "interpolation", "families"]
Input = Annotated[Path, typer.Argument(help="An image, a folder of images, or an .npy/.safetensors of inputs.")]


@command
def invert(
    asked: options.EstimatorOptions,
    data: Input,
    query: options.OneQuery = "",
    out: Annotated[Path, typer.Option(help="A .png, or .npy / .safetensors for the numbers themselves.")] = Path(
        "inverse.png"
    ),
    stage: options.Stage = "final",
    limit: options.Limit = 12,
    force: options.Force = False,
    quiet: options.Quiet = False,
) -> None:
    """Invert one query for one or several inputs.

    Examples:

      sgfi invert maps/resnet18 cat.jpg
      sgfi invert maps/resnet18 cat.jpg --query layer3.1.add:17 --out channel17.png
      sgfi invert maps/resnet18 photos/ --query "layer3.1.add@2,3;4,5" --out cells.safetensors
      sgfi invert torchvision:resnet18 cat.jpg --query layer3.1.add:17
    """
    options.check_out(out, force, (*options.PICTURES, *options.NUMBERS))
    parsed = Query.parse(query) if query else Query()
    opened = asked.open(parsed)
    x, names = _inputs(opened, data, limit)
    if out.suffix in options.NUMBERS:
        write_numbers({"inverse": sgfi.sweep(opened.estimator, x, [parsed], stage=stage)[0].value}, out)
    else:
        from sgfi.figures import image_grid, save_figure

        prepared = opened.loaded.preprocessing
        figure = image_grid(opened.estimator, x, parsed, stage=stage, names=names, preprocessing=prepared)
        save_figure(figure, out, overwrite=force)
    say(f"{counted(len(x), 'input')}, query {_named(opened, parsed)}", quiet)
    typer.echo(str(out))


@command
def atlas(
    asked: options.EstimatorOptions,
    data: Input,
    kind: Annotated[Kind, typer.Option(help="What varies from panel to panel.")] = "depth",
    query: options.OneQuery = "",
    count: Annotated[int, typer.Option(min=1, help="Panels, where the query does not say which.")] = 6,
    beside: Annotated[
        list[Path] | None, typer.Option(help="For --kind families: more maps of the same model; may be repeated.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The .png, .svg or .pdf to write.")] = Path("atlas.png"),
    limit: options.Limit = 4,
    force: options.Force = False,
    quiet: options.Quiet = False,
) -> None:
    """Draw an atlas: depth ladder, stages, single channels, channel groups, coordinates, or many images.

    Of pairs of images: their targets and operating points crossed (swap), or the operating point going from one to the
    other (interpolation). Of several map families: the same images by each (families, with --beside).

    Examples:

      sgfi atlas maps/resnet18 photos/ --kind depth
      sgfi atlas maps/resnet18 cat.jpg --kind channels --query layer3.1.add:0-10
      sgfi atlas maps/resnet18 cat.jpg --kind coords --query "layer3.1.add@2,3;4,5"
      sgfi atlas torchvision:resnet18 cat.jpg --kind channels --query layer3.1.add%probes.safetensors:0-5
      sgfi atlas maps/resnet18 photos/ --kind swap --limit 2
      sgfi atlas maps/resnet18 photos/ --kind families --beside maps/diagonal --beside maps/gamma
    """
    from sgfi.figures import save_figure

    options.check_out(out, force, options.PICTURES)
    parsed = Query.parse(query) if query else Query()
    opened = asked.open(parsed)
    x, names = _inputs(opened, data, limit)
    if kind == "families":
        figure = _families(asked, opened, x, names, parsed, beside or [])
    else:
        figure = _drawn(kind, opened, x, names, parsed, count)
    save_figure(figure, out, overwrite=force)
    say(f"{kind} atlas of {_named(opened, parsed)}", quiet)
    typer.echo(str(out))


def _drawn(kind: Kind, opened: OpenEstimator, x: torch.Tensor, names: list[str], query: Query, count: int) -> Figure:
    """What the query leaves open is chosen: depths, the strongest channels, coordinates spread over the grid."""
    from sgfi import figures
    from sgfi.figures.atlases import spread_coords, strongest_channels

    estimator, target, node = opened.estimator, query.target, opened.estimator.node(query.target)
    shown: dict[str, Any] = {"preprocessing": opened.loaded.preprocessing}
    if kind == "depth":
        return figures.depth_ladder(estimator, x, depth_targets(estimator, count), names=names, **shown)
    if kind == "stages":
        return figures.stage_comparison(estimator, x, target, names=names, **shown)
    if kind == "channels" and query.directions is not None:
        return figures.direction_grid(estimator, x[:1], query.directions.single(), target, coords=query.coords, **shown)
    if kind == "channels":
        channels = query.channels or strongest_channels(estimator, x[:1], target, count)
        return figures.channel_grid(estimator, x[:1], channels, target, **shown)
    if kind == "groups":
        channels = query.channels or tuple(range(node.channels))
        groups = [channels[i * len(channels) // count : (i + 1) * len(channels) // count] for i in range(count)]
        return figures.channel_groups(estimator, x[:1], [group for group in groups if group], target, **shown)
    if kind == "coords":
        coords = query.coords or spread_coords(node.coord_shape, count)
        return figures.coordinate_grid(
            estimator, x[:1], coords, target, channels=query.channels, directions=query.directions, **shown
        )
    if kind == "swap":
        return figures.swap_strip(estimator, x, target, **shown)
    if kind == "interpolation":
        return figures.interpolation_strip(estimator, x, count, target, **shown)
    return figures.image_grid(estimator, x, query, names=names, **shown)


def _families(
    asked: options.EstimatorOptions,
    opened: OpenEstimator,
    x: torch.Tensor,
    names: list[str],
    query: Query,
    beside: list[Path],
) -> Figure:
    from sgfi import figures

    estimators = {Path(asked.maps).name: opened.estimator}
    for path in beside:
        label = path.name if path.name not in estimators else str(path)
        estimators[label] = open_family(path, asked.model, asked.weights).estimator
    prepared = opened.loaded.preprocessing
    return figures.family_plate(estimators, x, query.target, names=names, preprocessing=prepared)


def _inputs(opened: OpenEstimator, data: Path, limit: int | None) -> tuple[torch.Tensor, list[str]]:
    """All inputs in one batch with their names."""
    batches = open_data(data, opened.loaded, 16, limit)
    return torch.cat(list(batches)), batches.names


def _named(opened: OpenEstimator, query: Query) -> Query:
    return query.toward(opened.estimator.node(query.target).name)


def write_numbers(tensors: dict[str, torch.Tensor], out: Path) -> None:
    """By name into a .safetensors; into an .npy the first one alone, since it holds a single array."""
    if out.suffix == ".npy":
        import numpy as np

        with draft_of(out) as draft:
            np.save(draft, next(iter(tensors.values())).cpu().numpy())
    else:
        write_tensors(out, tensors, {})
