"""The natural inverse a second time, naively: every matrix written out, in float64."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import torch
from torch import Tensor

from sgfi.inversion import Query
from sgfi.natural.covariance import Prior
from sgfi.natural.lens import NaturalInverse, natural
from sgfi.natural.path import Path
from sgfi.natural.prior import prior
from sgfi.natural.solution import Solver
from tests.analytic import Tiny, captured, tiny
from tests.oracle import dense_jacobian, evaluate

TIGHT = Solver(steps=400, tolerance=1e-13, exact_up_to=0, probes=4)

QUERIES = {
    "chain": [{}, {"channels": [1, 3]}, {"coords": [(0, 2), (1, 1)]}, {"channels": [0], "coords": [(2, 2)]}],
    "relu": [{}, {"channels": [2]}],
    "gate": [{"channels": [0]}],
    "channels_last": [{"channels": [4]}, {"coords": [(3, 5)]}],
    "tokens": [{}, {"coords": [2]}, {"channels": [5], "coords": [0, 4]}],
    "causal": [{"coords": [3]}],
    "vector": [{}, {"channels": [3, 1]}],
    "signal": [{"channels": [0]}],
    "volume": [{"channels": [1]}],
}

KINDS = {"signal": "grid"}
"""What the inputs of a tiny model are, where the number of axes does not say it."""


def fitted_prior(name: str, count: int = 24) -> Prior:
    """The prior of a tiny model's own inputs."""
    return prior([tiny(name).inputs(count, seed=7)], kind=KINDS.get(name))


def nodes_and_weights(rule: str, points: int) -> tuple[list[float], list[float]]:
    if rule == "end":
        return [1.0], [1.0]
    if rule == "half":
        inner = points - 1
        return [(number + 0.5) / inner for number in range(inner)] + [1.0], [0.5 / inner] * inner + [0.5]
    if rule == "midpoint":
        return [(number + 0.5) / points for number in range(points)], [1 / points] * points
    nodes, weights = np.polynomial.legendre.leggauss(points)
    return ((nodes + 1) / 2).tolist(), (weights / 2).tolist()


def averaged_jacobian(model: Tiny, target: str, x: Tensor, mu: Tensor, rule: str, points: int) -> Tensor:
    """(n, N) of one input ``x`` (1, ...): a weighted mean over points of the straight line from ``mu``."""
    nodes, weights = nodes_and_weights(rule, points)
    parts = [
        weight * dense_jacobian(model, mu + node * (x - mu), "input", target)[0]
        for node, weight in zip(nodes, weights, strict=True)
    ]
    return torch.stack(parts).sum(0)


def selected(shape: Sequence[int], channel_axis: int, query: Query) -> Tensor:
    """(n,) bool: which numbers of the flattened target a query selects; ``channel_axis`` counts with the batch."""
    picks = []
    for index in itertools.product(*map(range, shape)):
        channel = index[channel_axis - 1]
        coord = tuple(at for axis, at in enumerate(index, 1) if axis != channel_axis)
        coords = [at if isinstance(at, tuple) else (at,) for at in query.coords or ()]
        fits = query.channels is None or channel in query.channels
        picks.append(fits and (query.coords is None or coord in coords))
    return torch.tensor(picks)


@dataclass(frozen=True)
class Dense:
    """One input's answer: J (n, N), S (N, N), P (n,) bool or (n, n), and everything that follows."""

    J: Tensor
    S: Tensor
    P: Tensor
    ridge: float
    """lambda itself."""

    @property
    def projector(self) -> Tensor:
        return self.P if self.P.dim() == 2 else torch.diag(self.P.double())

    @property
    def gram(self) -> Tensor:
        """P J S J* P"""
        return self.projector @ self.J @ self.S @ self.J.mT @ self.projector

    @property
    def estimator(self) -> Tensor:
        """(N, n) S J* P (P J S J* P + lambda I)^-1 P"""
        system = self.gram + self.ridge * torch.eye(len(self.P), dtype=torch.float64)
        return self.S @ self.J.mT @ self.projector @ torch.linalg.inv(system) @ self.projector

    @property
    def explained(self) -> Tensor:
        """(N, N) S J* P (...)^-1 P J S"""
        return self.estimator @ self.J @ self.S

    def share(self, shape: Sequence[int], channel_axis: int) -> Tensor:
        """(*coordinates)"""
        known, whole = (
            matrix.diagonal().reshape(tuple(shape)).sum(channel_axis - 1) for matrix in (self.explained, self.S)
        )
        return known / whole

    def detail_share(self, shape: Sequence[int], channel_axis: int) -> Tensor:
        """(*coordinates) of a grid: every channel's average over positions taken off on both sides."""
        sizes = list(shape)
        channels = sizes.pop(channel_axis - 1)
        mean = torch.full((prod(sizes), prod(sizes)), 1 / prod(sizes), dtype=torch.float64)
        keep = torch.block_diag(*[torch.eye(prod(sizes), dtype=torch.float64) - mean] * channels)
        order = torch.arange(prod(shape)).reshape(tuple(shape)).movedim(channel_axis - 1, 0).flatten()
        known, whole = (
            (keep @ matrix[order][:, order] @ keep).diagonal().reshape(channels, *sizes).sum(0)
            for matrix in (self.explained, self.S)
        )
        return known / whole


def lens_of(name: str, jacobian: str | Path = "path", **settings) -> NaturalInverse:
    points = 3 if jacobian == "path" else None
    return natural(captured(name), fitted_prior(name), jacobian, points, **{"ridge": 0.01, **settings})


def query_of(name: str, number: int) -> Query:
    return Query(tiny(name).target, **QUERIES[name][number])


def dense_of(lens: NaturalInverse, name: str, query: Query, x: Tensor) -> Dense:
    """Of one input ``x`` (1, ...)."""
    assert query.target is not None
    model, node = tiny(name), lens.graph.nodes[query.target]
    matrix = averaged_jacobian(model, node.name, x, lens.prior.mean, lens.path.rule, lens.path.points)
    chosen = selected(evaluate(model, x)[node.name].shape[1:], model.channel_axis[node.name], query)
    (answer,) = lens.answer(x, [query])
    return Dense(matrix, lens.prior.dense(), chosen, float(answer.ridge[0]))
