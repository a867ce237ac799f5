"""What a feature is compared with: its state where nothing is known of the input."""

from __future__ import annotations

import torch
from torch import Tensor

from sgfi.derivatives import Linearisation
from sgfi.graph import TensorGraph, full_precision
from sgfi.inversion.estimator import deviation
from sgfi.natural.covariance import Prior
from sgfi.natural.recent import contents

PAIRS, SEED, ROWS = 32, 3000, 16
"""Draws of the prior, each with its mirror image about the mean; where they begin; inputs in one forward pass."""


def registered(graph: TensorGraph, target: str, x: Tensor, prior: Prior) -> Tensor:
    """(B, *target) what a tensor registered of the inputs: ``H(x)`` less its reference."""
    if not prior.of_tokens:
        return deviation(graph, target, x, prior.mean_like(x))
    return _states(graph, target, x) - reference_state(graph, target, x, prior)


def reference_state(graph: TensorGraph, target: str, like: Tensor, prior: Prior) -> Tensor:
    """(*target) ``H(mu)``; of tokens the mean of H over the prior.

    The mean embedding at every position is to a language model a text of one repeated token. All positions read the
    same values and fall into the state of the first, the attention sink, which no text has anywhere else.
    The draws come in pairs about the mean, so that the reference of a linear model is ``H(mu)`` exactly.
    """
    if not prior.of_tokens:
        return _states(graph, target, prior.mean_like(like).unsqueeze(0))[0]
    sides = tuple((name, contents(value)) for name, value in graph.side_values.items())
    key = "reference", target, prior, sides, like.dtype, like.device
    return graph.cache.get(key, lambda: _mean_state(graph, target, like, prior), graph.fingerprint)


@torch.inference_mode(False)  # it is kept: a caller's inference mode or precision must not stay in it
@torch.no_grad()
@full_precision()
def _mean_state(graph: TensorGraph, target: str, like: Tensor, prior: Prior) -> Tensor:
    mu, draws = prior.mean_like(like), prior.draw(PAIRS, like, SEED)
    parts = torch.cat([mu + draws, mu - draws]).split(ROWS)
    total = sum(_states(graph, target, part).double().sum(0) for part in parts)
    return (total / (2 * PAIRS)).to(like.dtype)  # type: ignore[union-attr]


def _states(graph: TensorGraph, target: str, inputs: Tensor) -> Tensor:
    return Linearisation(graph, {}, inputs, keep=[target]).values[target]
