"""``sgfi demo``: see it work on a real network before reading any documentation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sgfi.cli import options
from sgfi.cli.outcomes import Interrupted, command, say


@command
def demo(
    out: Annotated[Path, typer.Option(help="Folder for report, figures and maps.")] = Path("sgfi-demo"),
    size: Annotated[int, typer.Option(min=1, help="Input size in pixels.")] = 64,
    crops: Annotated[int, typer.Option(min=1, help="Random crops to calibrate on.")] = 512,
    seed: Annotated[int, typer.Option(help="Which random crops.")] = 0,
    quiet: options.Quiet = False,
    force: options.Force = False,
) -> None:
    """Invert features of a real ImageNet network on real photographs and write an HTML report.

    Nothing is downloaded: weights and photographs come inside pip packages. Running it again reuses the fitted maps.

    Example:

      sgfi demo --out sgfi-demo
    """
    from sgfi import demo as demonstration

    settings = demonstration.DemoSettings(size=size, crops=crops, seed=seed)
    say("EfficientNet-Lite0 on photographs from scikit-image, scikit-learn and matplotlib", quiet)
    try:
        report = demonstration.run(out, settings, progress=not quiet, force=force)
    except KeyboardInterrupt as error:
        raise Interrupted("Interrupted. Run sgfi demo again to resume after the last finished node.") from error
    for line in demonstration.summary(out):
        say(line, quiet)
    typer.echo(str(report))
