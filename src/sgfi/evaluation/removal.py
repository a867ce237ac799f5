"""Does a picture answer its query? Take it out of the input, run the network, and see which features vanish.

For a query q the feature's deviation is ``d_q = P_q (H(x) - H(mu))``. A picture p is scaled, subtracted from the input,
and the network is run once more: ``removal = 1 - <P_q (H(x - p) - H(mu)), d_q> / <d_q, d_q>``: 0 where the feature did
not notice, 1 where it is gone, negative where it grew. A picture that answers its query removes its own feature, and
more of it than any other query's picture does (*best at own*).

Pictures of any method can be compared. Three scales make them comparable:

``"size"``
    one length, a share of the length of ``x - mu``;
``"response"``
    the length at which the derivative at ``x`` says that the feature would be removed by one share: a picture pays for
    being large only where the network is not linear;
``"energy"``
    one prior energy ``p* S^-1 p``: changes that inputs make equally often.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sgfi.derivatives import Linearisation
from sgfi.errors import QueryError
from sgfi.graph import TensorGraph, check_input
from sgfi.inversion import Estimator, Query, sweep
from sgfi.natural import Prior

SCALES = ("size", "response", "energy")
SHARE = 0.15
"""Of the length of ``x - mu`` (or of its prior energy, or of the feature): how much a picture takes out."""
ROWS = 64
"""Edited inputs per forward pass."""


@dataclass(frozen=True, eq=False)
class Removal:
    """What each query's picture takes away from each query's feature."""

    effect: Tensor
    """(B, Q, Q): picture by feature, the share of the feature that is gone."""
    size: Tensor
    """(B, Q): length of the change, relative to that of ``x - mu``."""

    @property
    def own(self) -> Tensor:
        """(B, Q) removal of the queried feature by its own picture."""
        return self.effect.diagonal(dim1=1, dim2=2)

    @property
    def others(self) -> Tensor:
        """(B, Q) mean removal of the other queries' features by a query's picture."""
        count = self.effect.shape[1]
        return (self.effect.sum(2) - self.own) / max(1, count - 1)

    @property
    def best_at_own(self) -> Tensor:
        """(B, Q) 1 where, of all pictures, the query's own removes its feature most (ties are shared)."""
        most = self.effect.amax(1, keepdim=True)  # over pictures
        tied = (self.effect == most).to(self.effect)
        return tied.diagonal(dim1=1, dim2=2) / tied.sum(1)


@torch.no_grad()
def removal(
    graph: TensorGraph,
    x: Tensor,
    queries: Sequence[Query],
    pictures: Sequence[Tensor],
    prior: Prior,
    scale: str = "size",
    share: float = SHARE,
) -> Removal:
    """Remove each query's picture from the input and measure what that does to every query's feature.

    ``pictures`` holds one tensor ``(B, *input)`` a query, of any method and length; all queries ask about one target.
    """
    check_input(graph, x)
    if scale not in SCALES:
        raise QueryError(f"a scale among {list(SCALES)}", repr(scale), "Choose one of these.")
    targets = {query.target for query in queries}
    if len(targets) != 1 or None in targets or len(pictures) != len(queries):
        got = f"{len(queries)} queries on {len(targets)} targets and {len(pictures)} pictures"
        raise QueryError("queries that name one target, and a picture for each", got, "Group them by target.")
    target = graph.nodes.canonical(str(queries[0].target))
    masks = torch.stack([query.mask(graph.nodes[target], x.device) for query in queries])  # (Q, *shape)
    point = Linearisation(graph, {"input": [target]}, x, keep=[target])
    deviation = point.values[target] - _state(graph, target, prior.mean_like(x).unsqueeze(0))
    changes = torch.stack([picture.to(x) for picture in pictures])  # (Q, B, *input)
    factors = _factors(point, masks, deviation, changes, prior, scale, share)
    changes = changes * factors.reshape(*factors.shape, *[1] * (x.dim() - 1))
    edited = _state(graph, target, (x - changes).flatten(0, 1)).unflatten(0, changes.shape[:2])
    lost = point.values[target] - edited  # (Q, B, *shape)
    effect = _projected(lost, deviation, masks).permute(1, 0, 2)
    lengths = _lengths(changes) / _lengths((x - prior.mean_like(x)).unsqueeze(0)).clamp_min(TINY)
    return Removal(effect, lengths.mT)


def removal_of(estimator: Estimator, x: Tensor, queries: Sequence[Query], prior: Prior, scale: str = "size") -> Removal:
    """The same of an estimator's own answers."""
    named = [query.toward(estimator.node(query.target).name) for query in queries]
    pictures = [inverse.value for inverse in sweep(estimator, x, named)]
    return removal(estimator.graph, x, named, pictures, prior, scale)


TINY = 1e-30


def _factors(
    point: Linearisation,
    masks: Tensor,
    deviation: Tensor,
    changes: Tensor,
    prior: Prior,
    scale: str,
    share: float,
) -> Tensor:
    """(Q, B) what each picture is multiplied with; a picture that is zero, or without response, stays zero."""
    x = point.values["input"]
    whole = (x - prior.mean_like(x)).unsqueeze(0)
    if scale == "response":
        pushed = point.at("input").jvp(changes)[0]
        response = _projected(pushed, deviation, masks).diagonal(dim1=0, dim2=2).mT  # (Q, B) own
        return torch.where(response.abs() > TINY, share / response, 0.0)
    measure = _lengths if scale == "size" else lambda stack: prior.energy(stack).sqrt()
    return share * measure(whole) / measure(changes).clamp_min(TINY)


def _projected(lost: Tensor, deviation: Tensor, masks: Tensor) -> Tensor:
    """(pictures, B, features): ``<P_q lost, d_q> / <d_q, d_q>``."""
    weights = masks.to(deviation).flatten(1)  # (Q, N)
    product = (lost * deviation).flatten(2) @ weights.mT
    power = deviation.square().flatten(1) @ weights.mT
    return product / power.clamp_min(TINY)


def _state(graph: TensorGraph, target: str, inputs: Tensor) -> Tensor:
    program = graph.program(("input",), (target,))
    return torch.cat([program(part)[0] for part in inputs.split(ROWS)])


def _lengths(stack: Tensor) -> Tensor:
    """(Q, B, ...) -> (Q, B)"""
    return stack.flatten(2).norm(dim=2)
