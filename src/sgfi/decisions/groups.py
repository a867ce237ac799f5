"""Channel groups to compare: the decision's own, and controls of the same size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from sgfi.errors import QueryError

KINDS = ("positive", "negative", "matched", "random")


@dataclass(frozen=True)
class Groups:
    """Orders of channels of one input; the group of size k is the first k of an order, so groups are nested."""

    positive: tuple[int, ...]
    """Greatest contribution to the margin first."""
    negative: tuple[int, ...]
    """Most negative contribution first."""
    matched: tuple[int, ...]
    """For each top-positive channel in turn the unused channel nearest in activation, itself not top-positive."""
    random: tuple[tuple[int, ...], ...]
    """Repeats, each drawn without replacement from all channels (or from those that are in neither end of the ranking):
    the effect of a group of this size as such."""

    def of(self, kind: str, size: int) -> list[list[int]]:
        """The groups of one kind and size: several for ``random``, one otherwise. Sorted for queries."""
        orders = self.random if kind == "random" else (getattr(self, kind),)
        return [sorted(order[:size]) for order in orders]


def choose(
    scores: Tensor, activation: Tensor, most: int, repeats: int = 20, seed: int = 0, *, apart: bool = False
) -> Groups:
    """Groups of up to ``most`` channels from the scores (C,) and activations (C,) of one input.

    ``apart``: random groups have none of the positive and negative channels.
    """
    count = len(scores)
    if not 1 <= most <= count // 2:
        raise QueryError(
            f"groups of 1 to {count // 2} of the {count} channels (controls need as many others)",
            str(most),
            "Choose smaller groups or a tensor with more channels.",
        )
    order = [int(channel) for channel in scores.argsort(descending=True, stable=True)]
    positive = order[:most]
    free = order[most:-most] if apart else list(range(count))
    if len(free) < most:
        got = f"{len(free)} others than the positive and negative ones"
        raise QueryError(f"{most} channels for random groups", got, "Choose smaller groups.")
    level = activation.double().cpu().numpy()
    rng = np.random.default_rng(seed)
    return Groups(
        positive=tuple(positive),
        negative=tuple(reversed(order[-most:])),
        matched=tuple(_nearest(level, positive)),
        random=tuple(tuple(int(c) for c in rng.permutation(sorted(free))[:most]) for _ in range(repeats)),
    )


def _nearest(level: np.ndarray, chosen: Sequence[int]) -> list[int]:
    """Greedy nearest neighbours in ``level`` (C,), none of them chosen or used twice."""
    free = [channel for channel in range(len(level)) if channel not in set(chosen)]
    return [free.pop(int(np.argmin(np.abs(level[free] - level[channel])))) for channel in chosen]
