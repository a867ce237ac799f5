"""A map family on disk: a folder with ``manifest.json`` and one safetensors file per node.

The manifest is small and can be read without touching weights. Weights are memory-mapped on load.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sgfi.boundaries import Plan, plan
from sgfi.derivatives import capture
from sgfi.errors import SgfiError, StoreError
from sgfi.graph import TensorGraph
from sgfi.inversion import MapFamily
from sgfi.inversion.family import FORMER_CHILDREN
from sgfi.spectral import PRECISIONS, WienerMap
from sgfi.storage import files
from sgfi.storage.files import MANIFEST
from sgfi.storage.forward import check_forward, forward_record, versions
from sgfi.storage.manifest import TANGENT_FORMAT, as_folder, format_of, read_manifest, sealed

FFT = "rfftn over coordinate axes in tensor order, last one halved, norm=ortho; vectors untransformed"


def save(family: MapFamily, path: str | Path, *, overwrite: bool = False, precision: str | None = None) -> Path:
    """Write a family to a new folder; nothing appears at ``path`` before it is complete.

    ``precision`` is ``"full"`` (as fitted), ``"half"`` (16 bits a number, conjugate bins once) or ``"int8"`` (8 bits,
    rounded with error feedback so that sources hardly see it); by default the family's own. Packed maps are used as
    they are: a few bins at a time are unpacked when they are applied.
    """
    path = as_folder(path)
    if not isinstance(family, MapFamily):
        raise StoreError("a map family", type(family).__name__, "Pass what sgfi.calibrate or sgfi.load returned.")
    if family.gauge != "query":
        todo = 'Save family.in_gauge("query"), and ask for the gauge after loading.'
        raise StoreError(
            'a family in the gauge "query": a folder holds maps, not how they are asked', family.gauge, todo
        )
    precision = _checked_precision(family, precision)
    if path.exists() and not overwrite:
        raise StoreError("a path that does not exist yet", repr(str(path)), "Choose another or pass overwrite=True.")
    if path.exists() and not files.is_map_folder(path):
        raise StoreError(
            "a map folder to overwrite",
            f"{str(path)!r}, which holds something else",
            "Remove it yourself, or choose another.",
        )
    with files.new_folder(path) as draft:
        entries = {
            name: files.write_node(draft, family.plan, name, maps, precision) for name, maps in family.maps.items()
        }
        files.write_json(draft / MANIFEST, sealed(describe(family, entries, precision)))
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

    Maps belong to one checkpoint and one forward: other weights, ops, attributes or activations are refused unless
    ``force`` is given. Every file is compared with its
    checksum and its numbers must be finite: now with ``verify``, otherwise when it is first used. With ``stream`` a
    node's file is opened each time its maps are needed and closed after use, so that a family may be larger than
    memory.
    """
    path = as_folder(path)
    manifest = read_manifest(path)
    graph = graph_for(model, manifest["model"], force)
    if not force:
        check_forward(graph, manifest)
    stored = StoredMaps(path, manifest["files"], stream)
    restored = stored.plan = replan(graph, manifest["plan"], lambda name: _groups(name, stored))
    for name in stored if verify else ():
        stored.file(name)
    children = manifest["calibration"]["children"]
    return MapFamily(
        plan=restored,
        maps=stored if stream or not verify else dict(stored),
        ridge=manifest["calibration"]["ridge"],
        children=FORMER_CHILDREN.get(children, children),
        samples=manifest["calibration"]["samples"],
        fingerprint=manifest["model"]["fingerprint"],
        forced=force,
        diagnostics=manifest["calibration"]["diagnostics"],
        provenance=manifest["provenance"],
        settings=manifest["calibration"].get("settings", {}),
        curve=manifest["calibration"].get("curve", {}),
        schedule=manifest["calibration"].get("schedule", {}),
        lengths=manifest["calibration"].get("lengths", {}),
        mean=_mean(restored, manifest),
        precision=manifest.get("precision", "full"),
    )


def describe(family: MapFamily, entries: Mapping[str, dict], precision: str = "full") -> dict[str, Any]:
    """The manifest of a family; ``entries`` describe its nodes' files."""
    graph = family.plan.graph
    known = graph.fingerprint == family.fingerprint  # else the graph no longer is what the maps were fitted on
    return {
        "format": format_of(precision, tangents=family.mean is not None, lengths=bool(family.lengths)),
        "precision": precision,
        "model": model_record(graph, family.fingerprint),
        "plan": family.plan.description,
        "fft": FFT,
        "calibration": {
            "ridge": family.ridge,
            "children": family.children,
            "stages": family.stages,
            "settings": dict(family.settings),
            "samples": family.samples,
            **({"mean": list(family.mean)} if family.mean is not None else {}),
            **({"lengths": {target: dict(own) for target, own in family.lengths.items()}} if family.lengths else {}),
            "diagnostics": dict(family.diagnostics),
            **({"curve": dict(family.curve)} if family.curve else {}),
            **({"schedule": dict(family.schedule)} if family.schedule else {}),
        },
        "provenance": dict(family.provenance),
        "versions": versions(),
        **({"forward": forward_record(graph, family.plan.boundaries)} if known else {}),
        "files": dict(entries),
    }


def model_record(graph: TensorGraph, fingerprint: str) -> dict[str, Any]:
    """What a manifest says of the model itself."""
    return {
        "class": graph.model_class,
        "fingerprint": fingerprint,
        "input_shape": list(graph.input.shape[1:]),
        "dtype": str(graph.input.dtype).removeprefix("torch."),
        "bound": list(graph.bound),
    }


def graph_for(model: nn.Module | TensorGraph, record: Mapping[str, Any], force: bool = False) -> TensorGraph:
    """The graph of a model (or the graph given), which must be the one that a manifest's record is about."""
    graph = model if isinstance(model, TensorGraph) else _recapture(model, record)
    if graph.fingerprint != record["fingerprint"] and not force:
        raise StoreError(
            f"the checkpoint the maps were fitted on, {record['fingerprint'][:16]}...",
            f"a model with fingerprint {graph.fingerprint[:16]}...",
            "Maps of one checkpoint fail on another: load the right weights or calibrate again.",
        )
    return graph


def verify_files(path: str | Path, manifest: Mapping[str, Any] | None = None) -> None:
    """Every node file present, complete, unaltered and finite; an error that names the first one that is not."""
    path = Path(path)
    manifest = manifest or read_manifest(path)
    for name, entry in manifest["files"].items():
        files.check_file(path, name, entry)


class StoredMaps(Mapping[str, tuple[WienerMap, ...]]):
    """The maps of a folder by node, each file checked when it is first used.

    With ``stream`` a file is opened at every access, and checked again where it is not the one that was checked.
    """

    def __init__(self, folder: Path, entries: Mapping[str, Mapping[str, Any]], stream: bool) -> None:
        self._folder, self._entries, self._stream = folder, entries, stream
        self._checked: dict[str, tuple[int, ...]] = {}
        self._held: dict[str, tuple[WienerMap, ...]] = {}
        self._lock = threading.RLock()
        self.plan: Plan | None = None
        """Set once it is rebuilt, for which custom partitions are read from here."""

    def __getitem__(self, name: str) -> tuple[WienerMap, ...]:
        with self._lock:
            if name in self._held:
                return self._held[name]
            assert self.plan is not None
            maps = files.read_node(self.file(name), self.plan, name)
            if not self._stream:
                self._held[name] = maps
            return maps

    def file(self, name: str) -> Path:
        """A node's file, checked."""
        with self._lock:
            file = files.inside(self._folder, self._entries[name]["file"])
            if name not in self._checked or self._checked[name] != _identity(file):
                files.check_file(self._folder, name, self._entries[name])
                self._checked[name] = _identity(file)
            return file

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def _identity(file: Path) -> tuple[int, ...]:
    """Which file it is, and whether it was written since."""
    try:
        facts = file.stat()
    except OSError:
        return ()
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns


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


def replan(graph: TensorGraph, record: Mapping[str, Any], groups: Callable[[str], str | Tensor]) -> Plan:
    """The recorded plan, rebuilt on this graph; refused when the graph no longer has it.

    ``groups`` gives the ids of a node's custom partition.
    """
    boundaries = {entry["name"]: entry for entry in record["boundaries"]}
    try:
        rebuilt = plan(
            graph,
            target=record["target"],
            boundaries=[name for name in boundaries if name != record["target"]],
            axes={name: entry["channel_axis"] for name, entry in boundaries.items()},
            partition={name: _partition(entry, groups) for name, entry in boundaries.items()},
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


def _mean(restored: Plan, manifest: Mapping[str, Any]) -> tuple[float, ...] | None:
    """The mean of the inputs that maps of tangents, and only those, come with."""
    mean, channels = manifest["calibration"].get("mean"), restored.boundary["input"].channels
    wanted = channels if manifest["format"] == TANGENT_FORMAT else None
    if wanted != (None if mean is None else len(mean)):
        expected = f"a mean of {channels} input channels with format {TANGENT_FORMAT}, and no other"
        raise StoreError(expected, f"format {manifest['format']} and {mean!r}"[:100], files.AGAIN)
    return None if mean is None else tuple(mean)


def _partition(entry: Mapping[str, Any], groups: Callable[[str], str | Tensor]) -> str | Tensor:
    kind = entry["partition"]["kind"]
    return kind if kind != "custom" else groups(entry["name"])


def _groups(name: str, stored: StoredMaps) -> str | Tensor:
    return files.read_partition(stored.file(name)) if name in stored else "singleton"  # the target has no maps
