"""Models and map families as commands need them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sgfi
from sgfi.errors import DataError
from sgfi.store import read_manifest
from sgfi.vision.models import LoadedModel, load_model, reload_model


@dataclass(frozen=True)
class OpenFamily:
    """A map family with the model it was fitted on."""

    family: Any
    loaded: LoadedModel
    manifest: dict[str, Any]


def capture_model(
    spec: str, weights: str | None, size: int | None, partial: bool
) -> tuple[LoadedModel, sgfi.TensorGraph]:
    """Build and capture."""
    loaded = load_model(spec, weights, size=size, strict=not partial)
    return loaded, sgfi.capture(loaded.model, loaded.example)


def open_family(path: Path, spec: str | None = None, weights: str | None = None) -> OpenFamily:
    """Load maps, and the model their manifest names (or ``spec``)."""
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
    return OpenFamily(sgfi.load(path, graph), loaded, manifest)
