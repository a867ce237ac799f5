"""Scores to sort units by, and the groups that a decision leans on with independent interventions beside them."""

from __future__ import annotations

from itertools import product
from typing import Any

import torch
from torch import Tensor

import sgfi
from sgfi.decisions import Edit, Split, choose, intervene, rank
from sgfi.errors import QueryError
from sgfi.inversion.query import format_channels

SIZES = (1, 4, 8)
REPEATS = 8


def scores(estimator: sgfi.Estimator, x: Tensor, query: sgfi.Query) -> dict[str, Any]:
    """Of every channel and cell of a tensor: how strongly it is active, and what it adds to the decision."""
    node = estimator.node(query.target)
    square = estimator.state(x, node.name)[0].double().square()
    axis = (node.channel_axis or 1) - 1
    rest = tuple(other for other in range(square.dim()) if other != axis)
    channels = square.mean(rest).sqrt() if rest else square.sqrt()
    cells = square.mean(axis).sqrt()
    facts: dict[str, Any] = {
        "node": node.name,
        "channels": {"activation": _rounded(channels)},
        "cells": {"activation": _rounded(cells), "at": [list(at) for at in product(*map(range, node.coord_shape))]},
    }
    try:
        contribution = rank(estimator.graph, x, [node])[node.name]
    except QueryError as error:  # no logits, or nothing of the decision reads this tensor
        return {**facts, "decision": None, "why": str(error)}
    facts["channels"]["contribution"] = _rounded(contribution.channels[0])
    facts["cells"]["contribution"] = _rounded(contribution.coords[0])
    return {**facts, "decision": _decision(contribution.decision)}


def groups(estimator: sgfi.Estimator, x: Tensor, query: sgfi.Query) -> dict[str, Any]:
    """The channels that carry the decision, the ones against it, controls; and what zeroing them does to the margin.

    The interventions run the original model on edited activations. No inverse is involved.
    """
    node = estimator.node(query.target)
    contribution = rank(estimator.graph, x, [node])[node.name]
    split = Split(estimator.graph, x, node)
    sizes = [size for size in SIZES if size <= node.channels // 2]
    if not sizes:
        raise QueryError("a tensor of two channels or more", str(node.channels), "Choose another tensor.")
    chosen = choose(contribution.channels[0], contribution.activation[0], sizes[-1], REPEATS)
    rows = []
    for kind in ("positive", "negative", "matched", "random"):
        for size in sizes:
            drawn = chosen.of(kind, size)
            effects = intervene(split, [Edit(group) for group in drawn])
            rows.append(
                {
                    "kind": kind,
                    "size": size,
                    "query": f"{node.name}:{format_channels(drawn[0])}",
                    "contribution": float(contribution.channels[0][drawn[0]].sum()),
                    "drop": float(effects.drop.mean()),
                    "flipped": float(effects.flipped.double().mean()),
                    "groups": len(drawn),
                }
            )
    return {"node": node.name, "decision": _decision(contribution.decision), "rows": rows}


def _decision(decision: Any) -> dict[str, Any]:
    return {
        "top": int(decision.top[0]),
        "second": int(decision.second[0]),
        "margin": float(decision.margin[0]),
        "probability": float(torch.softmax(decision.logits[0].double(), 0)[decision.top[0]]),
    }


def _rounded(numbers: Tensor) -> list[float]:
    return [float(f"{number:.5g}") for number in numbers.flatten().tolist()]
