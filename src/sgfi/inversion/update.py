"""The one local update and the one walk, shared by calibration, inversion and every diagnostic.

At a boundary v with frontier C_v, child states y_u and child seeds s_u::

    y = 0;   R  = sum J* s_u              first source       (eq:local_mean_raw, eq:online_raw)
    y += G R                              first map          (eq:first_stage_state)
    C  = sum J* (y_u - J y)               next source        (eq:jvp_fc_source, eq:online_jvp_fc_source)
    y += D C                              correction         (eq:jvp_fc_state, eq:online_jvp_fc_state)

and so on for every further correction map. Where the maps are causal, the residual ``y_u - J y`` counts up to the
last queried position only: ``J y`` goes on to later ones, which the query did not ask about. The whole target, which
calibration asks for, ends at the last position, so that there is nothing to cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sgfi.boundaries import Boundary, BoundaryDag
from sgfi.derivatives import Linearisation, LocalMap
from sgfi.spectral import WienerMap

Maps = Mapping[str, Sequence[WienerMap]]
"""A node's maps in order; may be read from disk when asked for."""
Seed = Callable[[Tensor, Boundary], Tensor]
"""A child's state (B, ...) and its boundary -> what is pulled back from it."""


def mean_seed(state: Tensor, boundary: Boundary) -> Tensor:
    """``H_u / C_u`` (eq:local_mean_raw, eq:online_child_seed)."""
    return state / boundary.channels


def source(
    local: LocalMap,
    states: Sequence[Tensor],
    seeds: Sequence[Tensor],
    y: Tensor | None,
    within: Sequence[Tensor] | None = None,
) -> Tensor:
    """What the next map reads: the pulled-back seeds, or the pulled-back residual of the estimate so far.

    ``within`` is true, child by child, where the residual counts; ``None``: everywhere.
    """
    if y is None:
        return local.vjp(seeds)
    residuals = [state - pushed for state, pushed in zip(states, local.jvp(y), strict=True)]
    if within is not None:
        residuals = [torch.where(inside, left, 0.0) for inside, left in zip(within, residuals, strict=True)]
    return local.vjp(residuals)


def estimates(
    local: LocalMap,
    states: Sequence[Tensor],
    seeds: Sequence[Tensor],
    maps: Sequence[WienerMap],
    within: Sequence[Tensor] | None = None,
    first: Tensor | None = None,
) -> Iterator[Tensor]:
    """The state at v after the first map, after the second, ... ``first`` is R where it is known already."""
    y: Tensor | None = None
    for wiener in maps:
        observed = source(local, states, seeds, y, within) if y is not None or first is None else first
        y = wiener(observed) if y is None else y + wiener(observed)
        yield y


@dataclass(frozen=True)
class Update:
    """One node of a walk: what its update read, and what it made. The local map lives until the walk goes on."""

    name: str
    children: tuple[str, ...]
    local: LocalMap
    given: tuple[Tensor, ...]
    """(B, ...) the children's states the update read."""
    seeds: tuple[Tensor, ...]
    """(B, ...) what was pulled back from each child."""
    estimates: tuple[Tensor, ...]
    """(B, ...) the state after the first map, after the second, ..."""

    @property
    def state(self) -> Tensor:
        return self.estimates[-1]


def walk(
    point: Linearisation,
    dag: BoundaryDag,
    maps: Maps,
    terminal: Tensor,
    seed: Callable[[Tensor, str], Tensor],
    within: Mapping[str, Tensor] | None = None,
    true_children: bool = False,
) -> Iterator[Update]:
    """From the terminal state to the shallowest node that has maps, each node on its repaired children.

    ``seed`` turns a child's state into what is pulled back from it; ``within`` tells by boundary which entries lie up
    to the last queried position. ``true_children`` hands every update the forward values of its children instead: a
    diagnostic that cannot be deployed, since it knows what it is to find. Each node's maps are asked for once, and let
    go of before the next one's.
    """
    states = {dag.target: terminal}
    for name in reversed(dag.fitted):
        if name not in maps:
            continue
        children, local, own = dag.frontiers[name], point.at(name), maps[name]
        given = tuple(point.values[u] if true_children else states[u] for u in children)
        seeds = tuple(seed(state, u) for state, u in zip(given, children, strict=True))
        inside = [within[u] for u in children] if within and own[0].operator.causal else None
        update = Update(name, children, local, given, seeds, tuple(estimates(local, given, seeds, own, inside)))
        del own
        states[name] = update.state
        yield update
        point.release(name)
