"""``sgfi recipes``: what sgfi knows and what installed packages add; ``sgfi recipes check``: does a recipe fit?"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from sgfi.boundaries.recipes import RECIPES
from sgfi.cli import options
from sgfi.cli.outcomes import command, say
from sgfi.derivatives.rules import RULES
from sgfi.experiments.measures import MEASURES
from sgfi.graph.axes import AXIS_RULES
from sgfi.graph.tensor_graph import text_table
from sgfi.inputs.libraries import SCHEMES
from sgfi.inputs.models import load_model
from sgfi.plugins import Registry
from sgfi.report.recipe_check import check_recipe

REGISTRIES: tuple[Registry[Any], ...] = (RECIPES, SCHEMES, AXIS_RULES, RULES, MEASURES)


@command
def list_() -> None:
    """List sgfi's recipes, and every plug-in of an installed package with what is wrong with it.

    Example:

      sgfi recipes
    """
    rows: list[tuple[str, ...]] = [("kind", "name", "from", "for")]
    rows += [("recipe", name, "sgfi", f"classes {RECIPES[name].classes}") for name in RECIPES.own]
    rows.append(("recipe", "generic", "sgfi", "every other model"))
    plugins = [(registry, plugin) for registry in REGISTRIES for plugin in registry.plugins()]
    rows += [
        (registry.kind, plugin.name, plugin.package, f"NOT USED: {plugin.problem}" if plugin.problem else plugin.module)
        for registry, plugin in plugins
    ]
    typer.echo(text_table(rows))
    say(f"{len(plugins)} plug-ins, {sum(bool(plugin.problem) for _, plugin in plugins)} of them not used")


@command
def check(
    model: options.Model,
    recipe: Annotated[str | None, typer.Option(help="Check this recipe. Default: the one that applies.")] = None,
    weights: options.Weights = "none",
    partial_weights: options.Partial = False,
    size: options.Size = None,
) -> None:
    """Show the boundaries and axes that a recipe gives a model, and run its self-tests.

    The derivatives of every kind of op; a cotangent carried over the boundaries against one backward pass; maps fitted
    on a few random inputs, saved, loaded and asked again. Exit code 4 where one fails. Weights are random unless
    --weights says otherwise.

    Examples:

      sgfi recipes check torchvision:resnet18
      sgfi recipes check path/to/net.py:build --recipe mynet
    """
    checked = check_recipe(load_model(model, weights, size=size, strict=not partial_weights), recipe)
    typer.echo(str(checked))
    if not checked.passed:
        raise typer.Exit(4)
