"""A map family on disk: a folder with ``manifest.json`` and one safetensors file per node.

The manifest is small and can be read without touching weights. Weights are memory-mapped on load. Everything is
written beside its final place and moved there when whole.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy
import safetensors
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from sgfi.boundaries import Boundary, Plan, plan
from sgfi.errors import SgfiError, StoreError
from sgfi.graph import TensorGraph, capture
from sgfi.inversion import MapFamily
from sgfi.inversion.family import FORMER_CHILDREN
from sgfi.spectral import PRECISIONS, Layout, Packed, WienerMap

FORMAT = 1
PACKED_FORMAT = 2
"""Of families that are not in full precision: older readers refuse it by number."""
MANIFEST = "manifest.json"
UNFINISHED = "calibration.json"
PAIRS = "real_imaginary"
"""Ending of tensors stored as (..., 2) real and imaginary parts."""
VALUES, SCALES = "values", "scales"
"""Endings of packed matrices."""
STRONG = "sources"
"""What a map knows of its sources, for packing."""
FFT = "rfftn over coordinate axes in tensor order, last one halved, norm=ortho; vectors untransformed"
NodeMaps = tuple[tuple[WienerMap, ...], list[dict[str, float]]]


def save(family: MapFamily, path: str | Path, *, overwrite: bool = False, precision: str | None = None) -> Path:
    """Write a family to a new folder; nothing appears at ``path`` before it is complete.

    ``precision`` is ``"full"`` (as fitted), ``"half"`` (16 bits a number, conjugate bins once) or ``"int8"`` (8 bits,
    rounded so that sources hardly see it); by default the family's own. Packed maps are used as they are: a few bins
    at a time are unpacked when they are applied.
    """
    path = Path(path)
    precision = _checked_precision(family, precision)
    if path.exists() and not overwrite:
        raise StoreError("a path that does not exist yet", repr(str(path)), "Choose another or pass overwrite=True.")
    if path.exists() and not _replaceable(path):
        raise StoreError(
            "a map folder to overwrite",
            f"{str(path)!r}, which holds something else",
            "Remove it yourself, or choose another.",
        )
    draft: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
        files = {name: _write_node(draft, family.plan, name, maps, precision) for name, maps in family.maps.items()}
        _write_json(draft / MANIFEST, _manifest(family, files, precision))
        _replace(draft, path)
    except OSError as error:
        left = "What was there is untouched." if path.exists() else f"Nothing was left at {path}."
        raise StoreError("room and permission to write the family", str(error), left) from error
    finally:
        if draft is not None:
            shutil.rmtree(draft, ignore_errors=True)
    return path


def _checked_precision(family: MapFamily, precision: str | None) -> str:
    """The precision to write in: packed maps stay as they are, and bytes need to know the sources."""
    if precision is not None and precision not in PRECISIONS:
        raise StoreError(f"a precision among {list(PRECISIONS)}", repr(precision), "Choose one of these.")
    if precision not in (None, family.precision) and family.precision != "full":
        raise StoreError(
            f"maps in full precision to make {precision} of", f"maps in {family.precision}", "Start from the original."
        )
    if precision == "int8" and family.precision == "full":
        for name, maps in family.maps.items():
            if any(one.strong is None and one.needs_sources for one in maps):
                raise StoreError(
                    'maps that remember their sources for precision="int8"',
                    f"none at {name!r}",
                    'Use precision="half", or calibrate again: maps of earlier versions do not know them.',
                )
    return precision or family.precision


def _replaceable(path: Path) -> bool:
    """A map folder, finished or not, or an empty one: anything else is not ours to throw away."""
    return path.is_dir() and ((path / MANIFEST).exists() or (path / UNFINISHED).exists() or not any(path.iterdir()))


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
    file with its checksum. With ``stream`` a node's file is opened when its maps are asked for and let go of after
    use, so that a family may be larger than memory; what is read once is read again the next time.
    """
    path = Path(path)
    manifest = read_manifest(path)
    graph = model if isinstance(model, TensorGraph) else _recapture(model, manifest)
    if graph.fingerprint != manifest["model"]["fingerprint"] and not force:
        raise StoreError(
            f"the checkpoint the maps were fitted on, {manifest['model']['fingerprint'][:16]}...",
            f"a model with fingerprint {graph.fingerprint[:16]}...",
            "Maps of one checkpoint fail on another: load the right weights or calibrate again.",
        )
    if verify:
        verify_files(path, manifest)
    restored = _replan(graph, manifest["plan"], path, manifest)
    stored = StoredMaps({name: path / entry["file"] for name, entry in manifest["files"].items()}, restored)
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


class StoredMaps(Mapping[str, tuple[WienerMap, ...]]):
    """The maps of a folder, each node's read (memory-mapped) anew whenever it is asked for."""

    def __init__(self, files: Mapping[str, Path], plan: Plan) -> None:
        self._files, self._plan = files, plan

    def __getitem__(self, name: str) -> tuple[WienerMap, ...]:
        return _read_node(self._files[name], self._plan, name)

    def __contains__(self, name: object) -> bool:
        return name in self._files

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


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
        found = manifest.get("format") if isinstance(manifest, dict) else type(manifest).__name__
        raise StoreError(
            f"map format {FORMAT} or {PACKED_FORMAT}",
            repr(found),
            "Use the version of sgfi that wrote it, or calibrate again.",
        )
    for part in ("model", "plan", "calibration", "provenance", "files"):
        if not isinstance(manifest.get(part), dict):
            raise StoreError(
                f"{part!r} in {path / MANIFEST}", "a manifest without it", "Copy the folder again or calibrate again."
            )
    return manifest


def verify_files(path: str | Path, manifest: Mapping[str, Any] | None = None) -> None:
    """Every node file present, whole and unaltered; an error that names the first one that is not."""
    path = Path(path)
    manifest = manifest or read_manifest(path)
    for name, entry in manifest["files"].items():
        file = path / entry["file"]
        again = "Copy the folder again or calibrate again."
        if not file.is_file():
            raise StoreError(f"map file {entry['file']} of node {name!r}", "no such file", again)
        if file.stat().st_size != entry["bytes"]:
            raise StoreError(f"{entry['bytes']} bytes in {file.name}", f"{file.stat().st_size} bytes", again)
        if _sha256(file) != entry["sha256"]:
            raise StoreError(f"{file.name} as it was written", "different contents (checksum)", again)


class Checkpoint:
    """A folder that fills up with finished nodes while a calibration runs, and becomes a map folder at the end.

    Of several processes one ``writes``; the others, each after it, read what it has written.
    """

    def __init__(self, path: str | Path, signature: str, plan: Plan, *, writes: bool = True) -> None:
        self._path, self._plan, self._writes = Path(path), plan, writes
        self._note = self._path / UNFINISHED
        if (self._path / MANIFEST).exists():
            found = read_manifest(self._path)
            self._state = {"signature": found["calibration"].get("signature"), "nodes": _as_nodes(found)}
        elif self._note.exists():
            self._state = _read_note(self._note)
        elif not writes:
            raise StoreError(
                f"the checkpoint folder {self._path} that the first process has just made",
                "nothing there",
                "Choose a folder on a file system that every process can see.",
            )
        elif self._path.exists() and (not self._path.is_dir() or any(self._path.iterdir())):
            raise StoreError("an empty or new checkpoint folder", str(self._path), "Choose another folder.")
        else:
            self._state = {"signature": signature, "nodes": {}}
        if self._state["signature"] != signature:
            raise StoreError(
                f"a checkpoint of this very calibration in {self._path}",
                "one of another model, plan, data or setting",
                "Choose another folder, or delete this one to start afresh.",
            )
        if not writes:
            return
        try:
            self._path.mkdir(parents=True, exist_ok=True)
            if not (self._path / MANIFEST).exists():
                _write_json(self._note, self._state)
        except OSError as error:
            raise StoreError("a checkpoint folder that can be written", str(error), "Choose another folder.") from error

    def finished(self) -> dict[str, NodeMaps]:
        """The nodes that need not be fitted again. A damaged file counts as unfinished."""
        found: dict[str, NodeMaps] = {}
        for name, entry in self._state["nodes"].items():
            file = self._path / entry["file"]
            if file.is_file() and _sha256(file) == entry["sha256"]:
                found[name] = (_read_node(file, self._plan, name), entry["diagnostics"])
        return found

    def keep(self, name: str, maps: tuple[WienerMap, ...], diagnostics: list[dict[str, float]]) -> NodeMaps:
        """Write a finished node and hand it back memory-mapped."""
        try:
            if self._writes:
                entry = _write_node(self._path, self._plan, name, maps)
                self._state["nodes"][name] = entry | {"diagnostics": diagnostics}
                _write_json(self._note, self._state)
        except OSError as error:
            raise StoreError(
                "room and permission to keep a finished node", str(error), "Free space and run again to go on."
            ) from error
        return _read_node(_node_file(self._path, self._plan, name), self._plan, name), diagnostics

    def close(self, family: MapFamily) -> None:
        """Turn the folder into a finished map folder."""
        if not self._writes:
            return
        files = {name: _without(entry, "diagnostics") for name, entry in self._state["nodes"].items()}
        manifest = _manifest(family, {name: files[name] for name in family.maps})
        manifest["calibration"]["signature"] = self._state["signature"]
        _write_json(self._path / MANIFEST, manifest)
        self._note.unlink(missing_ok=True)


def _read_note(note: Path) -> dict[str, Any]:
    try:
        state = json.loads(note.read_text())
        return {"signature": state["signature"], "nodes": dict(state["nodes"])}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(
            f"a readable {note}", f"{type(error).__name__}: {error}", "Delete this folder to start afresh."
        ) from error


def _as_nodes(manifest: Mapping[str, Any]) -> dict[str, dict]:
    told = manifest["calibration"]["diagnostics"]
    return {name: {**entry, "diagnostics": told[name]} for name, entry in manifest["files"].items()}


def _without(entry: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name != key}


def _manifest(family: MapFamily, files: Mapping[str, dict], precision: str = "full") -> dict[str, Any]:
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
        "files": dict(files),
    }


def _write_node(
    folder: Path, plan: Plan, name: str, maps: tuple[WienerMap, ...], precision: str = "full"
) -> dict[str, Any]:
    """One node's file, moved into place when whole; its entry for the manifest."""
    tensors: dict[str, Tensor] = {}
    for stage, wiener in enumerate(maps):
        found = wiener if precision == "full" else wiener.packed(precision)
        for key, value in found.weights.items():
            tensors |= {f"{stage}.{key}{ending}": part for ending, part in _parts(value).items()}
        if found.strong is not None:
            tensors[f"{stage}.{STRONG}"] = found.strong
    partition = plan.boundary[name].partition
    if partition.kind == "custom":
        tensors["partition"] = partition.groups
    file = _node_file(folder, plan, name)
    draft = file.with_suffix(".part")
    try:
        try:
            save_file(tensors, draft, metadata={"node": name})
        except safetensors.SafetensorError as error:  # how it reports a full disk
            raise OSError(str(error)) from error
        os.replace(draft, file)
    finally:
        draft.unlink(missing_ok=True)
    return {"file": file.name, "bytes": file.stat().st_size, "sha256": _sha256(file)}


def _parts(value: Tensor | Packed) -> dict[str, Tensor]:
    """A weight as tensors that safetensors can store, by the ending of their names."""
    if isinstance(value, Packed):
        return {f".{VALUES}": value.values.cpu().contiguous(), f".{SCALES}": value.scales.cpu().contiguous()}
    value = value.detach().cpu().contiguous()
    if value.dtype == torch.complex128:  # safetensors knows complex64 only
        return {f".{PAIRS}": torch.view_as_real(value)}
    return {"": value}


def _node_file(folder: Path, plan: Plan, name: str) -> Path:
    return folder / f"{plan.fitted.index(name):03d}_{re.sub(r'[^A-Za-z0-9_.-]', '_', name)}.safetensors"


def _read_node(file: Path, plan: Plan, name: str) -> tuple[WienerMap, ...]:
    try:
        tensors = load_file(file)
        stages = sorted({int(key.split(".")[0]) for key in tensors if key != "partition"})
        return tuple(_read_map(tensors, stage, plan.boundary[name], plan) for stage in stages)
    except (OSError, safetensors.SafetensorError, KeyError, ValueError) as error:
        raise StoreError(
            f"a readable map file {file.name} of node {name!r}",
            f"{type(error).__name__}: {error}",
            "Copy the folder again or calibrate again.",
        ) from error


def _read_map(tensors: Mapping[str, Tensor], stage: int, boundary: Boundary, plan: Plan) -> WienerMap:
    found = {key.removeprefix(f"{stage}."): value for key, value in tensors.items() if key.startswith(f"{stage}.")}
    strong = found.pop(STRONG, None)
    weights: dict[str, Tensor | Packed] = {}
    for key, value in found.items():
        weight, _, ending = key.partition(".")
        if ending == PAIRS:
            weights[weight] = _paired(value)
        elif ending in (VALUES, SCALES):
            layout = Layout.of(boundary.basis, boundary.partition, weight)
            dtype = boundary.basis.dtype(plan.graph.input.dtype)
            weights[weight] = Packed(found[f"{weight}.{VALUES}"], found[f"{weight}.{SCALES}"], layout, dtype)
        else:
            weights[weight] = value
    return WienerMap(boundary.basis, boundary.partition, boundary.operator, weights, strong)


def _paired(value: Tensor) -> Tensor:
    """(..., 2) real and imaginary parts as complex numbers.

    Files align to 8 bytes; kernels for complex128 take 16 for granted and crash without. Copied where that fails.
    """
    aligned = value.data_ptr() % 16 == 0 and value.storage_offset() % 2 == 0
    return torch.view_as_complex(value if aligned else value.clone())


def _recapture(model: nn.Module, manifest: Mapping[str, Any]) -> TensorGraph:
    told = manifest["model"]
    if not isinstance(model, nn.Module):
        raise StoreError("a torch.nn.Module or a captured graph", type(model).__name__, "Pass the model of these maps.")
    if told["bound"]:
        raise StoreError(
            "a captured graph, because forward arguments were bound when the maps were fitted",
            "a bare model",
            f"Pass sgfi.capture(model, example, bound=...) with {', '.join(told['bound'])}.",
        )
    weights = next(iter(model.parameters()), torch.empty(0))
    example = torch.zeros(2, *told["input_shape"], dtype=getattr(torch, told["dtype"]), device=weights.device)
    return capture(model, example)


def _replan(graph: TensorGraph, told: Mapping[str, Any], path: Path, manifest: Mapping[str, Any]) -> Plan:
    """The plan as it was, rebuilt on this graph; refused when the graph no longer has it."""
    fitted = [entry for entry in told["boundaries"] if entry["name"] != told["target"]]
    try:
        rebuilt = plan(
            graph,
            target=told["target"],
            boundaries=[entry["name"] for entry in fitted],
            axes={entry["name"]: entry["channel_axis"] for entry in told["boundaries"]},
            partition={entry["name"]: _partition(entry, path, manifest) for entry in told["boundaries"]},
            operator={entry["name"]: entry["operator"] for entry in told["boundaries"]},
        )
    except SgfiError as error:
        raise StoreError(
            "a model with the boundaries the maps were fitted on", str(error), "Load the same model."
        ) from error
    rebuilt = Plan(rebuilt.graph, told["mode"], rebuilt.dag, rebuilt.boundary)
    wanted = {entry["name"]: (entry["shape"], entry["children"]) for entry in told["boundaries"]}
    found = {entry["name"]: (entry["shape"], entry["children"]) for entry in rebuilt.description["boundaries"]}
    for name, facts in wanted.items():
        if found[name] != facts:
            raise StoreError(f"node {name!r} with shape and children {facts}", str(found[name]), "Load the same model.")
    return rebuilt


def _partition(entry: Mapping[str, Any], path: Path, manifest: Mapping[str, Any]) -> str | Tensor:
    kind = entry["partition"]["kind"]
    if kind != "custom":
        return kind
    if entry["name"] not in manifest["files"]:  # the target: it has no maps, so its partition is idle
        return "singleton"
    return load_file(path / manifest["files"][entry["name"]]["file"])["partition"]


def _replace(draft: Path, path: Path) -> None:
    """Move a finished folder into place, an old one out of the way first."""
    if path.exists():
        old = Path(tempfile.mkdtemp(prefix=f".{path.name}-old-", dir=path.parent))
        os.replace(path, old / path.name)
        try:
            os.replace(draft, path)
        except BaseException:  # an interruption too: put the old one back
            os.replace(old / path.name, path)
            raise
        finally:
            shutil.rmtree(old, ignore_errors=True)
    else:
        os.replace(draft, path)
    os.chmod(path, 0o755)


def _write_json(file: Path, content: Mapping[str, Any]) -> None:
    draft = file.with_suffix(".part")
    try:
        draft.write_text(json.dumps(content, indent=1))
    except TypeError as error:
        raise StoreError(
            "provenance that JSON can hold", str(error), "Use plain numbers, text, lists, dicts."
        ) from error
    else:
        os.replace(draft, file)
    finally:
        draft.unlink(missing_ok=True)


def _sha256(file: Path) -> str:
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest() if hasattr(hashlib, "file_digest") else _digest(stream)


def _digest(stream: Any) -> str:
    """For Python 3.10, which has no file_digest."""
    digest = hashlib.sha256()
    while block := stream.read(1 << 20):
        digest.update(block)
    return digest.hexdigest()
