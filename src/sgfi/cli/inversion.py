"""``sgfi invert`` and ``sgfi atlas``: from maps and inputs to pictures."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import torch
import typer

import sgfi
from sgfi.cli import options
from sgfi.cli.loading import OpenFamily, open_family
from sgfi.cli.outcomes import command, say
from sgfi.inputs.data import open_data
from sgfi.inversion import Query, depth_targets

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Kind(str, Enum):
    """The atlases."""

    depth = "depth"
    stages = "stages"
    channels = "channels"
    groups = "groups"
    coords = "coords"
    images = "images"


Input = Annotated[Path, typer.Argument(help="An image, a folder of images, or an .npy/.safetensors of inputs.")]
OneQuery = Annotated[str, typer.Option("--query", help=options.QUERY_HELP)]


@command
def invert(
    maps: options.Maps,
    data: Input,
    query: OneQuery = "",
    out: Annotated[Path, typer.Option(help="A .png, or .npy / .safetensors for the numbers themselves.")] = Path(
        "inverse.png"
    ),
    stage: options.Stage = "final",
    limit: options.Limit = 12,
    model: options.ModelOverride = None,
    weights: options.WeightsOverride = None,
    force: options.Force = False,
    quiet: options.Quiet = False,
) -> None:
    """Invert one query for one or several inputs.

    Examples:

      sgfi invert maps/resnet18 cat.jpg

      sgfi invert maps/resnet18 cat.jpg --query layer3.1.add:17 --out channel17.png

      sgfi invert maps/resnet18 photos/ --query "layer3.1.add@2,3;4,5" --out cells.safetensors
    """
    options.check_out(out, force, (*options.PICTURES, *options.NUMBERS))
    asked = Query.parse(query) if query else Query()
    opened = open_family(maps, model, weights)
    x, names = _inputs(opened, data, limit)
    if out.suffix in options.NUMBERS:
        found = sgfi.invert(opened.family, x, asked.target, asked.channels, asked.coords, stage=stage)
        _write_numbers(found.value, out)
    else:
        figure = _picture(opened, x, names, asked, stage)
        _save(figure, out, force)
    say(f"{len(x)} inputs, query {_shown(opened, asked)}", quiet)
    typer.echo(str(out))


@command
def atlas(
    maps: options.Maps,
    data: Input,
    kind: Annotated[Kind, typer.Option(help="What varies from panel to panel.")] = Kind.depth,
    query: OneQuery = "",
    count: Annotated[int, typer.Option(help="Panels, where the query does not say which.")] = 6,
    out: Annotated[Path, typer.Option(help="The .png, .svg or .pdf to write.")] = Path("atlas.png"),
    limit: options.Limit = 4,
    model: options.ModelOverride = None,
    weights: options.WeightsOverride = None,
    force: options.Force = False,
    quiet: options.Quiet = False,
) -> None:
    """Draw an atlas: depth ladder, stages, single channels, channel groups, coordinates, or many images.

    Examples:

      sgfi atlas maps/resnet18 photos/ --kind depth

      sgfi atlas maps/resnet18 cat.jpg --kind channels --query layer3.1.add:0-10

      sgfi atlas maps/resnet18 cat.jpg --kind coords --query "layer3.1.add@2,3;4,5"
    """
    options.check_out(out, force, options.PICTURES)
    asked = Query.parse(query) if query else Query()
    opened = open_family(maps, model, weights)
    x, names = _inputs(opened, data, limit)
    figure = ATLASES[kind](opened, x, names, asked, count)
    _save(figure, out, force)
    say(f"{kind.value} atlas of {_shown(opened, asked)}", quiet)
    typer.echo(str(out))


def _depth(opened: OpenFamily, x: torch.Tensor, names: list[str], asked: Query, count: int) -> Figure:
    from sgfi.figures.atlases import depth_ladder

    targets = depth_targets(opened.family, count)
    prepared = opened.loaded.preprocessing
    return depth_ladder(opened.family, x, targets, names=names, preprocessing=prepared)


def _stages(opened: OpenFamily, x: torch.Tensor, names: list[str], asked: Query, count: int) -> Figure:
    from sgfi.figures import stage_comparison

    prepared = opened.loaded.preprocessing
    return stage_comparison(opened.family, x, asked.target, names=names, preprocessing=prepared)


def _channels(opened: OpenFamily, x: torch.Tensor, names: list[str], asked: Query, count: int) -> Figure:
    from sgfi.figures.atlases import channel_grid, strongest_channels

    channels = asked.channels or strongest_channels(opened.family, x[:1], asked.target, count)
    prepared = opened.loaded.preprocessing
    return channel_grid(opened.family, x[:1], channels, asked.target, preprocessing=prepared)


def _groups(opened: OpenFamily, x: torch.Tensor, names: list[str], asked: Query, count: int) -> Figure:
    from sgfi.figures import channel_groups

    width = _node(opened, asked).channels
    channels = list(asked.channels or range(width))
    groups = [channels[i * len(channels) // count : (i + 1) * len(channels) // count] for i in range(count)]
    prepared = opened.loaded.preprocessing
    groups = [group for group in groups if group]
    return channel_groups(opened.family, x[:1], groups, asked.target, preprocessing=prepared)


def _coords(opened: OpenFamily, x: torch.Tensor, names: list[str], asked: Query, count: int) -> Figure:
    from sgfi.figures.atlases import coordinate_grid, spread_coords

    node = _node(opened, asked)
    coords = asked.coords or spread_coords(node.coord_shape, count)
    prepared = opened.loaded.preprocessing
    return coordinate_grid(opened.family, x[:1], coords, asked.target, channels=asked.channels, preprocessing=prepared)


def _images(opened: OpenFamily, x: torch.Tensor, names: list[str], asked: Query, count: int) -> Figure:
    return _picture(opened, x, names, asked, "final")


ATLASES: dict[Kind, Callable[[OpenFamily, torch.Tensor, list[str], Query, int], Figure]] = {
    Kind.depth: _depth,
    Kind.stages: _stages,
    Kind.channels: _channels,
    Kind.groups: _groups,
    Kind.coords: _coords,
    Kind.images: _images,
}


def _picture(opened: OpenFamily, x: torch.Tensor, names: list[str], asked: Query, stage: str) -> Figure:
    from sgfi.figures import image_grid

    return image_grid(
        opened.family,
        x,
        asked,
        stage=stage,
        names=names,
        preprocessing=opened.loaded.preprocessing,
    )


def _inputs(opened: OpenFamily, data: Path, limit: int | None) -> tuple[torch.Tensor, list[str]]:
    """All inputs in one batch with their names."""
    batches = open_data(data, opened.loaded, 16, limit)
    return torch.cat(list(batches)), batches.names


def _node(opened: OpenFamily, asked: Query) -> Any:
    return opened.family.plan.graph.nodes[asked.target or opened.family.plan.target]


def _shown(opened: OpenFamily, asked: Query) -> str:
    return str(Query(_node(opened, asked).name, asked.channels, asked.coords))


def _write_numbers(value: torch.Tensor, out: Path) -> None:
    if out.suffix == ".npy":
        import numpy as np

        np.save(out, value.cpu().numpy())
    else:
        from safetensors.torch import save_file

        save_file({"inverse": value.contiguous()}, out)


def _save(figure: Figure, out: Path, force: bool) -> None:
    from sgfi.figures import save_figure

    save_figure(figure, out, overwrite=force)
