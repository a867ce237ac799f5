"""Does the inverse, fed forward, look like the target? Representation consistency, apart from input alignment.

A low value does not make an inverse false, and a high one does not make it the input: the numbers are read beside a
random-pair null.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from sgfi.derivatives import Linearisation
from sgfi.evaluation.metrics import pixel_cosine
from sgfi.evaluation.rows import Rows, partner
from sgfi.graph import TensorGraph
from sgfi.inversion import Estimator, Inverse


def forward_states(graph: TensorGraph, x: Tensor, names: Iterable[str]) -> dict[str, Tensor]:
    """The model's own tensors at ``x``, by canonical name."""
    canonical = [graph.nodes.canonical(name) for name in names]
    with torch.no_grad():
        values = Linearisation(graph, {}, x, keep=canonical).values
    return {name: values[name] for name in canonical}


def target_state(estimator: Estimator, x: Tensor, target: str | None = None) -> Tensor:
    """(B, ...) H_T of each image."""
    (state,) = forward_states(estimator.graph, x, [target or estimator.target]).values()
    return state


def reencoding(estimator: Estimator, inverse: Inverse, x: Tensor) -> Rows:
    """Cosine of the inverse's representation with its own target and with that of another image of the batch."""
    inputs = inverse.value + estimator.origin, x
    encoded, truth = (target_state(estimator, value, inverse.query.target) for value in inputs)
    return {
        "matched": {"reencoding_cosine": pixel_cosine(encoded, truth)},
        "random pair": {"reencoding_cosine": pixel_cosine(encoded, partner(truth))},
    }


def roc_auc(positive: ArrayLike, negative: ArrayLike) -> float:
    """The chance that a random positive exceeds a random negative, ties counting half."""
    high, low = (np.asarray(side, dtype=np.float64).reshape(-1) for side in (positive, negative))
    return float((np.sign(high[:, None] - low[None, :]) + 1).mean() / 2)


def separation(rows: dict[str, dict[str, Any]]) -> dict[str, dict[str, float]]:
    """ROC AUC of matched against random-pair re-encoding, over all images."""
    matched, null = (rows[label]["reencoding_cosine"] for label in ("matched", "random pair"))
    return {"matched": {"roc_auc": roc_auc(matched, null)}}
