"""Models and estimators as commands need them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

import sgfi
from sgfi.calibration.memory import available
from sgfi.derivatives import capture_with
from sgfi.errors import DataError, StoreError
from sgfi.inputs.models import LoadedModel, load_model, parse_spec, reload_model
from sgfi.language import transfer
from sgfi.report.look import input_prior
from sgfi.storage import read_manifest, record_of


@dataclass(frozen=True)
class OpenEstimator:
    """An estimator with the model it answers for."""

    estimator: sgfi.Estimator
    loaded: LoadedModel
    manifest: Mapping[str, Any] = field(default_factory=dict)
    """Of the maps; empty for a natural inverse."""

    @property
    def fitted_on(self) -> str | None:
        """Digest of the data that maps were fitted on, where it is known."""
        return record_of(self.manifest, "data").get("digest")


@dataclass(frozen=True)
class OpenFamily(OpenEstimator):
    """A map family with the model it was fitted on."""

    estimator: sgfi.MapFamily

    @property
    def family(self) -> sgfi.MapFamily:
        return self.estimator


def capture_model(
    spec: str, weights: str | None, size: int | None, partial: bool, attention: str = "fused"
) -> tuple[LoadedModel, sgfi.TensorGraph]:
    """Build and capture."""
    loaded = load_model(spec, weights, size=size, strict=not partial)
    return loaded, sgfi.capture(loaded.model, loaded.example, attention=attention)


def open_estimator(
    source: str,
    spec: str | None = None,
    weights: str | None = None,
    size: int | None = None,
    query: sgfi.Query | None = None,
) -> OpenEstimator:
    """The maps of a folder, or, where ``source`` is a model's spec, the natural inverse of that model.

    ``spec`` and ``size`` are for one of the two: another model for maps, another input size for a model. If ``query``
    names a tensor inside fused attention, that is opened.
    """
    if not names_model(source):
        if size is not None:
            raise DataError(
                "maps at the size they were fitted for",
                f"--size {size}",
                "Leave --size out, or name a model instead of a map folder.",
            )
        return open_family(Path(source), spec, weights)
    if spec is not None:
        raise DataError("one model", f"{source} and --model {spec}", "--model goes with a map folder: leave it out.")
    return natural_inverse(load_model(source, weights, size=size), query)


def natural_inverse(loaded: LoadedModel, query: sgfi.Query | None = None) -> OpenEstimator:
    """Of a model at its input shape, with the settings that :func:`sgfi.natural` has by default."""
    graph = capture_with(loaded.model, loaded.example, [query.target] if query and query.target else [])
    return OpenEstimator(sgfi.natural(graph, input_prior(loaded, graph)), loaded)


def names_model(source: str) -> bool:
    """Whether a command's first argument is a model's spec: a folder of that name would be maps."""
    return ":" in source and not Path(source).exists()


def map_manifest(path: Path) -> dict[str, Any]:
    """The manifest of a map folder; a model's spec in its place is refused."""
    if names_model(str(path)):
        raise StoreError(
            "a map folder",
            f"the model {path}",
            "The natural inverse of a model has no maps. Make maps with sgfi calibrate, or ask it with sgfi look.",
        )
    return read_manifest(path)


def open_family(path: Path, spec: str | None = None, weights: str | None = None) -> OpenFamily:
    """Load maps, and the model their manifest names (or ``spec``). A family too large for memory is streamed.

    A Python file runs only where ``spec`` names it: maps may come from anywhere, and must not choose what is run.
    """
    manifest = map_manifest(path)
    loaded = recorded_model(path, record_of(manifest, "model"), spec, weights)
    graph = sgfi.capture(loaded.model, loaded.example)
    stream = on_disk(manifest) > available() // 2
    return OpenFamily(sgfi.load(path, graph, stream=stream), loaded, manifest)


def recorded_model(
    path: Path, record: Mapping[str, Any], spec: str | None = None, weights: str | None = None
) -> LoadedModel:
    """The model that a folder's record names, or ``spec`` in its place."""
    if not record and spec is None:
        raise DataError("a manifest that names its model", f"{path} without one", "Name the model with --model.")
    if not record:
        return load_model(str(spec), weights)
    if spec is None:
        _refuse_file(path, record)
    changes = {"spec": spec, "weights": weights}
    return reload_model({**record, **{k: v for k, v in changes.items() if v is not None}})


def _refuse_file(path: Path, record: Mapping[str, Any]) -> None:
    named = record.get("spec")
    if not isinstance(named, str):
        raise DataError("a manifest that names its model", f"{path} without one", "Name the model with --model.")
    if parse_spec(named).scheme == "file":
        raise DataError(
            "the Python file that builds the model, named on this command line",
            f"maps in {path} that name {named}, which would be run",
            f"If you trust that file, name it with --model path/to/net.py:build, here --model {named}",
        )


def at_length(opened: OpenEstimator, length: int) -> sgfi.Estimator:
    """Maps of sequences at an input's own length; a natural inverse, and maps of this length, as they are."""
    fitted, width = opened.loaded.input_shape[0], opened.loaded.input_shape[-1]
    if length == fitted or not isinstance(opened, OpenFamily):
        return opened.estimator
    return transfer(opened.family, sgfi.capture(opened.loaded.model, torch.zeros(2, length, width)))


def on_disk(manifest: Mapping[str, Any]) -> int:
    """Bytes of all map files."""
    return sum(entry["bytes"] for entry in manifest["files"].values())
