"""``sgfi calibrate``: fit the maps of one model on one data set."""

from __future__ import annotations

import shutil
import signal
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

import sgfi
from sgfi.calibration import Preset, processes
from sgfi.calibration.calibrate import Running
from sgfi.calibration.presets import preset_named
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
    boundaries: options.PresetBoundaries = None,
    weights: options.Weights = None,
    partial_weights: options.Partial = False,
    size: options.Size = None,
    limit: options.Limit = None,
    batch_size: options.BatchSize = 16,
    mirror: options.Mirror = False,
    preset: options.PresetName = "paper",
    ridge: options.Ridge = None,
    children: options.FittedOn = None,
    stages: options.MapsPerNode = None,
    operator: options.OperatorName = "full",
    partition: options.PresetPartition = None,
    memory: options.Memory = None,
    precision: options.StoredPrecision = options.Precision.full,
    quiet: options.Quiet = False,
    force: options.Force = False,
) -> None:
    """Fit the maps. Interrupted with Ctrl-C, the same command resumes after the last finished node.

    Examples:

      sgfi calibrate torchvision:resnet18 --data photos/ --out maps/resnet18

      sgfi calibrate timm:resnet50 --data photos/ --out maps/r50 --preset aligned --size 128 --limit 512

      sgfi calibrate my_model.py:build --weights best.safetensors --data inputs.npy --out maps/mine

      torchrun --nproc-per-node 4 -m sgfi calibrate torchvision:resnet50 --data photos/ --out maps/r50
    """
    quiet = _quiet_worker(quiet)
    chosen = _preset(preset, operator, boundaries, partition)
    fitted_on = options.children_word(children, quiet)
    numbers = options.number_or_auto(ridge, float, "--ridge"), options.number_or_auto(stages, int, "--stages")
    options.free_map_folder(out, force)
    started = time.monotonic()
    loaded, graph = capture_model(model, weights, size, partial_weights)
    planned = sgfi.plan(graph, target, chosen.boundaries, partition=chosen.partition, operator=operator)
    batches = open_data(data, loaded, batch_size, limit)
    batches = Mirrored(batches, loaded) if mirror else batches
    described = batches.describe()
    skipped = f", {len(batches.skipped)} unreadable and skipped" if batches.skipped else ""
    say(f"{described['inputs']} inputs{skipped}; {len(planned.fitted)} nodes to {planned.target}", quiet)
    partial = out.with_name(out.name + ".partial")
    running = Running(
        memory=memory,
        checkpoint=partial,
        progress=not quiet,
        provenance={"model": loaded.provenance, "data": {"path": str(data), **described}},
        distributed=processes.launched(),
    )
    try:
        family = sgfi.calibrate(planned, batches, numbers[0], fitted_on, preset=chosen, stages=numbers[1], **running)
    except KeyboardInterrupt as error:
        text = f"Interrupted. Finished nodes are kept in {partial}; run the same command to resume."
        raise Interrupted(text) from error
    processes.leave_group()
    if not processes.is_worker():
        _store(family, partial, out, precision, force)
        say(f"{family!r} in {time.monotonic() - started:.0f} s", quiet)
        typer.echo(str(out))


def _quiet_worker(quiet: bool) -> bool:
    """Under torchrun only rank zero reports, and a process that is terminated says what is kept."""
    if processes.launched():
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    if processes.is_worker():
        warnings.simplefilter("ignore", SkippedFile)
    return quiet or processes.is_worker()


def _preset(word: str, operator: str, boundaries: str | None, partition: str | None) -> Preset:
    """The preset with the boundaries and partition of the command line. Its own were measured with full matrices."""
    preset = preset_named(word)
    preset = preset if operator == "full" else Preset(preset.name, preset.settings)
    chosen = preset.boundaries if boundaries is None else options.boundary_choice(boundaries)
    return replace(preset, boundaries=chosen, partition=partition or preset.partition)


def _store(family: sgfi.MapFamily, partial: Path, out: Path, precision: options.Precision, force: bool) -> None:
    if precision == options.Precision.full:
        _move(partial, out, force)
    else:
        sgfi.save(family, options.free_map_folder(out, force), overwrite=force, precision=precision.value)
        shutil.rmtree(partial)


def _move(finished: Path, out: Path, force: bool) -> None:
    """A finished checkpoint folder is a map folder: it only needs its name.

    Fitting may have taken hours, so whether that name is still free is asked again.
    """
    replace_folder(finished, options.free_map_folder(out, force))
