"""Channel means over the calibration inputs, which replace a channel in mean ablation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from sgfi.boundaries import Plan
from sgfi.errors import CalibrationError, StoreError
from sgfi.graph import Node, check_input
from sgfi.inversion import Estimator
from sgfi.storage.files import write_tensors

FILE = "means.safetensors"


def activation_means(
    estimator: Estimator | Plan, batches: Iterable[Tensor], nodes: Sequence[str] | None = None
) -> dict[str, Tensor]:
    """Mean of every channel over inputs and coordinates, (C,), at ``nodes``; one forward pass.

    Without ``nodes``: at the input and every target of an estimator, or at every boundary of a plan.

    Sums are float64, so ragged batches and their order make no difference beyond rounding.
    """
    graph = estimator.graph
    if nodes is None:
        nodes = estimator.boundaries if isinstance(estimator, Plan) else ("input", *estimator.targets)
    chosen = [_node(estimator, name) for name in nodes]
    inner = tuple(node.name for node in chosen if node.name != "input")
    program = graph.program(("input",), inner)
    sums: dict[str, Tensor] = {}
    seen = 0
    for x in batches:
        check_input(graph, x)
        with torch.no_grad():
            states = dict(zip(inner, program(x), strict=True)) | {"input": x}
        seen += len(x)
        for node in chosen:
            state = states[node.name].double()
            mean = state.mean(node.coord_axes) if node.coord_axes else state  # (B, C)
            sums[node.name] = sums.get(node.name, 0) + mean.sum(0)
    if not seen:
        raise CalibrationError("at least one batch", "none", "Pass the batches the maps were fitted on.")
    return {name: (total / seen).to(graph.nodes[name].dtype) for name, total in sums.items()}


def _node(estimator: Estimator | Plan, name: str) -> Node:
    """With the channel axis that was planned."""
    name = estimator.graph.nodes.canonical(name)
    plan = estimator if isinstance(estimator, Plan) else getattr(estimator, "plan", None)
    if isinstance(plan, Plan) and name in plan.boundary:
        return plan.boundary[name].node
    return estimator.graph.nodes[name]


def save_means(means: Mapping[str, Tensor], maps: str | Path, fingerprint: str) -> Path:
    """Write the means beside a saved family's maps; ``fingerprint`` is the graph's, as in the manifest."""
    path = Path(maps) / FILE
    if not path.parent.is_dir():
        raise StoreError("a folder of saved maps", f"nothing at {path.parent}", "Save the family first.")
    write_tensors(path, means, {"fingerprint": fingerprint})
    return path


def load_means(maps: str | Path, fingerprint: str) -> dict[str, Tensor]:
    """The means saved with a family; refused when they belong to other weights."""
    path = Path(maps) / FILE
    if not path.is_file():
        raise StoreError(
            f"{FILE} beside the maps",
            f"none in {path.parent}",
            "Make it with sgfi.decisions.activation_means and save_means, or with sgfi decide --calibration DATA.",
        )
    try:
        with safe_open(path, "pt") as file:
            fitted_on = (file.metadata() or {}).get("fingerprint")
            means = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except (OSError, SafetensorError) as error:
        raise StoreError(f"a readable {FILE}", str(error), "Remove it and collect the means again.") from error
    if fitted_on != fingerprint:
        got = f"means of {str(fitted_on)[:16]}..."
        raise StoreError(f"means of the checkpoint {fingerprint[:16]}...", got, "Collect them again.")
    return means
