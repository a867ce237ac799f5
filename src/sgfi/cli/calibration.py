"""``sgfi calibrate``: fit the maps of one model on one data set."""

from __future__ import annotations

import shutil
import time
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import sgfi
from sgfi.calibration import Preset, choose_sizes, processes
from sgfi.calibration.calibrate import Running
from sgfi.calibration.presets import preset_named
from sgfi.cli import options
from sgfi.cli.loading import capture_model
from sgfi.cli.outcomes import Interrupted, command, say
from sgfi.figures.style import counted
from sgfi.inputs.data import Mirrored, SkippedFile, open_data
from sgfi.storage import replace_folder

CHOSEN = "chosen"
"""Of ``--maps``: sizes by held-out samples."""


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """How maps are fitted and stored; what is left out is the preset's."""

    preset: Annotated[
        str,
        typer.Option(
            help="paper: as published; aligned: best measured alignment with the input (online children, chosen ridge "
            "and stages, stem opened, neighbouring bins tied). Single options override it.",
        ),
    ] = "paper"
    boundaries: Annotated[str | None, typer.Option(help=f"{options.BOUNDARIES} Default: the preset's.")] = None
    mirror: Annotated[bool, typer.Option("--mirror", help="Fit on every picture mirrored left to right, too.")] = False
    ridge: Annotated[
        str | None,
        typer.Option(
            help="Relative ridge, or 'auto': chosen by leave-one-out (online or cross-fitted children). "
            "Default: the preset's."
        ),
    ] = None
    children: Annotated[
        Literal["true", "online", "cross-fitted", "honest"] | None,
        typer.Option(
            help="true activations (the paper), online: the states inversion will hand on, cross-fitted: those of maps "
            "that did not see the sample (deprecated name: honest). Default: the preset's."
        ),
    ] = None
    stages: Annotated[
        str | None,
        typer.Option(
            help="Maps per node, 2 being the paper's G and D, or 'auto': while they help (online or cross-fitted "
            "children). Default: the preset's."
        ),
    ] = None
    on: Annotated[
        str | None,
        typer.Option(
            help="What maps recover: states (the paper), tangents (differences of other inputs, pushed forward) or "
            "tangentsK: K of them at every input. Default: the preset's."
        ),
    ] = None
    length: Annotated[
        bool | None,
        typer.Option(
            "--length/--no-length",
            help="Give inverses the length that fits held-out samples (every eighth) best, target by target. "
            "Default: the preset's.",
        ),
    ] = None
    until: Annotated[
        float | None,
        typer.Option(
            help="Take samples only until a doubling changes the error of held-out ones by less than this share, such "
            "as 0.001; decided before the fit, on first maps of true children."
        ),
    ] = None
    operator: Annotated[
        str, typer.Option(help="full, diagonal, gamma, diagonal+rankN, causal or causal+K: capacity of the maps.")
    ] = "full"
    partition: Annotated[
        str | None,
        typer.Option(
            help="singleton: a matrix per frequency; blocksK: one for K neighbours along every axis; shared: one for "
            "all; first-apart: one for the first token and one for all others (causal operators). "
            "Default: the preset's."
        ),
    ] = None
    maps: Annotated[
        str,
        typer.Option(
            help="Size of the maps: full, small (neighbouring frequencies share a matrix), bytes such as 2GiB, met by "
            "sharing where maps are largest; chosen or chosen:2GiB: node by node, by what held-out samples lose. "
            "Instead of --partition."
        ),
    ] = "full"
    memory: Annotated[str | None, typer.Option(help="Memory budget such as 4GiB; more passes when it is small.")] = None
    precision: Annotated[
        options.Precision,
        typer.Option(help="Numbers of the maps on disk: as fitted (full), 16 bits (half) or 8 (int8)."),
    ] = "full"

    def chosen_preset(self) -> Preset:
        """With the boundaries and partition of the command line. A preset's own were measured with full matrices."""
        preset = preset_named(self.preset)
        preset = preset if self.operator == "full" else Preset(preset.name, preset.settings)
        chosen = preset.boundaries if self.boundaries is None else options.boundary_choice(self.boundaries)
        partition = self.partition or ("singleton" if self.maps != "full" else preset.partition)
        return replace(preset, boundaries=chosen, partition=partition)

    def overrides(self) -> dict[str, Any]:
        """The options of :func:`sgfi.calibrate` that win over the preset's."""
        ridge = options.number_or_auto(self.ridge, float, "--ridge")
        return {
            "ridge": ridge,
            "children": self.children,
            "stages": options.number_or_auto(self.stages, int, "--stages"),
            "on": self.on,
            "length": self.length,
            "until": self.until,
        }


@command
def calibrate(
    model: options.Model,
    how: FitOptions,
    data: Annotated[Path, typer.Option(help="Folder of images, an .npy/.safetensors of inputs, or a text file.")],
    out: Annotated[Path, typer.Option(help="Folder for the maps; must not exist yet.")],
    target: options.Target = None,
    weights: options.Weights = None,
    partial_weights: options.Partial = False,
    size: options.Size = None,
    limit: options.Limit = None,
    batch_size: options.BatchSize = 16,
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
    chosen, given = how.chosen_preset(), how.overrides()
    if how.children == "honest":
        say("--children honest is now called cross-fitted.", quiet)
    options.free_map_folder(out, force)
    started = time.monotonic()
    loaded, graph = capture_model(model, weights, size, partial_weights)
    by_samples, _, budget = how.maps.partition(":") if how.maps.startswith(CHOSEN) else ("", "", "")
    planned = sgfi.plan(
        graph,
        target,
        chosen.boundaries,
        partition=chosen.partition,
        operator=how.operator,
        size="full" if by_samples == CHOSEN else how.maps,
    )
    batches = open_data(data, loaded, batch_size, limit)
    batches = Mirrored(batches, loaded) if how.mirror else batches
    if by_samples == CHOSEN:
        planned = _chosen(planned, batches, budget, chosen, given)
        say(f"{planned.map_bytes / 2**20:.0f} MiB of maps", quiet)
    described = batches.describe()
    skipped = f", {len(batches.skipped)} unreadable and skipped" if batches.skipped else ""
    say(f"{described['inputs']} inputs{skipped}; {counted(len(planned.fitted), 'node')} to {planned.target}", quiet)
    partial = out.with_name(out.name + ".partial")
    running = Running(
        memory=how.memory,
        checkpoint=partial,
        progress=not quiet,
        provenance={"model": loaded.provenance, "data": {"path": str(data), **described}},
        distributed=processes.launched(),
    )
    try:
        family = sgfi.calibrate(planned, batches, preset=chosen, **given, **running)
    except KeyboardInterrupt as error:
        text = f"Interrupted. Finished nodes are kept in {partial}; run the same command to resume."
        raise Interrupted(text) from error
    processes.leave_group()
    if not processes.is_worker():
        _store(family, partial, out, how.precision, force)
        if "reason" in family.curve:
            say(f"{family.curve['reason']}.", quiet)
        say(f"{family!r} in {time.monotonic() - started:.0f} s", quiet)
        typer.echo(str(out))


def _chosen(planned: sgfi.Plan, batches: Any, budget: str, preset: Preset, given: dict[str, Any]) -> sgfi.Plan:
    """Without low ranks where a ridge or samples are left to leave-one-out."""
    ridge = preset.settings.ridge if given["ridge"] is None else given["ridge"]
    children = given["children"] or preset.settings.children
    low_rank = ridge != "auto" and children not in ("cross-fitted", "honest")
    number = ridge if isinstance(ridge, float) else 0.01
    return choose_sizes(planned, batches, budget or None, ridge=number, low_rank=low_rank)


def _quiet_worker(quiet: bool) -> bool:
    """Under torchrun only rank zero reports."""
    if processes.is_worker():
        warnings.simplefilter("ignore", SkippedFile)
    return quiet or processes.is_worker()


def _store(family: sgfi.MapFamily, partial: Path, out: Path, precision: options.Precision, force: bool) -> None:
    """A finished checkpoint folder is a map folder: it only needs its name.

    Fitting may have taken hours, so whether that name is still free is asked again.
    """
    options.free_map_folder(out, force)
    if precision == "full":
        replace_folder(partial, out)
    else:
        sgfi.save(family, out, overwrite=force, precision=precision)
        shutil.rmtree(partial)
