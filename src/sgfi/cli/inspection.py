"""``sgfi graph`` and ``sgfi plan``: look before you calibrate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

import sgfi
from sgfi.cli import options
from sgfi.cli.loading import capture_model
from sgfi.cli.outcomes import command, say
from sgfi.storage import draft_of

NODE_KEYS = ("name", "op", "shape", "channel_axis", "coord_axes", "aliases")


@command
def graph(
    model: options.Model,
    weights: options.Weights = "none",
    partial_weights: options.Partial = False,
    size: options.Size = None,
    match: Annotated[str, typer.Option(help="Show only names that contain this text.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON list instead of a table.")] = False,
    names: Annotated[
        bool, typer.Option("--names", help="The further names of each tensor: module paths and other libraries'.")
    ] = False,
    open_attention: Annotated[
        bool, typer.Option("--open-attention", help="Write fused attention out: scores and weights are tensors too.")
    ] = False,
) -> None:
    """List every tensor of a model: name, operation, shape, channel and coordinate axes.

    Weights do not matter here, so random ones are used unless --weights says otherwise.

    Examples:

      sgfi graph torchvision:resnet18
      sgfi graph timm:vit_tiny_patch16_224 --match blocks.3

      sgfi graph timm:vit_tiny_patch16_224 --names --open-attention
    """
    _, captured = capture_model(model, weights, size, partial_weights, "open" if open_attention else "fused")
    if as_json:
        nodes = [node for node in captured.nodes.values() if match in node.name]
        typer.echo(json.dumps([{key: getattr(node, key) for key in NODE_KEYS} for node in nodes], indent=1))
        return
    head, rule, *lines = (captured.names() if names else captured.table()).splitlines()
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
        with draft_of(draw) as draft:
            planned.draw(draft)
        say(f"wrote {draw}")
