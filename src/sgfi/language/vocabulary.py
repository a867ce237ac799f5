"""From embeddings back to words: descriptive checks, not the method."""

from __future__ import annotations

import torch
from torch import Tensor

ROWS = 512
"""Positions compared with the vocabulary at a time."""


def nearest(value: Tensor, table: Tensor, count: int = 1) -> Tensor:
    """The ids of the nearest vocabulary embeddings by Euclidean distance: (..., D), (V, D) -> (..., count)."""
    offset = table.square().sum(1)
    rows = value.reshape(-1, value.shape[-1]).to(table.dtype)
    ids = [
        (2 * part @ table.T - offset).topk(count, dim=1).indices  # |e|^2 is the same for every word
        for part in rows.split(ROWS)
    ]
    return torch.cat(ids).reshape(*value.shape[:-1], count)


def token_cosine(value: Tensor, embeddings: Tensor) -> Tensor:
    """Cosine position by position: (B, L, D), (B, L, D) -> (B, L)."""
    return torch.cosine_similarity(value.double(), embeddings.double(), dim=-1)


def exact_tokens(value: Tensor, table: Tensor, ids: Tensor, count: int = 1) -> Tensor:
    """Whether the input token is among the nearest ``count``: (B, L, D), (V, D), (B, L) -> (B, L) bool."""
    return (nearest(value, table, count) == ids.unsqueeze(-1)).any(-1)
