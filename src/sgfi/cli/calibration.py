"""``sgfi calibrate``: fit the maps of one model on one data set."""

from __future__ import annotations

import shutil
import signal
import time
import warnings
from pathlib import Path
from typing import Annotated

import typer

import sgfi
from sgfi.calibration import processes
from sgfi.cli import options
from sgfi.cli.loading import capture_model
from sgfi.cli.outcomes import Interrupted, command, say
from sgfi.inputs.data import Mirrored, SkippedFile, open_data
from sgfi.storage import replace_folder


@command
def calibrate(
    model: options.Model,
    data: Annotated[Path, typer.Option(help="Folder of images, an .npy/.safetensors of inputs, or a text file.")],
    out: Annotated[Path, typer.Option(help="Folder for the maps; must not exist yet.")],
    target: options.Target = None,
    boundaries: options.Boundaries = "stage",
    weights: options.Weights = None,
    partial_weights: options.Partial = False,
    size: options.Size = None,
    limit: options.Limit = None,
    batch_size: options.BatchSize = 16,
    mirror: Annotated[bool, typer.Option("--mirror", help="Fit on every picture mirrored left to right, too.")] = False,
    ridge: Annotated[
        str, typer.Option(help="Relative ridge, or 'auto': chosen by leave-one-out (online or honest children).")
    ] = "0.01",
    children: Annotated[
        options.Children,
        typer.Option(
            help="true activations (the paper), online: the states inversion will hand on, "
            "honest: those of maps that did not see the sample."
        ),
    ] = options.Children.online,
    stages: Annotated[
        str,
        typer.Option(
            help="Maps per node, 2 being the paper's G and D, or 'auto': while they help (online or honest children)."
        ),
    ] = "2",
    operator: Annotated[
        str, typer.Option(help="full, diagonal, gamma, diagonal+rankN, causal or causal+K: capacity of the maps.")
    ] = "full",
    partition: Annotated[
        str,
        typer.Option(
            help="singleton: a matrix per frequency; blocksK: one for K neighbours along every axis; shared: one for "
            "all; first-apart: one for the first token and one for all others (causal operators)."
        ),
    ] = "singleton",
    memory: Annotated[
        str | None, typer.Option(help="Memory budget such as 4GiB; more passes when it is small.")
    ] = None,
    precision: Annotated[
        options.Precision,
        typer.Option(help="Numbers of the maps on disk: as fitted (full), 16 bits (half) or 8 (int8)."),
    ] = options.Precision.full,
    quiet: options.Quiet = False,
    force: options.Force = False,
) -> None:
    """Fit the maps. Interrupted with Ctrl-C, the same command goes on from the last finished node.

    Examples:

      sgfi calibrate torchvision:resnet18 --data photos/ --out maps/resnet18

      sgfi calibrate timm:resnet50 --data photos/ --out maps/r50 --size 128 --limit 512

      sgfi calibrate my_model.py:build --weights best.safetensors --data inputs.npy --out maps/mine

      torchrun --nproc-per-node 4 -m sgfi calibrate torchvision:resnet50 --data photos/ --out maps/r50
    """
    quiet = _joined(quiet)
    chosen_ridge = options.number_or_auto(ridge, float, "--ridge")
    chosen_stages = options.number_or_auto(stages, int, "--stages")
    options.free_map_folder(out, force)
    started = time.monotonic()
    loaded, graph = capture_model(model, weights, size, partial_weights)
    planned = sgfi.plan(graph, target, options.boundary_choice(boundaries), partition=partition, operator=operator)
    batches = open_data(data, loaded, batch_size, limit)
    if mirror:
        batches = Mirrored(batches, loaded)
    described = batches.describe()
    skipped = len(batches.skipped)
    said = f", {skipped} unreadable and skipped" if skipped else ""
    say(f"{described['inputs']} inputs{said}; {len(planned.fitted)} nodes to {planned.target}", quiet)
    partial = out.with_name(out.name + ".partial")
    try:
        family = sgfi.calibrate(
            planned,
            batches,
            ridge=chosen_ridge,
            children=children.value,
            stages=chosen_stages,
            memory=memory,
            checkpoint=partial,
            progress=not quiet,
            provenance={"model": loaded.provenance, "data": {"path": str(data), **described}},
            distributed=processes.launched(),
        )
    except KeyboardInterrupt as error:
        raise Interrupted(
            f"Interrupted. Finished nodes are kept in {partial}; run the same command to go on."
        ) from error
    processes.leave()
    if processes.follows():
        return
    if precision == options.Precision.full:
        _move(partial, out, force)
    else:
        sgfi.save(family, options.free_map_folder(out, force), overwrite=force, precision=precision.value)
        shutil.rmtree(partial)
    say(f"{family!r} in {time.monotonic() - started:.0f} s", quiet)
    typer.echo(str(out))


def _joined(quiet: bool) -> bool:
    """Under torchrun: only the first process talks, and one that is asked to end says what is kept."""
    if processes.launched():
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    if processes.follows():
        warnings.simplefilter("ignore", SkippedFile)
    return quiet or processes.follows()


def _move(finished: Path, out: Path, force: bool) -> None:
    """A finished checkpoint folder is a map folder: it only needs its name.

    Fitting may have taken hours, so whether that name is still free is asked again.
    """
    replace_folder(finished, options.free_map_folder(out, force))
