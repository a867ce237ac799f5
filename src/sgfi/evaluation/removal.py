"""Does a picture answer its query? Take it out of the input, run the network, and see which features vanish.

For a query q the feature's deviation is ``d_q = P_q (H(x) - H(mu))``; of tokens the reference is not ``H(mu)`` but the
mean of H over the prior (:mod:`sgfi.natural.reference`). A picture p is scaled, subtracted from the input, and the
network is run once more: ``removal = <P_q (H(x) - H(x - p)), d_q> / <d_q, d_q>``: 0 where the feature did not notice,
1 where it is gone, negative where it grew. A picture that answers its query removes its own feature, and
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

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sgfi.derivatives import Linearisation
from sgfi.errors import QueryError
from sgfi.evaluation.stacks import TINY, along, checked_queries, lengths, state
from sgfi.graph import TensorGraph
from sgfi.inversion import Estimator, Query, Selections, checked_query, common_target, sweep
from sgfi.natural import Prior, reference_state

SCALES = ("size", "response", "energy")
SHARE = 0.15
"""Of the length of ``x - mu`` (or of its prior energy, or of the feature): how much a picture takes out."""


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
        return best_at_own(self.effect)


def best_at_own(effect: Tensor) -> Tensor:
    """(B, Q, Q) picture by feature -> (B, Q): 1 where no other picture reaches the feature further; ties share."""
    tied = (effect == effect.amax(1, keepdim=True)).to(effect)  # over pictures
    return tied.diagonal(dim1=1, dim2=2) / tied.sum(1)


@dataclass(frozen=True, eq=False)
class Trial:
    """One batch and its queries, ready to judge the pictures of any method; the forward pass is shared by all."""

    graph: TensorGraph
    prior: Prior
    target: str
    point: Linearisation
    """At x, from the input to the target."""
    deviations: Tensor
    """(Q, B, *target) ``d_q``"""

    @classmethod
    @torch.inference_mode(False)
    @torch.no_grad()
    def of(cls, graph: TensorGraph, x: Tensor, queries: Sequence[Query], prior: Prior) -> Trial:
        queries = checked_queries(graph, x, queries, prior)
        target = common_target(graph, queries)
        chosen = Selections.of(query.selection(graph.nodes[target], x.device) for query in queries)
        point = Linearisation(graph, {"input": [target]}, x, keep=[target])
        deviation = point.values[target] - reference_state(graph, target, x, prior)
        return cls(graph, prior, target, point, chosen.project(deviation))

    @property
    def x(self) -> Tensor:
        """(B, *input)"""
        return self.point.values["input"]

    @torch.inference_mode(False)
    @torch.no_grad()
    def removal(
        self, pictures: Sequence[Tensor], scale: str = "size", share: float = SHARE, pushed: Tensor | None = None
    ) -> Removal:
        """Each picture scaled, taken out of the input, and the network run once more.

        ``pushed`` is what :meth:`pushed` returned for these pictures, where it is at hand.
        """
        if scale not in SCALES:
            raise QueryError(f"a scale among {list(SCALES)}", repr(scale), "Choose one of these.")
        if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 < share < math.inf:
            raise QueryError("a positive share", repr(share), f"{SHARE} is usual.")
        x, changes = self.x, self._stacked(pictures)
        factors = self._factors(changes, scale, share, pushed)
        changes = changes * factors.reshape(*factors.shape, *[1] * (x.dim() - 1))
        edited = state(self.graph, self.target, (x - changes).flatten(0, 1)).unflatten(0, changes.shape[:2])
        lost = self.point.values[self.target] - edited  # (Q, B, *shape)
        effect = along(lost, self.deviations).permute(1, 0, 2)
        size = lengths(changes) / lengths(self._whole).clamp_min(TINY)
        return Removal(effect, size.mT)

    @torch.inference_mode(False)
    @torch.no_grad()
    def pushed(self, pictures: Sequence[Tensor]) -> Tensor:
        """(B, Q, Q) picture by feature: what each picture does to each feature to first order, at unit length.

        :func:`best_at_own` of it says which queries excite themselves.
        """
        changes = self._stacked(pictures)
        reached = along(self.point.at("input").jvp(changes)[0], self.deviations)
        return (reached / lengths(changes).clamp_min(TINY).unsqueeze(2)).permute(1, 0, 2)

    @property
    def _whole(self) -> Tensor:
        return (self.x - self.prior.mean_like(self.x)).unsqueeze(0)

    def _stacked(self, pictures: Sequence[Tensor]) -> Tensor:
        """(Q, B, *input)"""
        if len(pictures) != len(self.deviations):
            got = f"{len(self.deviations)} queries and {len(pictures)} pictures"
            raise QueryError("a picture for each query", got, "Give one (B, *input) a query.")
        for picture in pictures:
            if not isinstance(picture, Tensor) or picture.shape != self.x.shape or not picture.isfinite().all():
                got = f"{tuple(picture.shape)}" if isinstance(picture, Tensor) else type(picture).__name__
                raise QueryError(
                    f"finite pictures {tuple(self.x.shape)}", got, "One of the input's shape for each query."
                )
        return torch.stack([picture.to(self.x) for picture in pictures])

    def _factors(self, changes: Tensor, scale: str, share: float, pushed: Tensor | None) -> Tensor:
        """(Q, B) what each picture is multiplied with; a picture that is zero, or without response, stays zero."""
        if scale == "response":
            pushed = self.pushed(list(changes)) if pushed is None else pushed
            response = pushed.diagonal(dim1=1, dim2=2).mT * lengths(changes)  # (Q, B) own
            return torch.where(response.abs() > TINY, share / response, 0.0)
        measure = lengths if scale == "size" else lambda stack: self.prior.energy(stack).sqrt()
        return share * measure(self._whole) / measure(changes).clamp_min(TINY)


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
    return Trial.of(graph, x, queries, prior).removal(pictures, scale, share)


def removal_of(estimator: Estimator, x: Tensor, queries: Sequence[Query], prior: Prior, scale: str = "size") -> Removal:
    """The same of an estimator's own answers."""
    asked = [checked_query(query, estimator.graph) for query in queries]
    named = [query.toward(estimator.node(query.target).name) for query in asked]
    pictures = [inverse.value for inverse in sweep(estimator, x, named)]
    return removal(estimator.graph, x, named, pictures, prior, scale)
