"""Models and map families as commands need them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sgfi
from sgfi.calibration.memory import available
from sgfi.errors import DataError
from sgfi.inputs.models import LoadedModel, load_model, reload_model
from sgfi.storage.folder import read_manifest


@dataclass(frozen=True)
class OpenFamily:
    """A map family with the model it was fitted on."""

    family: sgfi.MapFamily
    loaded: LoadedModel
    manifest: dict[str, Any]


def capture_model(
    spec: str, weights: str | None, size: int | None, partial: bool
) -> tuple[LoadedModel, sgfi.TensorGraph]:
    """Build and capture."""
    loaded = load_model(spec, weights, size=size, strict=not partial)
    return loaded, sgfi.capture(loaded.model, loaded.example)


def open_family(path: Path, spec: str | None = None, weights: str | None = None) -> OpenFamily:
    """Load maps, and the model their manifest names (or ``spec``). A family too large for memory is streamed."""
    manifest = read_manifest(path)
    record = dict(manifest.get("provenance") or {}).get("model")
    if record is None and spec is None:
        raise DataError("a manifest that names its model", f"{path} without one", "Name the model with --model.")
    if record is None:
        loaded = load_model(str(spec), weights)
    else:
        changes = {"spec": spec, "weights": weights}
        loaded = reload_model({**record, **{k: v for k, v in changes.items() if v is not None}})
    graph = sgfi.capture(loaded.model, loaded.example)
    stream = on_disk(manifest) > available() // 2
    return OpenFamily(sgfi.load(path, graph, stream=stream), loaded, manifest)


def on_disk(manifest: dict[str, Any]) -> int:
    """Bytes of all map files."""
    return sum(entry["bytes"] for entry in manifest["files"].values())
