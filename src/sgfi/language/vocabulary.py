"""From embeddings back to words, and from inverses back into the model: descriptive checks, not the method."""

from __future__ import annotations

import torch
from torch import Tensor

from sgfi.errors import DataError

ROWS = 512
"""Positions compared with the vocabulary at a time."""


def nearest(value: Tensor, table: Tensor, count: int = 1) -> Tensor:
    """The ids of the nearest vocabulary embeddings by Euclidean distance: (..., D), (V, D) -> (..., count)."""
    offset = table.square().sum(1)
    rows = value.reshape(-1, value.shape[-1]).to(table.dtype)
    found = [
        (2 * part @ table.T - offset).topk(count, dim=1).indices  # |e|^2 is the same for every word
        for part in rows.split(ROWS)
    ]
    return torch.cat(found).reshape(*value.shape[:-1], count)


def token_cosine(value: Tensor, source: Tensor) -> Tensor:
    """Cosine position by position: (B, L, D), (B, L, D) -> (B, L)."""
    return torch.cosine_similarity(value.double(), source.double(), dim=-1)


def exact_tokens(value: Tensor, table: Tensor, ids: Tensor, count: int = 1) -> Tensor:
    """Whether the source token is among the nearest ``count``: (B, L, D), (V, D), (B, L) -> (B, L) bool."""
    return (nearest(value, table, count) == ids.unsqueeze(-1)).any(-1)


def reencoding_auc(again: Tensor, original: Tensor, centre: Tensor) -> float:
    """How well a re-encoded inverse is told apart: the chance that its feature is nearer to its own source's.

    ``again`` (N, ...) are the target features of the inverses run through the model, ``original`` those of the
    sources, ``centre`` the feature's calibration mean, which is taken away first: without it everything looks alike.
    Matched cosines against all cross ones; ties count half.
    """
    if len(again) < 2 or again.shape != original.shape:
        raise DataError(
            "two or more features of one shape", f"{tuple(again.shape)} and {tuple(original.shape)}", "Pair them up."
        )
    one, other = (torch.nn.functional.normalize((part - centre).double().flatten(1)) for part in (again, original))
    cosines = one @ other.T
    matched = cosines.diagonal().unsqueeze(1)
    cross = cosines[~torch.eye(len(cosines), dtype=torch.bool)].reshape(len(cosines), -1)
    every = cross.flatten().unsqueeze(0)
    return float((matched > every).double().mean() + (matched == every).double().mean() / 2)
