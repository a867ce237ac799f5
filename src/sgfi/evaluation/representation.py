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

from sgfi.boundaries import Plan
from sgfi.derivatives import Linearisation
from sgfi.evaluation.metrics import pixel_cosine
from sgfi.evaluation.rows import Rows, partner
from sgfi.inversion import Inverse


def forward_states(plan: Plan, x: Tensor, names: Iterable[str]) -> dict[str, Tensor]:
    """The model's own tensors at ``x``."""
    wanted = [plan.graph.nodes.canonical(name) for name in names]
    with torch.no_grad():
        values = Linearisation(plan.graph, {}, x, keep=wanted).values
    return {name: values[name] for name in wanted}


def reencoding(plan: Plan, found: Inverse, x: Tensor) -> Rows:
    """Cosine of the inverse's representation with its own target and with that of another image of the batch."""
    target = plan.target if found.query.target is None else plan.graph.nodes.canonical(found.query.target)
    again = forward_states(plan, found.value, [target])[target]
    truth = forward_states(plan, x, [target])[target]
    return {
        "matched": {"reencoding_cosine": pixel_cosine(again, truth)},
        "random pair": {"reencoding_cosine": pixel_cosine(again, partner(truth))},
    }


def roc_auc(positive: ArrayLike, negative: ArrayLike) -> float:
    """The chance that a random positive exceeds a random negative, ties counting half."""
    high, low = (np.asarray(side, dtype=np.float64).reshape(-1) for side in (positive, negative))
    steps = np.sign(high[:, None] - low[None, :])
    return float((steps + 1).mean() / 2)


def separation(rows: dict[str, dict[str, Any]]) -> dict[str, dict[str, float]]:
    """ROC AUC of matched against random-pair re-encoding, over all images."""
    one, other = (rows[label]["reencoding_cosine"] for label in ("matched", "random pair"))
    return {"matched": {"roc_auc": roc_auc(one, other)}}
