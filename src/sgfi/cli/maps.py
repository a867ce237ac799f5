"""``sgfi maps info | verify | shrink | pull | push``: map folders."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

import sgfi
from sgfi import sharing
from sgfi.cli import options
from sgfi.cli.loading import map_manifest, on_disk, open_family
from sgfi.cli.outcomes import command, say
from sgfi.errors import DataError, QueryError, StoreError
from sgfi.evaluation import quality as report
from sgfi.figures.style import counted
from sgfi.inputs.data import open_data
from sgfi.inputs.models import describe_weights
from sgfi.inversion import MapFamily
from sgfi.inversion.estimator import spread
from sgfi.storage import read_manifest, record_of, verify_files


@command
def info(
    maps: options.Maps,
    as_json: Annotated[bool, typer.Option("--json", help="The whole manifest as JSON.")] = False,
    quality: Annotated[
        bool, typer.Option("--quality", help="The leave-one-out or held-out error of every node, and advice.")
    ] = False,
) -> None:
    """What a map folder holds, read from its manifest alone.

    Examples:

      sgfi maps info maps/resnet18
      sgfi maps info maps/resnet18 --quality
    """
    manifest = map_manifest(maps)
    if quality:
        fit = manifest["calibration"]
        typer.echo(report.as_text(report.quality(manifest), fit["samples"], fit.get("curve")))
        return
    if as_json:
        typer.echo(json.dumps(manifest, indent=1))
        return
    for name, value in facts(manifest).items():
        typer.echo(f"{name:14}{value}")


@command
def verify(
    maps: options.Maps,
    weights_too: Annotated[
        bool, typer.Option("--model-too", help="Also build the model and compare its weights.")
    ] = False,
    model: options.ModelOverride = None,
    weights: options.WeightsOverride = None,
) -> None:
    """Check that every map file is there, complete and unaltered.

    Example:

      sgfi maps verify maps/resnet18
    """
    manifest = map_manifest(maps)
    verify_files(maps, manifest)
    if weights_too:
        open_family(maps, model, weights)
    typer.echo(f"{maps}: {counted(len(manifest['files']), 'file')} as written")


@command
def shrink(
    maps: options.Maps,
    out: Annotated[Path, typer.Option(help="Folder for the smaller family.")],
    stages: Annotated[int | None, typer.Option(help="Maps to keep per node (1: the first map only).")] = None,
    target: Annotated[str | None, typer.Option(help="Keep only what this shallower target needs.")] = None,
    precision: Annotated[
        options.Precision | None, typer.Option(help="Store weights in 16 bits (half) or 8 (int8).")
    ] = None,
    model: options.ModelOverride = None,
    weights: options.WeightsOverride = None,
    force: options.Force = False,
    quiet: options.Quiet = False,
) -> None:
    """Write a smaller copy of a family: fewer bits, fewer stages, or only up to a shallower target.

    Examples:

      sgfi maps shrink maps/resnet18 --precision int8 --out maps/resnet18-int8
      sgfi maps shrink maps/resnet18 --stages 1 --out maps/resnet18-first
      sgfi maps shrink maps/resnet18 --target layer2.1.add --out maps/resnet18-shallow
    """
    options.free_map_folder(out, force)
    before = on_disk(map_manifest(maps))
    smaller = shrunk(open_family(maps, model, weights).family, stages, target)
    sgfi.save(smaller, out, overwrite=force, precision=precision)
    say(f"{_size(before)} -> {_size(on_disk(read_manifest(out)))}", quiet)
    typer.echo(str(out))


@command
def pull(
    source: Annotated[
        str, typer.Argument(help="org/name or org/name@revision on the hub, https://... of a folder, or a folder.")
    ],
    out: Annotated[Path, typer.Option(help="Folder for the maps; must not exist yet.")],
    target: Annotated[str | None, typer.Option(help="Fetch only what this shallower target needs.")] = None,
    quiet: options.Quiet = False,
) -> None:
    """Fetch a published family. Every file is compared with the manifest's checksum before it is kept.

    Examples:

      sgfi maps pull org/resnet18-maps@v1 --out maps/resnet18
      sgfi maps pull https://example.org/maps/resnet18 --target layer2.1.add --out maps/shallow
    """
    try:
        sharing.pull(source, out, target=target)
    except sharing.Unreachable as error:
        raise StoreError(f"an answer from {source}", str(error), "Check the network.") from error
    say(f"{_size(on_disk(read_manifest(out)))}, {len(read_manifest(out)['files'])} fitted nodes", quiet)
    typer.echo(str(out))


@command
def push(
    maps: options.Maps,
    to: Annotated[
        str,
        typer.Argument(
            help="org/name on the hub, or the path of a new folder for any file server, such as ./site/maps."
        ),
    ],
    model_licence: Annotated[str, typer.Option(help="Licence of the model's weights, such as apache-2.0.")],
    data_licence: Annotated[str, typer.Option(help="Licence of the calibration data.")],
    held_out: Annotated[
        Path | None, typer.Option(help="Inputs the maps were not fitted to: the card's numbers are measured on them.")
    ] = None,
    limit: options.Limit = 16,
    picture: Annotated[
        str | None,
        typer.Option(
            help='A .png or .jpg for the card, or "drawn": three held-out pictures, published too, and their inverses.'
        ),
    ] = None,
    precision: Annotated[options.Precision | None, typer.Option(help="Store weights in half or int8.")] = None,
    public: Annotated[bool, typer.Option("--public", help="On the hub: for everybody to see.")] = False,
    model: options.ModelOverride = None,
    weights: options.WeightsOverride = None,
    quiet: options.Quiet = False,
) -> None:
    """Publish a family with a card: settings, held-out numbers and controls by depth, licences, limits, how to load it.

    Examples:

      sgfi maps push maps/resnet18 org/resnet18-maps --model-licence bsd-3-clause --data-licence unknown --held-out val/
      sgfi maps push maps/resnet18 ./site/resnet18 --model-licence bsd-3-clause --data-licence unknown
    """
    licences = sharing.Licences(model_licence, data_licence)
    opened = open_family(maps, model, weights)
    inputs = None if held_out is None else open_data(held_out, opened.loaded, 16, limit)
    if inputs is not None and inputs.describe()["digest"] == opened.fitted_on:
        todo = "Name others: numbers on these would flatter the maps."
        raise DataError("inputs that the maps were not fitted to", f"those of the calibration, {held_out}", todo)
    card: dict[str, Any] = {"held_out": inputs, "picture": picture, "precision": precision}
    if re.fullmatch(sharing.REPOSITORY, to):
        commit = sharing.push_to_hub(opened.family, to, licences, private=not public, **card)
        say(f"commit {commit}", quiet)
        typer.echo(f"{to}@{commit}")
    else:
        typer.echo(str(sharing.publish(opened.family, to, licences, **card)))


def shrunk(family: MapFamily, stages: int | None, target: str | None) -> MapFamily:
    """The family with fewer maps; those that stay are unchanged."""
    if stages is not None and not 1 <= stages <= family.stages:
        raise QueryError(f"1 to {family.stages} stages", str(stages), "Choose a number in this range.")
    plan = family.plan
    if target is not None:
        plan = replace(plan, dag=plan.toward(target))  # refuses where a frontier would differ
        needed = {*plan.fitted, plan.target}
        plan = replace(plan, boundary={n: b for n, b in plan.boundary.items() if n in needed})
    served = {*plan.fitted, plan.target} if stages in (None, family.stages) else set()  # lengths are of all maps
    return replace(
        family,
        plan=plan,
        maps={name: family.maps[name][:stages] for name in plan.fitted},
        diagnostics={n: d[:stages] for n, d in family.diagnostics.items() if n in plan.fitted},
        lengths={target: own for target, own in family.lengths.items() if target in served},
    )


def facts(manifest: dict[str, Any]) -> dict[str, str]:
    """The manifest in a few lines: name -> text."""
    plan, fit = manifest["plan"], manifest["calibration"]
    model, data = record_of(manifest, "model"), record_of(manifest, "data")
    skipped = f", {len(data['skipped'])} skipped" if isinstance(data.get("skipped"), list) and data["skipped"] else ""
    return {
        "model": f"{model.get('spec', manifest['model']['class'])} (weights: {describe_weights(model)})",
        "fingerprint": manifest["model"]["fingerprint"][:16],
        "input": "x".join(map(str, manifest["model"]["input_shape"])),
        "target": plan["target"],
        "boundaries": f"{plan['mode']}, {len(manifest['files'])} fitted nodes",
        "calibration": f"{fit['samples']} {'samples' if fit.get('mean') is None else 'tangents'}{skipped}, "
        f"{fit['children']} children, "
        f"{fit['stages']} stages, ridge {fit['ridge']}",
        **({"passes": _passes(fit["schedule"])} if fit.get("schedule") else {}),
        **({"length": _lengths(fit["lengths"])} if fit.get("lengths") else {}),
        "data": f"{data.get('path', data.get('kind', '?'))} (digest {data.get('digest', '?')})",
        "size": f"{_size(on_disk(manifest))}, {manifest.get('precision', 'full')} precision",
        "versions": ", ".join(f"{k} {v}" for k, v in manifest.get("versions", {}).items()),
    }


def _passes(schedule: dict[str, Any]) -> str:
    """How the calibration was cut."""
    most, resumed = max(schedule["chunks"].values(), default=1), schedule["resumed"]
    text = f"{schedule['passes']} over the data in {schedule['rounds']} rounds"
    text += f" within {_size(schedule['budget'])}" if schedule["budget"] else ""
    text += f", moments of a node in up to {most} chunks" if most > 1 else ""
    return text + (f"; {resumed} nodes of an earlier run" if resumed else "")


def _lengths(lengths: dict[str, dict[str, float]]) -> str:
    """Of the inverses themselves, from the shallowest to the deepest target."""
    inverses = {target: own["input"] for target, own in lengths.items() if "input" in own}
    return ", ".join(f"{target} x {inverses[target]:.3f}" for target in spread(list(inverses), 4))


def _size(count: int) -> str:
    return f"{count / 2**20:.1f} MiB"
