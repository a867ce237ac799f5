"""The one local update, shared by calibration and inversion.

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

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from sgfi.boundaries import BoundaryDag
from sgfi.graph import Linearisation, LocalMap
from sgfi.spectral import WienerMap


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


def repair(
    local: LocalMap,
    states: Sequence[Tensor],
    seeds: Sequence[Tensor],
    maps: Sequence[WienerMap],
    within: Sequence[Tensor] | None = None,
    first: Tensor | None = None,
) -> Tensor | None:
    """The state at v after the given maps; ``None`` when there are none yet. ``first`` is R where it is known."""
    y: Tensor | None = None
    for wiener in maps:
        observed = source(local, states, seeds, y, within) if y is not None or first is None else first
        y = advance(y, wiener, observed)
    return y


def advance(y: Tensor | None, wiener: WienerMap, observed: Tensor) -> Tensor:
    """One map's contribution added to the estimate so far."""
    return wiener(observed) if y is None else y + wiener(observed)


def walk(
    point: Linearisation,
    dag: BoundaryDag,
    maps: Mapping[str, Sequence[WienerMap]],
    channels: Mapping[str, int],
    terminal: Tensor,
    divisor: Tensor | float,
    within: Mapping[str, Tensor] | None = None,
    most: int | None = None,
) -> dict[str, Tensor]:
    """From the terminal state to the shallowest node that has maps, each node on its repaired children.

    ``divisor`` is ``|S|`` (eq:masked_terminal_seed); every other child is divided by its own channel count
    (eq:online_child_seed). ``within`` tells by boundary which entries lie up to the last queried position; ``most``
    is how many maps of a node are used (all by default). Each node's maps are asked for once, and let go of before the
    next one's. Returns the state of every node visited and of the target.
    """
    states = {dag.target: terminal}
    seeds = {dag.target: terminal / divisor}
    for name in reversed(dag.fitted):
        if name not in maps:
            continue
        children = dag.frontiers[name]
        found = maps[name][:most]
        inside = [within[u] for u in children] if within and found[0].operator.causal else None
        y = repair(point.at(name), [states[u] for u in children], [seeds[u] for u in children], found, inside)
        assert y is not None
        del found
        point.release(name)
        states[name], seeds[name] = y, y / channels[name]
    return states
