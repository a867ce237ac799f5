"""``sgfi graph`` and ``sgfi plan``: look before you calibrate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

import sgfi
from sgfi.cli import options
from sgfi.cli.loading import capture_model
from sgfi.cli.outcomes import command, say
from sgfi.graph import Node


@command
def graph(
    model: options.Model,
    weights: options.Weights = "none",
    partial_weights: options.Partial = False,
    size: options.Size = None,
    match: Annotated[str, typer.Option(help="Show only names that contain this text.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON list instead of a table.")] = False,
) -> None:
    """List every tensor of a model: name, operation, shape, channel and coordinate axes.

    Weights do not matter here, so random ones are used unless --weights says otherwise.

    Examples:

      sgfi graph torchvision:resnet18

      sgfi graph timm:vit_tiny_patch16_224 --match blocks.3
    """
    _, captured = capture_model(model, weights, size, partial_weights)
    if as_json:
        nodes = [_node_record(n) for n in captured.nodes.values() if match in n.name]
        typer.echo(json.dumps(nodes, indent=1))
        return
    head, rule, *lines = captured.table().splitlines()
    kept = [line for line in lines if match in line.split()[0]]
    typer.echo("\n".join([head, rule, *kept]))
    say(f"{len(kept)} of {len(captured.nodes)} tensors")


@command
def plan(
    model: options.Model,
    target: options.Target = None,
    boundaries: options.Boundaries = "stage",
    weights: options.Weights = "none",
    partial_weights: options.Partial = False,
    size: options.Size = None,
    draw: Annotated[Path | None, typer.Option(help="Draw the boundary DAG into this .svg file.")] = None,
    force: options.Force = False,
) -> None:
    """Show which nodes would be fitted: the boundary DAG with axes, bins and children.

    Examples:

      sgfi plan torchvision:resnet18

      sgfi plan torchvision:resnet18 --target layer3.1.add --draw plan.svg

      sgfi plan torchvision:resnet18 --target layer2.1.add --boundaries maxpool,layer1.1.add

      sgfi plan torchvision:resnet50 --boundaries stage,stem
    """
    if draw is not None:
        options.check_out(draw, force, (".svg",))
    _, captured = capture_model(model, weights, size, partial_weights)
    planned = sgfi.plan(captured, target, options.boundary_choice(boundaries))
    typer.echo(str(planned))
    if draw is not None:
        planned.draw(draw)
        say(f"wrote {draw}")


def _node_record(node: Node) -> dict[str, Any]:
    return {
        "name": node.name,
        "op": node.op,
        "shape": list(node.shape),
        "channel_axis": node.channel_axis,
        "coord_axes": list(node.coord_axes),
        "aliases": list(node.aliases),
    }
