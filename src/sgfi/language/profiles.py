"""Evidence profiles: where among the input positions an inverse has its energy."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor


def energy_profile(value: Tensor) -> Tensor:
    """Share of each position in the inverse's energy (eq:language_inverse_energy): (..., L, D) -> (..., L).

    An inverse that is exactly zero has no profile; it is returned as zeros.
    """
    return normalised(value.double().square().sum(-1))


def normalised(weights: Tensor) -> Tensor:
    """Non-negative weights (..., L) as shares that sum to one, or zeros where there are none."""
    total = weights.sum(-1, keepdim=True)
    return torch.where(total > 0, weights / total.clamp_min(torch.finfo(weights.dtype).tiny), 0.0)


def entropy(profile: Tensor) -> Tensor:
    """Shannon entropy over log L: 0 for a single position, 1 for all alike. (..., L) -> (...)"""
    return torch.special.entr(profile).sum(-1) / math.log(profile.shape[-1])


def mass(profile: Tensor, positions: Sequence[int]) -> Tensor:
    """The share of some positions together: (..., L) -> (...)."""
    return profile[..., list(positions)].sum(-1)


def future_mass(profile: Tensor, last: int) -> Tensor:
    """The share of the positions after the last queried one: (..., L) -> (...)."""
    return profile[..., last + 1 :].sum(-1)


def top_overlap(first: Tensor, second: Tensor, count: int = 5) -> Tensor:
    """Share of the ``count`` strongest positions that two profiles have in common: (B, L), (B, L) -> (B,)."""
    most = min(count, first.shape[-1])
    left, right = (profile.topk(most, dim=-1).indices for profile in (first, second))
    return (left.unsqueeze(-1) == right.unsqueeze(-2)).any(-1).double().mean(-1)
