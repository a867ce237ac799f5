"""The command tree."""

from __future__ import annotations

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
    inspection,
    inversion,
    looking,
    maps,
    tokens,
)

app = typer.Typer(
    name="sgfi",
    epilog="Exit codes: 0 done, 2 wrong use, 3 data or model unreadable, 4 plan, 5 query, 6 maps, "
    "7 calibration, 8 disk, 130 interrupted. Start with: sgfi demo",
    no_args_is_help=True,
    add_completion=False,
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


app.command()(looking.look)
app.command()(inspection.graph)
app.command()(inspection.plan)
app.command()(calibration.calibrate)
app.command()(inversion.invert)
app.command()(inversion.atlas)
app.command()(evaluation.evaluate)
app.command()(decisions.decide)
app.command()(coordinates.coordinates)
app.command()(tokens.tokens)
maps_app = typer.Typer(no_args_is_help=True, help="Look at, check and shrink saved map folders.")
maps_app.command()(maps.info)
maps_app.command()(maps.verify)
maps_app.command()(maps.shrink)
app.add_typer(maps_app, name="maps")
experiment_app = typer.Typer(no_args_is_help=True, help="The paper's tables and controls, each from one small file.")
experiment_app.command("list")(experiments.list_)
experiment_app.command("show")(experiments.show)
experiment_app.command("run")(experiments.run_)
experiment_app.command("compare")(experiments.compare_)
experiment_app.command("page")(experiments.page)
app.add_typer(experiment_app, name="experiment")
app.command()(demonstration.demo)
