"""The command tree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

import sgfi
from sgfi.cli import (
    calibration,
    coordinates,
    decisions,
    demonstration,
    evaluation,
    experiments,
    exploring,
    inspection,
    inversion,
    looking,
    maps,
    moments,
    recipes,
    reporting,
    tokens,
)

app = typer.Typer(
    name="sgfi",
    epilog="Exit codes: 0 done, 2 wrong use, 3 data or model unreadable, 4 plan, 5 query, 6 maps, "
    "7 calibration, 8 disk, 9 memory, 130 interrupted. Start with: sgfi demo",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sgfi {sgfi.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """What does this internal feature, on this input, look like in the input domain?"""


run: Callable[..., None]
maps_app = typer.Typer(no_args_is_help=True, help="Look at, check, shrink, fetch and publish map folders.")
for run in (maps.info, maps.verify, maps.shrink, maps.pull, maps.push):
    maps_app.command()(run)
experiment_app = typer.Typer(no_args_is_help=True, help="The paper's tables and controls, each from one small file.")
for run in (
    experiments.list_,
    experiments.show,
    experiments.run_,
    experiments.compare_,
    experiments.page,
    experiments.index,
    experiments.commits,
    experiments.fill,
    experiments.pictures,
):
    experiment_app.command(run.__name__.strip("_"))(run)
moments_app = typer.Typer(no_args_is_help=True, help="Sums that maps are solved from: gather, merge, solve.")
for run in (moments.gather, moments.merge, moments.solve, moments.info):
    moments_app.command()(run)
recipes_app = typer.Typer(help="List recipes and plug-ins; check that a recipe fits a model.")
recipes_app.command()(recipes.check)


@recipes_app.callback(invoke_without_command=True, help=recipes.list_.__doc__)
def list_recipes(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        recipes.list_()


for run in (
    *(
        looking.look,
        looking.compare,
        inspection.graph,
        inspection.plan,
        calibration.calibrate,
        inversion.invert,
        inversion.atlas,
    ),
    *(
        evaluation.evaluate,
        decisions.decide,
        coordinates.coordinates,
        tokens.tokens,
        tokens.contexts,
        exploring.explore,
        exploring.export,
        reporting.report,
        demonstration.demo,
    ),
):
    app.command()(run)
app.add_typer(maps_app, name="maps")
app.add_typer(moments_app, name="moments")
app.add_typer(recipes_app, name="recipes")
app.add_typer(experiment_app, name="experiment")
