"""A map family on disk: a folder with ``manifest.json`` and one safetensors file per node.

The manifest is small and can be read without touching weights. Weights are memory-mapped on load.
"""

from __future__ import annotations

import json
import platform
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy
import safetensors
import torch
from torch import Tensor, nn

from sgfi.boundaries import Plan, plan
from sgfi.errors import SgfiError, StoreError
from sgfi.graph import TensorGraph, capture
from sgfi.inversion import MapFamily
from sgfi.inversion.family import FORMER_CHILDREN, LazyMaps
from sgfi.spectral import PRECISIONS
from sgfi.storage import files
from sgfi.storage.files import MANIFEST, UNFINISHED

FORMAT = 1
PACKED_FORMAT = 2
"""Of families that are not in full precision: older readers refuse it by number."""
FFT = "rfftn over coordinate axes in tensor order, last one halved, norm=ortho; vectors untransformed"


def save(family: MapFamily, path: str | Path, *, overwrite: bool = False, precision: str | None = None) -> Path:
    """Write a family to a new folder; nothing appears at ``path`` before it is complete.

    ``precision`` is ``"full"`` (as fitted), ``"half"`` (16 bits a number, conjugate bins once) or ``"int8"`` (8 bits,
    rounded with error feedback so that sources hardly see it); by default the family's own. Packed maps are used as
    they are: a few bins at a time are unpacked when they are applied.
    """
    path = Path(path)
    precision = _checked_precision(family, precision)
    if path.exists() and not overwrite:
        raise StoreError("a path that does not exist yet", repr(str(path)), "Choose another or pass overwrite=True.")
    if path.exists() and not files.is_map_folder(path):
        raise StoreError(
            "a map folder to overwrite",
            f"{str(path)!r}, which holds something else",
            "Remove it yourself, or choose another.",
        )
    draft: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
        entries = {
            name: files.write_node(draft, family.plan, name, maps, precision) for name, maps in family.maps.items()
        }
        files.write_json(draft / MANIFEST, describe(family, entries, precision))
        files.replace_folder(draft, path)
    except OSError as error:
        left = "What was there is untouched." if path.exists() else f"Nothing was left at {path}."
        raise StoreError("room and permission to write the family", str(error), left) from error
    finally:
        if draft is not None:
            shutil.rmtree(draft, ignore_errors=True)
    return path


def _checked_precision(family: MapFamily, precision: str | None) -> str:
    """The precision to write in: packed maps stay as they are."""
    if precision is None or precision == family.precision:
        return family.precision
    if precision not in PRECISIONS:
        raise StoreError(f"a precision among {list(PRECISIONS)}", repr(precision), "Choose one of these.")
    if family.precision != "full":
        raise StoreError(
            f"maps in full precision to make {precision} of", f"maps in {family.precision}", "Start from the original."
        )
    for name, maps in family.maps.items():
        if not all(wiener.packable(precision) for wiener in maps):
            raise StoreError(
                f'maps that remember their sources for precision="{precision}"',
                f"none at {name!r}",
                'Use precision="half", or calibrate again: maps of earlier versions do not know them.',
            )
    return precision


def load(
    path: str | Path,
    model: nn.Module | TensorGraph,
    *,
    verify: bool = True,
    force: bool = False,
    stream: bool = False,
) -> MapFamily:
    """Read a family for a model (or an already captured graph); weights stay on disk, memory-mapped.

    Maps belong to one checkpoint: other weights are refused unless ``force`` is given. ``verify`` compares every
    file with its checksum. With ``stream`` a node's file is opened each time its maps are needed and closed after
    use, so that a family may be larger than memory.
    """
    path = Path(path)
    manifest = read_manifest(path)
    graph = model if isinstance(model, TensorGraph) else _recapture(model, manifest["model"])
    if graph.fingerprint != manifest["model"]["fingerprint"] and not force:
        raise StoreError(
            f"the checkpoint the maps were fitted on, {manifest['model']['fingerprint'][:16]}...",
            f"a model with fingerprint {graph.fingerprint[:16]}...",
            "Maps of one checkpoint fail on another: load the right weights or calibrate again.",
        )
    if verify:
        verify_files(path, manifest)
    paths = {name: path / entry["file"] for name, entry in manifest["files"].items()}
    restored = _replan(graph, manifest["plan"], paths)
    stored = LazyMaps(paths, lambda name: files.read_node(paths[name], restored, name))  # memory-mapped
    children = manifest["calibration"]["children"]
    return MapFamily(
        plan=restored,
        maps=stored if stream else dict(stored),
        ridge=manifest["calibration"]["ridge"],
        children=FORMER_CHILDREN.get(children, children),
        samples=manifest["calibration"]["samples"],
        fingerprint=manifest["model"]["fingerprint"],
        forced=force,
        diagnostics=manifest["calibration"]["diagnostics"],
        provenance=manifest["provenance"],
        settings=manifest["calibration"].get("settings", {}),
        precision=manifest.get("precision", "full"),
    )


def describe(family: MapFamily, entries: Mapping[str, dict], precision: str = "full") -> dict[str, Any]:
    """The manifest of a family; ``entries`` describe its nodes' files."""
    graph = family.plan.graph
    return {
        "format": FORMAT if precision == "full" else PACKED_FORMAT,
        "precision": precision,
        "model": {
            "class": graph.model_class,
            "fingerprint": family.fingerprint,
            "input_shape": list(graph.input.shape[1:]),
            "dtype": str(graph.input.dtype).removeprefix("torch."),
            "bound": list(graph.bound),
        },
        "plan": family.plan.description,
        "fft": FFT,
        "calibration": {
            "ridge": family.ridge,
            "children": family.children,
            "stages": family.stages,
            "settings": dict(family.settings),
            "samples": family.samples,
            "diagnostics": dict(family.diagnostics),
        },
        "provenance": dict(family.provenance),
        "versions": {
            "python": platform.python_version(),
            "torch": str(torch.__version__),
            "numpy": numpy.__version__,
            "safetensors": safetensors.__version__,
        },
        "files": dict(entries),
    }


def read_manifest(path: str | Path) -> dict[str, Any]:
    """The manifest of a map folder, checked for form."""
    path = Path(path)
    try:
        manifest = json.loads((path / MANIFEST).read_text())
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        todo = "Name a folder written by sgfi.save."
        if (path / UNFINISHED).exists():
            todo = "This calibration is unfinished: run it again with the same checkpoint folder to complete it."
        raise StoreError(f"a readable {MANIFEST} in {path}", f"{type(error).__name__}: {error}", todo) from error
    if not isinstance(manifest, dict) or manifest.get("format") not in (FORMAT, PACKED_FORMAT):
        got = manifest.get("format") if isinstance(manifest, dict) else type(manifest).__name__
        raise StoreError(
            f"map format {FORMAT} or {PACKED_FORMAT}",
            repr(got),
            "Use the version of sgfi that wrote it, or calibrate again.",
        )
    for part in ("model", "plan", "calibration", "provenance", "files"):
        if not isinstance(manifest.get(part), dict):
            raise StoreError(
                f"{part!r} in {path / MANIFEST}", "a manifest without it", "Copy the folder again or calibrate again."
            )
    return manifest


def verify_files(path: str | Path, manifest: Mapping[str, Any] | None = None) -> None:
    """Every node file present, complete and unaltered; an error that names the first one that is not."""
    path = Path(path)
    manifest = manifest or read_manifest(path)
    for name, entry in manifest["files"].items():
        file = path / entry["file"]
        again = "Copy the folder again or calibrate again."
        if not file.is_file():
            raise StoreError(f"map file {entry['file']} of node {name!r}", "no such file", again)
        if file.stat().st_size != entry["bytes"]:
            raise StoreError(f"{entry['bytes']} bytes in {file.name}", f"{file.stat().st_size} bytes", again)
        if files.sha256(file) != entry["sha256"]:
            raise StoreError(f"{file.name} as it was written", "different contents (checksum)", again)


def _recapture(model: nn.Module, record: Mapping[str, Any]) -> TensorGraph:
    """The graph of a model, from the manifest's record of it."""
    if not isinstance(model, nn.Module):
        raise StoreError("a torch.nn.Module or a captured graph", type(model).__name__, "Pass the model of these maps.")
    if record["bound"]:
        raise StoreError(
            "a captured graph, because forward arguments were bound when the maps were fitted",
            "a bare model",
            f"Pass sgfi.capture(model, example, bound=...) with {', '.join(record['bound'])}.",
        )
    weights = next(iter(model.parameters()), torch.empty(0))
    example = torch.zeros(2, *record["input_shape"], dtype=getattr(torch, record["dtype"]), device=weights.device)
    return capture(model, example)


def _replan(graph: TensorGraph, record: Mapping[str, Any], paths: Mapping[str, Path]) -> Plan:
    """The recorded plan, rebuilt on this graph; refused when the graph no longer has it."""
    boundaries = {entry["name"]: entry for entry in record["boundaries"]}
    try:
        rebuilt = plan(
            graph,
            target=record["target"],
            boundaries=[name for name in boundaries if name != record["target"]],
            axes={name: entry["channel_axis"] for name, entry in boundaries.items()},
            partition={name: _partition(entry, paths.get(name)) for name, entry in boundaries.items()},
            operator={name: entry["operator"] for name, entry in boundaries.items()},
        )
    except SgfiError as error:
        raise StoreError(
            "a model with the boundaries the maps were fitted on", str(error), "Load the same model."
        ) from error
    rebuilt = Plan(rebuilt.graph, record["mode"], rebuilt.dag, rebuilt.boundary)
    for entry in rebuilt.description["boundaries"]:
        name = entry["name"]
        expected, got = ((facts["shape"], facts["children"]) for facts in (boundaries[name], entry))
        if got != expected:
            raise StoreError(f"node {name!r} with shape and children {expected}", str(got), "Load the same model.")
    return rebuilt


def _partition(entry: Mapping[str, Any], path: Path | None) -> str | Tensor:
    if entry["partition"]["kind"] != "custom":
        return entry["partition"]["kind"]
    return "singleton" if path is None else files.read_tensors(path)[files.PARTITION]  # the target has no maps
