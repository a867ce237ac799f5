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
    return centred(graph, target, x, prior)


def centred(graph: TensorGraph, target: str, x: Tensor, prior: Prior, background: Tensor | None = None) -> Tensor:
    """(B, *target) ``H(x)`` less its :func:`mean_state`."""
    return _states(graph, target, x) - mean_state(graph, target, x, prior, background)


def reference_state(graph: TensorGraph, target: str, like: Tensor, prior: Prior) -> Tensor:
    """(*target) ``H(mu)``; of tokens the mean of H over the prior.

    The mean embedding at every position is to a language model a text of one repeated token. All positions read the
    same values and fall into the state of the first, the attention sink, which no text has anywhere else.
    """
    if not prior.of_tokens:
        return _states(graph, target, prior.mean_like(like).unsqueeze(0))[0]
    return mean_state(graph, target, like, prior)


def mean_state(graph: TensorGraph, target: str, like: Tensor, prior: Prior, background: Tensor | None = None) -> Tensor:
    """(*target) the mean of H over ``background`` inputs (N, *input), or over draws of the prior; once for a graph.

    The draws come in pairs about the mean, so that it is ``H(mu)`` exactly where the model is linear.
    """
    sides = tuple((name, contents(value)) for name, value in graph.side_values.items())
    source = prior if background is None else contents(background)
    key = "reference", target, source, sides, like.dtype, like.device
    return graph.cache.get(key, lambda: _mean_state(graph, target, like, prior, background), graph.fingerprint)


@torch.inference_mode(False)  # it is kept: a caller's inference mode or precision must not stay in it
@torch.no_grad()
@full_precision()
def _mean_state(graph: TensorGraph, target: str, like: Tensor, prior: Prior, background: Tensor | None) -> Tensor:
    if background is None:
        mu, draws = prior.mean_like(like), prior.draw(PAIRS, like, SEED)
        background = torch.cat([mu + draws, mu - draws])
    total = sum(_states(graph, target, part).double().sum(0) for part in background.split(ROWS))
    return (total / len(background)).to(like.dtype)  # type: ignore[union-attr]


def _states(graph: TensorGraph, target: str, inputs: Tensor) -> Tensor:
    return Linearisation(graph, {}, inputs, keep=[target]).values[target]
