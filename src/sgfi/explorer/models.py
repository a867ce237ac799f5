"""Open lenses as the page lists them: tensors, shapes, and who is upstream of whom."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import sgfi
from sgfi.evaluation.quality import advice, quality
from sgfi.explorer.lenses import Lens
from sgfi.graph import Node

RECENT: dict[str, dict[str, Any]] = {}


def describe_lens(lens: Lens) -> dict[str, Any]:
    """JSON-able; worked out once a lens."""
    if lens.id not in RECENT:
        RECENT[lens.id] = {
            "id": lens.id,
            "title": lens.title,
            "kind": lens.kind,
            "input": list(lens.loaded.input_shape),
            "text": lens.text,
            "picture": lens.picture,
            "target": lens.estimator.node().name,
            "nodes": [_node(lens.estimator.node(name)) for name in lens.estimator.targets],
            "edges": edges(lens.estimator),
            "settings": lens.estimator.describe(),
            "source": str(lens.source.get("source", "")),
        }
    return RECENT[lens.id]


def edges(estimator: sgfi.Estimator) -> list[list[str]]:
    """The boundary DAG: from each boundary to those that read it without another one in between."""
    graph, names = estimator.graph, ["input", *estimator.targets]
    names = [graph.nodes.canonical(name) for name in names]
    above = {name: graph.ancestors(name) & set(names) for name in names}
    return [
        [start, end]
        for end in names
        for start in sorted(above[end], key=names.index)
        if not any(start in above[middle] for middle in above[end])
    ]


def quality_of(lens: Lens) -> dict[str, Any]:
    """What ``sgfi maps info --quality`` knows of a map folder: the error of every node, and advice. Else no nodes."""
    calibration = lens.manifest.get("calibration")
    if calibration is None:
        why = "no maps: every answer has a residual and controls of its own"
        return {"nodes": [], "advice": [], "why": why if lens.kind == "natural" else "these maps have no manifest"}
    nodes = quality(lens.manifest)
    return {"nodes": [asdict(node) for node in nodes], "advice": advice(nodes, calibration["samples"])}


def _node(node: Node) -> dict[str, Any]:
    return {
        "name": node.name,
        "aliases": list(node.aliases),
        "channels": node.channels,
        "coords": list(node.coord_shape),
        "op": node.op,
    }
