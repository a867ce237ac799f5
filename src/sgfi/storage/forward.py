"""The forward that maps were fitted on, beside its weights: ops, attributes, library versions, a few activations.

The same weights compute something else when a library changes a model's code, an attribute or a kernel. Maps remember
what the forward was, and say on load what is different.
"""

from __future__ import annotations

import platform
import warnings
from collections.abc import Mapping, Sequence
from importlib import metadata
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sgfi.derivatives import Linearisation
from sgfi.errors import StoreError
from sgfi.graph import TensorGraph
from sgfi.graph.signature import signature

LIBRARIES = ("sgfi", "torch", "torchvision", "timm", "transformers", "open_clip_torch", "numpy", "safetensors")
PROBES = 8
"""Activations of every boundary that are kept."""
TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-7}
"""Relative to the size of a boundary's activations: other processors round otherwise."""
ATTENTION = "math"
"""The kernel that attention runs with, everywhere."""


def versions() -> dict[str, str]:
    """Of Python and of the libraries that are installed."""
    known = {"python": platform.python_version()}
    for name in LIBRARIES:
        try:
            known[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return known | {"torch": str(torch.__version__)}


def forward_record(graph: TensorGraph, boundaries: Sequence[str]) -> dict[str, Any]:
    """What the manifest keeps about the forward."""
    return {
        "ops": [f"{op}#{attributes}" for op, attributes in signature(graph.exported)],
        "attention": ATTENTION,
        "probes": {name: probe.tolist() for name, probe in probes(graph, boundaries).items()},
    }


def check_forward(graph: TensorGraph, manifest: Mapping[str, Any]) -> None:
    """The graph against the record; an error that names what changed. Folders without a record pass."""
    record = manifest.get("forward")
    if record is None:
        return
    before, now = record["ops"], [f"{op}#{attributes}" for op, attributes in signature(graph.exported)]
    kinds = [[op.partition("#")[0] for op in ops] for ops in (before, now)]
    traced = _first_difference(graph, before, now)
    activations = _changed_activations(graph, record["probes"])
    if activations or (traced and kinds[0] == kinds[1]):
        raise StoreError(
            "the forward the maps were fitted on",
            "the same weights with another one: "
            + "; ".join(filter(None, (traced, activations, _other_versions(manifest.get("versions", {}))))),
            "Use the versions the maps were fitted with, or calibrate again; force=True loads them in spite of it.",
        )
    if traced:
        warnings.warn(
            f"the maps were fitted on a forward that was traced otherwise ({traced}; "
            f"{_other_versions(manifest.get('versions', {})) or 'the same versions'}); its activations agree.",
            stacklevel=3,
        )


def _first_difference(graph: TensorGraph, before: Sequence[str], now: Sequence[str]) -> str:
    """Which op is not what it was, and the tensor it stands at; empty where all are."""
    calls = [node for node in graph.exported.graph.nodes if node.op == "call_function"]
    for number, node in enumerate(calls):
        was = before[number].partition("#")[0] if number < len(before) else "nothing"
        if number >= len(before) or before[number] != now[number]:
            later = (graph.exported.names.get(call) for call in calls[number:])
            where = next((name for name in later if name), "the end")
            op = str(node.target)
            return f"{op} at {where!r} " + ("has other attributes" if was == op else f"was {was}")
    return "" if len(before) == len(now) else f"{before[len(now)].partition('#')[0]} is gone from the end"


def _changed_activations(graph: TensorGraph, stored: Mapping[str, Sequence[float]]) -> str:
    """The first boundary whose activations are not what they were; empty where all are."""
    known = [name for name in stored if name in graph.nodes]
    for name, probe in probes(graph, known).items():
        was = np.asarray(stored[name])
        if len(was) != len(probe):
            return f"{name!r} has another size"
        off = float(np.abs(probe[1:] - was[1:]).max() / max(was[0], 1e-300))
        if not off <= TOLERANCE[graph.input.dtype]:
            return f"activations of {name!r} differ by {off:.1g} of their size"
    return ""


def _other_versions(before: Mapping[str, str]) -> str:
    now = versions()
    changed = [f"{name} {was} -> {now.get(name, 'none')}" for name, was in before.items() if now.get(name) != was]
    return ", ".join(changed)


@torch.inference_mode(False)
@torch.no_grad()
def probes(graph: TensorGraph, boundaries: Sequence[str]) -> dict[str, np.ndarray]:
    """For every boundary its root mean square and a few entries, at one fixed input."""
    names = [name for name in boundaries if name != "input"]
    bound = graph.bind({name: torch.ones_like(side) for name, side in graph.example_sides.items()})
    values = Linearisation(bound, {}, probe_input(graph), keep=names).values if names else {}
    return {name: _probe(values[name]) for name in names}


def _probe(tensor: Tensor) -> np.ndarray:
    """float64, by numpy: the device may have no double precision."""
    flat = tensor.detach().cpu().flatten().numpy().astype(np.float64)
    places = np.linspace(0, len(flat) - 1, min(PROBES, len(flat))).astype(int)
    return np.concatenate([[np.sqrt(np.square(flat).mean())], flat[places]])


def probe_input(graph: TensorGraph) -> Tensor:
    """(1, ...) waves of several lengths, the same on every machine."""
    sizes = [int(size) for size in graph.input.shape[1:]]  # type: ignore[arg-type]
    at = np.arange(prod(sizes), dtype=np.float64)
    wave = np.sin(0.37 * at) + np.cos(0.0113 * at) * np.sin(2.71 * at)
    exact = wave.astype(np.float64 if graph.input.dtype == torch.float64 else np.float32)
    return torch.from_numpy(exact).reshape(1, *sizes).to(graph.device, graph.input.dtype)
