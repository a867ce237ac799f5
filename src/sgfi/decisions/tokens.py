"""Next-token decisions: which channels of a token stream carry the margin, at the last position or at all of them.

The intervention edits the original representation and never sees an inverse.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sgfi.decisions.groups import Groups, choose
from sgfi.decisions.interventions import Edit, intervene
from sgfi.decisions.ranking import Contribution, rank
from sgfi.decisions.readout import Split
from sgfi.errors import QueryError
from sgfi.graph import TensorGraph
from sgfi.settings import JsonSettings

SIZES = (8, 16, 32, 64)
REACHES = ("terminal", "all")
"""Where a channel group is ranked, queried and edited: at the last position only, or at every position."""


@dataclass(frozen=True)
class TokenSettings(JsonSettings):
    """What is compared. JSON-able, so that a file can declare an experiment."""

    rank_by: str = "terminal"
    """The reach over which channels are ranked."""
    edit_at: tuple[str, ...] = ("terminal",)
    """The reaches at which they are edited."""
    sizes: tuple[int, ...] = SIZES
    repeats: int = 32
    """Random groups per context."""
    apart: bool = False
    """Random groups have none of the most positive and most negative channels."""
    seed: int = 0


@dataclass(frozen=True, eq=False)
class TokenDecisions:
    """What editing channel groups did to the margin of B contexts."""

    drops: dict[str, dict[int, Tensor]]
    """kind -> size -> (B,) margin drop; ``random`` is (B, repeats)."""
    groups: tuple[Groups, ...]
    """One per context."""
    margin: Tensor
    """(B,) before any edit."""


def positions(reach: str, length: int) -> list[int] | None:
    """The coordinates of a reach; ``None`` for all."""
    if reach not in REACHES:
        raise QueryError(f"a reach among {list(REACHES)}", repr(reach), "Choose one of these.")
    return [length - 1] if reach == "terminal" else None


def scores(contribution: Contribution, reach: str) -> Tensor:
    """(B, C) activation times margin gradient, at the last position or summed over all."""
    return contribution.value[:, -1] if reach == "terminal" else contribution.channels


def decide_tokens(
    graph: TensorGraph, x: Tensor, node: str, settings: TokenSettings | None = None
) -> dict[str, TokenDecisions]:
    """Rank the channels of a tensor once, then edit at each reach: reach -> decisions.

    The graph's output must be the last position's logits, (B, vocabulary). Groups are the ``k`` most positive and most
    negative channels and ``repeats`` random ones, set to zero.
    """
    settings = settings or TokenSettings()
    (contribution,) = rank(graph, x, [node]).values()
    score, most = scores(contribution, settings.rank_by), max(settings.sizes)
    groups = tuple(
        choose(score[i], contribution.activation[i], most, settings.repeats, settings.seed + i, apart=settings.apart)
        for i in range(len(x))
    )
    decisions: dict[str, TokenDecisions] = {}
    for reach in settings.edit_at:
        coords = positions(reach, x.shape[1])
        rows = [
            _drops(Split(graph, x[index : index + 1], node), own, coords, settings.sizes)
            for index, own in enumerate(groups)
        ]
        drops: dict[str, dict[int, Tensor]] = {
            kind: {size: torch.stack([row[kind][size] for row in rows]) for size in settings.sizes} for kind in rows[0]
        }
        decisions[reach] = TokenDecisions(drops, groups, contribution.decision.margin)
    return decisions


def _drops(
    split: Split, groups: Groups, coords: list[int] | None, sizes: Sequence[int]
) -> dict[str, dict[int, Tensor]]:
    """Every group of one context in one run."""
    kinds = ("positive", "negative", "random")
    edits = {(kind, size): groups.of(kind, size) for kind in kinds for size in sizes}
    effects = intervene(split, [Edit(group, coords) for own in edits.values() for group in own])
    parts = effects.drop[:, 0].split([len(own) for own in edits.values()])
    drops: dict[str, dict[int, Tensor]] = {kind: {} for kind in kinds}
    for (kind, size), part in zip(edits, parts, strict=True):
        drops[kind][size] = part if kind == "random" else part[0]
    return drops
