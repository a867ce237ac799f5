"""Next-token decisions: which channels of a token stream carry the margin, at the last position or at all of them.

The intervention edits the original representation and never sees an inverse.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sgfi.decisions.groups import Groups, choose
from sgfi.decisions.interventions import Edit, intervene
from sgfi.decisions.ranking import Contribution, rank
from sgfi.decisions.readout import Split
from sgfi.errors import QueryError
from sgfi.graph import TensorGraph

SIZES = (8, 16, 32, 64)
REACHES = ("terminal", "all")
"""Where a channel group is ranked, queried and edited: at the last position only, or at every position."""


@dataclass(frozen=True, eq=False)
class TokenDecisions:
    """What editing channel groups did to the margin of B contexts."""

    drops: dict[str, dict[int, Tensor]]
    """kind -> size -> (B,) margin drop; ``random`` is (B, repeats)."""
    groups: tuple[Groups, ...]
    """One a context."""
    margin: Tensor
    """(B,) before any edit."""


def positions(reach: str, length: int) -> list[int] | None:
    """The coordinates of a reach; ``None`` for all."""
    if reach not in REACHES:
        raise QueryError(f"a reach among {list(REACHES)}", repr(reach), "Choose one of these.")
    return [length - 1] if reach == "terminal" else None


def scores(found: Contribution, reach: str) -> Tensor:
    """(B, C) activation times margin gradient, at the last position or summed over all."""
    return found.value[:, -1] if reach == "terminal" else found.channels


def decide_tokens(
    graph: TensorGraph,
    x: Tensor,
    target: str,
    *,
    rank_by: str = "terminal",
    edit_at: Sequence[str] = ("terminal",),
    sizes: Sequence[int] = SIZES,
    repeats: int = 32,
    seed: int = 0,
) -> dict[str, TokenDecisions]:
    """Rank once, then edit at each reach. The graph's output must be the last position's logits, (B, vocabulary).

    Groups are the ``k`` most positive and most negative channels and ``repeats`` random ones, set to zero.
    """
    (found,) = rank(graph, x, [target]).values()
    score = scores(found, rank_by)
    groups = tuple(
        choose(score[place], found.activation[place], max(sizes), repeats, seed + place) for place in range(len(x))
    )
    told: dict[str, TokenDecisions] = {}
    for reach in edit_at:
        where = positions(reach, x.shape[1])
        rows = [_drops(graph, x[place : place + 1], target, groups[place], where, sizes) for place in range(len(x))]
        drops: dict[str, dict[int, Tensor]] = {
            kind: {size: torch.stack([row[kind][size] for row in rows]) for size in sizes} for kind in rows[0]
        }
        told[reach] = TokenDecisions(drops, groups, found.decision.margin)
    return told


def _drops(
    graph: TensorGraph, x: Tensor, target: str, groups: Groups, where: list[int] | None, sizes: Sequence[int]
) -> dict[str, dict[int, Any]]:
    """Every group of one context in one run."""
    kinds = ("positive", "negative", "random")
    asked = [(kind, size, group) for kind in kinds for size in sizes for group in groups.of(kind, size)]
    effects = intervene(Split(graph, x, target), [Edit(group, where) for *_, group in asked])
    found: dict[str, dict[int, Any]] = {kind: {size: [] for size in sizes} for kind in kinds}
    for (kind, size, _), drop in zip(asked, effects.drop[:, 0], strict=True):
        found[kind][size].append(drop)
    return {
        kind: {size: torch.stack(drops) if kind == "random" else drops[0] for size, drops in by_size.items()}
        for kind, by_size in found.items()
    }
