"""Other methods that point at tokens: a global linear map, attention weights, gradients. References, not inversions.

All return a profile (B, L) of shares over input positions, for the feature at one target position. Attributions
have a sign; their size counts (the absolute value of each position's sum).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sgfi.errors import QueryError
from sgfi.graph import TensorGraph
from sgfi.language.profiles import normalised
from sgfi.optional import need

STEPS = 16
"""Points of integrated gradients on the way from the zero embedding, as in the paper."""


@dataclass(frozen=True)
class DirectMap:
    """One linear map from the feature at one position to all input embeddings; it does not use the model."""

    weights: Tensor
    """(D', L * D)."""
    shape: tuple[int, int]

    def __call__(self, features: Tensor) -> Tensor:
        """(B, D') -> (B, L, D)."""
        return (features.double() @ self.weights).reshape(-1, *self.shape)


def direct_map(features: Tensor, embeddings: Tensor, ridge: float = 0.01) -> DirectMap:
    """Fitted in closed form on (N, D') and (N, L, D) with the relative ridge and no intercept."""
    x, y = features.double(), embeddings.double().flatten(1)
    square = x.T @ x
    square.diagonal().add_(ridge * float(square.diagonal().mean()))
    factor = torch.linalg.cholesky(square)
    return DirectMap(torch.cholesky_solve(x.T @ y, factor), tuple(embeddings.shape[1:]))  # type: ignore[arg-type]


@torch.no_grad()
def attention(lm: Any, embeddings: Tensor, layer: int, position: int = -1) -> Tensor:
    """The attention weights of one layer (counted from one) and position, mean over heads: (B, L)."""
    with _eager(lm):
        weights = lm(inputs_embeds=embeddings, use_cache=False, output_attentions=True).attentions
    if not 1 <= layer <= len(weights):
        raise QueryError(f"a layer from 1 to {len(weights)}", str(layer), "Layers count from one.")
    _check_position(position, embeddings)
    return normalised(weights[layer - 1][:, :, position].mean(1).double())


def gradient_times_input(graph: TensorGraph, target: str, embeddings: Tensor, position: int = -1) -> Tensor:
    """Of the squared norm of the feature at one position."""
    return _attributed("InputXGradient", graph, target, embeddings, position)


def integrated_gradients(graph: TensorGraph, target: str, embeddings: Tensor, position: int = -1) -> Tensor:
    """The same along the straight line from the zero embedding."""
    options = {"n_steps": STEPS, "internal_batch_size": max(64, len(embeddings))}
    return _attributed("IntegratedGradients", graph, target, embeddings, position, **options)


def _attributed(
    method: str, graph: TensorGraph, target: str, embeddings: Tensor, position: int, **options: int
) -> Tensor:
    """By captum, of the squared norm of the feature; the size of each position's sum counts."""
    _check_position(position, embeddings)
    program = graph.program(("input",), (graph.nodes.canonical(target),))
    attribution = getattr(need("captum.attr", "language"), method)(
        lambda x: program(x)[0][:, position].square().sum(-1)
    )
    with torch.enable_grad():
        signed = attribution.attribute(embeddings.clone().requires_grad_(), **options)
    return normalised(signed.detach().double().sum(-1).abs())


def _check_position(position: int, embeddings: Tensor) -> None:
    length = embeddings.shape[1]
    if not -length <= position < length:
        raise QueryError(f"a position from 0 to {length - 1}, or -1 for the last", str(position), "Count them again.")


@contextmanager
def _eager(lm: Any) -> Iterator[None]:
    """Fused attention does not return its weights; the model's own implementation is restored on leaving."""
    before = lm.config._attn_implementation
    lm.set_attn_implementation("eager")
    try:
        yield
    finally:
        lm.set_attn_implementation(before)
